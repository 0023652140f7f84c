/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn watch: every complete set of files that appears in a directory becomes a version. All
 * state is in the store: after a restart, sets that the store already has are recognised, others
 * are ingested, and files are removed only if the store has their bytes. */
#include "cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ingest.h"
#include "cli/watch.h"

#define SECOND        1000000000LL
#define LONGEST_DELAY (60 * SECOND)

struct watch_options {
    const char *dir;
    const char *name;
    struct cli_patterns patterns;
    int64_t ranks;
    uint64_t settle_ns, poll_ns;
    int is_once, is_removing;
};

/* What happened to a set. */
struct outcome {
    int64_t step;
    uint64_t any;
    uint64_t print; /* fingerprint of its files; if it changes, the set is new */
    int is_done;
    int is_told;                /* its incompleteness has been reported */
    int64_t delay_ns, again_ns; /* after a failure */
};

struct state {
    struct cli *cli;
    const struct watch_options *o;
    struct cli_ingest g;
    struct watch w;
    struct outcome *outcome; /* owned */
    size_t n, room;
    int64_t newest;  /* newest committed step */
    int64_t wait_ns; /* until the next deadline */
    int status;
};

/* The signal that ends it; set by the handler. */
static atomic_int stopped;

static void on_signal(int sig)
{
    atomic_store(&stopped, sig);
}

/* Has a signal arrived while a set is being ingested? */
static int is_ending(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            sigismember(&pending, SIGHUP) == 1);
}

/* Signals are delivered only while waiting, so that the current set is completed first. */
static void catch_signals(sigset_t *ret_mask)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_signal};
    sigset_t blocked;
    size_t i;

    (void)sigemptyset(&blocked);
    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)sigaction(signals[i], &act, NULL);
        (void)sigaddset(&blocked, signals[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &blocked, ret_mask);
    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)sigdelset(ret_mask, signals[i]);
}

/* Reporting. ----------------------------------------------------------------------------------- */

/* Prints a line, or with --json an object on one line. step below 0: none is known. done may be
 * NULL. */
static void watch_tell(struct state *s, const char *event, int64_t step, const struct cli_set *set,
                       const struct cli_ingested *done, const char *text)
{
    const struct crn_clock *clock = crn_clock_real();
    char date[64], size[32];
    struct crn_json j;

    if (s->cli->is_json) {
        crn_json_begin(&j, stdout);
        crn_json_object(&j, NULL);
        crn_json_str(&j, "event", event);
        crn_json_str(&j, "name", s->o->name);
        if (step >= 0)
            crn_json_i64(&j, "version", step);
        crn_json_u64(&j, "files", set->n);
        crn_json_u64(&j, "ranks", set->ranks);
        if (done != NULL) {
            crn_json_u64(&j, "bytes", done->bytes);
            crn_json_u64(&j, "stored_bytes", done->file_bytes);
            crn_json_f64(&j, "seconds", done->seconds);
        }
        crn_json_str(&j, "text", text);
        crn_json_end_object(&j);
        (void)crn_json_finish(&j);
        return;
    }
    crn_output_date((uint64_t)clock->wall_ns(clock), date, sizeof(date));
    if (step >= 0)
        (void)printf("%s %s@%" PRId64 ": %s", date, s->o->name, step, event);
    else
        (void)printf("%s %s: %s", date, s->o->name, event);
    if (done != NULL) {
        crn_human_bytes(done->bytes, size, sizeof(size));
        (void)printf(", %zu file%s of %" PRIu32 " rank%s, %s", set->n, CLI_S(set->n), set->ranks,
                     CLI_S(set->ranks), size);
    }
    (void)printf("%s%s\n", text != NULL ? ": " : "", text != NULL ? text : "");
    (void)fflush(stdout);
}

/* Sets. ---------------------------------------------------------------------------------------- */

