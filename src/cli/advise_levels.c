/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn advise levels: how often to checkpoint, and how many checkpoints to flush. The costs are
 * medians of what the versions of a name have measured, or as given; how often things fail, only
 * the user knows. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/advise.h"
#include "cli/level_times.h"
#include "policy/levels.h"

enum { NODES, STORE, NLEVELS }; /* versions that stay on the nodes; on the file system */

struct levels_advice {
    struct cli *cli;
    const struct advise_levels_options *o;
    size_t versions;
    double copy_s, local_s, flush_s; /* measured or given; negative: not known */
    struct crn_level_costs level[NLEVELS];
    struct crn_level_plan plan, all; /* all: every version is flushed */
};

/* Options. ------------------------------------------------------------------------------------- */

static double *time_of(struct advise_levels_times *t, const char *level, size_t len)
{
    static const struct {
        const char *name;
        size_t at;
    } known[] = {{"captured", offsetof(struct advise_levels_times, captured_s)},
                 {"local", offsetof(struct advise_levels_times, local_s)},
                 {"persistent", offsetof(struct advise_levels_times, persistent_s)}};
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].name) == len && strncmp(known[i].name, level, len) == 0)
            return (double *)(void *)((char *)t + known[i].at);
    return NULL;
}

cairn_err crn_advise_levels_time(struct advise_levels_times *t, const char *text,
                                 struct crn_errinfo *ei)
{
    const char *equal = strchr(text, '=');
    double *field = equal != NULL ? time_of(t, text, (size_t)(equal - text)) : NULL;
    uint64_t ns;
    cairn_err rc;

    if (field == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "'%s' is not LEVEL=TIME, with the level captured, local or persistent",
                        text);
    rc = crn_parse_time(equal + 1, &ns, ei);
    if (rc == CAIRN_OK)
        *field = (double)ns * 1e-9;
    return rc;
}

/* The costs. ----------------------------------------------------------------------------------- */

#define MEDIAN(h, field) crn_level_times_median(h, offsetof(struct cli_level_times, field))

static double known_or(double given, double measured)
{
    return given >= 0 ? given : measured;
}

static void advise_measure(struct levels_advice *a, const struct cli_level_history *h)
{
    const struct advise_levels_times *cost = &a->o->cost;
    double captured_s = MEDIAN(h, captured_s);
    double local_s = MEDIAN(h, local_s);
    double flush_s = MEDIAN(h, flush_s);

    a->versions = h->n;
    a->copy_s = known_or(cost->captured_s, MEDIAN(h, copy_s));
    a->local_s = known_or(cost->local_s, local_s < 0 || captured_s < 0 ? local_s
                                         : local_s > captured_s        ? local_s - captured_s
                                                                       : 0);
    a->flush_s = known_or(cost->persistent_s, flush_s >= 0 ? flush_s : MEDIAN(h, persistent_s));
}

static double rate_of(double mtbf_s)
{
    return mtbf_s > 0 ? 1 / mtbf_s : 0;
}

static double mtbf_of(double rate)
{
    return rate > 0 ? 1 / rate : 0;
}

/* What happens in the background slows the application down while it lasts. */
static void advise_plan(struct levels_advice *a)
{
    const struct advise_levels_times *mtbf = &a->o->mtbf;
    double slow = a->o->slowdown_percent / 100;
    double stored_s =
        mtbf->persistent_s >= 0 ? mtbf->persistent_s : (double)a->cli->cfg.mtbf_ns * 1e-9;
    double on_nodes = rate_of(mtbf->captured_s) + rate_of(mtbf->local_s);
    struct crn_level_costs all;

    a->level[NODES] =
        (struct crn_level_costs){.cost_s = a->copy_s + (a->local_s > 0 ? slow * a->local_s : 0),
                                 .mtbf_s = mtbf_of(on_nodes)};
    a->level[STORE] = (struct crn_level_costs){
        .cost_s = slow * a->flush_s, .mtbf_s = stored_s, .least_s = a->flush_s};
    all = (struct crn_level_costs){.cost_s = a->level[NODES].cost_s + a->level[STORE].cost_s,
                                   .mtbf_s = mtbf_of(on_nodes + rate_of(stored_s)),
                                   .least_s = a->flush_s};
    crn_levels_best(a->level, NLEVELS, &a->plan);
    crn_levels_best(&all, 1, &a->all);
}

/* Output. -------------------------------------------------------------------------------------- */

