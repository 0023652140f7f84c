/* SPDX-License-Identifier: BSD-3-Clause */
/* Before the data: who leads a group, and what its followers have. A follower opens its sources on
 * the sender thread and describes them to the leader, which starts when all have. Everything else
 * on the loop thread. */
#include "service/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/elect.h"
#include "service/assist.h"
#include "service/loan.h"

uint32_t crn_flow_group_first(const struct crn_job *job)
{
    return crn_group_first(crn_group_of(job->node, job->nodes, job->files), job->nodes, job->files);
}

uint32_t crn_flow_group_size(const struct crn_job *job)
{
    uint32_t g = crn_group_of(job->node, job->nodes, job->files);

    return crn_group_first(g + 1, job->nodes, job->files) - crn_flow_group_first(job);
}

static struct crn_flow_part *part_of(struct crn_job *job, struct crn_item *item)
{
    struct crn_flow_part *p = item->flow;

    if (p != NULL)
        return p;
    p = calloc(1, sizeof(*p));
    if (p != NULL) {
        p->has_come = calloc(crn_flow_group_size(job), 1);
        p->assists = calloc(crn_flow_group_size(job) + (size_t)1, 1);
    }
    if (p == NULL || p->has_come == NULL || p->assists == NULL) {
        if (p != NULL) {
            free(p->has_come);
            free(p->assists);
        }
        free(p);
        return NULL;
    }
    p->leader = UINT32_MAX;
    p->nmissing = crn_flow_group_size(job) - 1;
    item->flow = p;
    return p;
}

void crn_flow_free(struct crn_job *job, struct crn_item *item)
{
    struct crn_flow_part *p = item->flow;

    if (p == NULL)
        return;
    if (p->is_serving)
        crn_sources_close(p->held, p->sources, job->nlocal);
    crn_remote_free(&p->remote);
    free(p->held);
    free(p->sources);
    free(p->has_come);
    free(p->assists);
    free(p);
    item->flow = NULL;
}

void crn_flow_begin(struct crn_job *job, struct crn_item *item, const struct crn_msg *go)
{
    struct crn_view v = crn_view_of(go->go.sizes.data, go->go.sizes.bytes);
    struct crn_flow_part *p = part_of(job, item);
    uint32_t n = crn_flow_group_size(job);
    uint64_t *bytes = calloc(n, sizeof(*bytes));
    uint32_t i;

    for (i = 0; bytes != NULL && i < n; i++)
        bytes[i] = crn_view_u64(&v);
    if (p == NULL || bytes == NULL || v.failed) {
        free(bytes);
        crn_item_out_of_memory(job, item);
        return;
    }
    p->leader = crn_flow_group_first(job) + crn_elect(bytes, n);
    for (i = 0; i < n && crn_item_takes_help(job, item); i++)
        p->assists[i + 1] = (unsigned char)crn_elect_is_among(bytes, n, i, go->go.leaders);
    free(bytes);
    crn_loan_take(job, item, go->go.base);
    if (p->leader != job->node)
        crn_work_post(job, item, CRN_WORK_SERVE);
    else if (p->nmissing == 0)
        crn_work_post(job, item, CRN_WORK_FLUSH);
    if (p->leader != job->node && p->assists[job->node - crn_flow_group_first(job) + 1])
        crn_assist_offer(job, item, p->leader);
}

int crn_flow_is_serving(const struct crn_item *item)
{
    return item->flow != NULL && item->flow->is_serving;
}

void crn_flow_shards(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    struct crn_flow_part *p = part_of(job, item);
    uint32_t member = n->node - crn_flow_group_first(job);
    struct crn_errinfo e = {0};

    if (p == NULL) {
        crn_item_out_of_memory(job, item);
        return;
    }
    if (n->node < crn_flow_group_first(job) || member >= crn_flow_group_size(job) ||
        p->has_come[member] || item->state == CRN_ITEM_ENDED)
        return;
    p->has_come[member] = 1;
    p->nmissing--;
    p->nlent += n->shards.is_lent != 0;
    if (crn_shards_decode(n->shards.shards.data, n->shards.shards.bytes, n->node, member + 1,
                          &p->remote, &e) != CAIRN_OK)
        crn_item_fail(job, item, &e);
    else if (p->leader == job->node && p->nmissing == 0)
        crn_work_post(job, item, CRN_WORK_FLUSH);
}

/* On the sender thread: opens the sources and encodes their description for the leader. */
cairn_err crn_flow_open_sources(struct crn_job *job, struct crn_work *w)
{
    struct crn_flow_part *p = w->item->flow;
    uint32_t *slots = NULL;
    struct crn_buf all = {0};
    cairn_err rc;

    p->held = calloc(job->nlocal, sizeof(*p->held));
    p->sources = calloc(job->nlocal, sizeof(*p->sources));
    if (p->held == NULL || p->sources == NULL)
        rc = crn_fail(&w->error, CAIRN_ENOMEM, ENOMEM, "%u shards", job->nlocal);
    else
        rc = crn_item_claim(job, w->item, &slots, &w->error);
    if (rc == CAIRN_OK)
        rc = crn_sources_open(job->arenas, slots, job->nlocal, &job->dir, p->held, p->sources,
                              &w->error);
    free(slots);
    if (rc != CAIRN_OK)
        return rc;
    p->is_serving = 1; /* the loop reads it after the result is back */
    rc = crn_sources_look_inside(&job->cfg, w->item->name, p->sources, job->nlocal, &w->error);
    if (rc == CAIRN_OK)
        rc = crn_shards_encode(p->sources, job->nlocal, &all, &w->error);
    w->bytes = rc == CAIRN_OK && crn_loan_open(job, w->item->loan, p->sources);
    w->payload = all.data;
    w->payload_bytes = (uint32_t)all.len;
    return rc;
}

void crn_flow_served(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct crn_msg n;

    if (w->error.code != CAIRN_OK) {
        crn_item_fail(job, item, &w->error);
        return;
    }
    crn_item_msg(job, item, CRN_MSG_SHARDS, &n);
    n.shards.is_lent = w->bytes != 0;
    n.shards.shards = (struct crn_blob){w->payload, w->payload_bytes};
    crn_service_tell(job->svc, job->peers[item->flow->leader], &n);
}
