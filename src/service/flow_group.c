/* SPDX-License-Identifier: BSD-3-Clause */
/* Before the data: a follower opens its sources on the sender thread and describes them to the
 * leader, which keeps the descriptions. Who leads, and when it starts, src/node/group.c decides. */
#include "service/flow.h"

#include <errno.h>
#include <stdlib.h>

#include "service/loan.h"

void crn_flow_free(struct crn_job *job, struct crn_item *item)
{
    struct crn_flow_part *p = &crn_data(item)->flow;

    if (p->is_serving)
        crn_sources_close(p->held, p->sources, job->nlocal);
    crn_remote_free(&p->remote);
    free(p->held);
    free(p->sources);
}

int crn_flow_is_serving(const struct crn_item *item)
{
    return crn_data(item)->flow.is_serving;
}

int crn_flow_shards(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    uint32_t member = crn_node_newcomer(job->core, item, n->node);
    struct crn_errinfo e = {0};

    if (member == UINT32_MAX)
        return 0;
    if (crn_shards_decode(n->shards.shards.data, n->shards.shards.bytes, n->node, member + 1,
                          &crn_data(item)->flow.remote, &e) == CAIRN_OK)
        return 1;
    crn_job_fail(job, item, &e);
    return 0;
}

/* On the sender thread: opens the sources and encodes their description for the leader. */
cairn_err crn_flow_open_sources(struct crn_job *job, struct crn_work *w)
{
    struct crn_flow_part *p = &crn_data(w->item)->flow;
    uint32_t *slots = NULL;
    struct crn_buf all = {0};
    cairn_err rc;

    p->held = calloc(job->nlocal, sizeof(*p->held));
    p->sources = calloc(job->nlocal, sizeof(*p->sources));
    if (p->held == NULL || p->sources == NULL)
        rc = crn_fail(&w->error, CAIRN_ENOMEM, ENOMEM, "%u shards", job->nlocal);
    else
        rc = crn_slots_claim(job, w->item, &slots, &w->error);
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
    w->bytes = rc == CAIRN_OK && crn_loan_open(job, crn_data(w->item)->loan, p->sources);
    w->payload = all.data;
    w->payload_bytes = (uint32_t)all.len;
    return rc;
}
