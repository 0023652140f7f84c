/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint in progress on a node: created with the first message about it; claims and releases
 * its slots; notifies ranks and nodes; freed once it has ended and no worker uses it. On the loop
 * thread, except crn_item_claim and crn_item_unclaim, which workers call. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/assist.h"
#include "service/flow.h"
#include "service/loan.h"

/* Items. --------------------------------------------------------------------------------------- */

struct crn_item *crn_item_find(struct crn_job *job, uint64_t seq)
{
    struct crn_item *item = job->items;

    while (item != NULL && item->seq != seq)
        item = item->next;
    return item;
}

void crn_item_free(struct crn_job *job, struct crn_item *item)
{
    uint32_t i;

    for (i = 0; item->files != NULL && i < job->files; i++)
        crn_manifest_file_free(&item->files[i]);
    free(item->files);
    free(item->node_bytes);
    free(item->node_wrote);
    crn_flow_free(job, item);
    crn_loan_give_back(job, item);
    crn_assist_free(item->aid);
    free(item->progress);
    free(item->groups);
    crn_manifest_file_free(&item->file);
    free(item->part);
    free(item);
    atomic_fetch_sub(&job->svc->busy, 1);
}

struct crn_item *crn_item_get(struct crn_job *job, const struct crn_msg *n)
{
    const struct crn_clock *clock = crn_clock_real();
    struct crn_item **link = &job->items;
    struct crn_item *item = crn_item_find(job, n->seq);

    if (item != NULL)
        return item;
    item = calloc(1, sizeof(*item));
    if (item == NULL)
        return NULL;
    atomic_fetch_add(&job->svc->busy, 1);
    item->seq = n->seq;
    memcpy(item->name, n->ckpt.name, sizeof(item->name));
    item->generation = crn_claim_generation(job, item->name);
    item->version = n->ckpt.version;
    item->created_ns = n->ckpt.created_ns;
    item->base_version = -1;
    item->since_ns = clock->mono_ns(clock);
    item->deadline_ns = item->since_ns + (int64_t)job->cfg.commit_timeout_ns;
    item->part = calloc(job->nlocal, sizeof(*item->part));
    if (job->node == CRN_ROOT) {
        item->progress = calloc(job->nodes, 1);
        item->groups = calloc(job->files, sizeof(*item->groups));
        item->files = calloc(job->files, sizeof(*item->files));
        item->node_bytes = calloc(job->nodes, sizeof(*item->node_bytes));
        item->node_wrote = calloc(job->nodes, sizeof(*item->node_wrote));
    }
    if (item->part == NULL ||
        (job->node == CRN_ROOT &&
         (item->progress == NULL || item->groups == NULL || item->files == NULL ||
          item->node_bytes == NULL || item->node_wrote == NULL))) {
        crn_item_free(job, item);
        return NULL;
    }
    while (*link != NULL && (*link)->seq < item->seq)
        link = &(*link)->next;
    item->next = *link;
    *link = item;
    return item;
}

void crn_item_msg(const struct crn_job *job, const struct crn_item *item, enum crn_msg_type type,
                  struct crn_msg *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->type = type;
    memcpy(ret->run, job->run, 16);
    ret->seq = item->seq;
    ret->node = job->node;
    if (!crn_msg_has_ckpt(type))
        return;
    memcpy(ret->ckpt.name, item->name, sizeof(ret->ckpt.name));
    ret->ckpt.version = item->version;
    ret->ckpt.created_ns = item->created_ns;
}

int crn_item_takes_help(const struct crn_job *job, const struct crn_item *item)
{
    return crn_config_name(&job->cfg, item->name)->encode == CRN_ENCODE_NONE;
}

void crn_item_tell(struct crn_job *job, uint32_t node, const struct crn_msg *m)
{
    crn_service_tell(job->svc, job->peers[node], m);
}

void crn_item_tell_root(struct crn_job *job, const struct crn_item *item, enum crn_msg_type type,
                        const struct crn_errinfo *error)
{
    struct crn_msg m;

    crn_item_msg(job, item, type, &m);
    if (type == CRN_MSG_NODE_FAILED || type == CRN_MSG_NODE_PAUSED)
        m.failed.error = *error;
    else if (type == CRN_MSG_NODE_CAPTURED)
        m.node_captured.bytes = item->local_bytes;
    else if (type == CRN_MSG_NODE_DATA)
        m.node_data.data = item->file;
    crn_item_tell(job, CRN_ROOT, &m);
}

void crn_item_fail(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *e)
{
    if (item->state != CRN_ITEM_ENDED)
        crn_item_tell_root(job, item, CRN_MSG_NODE_FAILED, e);
}