static uint64_t print_of(const struct cli_set *set)
{
    uint64_t print = 0;
    size_t i;

    for (i = 0; i < set->n; i++) {
        const struct cli_file *f = &set->file[i];
        uint64_t words[8] = {print,
                             crn_hash(f->name, strlen(f->name)),
                             (uint64_t)f->st.st_ino,
                             (uint64_t)f->st.st_size,
                             (uint64_t)f->st.st_mtim.tv_sec,
                             (uint64_t)f->st.st_mtim.tv_nsec,
                             (uint64_t)f->st.st_ctim.tv_sec,
                             (uint64_t)f->st.st_ctim.tv_nsec};

        print = crn_hash(words, sizeof(words));
    }
    return print;
}

/* The record of a set; NULL if out of memory. */
static struct outcome *watch_remember(struct state *s, const struct cli_set *set)
{
    uint64_t print = print_of(set);
    struct outcome *o;
    size_t i = 0;

    while (i < s->n && (s->outcome[i].step != set->step || s->outcome[i].any != set->any))
        i++;
    if (i == s->room) {
        size_t room = 2 * s->room + 64;
        struct outcome *grown = realloc(s->outcome, room * sizeof(*grown));

        if (grown == NULL)
            return NULL;
        s->outcome = grown;
        s->room = room;
    }
    o = &s->outcome[i];
    if (i == s->n || o->print != print)
        *o = (struct outcome){.step = set->step, .any = set->any, .print = print};
    s->n += i == s->n;
    return o;
}

static void due_in(struct state *s, int64_t ns)
{
    if (ns < s->wait_ns)
        s->wait_ns = ns;
}

static void watch_failed(struct state *s, const struct cli_set *set, struct outcome *o)
{
    const struct crn_clock *clock = crn_clock_real();
    const struct crn_name_config *nc = crn_config_name(&s->cli->cfg, s->o->name);

    watch_tell(s, "failed, will be tried again", set->step, set, NULL, s->cli->info.msg);
    crn_err_clear(s->cli->ei);
    o->delay_ns = o->delay_ns == 0 ? (int64_t)nc->retry_delay_ns : 2 * o->delay_ns;
    o->delay_ns = o->delay_ns > LONGEST_DELAY ? LONGEST_DELAY : o->delay_ns;
    o->again_ns = clock->mono_ns(clock) + o->delay_ns;
    due_in(s, o->delay_ns);
    s->status = CLI_PROBLEM;
}

/* Has retention removed a set of these files, or would it do so at once? True if enough newer
 * versions were committed after the files were written. */
static int is_retired(const struct state *s, const struct cli_set *set)
{
    const struct crn_name_config *nc = crn_config_name(&s->cli->cfg, s->o->name);
    uint64_t written_s = 0, newer = 0;
    struct crn_catalog c;
    size_t i;

    if (nc->keep_last == 0 ||
        (nc->keep_every > 0 && set->step >= 0 && set->step % (int64_t)nc->keep_every == 0) ||
        crn_store_catalog(&s->g.store, s->g.name, &c, NULL) != CAIRN_OK)
        return 0;
    for (i = 0; i < set->n; i++)
        if ((uint64_t)set->file[i].st.st_mtim.tv_sec > written_s)
            written_s = (uint64_t)set->file[i].st.st_mtim.tv_sec;
    for (i = 0; i < c.n; i++)
        newer += c.v[i].state == CRN_VERSION_OK && c.v[i].version > set->step &&
                 c.v[i].committed_ns / SECOND > written_s;
    for (i = 0; i < c.n && c.v[i].version != set->step;)
        i++;
    newer = i < c.n ? 0 : newer; /* the version exists */
    crn_catalog_free(&c);
    return newer >= nc->keep_last;
}

