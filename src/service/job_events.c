/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell around the core of a node (src/node): messages, results of workers, deaths and the
 * clock become its events, and its actions are carried out here. Bulk data passes by the core: see
 * flow.h and assist.h. All on the loop thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/assist.h"
#include "service/flow.h"
#include "service/held_scrub.h"
#include "service/loan.h"
#include "service/parity.h"
#include "service/turn.h"

static int64_t now_ns(void)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock);
}

/* Actions. ------------------------------------------------------------------------------------- */

void crn_job_tell(struct crn_job *job, uint32_t node, const struct crn_msg *m)
{
    crn_service_tell(job->svc, job->peers[node], m);
}

/* If sending fails, the rank is gone; the loop handles its hang-up. */
void crn_job_tell_rank(struct crn_job *job, uint32_t local, const struct crn_msg *m)
{
    struct crn_errinfo ignored = {0};

    if (job->clients[local] == NULL)
        return;
    if (crn_sock_send_msg(job->clients[local]->fd, m, -1, &ignored) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "rank %u: %s", job->rank_of[local], ignored.msg);
}

/* The task could not be started: the core hears why. */
static void refuse_work(struct crn_job *job, const struct crn_action *a)
{
    struct crn_errinfo e = {0};
    struct crn_result r = {.kind = a->work, .item = a->item, .claim = a->claim, .error = &e};

    (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
    crn_node_result(job->core, now_ns(), &r);
}

/* At the root retirement removes old versions, except those that others are encoded against. */
static void start_work(struct crn_job *job, const struct crn_action *a)
{
    struct crn_work *w = calloc(1, sizeof(*w));
    struct crn_buf needed = {0};

    if (a->work == CRN_WORK_RETIRE && job->node == CRN_ROOT)
        crn_node_needed(job->core, a->item->name, &needed);
    if (w == NULL || needed.failed) {
        crn_buf_free(&needed);
        free(w);
        refuse_work(job, a);
        return;
    }
    w->kind = a->work;
    w->job = job;
    w->item = a->item;
    w->claim = a->claim;
    if (a->work == CRN_WORK_REPORT)
        w->error = a->note;
    w->payload = needed.data;
    w->payload_bytes = (uint32_t)needed.len;
    w->bytes = a->number;
    if (crn_work_send(w) != 0)
        refuse_work(job, a);
}

static void promise_slots(struct crn_job *job, const struct crn_action *a)
{
    const struct crn_item *item = a->item;
    uint32_t i;

    crn_data(item)->captured_ns = (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
    for (i = a->first; i < a->end; i++)
        if (item->part[i].is_captured && !item->part[i].is_settled)
            crn_slot_promise(job->arenas[i], item->part[i].slot, item->seq);
}

static void end_item(struct crn_job *job, const struct crn_action *a)
{
    atomic_store(&crn_data(a->item)->is_over, 1);
    crn_slots_log_end(job, a);
    crn_assist_end(job, a->item, &a->item->error);
}

static void free_item(struct crn_job *job, struct crn_item *item)
{
    struct crn_item_data *d = crn_data(item);
    uint32_t i;

    for (i = 0; d->files != NULL && i < job->files; i++)
        crn_manifest_file_free(&d->files[i]);
    free(d->files);
    crn_manifest_file_free(&d->file);
    crn_flow_free(job, item);
    crn_ward_free(job, item);
    crn_loan_give_back(job, item);
    crn_assist_free(d->aid);
    crn_item_free(item);
}

/* The broker has answered, or will not be asked. */
static void look_for_turn(struct crn_job *job, struct crn_item *item)
{
    struct crn_errinfo e = {0};
    int64_t version = -1;
    uint64_t base;

    switch (crn_turn_check(job, item, &e)) {
    case CRN_TURN_NOT_YET:
        return;
    case CRN_TURN_STOP:
        crn_node_turn(job->core, now_ns(), item, &e, 0, -1);
        return;
    case CRN_TURN_GO:
        base = crn_loan_newest(job, item, &version);
        crn_node_turn(job->core, now_ns(), item, NULL, base, version);
        return;
    }
}

static void events_act(struct crn_job *job, struct crn_action *a)
{
    struct crn_item *item = a->item;
    uint32_t i;

    switch (a->act) {
    case CRN_ACT_SEND:
        for (i = a->first; i < a->end; i++)
            crn_job_tell(job, i, &a->msg);
        return;
    case CRN_ACT_TELL:
        for (i = a->first; i < a->end; i++)
            if (item == NULL || item->part[i].is_captured)
                crn_job_tell_rank(job, i, &a->msg);
        return;
    case CRN_ACT_WORK:
        start_work(job, a);
        return;
    case CRN_ACT_PROMISE:
        promise_slots(job, a);
        return;
    case CRN_ACT_BEGIN:
        crn_gate_begin(&job->gate);
        crn_loan_take(job, item, a->number);
        return;
    case CRN_ACT_TURN:
        look_for_turn(job, item);
        return;
    case CRN_ACT_WROTE:
        crn_turn_progress(job, item);
        return;
    case CRN_ACT_DECIDED:
        crn_turn_end(job, item);
        crn_job_count(job, item, a->msg.end.error.code, a->msg.end.committed_ns);
        return;
    case CRN_ACT_PROTECTED:
        atomic_store(&crn_data(item)->protected_ns,
                     (uint64_t)crn_clock_real()->wall_ns(crn_clock_real()));
        crn_ward_done(job, item);
        return;
    case CRN_ACT_ENDED:
        end_item(job, a);
        return;
    case CRN_ACT_SETTLE:
        crn_slots_release(job, item, a->first, a->end, a->outcome);
        crn_loan_give_back(job, item);
        return;
    case CRN_ACT_FREE:
        free_item(job, item);
        return;
    case CRN_ACT_LOG:
        crn_log(&job->log, (enum crn_log_level)a->number, "%s", a->note.msg);
        return;
    }
}

/* An action may lead to an event, whose actions queue up after the others. */
static void act_all(struct crn_job *job)
{
    struct crn_action a;

    if (job->is_acting)
        return;
    job->is_acting = 1;
    while (crn_actions_next(&job->actions, &a))
        events_act(job, &a);
    job->is_acting = 0;
    if (job->actions.failed)
        crn_log(&job->log, CRN_ERROR, "out of memory: a decision was lost");
    job->actions.failed = 0;
}

void crn_job_fail(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *e)
{
    crn_node_fail(job->core, now_ns(), item, e);
    act_all(job);
}

void crn_job_unuse(struct crn_job *job, struct crn_item *item)
{
    crn_node_unuse(job->core, now_ns(), item);
    act_all(job);
}

void crn_job_turns(struct crn_job *job)
{
    struct crn_item *item;

    crn_turn_tick(job);
    for (item = crn_node_items(job->core); item != NULL; item = item->next)
        if (item->root != NULL && item->root->state == CRN_ROOT_ASKING)
            look_for_turn(job, item);
    act_all(job);
}

/* Jobs that are being closed: items that have not ended are left to a drain. */
void crn_job_free_items(struct crn_job *job)
{
    struct crn_item *item;

    while ((item = crn_node_take(job->core)) != NULL)
        free_item(job, item);
}

/* Messages. ------------------------------------------------------------------------------------ */

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
        int is_known = crn_takeover_has_arena(job, c->local, fd);

        (void)close(fd);
        if (is_known)
            return CAIRN_OK;
        return crn_fail(ei, CAIRN_ESTATE, 0, "%s: the service has one already", what);
    }
    return crn_arena_map(crn_fs_posix(), fd, what, &job->arenas[c->local], ei);
}

