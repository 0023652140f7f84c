/* SPDX-License-Identifier: BSD-3-Clause */
/* The file system as the simulated jobs see it: a token that a policy grants, a bandwidth that
 * jobs share in proportion to their nodes (or by the weights of their sets), or an unlimited one (the
 * baseline). Jobs are items 0
 * .. capacity-1, each with at most one request. */
#ifndef CRN_PFS_H
#define CRN_PFS_H

#include "policy/policy.h"
#include "sim/heap.h"

struct crn_pfs {
    const struct crn_policy *policy; /* NULL: no interference */
    /* Waiting requests; req and item in parallel, unordered. */
    struct crn_io_request *req;
    uint32_t *item;
    uint32_t nwaiting;
    uint32_t *place; /* by item: index in req, or CRN_HEAP_OUT */
    double *scratch;
    uint64_t tickets;
    /* Requests being served. Key: end in virtual time, which runs at rate() of real time. */
    struct crn_heap active;
    double *weight; /* by item: its part of the bandwidth, beside the others' weights */
    double active_weight;
    uint32_t *set;          /* by item */
    uint32_t busy;          /* bit i: a request of set i is served */
    double virtual_s, at_s; /* virtual time at real time at_s */
};

int crn_pfs_init(struct crn_pfs *d, const struct crn_policy *policy, uint32_t capacity);
void crn_pfs_fini(struct crn_pfs *d);
/* Queues a request and fills in its ticket. */
void crn_pfs_ask(struct crn_pfs *d, uint32_t item, const struct crn_io_request *req);
/* Starts the next request that may start now and returns its item; CRN_HEAP_OUT: none. Call it
 * until then after every other call. */
uint32_t crn_pfs_start(struct crn_pfs *d, double now_s);
/* When the next request ends if nothing changes; infinite if none is served. */
double crn_pfs_next_s(const struct crn_pfs *d);
/* Ends the request that is due now and returns its item. */
uint32_t crn_pfs_finish(struct crn_pfs *d, double now_s);
/* Drops a request, waiting or served. */
void crn_pfs_cancel(struct crn_pfs *d, uint32_t item, double now_s);

#endif
