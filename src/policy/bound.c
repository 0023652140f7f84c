/* SPDX-License-Identifier: BSD-3-Clause */
/* A lower bound on the waste of any schedule: theorem 1, and the same bound with exact
 * expectations. Both put a price lambda on a second of the device and look for the price at
 * which demand meets supply. */
#include "policy/period.h"

#include <math.h>

#define STEPS 200 /* halvings of a bracket: more than a double has bits */

static double job_mtbf(const struct crn_steady *s, size_t i)
{
    return s->node_mtbf_s > 0 ? s->node_mtbf_s / s->cls[i].nodes : 0;
}

/* Equation 8; block_s and device_s are both C there. */
static double period_at(const struct crn_steady *s, size_t i, double lambda)
{
    const struct crn_job_class *c = &s->cls[i];
    double q = c->nodes;

    if (s->node_mtbf_s <= 0)
        return INFINITY;
    return sqrt(2 * s->node_mtbf_s / q * (c->block_s + lambda * s->nodes / q * c->device_s));
}

static double device_use_at(const struct crn_steady *s, double lambda)
{
    double use = 0;
    size_t i;

    for (i = 0; i < s->n; i++)
        use += s->cls[i].jobs * s->cls[i].device_s / period_at(s, i, lambda);
    return use;
}

/* The smallest price at which demand(price) <= supply; demand falls with the price. */
static double clearing_price(double (*demand)(const struct crn_steady *, double),
                             const struct crn_steady *s)
{
    double low = 0;
    double high = 1e-6;
    int i;

    if (demand(s, 0) <= s->device_share)
        return 0;
    while (demand(s, high) > s->device_share && high < 1e12)
        high *= 2;
    for (i = 0; i < STEPS && low < high; i++) {
        double mid = low + (high - low) / 2;

        if (mid <= low || mid >= high)
            break;
        if (demand(s, mid) > s->device_share)
            low = mid;
        else
            high = mid;
    }
    return high;
}

void crn_bound_theorem1(const struct crn_steady *s, double *ret_period, struct crn_bound *ret)
{
    size_t i;

    ret->lambda = clearing_price(device_use_at, s);
    ret->device_use = device_use_at(s, ret->lambda);
    ret->waste = 0;
    for (i = 0; i < s->n; i++) {
        const struct crn_job_class *c = &s->cls[i];
        double period = period_at(s, i, ret->lambda);

        ret->waste +=
            c->jobs * c->nodes / s->nodes *
            crn_period_waste_first_order(period, c->block_s, c->recovery_s, job_mtbf(s, i));
        if (ret_period != NULL)
            ret_period[i] = period;
    }
}

/* What a job of class i does at a price: the cheapest work between commits, or nothing at all
 * (work 0), which wastes everything and needs no device. */
struct choice {
    double work, waste, use;
};

static double cost_of(const struct crn_steady *s, size_t i, double lambda, double work)
{
    const struct crn_job_class *c = &s->cls[i];
    double mtbf = job_mtbf(s, i);

    return crn_period_waste_exact(work, c->block_s, c->recovery_s, mtbf) +
           lambda * s->nodes / c->nodes *
               crn_period_device_use(work, c->device_s, c->recovery_s, mtbf);
}

/* The cost falls, then rises with log(work): golden-section search. */
static double best_work(const struct crn_steady *s, size_t i, double lambda)
{
    const double ratio = 0.6180339887498949;
    double low = log(1e-3 * job_mtbf(s, i));
    double high = log(50 * job_mtbf(s, i));
    int k;

    for (k = 0; k < STEPS && high - low > 1e-9; k++) {
        double a = high - ratio * (high - low);
        double b = low + ratio * (high - low);

        if (cost_of(s, i, lambda, exp(a)) < cost_of(s, i, lambda, exp(b)))
            high = b;
        else
            low = a;
    }
    return exp((low + high) / 2);
}

static struct choice bound_choose(const struct crn_steady *s, size_t i, double lambda)
{
    const struct crn_job_class *c = &s->cls[i];
    struct choice idle = {0, 1, 0};
    struct choice run;

    if (s->node_mtbf_s <= 0)
        return (struct choice){INFINITY, 0, 0};
    run.work = best_work(s, i, lambda);
    run.waste = crn_period_waste_exact(run.work, c->block_s, c->recovery_s, job_mtbf(s, i));
    run.use = crn_period_device_use(run.work, c->device_s, c->recovery_s, job_mtbf(s, i));
    return cost_of(s, i, lambda, run.work) < 1 ? run : idle;
}

static double exact_use_at(const struct crn_steady *s, double lambda)
{
    double use = 0;
    size_t i;

    for (i = 0; i < s->n; i++)
        use += s->cls[i].jobs * bound_choose(s, i, lambda).use;
    return use;
}

/* For any price, the least cost minus the price of the whole supply is a lower bound on the
 * waste; the clearing price gives the best one. If a class switches from running to idle at that
 * price, demand jumps across the supply, and the bound is that of a mixture. */
void crn_bound_exact(const struct crn_steady *s, double *ret_work, struct crn_bound *ret)
{
    size_t i;

    ret->lambda = clearing_price(exact_use_at, s);
    ret->device_use = exact_use_at(s, ret->lambda);
    ret->waste = ret->lambda * (ret->device_use - s->device_share);
    for (i = 0; i < s->n; i++) {
        struct choice c = bound_choose(s, i, ret->lambda);

        ret->waste += s->cls[i].jobs * s->cls[i].nodes / s->nodes * c.waste;
        if (ret_work != NULL)
            ret_work[i] = c.work;
    }
}
