/* SPDX-License-Identifier: BSD-3-Clause */
/* A session whose cairnd has died continues, and joins the restarted one. Meanwhile captures go into
 * the arena as long as there is room; calls that wait for the service wait for it to come back, at
 * most service_timeout and their own deadline. Every call takes the next steps without blocking.
 *
 * The slots say what the dead service had done: a FLUSHED one is committed, a KEPT or FAILED one is
 * not. All others are reported to the new service as captured. It may know of them already, and
 * answers with what has become of them. An embedded service cannot come
 * back: it was a part of a rank. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "client/session.h"

#define PAUSE_NS     50000000LL /* before the second attempt to connect; then twice as long, ... */
#define PAUSE_MAX_NS 1000000000LL /* ... at most */

int crn_rejoin_is_possible(const cairn_session *s)
{
    return s->cfg.service == CRN_SERVICE_DAEMON;
}

/* The slots. ----------------------------------------------------------------------------------- */

/* The dead service had decided this checkpoint, and perhaps could not tell. */
static void settle_track(cairn_session *s, uint64_t seq, enum crn_slot_state state)
{
    struct crn_track *t = crn_track_seq(s, seq);

    if (t == NULL || t->error.code != CAIRN_OK || crn_level_has(t->levels, CAIRN_PERSISTENT))
        return;
    if (crn_slot_is_flushed(state)) {
        t->levels |= crn_level_set(CAIRN_PERSISTENT);
        return;
    }
    (void)!crn_fail(&t->error, CAIRN_ESERVICE, 0,
                    "its flush failed; the node service died before it said why");
    s->may_have_failures = 1;
    crn_tiers_failed(s, seq, t->error.code);
}

static void rejoin_settle(cairn_session *s)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint32_t i;

    for (i = 0; s->arena != NULL && i < crn_arena_slots(s->arena); i++) {
        enum crn_slot_state state = crn_slot_state(s->arena, i);

        if ((crn_slot_is_flushed(state) || crn_slot_has_failed(state)) &&
            crn_slot_info(s->arena, i, &info, &ignored) == CAIRN_OK &&
            memcmp(info.id.run, s->run, sizeof(s->run)) == 0 &&
            crn_slot_state_of(s->arena, i, info.id.seq) == state)
            settle_track(s, info.id.seq, state);
    }
}

/* The new service may be flushing it already. */
static int is_undecided(enum crn_slot_state state)
{
    return state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING;
}

static int report_of(cairn_session *s, uint32_t slot, struct crn_msg *ret)
{
    struct crn_errinfo ignored = {0};
    const struct crn_track *t;
    struct crn_slot_info info;

    if (!is_undecided(crn_slot_state(s->arena, slot)) ||
        crn_slot_info(s->arena, slot, &info, &ignored) != CAIRN_OK ||
        !is_undecided(crn_slot_state_of(s->arena, slot, info.id.seq)))
        return 0;
    t = crn_track_seq(s, info.id.seq);
    memset(ret, 0, sizeof(*ret));
    ret->type = CRN_MSG_CAPTURED;
    memcpy(ret->run, s->run, sizeof(ret->run));
    ret->seq = info.id.seq;
    memcpy(ret->ckpt.name, info.name, sizeof(ret->ckpt.name));
    ret->ckpt.version = info.version;
    ret->ckpt.created_ns = info.created_ns;
    ret->captured.slot = slot;
    ret->captured.target = t != NULL ? (uint32_t)t->target.level : 0;
    ret->captured.protect = t != NULL ? t->target.protect : 0;
    ret->captured.bytes = t != NULL ? t->bytes : info.image_bytes - info.descriptor_bytes;
    return 1;
}

static int by_seq(const void *a, const void *b)
{
    uint64_t x = ((const struct crn_msg *)a)->seq;
    uint64_t y = ((const struct crn_msg *)b)->seq;

    return x < y ? -1 : x > y;
}

