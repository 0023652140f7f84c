/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn run: starts a job, saves what a failed attempt left, and starts it again while time, nodes
 * and patience last. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/slurm.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "store/halt.h"

#define SECOND       ((int64_t)1000000000)
#define LONGEST_WAIT (300 * SECOND)
#define MAX_WORDS    512
#define NODES_TEXT   8192
#define ASK_MS       30000

struct run {
    struct cli *cli;
    struct crn_launch launch;
    int64_t retries;  /* failures in a row without a new checkpoint that are tolerated */
    int64_t nodes;    /* of the allocation that the command is to use; 0: all that work */
    uint64_t wait_ns; /* before the second start; doubled each time */
    int drain, check;
    int64_t begun_ns;
    int starts, failures, in_a_row;
    uint64_t newest_ns;               /* commit of the newest checkpoint before this start */
    char newest[CAIRN_MAX_NAME + 32]; /* its name */
    char list[NODES_TEXT];            /* working nodes, "a,b,c"; empty outside Slurm */
    int64_t nlist;
};

/* Runs this program with the same settings: "drain" or "doctor", on every node of a Slurm job if
 * everywhere is set. Returns its exit status. */
static int run_self(struct run *r, const char *command, int everywhere)
{
    struct cli *cli = r->cli;
    char nodes[32], self[CRN_PATH_MAX + 32];
    const char *argv[2 * 64 + 16];
    int status = CLI_PROBLEM;
    size_t n = 0, i;

    if (crn_cli_program("cairn", self, sizeof(self)) == NULL)
        (void)snprintf(self, sizeof(self), "/proc/self/exe");
    if (everywhere && r->nlist > 1) {
        (void)snprintf(nodes, sizeof(nodes), "-N%" PRId64, r->nlist);
        argv[n++] = "srun";
        argv[n++] = "--overlap";
        argv[n++] = "--ntasks-per-node=1";
        argv[n++] = nodes;
        argv[n++] = "-w";
        argv[n++] = r->list;
    }
    argv[n++] = self;
    argv[n++] = command;
    if (cli->config_file != NULL) {
        argv[n++] = "-C";
        argv[n++] = cli->config_file;
    }
    for (i = 0; i < cli->nsettings; i++) {
        argv[n++] = "--set";
        argv[n++] = cli->settings[i];
    }
    argv[n] = NULL;
    if (crn_launch_run(&r->launch, (char *const *)argv, 1, &status, cli->ei) != CAIRN_OK)
        (void)crn_cli_fail(cli);
    return status;
}

/* The newest checkpoint of the store: did the last attempt get anywhere? Returns 1 if it is a new
 * one. */
static int look_for_progress(struct run *r)
{
    struct crn_errinfo ei = {0};
    struct crn_names names;
    struct crn_store st;
    uint64_t before = r->newest_ns;
    size_t i, k;

    if (crn_store_open(crn_fs_default(), r->cli->cfg.persistent, 0, &st, &ei) != CAIRN_OK)
        return 0;
    if (crn_store_names(&st, &names, &ei) != CAIRN_OK) {
        crn_store_close(&st);
        return 0;
    }
    for (i = 0; i < names.n; i++) {
        struct crn_catalog c;

        if (crn_store_catalog(&st, names.name[i], &c, &ei) != CAIRN_OK)
            continue;
        for (k = 0; k < c.n; k++)
            if (c.v[k].state == CRN_VERSION_OK && c.v[k].committed_ns > r->newest_ns) {
                r->newest_ns = c.v[k].committed_ns;
                (void)snprintf(r->newest, sizeof(r->newest), "%s@%" PRId64, names.name[i],
                               c.v[k].version);
            }
        crn_catalog_free(&c);
    }
    crn_names_free(&names);
    crn_store_close(&st);
    return r->newest_ns > before;
}

/* Nodes. --------------------------------------------------------------------------------------- */

/* The nodes of the allocation that work, one a line from Slurm, as a list with commas; with --nodes
 * only so many. Outside Slurm the list is empty. Returns 0 if too few are left. */
