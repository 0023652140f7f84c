/* SPDX-License-Identifier: BSD-3-Clause */
/* How often to checkpoint, and how many checkpoints to bring to which level. Pure, any thread.
 * Seconds throughout. */
#ifndef CRN_POLICY_LEVELS_H
#define CRN_POLICY_LEVELS_H

#include <stddef.h>
#include <stdint.h>

#define CRN_LEVELS_MAX      3
#define CRN_LEVEL_EVERY_MAX (1U << 20) /* stands for "never" */

/* A level, from the cheapest to the safest. */
struct crn_level_costs {
    double cost_s;     /* what this level adds to the cost of a checkpoint for the application */
    double recovery_s; /* until the application continues from there */
    double mtbf_s;     /* between failures that this level is the first to survive; 0: none */
    double least_s;    /* the level takes no checkpoint more often than that; 0: no limit */
};

struct crn_level_plan {
    double period_s;                /* between checkpoints; infinite without failures */
    uint32_t every[CRN_LEVELS_MAX]; /* one in so many goes to the level; 1 for the first */
    double waste;                   /* share of the time that checkpoints and failures cost */
};

/* The share for a given period and numbers, first order in period / mtbf: a checkpoint of level i
 * costs its cost_s, and a failure of level i loses half the time between two of its checkpoints. */
double crn_levels_waste(const struct crn_level_costs *levels, size_t n, double period_s,
                        const uint32_t *every);
/* The period and numbers with the least waste. Numbers do not decrease from level to level. */
void crn_levels_best(const struct crn_level_costs *levels, size_t n, struct crn_level_plan *ret);

#endif