static uint32_t persistent_every(const struct levels_advice *a)
{
    return a->plan.every[STORE] == CRN_LEVEL_EVERY_MAX ? 0 : a->plan.every[STORE];
}

/* As a value of the key `period`: two digits are as exact as the model. */
static void period_text(double seconds, char *text, size_t size)
{
    double step = pow(10, floor(log10(seconds)) - 1);

    crn_format_time((uint64_t)(round(seconds / step) * step * 1e3) * 1000000, text, size);
}

static void level_row(struct cli_table *t, const char *name, const struct crn_level_costs *l,
                      uint32_t every, double period_s)
{
    char text[32];

    crn_table_add(t, "%s", name);
    crn_human_time(l->cost_s, text, sizeof(text));
    crn_table_add(t, "%s", text);
    crn_human_time(l->mtbf_s, text, sizeof(text));
    crn_table_add(t, "%s", l->mtbf_s > 0 ? text : "-");
    crn_human_time(every * period_s, text, sizeof(text));
    crn_table_add(t, "%s", every == CRN_LEVEL_EVERY_MAX ? "never" : text);
}

static void levels_print(const struct levels_advice *a)
{
    char copy[32], flush[32], period[32];
    struct cli_table t;

    crn_human_time(a->copy_s, copy, sizeof(copy));
    crn_human_time(a->flush_s, flush, sizeof(flush));
    period_text(a->plan.period_s, period, sizeof(period));
    (void)printf(
        "%zu versions: the copy takes %s, the flush %s; while it lasts, the application is "
        "%.3g %% slower (--slowdown)\n\n",
        a->versions, copy, flush, a->o->slowdown_percent);
    crn_table_begin(&t, "lrrr");
    crn_table_add(&t, "LEVEL");
    crn_table_add(&t, "COST");
    crn_table_add(&t, "MTBF");
    crn_table_add(&t, "INTERVAL");
    level_row(&t, "on the nodes", &a->level[NODES], a->plan.every[NODES], a->plan.period_s);
    level_row(&t, "persistent", &a->level[STORE], a->plan.every[STORE], a->plan.period_s);
    crn_table_print(&t);
    crn_table_free(&t);
    (void)printf("\nperiod = %s\npersistent_every = %" PRIu32 "\n\n", period, persistent_every(a));
    (void)printf("Checkpoints and failures then cost %.2f %% of the time; with every version "
                 "flushed, at best %.2f %%.\n",
                 100 * a->plan.waste, 100 * a->all.waste);
}

static void levels_json(const struct levels_advice *a)
{
    struct crn_json *j = crn_cli_json(a->cli);

    crn_json_u64(j, "versions", a->versions);
    crn_json_f64(j, "copy_s", a->copy_s);
    crn_json_f64(j, "flush_s", a->flush_s);
    crn_json_f64(j, "slowdown_percent", a->o->slowdown_percent);
    crn_json_f64(j, "period_s", a->plan.period_s);
    crn_json_u64(j, "persistent_every", persistent_every(a));
    crn_json_f64(j, "waste", a->plan.waste);
    crn_json_f64(j, "waste_all_flushed", a->all.waste);
}

static int levels_show(struct levels_advice *a)
{
    if (a->copy_s < 0 || a->flush_s < 0)
        return crn_cli_problem(a->cli, CAIRN_ENOENT,
                               "its versions have not measured what %s; say it with --cost %s=TIME",
                               a->copy_s < 0 ? "a copy costs" : "a flush takes",
                               a->copy_s < 0 ? "captured" : "persistent");
    advise_plan(a);
    if (isinf(a->plan.period_s) || a->plan.period_s <= 0)
        return crn_cli_problem(a->cli, CAIRN_EINVAL,
                               "without failures, or without cost, every interval is as good; give "
                               "--mtbf and --cost");
    if (a->cli->is_json)
        levels_json(a);
    else
        levels_print(a);
    return a->cli->is_json ? crn_cli_json_end(a->cli, CLI_OK) : crn_cli_end(a->cli, CLI_OK);
}

int crn_advise_levels(struct cli *cli, const struct advise_levels_options *o, const char *name)
{
    struct levels_advice a = {.cli = cli, .o = o};
    struct cli_level_history h = {0};
    struct cli_target t;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), cli->cfg.persistent, 0, &cli->store, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    rc = crn_cli_target(name, &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_level_times_load(&cli->store, t.name, &h, cli->ei);
    crn_store_close(&cli->store);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    advise_measure(&a, &h);
    crn_level_times_free(&h);
    return levels_show(&a);
}
