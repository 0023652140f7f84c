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

uint32_t crn_turns_queue_set_bit(const struct token *k, const struct crn_io_request *q)
{
    return k->cfg.policy->set != NULL ? 1u << k->cfg.policy->set(q) : 0;
}

static struct queue_room queue_left(const struct crn_turns *t, const struct token *k)
{
    struct queue_room room = {.holders = k->holders, .rate = k->rate};
    uint32_t rid;

    for (rid = k->cfg.policy->set != NULL ? k->first_holder : NONE; rid != NONE;
         rid = request_of(t, rid)->next) {
        struct crn_io_request q = queue_entry(t, k, rid);

        room.busy |= crn_turns_queue_set_bit(k, &q);
    }
    return room;
}

int crn_turns_queue_fits(const struct token *k, const struct queue_room *room, uint32_t bit,
                         double rate)
{
    if (room->holders == 0 || !k->cfg.policy->is_exclusive)
        return 1;
    if (k->cfg.policy->set != NULL ? (room->busy & bit) != 0 : room->holders >= k->cfg.slots)
        return 0;
    return k->cfg.budget == 0 || room->rate + rate <= (double)k->cfg.budget * (1 + 1e-9);
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

    if (t->cfg.starve_ns == 0 || k->cfg.policy->set != NULL) /* sets: first come, first served */
        return NONE;
    for (i = 1; i < k->n; i++)
        if (k->queue[i].since_s < k->queue[oldest].since_s ||
            (k->queue[i].since_s <= k->queue[oldest].since_s &&
             k->queue[i].ticket < k->queue[oldest].ticket))
            oldest = i;
    return k->queue[oldest].since_s < limit_s ? oldest : NONE;
}

/* The policy's choice, among the users that have not had their share while others wait, and the
 * sets that are free; NONE: none is. */
static uint32_t queue_pick(struct crn_turns *t, const struct token *k, const struct crn_io_queue *q,
                           uint32_t busy, int64_t now_ns)
{
    uint32_t best = NONE;
    uint32_t first = NONE;
    uint32_t i, at;

    if (t->cfg.user_share <= 0 || t->cfg.user_share >= 1) {
        size_t picked = crn_policy_pick(k->cfg.policy, q, busy, t->score);

        return picked != CRN_PICK_NONE ? (uint32_t)picked : NONE;
    }
    crn_policy_order(k->cfg.policy, q, t->score, t->order);
    for (i = 0; i < k->n && best == NONE; i++) {
        at = (uint32_t)t->order[i];
        if ((crn_turns_queue_set_bit(k, &k->queue[at]) & busy) != 0)
            continue;
        if (first == NONE)
            first = at;
        if (!crn_share_is_over(t, job_of(t, k->queue_rid[at])->payer, now_ns))
            best = at;
    }
    return best != NONE ? best : first;
}

static void queue_tell(const struct crn_turns *t, const struct token *k, uint32_t i, int64_t now_ns)
{
    const struct turns_request *r = request_of(t, k->queue_rid[i]);
    const struct turns_job *job = job_of(t, k->queue_rid[i]);
    struct crn_turns_decision d = {.token = k->cfg.name,
                                   .policy = k->cfg.policy->name,
                                   .user = t->user[job->user].name,
                                   .job = job->name,
                                   .kind = (enum crn_io_kind)r->kind,
                                   .nodes = job->nodes,
                                   .bytes = r->bytes,
                                   .at_ns = now_ns,
                                   .since_ns = r->since_ns,
                                   .duration_ns = r->duration_ns,
                                   .waiting = k->n - 1,
                                   .beside = k->holders};

    if (t->cfg.decided != NULL)
        t->cfg.decided(t->cfg.decided_arg, &d);
}

static void queue_grant(struct crn_turns *t, struct token *k, uint32_t i, int64_t now_ns)
{
    uint32_t rid = k->queue_rid[i];

    k->wait_s += turns_queue_seconds(now_ns - request_of(t, rid)->since_ns);
    k->granted++;
    k->overlapping += k->holders > 0;
    crn_turns_hold(t, rid, now_ns, now_ns);
    crn_turns_list_move(t, &t->dirty, rid / CRN_BP_MAX_ASKS, LINK_DIRTY);
}

/* Grants the request that is next; 0 if it does not fit. Nothing overtakes it then: a large one
 * would otherwise wait for as long as small ones come. */
