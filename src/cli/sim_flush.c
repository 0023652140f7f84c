/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn sim flush: the model of src/sim/flush.c for every combination of the given lists, and a
 * recommendation. */
#include "cli/sim_report.h"

#include <math.h>
#include <string.h>
#include "sim/flush.h"

#define MAX_VALUES 64

/* K, or a ratio to the nodes if is_ratio. */
struct files {
    double value;
    int is_ratio;
};

struct sim_flush_args {
    struct cli *cli;
    struct crn_machine machine;
    struct crn_flush base;
    struct files files[MAX_VALUES];
    double nodes[MAX_VALUES], leaders[MAX_VALUES], imbalance[MAX_VALUES];
    size_t nfiles, nnodes, nleaders, nimbalance;
    struct crn_recommend recommend;
    int is_csv, is_recommend;
    struct cli_table table;
};

/* Lists. --------------------------------------------------------------------------------------- */

static cairn_err add_value(double *to, size_t *n, double value, struct crn_errinfo *ei)
{
    if (*n == MAX_VALUES)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "more than %d values in a list", MAX_VALUES);
    to[(*n)++] = value;
    return CAIRN_OK;
}

static cairn_err sim_flush_whole(const char *word, double *ret, struct crn_errinfo *ei)
{
    cairn_err rc = crn_quantity_number(word, ret, ei);

    if (rc == CAIRN_OK && (*ret > CRN_MACHINE_MAX_NODES || *ret != floor(*ret)))
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a whole number up to %d", word,
                      CRN_MACHINE_MAX_NODES);
    return rc;
}

static cairn_err take_nodes(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_flush_args *a = arg;
    double value;
    cairn_err rc = sim_flush_whole(word, &value, ei);

    return rc != CAIRN_OK ? rc : add_value(a->nodes, &a->nnodes, value, ei);
}

static cairn_err take_leaders(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_flush_args *a = arg;
    double value;
    cairn_err rc = sim_flush_whole(word, &value, ei);

    return rc != CAIRN_OK ? rc : add_value(a->leaders, &a->nleaders, value, ei);
}

static cairn_err take_imbalance(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_flush_args *a = arg;
    double value;
    cairn_err rc = crn_quantity_percent(word, &value, ei);

    return rc != CAIRN_OK ? rc : add_value(a->imbalance, &a->nimbalance, value, ei);
}

static cairn_err take_files(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_flush_args *a = arg;
    struct files *f = &a->files[a->nfiles];
    cairn_err rc;

    if (a->nfiles == MAX_VALUES)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "more than %d values in a list", MAX_VALUES);
    f->is_ratio = strncmp(word, "1:", 2) == 0;
    rc = sim_flush_whole(f->is_ratio ? word + 2 : word, &f->value, ei);
    if (rc == CAIRN_OK)
        a->nfiles++;
    return rc;
}

static uint32_t files_of(const struct files *f, double nodes)
{
    return (uint32_t)(f->is_ratio ? ceil(nodes / f->value) : fmin(f->value, nodes));
}

/* Results. ------------------------------------------------------------------------------------- */

static void json_row(struct crn_json *j, const char *key, const struct crn_flush *f,
                     uint32_t stripes, const struct crn_flush_result *r)
{
    crn_json_object(j, key);
    crn_json_u64(j, "nodes", f->nodes);
    crn_json_u64(j, "files", f->files);
    crn_json_u64(j, "leaders_per_file", f->leaders_per_file);
    crn_json_u64(j, "stripe_count", stripes);
    crn_json_f64(j, "imbalance", f->imbalance);
    crn_json_u64(j, "leaders", r->leaders);
    crn_json_f64(j, "seconds", r->seconds);
    crn_json_u64(j, "bytes", (uint64_t)r->bytes);
    crn_json_f64(j, "throughput", r->throughput);
    crn_json_f64(j, "peak", r->peak);
    crn_json_f64(j, "mean_leader_s", r->mean_leader_s);
    crn_json_f64(j, "slowest_leader_s", r->slowest_leader_s);
    crn_json_f64(j, "received", r->received);
    crn_json_f64(j, "pool_bytes", r->pool_bytes);
    crn_json_u64(j, "writes", r->writes);
    crn_json_str(j, "limit", crn_flush_limit_name(r->limit));
    crn_json_end_object(j);
}

