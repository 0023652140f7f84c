/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that take a checkpoint, in one step or two. Ranks do not talk to each other here: every
 * call has a number, the same on all ranks, under which the node services match the shards. A rank
 * reports a failed capture under its number, so that no other rank waits for it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

void crn_checkpoint_tell_failure(cairn_session *s, uint64_t seq, const char *name, int64_t version,
                                 const struct crn_errinfo *why)
{
    struct crn_msg m = {.type = CRN_MSG_CAPTURE_FAILED,
                        .seq = seq,
                        .failed = {.ckpt.version = version, .error = *why}};
    struct crn_errinfo ignored = {0};

    memcpy(m.ckpt.name, name, strlen(name) + 1);
    if (crn_service_link_send(s, &m, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg);
}

/* Returns an unreported failure of this name, if its policy is strict. */
static cairn_err earlier_failure(cairn_session *s, const char *name, struct crn_errinfo *ei)
{
    uint32_t n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    uint32_t i;

    if (!s->may_have_failures || crn_config_name(&s->cfg, name)->on_failure != CRN_FAIL_STRICT)
        return CAIRN_OK;
    for (i = 0; i < n; i++) {
        struct crn_track *t = &s->track[i];

        if (t->error.code == CAIRN_OK || t->error.code == CAIRN_ECANCELED || t->is_reported ||
            strcmp(t->name, name) != 0)
            continue; /* a superseded one was dropped on purpose */
        t->is_reported = 1;
        *ei = t->error;
        return crn_err_context(ei, ei->code, "an earlier checkpoint, %s@%" PRId64 ", failed",
                               t->name, t->version);
    }
    return CAIRN_OK;
}

cairn_err crn_checkpoint_hear(cairn_session *s, const char *name, struct crn_errinfo *ei)
{
    struct crn_errinfo gone = {0};
    cairn_err rc;

    if (s->has_heard)
        return CAIRN_OK;
    s->has_heard = 1;
    rc = crn_service_link_pump(s, 0, &gone);
    if (rc == CAIRN_ESERVICE && crn_rejoin_is_possible(s))
        rc = CAIRN_OK; /* captures continue while there is room */
    else
        crn_err_keep(ei, &gone);
    if (rc == CAIRN_OK && crn_link_is_full(&s->link))
        rc = crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                      "the node service has not read its last %d messages; is cairnd stopped?",
                      CRN_LINK_OUTBOX);
    return rc == CAIRN_OK ? earlier_failure(s, name, ei) : rc;
}

static void note_cost(cairn_session *s, const struct crn_track *t)
{
    s->advice.last_ns = s->clock->mono_ns(s->clock);
    s->advice.cost_ns = (int64_t)((t->copy_seconds + t->blocked_seconds) * 1e9);
    s->advice.has_cost = 1;
    s->advice.wish = CRN_WISH_NONE; /* this capture takes the turn that was asked for */
    s->waited_ns += (int64_t)(t->blocked_seconds * 1e9);
}

/* The first of the schemes in text that the sets of this session can carry. If they can carry none of
 * them the checkpoint is refused, never weakened. */
static cairn_err check_scheme(const cairn_session *s, const char *text, uint32_t *ret_code,
                              struct crn_errinfo *ei)
{
    struct crn_protection scheme = {CRN_SCHEME_RS, UINT8_MAX};
    struct crn_errinfo why = {0};
    const char *at = text;
    char one[32];
    size_t len;

