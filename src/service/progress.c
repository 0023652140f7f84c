/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages, results, deaths and the clock do to the checkpoints of a job. All on the loop
 * thread. The road of a checkpoint:
 *
 *   node   all ranks captured -> NODE_CAPTURED       root   all nodes -> LEVEL captured, lock -> GO
 *   node   GO -> slots claimed, flush -> NODE_DATA   root   all nodes -> commit -> END
 *   node   END -> ranks told, slots released, spool removed
 *
 * A failure anywhere is NODE_FAILED to the root, which ends the checkpoint everywhere, once. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "aggregate/elect.h"
#include "service/assist.h"
#include "service/flow.h"
#include "service/job.h"
#include "service/turn.h"

#define ROOT 0

/* Items. -------------------------------------------------------------------------------------------- */

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
        free(item->files[i].ranges);
    free(item->files);
    free(item->node_bytes);
    free(item->node_wrote);
    crn_flow_free(job, item);
    crn_assist_free(item->aid);
    free(item->progress);
    free(item->groups);
    free(item->file.ranges);
    free(item->part);
    free(item);
    atomic_fetch_sub(&job->svc->busy, 1);
}

/* The item of a note, made if it is the first news of it; NULL when out of memory. */
struct crn_item *crn_item_get(struct crn_job *job, const struct crn_note *n)
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
    memcpy(item->name, n->name, sizeof(item->name));
    item->version = n->version;
    item->created_ns = n->created_ns;
    item->since_ns = clock->mono_ns(clock);
    item->deadline_ns = item->since_ns + (int64_t)job->cfg.commit_timeout_ns;
    item->part = calloc(job->nlocal, sizeof(*item->part));
    if (job->node == ROOT) {
        item->progress = calloc(job->nodes, 1);
        item->groups = calloc(job->files, sizeof(*item->groups));
        item->files = calloc(job->files, sizeof(*item->files));
        item->node_bytes = calloc(job->nodes, sizeof(*item->node_bytes));
        item->node_wrote = calloc(job->nodes, sizeof(*item->node_wrote));
    }
    if (item->part == NULL ||
        (job->node == ROOT &&
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

void crn_item_note(const struct crn_job *job, const struct crn_item *item, enum crn_msg_type type,
                   struct crn_note *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->type = type;
    memcpy(ret->run, job->run, 16);
    ret->seq = item->seq;
    memcpy(ret->name, item->name, sizeof(ret->name));
    ret->version = item->version;
    ret->created_ns = item->created_ns;
    ret->node = job->node;
    ret->level = (uint32_t)item->level;
}

int crn_item_takes_help(const struct crn_job *job, const struct crn_item *item)
{
    return crn_config_name(&job->cfg, item->name)->encode == CRN_ENCODE_NONE;
}

void crn_item_tell(struct crn_job *job, const struct crn_item *item, uint32_t node,
                   enum crn_msg_type type, struct crn_buf *payload, const struct crn_errinfo *error)
{
    struct crn_note n;

    crn_item_note(job, item, type, &n);
    if (error != NULL)
        n.error = *error;
    n.payload = payload->data;
    n.payload_bytes = (uint32_t)payload->len;
    if (!payload->failed)
        crn_service_tell(job->svc, job->peers[node], &n);
    crn_buf_free(payload);
}

static void tell_root(struct crn_job *job, const struct crn_item *item, enum crn_msg_type type,
                      const struct crn_errinfo *error)
{
    struct crn_note n;

    crn_item_note(job, item, type, &n);
    n.bytes = item->local_bytes;
    if (error != NULL)
        n.error = *error;
    if (type == CRN_MSG_NODE_DATA)
        n.file = item->file;
    crn_service_tell(job->svc, job->peers[ROOT], &n);
}

/* A rank that cannot be told is gone; its hang-up is handled by the loop. */
static void tell_rank(struct crn_job *job, uint32_t local, const struct crn_note *n)
{
    struct crn_errinfo ignored = {0};
    struct crn_note state = *n;

    if (job->clients[local] == NULL)
        return;
    state.type = CRN_MSG_STATE;
    if (crn_sock_send_note(job->clients[local]->fd, &state, -1, &ignored) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "rank %u: %s", job->rank_of[local], ignored.msg);
}

static void tell_ranks(struct crn_job *job, const struct crn_item *item, uint64_t committed_ns)
{
    struct crn_note n;
    uint32_t i;

    crn_item_note(job, item, CRN_MSG_STATE, &n);
    n.error = item->error;
    n.bytes = committed_ns;
    for (i = 0; i < job->nlocal; i++)
        if (item->part[i].is_captured)
            tell_rank(job, i, &n);
}

/* The end, on a node. -------------------------------------------------------------------------------- */

/* What all ranks were promised is kept as long as there is room: if the job dies too, the next start
 * flushes it. Not what they replaced themselves, nor what lies in the spool, which goes now. */
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
    if (!p->is_claimed) /* fails where the rank has superseded it */
        (void)crn_slot_move(job->arenas[local], p->slot, item->seq, CRN_SLOT_WRITTEN,
                            CRN_SLOT_FLUSHING);
    to = state_of_end(job, item, local);
    (void)crn_slot_move(job->arenas[local], p->slot, item->seq, CRN_SLOT_FLUSHING, to);
    job->has_kept |= to == CRN_SLOT_KEPT;
    p->is_claimed = 0;
}

/* Frees an item that has ended once nobody works on it and no rank can still bring news of it. */
static void reap(struct crn_job *job, struct crn_item *item)
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
        crn_work_post(job, item, CRN_WORK_RETIRE);
        if (item->working > 0)
            return;
    }
    if (job->node == ROOT && !item->is_decided)
        return;
    while (*link != item)
        link = &(*link)->next;
    *link = item->next;
    crn_item_free(job, item);
}

