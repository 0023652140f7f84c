/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the commands: errors, options, targets, JSON. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int crn_cli_fail(struct cli *cli)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "cairn: %s\n", cli->info.msg);
    if (cli->is_json && !cli->has_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_object(j, "error");
        crn_json_str(j, "code", cairn_error_name(cli->info.code));
        crn_json_str(j, "message", cli->info.msg);
        crn_json_end_object(j);
        (void)crn_cli_json_end(cli, CLI_PROBLEM);
    }
    crn_err_clear(&cli->info);
    return CLI_PROBLEM;
}

static int is_stale(const struct crn_version *v)
{
    return v != NULL && !crn_version_is_current(v);
}

int crn_cli_fail_reading(struct cli *cli, const struct crn_version *v,
                         const struct crn_version *other)
{
    const struct crn_version *stale = is_stale(v) ? v : is_stale(other) ? other : NULL;
    const struct crn_manifest *m = stale != NULL ? crn_version_manifest(stale) : NULL;
    cairn_err code = cli->info.code;

    if (m != NULL && (code == CAIRN_EDAMAGED || code == CAIRN_EFORMAT || code == CAIRN_ENOENT))
        (void)!crn_err_context(cli->ei, code, "%s@%lld was removed or replaced while it was read",
                               m->name, (long long)m->version);
    return crn_cli_fail(cli);
}

int crn_cli_problem(struct cli *cli, cairn_err code, const char *fmt, ...)
{
    va_list ap;

    crn_err_clear(&cli->info);
    cli->info.code = code;
    va_start(ap, fmt);
    (void)vsnprintf(cli->info.msg, sizeof(cli->info.msg), fmt, ap);
    va_end(ap);
    return crn_cli_fail(cli);
}

void crn_cli_note(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    if (cli->is_quiet)
        return;
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
}

int crn_cli_usage(struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    (void)fprintf(stderr, "cairn: ");
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (cli->command != NULL)
        (void)fprintf(stderr, "\nusage: cairn %s %s\n", cli->command->name, cli->command->args);
    else
        (void)fprintf(stderr, "\n`cairn --help` lists the commands and options\n");
    return CLI_USAGE;
}

int crn_cli_option(struct cli *cli, int argc, char **argv, const char *letters,
                   const struct option *longs)
{
    int c;

    opterr = 0;
    c = getopt_long(argc, argv, letters, longs, NULL);
    if (c == '?') /* optind is after the bad word, or on it inside a group of letters */
        (void)crn_cli_usage(cli, "option '%s' is unknown or lacks its value",
                            optind > 1 ? argv[optind - 1] : argv[optind]);
    return c;
}

int crn_cli_number(struct cli *cli, const char *what, const char *text, int64_t *ret)
{
    char *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0) {
        (void)crn_cli_usage(cli, "%s '%s' is not a number >= 0", what, text);
        return -1;
    }
    *ret = value;
    return 0;
}

int crn_cli_number_of(struct cli *cli, const struct option *longs, int value, int64_t *ret)
{
    char what[64];

    while (longs->val != value)
        longs++;
    (void)snprintf(what, sizeof(what), "--%s", longs->name);
    return crn_cli_number(cli, what, optarg, ret);
}

cairn_err crn_cli_words(const char *option, const char *list,
                        cairn_err (*take)(void *arg, const char *word, struct crn_errinfo *ei),
                        void *arg, struct crn_errinfo *ei)
{
    char *copy = strdup(list);
    char *rest = copy;
    char *word;
    cairn_err rc = CAIRN_OK;

    if (copy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "list of %zu bytes", strlen(list));
    while (rc == CAIRN_OK && (word = strsep(&rest, ",")) != NULL)
        rc = take(arg, word + strspn(word, " "), ei);
    free(copy);
    return rc == CAIRN_OK ? rc : crn_err_context(ei, rc, "%s", option);
}

cairn_err crn_cli_quantity(const char *option, const char *text,
                           cairn_err (*parse)(const char *text, double *ret,
                                              struct crn_errinfo *ei),
                           double *ret, struct crn_errinfo *ei)
{
    cairn_err rc = text == NULL ? CAIRN_OK : parse(text, ret, ei);

    return rc == CAIRN_OK ? rc : crn_err_context(ei, rc, "%s", option);
}

const char *crn_cli_program(const char *name, char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    size_t dir;

    if (n <= 0)
        return NULL;
    path[n] = '\0';
    dir = (size_t)(strrchr(path, '/') + 1 - path);
    if ((size_t)snprintf(path + dir, size - dir, "%s", name) >= size - dir)
        return NULL;
    return access(path, X_OK) == 0 ? path : NULL;
}

