/* SPDX-License-Identifier: BSD-3-Clause */
/* How messages, results, deaths and the clock change the checkpoints of a job. All on the loop
 * thread. The path of a checkpoint:
 *
 *   node   all ranks captured -> NODE_CAPTURED       root   all nodes -> LEVEL captured, lock -> GO
 *   node   GO -> slots claimed, flush -> NODE_DATA   root   all nodes -> commit -> END
 *   node   END -> ranks told, slots released, spool removed
 *
 * A worker claims slots when it starts to read them. Until then they belong to the ranks, which may
 * supersede, discard or spill the capture.
 *
 * A failure anywhere is NODE_FAILED to the root, which ends the checkpoint everywhere, once. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/assist.h"
#include "service/flow.h"

/* News from the ranks of this node. ------------------------------------------------------------ */

/* Fails a checkpoint that waits for a rank that has left. */
static void fail_if_left(struct crn_job *job, struct crn_item *item)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    if (item->state != CRN_ITEM_CAPTURING)
        return;
    for (i = 0; i < job->nlocal; i++) {
        if (!job->has_left[i] || item->part[i].is_captured || item->part[i].is_settled)
            continue;
        (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank %u left before it captured its part",
                        job->rank_of[i]);
        crn_item_fail(job, item, &e);
        return;
    }
}

static void on_captured(struct crn_job *job, struct crn_client *c, const struct crn_msg *n)
{
    struct crn_item *item = crn_item_get(job, n);
    struct crn_part *p;

    if (item == NULL) {
        crn_log(&job->log, CRN_ERROR, "%s@%" PRId64 " is lost: out of memory", n->ckpt.name,
                n->ckpt.version);
        return;
    }
    p = &item->part[c->local];
    if (p->is_captured || job->arenas[c->local] == NULL ||
        n->captured.slot >= crn_arena_slots(job->arenas[c->local]))
        return;
    p->slot = n->captured.slot;
    p->is_captured = 1;
    item->ncaptured++;
    crn_pace_part(item, n->captured.bytes, n->captured.copy_ns);
    if (item->state == CRN_ITEM_ENDED) {
        crn_item_too_late(job, item, c->local);
        return;
    }
    if (strcmp(item->name, n->ckpt.name) != 0 || item->version != n->ckpt.version) {
        struct crn_errinfo e = {0};

        (void)!crn_fail(&e, CAIRN_EINVAL, 0,
                        "the ranks disagree: checkpoint number %" PRIu64 " is %s@%" PRId64
                        " on one rank and %s@%" PRId64 " on rank %u",
                        n->seq, item->name, item->version, n->ckpt.name, n->ckpt.version, c->rank);
        crn_item_fail(job, item, &e);
        return;
    }
    if (n->ckpt.created_ns > item->created_ns)
        item->created_ns = n->ckpt.created_ns;
    if (item->ncaptured == job->nlocal) {
        item->state = CRN_ITEM_CAPTURED;
        item->since_ns = crn_clock_real()->mono_ns(crn_clock_real());
        crn_pace_captured(job, item, item->since_ns);
        crn_item_tell_root(job, item, CRN_MSG_NODE_CAPTURED, NULL);
    }
    fail_if_left(job, item); /* other ranks may have died before this message was read */
}

static void on_capture_failed(struct crn_job *job, struct crn_client *c, const struct crn_msg *n)
{
    struct crn_item *item = crn_item_get(job, n);
    struct crn_errinfo e = n->failed.error;

    if (job->node == CRN_ROOT)
        crn_claim_failed(job, c, n);
    if (item == NULL)
        return;
    item->part[c->local].is_settled = 1; /* the rank knows already */
    (void)!crn_err_context(&e, e.code, "capture on rank %u", c->rank);
    crn_item_fail(job, item, &e);
    crn_item_reap(job, item);
}

static void on_dropped(struct crn_job *job, struct crn_client *c, const struct crn_msg *n)
{
    struct crn_item *item = crn_item_find(job, n->seq);
    struct crn_errinfo e = {0};

    if (item == NULL)
        return;
    item->part[c->local].is_settled = 1;
    if (n->dropped.error.code != CAIRN_OK) {
        e = n->dropped.error;
        (void)!crn_err_context(&e, e.code, "rank %u", c->rank);
    } else {
        (void)!crn_fail(&e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint on rank %u",
                        c->rank);
    }
    crn_item_fail(job, item, &e);
}