/* CAPTURED for all slots that nobody has flushed, oldest first. */
static cairn_err list_reports(cairn_session *s, struct crn_msg **ret, size_t *ret_n,
                              struct crn_errinfo *ei)
{
    uint32_t slots = s->arena != NULL ? crn_arena_slots(s->arena) : 0;
    struct crn_msg *list = NULL;
    struct crn_msg m;
    size_t n = 0;
    uint32_t i;

    for (i = 0; i < slots; i++) {
        struct crn_msg *grown;

        if (!report_of(s, i, &m))
            continue;
        grown = realloc(list, (n + 1) * sizeof(*list));
        if (grown == NULL) {
            free(list);
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the list of captures");
        }
        list = grown;
        list[n++] = m;
    }
    if (n > 1)
        qsort(list, n, sizeof(*list), by_seq);
    *ret = list;
    *ret_n = n;
    return CAIRN_OK;
}

/* Steps. --------------------------------------------------------------------------------------- */

void crn_rejoin_begin(cairn_session *s, const struct crn_errinfo *why)
{
    struct crn_rejoin *r = &s->rejoin;

    crn_link_lose(&s->link);
    r->step = CRN_REJOIN_CONNECT;
    r->lost_ns = r->next_ns = s->clock->mono_ns(s->clock);
    r->pause_ns = PAUSE_NS;
    r->why = *why;
    if (s->arena_share == CRN_SHARE_ASKED)
        s->arena_share = CRN_SHARE_NONE;
    rejoin_settle(s);
    if (crn_rejoin_is_possible(s))
        crn_log(&s->log, s->local == 0 ? CRN_WARN : CRN_DEBUG,
                "cairnd is gone (%s), continuing: checkpoints stay in memory while there is space; "
                "start cairnd again on all nodes of the job to save them",
                why->msg);
}

static void try_later(cairn_session *s)
{
    struct crn_rejoin *r = &s->rejoin;

    if (r->fd >= 0)
        crn_fork_close(r->fd);
    r->fd = -1;
    r->step = CRN_REJOIN_CONNECT;
    r->next_ns = s->clock->mono_ns(s->clock) + r->pause_ns;
    r->pause_ns = 2 * r->pause_ns < PAUSE_MAX_NS ? 2 * r->pause_ns : PAUSE_MAX_NS;
}

static cairn_err rejoin_joined(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_rejoin *r = &s->rejoin;
    struct crn_msg *reports = NULL;
    cairn_err rc;
    size_t n = 0;
    uint32_t i;

    rc = list_reports(s, &reports, &n, ei);
    rejoin_settle(s); /* afterwards: a slot moves on meanwhile */
    if (rc == CAIRN_OK)
        rc = crn_link_resume(&s->link, r->fd, reports, n, ei);
    free(reports);
    if (rc != CAIRN_OK)
        return rc;
    s->arena_share = s->arena != NULL ? CRN_SHARE_DONE : CRN_SHARE_NONE;
    s->wanted = 0; /* callers that wait say so again */
    for (i = 0; i < CRN_TRACKED; i++)
        s->track[i].insisted = CAIRN_LEVEL_NONE;
    r->fd = -1;
    r->lost_ns = 0;
    r->times++;
    crn_log(&s->log, s->local == 0 ? CRN_WARN : CRN_DEBUG,
            "cairnd is back: %zu checkpoint%s in memory handed over", n, n == 1 ? "" : "s");
    return CAIRN_OK;
}

static cairn_err send_arena(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_msg m = {.type = CRN_MSG_ARENA};

    return crn_sock_send_msg(s->rejoin.fd, &m, crn_arena_fd(s->arena), ei);
}

