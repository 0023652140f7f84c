/* SPDX-License-Identifier: BSD-3-Clause */
/* The service of a job's first node: collects the reports of the nodes, lets them flush when all
 * have captured and the broker agrees, commits when all files are durable, and ends every
 * checkpoint exactly once, on all nodes. On the loop thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/elect.h"
#include "service/loan.h"
#include "service/turn.h"

static void tell_nodes(struct crn_job *job, const struct crn_msg *m)
{
    uint32_t i;

    for (i = 0; i < job->nodes; i++)
        crn_item_tell(job, i, m);
}

static void tell_level(struct crn_job *job, const struct crn_item *item, cairn_level level)
{
    struct crn_msg m;

    crn_item_msg(job, item, CRN_MSG_LEVEL, &m);
    m.level.level = (uint32_t)level;
    tell_nodes(job, &m);
}

void crn_root_decide(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *error,
                     uint64_t committed_ns)
{
    struct crn_msg end;

    if (item->is_decided)
        return;
    item->is_decided = 1;
    item->wants_turn = 0;
    crn_turn_end(job, item);
    job->decided[job->ndecided++ % 64] = item->seq + 1;
    crn_job_count(job, item, error->code, committed_ns);
    crn_item_msg(job, item, CRN_MSG_END, &end);
    end.end.error = *error;
    end.end.committed_ns = committed_ns;
    tell_nodes(job, &end);
}

static void root_advance(struct crn_item *item, uint32_t node, enum crn_node_progress to)
{
    while (item->progress[node] < to)
        item->count[++item->progress[node]]++;
}

static uint64_t group_bytes(const struct crn_job *job, const struct crn_item *item, uint32_t group)
{
    uint32_t end = crn_group_first(group + 1, job->nodes, job->files);
    uint64_t bytes = 0;
    uint32_t i;

    for (i = crn_group_first(group, job->nodes, job->files); i < end; i++)
        bytes += item->node_bytes[i];
    return bytes;
}

/* Sends an idle leader to assist one that lags. */
static void reroute(struct crn_job *job, struct crn_item *item, uint32_t idle)
{
    uint32_t group = crn_elect_behind(item->groups, job->files);
    uint32_t first = crn_group_first(group, job->nodes, job->files);
    struct crn_msg m;

    if (job->cfg.reroute == 0 || group == job->files || !crn_item_takes_help(job, item))
        return;
    item->groups[group].helpers++;
    crn_item_msg(job, item, CRN_MSG_REROUTE, &m);
    m.leader.node = first + crn_elect(&item->node_bytes[first], item->groups[group].members);
    crn_item_tell(job, idle, &m);
}

static void on_idle(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    uint32_t leader = n->leader.node;

    if (leader >= job->nodes)
        return;
    item->groups[crn_group_of(leader, job->nodes, job->files)].needs_no_help = 1;
    reroute(job, item, n->node);
}

/* Tells all nodes that somebody waits, but only while a checkpoint is undecided: otherwise their
 * services may be shutting down. */
static void tell_hurry(struct crn_job *job)
{
    struct crn_msg n = {.type = CRN_MSG_HURRY, .seq = job->wanted, .node = job->node};
    const struct crn_item *item = job->items;
    uint32_t i;

    while (item != NULL && item->is_decided)
        item = item->next;
    memcpy(n.run, job->run, 16);
    for (i = 0; item != NULL && i < job->nodes; i++)
        if (i != job->node)
            crn_service_tell(job->svc, job->peers[i], &n);
}

/* Several leaders may wait for free space on one file system: the first to report does so for
 * all. */
static void on_paused(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    struct crn_work *w;

    crn_log(&job->log,
            item->paused_by == 0 || item->paused_by == n->node + 1 ? CRN_WARN : CRN_DEBUG, "%s",
            n->failed.error.msg);
    if (item->paused_by != 0)
        return;
    item->paused_by = n->node + 1;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return; /* the log has it already */
    w->kind = CRN_WORK_REPORT;
    w->job = job;
    w->item = item;
    w->error = n->failed.error;
    crn_work_send(w);
}

static void progress(struct crn_job *job, struct crn_item *item, struct crn_msg *n)
{
    uint32_t file;

    if (item->is_decided || n->node >= job->nodes)
        return;
    if (crn_msg_has_ckpt(n->type) &&
        (strcmp(item->name, n->ckpt.name) != 0 || item->version != n->ckpt.version)) {
        struct crn_errinfo e = {0};

        (void)!crn_fail(&e, CAIRN_EINVAL, 0,
                        "the ranks disagree: checkpoint number %" PRIu64 " is %s@%" PRId64
                        " on one node and %s@%" PRId64 " on node %u",
                        item->seq, item->name, item->version, n->ckpt.name, n->ckpt.version,
                        n->node);
        crn_root_decide(job, item, &e, 0);
        return;
    }
    switch (n->type) {
    case CRN_MSG_NODE_CAPTURED:
        if (n->ckpt.created_ns > item->created_ns)
            item->created_ns = n->ckpt.created_ns;
        item->bytes += n->node_captured.bytes;
        item->node_bytes[n->node] = n->node_captured.bytes;
        root_advance(item, n->node, CRN_NODE_CAPTURED);
        break;
    case CRN_MSG_NODE_LOCAL:
        if (item->progress[n->node] == CRN_NODE_CAPTURED)
            root_advance(item, n->node, CRN_NODE_LOCAL);
        if (item->count[CRN_NODE_LOCAL] == job->nodes && item->level < CAIRN_LOCAL)
            tell_level(job, item, CAIRN_LOCAL);
        return;
    case CRN_MSG_NODE_WROTE:
        item->node_wrote[n->node] = n->node_wrote.bytes;
        crn_turn_progress(job, item);
        return;
    case CRN_MSG_NODE_DATA:
        file = crn_group_of(n->node, job->nodes, job->files);
        crn_manifest_file_free(&item->files[file]);
        item->files[file] = n->node_data.data;
        memset(&n->node_data.data, 0, sizeof(n->node_data.data)); /* ownership taken */
        item->node_wrote[n->node] = group_bytes(job, item, file);
        crn_turn_progress(job, item);
        root_advance(item, n->node, CRN_NODE_DATA);
        item->groups[file].needs_no_help = 1;
        reroute(job, item, n->node);
        break;
    case CRN_MSG_NODE_IDLE:
        on_idle(job, item, n);
        return;
    case CRN_MSG_NODE_PAUSED:
        on_paused(job, item, n);
        return;
    default:
        return;
    }
    if (item->count[CRN_NODE_CAPTURED] == job->nodes && !item->is_started) {
        item->is_started = 1;
        tell_level(job, item, CAIRN_CAPTURED);
        if (item->seq <= job->wanted) /* a rank waited before the root knew of the checkpoint */
            tell_hurry(job);
        item->is_held = crn_config_is_lazy(&job->cfg) && item->seq > job->wanted;
        if (!item->is_held)
            crn_work_post(job, item, CRN_WORK_START);
    }
    if (item->count[CRN_NODE_DATA] == job->files)
        crn_work_post(job, item, CRN_WORK_COMMIT);
}