static void csv_row(const struct crn_flush *f, const struct crn_flush_result *r)
{
    (void)printf("%u,%u,%u,%g,%u,%.6g,%.9g,%.9g,%.6g,%.6g,%.4g,%s\n", f->nodes, f->files,
                 f->leaders_per_file, f->imbalance, r->leaders, r->seconds, r->bytes, r->throughput,
                 r->mean_leader_s, r->slowest_leader_s, r->received,
                 crn_flush_limit_name(r->limit));
}

static void table_row(struct cli_table *t, const struct crn_flush *f,
                      const struct crn_flush_result *r)
{
    crn_table_add(t, "%u", f->nodes);
    crn_table_add(t, "%u", f->files);
    crn_table_add(t, "%u", f->leaders_per_file);
    crn_table_add(t, "%g %%", 100 * f->imbalance);
    crn_table_add(t, "%.2f s", r->seconds);
    crn_table_add(t, "%.1f GiB/s", r->throughput / 0x1p30);
    crn_table_add(t, "%.0f %%", 100 * r->throughput / r->peak);
    crn_table_add(t, "+%.1f %%", 100 * (r->slowest_leader_s / r->mean_leader_s - 1));
    crn_table_add(t, "%.0f %%", 100 * r->received);
    crn_table_add(t, "%s", crn_flush_limit_name(r->limit));
}

static void sim_flush_begin(struct sim_flush_args *a)
{
    static const char *const head[] = {"NODES",      "FILES",   "LEADERS", "SIZES +-", "TIME",
                                       "THROUGHPUT", "OF PEAK", "SLOWEST", "RECEIVED", "LIMIT"};
    size_t i;

    if (a->cli->is_json) {
        struct crn_json *j = crn_cli_json(a->cli);

        crn_json_str(j, "machine", a->machine.name);
        crn_json_array(j, "results");
    } else if (a->is_csv) {
        (void)printf("nodes,files,leaders_per_file,imbalance,leaders,seconds,bytes,throughput,"
                     "mean_leader_s,slowest_leader_s,received,limit\n");
    } else {
        crn_table_begin(&a->table, "rrrrrrrrrl");
        for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
            crn_table_add(&a->table, "%s", head[i]);
    }
}

static cairn_err sim_flush_put(struct sim_flush_args *a, const struct crn_flush *f)
{
    struct crn_flush_result r;
    cairn_err rc = crn_flush_predict(&a->machine, f, &r, a->cli->ei);

    if (rc != CAIRN_OK)
        return rc;
    if (a->cli->is_json)
        json_row(&a->cli->json, NULL, f, crn_flush_stripes(&a->machine, f), &r);
    else if (a->is_csv)
        csv_row(f, &r);
    else
        table_row(&a->table, f, &r);
    return CAIRN_OK;
}

static cairn_err put_all(struct sim_flush_args *a)
{
    size_t n, k, l, i;
    cairn_err rc = CAIRN_OK;

    for (n = 0; n < a->nnodes; n++)
        for (i = 0; i < a->nimbalance; i++)
            for (k = 0; k < a->nfiles; k++)
                for (l = 0; l < a->nleaders && rc == CAIRN_OK; l++) {
                    struct crn_flush f = a->base;

                    f.nodes = (uint32_t)a->nodes[n];
                    f.files = files_of(&a->files[k], a->nodes[n]);
                    f.leaders_per_file = (uint32_t)a->leaders[l];
                    f.imbalance = a->imbalance[i];
                    rc = sim_flush_put(a, &f);
                }
    return rc;
}

