/* SPDX-License-Identifier: BSD-3-Clause */
/* The file system as the simulated jobs see it: a token that a policy hands out, a bandwidth that
 * everyone shares in proportion to his nodes, or one that never is short (the baseline). Jobs are
 * items 0 .. capacity-1, each with at most one request. */
#ifndef CRN_DEVICE_H
#define CRN_DEVICE_H

#include "policy/policy.h"
#include "sim/heap.h"

struct crn_sim_device {
    const struct crn_policy *policy; /* NULL: no interference */
    /* Who waits; req and item side by side, in no order. */
    struct crn_io_request *req;
    uint32_t *item;
    uint32_t nwaiting;
    uint32_t *place; /* by item: place in req, or CRN_HEAP_OUT */
    double *scratch;
    uint64_t tickets;
    /* Who is served. Key: virtual time of the end, which runs at rate() of real time. */
    struct crn_heap active;
    double *nodes; /* by item */
    double active_nodes;
    double virtual_s, at_s; /* virtual time at real time at_s */
};

int crn_device_init(struct crn_sim_device *d, const struct crn_policy *policy, uint32_t capacity);
void crn_device_fini(struct crn_sim_device *d);
/* Queues a request; its ticket is filled in. */
void crn_device_ask(struct crn_sim_device *d, uint32_t item, const struct crn_io_request *req);
/* Starts the next request that may start now and returns its item; CRN_HEAP_OUT: none. Called until
 * then after every other call. */
uint32_t crn_device_start(struct crn_sim_device *d, double now_s);
/* When the next one ends if nothing changes; infinite if none is served. */
double crn_device_next_s(const struct crn_sim_device *d);
/* Ends the one that ends now and returns it. */
uint32_t crn_device_finish(struct crn_sim_device *d, double now_s);
/* Forgets a request, waiting or served. */
void crn_device_cancel(struct crn_sim_device *d, uint32_t item, double now_s);

#endif
