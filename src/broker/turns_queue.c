/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which request is next, and forecasts when the others start. A token's queue is a dense
 * array in the form that the policies read, so a decision is one pass over it. The forecast
 * sorts it and replays the holders; it runs now and then, not with every decision. */
#include "broker/turns_priv.h"

static double turns_queue_seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

/* The request in the form that policies read. */
static struct crn_io_request queue_entry(const struct crn_turns *t, const struct token *k,
                                         uint32_t rid)
{
    const struct turns_request *r = request_of(t, rid);

    return (struct crn_io_request){
        .kind = (enum crn_io_kind)r->kind,
        .nodes = job_of(t, rid)->nodes,
        .duration_s = turns_queue_seconds(r->duration_ns),
        .since_s = turns_queue_seconds(r->since_ns),
        .last_checkpoint_s = turns_queue_seconds(r->at_risk_ns),
        .recovery_s = turns_queue_seconds(r->recovery_ns),
        .node_mtbf_s = k->cfg.node_mtbf_s,
        .period_s = turns_queue_seconds(r->period_ns),
        .ticket = r->id,
    };
}

double crn_turns_rate(const struct token *k, const struct turns_request *r)
{
    return r->rate > 0 ? r->rate : (double)k->cfg.budget;
}

/* May the request start beside so many holders, which use so much of the budget? One may always
 * start alone. */
static int queue_fits(const struct token *k, uint32_t holders, double rate,
                      const struct turns_request *r)
{
    if (holders == 0 || !k->cfg.policy->is_exclusive)
        return 1;
    return holders < k->cfg.slots && (k->cfg.budget == 0 || rate + crn_turns_rate(k, r) <=
                                                                (double)k->cfg.budget * (1 + 1e-9));
}

void crn_turns_enqueue(struct crn_turns *t, uint32_t rid)
{
    struct turns_request *r = request_of(t, rid);
    struct token *k = &t->token[r->token];

    k->queue[k->n] = queue_entry(t, k, rid);
    k->queue_rid[k->n] = rid;
    r->at = k->n++;
    r->place = 0;
    k->backlog_ns += r->duration_ns;
    k->is_stale = 1;
}

void crn_turns_dequeue(struct crn_turns *t, uint32_t rid)
{
    struct turns_request *r = request_of(t, rid);
    struct token *k = &t->token[r->token];
    uint32_t last;

    if (r->at == NONE)
        return;
    last = --k->n;
    k->queue[r->at] = k->queue[last];
    k->queue_rid[r->at] = k->queue_rid[last];
    request_of(t, k->queue_rid[r->at])->at = r->at;
    r->at = NONE;
    k->backlog_ns -= r->duration_ns;
    k->is_stale = 1;
}

void crn_turns_refresh(struct crn_turns *t, uint32_t rid, const struct turns_request *was)
{
    struct turns_request *r = request_of(t, rid);
    struct token *k = &t->token[r->token];
    int64_t moved = r->at_risk_ns - was->at_risk_ns; /* a little with every report */

    if (r->at == NONE)
        return;
    k->queue[r->at] = queue_entry(t, k, rid);
    k->backlog_ns += r->duration_ns - was->duration_ns;
    k->is_stale |= r->duration_ns != was->duration_ns || moved > NS_PER_S || moved < -NS_PER_S;
}

void crn_turns_hold(struct crn_turns *t, uint32_t rid, int64_t held_ns, int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);
    struct token *k = &t->token[r->token];

    crn_turns_dequeue(t, rid);
    r->state = RQ_HELD;
    r->held_ns = held_ns;
    r->moved_ns = now_ns;
    r->prev = NONE;
    r->next = k->first_holder;
    if (r->next != NONE)
        request_of(t, r->next)->prev = rid;
    k->first_holder = rid;
    k->holders++;
    k->rate += crn_turns_rate(k, r);
    k->is_stale = 1;
}

void crn_turns_release(struct crn_turns *t, uint32_t rid, int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);
    struct token *k = &t->token[r->token];

    if (r->prev == NONE)
        k->first_holder = r->next;
    else
        request_of(t, r->prev)->next = r->next;
    if (r->next != NONE)
        request_of(t, r->next)->prev = r->prev;
    k->holders--;
    k->rate = k->holders > 0 ? k->rate - crn_turns_rate(k, r) : 0;
    k->held_s += turns_queue_seconds(now_ns - r->held_ns);
    k->is_stale = 1;
}

/* The request that has waited longest, if that is too long. */
static uint32_t turns_queue_starving(const struct crn_turns *t, const struct token *k,
                                     int64_t now_ns)
{
    double limit_s = turns_queue_seconds(now_ns - t->cfg.starve_ns);
    uint32_t oldest = 0;
    uint32_t i;

    if (t->cfg.starve_ns == 0)
        return NONE;
    for (i = 1; i < k->n; i++)
        if (k->queue[i].since_s < k->queue[oldest].since_s ||
            (k->queue[i].since_s <= k->queue[oldest].since_s &&
             k->queue[i].ticket < k->queue[oldest].ticket))
            oldest = i;
    return k->queue[oldest].since_s < limit_s ? oldest : NONE;
}