static void take_complete(struct state *s, struct cli_set *set, struct outcome *o)
{
    struct cli_ingested done;
    cairn_err rc = CAIRN_OK;

    if (is_retired(s, set)) {
        watch_tell(s, "older than what is kept", set->step, set, NULL, NULL);
        o->is_done = 1;
        return;
    }
    rc = crn_ingest_set(&s->g, set, set->step < 0 ? CLI_VERSION_FIND : set->step,
                        CLI_REPLACE_INGESTED, s->o->is_removing, &done, s->cli->ei);
    if (rc == CAIRN_OK) {
        watch_tell(s, done.was_there ? "was there already" : "committed", done.version, set, &done,
                   NULL);
        s->newest = done.version > s->newest ? done.version : s->newest;
        if (s->o->is_removing) {
            if (!s->o->is_once && crn_watch_was_touched(&s->w, set))
                return; /* its writer has resumed: retry after the set has settled */
            rc = crn_ingest_remove(&s->g, set, set->step, s->cli->ei);
        }
    }
    if (rc != CAIRN_OK)
        watch_failed(s, set, o);
    else
        o->is_done = 1;
}

/* Handles an incomplete set: it waits for the other files, unless it is the remainder of an
 * interrupted removal. */
static void take_part(struct state *s, struct cli_set *set, struct outcome *o, const char *why)
{
    size_t n = 0;

    if (s->o->is_removing && !o->is_done) {
        if (crn_ingest_remove_rest(&s->g, set, set->step, &n, s->cli->ei) != CAIRN_OK) {
            watch_failed(s, set, o);
            return;
        }
        if (n > 0)
            watch_tell(s, "files that were left are removed", set->step, set, NULL, NULL);
        o->is_done = 1;
    }
    if (n < set->n && !o->is_told && (s->o->is_once || (set->step >= 0 && set->step < s->newest))) {
        watch_tell(s, "waits", set->step, set, NULL, why);
        o->is_told = 1;
    }
}

static void take_set(struct state *s, struct cli_set *set)
{
    const struct crn_clock *clock = crn_clock_real();
    struct outcome *o = watch_remember(s, set);
    int64_t unfinished = s->o->is_once ? 0 : crn_watch_unfinished_ns(&s->w, set);
    char why[CRN_ERR_TEXT];
    int is_complete = crn_set_is_complete(set, &s->o->patterns, why, sizeof(why));

    if (o == NULL || (o->is_done && is_complete))
        return;
    if (unfinished > 0 || clock->mono_ns(clock) < o->again_ns) {
        due_in(s, unfinished > 0 ? unfinished : o->again_ns - clock->mono_ns(clock));
        return;
    }
    if (is_complete)
        take_complete(s, set, o);
    else
        take_part(s, set, o, why);
}

static int watch_watch(struct state *s)
{
    struct cli_sets sets;
    sigset_t mask;
    size_t i;

    if (!s->o->is_once)
        catch_signals(&mask);
    for (;;) {
        s->status = CLI_OK;
        s->wait_ns = (int64_t)s->o->poll_ns;
        if (crn_watch_look(&s->w, &sets, s->cli->ei) != CAIRN_OK)
            return crn_cli_fail(s->cli);
        for (i = 0; i < sets.n; i++)
            take_set(s, &sets.set[i]);
        crn_sets_free(&sets);
        if (ferror(stdout))
            return crn_cli_end(s->cli, CLI_PROBLEM);
        if (s->o->is_once)
            return s->status;
        if (crn_watch_wait(&s->w, s->wait_ns, &mask) != 0 && atomic_load(&stopped) != 0)
            return CLI_OK;
    }
}