static void settle(struct crn_job *job, struct crn_item *item)
{
    uint32_t i;

    if (item->working > 0 || item->nflows > 0)
        return; /* the slots are still being read */
    for (i = 0; i < job->nlocal; i++) {
        if (!item->part[i].is_captured || item->part[i].is_settled)
            continue; /* a settled slot may hold a later capture by now */
        release_slot(job, item, i);
        item->part[i].is_settled = 1;
    }
}

static void on_end(struct crn_job *job, struct crn_item *item, const struct crn_note *n)
{
    if (item->state == CRN_ITEM_ENDED)
        return;
    item->state = CRN_ITEM_ENDED;
    atomic_store(&item->is_over, 1);
    item->error = n->error;
    item->level = n->error.code == CAIRN_OK ? CAIRN_PERSISTENT : item->level;
    if (n->error.code == CAIRN_OK)
        crn_log(&job->log, CRN_INFO, "%s@%" PRId64 " is persistent", item->name, item->version);
    else if (n->error.code == CAIRN_ECANCELED)
        crn_log(&job->log, CRN_INFO, "%s@%" PRId64 ": %s", item->name, item->version, n->error.msg);
    else
        crn_log(&job->log, CRN_ERROR, "%s@%" PRId64 " is lost: %s", item->name, item->version,
                n->error.msg);
    crn_assist_end(job, item, &n->error);
    settle(job, item);
    tell_ranks(job, item, n->bytes);
    reap(job, item);
}

/* News from the ranks of this node. ------------------------------------------------------------------- */

void crn_item_fail(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *e)
{
    if (item->state != CRN_ITEM_ENDED)
        tell_root(job, item, CRN_MSG_NODE_FAILED, e);
}

/* A rank whose part came after the end learns of it at once. */
static void too_late(struct crn_job *job, struct crn_item *item, uint32_t local)
{
    struct crn_note n;

    crn_item_note(job, item, CRN_MSG_STATE, &n);
    n.error = item->error;
    if (item->working == 0) {
        release_slot(job, item, local);
        item->part[local].is_settled = 1;
    }
    tell_rank(job, local, &n);
    reap(job, item);
}

/* A checkpoint that waits for a rank that has left waits in vain. */
static void fail_if_left(struct crn_job *job, struct crn_item *item)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    if (item->state != CRN_ITEM_CAPTURING)
        return;
    for (i = 0; i < job->nlocal; i++) {
        if (!job->has_left[i] || item->part[i].is_captured || item->part[i].is_settled)
            continue;
        (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank %u was gone before it captured its part",
                        job->rank_of[i]);
        crn_item_fail(job, item, &e);
        return;
    }
}

static void on_captured(struct crn_job *job, struct crn_client *c, const struct crn_note *n)
{
    struct crn_item *item = crn_item_get(job, n);
    struct crn_part *p;

    if (item == NULL) {
        crn_log(&job->log, CRN_ERROR, "%s@%" PRId64 " is lost: out of memory", n->name, n->version);
        return;
    }
    p = &item->part[c->local];
    if (p->is_captured || n->slot >= CRN_ARENA_SLOTS || job->arenas[c->local] == NULL)
        return;
    p->slot = n->slot;
    p->is_captured = 1;
    item->ncaptured++;
    item->local_bytes += n->bytes;
    if (item->state == CRN_ITEM_ENDED) {
        too_late(job, item, c->local);
        return;
    }
    if (strcmp(item->name, n->name) != 0 || item->version != n->version) {
        struct crn_errinfo e = {0};

        (void)!crn_fail(&e, CAIRN_EINVAL, 0,
                        "the ranks disagree: checkpoint number %" PRIu64 " is %s@%" PRId64
                        " on one rank and %s@%" PRId64 " on rank %u",
                        n->seq, item->name, item->version, n->name, n->version, c->rank);
        crn_item_fail(job, item, &e);
        return;
    }
    if (n->created_ns > item->created_ns)
        item->created_ns = n->created_ns;
    if (item->ncaptured == job->nlocal) {
        item->state = CRN_ITEM_CAPTURED;
        item->since_ns = crn_clock_real()->mono_ns(crn_clock_real());
        tell_root(job, item, CRN_MSG_NODE_CAPTURED, NULL);
    }
    fail_if_left(job, item); /* the others may have died before this part was read */
}

