/* SPDX-License-Identifier: BSD-3-Clause */
/* The experiments behind docs/policies.md: rejected policies beside those in use, on cielo-paper
 * at several bandwidths and on the same seeds. The variants are here because the broker does not
 * need them; the simulator takes any struct crn_policy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "sim/montecarlo.h"

/* The cost of one second of delay of a request, in node-seconds, under different readings. A job
 * that stands still always loses q; d is the time at risk, P the job's period. */

static double at_risk_s(const struct crn_io_queue *q, const struct crn_io_request *r)
{
    return q->now_s - r->last_checkpoint_s;
}

/* Of a job, for each second of work that a failure would undo: q^2 / mu_ind. */
static double risk(const struct crn_io_request *r)
{
    return crn_io_failure_rate(r) * r->nodes * r->nodes;
}

static double whole_loss(const struct crn_io_queue *q, const struct crn_io_request *r)
{
    return risk(r) * (r->recovery_s + at_risk_s(q, r));
}

static double loss(const struct crn_io_queue *q, const struct crn_io_request *r)
{
    return risk(r) * at_risk_s(q, r);
}

static double since_request(const struct crn_io_queue *q, const struct crn_io_request *r)
{
    return risk(r) * (q->now_s - r->since_s);
}

static double growing(const struct crn_io_queue *q, const struct crn_io_request *r)
{
    double d = at_risk_s(q, r);

    return risk(r) * (d * d - r->period_s * r->period_s) / (2 * r->period_s);
}

static double twice(const struct crn_io_queue *q, const struct crn_io_request *r)
{
    return 2 * risk(r) * (at_risk_s(q, r) - r->period_s);
}

/* Smith's rule with a cost. */
static void smith(const struct crn_io_queue *q, double *ret_score,
                  double (*cost)(const struct crn_io_queue *, const struct crn_io_request *))
{
    size_t i;

    for (i = 0; i < q->n; i++) {
        const struct crn_io_request *r = &q->req[i];

        ret_score[i] = -(r->kind == CRN_IO_CHECKPOINT ? cost(q, r) : r->nodes) / r->duration_s;
    }
}

static void smith_whole_loss(const struct crn_io_queue *q, double *ret_score)
{
    smith(q, ret_score, whole_loss);
}

static void smith_loss(const struct crn_io_queue *q, double *ret_score)
{
    smith(q, ret_score, loss);
}

static void smith_since_request(const struct crn_io_queue *q, double *ret_score)
{
    smith(q, ret_score, since_request);
}

static void smith_growing(const struct crn_io_queue *q, double *ret_score)
{
    smith(q, ret_score, growing);
}

static void smith_twice(const struct crn_io_queue *q, double *ret_score)
{
    smith(q, ret_score, twice);
}

/* Jobs that stand still first, then checkpoints by an index. */

#define LATER 1e9 /* more than any other score */

static void blocked_first(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++)
        ret_score[i] = (q->req[i].kind == CRN_IO_CHECKPOINT ? LATER : 0) + q->req[i].since_s;
}

/* The price of a second of the device at which theorem 1 would checkpoint now: q^2 d^2 / (2 mu C) - q. */
static void blocked_then_price(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++) {
        const struct crn_io_request *r = &q->req[i];
        double d = at_risk_s(q, r);

        ret_score[i] = r->kind == CRN_IO_CHECKPOINT
                           ? LATER - (risk(r) * d * d / (2 * r->duration_s) - r->nodes)
                           : -r->nodes / r->duration_s;
    }
}

static void blocked_then_age(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++) {
        const struct crn_io_request *r = &q->req[i];

        ret_score[i] = r->kind == CRN_IO_CHECKPOINT ? 1e6 - at_risk_s(q, r) / r->period_s
                                                    : -r->nodes / r->duration_s;
    }
}

static const struct crn_policy variants[] = {
    {"blocked-first", "", 1, 0, blocked_first, NULL, NULL},
    {"blocked-then-price", "", 1, 0, blocked_then_price, NULL, NULL},
    {"blocked-then-age", "", 1, 0, blocked_then_age, NULL, NULL},
    {"smith-whole-loss", "", 1, 0, smith_whole_loss, NULL, NULL},
    {"smith-loss", "", 1, 0, smith_loss, NULL, NULL},
    {"smith-since-request", "", 1, 0, smith_since_request, NULL, NULL},
    {"smith-growing", "", 1, 0, smith_growing, NULL, NULL},
    {"smith-twice", "", 1, 0, smith_twice, NULL, NULL},
};

struct entry {
    const struct crn_policy *policy;
    enum crn_period_rule rule;
    int is_async;
};