static int open_and_watch(struct cli *cli, const struct watch_options *o)
{
    struct state s = {.cli = cli, .o = o, .newest = -1};
    char path[CRN_PATH_MAX];
    cairn_err rc;
    int status;

    s.w = (struct watch){.fs = crn_fs_default(),
                         .patterns = &o->patterns,
                         .ranks = (uint32_t)o->ranks,
                         .settle_ns = (int64_t)o->settle_ns};
    rc = crn_watch_open(&s.w, o->dir, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    rc = crn_ingest_open(&cli->cfg, o->name, crn_cli_hdf5(cli, path, sizeof(path)), &s.g, cli->ei);
    if (rc != CAIRN_OK) {
        crn_watch_close(&s.w);
        return crn_cli_fail(cli);
    }
    s.g.is_over = is_ending;
    status = watch_watch(&s);
    crn_ingest_close(&s.g);
    crn_watch_close(&s.w);
    free(s.outcome);
    return status;
}

/* 0, or -1 after printing the error. */
static int take_option(struct cli *cli, struct watch_options *o, int c)
{
    cairn_err rc = CAIRN_OK;

    switch (c) {
    case 'a':
        o->name = optarg;
        return 0;
    case 'n':
        return crn_cli_number(cli, "ranks", optarg, &o->ranks);
    case '1':
        o->is_once = 1;
        return 0;
    case 'R':
        o->is_removing = 1;
        return 0;
    case 'p':
        rc = crn_sets_add_pattern(&o->patterns, optarg, cli->ei);
        break;
    case 's':
        rc = crn_parse_time(optarg, &o->settle_ns, cli->ei);
        break;
    case 'l':
        rc = crn_parse_time(optarg, &o->poll_ns, cli->ei);
        break;
    default:
        return -1;
    }
    if (rc == CAIRN_OK)
        return 0;
    (void)crn_cli_usage(cli, "%s", cli->info.msg);
    return -1;
}

static int watch_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"as", required_argument, NULL, 'a'},    {"pattern", required_argument, NULL, 'p'},
        {"ranks", required_argument, NULL, 'n'}, {"settle", required_argument, NULL, 's'},
        {"poll", required_argument, NULL, 'l'},  {"once", no_argument, NULL, '1'},
        {"remove", no_argument, NULL, 'R'},      {0}};
    struct watch_options o = {.settle_ns = 5 * SECOND, .poll_ns = 10 * SECOND};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "a:p:n:", longs)) != -1)
        if (take_option(cli, &o, c) != 0)
            return CLI_USAGE;
    if (argc - optind != 1)
        return crn_cli_usage(cli, "which directory?");
    if (o.name == NULL)
        return crn_cli_usage(cli, "the checkpoints need a name: use --as NAME");
    if (o.patterns.n == 0)
        return crn_cli_usage(cli, "which files? use --pattern 'out.{step}.{rank}.h5'");
    if (o.is_removing && !crn_sets_have_steps(&o.patterns))
        return crn_cli_usage(cli, "--remove needs {step} in each pattern: other files are the "
                                  "program's to overwrite");
    if (o.ranks < 1 || o.ranks >= CRN_MAX_RANKS)
        return crn_cli_usage(cli, "how many ranks have files? use --ranks N");
    o.dir = argv[optind];
    return open_and_watch(cli, &o);
}

const struct cli_command crn_cmd_watch = {
    .name = "watch",
    .args = "--as NAME --pattern P... --ranks N [--remove] [--once] DIRECTORY",
    .help = "Makes a version of every complete set of files that appears in a directory",
    .about = "Makes a version of every complete set of files that appears in a "
             "directory, until SIGTERM. A file is finished when it was neither changed "
             "nor closed by a writer for `--settle` (5s), or when it was renamed to "
             "its name. `--remove` removes the files of a set after comparing them "
             "with the committed version, byte by byte. Started again it recognises "
             "what is in the store already. With `--json` each event is an object on a "
             "line of its own.",
    .run = watch_run,
    .options =
        "  -a, --as NAME     what the checkpoints are called\n"
        "  -p, --pattern P   names of the files, as 'out.{step}.{rank}.h5': the step is the\n"
        "                    version; 'DD{step}/data{step}.{rank}' names directories, too;\n"
        "                    'restart.{any}': files that the program overwrites\n"
        "  -n, --ranks N     a set is complete when so many ranks have their file of each pattern\n"
        "  --remove          remove the files of a set after its commit\n"
        "  --once            take what is there now, then end\n"
        "  --settle TIME     a file is finished when it was neither changed nor closed for so\n"
        "                    long (5s), or when it was renamed to its name\n"
        "  --poll TIME       look so often where no events come (10s)\n",
};
