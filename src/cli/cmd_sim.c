/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn sim: simulations with the production policies. `cairn sim platform` compares strategies
 * for a file system that many jobs share; see docs/policies.md. `cairn sim flush` is in
 * sim_flush.c, `cairn sim nodes` in sim_nodes.c. */
#include "cli/sim_report.h"

#include <string.h>

#define MAX_VALUES 32

struct sim_values {
    double v[MAX_VALUES];
    size_t n;
};

struct sim_args {
    struct crn_platform platform;
    struct sim_values bandwidth, node_mtbf;
    struct crn_strategy strategy[MAX_VALUES];
    size_t nstrategies;
    struct crn_montecarlo mc;
    struct sim_report report;
};

/* Lists. --------------------------------------------------------------------------------------- */

static cairn_err add_value(struct sim_values *to, double value, const char *what,
                           struct crn_errinfo *ei)
{
    if (to->n == MAX_VALUES)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "more than %d values for %s", MAX_VALUES, what);
    if (!(value > 0))
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s must be above 0", what);
    to->v[to->n++] = value;
    return CAIRN_OK;
}

static cairn_err take_bandwidth(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_args *a = arg;
    double value;
    cairn_err rc = crn_quantity_bytes(word, &value, ei);

    return rc != CAIRN_OK ? rc : add_value(&a->bandwidth, value, "bandwidth", ei);
}

static cairn_err take_node_mtbf(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_args *a = arg;
    double value;
    cairn_err rc = crn_quantity_time(word, &value, ei);

    return rc != CAIRN_OK ? rc : add_value(&a->node_mtbf, value, "MTBF", ei);
}

static cairn_err take_system_mtbf(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_args *a = arg;
    double value;
    cairn_err rc = crn_quantity_time(word, &value, ei);

    return rc != CAIRN_OK ? rc : add_value(&a->node_mtbf, value * a->platform.nodes, "MTBF", ei);
}

static cairn_err take_strategy(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_args *a = arg;
    const char *const *name;
    cairn_err rc = CAIRN_OK;

    if (strcmp(word, "all") == 0) {
        for (name = crn_strategy_names; rc == CAIRN_OK && *name != NULL; name++)
            rc = take_strategy(a, *name, ei);
        return rc;
    }
    if (a->nstrategies == MAX_VALUES)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "more than %d strategies", MAX_VALUES);
    return crn_strategy_parse(word, &a->strategy[a->nstrategies++], ei);
}

/* Running. ------------------------------------------------------------------------------------- */

static void on_progress(void *arg, uint64_t runs)
{
    crn_progress_add(arg, runs);
}

static void put_theorem1(struct sim_args *a, const struct crn_platform *p,
                         const struct sim_row *where)
{
    struct crn_job_class storage[CRN_PLATFORM_CLASSES];
    struct crn_steady steady;
    struct crn_bound bound;
    struct sim_row r = *where;

    crn_model_steady(p, storage, &steady);
    crn_bound_theorem1(&steady, NULL, &bound);
    r.summary = NULL;
    r.theorem1 = &bound;
    r.bound = bound.waste;
    r.strategy = "theorem-1";
    crn_sim_report_row(&a->report, &r);
}

/* One bandwidth and MTBF: all strategies, then theorem 1. */
static cairn_err run_point(struct cli *cli, struct sim_args *a, double bandwidth,
                           double node_mtbf_s)
{
    struct crn_platform p = a->platform;
    struct sim_row r = {
        .bandwidth = bandwidth, .node_mtbf_s = node_mtbf_s, .system_mtbf_s = node_mtbf_s / p.nodes};
    size_t i;

    p.bandwidth = bandwidth;
    p.node_mtbf_s = node_mtbf_s;
    for (i = 0; i < a->nstrategies; i++) {
        struct crn_summary s;
        cairn_err rc = crn_montecarlo(&p, &a->strategy[i], &a->mc, &s, NULL, cli->ei);

        if (rc != CAIRN_OK)
            return rc;
        r.strategy = a->strategy[i].name;
        r.mode = crn_strategy_mode(&a->strategy[i]);
        r.summary = &s;
        r.bound = crn_montecarlo_bound(&p, &s, &a->strategy[i], &a->mc.model);
        crn_sim_report_row(&a->report, &r);
    }
    put_theorem1(a, &p, &r);
    return CAIRN_OK;
}