/* The service has answered. */
static cairn_err rejoin_answered(cairn_session *s, const struct crn_msg *m, struct crn_errinfo *ei)
{
    struct crn_rejoin *r = &s->rejoin;
    int is_welcome = r->step == CRN_REJOIN_WELCOME;
    const struct crn_errinfo *refusal = is_welcome ? &m->welcome.error : &m->ready.error;
    cairn_err rc;

    if (m->type == CRN_MSG_STATE)
        return CAIRN_OK; /* of a capture that will be reported, and answered, or is settled */
    if (m->type != (is_welcome ? CRN_MSG_WELCOME : CRN_MSG_READY))
        return crn_fail(ei, CAIRN_EFORMAT, 0, "the node service answered with %s",
                        crn_msg_name(m->type));
    if (refusal->code != CAIRN_OK) {
        *ei = *refusal;
        return ei->code;
    }
    if (is_welcome) {
        rc = crn_service_link_say_hello(s, r->fd, 1, ei);
        r->step = CRN_REJOIN_READY;
    } else if (r->step == CRN_REJOIN_READY && s->arena != NULL) {
        rc = send_arena(s, ei);
        r->step = CRN_REJOIN_ARENA;
    } else {
        rc = rejoin_joined(s, ei);
    }
    return rc;
}

static cairn_err rejoin_connect(cairn_session *s, struct crn_errinfo *ei)
{
    cairn_err rc = crn_sock_connect(s->service_path, &s->rejoin.fd, ei);

    if (rc == CAIRN_OK)
        s->rejoin.step = CRN_REJOIN_WELCOME;
    else
        s->rejoin.fd = -1;
    return rc;
}

/* Goes on as far as it can without blocking. */
static void rejoin_steps(cairn_session *s)
{
    struct crn_rejoin *r = &s->rejoin;
    struct crn_errinfo why = {0};
    struct crn_msg m;
    cairn_err rc = CAIRN_OK;
    size_t len = 0;

    if (r->step == CRN_REJOIN_CONNECT) {
        if (s->clock->mono_ns(s->clock) < r->next_ns)
            return;
        rc = rejoin_connect(s, &why);
    }
    while (rc == CAIRN_OK && r->lost_ns != 0) {
        rc = crn_sock_recv(r->fd, s->packet, CRN_PROTO_MAX, &len, NULL, &why);
        if (rc == CAIRN_OK && len == 0)
            return;
        if (rc == CAIRN_OK)
            rc = crn_msg_decode(s->packet, len, &m, &why);
        if (rc == CAIRN_OK) {
            rc = rejoin_answered(s, &m, &why);
            crn_msg_free(&m);
        }
    }
    if (rc != CAIRN_OK) {
        r->why = why;
        try_later(s);
    }
}

static void rejoin_sleep(const cairn_session *s, int64_t ns)
{
    const struct crn_rejoin *r = &s->rejoin;
    int64_t left = r->next_ns - s->clock->mono_ns(s->clock);
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    struct timespec ts;

    if (r->step == CRN_REJOIN_CONNECT && left < ns)
        ns = left > 0 ? left : 0;
    ts = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)ppoll(&p, 1, &ts, NULL); /* ignores -1 */
}

cairn_err crn_rejoin(cairn_session *s, int64_t timeout_ns, struct crn_errinfo *ei)
{
    struct crn_rejoin *r = &s->rejoin;

    if (!crn_rejoin_is_possible(s))
        return crn_fail(
            ei, CAIRN_ESERVICE, 0,
            "the node service is gone (%s); captures that it had not flushed are kept for "
            "'cairn drain' or the next start",
            r->why.msg);
    rejoin_steps(s);
    if (r->lost_ns != 0 && timeout_ns > 0) {
        rejoin_sleep(s, timeout_ns);
        rejoin_steps(s);
    }
    if (r->lost_ns == 0 ||
        s->clock->mono_ns(s->clock) - r->lost_ns < (int64_t)s->cfg.service_timeout_ns)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_ESERVICE, 0,
                    "cairnd is gone (%s); start it again on all nodes of the job: captures that it "
                    "had not flushed are kept, also for 'cairn drain' or the next start",
                    r->why.msg);
}

void crn_rejoin_end(cairn_session *s)
{
    if (s->rejoin.fd >= 0)
        crn_fork_close(s->rejoin.fd);
    s->rejoin.fd = -1;
    free(s->rejoin.peers);
    s->rejoin.peers = NULL;
}
