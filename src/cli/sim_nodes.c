/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn sim nodes: the cores of the node services of one job (src/sim/nodes.h). Without faults, the
 * messages of a version by role; with faults, many seeds until one fails a check. */
#include "cli/sim_report.h"

#include <inttypes.h>
#include <string.h>
#include "sim/nodes.h"

#define MAX_LIST 16

struct sim_nodes_args {
    struct cli *cli;
    struct crn_nodes base;
    uint32_t nodes[MAX_LIST];
    size_t n;
    uint64_t runs;
    struct cli_table table;
};

static cairn_err take_nodes(void *arg, const char *word, struct crn_errinfo *ei)
{
    struct sim_nodes_args *a = arg;
    double value;
    cairn_err rc = crn_quantity_number(word, &value, ei);

    if (rc != CAIRN_OK)
        return rc;
    if (!(value >= 1 && value <= CRN_NODES_MAX) || a->n == MAX_LIST)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s': at most %d numbers of nodes, from 1 to %d",
                        word, MAX_LIST, CRN_NODES_MAX);
    a->nodes[a->n++] = (uint32_t)value;
    return CAIRN_OK;
}

/* Messages of a version. ----------------------------------------------------------------------- */

static double sim_nodes_each(uint64_t total, const struct crn_nodes_role *r, uint32_t versions)
{
    return r->nodes != 0 ? (double)total / r->nodes / versions : 0;
}

static void put_role(struct sim_nodes_args *a, const struct crn_nodes_result *r, const char *name,
                     const struct crn_nodes_role *role)
{
    struct cli_table *t = &a->table;
    struct crn_json *j = &a->cli->json;

    if (a->cli->is_json) {
        crn_json_object(j, name);
        crn_json_u64(j, "nodes", role->nodes);
        crn_json_f64(j, "sent", sim_nodes_each(role->sent, role, r->versions));
        crn_json_f64(j, "sent_bytes", sim_nodes_each(role->sent_bytes, role, r->versions));
        crn_json_f64(j, "received", sim_nodes_each(role->received, role, r->versions));
        crn_json_f64(j, "received_bytes", sim_nodes_each(role->received_bytes, role, r->versions));
        crn_json_end_object(j);
        return;
    }
    crn_table_add(t, "%u", r->nodes);
    crn_table_add(t, "%u", r->files);
    crn_table_add(t, "%s", name);
    crn_table_add(t, "%u", role->nodes);
    crn_table_add(t, "%.1f", sim_nodes_each(role->sent, role, r->versions));
    crn_table_add(t, "%.0f", sim_nodes_each(role->sent_bytes, role, r->versions));
    crn_table_add(t, "%.1f", sim_nodes_each(role->received, role, r->versions));
    crn_table_add(t, "%.0f", sim_nodes_each(role->received_bytes, role, r->versions));
}

static void put_counts(struct sim_nodes_args *a, const struct crn_nodes_result *r)
{
    struct crn_json *j = &a->cli->json;

    if (a->cli->is_json) {
        crn_json_object(j, NULL);
        crn_json_u64(j, "nodes", r->nodes);
        crn_json_u64(j, "files", r->files);
        crn_json_u64(j, "versions", r->versions);
    }
    put_role(a, r, "root", &r->root);
    put_role(a, r, "leader", &r->leaders);
    put_role(a, r, "follower", &r->followers);
    if (a->cli->is_json)
        crn_json_end_object(j);
}

static cairn_err sim_nodes_count(struct sim_nodes_args *a)
{
    static const char *const head[] = {"NODES", "FILES",      "ROLE",     "COUNT",
                                       "SENT",  "BYTES SENT", "RECEIVED", "BYTES RECEIVED"};
    struct crn_nodes_result r;
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (a->cli->is_json) {
        crn_json_array(crn_cli_json(a->cli), "results");
    } else {
        crn_table_begin(&a->table, "rrlrrrrr");
        for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
            crn_table_add(&a->table, "%s", head[i]);
    }
    for (i = 0; rc == CAIRN_OK && i < a->n; i++) {
        a->base.nodes = a->nodes[i];
        rc = crn_nodes_run(&a->base, &r, a->cli->ei);
        if (rc == CAIRN_OK && r.problem[0] != '\0')
            rc = crn_fail(a->cli->ei, CAIRN_ESTATE, 0, "%s", r.problem);
        if (rc == CAIRN_OK)
            put_counts(a, &r);
    }
    if (a->cli->is_json)
        crn_json_end_array(&a->cli->json);
    else
        crn_table_print(&a->table);
    return rc;
}

/* Faults. -------------------------------------------------------------------------------------- */

static void add_result(struct crn_nodes_result *to, const struct crn_nodes_result *r)
{
    to->events += r->events;
    to->versions += r->versions;
    to->committed += r->committed;
    to->failed += r->failed;
    to->dead += r->dead;
    to->restarted += r->restarted;
    to->cut += r->cut;
    to->late += r->late;
}

