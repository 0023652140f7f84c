/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of strategies, and the periods that they assign to the classes of a platform. */
#include "sim/strategy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const crn_strategy_names[] = {
    "oblivious-fixed",  "oblivious-daly",   "ordered-fixed",     "ordered-daly",
    "ordered-nb-fixed", "ordered-nb-daly",  "least-waste",       "set-10",
    "delay-cost",       "delay-cost-async", "delay-cost-newest", NULL,
};

const struct crn_model_options crn_model_defaults = {
    .days = 60, .fixed_period_s = 3600, .capture_s = 60};

static const char *const rule_names[CRN_PERIOD_RULES] = {"fixed", "daly", "theorem1", "budget"};

const char *crn_period_rule_name(enum crn_period_rule rule)
{
    return rule_names[rule];
}

const char *crn_strategy_mode(const struct crn_strategy *s)
{
    if (s->is_newest)
        return "newest capture";
    return s->is_async ? "at the grant" : "foreground";
}

/* Cuts "-word" off the end of name; 1 if it was there. */
static int cut_suffix(char *name, const char *word)
{
    size_t len = strlen(name);
    size_t cut = strlen(word) + 1;

    if (len <= cut || name[len - cut] != '-' || strcmp(name + len - cut + 1, word) != 0)
        return 0;
    name[len - cut] = '\0';
    return 1;
}

cairn_err crn_strategy_parse(const char *name, struct crn_strategy *ret, struct crn_errinfo *ei)
{
    struct crn_strategy s = {.rule = CRN_PERIOD_DALY};
    char rest[sizeof(s.name)];
    int rule;

    if ((size_t)snprintf(s.name, sizeof(s.name), "%s", name) >= sizeof(s.name))
        return crn_fail(ei, CAIRN_EINVAL, 0, "strategy '%s' is too long", name);
    memcpy(rest, s.name, sizeof(rest));
    if (strcmp(rest, "baseline") != 0) {
        s.is_newest = cut_suffix(rest, "newest");
        s.is_async = s.is_newest || cut_suffix(rest, "async");
        for (rule = 0; rule < CRN_PERIOD_RULES; rule++)
            if (cut_suffix(rest, rule_names[rule])) {
                s.rule = (enum crn_period_rule)rule;
                break;
            }
        s.policy = crn_policy_find(rest);
        if (s.policy == NULL)
            return crn_fail(ei, CAIRN_EINVAL, 0, "strategy '%s': unknown policy '%s'; see --list",
                            name, rest);
        if (s.is_async && (s.policy->is_blocking || !s.policy->is_exclusive))
            return crn_fail(ei, CAIRN_EINVAL, 0, "strategy '%s': %s cannot write in background",
                            name, rest);
    }
    *ret = s;
    return CAIRN_OK;
}

void crn_model_steady(const struct crn_platform *p,
                      struct crn_job_class storage[CRN_PLATFORM_CLASSES], struct crn_steady *ret)
{
    size_t i;

    for (i = 0; i < p->nclasses; i++) {
        double checkpoint_s = p->cls[i].checkpoint_bytes / p->bandwidth;

        storage[i] = (struct crn_job_class){
            .jobs = p->cls[i].share * p->nodes / p->cls[i].nodes,
            .nodes = p->cls[i].nodes,
            .block_s = checkpoint_s,
            .device_s = checkpoint_s,
            .recovery_s = checkpoint_s,
        };
    }
    *ret = (struct crn_steady){.cls = storage,
                               .n = p->nclasses,
                               .nodes = p->nodes,
                               .node_mtbf_s = p->node_mtbf_s,
                               .device_share = 1};
}

/* The device time that restart reads, input and output leave. Jobs that progress at the speed of
 * the bound do their own I/O correspondingly less often. */
static double device_left(const struct crn_platform *p, const struct crn_steady *s)
{
    struct crn_bound bound;
    double used = 0;
    size_t i;

    crn_bound_exact(s, NULL, &bound);
    for (i = 0; i < s->n; i++) {
        const struct crn_platform_class *c = &p->cls[i];
        double own_s = (c->input_bytes + c->output_bytes) / p->bandwidth;

        used += s->cls[i].jobs * own_s / (own_s + c->work_s) * (1 - bound.waste);
        if (s->node_mtbf_s > 0)
            used -=
                s->cls[i].jobs * expm1(-s->cls[i].recovery_s * s->cls[i].nodes / s->node_mtbf_s);
    }
    return fmax(1 - used, 0.1);
}

static void set_periods(struct crn_model *m, const struct crn_platform *p,
                        const struct crn_model_options *opt)
{
    struct crn_job_class storage[CRN_PLATFORM_CLASSES];
    double period[CRN_PLATFORM_CLASSES];
    struct crn_steady s;
    struct crn_bound bound;
    size_t i;

    crn_model_steady(p, storage, &s);
    if (m->strategy.rule == CRN_PERIOD_BUDGET)
        s.device_share = device_left(p, &s);
    for (i = 0; i < m->nclasses; i++)
        storage[i].block_s = m->cls[i].block_s;
    crn_bound_theorem1(&s, period, &bound);
    for (i = 0; i < m->nclasses; i++) {
        struct crn_model_class *c = &m->cls[i];

        if (m->strategy.rule == CRN_PERIOD_FIXED)
            c->period_s = opt->fixed_period_s;
        else if (m->strategy.rule == CRN_PERIOD_DALY)
            c->period_s = crn_period_daly(c->block_s, m->node_mtbf_s / c->nodes);
        else
            c->period_s = period[i];
        c->request_after_s =
            m->strategy.is_newest ? c->period_s : fmax(0, c->period_s - c->checkpoint_s);
    }
}

void crn_model_init(struct crn_model *m, const struct crn_platform *p,
                    const struct crn_strategy *strategy, const struct crn_model_options *opt)
{
    const double day = 86400;
    size_t i;

    *m = (struct crn_model){.strategy = *strategy,
                            .nodes = p->nodes,
                            .node_mtbf_s = p->node_mtbf_s,
                            .spread = p->spread,
                            .start_s = opt->days > 2 ? day : 0,
                            .end_s = (opt->days > 2 ? opt->days - 1 : opt->days) * day,
                            .nclasses = p->nclasses};
    for (i = 0; i < p->nclasses; i++) {
        const struct crn_platform_class *c = &p->cls[i];
        struct crn_model_class *d = &m->cls[i];

        memcpy(d->name, c->name, sizeof(d->name));
        d->share = c->share;
        d->nodes = c->nodes;
        d->work_s = c->work_s;
        d->input_s = c->input_bytes / p->bandwidth;
        d->output_s = c->output_bytes / p->bandwidth;
        d->checkpoint_s = c->checkpoint_bytes / p->bandwidth;
        d->block_s = strategy->is_async ? fmin(opt->capture_s, d->checkpoint_s) : d->checkpoint_s;
    }
    set_periods(m, p, opt);
}