void crn_root_want(struct crn_job *job, uint64_t seq)
{
    struct crn_item *item;
    struct crn_item *next;

    if (seq <= job->wanted)
        return;
    job->wanted = seq;
    tell_hurry(job);
    for (item = job->items; item != NULL; item = next) {
        next = item->next;
        if (!item->is_held || item->is_decided || item->seq > job->wanted)
            continue;
        item->is_held = 0;
        crn_work_post(job, item, CRN_WORK_START);
    }
}

/* A rank died: checkpoints that its node has not captured cannot complete. */
static void fail_incomplete(struct crn_job *job)
{
    struct crn_item *item;
    struct crn_item *next;

    for (item = job->items; item != NULL; item = next) {
        next = item->next;
        if (!item->is_decided && item->count[CRN_NODE_CAPTURED] < job->nodes)
            crn_root_decide(job, item, &job->broken, 0);
    }
}

int crn_was_decided(const struct crn_job *job, uint64_t seq)
{
    uint32_t i;

    for (i = 0; i < 64; i++)
        if (job->decided[i] == seq + 1)
            return 1;
    return 0;
}

static void root_failed(struct crn_job *job, const struct crn_msg *n)
{
    struct crn_item *item = n->seq != UINT64_MAX ? crn_item_find(job, n->seq) : NULL;

    if (n->seq == UINT64_MAX) {
        crn_err_keep(&job->broken, &n->failed.error);
        fail_incomplete(job);
        return;
    }
    if (item == NULL && !crn_was_decided(job, n->seq))
        item = crn_item_get(job, n);
    if (item != NULL)
        crn_root_decide(job, item, &n->failed.error, 0);
}

/* Sends GO. Each node gets the sizes of its group, from which all elect the same leader and
 * assistants. */
static void tell_go(struct crn_job *job, struct crn_item *item)
{
    uint64_t base = crn_loan_choose(job, item);
    struct crn_msg n;
    uint32_t g, i;

    for (g = 0; g < job->files; g++) {
        uint32_t first = crn_group_first(g, job->nodes, job->files);
        uint32_t end = crn_group_first(g + 1, job->nodes, job->files);
        struct crn_buf sizes = {0};

        for (i = first; i < end; i++)
            crn_buf_u64(&sizes, item->node_bytes[i]);
        item->groups[g] =
            (struct crn_group_state){.bytes = group_bytes(job, item, g), .members = end - first};
        crn_item_msg(job, item, CRN_MSG_GO, &n);
        n.go.base = base;
        n.go.leaders = crn_leaders_count(&job->cfg, job->fs_type, item->groups[g].bytes);
        n.go.sizes = (struct crn_blob){sizes.data, sizes.failed ? 0 : (uint32_t)sizes.len};
        for (i = first; i < end; i++)
            crn_service_tell(job->svc, job->peers[i], &n);
        crn_buf_free(&sizes); /* if it failed: empty sizes make the nodes fail the checkpoint */
    }
}

void crn_root_start(struct crn_job *job, struct crn_item *item)
{
    struct crn_errinfo e = {0};

    if (item->is_decided)
        return;
    item->wants_turn = 1;
    if (crn_loan_is_awaited(job, item))
        return;
    switch (crn_turn_check(job, item, &e)) {
    case CRN_TURN_NOT_YET:
        return;
    case CRN_TURN_STOP:
        crn_root_decide(job, item, &e, 0);
        return;
    case CRN_TURN_GO:
        item->wants_turn = 0;
        tell_go(job, item);
        return;
    }
}

void crn_job_turns(struct crn_job *job)
{
    struct crn_item *item;

    crn_turn_tick(job);
    for (item = job->items; item != NULL; item = item->next)
        if (item->wants_turn)
            crn_root_start(job, item);
}

void crn_root_message(struct crn_job *job, struct crn_msg *n)
{
    struct crn_item *item;

    if (n->type == CRN_MSG_NODE_FAILED) {
        root_failed(job, n);
        return;
    }
    if (n->type == CRN_MSG_NODE_IDLE)
        item = crn_item_find(job, n->seq);
    else
        item = crn_was_decided(job, n->seq) ? NULL : crn_item_get(job, n);
    if (item != NULL)
        progress(job, item, n);
    if (job->broken.code != CAIRN_OK)
        fail_incomplete(job);
}