void crn_item_out_of_memory(struct crn_job *job, struct crn_item *item)
{
    struct crn_errinfo e = {0};

    (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
    crn_item_fail(job, item, &e);
}

/* If sending fails, the rank is gone; the loop handles its hang-up. */
void crn_job_tell_rank(struct crn_job *job, uint32_t local, const struct crn_msg *n)
{
    struct crn_errinfo ignored = {0};

    if (job->clients[local] == NULL)
        return;
    if (crn_sock_send_msg(job->clients[local]->fd, n, -1, &ignored) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "rank %u: %s", job->rank_of[local], ignored.msg);
}

void crn_item_tell_ranks(struct crn_job *job, const struct crn_item *item, uint64_t committed_ns)
{
    struct crn_msg n;
    uint32_t i;

    crn_item_msg(job, item, CRN_MSG_STATE, &n);
    n.state.level = (uint32_t)item->level;
    n.state.error = item->error;
    n.state.committed_ns = committed_ns;
    for (i = 0; i < job->nlocal; i++)
        if (item->part[i].is_captured)
            crn_job_tell_rank(job, i, &n);
}

/* Slots. --------------------------------------------------------------------------------------- */

/* Moves the slots of all ranks. Returns how many moved before the first failure. */
static uint32_t move_slots(struct crn_job *job, const struct crn_item *item,
                           enum crn_slot_state from, enum crn_slot_state to)
{
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (!crn_slot_move(job->arenas[i], item->part[i].slot, item->seq, from, to))
            break;
    return i;
}

/* Flusher and sender may both read the slots, the flusher for a local copy. */
cairn_err crn_item_claim(struct crn_job *job, struct crn_item *item, uint32_t **ret_slots,
                         struct crn_errinfo *ei)
{
    uint32_t *slots = calloc(job->nlocal, sizeof(*slots));
    uint32_t n = job->nlocal;
    uint32_t i;

    if (slots == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a flush of %u shards", job->nlocal);
    crn_lock(&job->mu);
    if (item->claims == 0)
        n = move_slots(job, item, CRN_SLOT_WRITTEN, CRN_SLOT_FLUSHING);
    item->claims += n == job->nlocal;
    crn_unlock(&job->mu);
    if (n < job->nlocal) {
        free(slots);
        return crn_fail(ei, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint on rank %u",
                        job->rank_of[n]);
    }
    for (i = 0; i < job->nlocal; i++)
        slots[i] = item->part[i].slot;
    *ret_slots = slots;
    return CAIRN_OK;
}

void crn_item_unclaim(struct crn_job *job, struct crn_item *item)
{
    crn_lock(&job->mu);
    if (--item->claims == 0)
        (void)move_slots(job, item, CRN_SLOT_FLUSHING, CRN_SLOT_WRITTEN);
    crn_unlock(&job->mu);
}

/* The end, on a node. -------------------------------------------------------------------------- */

/* Captures that all ranks were promised are kept while the arena has free space: if the job dies
 * too, the next start flushes them. Not kept: captures that the ranks replaced, and those with data
 * in the spool, which is removed now. */
static enum crn_slot_state state_of_end(const struct crn_job *job, const struct crn_item *item,
                                        uint32_t local)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;

    if (item->error.code == CAIRN_OK)
        return CRN_SLOT_FLUSHED;
    if (item->error.code == CAIRN_ECANCELED ||
        (item->level < CAIRN_CAPTURED && !item->is_cut_off) ||
        crn_slot_info(job->arenas[local], item->part[local].slot, &info, &ignored) != CAIRN_OK ||
        info.is_spilled || info.nfiles > 0)
        return CRN_SLOT_FAILED;
    return CRN_SLOT_KEPT;
}

static void release_slot(struct crn_job *job, struct crn_item *item, uint32_t local)
{
    struct crn_part *p = &item->part[local];
    enum crn_slot_state to;

    if (!p->is_captured || job->arenas[local] == NULL)
        return;
    (void)crn_slot_move(job->arenas[local], p->slot, item->seq, CRN_SLOT_WRITTEN,
                        CRN_SLOT_FLUSHING); /* fails if a worker or the rank was faster */
    to = state_of_end(job, item, local);
    (void)crn_slot_move(job->arenas[local], p->slot, item->seq, CRN_SLOT_FLUSHING, to);
    job->has_kept |= to == CRN_SLOT_KEPT;
}

/* At the root this removes old versions, except those that others are being encoded against. If out
 * of memory, all versions stay until the next retirement. */
static void post_retire(struct crn_job *job, struct crn_item *item)
{
    struct crn_work *w = calloc(1, sizeof(*w));
    struct crn_buf needed = {0};

    if (job->node == CRN_ROOT)
        crn_loan_needed(job, item->name, &needed);
    if (w == NULL || needed.failed) {
        crn_buf_free(&needed);
        free(w);
        return;
    }
    w->kind = CRN_WORK_RETIRE;
    w->job = job;
    w->item = item;
    w->payload = needed.data;
    w->payload_bytes = (uint32_t)needed.len;
    crn_work_send(w);
}

void crn_item_reap(struct crn_job *job, struct crn_item *item)
{
    struct crn_item **link = &job->items;
    uint32_t i;

    if (item->state != CRN_ITEM_ENDED || item->working > 0 || item->nflows > 0)
        return;
    for (i = 0; i < job->nlocal; i++)
        if (!item->part[i].is_settled && !job->has_left[i])
            return;
    if (!item->is_retired) {
        item->is_retired = 1;
        post_retire(job, item);
        if (item->working > 0)
            return;
    }
    if (job->node == CRN_ROOT && !item->is_decided)
        return;
    while (*link != item)
        link = &(*link)->next;
    *link = item->next;
    crn_item_free(job, item);
}

void crn_item_settle(struct crn_job *job, struct crn_item *item)
{
    uint32_t i;

    if (item->working > 0 || item->nflows > 0)
        return; /* workers or transfers still read the slots */
    for (i = 0; i < job->nlocal; i++) {
        if (!item->part[i].is_captured || item->part[i].is_settled)
            continue; /* a settled slot may contain a later capture by now */
        release_slot(job, item, i);
        item->part[i].is_settled = 1;
    }
    crn_loan_give_back(job, item);
}

/* Where a drain will find the capture; NULL: nowhere. A local copy in progress may still be
 * finished. */
static const char *kept_where(const struct crn_job *job, const struct crn_item *item)
{
    int is_copied = job->cfg.local[0] != '\0' && item->level >= CAIRN_CAPTURED && item->working > 0;
    uint32_t i;

    if (item->level >= CAIRN_LOCAL || is_copied)
        return is_copied ? "perhaps on their disks: a later" : "on their disks: a later";
    for (i = 0; i < job->nlocal; i++)
        if (!item->part[i].is_captured || job->arenas[i] == NULL ||
            state_of_end(job, item, i) != CRN_SLOT_KEPT)
            return NULL;
    return "in memory: should this run die, a";
}

/* The first node logs for all; a node that cannot hear it logs for itself. */
static void log_end(const struct crn_job *job, const struct crn_item *item)
{
    enum crn_log_level level =
        item->error.code == CAIRN_OK || item->error.code == CAIRN_ECANCELED ? CRN_INFO : CRN_ERROR;
    const char *where = kept_where(job, item);

    if (job->node != CRN_ROOT && !item->is_cut_off)
        level = CRN_DEBUG;
    if (item->error.code == CAIRN_OK)
        crn_log(&job->log, level, "%s@%" PRId64 " is persistent", item->name, item->version);
    else if (item->error.code == CAIRN_ECANCELED)
        crn_log(&job->log, level, "%s@%" PRId64 ": %s", item->name, item->version, item->error.msg);
    else if (where != NULL)
        crn_log(&job->log, level,
                "%s@%" PRId64
                " is not saved: %s; its nodes keep it %s start there or 'cairn drain' "
                "saves it",
                item->name, item->version, item->error.msg, where);
    else
        crn_log(&job->log, level, "%s@%" PRId64 " is lost: %s", item->name, item->version,
                item->error.msg);
}

void crn_item_end(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    if (item->state == CRN_ITEM_ENDED)
        return;
    item->state = CRN_ITEM_ENDED;
    atomic_store(&item->is_over, 1);
    item->error = n->end.error;
    item->level = item->error.code == CAIRN_OK ? CAIRN_PERSISTENT : item->level;
    log_end(job, item);
    crn_assist_end(job, item, &item->error);
    crn_item_settle(job, item);
    crn_item_tell_ranks(job, item, n->end.committed_ns);
    crn_item_reap(job, item);
}

void crn_item_too_late(struct crn_job *job, struct crn_item *item, uint32_t local)
{
    struct crn_msg n;

    crn_item_msg(job, item, CRN_MSG_STATE, &n);
    n.state.level = (uint32_t)item->level;
    n.state.error = item->error;
    if (item->working == 0) {
        release_slot(job, item, local);
        item->part[local].is_settled = 1;
    }
    crn_job_tell_rank(job, local, &n);
    crn_item_reap(job, item);
}

void crn_item_touch(struct crn_job *job, struct crn_item *item)
{
    if (item->state == CRN_ITEM_ENDED)
        crn_item_settle(job, item);
    crn_item_reap(job, item);
}