    for (; at != NULL && scheme.parity > s->strongest; at = at[len] == '|' ? at + len + 1 : NULL) {
        len = strcspn(at, "|");
        (void)snprintf(one, sizeof(one), "%.*s", (int)len, at);
        if (crn_scheme_parse(one, "options->protect", &scheme, &why) != CAIRN_OK)
            return crn_fail(ei, CAIRN_EINVAL, 0, "%s", why.msg);
    }
    if (scheme.parity > s->strongest)
        return crn_fail(
            ei, CAIRN_EINVAL, 0,
            s->strongest == 0
                ? "options->protect is '%s', but the nodes form no sets; set protect, or "
                  "protect_set to the number of nodes that protect each other"
                : "options->protect is '%s', but the nodes form sets that survive the "
                  "loss of at most %u of their nodes; raise protect_set",
            text, s->strongest);
    *ret_code = crn_scheme_code(scheme);
    return CAIRN_OK;
}

/* Options that this build cannot honour are refused, not ignored. */
static cairn_err check_options(const cairn_session *s, const struct cairn_checkpoint_options *o,
                               uint32_t *ret_scheme, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_arg_struct("options", o, "cairn_checkpoint_options", sizeof(*o), ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_level("options->level", o->level, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (o->flags > CAIRN_STREAM_ORDERED)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "options->flags is 0x%x; use CAIRN_LAZY, CAIRN_STREAM_ORDERED or 0",
                        o->flags);
    return o->protect != NULL ? check_scheme(s, o->protect, ret_scheme, ei) : CAIRN_OK;
}

/* The level that a checkpoint must reach even if nobody waits for it. What is captured in a turn,
 * or when the job shall stop, goes to the PFS. */
static cairn_level target_of(const cairn_session *s, const struct cairn_checkpoint_options *o)
{
    if (o != NULL && o->level != CAIRN_LEVEL_NONE)
        return o->level;
    return s->advice.stop != 0 || s->advice.wish == CRN_WISH_COME ? CAIRN_PERSISTENT
                                                                  : CAIRN_LEVEL_NONE;
}

/* Starts the next checkpoint of the session: its number and its track. A failure uses up the number
 * too, because the other ranks use it; they are told. */
static cairn_err checkpoint_begin(cairn_session *s, const char *name, int64_t version,
                                  const struct cairn_checkpoint_options *options,
                                  struct crn_track **ret, struct crn_errinfo *ei)
{
    uint32_t scheme = 0;
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, version, ei);
    if (rc == CAIRN_OK && options != NULL)
        rc = check_options(s, options, &scheme, ei);
    s->seq++;
    s->has_heard = 0;
    if (rc != CAIRN_OK) {
        if (name != NULL && strlen(name) < CAIRN_MAX_NAME)
            crn_checkpoint_tell_failure(s, s->seq, name, version, ei);
        return rc;
    }
    crn_version_close(s->open_version); /* this checkpoint may replace it */
    s->open_version = NULL;
    *ret = crn_track_new(s, name, version);
    (*ret)->target = (struct crn_target){target_of(s, options), scheme};
    return CAIRN_OK;
}

/* Ends a checkpoint that failed on this rank; the caller gets the error now. */
static cairn_err checkpoint_fail(cairn_session *s, struct crn_track *t, struct crn_errinfo *ei)
{
    t->error = *ei;
    t->is_reported = 1;
    crn_checkpoint_tell_failure(s, t->seq, t->name, t->version, ei);
    s->rejoin.seq = t->seq;
    return crn_api_end(ei, ei->code);
}

static cairn_err nothing_held(cairn_session *s, struct crn_errinfo *ei)
{
    cairn_err rc = crn_arg_session(s, ei);

    if (rc != CAIRN_OK)
        return rc;
    crn_deferred_wait(s);
    if (!s->held.has_slot)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_ESTATE, 0,
                    "%s@%" PRId64 " is captured but neither submitted nor abandoned",
                    s->held.info.name, s->held.info.version);
}

static cairn_err checkpoint_submit(cairn_session *s, struct crn_capture *c, struct crn_track *t)
{
    struct crn_errinfo ei = {0};

    int is_deferred = c->flags != 0;

    if (crn_capture_submit(s, c, t, &ei) != CAIRN_OK)
        return checkpoint_fail(s, t, &ei);
    if (!is_deferred)
        s->rejoin.seq = t->seq;
    note_cost(s, t);
    return CAIRN_OK;
}