static cairn_err map_arena(struct crn_job *job, const struct crn_client *c, int fd,
                           struct crn_errinfo *ei)
{
    char what[48];

    (void)snprintf(what, sizeof(what), "the arena of rank %u", c->rank);
    if (fd < 0)
        return crn_fail(ei, CAIRN_ELIMIT, 0,
                        "%s: its descriptor did not arrive; the service has too many open files",
                        what);
    if (job->arenas[c->local] != NULL) {
        (void)close(fd);
        return crn_fail(ei, CAIRN_ESTATE, 0, "%s: the service has one already", what);
    }
    return crn_arena_map(crn_fs_posix(), fd, what, &job->arenas[c->local], ei);
}

/* The rank waits for the answer: without its arena none of its checkpoints could be flushed. */
static void on_arena(struct crn_job *job, struct crn_client *c, int fd)
{
    struct crn_msg ready = {.type = CRN_MSG_READY};
    struct crn_errinfo ignored = {0};

    if (map_arena(job, c, fd, &ready.ready.error) != CAIRN_OK)
        crn_log(&job->log, CRN_ERROR, "%s", ready.ready.error.msg);
    if (crn_sock_send_msg(c->fd, &ready, -1, &ignored) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "rank %u: %s", c->rank, ignored.msg);
}

/* Once all ranks have captured, the local copy is made at once, even if the flush starts later. */
static void on_level(struct crn_job *job, struct crn_item *item, cairn_level level)
{
    uint32_t i;

    if (level <= item->level || item->state == CRN_ITEM_ENDED)
        return;
    item->level = level;
    for (i = 0; level == CAIRN_CAPTURED && i < job->nlocal; i++)
        if (item->part[i].is_captured && !item->part[i].is_settled)
            crn_slot_promise(job->arenas[i], item->part[i].slot, item->seq);
    crn_item_tell_ranks(job, item, 0);
    if (level == CAIRN_CAPTURED && item->state == CRN_ITEM_CAPTURED && job->cfg.local[0] != '\0' &&
        !crn_config_is_lazy(&job->cfg))
        crn_work_post(job, item, CRN_WORK_LOCAL);
}

static void on_end(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    crn_item_end(job, item, n);
    if (job->node == CRN_ROOT)
        crn_job_turns(job);
}

/* GO: the leader of the group flushes; the other nodes serve it. */
static void on_go(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    if (item->state != CRN_ITEM_CAPTURED)
        return;
    item->state = CRN_ITEM_FLUSHING;
    crn_gate_begin(&job->gate);
    crn_flow_begin(job, item, n);
}

void crn_job_message(struct crn_job *job, struct crn_client *c, struct crn_msg *n, int passed_fd)
{
    struct crn_item *item;

    if (passed_fd >= 0 && n->type != CRN_MSG_ARENA)
        (void)close(passed_fd);
    switch (n->type) {
    case CRN_MSG_ARENA:
        on_arena(job, c, passed_fd);
        return;
    case CRN_MSG_CAPTURED:
        on_captured(job, c, n);
        return;
    case CRN_MSG_CAPTURE_FAILED:
        on_capture_failed(job, c, n);
        return;
    case CRN_MSG_DROPPED:
        on_dropped(job, c, n);
        return;
    case CRN_MSG_CLAIM:
        crn_claim_ask(job, c, n);
        return;
    case CRN_MSG_NODE_CLAIM:
        if (job->node == CRN_ROOT)
            crn_claim_node(job, n);
        return;
    case CRN_MSG_CLAIM_DECIDED:
        crn_claim_decided(job, n);
        return;
    case CRN_MSG_WANTED:
        crn_pace_want(job, n->seq);
        return;
    case CRN_MSG_NODE_WANTED:
        crn_root_want(job, n->seq);
        return;
    case CRN_MSG_HURRY:
        crn_pace_hurry(job, n->seq);
        return;
    case CRN_MSG_NODE_FAILED:
    case CRN_MSG_NODE_CAPTURED:
    case CRN_MSG_NODE_LOCAL:
    case CRN_MSG_NODE_WROTE:
    case CRN_MSG_NODE_DATA:
    case CRN_MSG_NODE_IDLE:
    case CRN_MSG_NODE_PAUSED:
        if (job->node == CRN_ROOT)
            crn_root_message(job, n);
        return;
    case CRN_MSG_SHARDS:
        item = crn_item_find(job, n->seq); /* none: it has ended */
        if (item != NULL)
            crn_flow_shards(job, item, n);
        return;
    case CRN_MSG_FETCH:
    case CRN_MSG_FETCH_OLDER:
        crn_flow_asked(job, crn_item_find(job, n->seq), n);
        return;
    case CRN_MSG_SENT:
        crn_flow_sent(job, n);
        return;
    case CRN_MSG_NOT_SENT:
        crn_flow_not_sent(job, n);
        return;
    case CRN_MSG_REROUTE:
    case CRN_MSG_HELP:
    case CRN_MSG_FILE:
    case CRN_MSG_ASK:
    case CRN_MSG_PIECE:
    case CRN_MSG_DONE:
        crn_assist_message(job, n);
        return;
    case CRN_MSG_GO:
    case CRN_MSG_LEVEL:
    case CRN_MSG_END:
        item = n->type == CRN_MSG_END && !crn_was_decided(job, n->seq) ? crn_item_get(job, n)
                                                                       : crn_item_find(job, n->seq);
        if (item == NULL)
            return;
        if (n->type == CRN_MSG_GO)
            on_go(job, item, n);
        else if (n->type == CRN_MSG_END)
            on_end(job, item, n);
        else
            on_level(job, item, (cairn_level)n->level.level);
        return;
    default:
        return; /* not for a job */
    }
}

