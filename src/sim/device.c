/* SPDX-License-Identifier: BSD-3-Clause */
/* Sharing in virtual time: with Q nodes served together, a request of q nodes proceeds at q / Q
 * of the bandwidth. Virtual time therefore runs at 1 / Q, and a request of v seconds ends v / q
 * later on it, whatever other requests come and go. With a token or without interference virtual
 * time is real time. */
#include "sim/device.h"

#include <math.h>
#include <stdlib.h>

int crn_device_init(struct crn_sim_device *d, const struct crn_policy *policy, uint32_t capacity)
{
    uint32_t i;

    *d = (struct crn_sim_device){.policy = policy};
    d->req = calloc(capacity, sizeof(*d->req));
    d->item = calloc(capacity, sizeof(*d->item));
    d->place = calloc(capacity, sizeof(*d->place));
    d->scratch = calloc(capacity, sizeof(*d->scratch));
    d->nodes = calloc(capacity, sizeof(*d->nodes));
    if (crn_heap_init(&d->active, capacity) != 0 || d->req == NULL || d->item == NULL ||
        d->place == NULL || d->scratch == NULL || d->nodes == NULL) {
        crn_device_fini(d);
        return -1;
    }
    for (i = 0; i < capacity; i++)
        d->place[i] = CRN_HEAP_OUT;
    return 0;
}

void crn_device_fini(struct crn_sim_device *d)
{
    free(d->req);
    free(d->item);
    free(d->place);
    free(d->scratch);
    free(d->nodes);
    crn_heap_fini(&d->active);
    *d = (struct crn_sim_device){0};
}

static int is_shared(const struct crn_sim_device *d)
{
    return d->policy != NULL && !d->policy->is_exclusive;
}

static double device_rate(const struct crn_sim_device *d)
{
    return is_shared(d) && d->active_nodes > 0 ? 1 / d->active_nodes : 1;
}

static void device_advance(struct crn_sim_device *d, double now_s)
{
    /* Restarts from zero when idle, so that virtual time keeps its precision. */
    d->virtual_s = d->active.n > 0 ? d->virtual_s + (now_s - d->at_s) * device_rate(d) : 0;
    d->at_s = now_s;
}

void crn_device_ask(struct crn_sim_device *d, uint32_t item, const struct crn_io_request *req)
{
    d->req[d->nwaiting] = *req;
    d->req[d->nwaiting].ticket = d->tickets++;
    d->item[d->nwaiting] = item;
    d->place[item] = d->nwaiting++;
}

static void leave_queue(struct crn_sim_device *d, uint32_t place)
{
    uint32_t last = --d->nwaiting;

    d->place[d->item[place]] = CRN_HEAP_OUT;
    if (place == last)
        return;
    d->req[place] = d->req[last];
    d->item[place] = d->item[last];
    d->place[d->item[place]] = place;
}

uint32_t crn_device_start(struct crn_sim_device *d, double now_s)
{
    int is_exclusive = d->policy != NULL && d->policy->is_exclusive;
    uint32_t place, item;
    double duration_s;

    if (d->nwaiting == 0 || (is_exclusive && d->active.n > 0))
        return CRN_HEAP_OUT;
    place = 0;
    if (is_exclusive) {
        struct crn_io_queue q = {.now_s = now_s, .req = d->req, .n = d->nwaiting};

        place = (uint32_t)crn_policy_pick(d->policy, &q, d->scratch);
    }
    item = d->item[place];
    duration_s = d->req[place].duration_s;
    device_advance(d, now_s);
    d->nodes[item] = d->req[place].nodes;
    d->active_nodes += d->nodes[item];
    crn_heap_set(&d->active, item,
                 d->virtual_s + (is_shared(d) ? duration_s / d->nodes[item] : duration_s));
    leave_queue(d, place);
    return item;
}

double crn_device_next_s(const struct crn_sim_device *d)
{
    uint32_t item = crn_heap_top(&d->active);

    if (item == CRN_HEAP_OUT)
        return INFINITY;
    return d->at_s + fmax(0, d->active.key[item] - d->virtual_s) / device_rate(d);
}

static void leave_device(struct crn_sim_device *d, uint32_t item, double now_s)
{
    device_advance(d, now_s);
    crn_heap_remove(&d->active, item);
    d->active_nodes = d->active.n > 0 ? d->active_nodes - d->nodes[item] : 0;
}

uint32_t crn_device_finish(struct crn_sim_device *d, double now_s)
{
    uint32_t item = crn_heap_top(&d->active);

    leave_device(d, item, now_s);
    return item;
}

void crn_device_cancel(struct crn_sim_device *d, uint32_t item, double now_s)
{
    if (d->place[item] != CRN_HEAP_OUT)
        leave_queue(d, d->place[item]);
    else if (d->active.where[item] != CRN_HEAP_OUT)
        leave_device(d, item, now_s);
}
