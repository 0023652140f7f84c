/* SPDX-License-Identifier: BSD-3-Clause */
/* Sharing in virtual time: with weights (nodes, unless the policy has sets) of Q in all, a request
 * of weight q proceeds at q / Q of the bandwidth. Virtual time therefore runs at 1 / Q, and a request of v seconds ends v / q
 * later on it, whatever other requests come and go. With a token or without interference virtual
 * time is real time. */
#include "sim/pfs.h"

#include <math.h>
#include <stdlib.h>

int crn_pfs_init(struct crn_pfs *d, const struct crn_policy *policy, uint32_t capacity)
{
    uint32_t i;

    *d = (struct crn_pfs){.policy = policy};
    d->req = calloc(capacity, sizeof(*d->req));
    d->item = calloc(capacity, sizeof(*d->item));
    d->place = calloc(capacity, sizeof(*d->place));
    d->scratch = calloc(capacity, sizeof(*d->scratch));
    d->weight = calloc(capacity, sizeof(*d->weight));
    d->set = calloc(capacity, sizeof(*d->set));
    if (crn_heap_init(&d->active, capacity) != 0 || d->req == NULL || d->item == NULL ||
        d->place == NULL || d->scratch == NULL || d->weight == NULL || d->set == NULL) {
        crn_pfs_fini(d);
        return -1;
    }
    for (i = 0; i < capacity; i++)
        d->place[i] = CRN_HEAP_OUT;
    return 0;
}

void crn_pfs_fini(struct crn_pfs *d)
{
    free(d->req);
    free(d->item);
    free(d->place);
    free(d->scratch);
    free(d->weight);
    free(d->set);
    crn_heap_fini(&d->active);
    *d = (struct crn_pfs){0};
}

static int is_shared(const struct crn_pfs *d)
{
    return d->policy != NULL && (!d->policy->is_exclusive || d->policy->set != NULL);
}

static double pfs_rate(const struct crn_pfs *d)
{
    return is_shared(d) && d->active_weight > 0 ? 1 / d->active_weight : 1;
}

static void pfs_advance(struct crn_pfs *d, double now_s)
{
    /* Restarts from zero when idle, so that virtual time keeps its precision. */
    d->virtual_s = d->active.n > 0 ? d->virtual_s + (now_s - d->at_s) * pfs_rate(d) : 0;
    d->at_s = now_s;
}

void crn_pfs_ask(struct crn_pfs *d, uint32_t item, const struct crn_io_request *req)
{
    d->req[d->nwaiting] = *req;
    d->req[d->nwaiting].ticket = d->tickets++;
    d->item[d->nwaiting] = item;
    d->place[item] = d->nwaiting++;
}

static void leave_queue(struct crn_pfs *d, uint32_t place)
{
    uint32_t last = --d->nwaiting;

    d->place[d->item[place]] = CRN_HEAP_OUT;
    if (place == last)
        return;
    d->req[place] = d->req[last];
    d->item[place] = d->item[last];
    d->place[d->item[place]] = place;
}

/* The request that may start now, or CRN_HEAP_OUT. */
static uint32_t pfs_choose(const struct crn_pfs *d, double now_s)
{
    struct crn_io_queue q = {.now_s = now_s, .req = d->req, .n = d->nwaiting};
    size_t place;

    if (d->nwaiting == 0)
        return CRN_HEAP_OUT;
    if (d->policy == NULL || !d->policy->is_exclusive)
        return 0;
    if (d->policy->set == NULL && d->active.n > 0)
        return CRN_HEAP_OUT;
    place = crn_policy_pick(d->policy, &q, d->busy, d->scratch);
    return place != CRN_PICK_NONE ? (uint32_t)place : CRN_HEAP_OUT;
}

static double weight_of(const struct crn_pfs *d, const struct crn_io_request *r)
{
    if (!is_shared(d))
        return 1;
    return d->policy->set != NULL ? d->policy->weight(d->policy->set(r)) : r->nodes;
}

uint32_t crn_pfs_start(struct crn_pfs *d, double now_s)
{
    uint32_t place = pfs_choose(d, now_s);
    uint32_t item;

    if (place == CRN_HEAP_OUT)
        return CRN_HEAP_OUT;
    item = d->item[place];
    pfs_advance(d, now_s);
    d->weight[item] = weight_of(d, &d->req[place]);
    d->active_weight += d->weight[item];
    if (d->policy != NULL && d->policy->set != NULL) {
        d->set[item] = d->policy->set(&d->req[place]);
        d->busy |= 1u << d->set[item];
    }
    crn_heap_set(&d->active, item, d->virtual_s + d->req[place].duration_s / d->weight[item]);
    leave_queue(d, place);
    return item;
}

double crn_pfs_next_s(const struct crn_pfs *d)
{
    uint32_t item = crn_heap_top(&d->active);

    if (item == CRN_HEAP_OUT)
        return INFINITY;
    return d->at_s + fmax(0, d->active.key[item] - d->virtual_s) / pfs_rate(d);
}

static void pfs_leave(struct crn_pfs *d, uint32_t item, double now_s)
{
    pfs_advance(d, now_s);
    crn_heap_remove(&d->active, item);
    d->active_weight = d->active.n > 0 ? d->active_weight - d->weight[item] : 0;
    d->busy &= ~(1u << d->set[item]);
}

uint32_t crn_pfs_finish(struct crn_pfs *d, double now_s)
{
    uint32_t item = crn_heap_top(&d->active);

    pfs_leave(d, item, now_s);
    return item;
}

void crn_pfs_cancel(struct crn_pfs *d, uint32_t item, double now_s)
{
    if (d->place[item] != CRN_HEAP_OUT)
        leave_queue(d, d->place[item]);
    else if (d->active.where[item] != CRN_HEAP_OUT)
        pfs_leave(d, item, now_s);
}