/* Results. ------------------------------------------------------------------------------------- */

static void on_flushed(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    crn_manifest_file_free(&item->file);
    item->file = w->file;
    memset(&w->file, 0, sizeof(w->file));
    if (item->state == CRN_ITEM_ENDED) { /* it failed elsewhere in the meantime */
        crn_item_settle(job, item);
        return;
    }
    item->state = CRN_ITEM_FLUSHED;
    if (w->error.code != CAIRN_OK)
        crn_item_tell_root(job, item, CRN_MSG_NODE_FAILED, &w->error);
    else
        crn_item_tell_root(job, item, CRN_MSG_NODE_DATA, NULL);
}

void crn_job_result(struct crn_work *w)
{
    struct crn_job *job = w->job;
    struct crn_item *item = w->item;
    struct crn_msg n;

    switch (w->kind) {
    case CRN_WORK_CLAIM:
        crn_claim_result(job, w);
        return;
    case CRN_WORK_NOTE_LOCAL:
        crn_item_tell_root(job, item, CRN_MSG_NODE_LOCAL, NULL);
        return;
    case CRN_WORK_NOTE_PAUSED:
        crn_item_tell_root(job, item, CRN_MSG_NODE_PAUSED, &w->error); /* the root logs it, once */
        crn_item_msg(job, item, CRN_MSG_STATE, &n);
        n.state.level = (uint32_t)item->level;
        n.state.error = w->error; /* code OK: a remark */
        for (uint32_t i = 0; i < job->nlocal; i++)
            crn_job_tell_rank(job, i, &n);
        return;
    case CRN_WORK_FETCH:
        crn_flow_fetch(job, item, w);
        return;
    case CRN_WORK_NOTE_OPENED:
    case CRN_WORK_NOTE_ASK:
    case CRN_WORK_NOTE_WRITTEN:
        crn_assist_result(job, item, w);
        return;
    case CRN_WORK_ASSIST:
        item->working--;
        crn_assist_result(job, item, w);
        break;
    case CRN_WORK_SERVE:
        item->working--;
        if (item->state != CRN_ITEM_ENDED)
            crn_flow_served(job, item, w);
        break;
    case CRN_WORK_SEND:
        item->working--;
        crn_flow_send(job, item, w);
        break;
    case CRN_WORK_FLUSH:
        item->working--;
        on_flushed(job, item, w);
        break;
    case CRN_WORK_START:
        item->working--;
        if (w->error.code != CAIRN_OK)
            crn_root_decide(job, item, &w->error, 0);
        else
            crn_root_start(job, item);
        break;
    case CRN_WORK_COMMIT:
        item->working--;
        if (w->error.code == CAIRN_OK)
            job->safe_ns = crn_clock_real()->mono_ns(crn_clock_real());
        crn_root_decide(job, item, &w->error, w->committed_ns);
        break;
    case CRN_WORK_LOCAL:
    case CRN_WORK_RETIRE:
    case CRN_WORK_REPORT:
        item->working--;
        break;
    }
    crn_item_touch(job, item);
    if (w->kind == CRN_WORK_RETIRE && job->node == CRN_ROOT)
        crn_job_turns(job); /* the next checkpoint may be encoded against it */
}

