/* SPDX-License-Identifier: BSD-3-Clause */
/* A lower bound on the waste of any schedule: theorem 1, and the same bound with exact
 * expectations. Both put a price lambda on a second of the device and look for the price at
 * which demand meets supply. */
#include "policy/period.h"

#include <math.h>

#define STEPS 200  /* of a search: more than a double has bits */
#define NEAR  1e-4 /* searches of a minimum end; its value is exact to the square of that */

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
    for (i = 0; i < STEPS && high - low > 1e-12 * high; i++) {
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

/* Expected time and device time of a part of a job's life. */
struct part {
    double time, device;
};

/* Segments of `work`, together `total` of work that survives. With r = 1 / mtbf, an attempt of w + b
 * takes (1 - exp(-r (w + b))) / r on average, each failure a recovery that may fail, too, and the
 * segment survives if no failure strikes before its commit, at w + C: exp(r (w + C)) attempts.
 * block_s and device_s are 0 after the last commit. */
static struct part bound_segments(const struct crn_job_class *c, double mtbf, double work,
                                  double total, double read_s, int is_last)
{
    double block = is_last ? 0 : c->block_s;
    double device = is_last ? 0 : c->device_s;
    double late = exp(fmax(0, device - block) / mtbf); /* commits after the block has ended */
    double tries = total / work * late * expm1((work + block) / mtbf);

    return (struct part){tries * exp(read_s / mtbf) * mtbf,
                         total / work * expm1(device / mtbf) * mtbf +
                             tries * expm1(read_s / mtbf) * mtbf};
}

static void bound_add(struct part *sum, struct part more)
{
    sum->time += more.time;
    sum->device += more.device;
}

/* A job that computes `last` after its last checkpoint, and `work` between two. Until the first
 * commit, which with writes in the background may be that of the second segment, a failure costs
 * no more than the input. */
static struct choice life(const struct crn_job_class *c, double mtbf, double work, double last)
{
    double first_read = fmin(c->input_s, c->recovery_s);
    double rest = c->work_s - last;
    double early = fmin(rest, c->device_s > c->block_s ? 2 * work : work);
    struct part sum = {c->own_s, c->own_s};

    if (early > 0)
        bound_add(&sum, bound_segments(c, mtbf, work, early, first_read, 0));
    if (rest > early)
        bound_add(&sum, bound_segments(c, mtbf, work, rest - early, c->recovery_s, 0));
    if (last > 0)
        bound_add(&sum,
                  bound_segments(c, mtbf, last, last, rest > 0 ? c->recovery_s : first_read, 1));
    return (struct choice){work, 1 - c->work_s / sum.time, sum.device / sum.time};
}

static struct choice endless(const struct crn_job_class *c, double mtbf, double work)
{
    struct part sum = bound_segments(c, mtbf, work, work, c->recovery_s, 0);

    return (struct choice){work, 1 - work / sum.time, sum.device / sum.time};
}

static double choice_cost(const struct crn_steady *s, size_t i, double lambda,
                          const struct choice *c)
{
    return c->waste + lambda * s->nodes / s->cls[i].nodes * c->use;
}

/* A search for the cheapest choice of class i. */
struct hunt {
    const struct crn_steady *s;
    size_t i;
    double lambda;
    double last; /* work after the last checkpoint */
};

/* The cheapest of at(x): its cost falls, then rises, so golden-section search finds it. */
static struct choice golden(const struct hunt *h, struct choice (*at)(const struct hunt *, double),
                            double low, double high, double near)
{
    const double ratio = 0.6180339887498949;
    double a = high - ratio * (high - low);
    double b = low + ratio * (high - low);
    struct choice ca = at(h, a);
    struct choice cb = at(h, b);
    int k;

    for (k = 0; k < STEPS && high - low > near; k++) {
        if (choice_cost(h->s, h->i, h->lambda, &ca) < choice_cost(h->s, h->i, h->lambda, &cb)) {
            high = b;
            b = a;
            cb = ca;
            a = high - ratio * (high - low);
            ca = at(h, a);
        } else {
            low = a;
            a = b;
            ca = cb;
            b = low + ratio * (high - low);
            cb = at(h, b);
        }
    }
    return choice_cost(h->s, h->i, h->lambda, &ca) < choice_cost(h->s, h->i, h->lambda, &cb) ? ca
                                                                                             : cb;
}

static struct choice with_work(const struct hunt *h, double log_work)
{
    const struct crn_job_class *c = &h->s->cls[h->i];
    double mtbf = job_mtbf(h->s, h->i);

    return c->work_s > 0 ? life(c, mtbf, exp(log_work), h->last) : endless(c, mtbf, exp(log_work));
}

/* The cheapest work between commits. */
static struct choice best_work(const struct hunt *h)
{
    const struct crn_job_class *c = &h->s->cls[h->i];
    double mtbf = job_mtbf(h->s, h->i);
    double most = c->work_s > 0 ? fmin(50 * mtbf, c->work_s - h->last) : 50 * mtbf;

    return golden(h, with_work, log(fmin(1e-3 * mtbf, most / 2)), log(most), NEAR);
}

static struct choice with_last(const struct hunt *h, double log_last)
{
    struct hunt in = *h;

    in.last = exp(log_last);
    return best_work(&in);
}

/* The same, and the cheapest work after the last checkpoint, which may be all of it. */
static struct choice best_life(const struct hunt *h)
{
    const struct crn_job_class *c = &h->s->cls[h->i];
    double mtbf = job_mtbf(h->s, h->i);
    double high = log(fmin(c->work_s, 50 * mtbf));
    struct choice none = life(c, mtbf, c->work_s, c->work_s);
    struct choice best = golden(h, with_last, high - 12, high, 10 * NEAR);

    return choice_cost(h->s, h->i, h->lambda, &none) < choice_cost(h->s, h->i, h->lambda, &best)
               ? none
               : best;
}

static struct choice bound_choose(const struct crn_steady *s, size_t i, double lambda)
{
    const struct crn_job_class *c = &s->cls[i];
    const struct hunt h = {.s = s, .i = i, .lambda = lambda};
    struct choice idle = {0, 1, 0};
    struct choice run;

    if (s->node_mtbf_s <= 0)
        return (struct choice){INFINITY, c->own_s / (c->own_s + c->work_s + 1e-300), 0};
    run = c->work_s > 0 ? best_life(&h) : best_work(&h);
    return choice_cost(s, i, lambda, &run) < 1 ? run : idle;
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