cairn_err cairn_checkpoint(cairn_session *s, const char *name, int64_t version,
                           const char *const *regions)
{
    struct cairn_checkpoint_options o = {.size = sizeof(o), .regions = regions};

    return cairn_checkpoint_with(s, name, version, &o);
}

cairn_err cairn_checkpoint_with(cairn_session *s, const char *name, int64_t version,
                                const struct cairn_checkpoint_options *options)
{
    static const struct cairn_checkpoint_options defaults = {.size = sizeof(defaults)};
    const struct cairn_checkpoint_options *o = options != NULL ? options : &defaults;
    struct crn_capture c = {0};
    struct crn_errinfo ei = {0};
    struct crn_take what;
    struct crn_track *t;
    cairn_err rc;

    rc = nothing_held(s, &ei);
    if (rc == CAIRN_OK)
        rc = checkpoint_begin(s, name, version, o, &t, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    what = (struct crn_take){name, version, o->regions, o->flags};
    if (crn_capture_take(s, &what, t, &c, &ei) != CAIRN_OK)
        return checkpoint_fail(s, t, &ei);
    return checkpoint_submit(s, &c, t);
}

static int is_held(const cairn_session *s, const char *name, int64_t version)
{
    return s->held.has_slot && name != NULL && s->held.info.version == version &&
           strcmp(s->held.info.name, name) == 0;
}

/* The track for a capture or an abandon: that of the pending capture, which is dropped, or a new
 * one. */
static cairn_err begin_again(cairn_session *s, const char *name, int64_t version,
                             struct crn_track **ret, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_arg_session(s, ei);
    if (rc == CAIRN_OK && is_held(s, name, version)) {
        *ret = crn_track_seq(s, s->held.info.id.seq);
        crn_capture_drop(s, &s->held);
        return CAIRN_OK;
    }
    if (rc == CAIRN_OK)
        rc = nothing_held(s, ei);
    return rc == CAIRN_OK ? checkpoint_begin(s, name, version, NULL, ret, ei) : rc;
}

cairn_err cairn_capture(cairn_session *s, const char *name, int64_t version,
                        const char *const *regions)
{
    struct crn_errinfo ei = {0};
    struct crn_take what;
    struct crn_track *t;
    cairn_err rc;

    rc = begin_again(s, name, version, &t, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    what = (struct crn_take){.name = name, .version = version, .regions = regions};
    if (crn_capture_take(s, &what, t, &s->held, &ei) != CAIRN_OK)
        return checkpoint_fail(s, t, &ei);
    return CAIRN_OK;
}

cairn_err cairn_submit(cairn_session *s)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_session(s, &ei);

    if (rc == CAIRN_OK && !s->held.has_slot)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "there is no capture to submit");
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    return checkpoint_submit(s, &s->held, crn_track_seq(s, s->held.info.id.seq));
}

cairn_err cairn_abandon(cairn_session *s, const char *name, int64_t version, const char *reason)
{
    struct crn_errinfo ei = {0};
    struct crn_errinfo why = {0};
    struct crn_track *t;
    int was_held;
    cairn_err rc;

    rc = crn_arg_session(s, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    was_held = is_held(s, name, version);
    rc = begin_again(s, name, version, &t, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    if (!was_held && crn_service_link_pump(s, 0, &ei) != CAIRN_OK)
        return checkpoint_fail(s, t, &ei);
    crn_files_abandon(s, name, version);
    (void)!crn_fail(&why, CAIRN_EPEER, 0, "the application gave it up: %s",
                    reason != NULL ? reason : "no reason given");
    t->error = why;
    t->is_reported = 1;
    crn_checkpoint_tell_failure(s, t->seq, name, version, &why);
    s->rejoin.seq = t->seq;
    return CAIRN_OK;
}