const char *crn_cli_hdf5(const struct cli *cli, char *path, size_t size)
{
    const char *name = cli->cfg.hdf5_reader;

    if (name[0] == '\0' || strchr(name, '/') != NULL)
        return name[0] != '\0' ? name : NULL;
    return crn_cli_program(name, path, size) != NULL ? path : name;
}

struct crn_json *crn_cli_json(struct cli *cli)
{
    cli->has_json = 1;
    crn_json_begin(&cli->json, stdout);
    crn_json_object(&cli->json, NULL);
    return &cli->json;
}

int crn_cli_json_end(struct cli *cli, int status)
{
    crn_json_end_object(&cli->json);
    (void)crn_json_finish(&cli->json);
    return crn_cli_end(cli, status);
}

/* `cairn ls | head`: the reader has seen enough. */
static int is_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int crn_cli_end(struct cli *cli, int status)
{
    (void)cli;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (is_reader_gone())
            return status;
        (void)fprintf(stderr, "cairn: write to standard output: %s\n", strerror(errno));
        return CLI_PROBLEM;
    }
    return status;
}

/* Targets. ------------------------------------------------------------------------------------- */

cairn_err crn_cli_target(const char *text, struct cli_target *ret, struct crn_errinfo *ei)
{
    const char *at = strchr(text, '@');
    size_t n = at != NULL ? (size_t)(at - text) : strlen(text);
    char *end;

    ret->version = -1;
    if (n >= sizeof(ret->name))
        return crn_fail(ei, CAIRN_EINVAL, 0, "the checkpoint name '%.20s...' is too long", text);
    memcpy(ret->name, text, n);
    ret->name[n] = '\0';
    if (at != NULL && strcmp(at + 1, "latest") != 0) {
        errno = 0;
        ret->version = strtoll(at + 1, &end, 10);
        if (errno != 0 || end == at + 1 || *end != '\0' || ret->version < 0)
            return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a version: write NAME@12", at + 1);
    }
    return crn_check_name("checkpoint name", ret->name, ei);
}

static cairn_err cli_newest(const struct crn_store *st, struct cli_target *t,
                            struct crn_errinfo *ei)
{
    struct crn_catalog c;
    cairn_err rc;
    size_t i;

    rc = crn_store_catalog(st, t->name, &c, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < c.n; i++)
        if (c.v[i].state == CRN_VERSION_OK)
            t->version = c.v[i].version;
    crn_catalog_free(&c);
    if (t->version < 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "'%s' has no complete version; see `cairn explain %s`",
                        t->name, t->name);
    return CAIRN_OK;
}

cairn_err crn_cli_pick(const struct crn_store *st, const char *text, struct cli_target *ret,
                       struct crn_errinfo *ei)
{
    cairn_err rc = crn_cli_target(text, ret, ei);

    if (rc == CAIRN_OK && ret->version < 0)
        rc = cli_newest(st, ret, ei);
    return rc;
}

static int each_of_name(struct cli *cli, const struct cli_target *t, cli_version_fn fn, void *arg)
{
    struct crn_catalog c;
    int status = CLI_OK;
    int found = 0;
    size_t i;

    if (crn_store_catalog(&cli->store, t->name, &c, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    for (i = 0; i < c.n; i++) {
        if (t->version >= 0 && c.v[i].version != t->version)
            continue;
        found = 1;
        if (fn(cli, t->name, &c.v[i], arg) != CLI_OK)
            status = CLI_PROBLEM;
    }
    crn_catalog_free(&c);
    if (t->version >= 0 && !found)
        return crn_cli_problem(cli, CAIRN_ENOENT, "'%s' has no version %lld", t->name,
                               (long long)t->version);
    return status;
}

static int each_name(struct cli *cli, cli_version_fn fn, void *arg)
{
    struct crn_names names;
    int status = CLI_OK;
    size_t i;

    if (crn_store_names(&cli->store, &names, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    for (i = 0; i < names.n; i++) {
        struct cli_target t = {.version = -1};

        (void)snprintf(t.name, sizeof(t.name), "%s", names.name[i]);
        if (each_of_name(cli, &t, fn, arg) != CLI_OK)
            status = CLI_PROBLEM;
    }
    crn_names_free(&names);
    return status;
}

int crn_cli_each(struct cli *cli, int argc, char **argv, cli_version_fn fn, void *arg)
{
    int status = CLI_OK;
    int i;

    if (argc == 0)
        return each_name(cli, fn, arg);
    for (i = 0; i < argc; i++) {
        struct cli_target t;
        cairn_err rc = strstr(argv[i], "@latest") != NULL
                           ? crn_cli_pick(&cli->store, argv[i], &t, cli->ei)
                           : crn_cli_target(argv[i], &t, cli->ei);
        int one = rc != CAIRN_OK ? crn_cli_fail(cli) : each_of_name(cli, &t, fn, arg);

        if (one != CLI_OK)
            status = CLI_PROBLEM;
    }
    return status;
}
