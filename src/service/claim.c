/* SPDX-License-Identifier: BSD-3-Clause */
/* The first checkpoint of a name. Before its capture every rank claims the name. The keeper of the
 * first node takes the writer's lock and checks for versions of another run; all ranks get the same
 * answer. Only rank 0 triggers this check, because only rank 0 knows of restarts; the others wait
 * for the answer, at most commit_timeout. A granted claim lasts for the run. After a refusal the
 * next checkpoint claims the name again. On the loop thread, except for the keeper's check.
 *
 *   rank -> service   CLAIM       node -> root   NODE_CLAIM
 *   root -> nodes     CLAIM_DECIDED                service -> rank   CLAIMED */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/job.h"

/* The claim of a name, created on first use; NULL if out of memory. */
static struct crn_claim *claim_get(struct crn_job *job, const char *name)
{
    struct crn_claim *c = job->claims;

    while (c != NULL && strcmp(c->name, name) != 0)
        c = c->next;
    if (c != NULL)
        return c;
    c = calloc(1, sizeof(*c) + job->nlocal);
    if (c == NULL)
        return NULL;
    memcpy(c->name, name, strlen(name) + 1);
    c->next = job->claims;
    job->claims = c;
    return c;
}

uint64_t crn_claim_generation(const struct crn_job *job, const char *name)
{
    const struct crn_claim *c = job->claims;

    while (c != NULL && strcmp(c->name, name) != 0)
        c = c->next;
    return c != NULL ? c->generation : 0;
}

void crn_claims_free(struct crn_job *job)
{
    while (job->claims != NULL) {
        struct crn_claim *c = job->claims;

        job->claims = c->next;
        if (c->is_asked)
            atomic_fetch_sub(&job->svc->busy, 1);
        free(c);
    }
}

static void answer(const struct crn_job *job, const struct crn_claim *c, enum crn_msg_type type,
                   uint64_t seq, struct crn_msg *ret)
{
    *ret = (struct crn_msg){.type = type, .seq = seq, .node = job->node};
    memcpy(ret->run, job->run, 16);
    memcpy(ret->ckpt.name, c->name, sizeof(ret->ckpt.name));
    ret->claimed.generation = c->generation;
    ret->claimed.error = c->error;
}