/* For the last numbers of nodes and imbalances; as lines of a configuration file. */
static cairn_err put_recommended(struct sim_flush_args *a)
{
    struct crn_flush f = a->base;
    struct crn_flush_result r;
    cairn_err rc;

    f.nodes = (uint32_t)a->nodes[a->nnodes - 1];
    f.imbalance = a->imbalance[a->nimbalance - 1];
    f.files = f.nodes;
    rc = crn_flush_recommend(&a->machine, &f, &a->recommend, &f, &r, a->cli->ei);
    if (rc != CAIRN_OK)
        return rc;
    if (a->cli->is_json) {
        json_row(&a->cli->json, "recommended", &f, crn_flush_stripes(&a->machine, &f), &r);
        return CAIRN_OK;
    }
    (void)printf("\n; %u nodes: %.2f s, %.1f GiB/s; limit: %s\nfiles = %u\nleaders_per_file = %u\n",
                 f.nodes, r.seconds, r.throughput / 0x1p30, crn_flush_limit_name(r.limit), f.files,
                 f.leaders_per_file);
    if (crn_flush_stripes(&a->machine, &f) > 0)
        (void)printf("stripe_count = %u\n", crn_flush_stripes(&a->machine, &f));
    return CAIRN_OK;
}

static int run_all(struct sim_flush_args *a)
{
    struct cli *cli = a->cli;
    cairn_err rc;

    sim_flush_begin(a);
    rc = put_all(a);
    if (cli->is_json)
        crn_json_end_array(&cli->json);
    else if (!a->is_csv)
        crn_table_print(&a->table);
    if (rc == CAIRN_OK && a->is_recommend && !a->is_csv)
        rc = put_recommended(a);
    if (cli->is_json)
        return crn_cli_json_end(cli, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
    return crn_cli_end(cli, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
}

/* Options. ------------------------------------------------------------------------------------- */

enum text { MACHINE, NODES, FILES, LEADERS, IMBALANCE, BLOCK, SIZE, SHOW, NTEXTS };
enum number { STRIPES, WRITERS, BLOCKS, SEED, MAX_FILES, MAX_LEADERS, NNUMBERS };
enum { FIRST_NUMBER = 256 + NTEXTS, CSV = FIRST_NUMBER + NNUMBERS, OWN_TAILS, RECOMMEND, LIST };

static const struct option longs[] = {
    {"machine", required_argument, NULL, 256 + MACHINE},
    {"nodes", required_argument, NULL, 256 + NODES},
    {"files", required_argument, NULL, 256 + FILES},
    {"leaders", required_argument, NULL, 256 + LEADERS},
    {"imbalance", required_argument, NULL, 256 + IMBALANCE},
    {"block", required_argument, NULL, 256 + BLOCK},
    {"size", required_argument, NULL, 256 + SIZE},
    {"show", required_argument, NULL, 256 + SHOW},
    {"stripes", required_argument, NULL, FIRST_NUMBER + STRIPES},
    {"writers", required_argument, NULL, FIRST_NUMBER + WRITERS},
    {"blocks", required_argument, NULL, FIRST_NUMBER + BLOCKS},
    {"seed", required_argument, NULL, FIRST_NUMBER + SEED},
    {"max-files", required_argument, NULL, FIRST_NUMBER + MAX_FILES},
    {"max-leaders", required_argument, NULL, FIRST_NUMBER + MAX_LEADERS},
    {"csv", no_argument, NULL, CSV},
    {"own-tails", no_argument, NULL, OWN_TAILS},
    {"recommend", no_argument, NULL, RECOMMEND},
    {"list", no_argument, NULL, LIST},
    {0},
};

struct sim_flush_words {
    const char *text[NTEXTS];
    int64_t number[NNUMBERS]; /* 0: not given */
    int is_list, own_tails;
};

/* 0, or -1 after printing the error. */
static int take_option(struct sim_flush_args *a, int c, struct sim_flush_words *w)
{
    if (c == '?')
        return -1;
    if (c < FIRST_NUMBER)
        w->text[c - 256] = optarg;
    else if (c < CSV)
        return crn_cli_number_of(a->cli, longs, c, &w->number[c - FIRST_NUMBER]);
    else if (c == CSV)
        a->is_csv = 1;
    else if (c == OWN_TAILS)
        w->own_tails = 1;
    else if (c == RECOMMEND)
        a->is_recommend = 1;
    else
        w->is_list = 1;
    return 0;
}

static uint32_t sim_flush_limited(int64_t number, uint32_t otherwise)
{
    if (number == 0)
        return otherwise;
    return number < CRN_MACHINE_MAX_NODES ? (uint32_t)number : CRN_MACHINE_MAX_NODES;
}

static cairn_err sim_flush_understand(const struct sim_flush_words *w, struct sim_flush_args *a,
                                      struct crn_errinfo *ei)
{
    cairn_err rc = crn_machine_load(w->text[MACHINE], &a->machine, ei);
    struct crn_flush *f = &a->base;

    if (rc != CAIRN_OK)
        return rc;
    *f = crn_flush_defaults(&a->machine);
    f->own_tails = w->own_tails;
    f->seed = (uint64_t)w->number[SEED];
    f->writers = sim_flush_limited(w->number[WRITERS], f->writers);
    f->blocks = sim_flush_limited(w->number[BLOCKS], 2 * f->writers);
    f->stripes = sim_flush_limited(w->number[STRIPES], 0);
    a->recommend = (struct crn_recommend){.max_files = sim_flush_limited(w->number[MAX_FILES], 0),
                                          .max_leaders_per_file =
                                              sim_flush_limited(w->number[MAX_LEADERS], 16),
                                          .slack = 0.05};
    rc = crn_cli_quantity("--block", w->text[BLOCK], crn_quantity_bytes, &f->block_bytes, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_quantity("--size", w->text[SIZE], crn_quantity_bytes, &f->rank_bytes, ei);
    if (w->text[NODES] == NULL)
        a->nodes[a->nnodes++] = floor(a->machine.nodes);
    else if (rc == CAIRN_OK)
        rc = crn_cli_words("--nodes", w->text[NODES], take_nodes, a, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_words("--files", w->text[FILES], take_files, a, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_words("--leaders", w->text[LEADERS], take_leaders, a, ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_words("--imbalance", w->text[IMBALANCE], take_imbalance, a, ei);
    return rc;
}

static int sim_flush_list(struct cli *cli)
{
    const struct crn_text *t;

    (void)printf("Machines (--machine; --show NAME prints one as a file to start from):\n");
    for (t = crn_machine_texts; t->name != NULL; t++) {
        struct crn_machine m;

        if (crn_machine_load(t->name, &m, cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
        (void)printf("  %-18s %s\n", m.name, m.about);
    }
    return crn_cli_end(cli, CLI_OK);
}

int crn_sim_flush(struct cli *cli, int argc, char **argv)
{
    struct sim_flush_args a = {.cli = cli};
    struct sim_flush_words w = {.text = {[MACHINE] = "frontier-paper",
                                         [FILES] = "1:1,1:2,1:4,1:8",
                                         [LEADERS] = "1",
                                         [IMBALANCE] = "0%"},
                                .number = {[SEED] = 1}};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "", longs)) != -1)
        if (take_option(&a, c, &w) != 0)
            return CLI_USAGE;
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (w.is_list)
        return sim_flush_list(cli);
    if (w.text[SHOW] != NULL)
        return crn_sim_show(cli, crn_machine_texts, "machine", w.text[SHOW]);
    if (sim_flush_understand(&w, &a, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    return run_all(&a);
}