/* The policy's choice, among the users that have not had their share while others wait. */
static uint32_t queue_pick(struct crn_turns *t, const struct token *k, const struct crn_io_queue *q,
                           int64_t now_ns)
{
    uint32_t best = NONE;
    uint32_t i;

    if (t->cfg.user_share <= 0 || t->cfg.user_share >= 1)
        return (uint32_t)crn_policy_pick(k->cfg.policy, q, t->score);
    crn_policy_order(k->cfg.policy, q, t->score, t->order);
    for (i = 0; i < k->n && best == NONE; i++)
        if (!crn_share_is_over(t, job_of(t, k->queue_rid[t->order[i]])->user, now_ns))
            best = (uint32_t)t->order[i];
    return best != NONE ? best : (uint32_t)t->order[0];
}

/* Grants the request that is next; 0 if it does not fit. Nothing overtakes it then: a large one
 * would otherwise wait for as long as small ones come. */
static int turns_queue_give(struct crn_turns *t, struct token *k, int64_t now_ns)
{
    struct crn_io_queue q = {.now_s = turns_queue_seconds(now_ns), .req = k->queue, .n = k->n};
    uint32_t i = turns_queue_starving(t, k, now_ns);
    uint32_t rid;

    if (i == NONE)
        i = queue_pick(t, k, &q, now_ns);
    rid = k->queue_rid[i];
    if (!queue_fits(k, k->holders, k->rate, request_of(t, rid)))
        return 0;
    k->wait_s += turns_queue_seconds(now_ns - request_of(t, rid)->since_ns);
    k->granted++;
    crn_turns_hold(t, rid, now_ns, now_ns);
    crn_turns_list_move(t, &t->dirty, rid / CRN_BP_MAX_ASKS, LINK_DIRTY);
    return 1;
}

void crn_turns_decide(struct crn_turns *t, int64_t now_ns)
{
    size_t i;

    if (is_settling(t, now_ns))
        return;
    for (i = 0; i < t->cfg.ntokens; i++) {
        struct token *k = &t->token[i];

        while (k->n > 0 && !k->is_draining &&
               (k->holders < k->cfg.slots || !k->cfg.policy->is_exclusive) &&
               turns_queue_give(t, k, now_ns))
            ;
    }
}

/* Time until the request returns its slot, as far as it can be told. */
static int64_t turns_remaining(const struct turns_request *r, int64_t now_ns)
{
    int64_t held = now_ns - r->held_ns;
    int64_t left = r->duration_ns - held;

    if (r->bytes > 0 && r->done > 0 && r->done <= r->bytes)
        return (int64_t)((double)r->duration_ns * (1.0 - (double)r->done / (double)r->bytes));
    return left > 0 ? left : held; /* late by an unknown time: as long again, rather than at once */
}

/* Adds a transfer to the heap, earliest end first. */
static void busy_push(struct turns_busy *heap, uint32_t *n, struct turns_busy b)
{
    uint32_t at = (*n)++;

    for (; at > 0 && b.end_ns < heap[(at - 1) / 2].end_ns; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = b;
}

static struct turns_busy busy_pop(struct turns_busy *heap, uint32_t *n)
{
    struct turns_busy first = heap[0];
    struct turns_busy last = heap[--*n];
    uint32_t at = 0;
    uint32_t child;

    while ((child = 2 * at + 1) < *n) {
        if (child + 1 < *n && heap[child + 1].end_ns < heap[child].end_ns)
            child++;
        if (last.end_ns <= heap[child].end_ns)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* Replays the queue in its present order: each request starts when it fits. */
void crn_turns_forecast(struct crn_turns *t, struct token *k, int64_t now_ns)
{
    struct crn_io_queue q = {.now_s = turns_queue_seconds(now_ns), .req = k->queue, .n = k->n};
    int64_t at_ns = is_settling(t, now_ns) ? t->settled_ns : now_ns;
    double rate = 0;
    uint32_t rid, i, n = 0;

    crn_policy_order(k->cfg.policy, &q, t->score, t->order);
    for (rid = k->first_holder; rid != NONE; rid = request_of(t, rid)->next) {
        struct turns_request *r = request_of(t, rid);

        busy_push(t->busy, &n,
                  (struct turns_busy){now_ns + turns_remaining(r, now_ns), crn_turns_rate(k, r)});
        rate += crn_turns_rate(k, r);
    }
    for (i = 0; i < k->n; i++) {
        struct turns_request *r = request_of(t, k->queue_rid[t->order[i]]);

        while (!queue_fits(k, n, rate, r)) {
            struct turns_busy ended = busy_pop(t->busy, &n);

            rate -= ended.rate;
            if (ended.end_ns > at_ns)
                at_ns = ended.end_ns;
        }
        r->place = i + 1;
        r->start_ns = at_ns;
        busy_push(t->busy, &n, (struct turns_busy){at_ns + r->duration_ns, crn_turns_rate(k, r)});
        rate += crn_turns_rate(k, r);
    }
    k->is_stale = 0;
    k->forecast_ns = now_ns;
}