/* The rank waits for the answer: without its arena none of its checkpoints could be flushed. */
static void on_arena(struct crn_job *job, struct crn_client *c, int fd)
{
    struct crn_msg ready = {.type = CRN_MSG_READY};
    struct crn_errinfo ignored = {0};

    int is_new = job->arenas[c->local] == NULL;

    if (map_arena(job, c, fd, &ready.ready.error) != CAIRN_OK)
        crn_log(&job->log, CRN_ERROR, "%s", ready.ready.error.msg);
    else if (is_new)
        crn_takeover_arena(job, c->local);
    if (crn_sock_send_msg(c->fd, &ready, -1, &ignored) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "rank %u: %s", c->rank, ignored.msg);
}

/* Root: keeps the description of a data file for the manifest. Not once the keeper reads them. */
static int take_data(struct crn_job *job, struct crn_msg *n)
{
    uint32_t file = n->node < job->nodes ? crn_elect_group_of(n->node, job->nodes, job->files) : 0;
    struct crn_item *item = crn_node_find(job->core, n->seq);
    struct crn_errinfo e = {0};
    struct crn_item_data *d;

    if (item == NULL || item->root == NULL || item->root->state != CRN_ROOT_FLUSHING ||
        n->node >= job->nodes)
        return 0;
    d = crn_data(item);
    if (d->files == NULL)
        d->files = calloc(job->files, sizeof(*d->files));
    if (d->files == NULL) {
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
        crn_node_fail(job->core, now_ns(), item, &e);
        return 0;
    }
    crn_manifest_file_free(&d->files[file]);
    d->files[file] = n->node_data.data;
    memset(&n->node_data.data, 0, sizeof(n->node_data.data)); /* ownership taken */
    return 1;
}

