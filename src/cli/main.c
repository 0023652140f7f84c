/* SPDX-License-Identifier: BSD-3-Clause */
/* The program `cairn`: finds the command, parses the common options, loads the configuration,
 * opens the store and runs the command. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "encode/codec.h"

#ifdef CRN_HAVE_HDF5
#define HAVE_HDF5 1
#else
#define HAVE_HDF5 0
#endif

/* All commands; a new one is one file and one line. */
static const struct cli_command *const commands[] = {
    &crn_cmd_ls,     &crn_cmd_show,   &crn_cmd_verify,  &crn_cmd_extract, &crn_cmd_diff,
    &crn_cmd_ingest, &crn_cmd_import, &crn_cmd_export,  &crn_cmd_watch,   &crn_cmd_restore,
    &crn_cmd_advise, &crn_cmd_cp,     &crn_cmd_explain, &crn_cmd_pin,     &crn_cmd_unpin,
    &crn_cmd_rm,     &crn_cmd_sweep,  &crn_cmd_drain,   &crn_cmd_config,  &crn_cmd_doctor,
    &crn_cmd_broker, &crn_cmd_tune,   &crn_cmd_sim,     &crn_cmd_replay,  &crn_cmd_plot,
    &crn_cmd_halt,   &crn_cmd_run,    &crn_cmd_top,     &crn_cmd_report,  &crn_cmd_scrub,
    &crn_cmd_help,
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

const struct cli_command *const *crn_cli_commands(size_t *ret_n)
{
    *ret_n = NCOMMANDS;
    return commands;
}

const struct cli_command *crn_cli_find(const char *name)
{
    size_t i;

    for (i = 0; i < NCOMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

enum {
    SHARED_NONE,
    SHARED_DIR,
    SHARED_CONFIG,
    SHARED_SET,
    SHARED_JSON,
    SHARED_QUIET,
    SHARED_VERBOSE,
    SHARED_HELP,
    SHARED_VERSION
};

/* Is arg a common option? *ret_value points after '=' or is NULL. */
static int shared_option(const char *arg, const char **ret_value)
{
    static const struct {
        const char *text;
        int id, has_value;
    } known[] = {
        {"--dir", SHARED_DIR, 1},       {"-C", SHARED_CONFIG, 1},
        {"--config", SHARED_CONFIG, 1}, {"--set", SHARED_SET, 1},
        {"--json", SHARED_JSON, 0},     {"-h", SHARED_HELP, 0},
        {"--help", SHARED_HELP, 0},     {"--version", SHARED_VERSION, 0},
        {"-q", SHARED_QUIET, 0},        {"--quiet", SHARED_QUIET, 0},
        {"-v", SHARED_VERBOSE, 0},      {"--verbose", SHARED_VERBOSE, 0},
    };
    size_t i;

    *ret_value = NULL;
    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = strlen(known[i].text);

        if (strcmp(arg, known[i].text) == 0)
            return known[i].id;
        if (known[i].has_value && n > 2 && strncmp(arg, known[i].text, n) == 0 && arg[n] == '=') {
            *ret_value = arg + n + 1;
            return known[i].id;
        }
    }
    return SHARED_NONE;
}

static int add_setting(struct cli *cli, const char *prefix, const char *value)
{
    char *text = NULL;

    if (cli->nsettings + 1 >= sizeof(cli->settings) / sizeof(cli->settings[0]))
        return crn_cli_usage(cli, "too many settings");
    if (asprintf(&text, "%s%s", prefix, value) < 0)
        return CLI_PROBLEM;
    cli->settings[cli->nsettings++] = text;
    return CLI_OK;
}

struct flags {
    int help, version;
};

static int take_shared(struct cli *cli, int id, const char *value, struct flags *flags)
{
    switch (id) {
    case SHARED_HELP:
        flags->help = 1;
        return CLI_OK;
    case SHARED_VERSION:
        flags->version = 1;
        return CLI_OK;
    case SHARED_JSON:
        cli->is_json = 1;
        return CLI_OK;
    case SHARED_QUIET:
        cli->is_quiet = 1;
        return add_setting(cli, "log_level=", "error");
    case SHARED_VERBOSE:
        return add_setting(cli, "log_level=", "info");
    case SHARED_CONFIG:
        cli->config_file = value;
        return CLI_OK;
    default:
        return add_setting(cli, id == SHARED_DIR ? "persistent=" : "", value);
    }
}

/* Removes the common options from argv, anywhere before "--". */
static int strip_shared(struct cli *cli, int *argc, char **argv, struct flags *flags)
{
    int kept = 1;
    int i;
    int status = CLI_OK;

    for (i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value;
        int id = shared_option(argv[i], &value);

        if (id == SHARED_NONE) {
            argv[kept++] = argv[i];
            continue;
        }
        if (value == NULL && id <= SHARED_SET) {
            if (i + 1 == *argc)
                return crn_cli_usage(cli, "%s needs a value", argv[i]);
            value = argv[++i];
        }
        status = take_shared(cli, id, value, flags);
        if (status != CLI_OK)
            return status;
    }
    for (; i < *argc; i++)
        argv[kept++] = argv[i];
    argv[kept] = NULL;
    *argc = kept;
    return CLI_OK;
}

static int main_run(struct cli *cli, int argc, char **argv)
{
    cairn_err rc;
    int status;

    rc = crn_config_load(&cli->cfg, cli->config_file, cli->settings, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    if (cli->cfg.retired[0] != '\0')
        crn_cli_note(cli, "cairn: warning: %s", cli->cfg.retired);
    if (cli->command->needs_store)
        rc = crn_store_open(crn_fs_default(), cli->cfg.persistent, 0, &cli->store, cli->ei);
    if (rc != CAIRN_OK) {
        status = crn_cli_fail(cli);
        if (rc == CAIRN_ENOENT)
            (void)fprintf(stderr, "Name the directory with --dir DIR or CAIRN_PERSISTENT.\n");
    } else {
        status = cli->command->run(cli, argc, argv);
        if (cli->command->needs_store)
            crn_store_close(&cli->store);
    }
    crn_config_fini(&cli->cfg);
    return status;
}

/* The version, and what this build can do. A codec without its library can neither write nor read. */
static int main_version(struct cli *cli)
{
    size_t i, n;
    const struct crn_codec *const *table = crn_codec_table(&n);

    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "version", CAIRN_VERSION);
        crn_json_array(j, "codecs");
        for (i = 0; i < n; i++)
            if (table[i]->kind == CRN_STAGE_CODEC && table[i]->encode != NULL)
                crn_json_str(j, NULL, table[i]->name);
        crn_json_end_array(j);
        crn_json_bool(j, "hdf5", HAVE_HDF5);
        crn_json_str(j, "compiler", __VERSION__);
        return crn_cli_json_end(cli, CLI_OK);
    }
    (void)printf("cairn %s\ncodecs:", CAIRN_VERSION);
    for (i = 0; i < n; i++)
        if (table[i]->kind == CRN_STAGE_CODEC && table[i]->encode != NULL)
            (void)printf(" %s", table[i]->name);
    (void)printf("\nHDF5: %s\ncompiler: %s\n", HAVE_HDF5 ? "yes" : "no", __VERSION__);
    return crn_cli_end(cli, CLI_OK);
}

static int cli_dispatch(struct cli *cli, int argc, char **argv)
{
    struct flags flags = {0};
    int status;

    if (argc > 1 && argv[1][0] != '-')
        cli->command = crn_cli_find(argv[1]);
    status = strip_shared(cli, &argc, argv, &flags);
    if (status != CLI_OK)
        return status;
    if (flags.version) {
        return main_version(cli);
    }
    if (argc > 1)
        cli->command = crn_cli_find(argv[1]);
    if (cli->command == NULL) {
        if (flags.help) {
            crn_help_all(stdout);
            return crn_cli_end(cli, CLI_OK);
        }
        if (argc > 1)
            (void)fprintf(stderr, "cairn: '%s' is not a command\n", argv[1]);
        crn_help_all(stderr);
        return CLI_USAGE;
    }
    if (flags.help) {
        crn_help_command(cli->command);
        return crn_cli_end(cli, CLI_OK);
    }
    if (cli->command->needs_nothing)
        return cli->command->run(cli, argc - 1, argv + 1);
    return main_run(cli, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    int status;
    size_t i;

    cli.ei = &cli.info;
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, reported by crn_cli_end */
    status = cli_dispatch(&cli, argc, argv);
    for (i = 0; i < cli.nsettings; i++)
        free((char *)cli.settings[i]);
    return status;
}