static int run_all(struct cli *cli, struct sim_args *a)
{
    struct cli_progress progress;
    cairn_err rc = CAIRN_OK;
    size_t i, k;

    if (a->bandwidth.n == 0)
        a->bandwidth.v[a->bandwidth.n++] = a->platform.bandwidth;
    if (a->node_mtbf.n == 0)
        a->node_mtbf.v[a->node_mtbf.n++] = a->platform.node_mtbf_s;
    crn_progress_begin_count(&progress, cli, a->platform.name,
                             a->mc.runs * a->nstrategies * a->bandwidth.n * a->node_mtbf.n);
    a->mc.progress = on_progress;
    a->mc.progress_arg = &progress;
    crn_sim_report_begin(&a->report, &a->platform, &a->mc);
    for (i = 0; i < a->bandwidth.n; i++)
        for (k = 0; k < a->node_mtbf.n && rc == CAIRN_OK; k++)
            rc = run_point(cli, a, a->bandwidth.v[i], a->node_mtbf.v[k]);
    crn_progress_end(&progress);
    return crn_sim_report_end(&a->report, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
}

static int sim_list(struct cli *cli)
{
    const struct crn_text *t;
    const char *const *name;
    size_t n, i;
    const struct crn_policy *const *policies = crn_policy_table(&n);

    (void)printf("Platforms (--platform; --show NAME prints one as a file to start from):\n");
    for (t = crn_platform_texts; t->name != NULL; t++) {
        struct crn_platform p;

        if (crn_platform_load(t->name, &p, cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
        (void)printf("  %-18s %s\n", p.name, p.about);
    }
    (void)printf("\nPolicies:\n");
    for (i = 0; i < n; i++)
        (void)printf("  %-18s %s\n", policies[i]->name, policies[i]->summary);
    (void)printf("\nPeriods, of a strategy POLICY-PERIOD[-async|-newest]:\n  ");
    for (i = 0; i < CRN_PERIOD_RULES; i++)
        (void)printf("%s%s", i > 0 ? ", " : "", crn_period_rule_name((enum crn_period_rule)i));
    (void)printf(" (daly unless told)\n  Writes: while the job stops; -async: in the background, "
                 "what is captured at the "
                 "grant;\n  -newest: in the background, the newest of captures at times of their "
                 "own\n\nStrategies of --strategy all:\n");
    for (name = crn_strategy_names; *name != NULL; name++)
        (void)printf("  %s\n", *name);
    return crn_cli_end(cli, CLI_OK);
}

int crn_sim_show(struct cli *cli, const struct crn_text *shipped, const char *kind,
                 const char *name)
{
    const char *text = crn_text_find(shipped, name);

    if (text == NULL)
        return crn_cli_problem(cli, CAIRN_ENOENT, "no %s '%s' is shipped; see --list", kind, name);
    (void)fputs(text, stdout);
    return crn_cli_end(cli, CLI_OK);
}

/* Texts are parsed when all are read: some need the platform. */
enum text { PLATFORM, BANDWIDTH, MTBF, SYSTEM_MTBF, STRATEGY, PERIOD, CAPTURE, SHOW, NTEXTS };
enum number { RUNS, SEED, DAYS, THREADS, NNUMBERS };
enum { FIRST_NUMBER = 256 + NTEXTS, CSV = FIRST_NUMBER + NNUMBERS, CLASSES, LIST };

static const struct option longs[] = {
    {"platform", required_argument, NULL, 256 + PLATFORM},
    {"bandwidth", required_argument, NULL, 256 + BANDWIDTH},
    {"mtbf", required_argument, NULL, 256 + MTBF},
    {"system-mtbf", required_argument, NULL, 256 + SYSTEM_MTBF},
    {"strategy", required_argument, NULL, 256 + STRATEGY},
    {"period", required_argument, NULL, 256 + PERIOD},
    {"capture", required_argument, NULL, 256 + CAPTURE},
    {"show", required_argument, NULL, 256 + SHOW},
    {"runs", required_argument, NULL, FIRST_NUMBER + RUNS},
    {"seed", required_argument, NULL, FIRST_NUMBER + SEED},
    {"days", required_argument, NULL, FIRST_NUMBER + DAYS},
    {"threads", required_argument, NULL, FIRST_NUMBER + THREADS},
    {"csv", no_argument, NULL, CSV},
    {"classes", no_argument, NULL, CLASSES},
    {"list", no_argument, NULL, LIST},
    {0},
};

struct sim_words {
    const char *text[NTEXTS];
    int64_t number[NNUMBERS];
    int is_list;
};

/* 0, or -1 after printing the error. */
static int take_option(struct cli *cli, int c, struct sim_words *w, struct sim_args *a)
{
    if (c == '?')
        return -1;
    if (c < FIRST_NUMBER)
        w->text[c - 256] = optarg;
    else if (c < CSV)
        return crn_cli_number_of(cli, longs, c, &w->number[c - FIRST_NUMBER]);
    else if (c == CSV)
        a->report.is_csv = 1;
    else if (c == CLASSES)
        a->report.with_classes = 1;
    else
        w->is_list = 1;
    return 0;
}

static cairn_err sim_understand(const struct sim_words *w, struct sim_args *a,
                                struct crn_errinfo *ei)
{
    cairn_err rc = crn_platform_load(w->text[PLATFORM], &a->platform, ei);

    if (rc == CAIRN_OK && w->text[BANDWIDTH] != NULL)
        rc = crn_cli_words("--bandwidth", w->text[BANDWIDTH], take_bandwidth, a, ei);
    if (rc == CAIRN_OK && w->text[MTBF] != NULL)
        rc = crn_cli_words("--mtbf", w->text[MTBF], take_node_mtbf, a, ei);
    if (rc == CAIRN_OK && w->text[SYSTEM_MTBF] != NULL)
        rc = crn_cli_words("--system-mtbf", w->text[SYSTEM_MTBF], take_system_mtbf, a, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_words("--strategy", w->text[STRATEGY], take_strategy, a, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_quantity("--period", w->text[PERIOD], crn_quantity_time,
                              &a->mc.model.fixed_period_s, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_quantity("--capture", w->text[CAPTURE], crn_quantity_time,
                              &a->mc.model.capture_s, ei);
    if (rc == CAIRN_OK && !(a->mc.model.fixed_period_s > 0))
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "the period must be above 0");
    a->mc.runs = (uint64_t)w->number[RUNS];
    a->mc.first_seed = (uint64_t)w->number[SEED];
    a->mc.model.days = (double)w->number[DAYS];
    a->mc.threads = w->number[THREADS] < 256 ? (int)w->number[THREADS] : 256;
    return rc;
}

static int run_platform(struct cli *cli, int argc, char **argv)
{
    struct sim_args a = {.mc = {.model = crn_model_defaults}, .report = {.cli = cli}};
    struct sim_words w = {.text = {[PLATFORM] = "cielo-paper", [STRATEGY] = "all"},
                          .number = {[RUNS] = 200, [SEED] = 1, [DAYS] = 60}};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "", longs)) != -1)
        if (take_option(cli, c, &w, &a) != 0)
            return CLI_USAGE;
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (w.is_list)
        return sim_list(cli);
    if (w.text[SHOW] != NULL)
        return crn_sim_show(cli, crn_platform_texts, "platform", w.text[SHOW]);
    if (w.number[RUNS] < 1 || w.number[DAYS] < 1)
        return crn_cli_usage(cli, "--runs and --days must be above 0");
    if (sim_understand(&w, &a, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    return run_all(cli, &a);
}

/* The kinds of simulation; a new one is one line. */
static const struct {
    const char *name;
    int (*run)(struct cli *cli, int argc, char **argv);
} kinds[] = {
    {"platform", run_platform},
    {"flush", crn_sim_flush},
    {"nodes", crn_sim_nodes},
};

static int sim_run(struct cli *cli, int argc, char **argv)
{
    size_t i;

    if (argc < 2)
        return crn_cli_usage(cli, "which simulation?");
    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            return kinds[i].run(cli, argc - 1, argv + 1);
    return crn_cli_usage(cli, "unknown simulation '%s'", argv[1]);
}

const struct cli_command crn_cmd_sim = {
    .name = "sim",
    .args = "platform | flush | nodes [OPTION...]",
    .words = "platform flush nodes",
    .help = "Simulates jobs that share a file system, or one job at scale",
    .about = "`platform` simulates jobs that share a file system and tells how much of "
             "the node-time each strategy for its token wastes, beside a lower bound for each.\n"
             "`flush` predicts how long the nodes of a machine need to write a "
             "checkpoint to so many files (a number, or a ratio to the nodes such as "
             "1:4), how far the slowest leader lags, and its bottleneck: "
             "node, writers, receive, osts or pfs. `--recommend` tells the fewest "
             "files, and the leaders for each, that cost at most 5 % of time.\n"
             "`nodes` runs what the node services of a job decide, for thousands of nodes in one "
             "process: it counts their messages for each version, or, with `--faults`, draws "
             "late and dead ranks and nodes, cut links and failed writes from seeds, and checks "
             "that every checkpoint ends, once, and that nothing is lost. A seed that fails is "
             "printed with the command that replays it.\n"
             "Platforms and machines are described by small INI files: `--list`, "
             "`--show`.",
    .run = sim_run,
    .options = "cairn sim platform: jobs under policies for the token of their file system\n"
               "  --platform P      shipped platform or file (cielo-paper)\n"
               "  --bandwidth LIST  instead of the platform's: 40GB/s,80GB/s\n"
               "  --mtbf LIST       of a node, instead of the platform's: 2y,10y\n"
               "  --system-mtbf L   the same for the whole system: 1h,4h\n"
               "  --strategy LIST   policy[-period][-async|-newest], or all (all)\n"
               "  --runs N          simulations for each point (200), seeds 1, 2, ...\n"
               "  --seed N          first seed (1)\n"
               "  --days N          simulated; the first and the last are not measured (60)\n"
               "  --period TIME     of strategies with a fixed period (1h)\n"
               "  --capture TIME    local capture of -async and -newest (60s)\n"
               "  --threads N       (all cores)\n"
               "  --classes         also waste and waiting of each class of jobs\n"
               "  --csv             comma-separated values\n"
               "  --list            platforms, policies and strategies\n"
               "  --show P          the text of a shipped platform\n"
               "cairn sim flush: how long N nodes need to write K files, and which K is best\n"
               "  --machine M       shipped machine or file (frontier-paper)\n"
               "  --nodes LIST      instead of the machine's\n"
               "  --files LIST      K, or a ratio such as 1:4 (1:1,1:2,1:4,1:8)\n"
               "  --leaders LIST    leaders of each file (1)\n"
               "  --stripes N       OSTs of a file (one for each of its leaders)\n"
               "  --writers N       threads of a leader (the machine's best_writers)\n"
               "  --blocks N        of a leader's pool (two for each writer)\n"
               "  --block SIZE      (64MiB)\n"
               "  --size SIZE       of a rank, instead of the machine's\n"
               "  --imbalance LIST  of the sizes: 0%,20% (0%)\n"
               "  --own-tails       the end of each rank is a write of its own\n"
               "  --recommend       K and leaders: fewest files within 5 % of the best time\n"
               "  --max-files N, --max-leaders N  what may be recommended (all, 16)\n"
               "  --seed N, --csv, --list, --show M  as above\n"
               "cairn sim nodes: the node services of one job\n"
               "  --nodes LIST      with --faults: at most so many (64,512,4096; faults: 16)\n"
               "  --files N         data files of a version (one for 8 nodes)\n"
               "  --versions N      1 to 8 (3)\n"
               "  --ranks N         of a node (1)\n"
               "  --faults          as the seed draws them, and what is not given above\n"
               "  --runs N          with --faults: seeds N, N+1, ... (1000)\n"
               "  --seed N          the first one (1)\n",
};
