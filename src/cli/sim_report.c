/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/sim_report.h"

static void json_stats(struct crn_json *j, const char *key, const struct crn_stats *s)
{
    crn_json_object(j, key);
    crn_json_f64(j, "mean", s->mean);
    crn_json_f64(j, "stderr", s->stderr_mean);
    crn_json_f64(j, "min", s->min);
    crn_json_f64(j, "p10", s->p10);
    crn_json_f64(j, "p25", s->p25);
    crn_json_f64(j, "p50", s->p50);
    crn_json_f64(j, "p75", s->p75);
    crn_json_f64(j, "p90", s->p90);
    crn_json_f64(j, "max", s->max);
    crn_json_end_object(j);
}

static void json_class(struct crn_json *j, const struct crn_summary_class *c)
{
    crn_json_object(j, NULL);
    crn_json_str(j, "name", c->name);
    crn_json_f64(j, "share", c->share);
    crn_json_f64(j, "waste", c->waste);
    crn_json_f64(j, "mean_wait_s", c->mean_wait_s);
    crn_json_f64(j, "longest_wait_s", c->longest_wait_s);
    crn_json_f64(j, "checkpoints", c->checkpoints);
    crn_json_end_object(j);
}

static void json_summary(struct crn_json *j, const struct crn_summary *s)
{
    size_t i;
    int u;

    json_stats(j, "waste", &s->waste);
    json_stats(j, "waste_io", &s->waste_io);
    json_stats(j, "checkpoint_slowdown", &s->slowdown);
    crn_json_object(j, "node_time");
    for (u = 0; u < CRN_SIM_USES; u++)
        crn_json_f64(j, crn_sim_use_name((enum crn_sim_use)u), s->use[u]);
    crn_json_f64(j, "lost", s->lost);
    crn_json_end_object(j);
    crn_json_f64(j, "idle", s->idle);
    crn_json_f64(j, "device_busy", s->device_busy);
    crn_json_array(j, "classes");
    for (i = 0; i < s->nclasses; i++)
        json_class(j, &s->cls[i]);
    crn_json_end_array(j);
    crn_json_f64(j, "simulations_per_s", (double)s->runs / s->wall_s);
}

static void json_row(struct crn_json *j, const struct sim_row *row)
{
    crn_json_object(j, NULL);
    crn_json_str(j, "strategy", row->strategy);
    crn_json_f64(j, "bandwidth", row->bandwidth);
    crn_json_f64(j, "node_mtbf_s", row->node_mtbf_s);
    crn_json_f64(j, "system_mtbf_s", row->system_mtbf_s);
    crn_json_f64(j, "bound", row->bound);
    if (row->summary != NULL) {
        crn_json_str(j, "mode", row->mode);
        json_summary(j, row->summary);
    } else {
        crn_json_f64(j, "lambda", row->theorem1->lambda);
        crn_json_f64(j, "device_use", row->theorem1->device_use);
    }
    crn_json_end_object(j);
}

static void csv_row(const struct sim_row *row)
{
    const struct crn_summary *s = row->summary;

    (void)printf("%s,%.9g,%.9g,%.9g,", row->strategy, row->bandwidth, row->node_mtbf_s,
                 row->system_mtbf_s);
    if (s == NULL)
        (void)printf("0,%.9g,,,,,,,,,,,\n", row->bound);
    else
        (void)printf("%llu,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%s,%.9g\n",
                     (unsigned long long)s->runs, s->waste.mean, s->waste.stderr_mean, s->waste.p10,
                     s->waste.p25, s->waste.p50, s->waste.p75, s->waste.p90, s->waste_io.mean,
                     s->slowdown.mean, (double)s->runs / s->wall_s, row->mode, row->bound);
}

static void sim_report_where(struct cli_table *t, const struct sim_row *row)
{
    crn_table_add(t, "%s", row->strategy);
    crn_table_add(t, "%.4g GB/s", row->bandwidth / 1e9);
    crn_table_add(t, "%.4g h", row->system_mtbf_s / 3600);
}