static void on_capture_failed(struct crn_job *job, struct crn_client *c, const struct crn_note *n)
{
    struct crn_item *item = crn_item_get(job, n);
    struct crn_errinfo e = n->error;

    if (item == NULL)
        return;
    item->part[c->local].is_settled = 1; /* the rank knows */
    (void)!crn_err_context(&e, e.code, "capture on rank %u", c->rank);
    crn_item_fail(job, item, &e);
    reap(job, item);
}

static void on_dropped(struct crn_job *job, struct crn_client *c, const struct crn_note *n)
{
    struct crn_item *item = crn_item_find(job, n->seq);
    struct crn_errinfo e = {0};

    if (item == NULL)
        return;
    item->part[c->local].is_settled = 1;
    if (n->error.code != CAIRN_OK) {
        e = n->error;
        (void)!crn_err_context(&e, e.code, "rank %u", c->rank);
    } else {
        (void)!crn_fail(&e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint on rank %u",
                        c->rank);
    }
    crn_item_fail(job, item, &e);
}

static void on_arena(struct crn_job *job, struct crn_client *c, int fd)
{
    struct crn_errinfo ei = {0};
    char what[48];

    if (job->arenas[c->local] != NULL || fd < 0) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    (void)snprintf(what, sizeof(what), "the arena of rank %u", c->rank);
    if (crn_arena_map(fd, what, &job->arenas[c->local], &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_ERROR, "%s", ei.msg);
}

/* Takes the slots over from the ranks: 1, or 0 if one has been superseded. */
static int claim(struct crn_job *job, struct crn_item *item)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    for (i = 0; i < job->nlocal; i++) {
        if (item->part[i].is_claimed)
            continue;
        if (!crn_slot_move(job->arenas[i], item->part[i].slot, item->seq, CRN_SLOT_WRITTEN,
                           CRN_SLOT_FLUSHING)) {
            (void)!crn_fail(&e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint on rank %u",
                            job->rank_of[i]);
            crn_item_fail(job, item, &e);
            return 0;
        }
        item->part[i].is_claimed = 1;
    }
    return 1;
}

/* All ranks have captured: the local copy is made now, whenever the flush may begin. */
static void on_level(struct crn_job *job, struct crn_item *item, cairn_level level)
{
    if (level <= item->level || item->state == CRN_ITEM_ENDED)
        return;
    item->level = level;
    tell_ranks(job, item, 0);
    if (level == CAIRN_CAPTURED && item->state == CRN_ITEM_CAPTURED && job->cfg.local[0] != '\0' &&
        claim(job, item))
        crn_work_post(job, item, CRN_WORK_LOCAL);
}

/* The copy is made. Until the flush begins, a newer checkpoint may take the place of this one. */
static void on_copied(struct crn_job *job, struct crn_item *item)
{
    uint32_t i;

    for (i = 0; item->state == CRN_ITEM_CAPTURED && i < job->nlocal; i++) {
        (void)crn_slot_move(job->arenas[i], item->part[i].slot, item->seq, CRN_SLOT_FLUSHING,
                            CRN_SLOT_WRITTEN);
        item->part[i].is_claimed = 0;
    }
}

/* GO: claims the slots; the leader of the group flushes, the others serve it. */
static void on_go(struct crn_job *job, struct crn_item *item, const struct crn_note *n)
{
    if (item->state != CRN_ITEM_CAPTURED || !claim(job, item))
        return;
    item->state = CRN_ITEM_FLUSHING;
    crn_gate_begin(&job->gate);
    crn_flow_begin(job, item, n);
}