static int find_nodes(struct run *r)
{
    const char *job = crn_slurm_job();
    const char *of_job = getenv("SLURM_JOB_NODELIST");
    const char *argv[] = {"sinfo", "-h",   "-N", "-o", "%N", "-t", "idle,mix,alloc,comp",
                          "-n",    of_job, NULL};
    char text[NODES_TEXT];
    char *rest = text;
    char *word;

    r->list[0] = '\0';
    r->nlist = 0;
    if (job == NULL || of_job == NULL)
        return 1;
    if (crn_slurm_run_for_text(argv, ASK_MS, text, sizeof(text), r->cli->ei) != CAIRN_OK) {
        crn_cli_note(r->cli, "cairn run: the state of the nodes is unknown: %s", r->cli->info.msg);
        crn_err_clear(r->cli->ei);
        return 1;
    }
    while ((word = strsep(&rest, "\n")) != NULL && (r->nodes == 0 || r->nlist < r->nodes)) {
        size_t used = strlen(r->list);
        size_t len = strlen(word);
        const char *at = strstr(r->list, word);

        if (len == 0 ||
            (at != NULL && (at[len] == ',' || at[len] == '\0') && (at == r->list || at[-1] == ',')))
            continue; /* in several partitions */
        (void)snprintf(r->list + used, sizeof(r->list) - used, "%s%s", used > 0 ? "," : "", word);
        r->nlist++;
    }
    if (r->nlist > 0 && r->nlist >= r->nodes)
        return 1;
    crn_cli_note(r->cli,
                 "cairn run: only %" PRId64 " nodes of the allocation work, %" PRId64 " are needed",
                 r->nlist, r->nodes);
    return 0;
}

/* Replaces {nodes} and {nnodes} in a word; malloc'ed. */
static char *fill_word(const struct run *r, const char *word)
{
    const char *names = strstr(word, "{nodes}");
    const char *count = strstr(word, "{nnodes}");
    char *text = NULL;

    if (names != NULL)
        return asprintf(&text, "%.*s%s%s", (int)(names - word), word, r->list, names + 7) < 0
                   ? NULL
                   : text;
    if (count != NULL)
        return asprintf(&text, "%.*s%" PRId64 "%s", (int)(count - word), word, r->nlist,
                        count + 8) < 0
                   ? NULL
                   : text;
    return strdup(word);
}

/* Rounds. -------------------------------------------------------------------------------------- */

/* May the job be started now? If not, says why. */
static int may_start(struct run *r)
{
    const struct crn_config *cfg = &r->cli->cfg;
    int64_t now = crn_clock_real()->mono_ns(crn_clock_real());
    const char *job = crn_slurm_job();
    struct crn_halt halt;
    int64_t left = INT64_MAX;
    char text[300];

    if (crn_halt_read(crn_fs_default(), cfg->persistent, cfg->job, &halt, r->cli->ei) != CAIRN_OK) {
        (void)crn_cli_fail(r->cli);
    } else if (halt.kind != CRN_HALT_NONE &&
               (halt.kind != CRN_HALT_AT ||
                (int64_t)halt.at_ns - crn_clock_real()->wall_ns(crn_clock_real()) <=
                    (int64_t)cfg->wall_margin_ns)) {
        crn_halt_text(&halt, text, sizeof(text));
        crn_cli_note(r->cli, "cairn run: not started: %s; `cairn halt undo` withdraws it", text);
        return 0;
    }
    if (cfg->wall_limit_ns > 0) {
        left = ((int64_t)cfg->wall_limit_ns - (now - r->begun_ns)) / SECOND;
    } else if (job != NULL && crn_slurm_time_left(job, &left, r->cli->ei) != CAIRN_OK) {
        crn_err_clear(r->cli->ei);
        left = INT64_MAX;
    }
    if (r->starts > 0 && left <= (int64_t)cfg->wall_margin_ns / SECOND) {
        crn_cli_note(r->cli,
                     "cairn run: not started again: %" PRId64 " s are left, wall_margin is %" PRIu64
                     " s",
                     left, cfg->wall_margin_ns / (uint64_t)SECOND);
        return 0;
    }
    return find_nodes(r);
}

static cairn_err start_once(struct run *r, char **words, int *ret_status)
{
    char *argv[MAX_WORDS + 1] = {0};
    cairn_err rc = CAIRN_OK;
    size_t n;

    for (n = 0; words[n] != NULL && n < MAX_WORDS; n++) {
        argv[n] = fill_word(r, words[n]);
        if (argv[n] == NULL)
            rc = crn_fail(r->cli->ei, CAIRN_ENOMEM, ENOMEM, "the command line");
    }
    r->starts++;
    if (r->starts > 1)
        crn_cli_note(r->cli, "cairn run: start %d%s%s", r->starts,
                     r->newest[0] != '\0' ? "; the newest checkpoint is " : "", r->newest);
    if (rc == CAIRN_OK)
        rc = crn_launch_run(&r->launch, argv, 0, ret_status, r->cli->ei);
    while (n > 0)
        free(argv[--n]);
    return rc;
}

/* After a failure: is another attempt worth it? Waits before it. */
static int is_worth_another(struct run *r, int status)
{
    int64_t wait = (int64_t)r->wait_ns;
    int i;

    r->failures++;
    r->in_a_row = look_for_progress(r) ? 1 : r->in_a_row + 1;
    if (r->launch.stop != 0) {
        crn_cli_note(r->cli, "cairn run: signal %d was passed on; not started again",
                     r->launch.stop);
        return 0;
    }
    if (r->in_a_row > r->retries) {
        crn_cli_note(
            r->cli,
            "cairn run: status %d; %d failures in a row without a new checkpoint: giving up",
            status, r->in_a_row);
        return 0;
    }
    for (i = 1; i < r->in_a_row && wait < LONGEST_WAIT; i++)
        wait *= 2;
    wait = wait > LONGEST_WAIT ? LONGEST_WAIT : wait;
    crn_cli_note(r->cli, "cairn run: status %d; next start in %.3g s", status,
                 (double)wait / (double)SECOND);
    crn_launch_pause(&r->launch, wait);
    return r->launch.stop == 0;
}