static void put_faults(struct sim_nodes_args *a, uint64_t runs, const struct crn_nodes_result *r)
{
    struct crn_json *j;

    if (!a->cli->is_json) {
        (void)printf("%" PRIu64 " runs of at most %u nodes, from seed %" PRIu64 ": %u versions, "
                     "%" PRIu64 " committed, %" PRIu64 " failed; %" PRIu64 " events, %" PRIu64
                     " deaths, %" PRIu64 " restarts, %" PRIu64 " cuts, %" PRIu64 " late ranks\n",
                     runs, a->base.nodes, a->base.seed, r->versions, r->committed, r->failed,
                     r->events, r->dead, r->restarted, r->cut, r->late);
        return;
    }
    j = &a->cli->json;
    crn_json_object(j, NULL);
    crn_json_u64(j, "nodes", a->base.nodes);
    crn_json_u64(j, "runs", runs);
    crn_json_u64(j, "versions", r->versions);
    crn_json_u64(j, "committed", r->committed);
    crn_json_u64(j, "failed", r->failed);
    crn_json_u64(j, "events", r->events);
    crn_json_u64(j, "dead", r->dead);
    crn_json_u64(j, "restarted", r->restarted);
    crn_json_u64(j, "cut", r->cut);
    crn_json_u64(j, "late", r->late);
    crn_json_end_object(j);
}

static cairn_err one_size(struct sim_nodes_args *a)
{
    struct crn_nodes_result total = {0};
    struct crn_nodes setup = a->base;
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    for (i = 0; rc == CAIRN_OK && i < a->runs; i++) {
        struct crn_nodes_result r;

        setup.seed = a->base.seed + i;
        rc = crn_nodes_run(&setup, &r, a->cli->ei);
        if (rc == CAIRN_OK && r.problem[0] != '\0')
            rc = crn_fail(a->cli->ei, CAIRN_ESTATE, 0,
                          "%s (%u nodes, %u files); replay it with: cairn sim nodes --faults "
                          "--nodes %u --seed %" PRIu64 " --runs 1",
                          r.problem, r.nodes, r.files, setup.nodes, setup.seed);
        if (rc == CAIRN_OK)
            add_result(&total, &r);
    }
    if (rc == CAIRN_OK)
        put_faults(a, a->runs, &total);
    return rc;
}

static cairn_err sim_nodes_faults(struct sim_nodes_args *a)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (a->cli->is_json)
        crn_json_array(crn_cli_json(a->cli), "results");
    for (i = 0; rc == CAIRN_OK && i < a->n; i++) {
        a->base.nodes = a->nodes[i];
        rc = one_size(a);
    }
    if (a->cli->is_json)
        crn_json_end_array(&a->cli->json);
    return rc;
}

/* Options. ------------------------------------------------------------------------------------- */

enum { NODES = 256, FAULTS, FIRST_NUMBER };
enum number { FILES, VERSIONS, RANKS, RUNS, SEED, NNUMBERS };

static const struct option longs[] = {
    {"nodes", required_argument, NULL, NODES},
    {"faults", no_argument, NULL, FAULTS},
    {"files", required_argument, NULL, FIRST_NUMBER + FILES},
    {"versions", required_argument, NULL, FIRST_NUMBER + VERSIONS},
    {"ranks", required_argument, NULL, FIRST_NUMBER + RANKS},
    {"runs", required_argument, NULL, FIRST_NUMBER + RUNS},
    {"seed", required_argument, NULL, FIRST_NUMBER + SEED},
    {0},
};

static uint32_t sim_nodes_limited(int64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

int crn_sim_nodes(struct cli *cli, int argc, char **argv)
{
    struct sim_nodes_args a = {.cli = cli};
    int64_t number[NNUMBERS] = {[RUNS] = 1000, [SEED] = 1};
    const char *list = NULL;
    cairn_err rc;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (c == NODES)
            list = optarg;
        else if (c == FAULTS)
            a.base.has_faults = 1;
        else if (crn_cli_number_of(cli, longs, c, &number[c - FIRST_NUMBER]) != 0)
            return CLI_USAGE;
    }
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (list == NULL)
        list = a.base.has_faults ? "16" : "64,512,4096";
    a.base.files = sim_nodes_limited(number[FILES]);
    a.base.versions = sim_nodes_limited(number[VERSIONS]);
    a.base.ranks = sim_nodes_limited(number[RANKS]);
    a.base.seed = (uint64_t)number[SEED];
    a.runs = (uint64_t)number[RUNS];
    rc = crn_cli_words("--nodes", list, take_nodes, &a, cli->ei);
    if (rc == CAIRN_OK)
        rc = a.base.has_faults ? sim_nodes_faults(&a) : sim_nodes_count(&a);
    if (cli->is_json && cli->has_json)
        return crn_cli_json_end(cli, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
    return crn_cli_end(cli, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
}