void crn_job_note(struct crn_job *job, struct crn_client *c, struct crn_note *n, int passed_fd)
{
    struct crn_item *item;

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
    case CRN_MSG_NODE_FAILED:
    case CRN_MSG_NODE_CAPTURED:
    case CRN_MSG_NODE_LOCAL:
    case CRN_MSG_NODE_WROTE:
    case CRN_MSG_NODE_DATA:
    case CRN_MSG_NODE_IDLE:
        if (job->node == ROOT)
            crn_root_note(job, n);
        return;
    case CRN_MSG_SHARDS:
        item = crn_item_find(job, n->seq); /* GO came after its capture: none means it has ended */
        if (item != NULL)
            crn_flow_shards(job, item, n);
        return;
    case CRN_MSG_FETCH:
        crn_flow_asked(job, crn_item_find(job, n->seq), n);
        return;
    case CRN_MSG_SENT:
        crn_flow_sent(job, n);
        return;
    case CRN_MSG_REROUTE:
    case CRN_MSG_HELP:
    case CRN_MSG_FILE:
    case CRN_MSG_ASK:
    case CRN_MSG_PIECE:
    case CRN_MSG_DONE:
        crn_assist_note(job, n);
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
            on_level(job, item, (cairn_level)n->level);
        return;
    default:
        return; /* not for a job */
    }
}

/* Results. --------------------------------------------------------------------------------------------- */

static void on_flushed(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    free(item->file.ranges);
    item->file = w->file;
    w->file.ranges = NULL;
    if (item->state == CRN_ITEM_ENDED) { /* it failed elsewhere meanwhile */
        settle(job, item);
        return;
    }
    item->state = CRN_ITEM_FLUSHED;
    if (w->error.code != CAIRN_OK)
        tell_root(job, item, CRN_MSG_NODE_FAILED, &w->error);
    else
        tell_root(job, item, CRN_MSG_NODE_DATA, NULL);
}

void crn_item_touch(struct crn_job *job, struct crn_item *item)
{
    if (item->state == CRN_ITEM_ENDED)
        settle(job, item);
    reap(job, item);
}

void crn_job_result(struct crn_work *w)
{
    struct crn_job *job = w->job;
    struct crn_item *item = w->item;
    struct crn_note n;

    switch (w->kind) {
    case CRN_WORK_NOTE_LOCAL:
        tell_root(job, item, CRN_MSG_NODE_LOCAL, NULL);
        return;
    case CRN_WORK_NOTE_PAUSED:
        crn_log(&job->log, CRN_WARN, "%s", w->error.msg);
        crn_item_note(job, item, CRN_MSG_STATE, &n);
        n.error = w->error; /* code OK: a remark */
        for (uint32_t i = 0; i < job->nlocal; i++)
            tell_rank(job, i, &n);
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
        item->working--;
        on_copied(job, item);
        break;
    case CRN_WORK_RETIRE:
        item->working--;
        break;
    }
    crn_item_touch(job, item);
}

/* Deaths and deadlines. ---------------------------------------------------------------------------------- */

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
    } else if (job->node == ROOT && item->count[CRN_NODE_CAPTURED] < job->nodes &&
               now_ns - item->deadline_ns > (int64_t)job->cfg.commit_timeout_ns / 8) {
        for (i = 0; i < job->nodes && item->progress[i] >= CRN_NODE_CAPTURED; i++)
            ;
        (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0,
                        "node %u said nothing of it within commit_timeout (%u of %u nodes did)", i,
                        item->count[CRN_NODE_CAPTURED], job->nodes);
        crn_root_decide(job, item, &e, 0);
    }
}

/* The broker takes a job that moves no bytes for stuck: the first node tells it how far they are. */
static void tell_progress(struct crn_job *job)
{
    uint64_t seq = atomic_load(&job->writing_seq);
    struct crn_item *item = seq != 0 ? crn_item_find(job, seq - 1) : NULL;
    struct crn_note n;

    if (item == NULL || job->cfg.broker[0] == '\0')
        return;
    crn_item_note(job, item, CRN_MSG_NODE_WROTE, &n);
    n.node = job->node;
    n.bytes = atomic_load(&job->written) - atomic_load(&job->writing_at);
    crn_service_tell(job->svc, job->peers[ROOT], &n);
}

void crn_job_tick(struct crn_job *job, int64_t now_ns)
{
    struct crn_item *item;
    struct crn_item *next;

    tell_progress(job);
    crn_alive_tick(job, now_ns);
    for (item = job->items; item != NULL; item = next) {
        next = item->next;
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
    if (job->arenas[c->local] != NULL) /* it wants nothing any more */
        crn_arena_set_phase(job->arenas[c->local], CAIRN_PHASE_COMPUTE);
    job->has_dead |= is_dead;
    if (is_dead) {
        (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank %u died before it captured its part", c->rank);
        crn_log(&job->log, CRN_WARN, "rank %u is gone without saying so, continuing", c->rank);
        tell_root(job, &dead, CRN_MSG_NODE_FAILED, &e);
    }
    for (item = job->items; item != NULL; item = next) {
        next = item->next;
        fail_if_left(job, item);
        reap(job, item);
    }
}