/* Messages about bulk data, and those with a payload that the core does not see. Returns 0 if the
 * core is not to hear of it. */
static int message_data(struct crn_job *job, struct crn_msg *n)
{
    struct crn_item *item = crn_node_find(job->core, n->seq);

    switch (n->type) {
    case CRN_MSG_NODE_DATA:
        return take_data(job, n);
    case CRN_MSG_NODE_WAITED:
        crn_turn_waited(job, n->seq);
        return 1;
    case CRN_MSG_SHARDS:
        return item != NULL && crn_flow_shards(job, item, n);
    case CRN_MSG_FILE:
        return item != NULL && crn_assist_file(job, item, n);
    case CRN_MSG_FETCH:
    case CRN_MSG_FETCH_OLDER:
        crn_flow_asked(job, item, n);
        return 1;
    case CRN_MSG_FETCH_STREAM:
    case CRN_MSG_FETCH_PARITY:
        crn_flow_stream_asked(job, item, n);
        return 1;
    case CRN_MSG_SENT:
        crn_flow_sent(job, n);
        return 1;
    case CRN_MSG_NOT_SENT:
        crn_flow_not_sent(job, n);
        return 1;
    case CRN_MSG_HELP:
    case CRN_MSG_ASK:
    case CRN_MSG_PIECE:
    case CRN_MSG_DONE:
        crn_assist_message(job, n);
        return 1;
    default:
        return 1;
    }
}

void crn_job_message(struct crn_job *job, struct crn_client *c, struct crn_msg *n, int passed_fd)
{
    const struct crn_arena *arena;

    if (passed_fd >= 0 && n->type != CRN_MSG_ARENA)
        (void)close(passed_fd);
    if (n->type == CRN_MSG_NODE_HERE) {
        crn_takeover_here(job, n);
    } else if (c == NULL) {
        if (message_data(job, n))
            crn_node_from_node(job->core, now_ns(), n);
    } else if (n->type == CRN_MSG_ARENA) {
        on_arena(job, c, passed_fd);
    } else if (n->type == CRN_MSG_TURN_ASK) {
        if (c->rank == 0)
            crn_turn_asked(job, n);
    } else if (n->type != CRN_MSG_CAPTURED || crn_takeover_captured(job, c->local, n)) {
        arena = job->arenas[c->local];
        crn_node_from_rank(job->core, now_ns(), c->local,
                           arena != NULL ? crn_arena_slots(arena) : 0, n);
    }
    act_all(job);
}

/* Results. ------------------------------------------------------------------------------------- */