static void refuse(struct crn_job *job, struct crn_client *client, const struct crn_msg *n)
{
    struct crn_msg no = {.type = CRN_MSG_CLAIMED, .seq = n->seq};

    no.ckpt = n->ckpt;
    (void)!crn_fail(&no.claimed.error, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
    crn_job_tell_rank(job, client->local, &no);
}

void crn_claim_ask(struct crn_job *job, struct crn_client *client, const struct crn_msg *n)
{
    struct crn_msg ask = {.type = CRN_MSG_NODE_CLAIM, .seq = n->seq, .node = job->node};
    struct crn_claim *c = claim_get(job, n->ckpt.name);

    if (c == NULL) {
        refuse(job, client, n);
        return;
    }
    if (c->generation != 0 || c->answered == n->seq) {
        answer(job, c, CRN_MSG_CLAIMED, n->seq, &ask);
        crn_job_tell_rank(job, client->local, &ask);
        return;
    }
    c->waits[client->local] = 1;
    if (c->is_asked && client->rank != 0)
        return;
    if (!c->is_asked)
        atomic_fetch_add(&job->svc->busy, 1);
    c->is_asked = 1;
    memcpy(ask.run, job->run, 16);
    ask.ckpt = n->ckpt;
    ask.node_claim.is_successor = n->claim.is_successor;
    ask.node_claim.rank = client->rank;
    crn_service_tell(job->svc, job->peers[CRN_ROOT], &ask);
}

void crn_claim_decided(struct crn_job *job, const struct crn_msg *n)
{
    struct crn_claim *c = claim_get(job, n->ckpt.name);
    struct crn_msg told;
    uint32_t i;

    if (c == NULL)
        return; /* the ranks' deadline reports it */
    c->generation = n->claimed.generation;
    c->error = n->claimed.error;
    c->answered = n->seq;
    if (c->is_asked)
        atomic_fetch_sub(&job->svc->busy, 1);
    c->is_asked = 0;
    answer(job, c, CRN_MSG_CLAIMED, n->seq, &told);
    for (i = 0; i < job->nlocal; i++) {
        if (c->waits[i])
            crn_job_tell_rank(job, i, &told);
        c->waits[i] = 0;
    }
}

/* The first node. ------------------------------------------------------------------------------ */

static void claim_decide(struct crn_job *job, struct crn_claim *c, uint64_t seq,
                         uint64_t generation, const struct crn_errinfo *error)
{
    struct crn_msg n;
    uint32_t i;

    c->generation = generation;
    c->error = *error;
    c->answered = seq;
    answer(job, c, CRN_MSG_CLAIM_DECIDED, seq, &n);
    for (i = 0; i < job->nodes; i++)
        crn_service_tell(job->svc, job->peers[i], &n);
}

/* Is rank 0 not connected to this node (it left, or never was here)? */
static int has_no_first(const struct crn_job *job)
{
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (job->clients[i] != NULL && job->rank_of[i] == 0)
            return 0;
    return 1;
}

static void end_without_first(struct crn_job *job, struct crn_claim *c, uint64_t seq)
{
    struct crn_errinfo e = {0};

    (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank 0 left before the first checkpoint of '%s'", c->name);
    claim_decide(job, c, seq, 0, &e);
}

static void claim_look(struct crn_job *job, struct crn_claim *c, const struct crn_msg *n)
{
    struct crn_work *w = calloc(1, sizeof(*w));
    struct crn_errinfo e = {0};

    if (w == NULL) {
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
        claim_decide(job, c, n->seq, 0, &e);
        return;
    }
    w->kind = CRN_WORK_CLAIM;
    w->job = job;
    w->claim = c;
    c->seq = n->seq;
    c->version = n->ckpt.version;
    c->is_successor = n->node_claim.is_successor != 0;
    c->is_looking = 1;
    job->nlooks++;
    if (crn_queue_push(&job->keep_queue, w) != 0) { /* the job is being closed */
        c->is_looking = 0;
        job->nlooks--;
        free(w);
    }
}

void crn_claim_node(struct crn_job *job, const struct crn_msg *n)
{
    struct crn_claim *c = claim_get(job, n->ckpt.name);
    struct crn_msg known;

    if (c == NULL || n->node >= job->nodes)
        return; /* the ranks' deadline reports it */
    if (c->generation != 0 || c->answered == n->seq) {
        answer(job, c, CRN_MSG_CLAIM_DECIDED, n->seq, &known);
        crn_service_tell(job->svc, job->peers[n->node], &known);
    } else if (c->is_looking) {
        return;
    } else if (n->node_claim.rank == 0) {
        claim_look(job, c, n);
    } else if (has_no_first(job)) {
        end_without_first(job, c, n->seq);
    } else {
        c->seq = n->seq;
    }
}

void crn_claim_result(struct crn_job *job, const struct crn_work *w)
{
    struct crn_claim *c = w->claim;

    c->is_looking = 0;
    job->nlooks--;
    claim_decide(job, c, c->seq, w->error.code == CAIRN_OK ? w->bytes : 0, &w->error);
}

void crn_claim_failed(struct crn_job *job, const struct crn_client *client, const struct crn_msg *n)
{
    struct crn_claim *c = client->rank == 0 ? claim_get(job, n->ckpt.name) : NULL;
    struct crn_errinfo e = n->failed.error;

    if (c == NULL || c->generation != 0 || c->is_looking || c->answered == n->seq)
        return;
    (void)!crn_err_context(&e, e.code, "capture on rank 0");
    claim_decide(job, c, n->seq, 0, &e);
}

void crn_claims_left(struct crn_job *job)
{
    struct crn_claim *c;

    if (job->node != CRN_ROOT || !has_no_first(job))
        return;
    for (c = job->claims; c != NULL; c = c->next)
        if (c->generation == 0 && !c->is_looking && c->seq > c->answered)
            end_without_first(job, c, c->seq);
}