static int turns_queue_give(struct crn_turns *t, struct token *k, int64_t now_ns)
{
    struct crn_io_queue q = {.now_s = turns_queue_seconds(now_ns), .req = k->queue, .n = k->n};
    struct queue_room room = queue_left(t, k);
    uint32_t i = turns_queue_starving(t, k, now_ns);

    if (i == NONE)
        i = queue_pick(t, k, &q, room.busy, now_ns);
    if (i == NONE || !crn_turns_queue_fits(k, &room, crn_turns_queue_set_bit(k, &k->queue[i]),
                                           crn_turns_rate(k, request_of(t, k->queue_rid[i]))))
        return 0;
    queue_tell(t, k, i, now_ns);
    queue_grant(t, k, i, now_ns);
    return 1;
}

static void queue_give_dry(struct crn_turns *t, struct token *k, int64_t now_ns)
{
    while (k->n > 0 && !k->is_draining) {
        crn_dry_note(t, k, k->queue_rid[0], &k->queue[0], now_ns);
        queue_grant(t, k, 0, now_ns);
    }
}

/* Is it worth a look at the queue? */
static int queue_may_give(const struct token *k)
{
    return k->n > 0 && !k->is_draining &&
           (k->holders < k->cfg.slots || !k->cfg.policy->is_exclusive ||
            k->cfg.policy->set != NULL);
}

void crn_turns_decide(struct crn_turns *t, int64_t now_ns)
{
    size_t i;

    for (i = 0; i < t->cfg.ntokens; i++) {
        struct token *k = &t->token[i];

        if (k->dry != NULL)
            queue_give_dry(t, k, now_ns);
        while (!is_settling(t, now_ns) && queue_may_give(k) && turns_queue_give(t, k, now_ns))
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

void crn_busy_push(struct turns_busy *heap, uint32_t *n, struct turns_busy b)
{
    uint32_t at = (*n)++;

    for (; at > 0 && b.end_ns < heap[(at - 1) / 2].end_ns; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = b;
}

struct turns_busy crn_busy_pop(struct turns_busy *heap, uint32_t *n)
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

/* With sets: those of one set start one after the other. */
static void forecast_sets(struct crn_turns *t, struct token *k, int64_t begin_ns, int64_t now_ns)
{
    int64_t free_ns[CRN_POLICY_SETS];
    uint32_t rid, i, set;

    for (i = 0; i < CRN_POLICY_SETS; i++)
        free_ns[i] = begin_ns;
    for (rid = k->first_holder; rid != NONE; rid = request_of(t, rid)->next) {
        struct crn_io_request q = queue_entry(t, k, rid);
        int64_t end_ns = now_ns + turns_remaining(request_of(t, rid), now_ns);

        set = k->cfg.policy->set(&q);
        if (end_ns > free_ns[set])
            free_ns[set] = end_ns;
    }
    for (i = 0; i < k->n; i++) {
        struct turns_request *r = request_of(t, k->queue_rid[t->order[i]]);

        set = k->cfg.policy->set(&k->queue[t->order[i]]);
        r->place = i + 1;
        r->start_ns = free_ns[set];
        free_ns[set] += r->duration_ns;
    }
}

/* Replays the queue in its present order: each request starts when it fits. */
static void forecast_replay(struct crn_turns *t, struct token *k, int64_t at_ns, int64_t now_ns)
{
    struct queue_room room = {0};
    uint32_t rid, i;

    for (rid = k->first_holder; rid != NONE; rid = request_of(t, rid)->next) {
        const struct turns_request *r = request_of(t, rid);
        struct turns_busy b = {now_ns + turns_remaining(r, now_ns), crn_turns_rate(k, r), 0};

        crn_busy_push(t->busy, &room.holders, b);
        room.rate += b.rate;
    }
    for (i = 0; i < k->n; i++) {
        struct turns_request *r = request_of(t, k->queue_rid[t->order[i]]);
        struct turns_busy b = {0, crn_turns_rate(k, r), 0};

        while (!crn_turns_queue_fits(k, &room, 0, b.rate)) {
            struct turns_busy ended = crn_busy_pop(t->busy, &room.holders);

            room.rate -= ended.rate;
            at_ns = ended.end_ns > at_ns ? ended.end_ns : at_ns;
        }
        r->place = i + 1;
        r->start_ns = at_ns;
        b.end_ns = at_ns + r->duration_ns;
        crn_busy_push(t->busy, &room.holders, b);
        room.rate += b.rate;
    }
}

void crn_turns_forecast(struct crn_turns *t, struct token *k, int64_t now_ns)
{
    struct crn_io_queue q = {.now_s = turns_queue_seconds(now_ns), .req = k->queue, .n = k->n};
    int64_t begin_ns = is_settling(t, now_ns) ? t->settled_ns : now_ns;

    crn_policy_order(k->cfg.policy, &q, t->score, t->order);
    if (k->cfg.policy->set != NULL)
        forecast_sets(t, k, begin_ns, now_ns);
    else
        forecast_replay(t, k, begin_ns, now_ns);
    k->is_stale = 0;
    k->forecast_ns = now_ns;
}