/* The service's own part of a result. Returns 0 if there is nothing for the core. */
static int result_data(struct crn_job *job, struct crn_work *w)
{
    struct crn_manifest_file *file;

    switch (w->kind) {
    case CRN_WORK_OPEN:
        crn_ranks_answer(job, &w->error);
        return 0;
    case CRN_WORK_FETCH:
    case CRN_WORK_FETCH_STREAM:
        crn_flow_fetch(job, w->item, w);
        return 0;
    case CRN_WORK_NOTE_OPENED:
    case CRN_WORK_NOTE_ASK:
    case CRN_WORK_NOTE_WRITTEN:
        crn_assist_result(job, w->item, w);
        return 0;
    case CRN_WORK_SEND:
        crn_flow_send(job, w->item, w);
        crn_node_unuse(job->core, now_ns(), w->item);
        return 0;
    case CRN_WORK_SCRUB:
        crn_held_scrub_done(job, w);
        crn_node_unuse(job->core, now_ns(), w->item);
        return 0;
    case CRN_WORK_ASSIST:
        crn_assist_result(job, w->item, w);
        return 1;
    case CRN_WORK_LOCAL:
        memcpy(crn_data(w->item)->local, w->file.name, sizeof(w->file.name));
        return 1;
    case CRN_WORK_FLUSH:
        file = &crn_data(w->item)->file;
        crn_manifest_file_free(file);
        *file = w->file;
        memset(&w->file, 0, sizeof(w->file));
        return 1;
    default:
        return 1;
    }
}

void crn_job_result(struct crn_work *w)
{
    struct crn_job *job = w->job;
    struct crn_result r = {.kind = w->kind,
                           .item = w->item,
                           .claim = w->claim,
                           .error = &w->error,
                           .number = w->kind == CRN_WORK_COMMIT || w->kind == CRN_WORK_LOOK
                                         ? w->committed_ns
                                         : w->bytes,
                           .hash = w->hash,
                           .fs_type = job->fs_type,
                           .shards = {w->payload, w->payload_bytes}};

    if (result_data(job, w)) {
        r.file = w->item != NULL ? &crn_data(w->item)->file : NULL;
        crn_node_result(job->core, now_ns(), &r);
    }
    act_all(job);
}

/* Deaths and deadlines. ------------------------------------------------------------------------ */

/* The broker considers a job that moves no bytes stuck, so each node tells the first one how far it
 * is. */
static void tell_progress(struct crn_job *job)
{
    uint64_t seq = atomic_load(&job->writing_seq);
    struct crn_item *item = seq != 0 ? crn_node_find(job->core, seq - 1) : NULL;
    struct crn_msg n;

    if (item == NULL || job->cfg.broker[0] == '\0')
        return;
    crn_node_msg(job->core, item, CRN_MSG_NODE_WROTE, &n);
    n.node_wrote.bytes = atomic_load(&job->written) - atomic_load(&job->writing_at);
    crn_job_tell(job, CRN_ROOT, &n);
}

void crn_job_tick(struct crn_job *job, int64_t now)
{
    struct crn_errinfo torn = {0};
    struct crn_item *item;
    int is_torn = crn_job_check_arenas(job, &torn) != CAIRN_OK;

    tell_progress(job);
    crn_takeover_tick(job);
    for (item = crn_node_items(job->core); item != NULL; item = item->next) {
        if (is_torn) /* zeros from the truncated arena may be in flight to another node */
            crn_node_fail(job->core, now, item, &torn);
        crn_assist_tick(job, item, now);
    }
    crn_node_tick(job->core, now);
    act_all(job);
    if (job->turn != NULL)
        crn_job_turns(job);
    crn_held_scrub_tick(job, now);
}

void crn_job_rank_left(struct crn_job *job, struct crn_client *c, int is_dead)
{
    job->clients[c->local] = NULL;
    if (job->arenas[c->local] != NULL) /* it needs no consideration any more */
        crn_arena_set_phase(job->arenas[c->local], CAIRN_PHASE_COMPUTE);
    job->has_dead |= is_dead;
    crn_node_left(job->core, now_ns(), c->local, is_dead);
    act_all(job);
}