static void class_rows(struct cli_table *t, const struct sim_row *row)
{
    size_t i;

    for (i = 0; i < row->summary->nclasses; i++) {
        const struct crn_summary_class *c = &row->summary->cls[i];

        sim_report_where(t, row);
        crn_table_add(t, "%s", c->name);
        crn_table_add(t, "%.3f", c->share);
        crn_table_add(t, "%.3f", c->waste);
        crn_table_add(t, "%.2f h", c->mean_wait_s / 3600);
        crn_table_add(t, "%.1f h", c->longest_wait_s / 3600);
    }
}

static void table_row(struct cli_table *t, const struct sim_row *row)
{
    const struct crn_summary *s = row->summary;

    sim_report_where(t, row);
    crn_table_add(t, "%.4f", s->waste.mean);
    crn_table_add(t, "%.4f", s->waste.stderr_mean);
    crn_table_add(t, "%.4f", row->bound);
    crn_table_add(t, "%.3f", s->waste.p10);
    crn_table_add(t, "%.3f", s->waste.p25);
    crn_table_add(t, "%.3f", s->waste.p75);
    crn_table_add(t, "%.3f", s->waste.p90);
    crn_table_add(t, "%.4f", s->waste_io.mean);
    crn_table_add(t, "%.2f", s->slowdown.mean);
    crn_table_add(t, "%.0f", (double)s->runs / s->wall_s);
    crn_table_add(t, "%s", row->mode);
}

static void theorem1_row(struct cli_table *t, const struct sim_row *row)
{
    int i;

    sim_report_where(t, row);
    crn_table_add(t, "%.4f", row->bound);
    for (i = 0; i < 10; i++)
        crn_table_add(t, "%s", "");
}

void crn_sim_report_row(struct sim_report *r, const struct sim_row *row)
{
    if (r->cli->is_json) {
        json_row(&r->cli->json, row);
    } else if (r->is_csv) {
        csv_row(row);
    } else if (row->summary == NULL) {
        theorem1_row(&r->table, row);
    } else {
        table_row(&r->table, row);
        class_rows(&r->classes, row);
    }
}

static void begin_tables(struct sim_report *r)
{
    static const char *const head[] = {"STRATEGY", "BANDWIDTH", "MTBF",   "WASTE", "+-",
                                       "BOUND",    "P10",       "P25",    "P75",   "P90",
                                       "WITH I/O", "SLOW",      "RUNS/S", "WRITES"};
    static const char *const class_head[] = {"STRATEGY", "BANDWIDTH", "MTBF",      "CLASS",
                                             "SHARE",    "WASTE",     "MEAN WAIT", "LONGEST"};
    size_t i;

    crn_table_begin(&r->table, "lrrrrrrrrrrrrl");
    for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
        crn_table_add(&r->table, "%s", head[i]);
    crn_table_begin(&r->classes, "lrrlrrrr");
    for (i = 0; i < sizeof(class_head) / sizeof(class_head[0]); i++)
        crn_table_add(&r->classes, "%s", class_head[i]);
}

void crn_sim_report_begin(struct sim_report *r, const struct crn_platform *p,
                          const struct crn_montecarlo *mc)
{
    if (r->cli->is_json) {
        struct crn_json *j = crn_cli_json(r->cli);

        crn_json_str(j, "platform", p->name);
        crn_json_u64(j, "runs", mc->runs);
        crn_json_u64(j, "first_seed", mc->first_seed);
        crn_json_f64(j, "days", mc->model.days);
        crn_json_array(j, "results");
    } else if (r->is_csv) {
        (void)printf(
            "strategy,bandwidth,node_mtbf_s,system_mtbf_s,runs,waste,stderr,p10,p25,p50,p75,"
            "p90,waste_io,checkpoint_slowdown,simulations_per_s,mode,bound\n");
    } else {
        begin_tables(r);
    }
}

int crn_sim_report_end(struct sim_report *r, int status)
{
    if (r->cli->is_json) {
        crn_json_end_array(&r->cli->json);
        return crn_cli_json_end(r->cli, status);
    }
    if (!r->is_csv) {
        crn_table_print(&r->table);
        if (r->with_classes) {
            (void)printf("\n");
            crn_table_print(&r->classes);
        }
        crn_table_free(&r->classes);
    }
    return crn_cli_end(r->cli, status);
}