static void run_drain(struct run *r)
{
    if (!r->drain)
        return;
    if (r->list[0] != '\0')
        (void)find_nodes(r); /* a node may be gone by now */
    if (run_self(r, "drain", 1) != CLI_OK)
        crn_cli_note(r->cli,
                     "cairn run: something could not be saved; it stays where it is, see above");
}

static int run_rounds(struct run *r, char **words)
{
    int status = CLI_PROBLEM;

    (void)look_for_progress(r);
    while (may_start(r)) {
        if (start_once(r, words, &status) != CAIRN_OK)
            return crn_cli_fail(r->cli);
        run_drain(r);
        if (status == 0 || !is_worth_another(r, status))
            break;
    }
    (void)look_for_progress(r);
    crn_cli_note(r->cli, "cairn run: %d start%s, %d failure%s, %.3g s, status %d%s%s", r->starts,
                 CLI_S(r->starts), r->failures, CLI_S(r->failures),
                 (double)(crn_clock_real()->mono_ns(crn_clock_real()) - r->begun_ns) /
                     (double)SECOND,
                 status, r->newest[0] != '\0' ? "; newest checkpoint " : "", r->newest);
    return status;
}

static int run_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"retries", required_argument, NULL, 'r'}, {"nodes", required_argument, NULL, 'N'},
        {"wait", required_argument, NULL, 'w'},    {"no-drain", no_argument, NULL, 'd'},
        {"no-check", no_argument, NULL, 'c'},      {0}};
    struct run r = {.cli = cli, .retries = 3, .wait_ns = 10 * SECOND, .drain = 1, .check = 1};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "+r:N:", longs)) != -1) {
        if (c == 'd')
            r.drain = 0;
        else if (c == 'c')
            r.check = 0;
        else if (c == '?' || (c == 'r' && crn_cli_number_of(cli, longs, 'r', &r.retries) != 0) ||
                 (c == 'N' && crn_cli_number_of(cli, longs, 'N', &r.nodes) != 0))
            return CLI_USAGE;
        else if (c == 'w' && crn_parse_time(optarg, &r.wait_ns, cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
    }
    if (optind == argc || strcmp(argv[optind - 1], "--") != 0) /* its options are not ours */
        return crn_cli_usage(cli,
                             "which command? Write it after --: cairn run -- mpirun ./program");
    if (argc - optind > MAX_WORDS)
        return crn_cli_usage(cli, "the command has more than %d words", MAX_WORDS);
    r.begun_ns = crn_clock_real()->mono_ns(crn_clock_real());
    crn_launch_init(&r.launch);
    if (r.check && run_self(&r, "doctor", 0) != CLI_OK) {
        crn_cli_note(cli,
                     "cairn run: not started: see FAIL above; --no-check starts without the check");
        return CLI_PROBLEM;
    }
    return run_rounds(&r, argv + optind);
}

const struct cli_command crn_cmd_run = {
    .name = "run",
    .args = "[--retries N] [--nodes N] [--wait TIME] [--no-drain] [--no-check] -- COMMAND...",
    .help = "Starts a job, and starts it again after failures; drains this node in between",
    .about = "Runs `cairn doctor`, then COMMAND (mpirun, srun, torchrun, a script). If it fails, "
             "saves with `cairn drain` what is left in memory and on the node's disk, waits, and "
             "starts COMMAND again. It gives up after --retries failures in a row that brought no "
             "new checkpoint, when less than wall_margin of the allocation is left, or when "
             "`cairn halt` asks for it. Signals are passed on to COMMAND; after TERM, INT or HUP "
             "it is not started again. The exit status is that of COMMAND's last run.\n"
             "In a Slurm job the drain runs on every node. In COMMAND, {nodes} and {nnodes} mean "
             "the nodes of the allocation that still work, at most --nodes of them: allocate "
             "spare nodes, and `srun -N {nnodes} -w {nodes}` leaves a dead one out.",
    .run = run_run,
    .options =
        "  -r, --retries N   failures in a row without a new checkpoint (3)\n"
        "  -N, --nodes N     the job needs so many nodes; others are spare\n"
        "  --wait TIME       before the second start (10s); twice as long each further time\n"
        "  --no-drain        leave what failed attempts left to the next start\n"
        "  --no-check        without cairn doctor\n",
};
