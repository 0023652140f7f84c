/* SPDX-License-Identifier: BSD-3-Clause */
/* Dry run: every request of the token is granted at once, and a second queue decides what the
 * policy would have done. There a granted request holds the token for as long as it was expected
 * to. A job that asks again while it still waits there keeps its place, as a job that captures when
 * its turn comes would. Shares of users and the limit on starving play no part. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/turns_priv.h"

struct dry_info {
    char user[CRN_BP_NAME], job[CRN_BP_NAME];
    uint8_t id[16];
    uint64_t bytes;
    double rate;
    int64_t since_ns, duration_ns;
    uint32_t beside; /* holders when it really started */
};

struct turns_dry {
    uint32_t cap, n;
    struct crn_io_request *queue; /* dense, and info in parallel */
    struct dry_info *info;
    double *score;
    struct turns_busy *busy; /* heap of the holders; room.holders of them */
    struct queue_room room;
    uint64_t granted;
    double wait_s;
};

struct turns_dry *crn_dry_new(uint32_t cap)
{
    struct turns_dry *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->cap = cap;
    d->queue = calloc(cap, sizeof(*d->queue));
    d->info = calloc(cap, sizeof(*d->info));
    d->score = calloc(cap, sizeof(*d->score));
    d->busy = calloc((size_t)cap + 1, sizeof(*d->busy));
    if (d->queue == NULL || d->info == NULL || d->score == NULL || d->busy == NULL) {
        crn_dry_free(d);
        return NULL;
    }
    return d;
}

void crn_dry_free(struct turns_dry *d)
{
    if (d == NULL)
        return;
    free(d->queue);
    free(d->info);
    free(d->score);
    free(d->busy);
    free(d);
}

static void dry_tell(const struct crn_turns *t, const struct token *k, uint32_t i, int64_t at_ns)
{
    const struct crn_io_request *q = &k->dry->queue[i];
    const struct dry_info *info = &k->dry->info[i];
    struct crn_turns_decision d = {.token = k->cfg.name,
                                   .policy = k->cfg.policy->name,
                                   .user = info->user,
                                   .job = info->job,
                                   .kind = q->kind,
                                   .nodes = (uint32_t)q->nodes,
                                   .bytes = info->bytes,
                                   .at_ns = at_ns,
                                   .since_ns = info->since_ns,
                                   .duration_ns = info->duration_ns,
                                   .waiting = k->dry->n - 1,
                                   .beside = info->beside,
                                   .is_dry = 1};

    if (t->cfg.decided != NULL)
        t->cfg.decided(t->cfg.decided_arg, &d);
}

/* Grants the request that would be next; 0 if none would. */
static int dry_give(const struct crn_turns *t, struct token *k, int64_t at_ns)
{
    struct turns_dry *d = k->dry;
    struct crn_io_queue q = {.now_s = (double)at_ns / (double)NS_PER_S, .req = d->queue, .n = d->n};
    size_t i = crn_policy_pick(k->cfg.policy, &q, d->room.busy, d->score);
    struct turns_busy b;

    if (i == CRN_PICK_NONE || d->room.holders > d->cap)
        return 0;
    b = (struct turns_busy){at_ns + d->info[i].duration_ns, d->info[i].rate,
                            crn_turns_queue_set_bit(k, &d->queue[i])};
    if (!crn_turns_queue_fits(k, &d->room, b.bit, b.rate))
        return 0;
    dry_tell(t, k, (uint32_t)i, at_ns);
    d->granted++;
    d->wait_s += (double)(at_ns - d->info[i].since_ns) / (double)NS_PER_S;
    crn_busy_push(d->busy, &d->room.holders, b);
    d->room.rate += b.rate;
    d->room.busy |= b.bit;
    d->n--;
    d->queue[i] = d->queue[d->n];
    d->info[i] = d->info[d->n];
    return 1;
}

void crn_dry_advance(const struct crn_turns *t, struct token *k, int64_t now_ns)
{
    struct turns_dry *d = k->dry;

    while (d->room.holders > 0 && d->busy[0].end_ns <= now_ns) {
        struct turns_busy ended = crn_busy_pop(d->busy, &d->room.holders);

        d->room.rate = d->room.holders > 0 ? d->room.rate - ended.rate : 0;
        d->room.busy &= ~ended.bit;
        while (d->n > 0 && dry_give(t, k, ended.end_ns))
            ;
    }
    while (d->n > 0 && dry_give(t, k, now_ns))
        ;
}

/* The entry of the same job's last checkpoint, if that still waits; else a new one, or NONE. */
static uint32_t dry_place(struct turns_dry *d, const uint8_t *id, const struct crn_io_request *q)
{
    uint32_t i;

    for (i = 0; i < d->n; i++)
        if (q->kind == CRN_IO_CHECKPOINT && d->queue[i].kind == q->kind &&
            memcmp(d->info[i].id, id, sizeof(d->info[i].id)) == 0)
            return i;
    return d->n < d->cap ? d->n : NONE;
}

void crn_dry_note(const struct crn_turns *t, struct token *k, uint32_t rid,
                  const struct crn_io_request *asked, int64_t now_ns)
{
    const struct turns_request *r = request_of(t, rid);
    const struct turns_job *job = job_of(t, rid);
    struct crn_io_request q = *asked;
    struct turns_dry *d = k->dry;
    struct dry_info *info;
    uint32_t i;

    crn_dry_advance(t, k, now_ns);
    i = dry_place(d, job->id, &q);
    if (i == NONE)
        return;
    info = &d->info[i];
    if (i < d->n) { /* keeps its place, and the work that it could not save */
        q.since_s = d->queue[i].since_s;
        q.ticket = d->queue[i].ticket;
        q.last_checkpoint_s = d->queue[i].last_checkpoint_s;
    } else {
        info->since_ns = r->since_ns;
        d->n++;
    }
    d->queue[i] = q;
    memcpy(info->id, job->id, sizeof(info->id));
    (void)snprintf(info->user, sizeof(info->user), "%s", t->user[job->user].name);
    (void)snprintf(info->job, sizeof(info->job), "%s", job->name);
    info->bytes = r->bytes;
    info->rate = crn_turns_rate(k, r);
    info->duration_ns = r->duration_ns;
    info->beside = k->holders;
    crn_dry_advance(t, k, now_ns);
}

void crn_dry_totals(const struct token *k, struct crn_turns_totals *ret)
{
    ret->dry_granted = k->dry != NULL ? k->dry->granted : 0;
    ret->dry_wait_s = k->dry != NULL ? k->dry->wait_s : 0;
    ret->dry_waiting = k->dry != NULL ? k->dry->n : 0;
}