/* Deaths and deadlines. ------------------------------------------------------------------------ */

static void list_missing(const struct crn_job *job, const struct crn_item *item, char *text,
                         size_t size)
{
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < job->nlocal && used + 16 < size; i++)
        if (!item->part[i].is_captured && !item->part[i].is_settled)
            used += (size_t)snprintf(text + used, size - used, "%s%u", used > 0 ? ", " : "",
                                     job->rank_of[i]);
}

static void check_deadline(struct crn_job *job, struct crn_item *item, int64_t now_ns)
{
    struct crn_errinfo e = {0};
    char missing[200];
    uint32_t i;

    if (item->deadline_ns > now_ns || item->state == CRN_ITEM_ENDED)
        return;
    if (item->state == CRN_ITEM_CAPTURING && item->ncaptured > 0) {
        list_missing(job, item, missing, sizeof(missing));
        (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0, "rank %s did not capture it within commit_timeout",
                        missing);
        item->deadline_ns = INT64_MAX;
        item->since_ns = now_ns;
        crn_item_fail(job, item, &e);
    } else if (job->node == CRN_ROOT && item->count[CRN_NODE_CAPTURED] < job->nodes &&
               now_ns - item->deadline_ns > (int64_t)job->cfg.commit_timeout_ns / 8) {
        for (i = 0; i < job->nodes && item->progress[i] >= CRN_NODE_CAPTURED; i++)
            ;
        (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0,
                        "node %u said nothing of it within commit_timeout (%u of %u nodes did)", i,
                        item->count[CRN_NODE_CAPTURED], job->nodes);
        crn_root_decide(job, item, &e, 0);
    }
}

/* The broker considers a job that moves no bytes stuck, so each node tells the first one how far it
 * is. */
static void tell_progress(struct crn_job *job)
{
    uint64_t seq = atomic_load(&job->writing_seq);
    struct crn_item *item = seq != 0 ? crn_item_find(job, seq - 1) : NULL;
    struct crn_msg n;

    if (item == NULL || job->cfg.broker[0] == '\0')
        return;
    crn_item_msg(job, item, CRN_MSG_NODE_WROTE, &n);
    n.node_wrote.bytes = atomic_load(&job->written) - atomic_load(&job->writing_at);
    crn_service_tell(job->svc, job->peers[CRN_ROOT], &n);
}

void crn_job_tick(struct crn_job *job, int64_t now_ns)
{
    struct crn_errinfo torn = {0};
    struct crn_item *item;
    struct crn_item *next;
    int is_torn = crn_job_check_arenas(job, &torn) != CAIRN_OK;

    tell_progress(job);
    crn_alive_tick(job, now_ns);
    for (item = job->items; item != NULL; item = next) {
        next = item->next;
        if (is_torn) /* zeros from the truncated arena may be in flight to another node */
            crn_item_fail(job, item, &torn);
        crn_assist_tick(job, item, now_ns);
        check_deadline(job, item, now_ns);
    }
}

void crn_job_rank_left(struct crn_job *job, struct crn_client *c, int is_dead)
{
    struct crn_item dead = {.seq = UINT64_MAX};
    struct crn_errinfo e = {0};
    struct crn_item *item;
    struct crn_item *next;

    if (job->has_left[c->local])
        return;
    job->has_left[c->local] = 1;
    job->nleft++;
    job->clients[c->local] = NULL;
    crn_claims_left(job);
    if (job->arenas[c->local] != NULL) /* it needs no consideration any more */
        crn_arena_set_phase(job->arenas[c->local], CAIRN_PHASE_COMPUTE);
    job->has_dead |= is_dead;
    if (job->items != NULL)
        crn_pace_want(job, UINT64_MAX);
    if (is_dead) {
        (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank %u died before it captured its part", c->rank);
        crn_log(&job->log, CRN_WARN, "rank %u disconnected without BYE, continuing", c->rank);
        crn_item_tell_root(job, &dead, CRN_MSG_NODE_FAILED, &e);
    }
    for (item = job->items; item != NULL; item = next) {
        next = item->next;
        fail_if_left(job, item);
        crn_item_reap(job, item);
    }
}