static const struct entry entries[] = {
    {&crn_policy_ordered_nb, CRN_PERIOD_DALY, 0},
    {&crn_policy_ordered_nb, CRN_PERIOD_THEOREM1, 0},
    {&crn_policy_least_waste, CRN_PERIOD_DALY, 0},
    {&crn_policy_least_waste, CRN_PERIOD_THEOREM1, 0},
    {&crn_policy_least_waste, CRN_PERIOD_BUDGET, 0},
    {&variants[0], CRN_PERIOD_DALY, 0},
    {&variants[0], CRN_PERIOD_THEOREM1, 0},
    {&variants[1], CRN_PERIOD_DALY, 0},
    {&variants[2], CRN_PERIOD_DALY, 0},
    {&variants[3], CRN_PERIOD_DALY, 0},
    {&variants[4], CRN_PERIOD_DALY, 0},
    {&variants[4], CRN_PERIOD_THEOREM1, 0},
    {&variants[5], CRN_PERIOD_DALY, 0},
    {&variants[6], CRN_PERIOD_DALY, 0},
    {&variants[7], CRN_PERIOD_DALY, 0},
    {&crn_policy_delay_cost, CRN_PERIOD_DALY, 0},
    {&crn_policy_delay_cost, CRN_PERIOD_THEOREM1, 0},
    {&crn_policy_least_waste, CRN_PERIOD_DALY, 1},
    {&crn_policy_least_waste, CRN_PERIOD_THEOREM1, 1},
    {&variants[6], CRN_PERIOD_DALY, 1},
    {&variants[7], CRN_PERIOD_DALY, 1},
    {&crn_policy_delay_cost, CRN_PERIOD_DALY, 1},
    {&crn_policy_delay_cost, CRN_PERIOD_THEOREM1, 1},
};

static int report(const char *method, double bandwidth, const struct crn_summary *s)
{
    double worst = 0, longest_s = 0;
    struct crn_json j;
    size_t i;

    for (i = 0; i < s->nclasses; i++) {
        worst = fmax(worst, s->cls[i].waste);
        longest_s = fmax(longest_s, s->cls[i].longest_wait_s);
    }
    (void)fprintf(
        stderr, "%4.0f GB/s  %-30s %.4f +- %.4f  worst class %.3f  longest wait %5.1f h\n",
        bandwidth / 1e9, method, s->waste.mean, s->waste.stderr_mean, worst, longest_s / 3600);
    crn_json_begin(&j, stdout);
    crn_json_object(&j, NULL);
    crn_json_str(&j, "bench", "policy_variants");
    crn_json_f64(&j, "bandwidth", bandwidth);
    crn_json_str(&j, "method", method);
    crn_json_u64(&j, "n", s->runs);
    crn_json_f64(&j, "waste_mean", s->waste.mean);
    crn_json_f64(&j, "waste_stderr", s->waste.stderr_mean);
    crn_json_f64(&j, "worst_class_waste", worst);
    crn_json_f64(&j, "longest_wait_s", longest_s);
    crn_json_end_object(&j);
    return crn_json_finish(&j);
}

static int run_entry(struct crn_platform *p, const struct entry *e, uint64_t runs)
{
    struct crn_strategy s = {.policy = e->policy, .rule = e->rule, .is_async = e->is_async};
    struct crn_montecarlo mc = {.runs = runs, .first_seed = 1, .model = crn_model_defaults};
    struct crn_errinfo ei = {0};
    struct crn_summary sum;

    (void)snprintf(s.name, sizeof(s.name), "%s-%s%s", e->policy->name,
                   crn_period_rule_name(e->rule), e->is_async ? "-async" : "");
    if (crn_montecarlo(p, &s, &mc, &sum, NULL, &ei) != CAIRN_OK) {
        (void)fprintf(stderr, "policy_variants: %s\n", ei.msg);
        return 1;
    }
    return report(s.name, p->bandwidth, &sum);
}

int main(int argc, char **argv)
{
    static const double bandwidths[] = {40, 60, 80, 120};
    uint64_t runs = argc == 2 && strcmp(argv[1], "--quick") == 0 ? 50 : 400;
    struct crn_errinfo ei = {0};
    struct crn_platform p;
    size_t b, i;

    if (crn_platform_load("cielo-paper", &p, &ei) != CAIRN_OK) {
        (void)fprintf(stderr, "policy_variants: %s\n", ei.msg);
        return 1;
    }
    for (b = 0; b < sizeof(bandwidths) / sizeof(bandwidths[0]); b++)
        for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
            p.bandwidth = bandwidths[b] * 1e9;
            if (run_entry(&p, &entries[i], runs) != 0)
                return 1;
        }
    return 0;
}
