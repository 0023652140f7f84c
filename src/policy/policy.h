/* SPDX-License-Identifier: BSD-3-Clause */
/* Which request uses the parallel file system next. Pure: a queue and a clock in, an order out; no
 * state, no I/O, no allocation, any thread. The broker and the simulator call the same functions,
 * so the simulation runs the real policies.
 *
 * All times are seconds on one clock of the caller's choice. A policy gives every request a
 * score, lowest first; ties go to the lower ticket. One decision costs O(n). */
#ifndef CRN_POLICY_H
#define CRN_POLICY_H

#include <stddef.h>
#include <stdint.h>

enum crn_io_kind {
    CRN_IO_INPUT,    /* the job is blocked until it is served ... */
    CRN_IO_OUTPUT,   /* ... here too ... */
    CRN_IO_RECOVERY, /* ... and here */
    /* the job continues computing, at the risk of losing it, unless is_blocking */
    CRN_IO_CHECKPOINT,
    CRN_IO_KINDS
};
const char *crn_io_kind_name(enum crn_io_kind kind);

/* One waiting request. Fields that a kind does not use are ignored. */
struct crn_io_request {
    enum crn_io_kind kind;
    double nodes;      /* q: nodes that wait or are at risk */
    double duration_s; /* v or C: how long it takes with the whole bandwidth; > 0 */
    double since_s;    /* time of the request */
    /* start of the work at risk: last commit, or the start of the computation */
    double last_checkpoint_s;
    double recovery_s;  /* R: how long a restart read takes with the whole bandwidth */
    double node_mtbf_s; /* mu_ind: of one node; <= 0: nodes do not fail */
    double period_s;    /* P: the period that the job aims at; 0: unknown */
    uint64_t ticket;    /* unique and increasing in order of arrival */
};

struct crn_io_queue {
    double now_s;
    const struct crn_io_request *req;
    size_t n;
};

#define CRN_POLICY_SETS 16

struct crn_policy {
    const char *name;    /* spelling in configuration and results; static lifetime */
    const char *summary; /* one line for people */
    int is_exclusive;    /* 0: no token, every job starts at once and shares the bandwidth */
    int is_blocking;     /* a job that waits to checkpoint is blocked instead of computing */
    /* Writes q->n scores, never NaN. The score of a request may depend on all others. */
    void (*score)(const struct crn_io_queue *q, double *ret_score);
    /* The set of a request, below CRN_POLICY_SETS: one of each set is served at a time, and those
     * served share the bandwidth by the weights of their sets. NULL: one set. */
    uint32_t (*set)(const struct crn_io_request *r);
    double (*weight)(uint32_t set);
};

/* All policies, one file each. A new one is one file and one line in the table. */
const struct crn_policy *const *crn_policy_table(size_t *ret_n);
const struct crn_policy *crn_policy_find(const char *name); /* NULL: unknown */

#define CRN_PICK_NONE SIZE_MAX
/* Index of the next request among the sets that are not in busy (bit i is set i); CRN_PICK_NONE if
 * there is none. scratch: q->n doubles. */
size_t crn_policy_pick(const struct crn_policy *policy, const struct crn_io_queue *q, uint32_t busy,
                       double *scratch);
/* The whole order as of now, best first, for places in the queue and expected starts. Later
 * decisions are made anew and may differ. scratch: q->n doubles; ret_order: q->n indices. */
void crn_policy_order(const struct crn_policy *policy, const struct crn_io_queue *q,
                      double *scratch, size_t *ret_order);

extern const struct crn_policy crn_policy_oblivious;
extern const struct crn_policy crn_policy_ordered;
extern const struct crn_policy crn_policy_ordered_nb;
extern const struct crn_policy crn_policy_least_waste;
extern const struct crn_policy crn_policy_delay_cost;
extern const struct crn_policy crn_policy_set10;

static inline uint32_t crn_policy_set_of(const struct crn_policy *policy,
                                         const struct crn_io_request *r)
{
    return policy->set != NULL ? policy->set(r) : 0;
}

/* For the policies' files: failures per second and node; 0 if nodes do not fail. */
static inline double crn_io_failure_rate(const struct crn_io_request *r)
{
    return r->node_mtbf_s > 0 ? 1 / r->node_mtbf_s : 0;
}

#endif
