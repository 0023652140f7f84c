/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress of a checkpoint. The service reports it; these calls read the reports and wait for
 * them. */
#include <inttypes.h>
#include <string.h>

#include "client/session.h"

#define STEP_NS 200000000LL

static cairn_err wait_find(cairn_session *s, const char *name, int64_t version,
                           struct crn_track **ret, struct crn_errinfo *ei)
{
    cairn_err rc = crn_arg_checkpoint(s, name, version, ei);
    struct crn_track *t;

    if (rc != CAIRN_OK)
        return rc;
    t = crn_track_find(s, name, version);
    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOENT, 0, "this session took no checkpoint %s@%" PRId64, name,
                        version);
    *ret = t;
    return CAIRN_OK;
}

static cairn_err check_level(cairn_level level, struct crn_errinfo *ei)
{
    return crn_arg_level("level", level, ei);
}

static cairn_err check_timeout(int64_t timeout_ms, struct crn_errinfo *ei)
{
    return crn_arg_range("timeout_ms", timeout_ms, CAIRN_WAIT_CONFIG, INT64_MAX, ei);
}

static cairn_err wait_failure(struct crn_track *t, struct crn_errinfo *ei)
{
    if (t->error.code == CAIRN_OK)
        return CAIRN_OK;
    t->is_reported = 1;
    *ei = t->error;
    return crn_err_context(ei, ei->code, "%s@%" PRId64, t->name, t->version);
}

/* A level that this session lacks is reached with the next one: without a node-local directory
 * "local" is reached with "persistent". */
static int wait_reached(const struct crn_track *t, cairn_level level)
{
    return crn_level_has(t->levels, level);
}

/* Every level beyond the capture takes work that a waiting caller speeds up. */
static int needs_flush(cairn_level level)
{
    return level != CAIRN_LEVEL_NONE && level != CAIRN_CAPTURED;
}

/* What the service must be told: local copies are made of every version, if there is a local directory.
 * It knows which versions get parity. */
static cairn_level level_to_insist(const cairn_session *s, cairn_level level)
{
    if (!needs_flush(level) || (level == CAIRN_LOCAL && s->cfg.local[0] != '\0'))
        return CAIRN_LEVEL_NONE;
    return level == CAIRN_PROTECTED && s->nmembers > 0 ? level : CAIRN_PERSISTENT;
}

static int64_t wait_deadline(const cairn_session *s, int64_t timeout_ms)
{
    int64_t now = s->clock->mono_ns(s->clock);
    int64_t ns = timeout_ms < 0                     ? (int64_t)s->cfg.wait_timeout_ns
                 : timeout_ms < INT64_MAX / 1000000 ? timeout_ms * 1000000
                                                    : INT64_MAX;

    return ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

void crn_wait_want(cairn_session *s, uint64_t seq)
{
    struct crn_msg note = {.type = CRN_MSG_WANTED, .seq = seq};
    struct crn_errinfo ignored = {0};

    if (seq <= s->wanted)
        return;
    s->wanted = seq;
    if (crn_service_link_send(s, &note, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg); /* a caller that waits will notice */
}

/* Might it stay on the nodes for good? Otherwise only a broker's turn may pass it over. */
static int may_be_held(const cairn_session *s, const struct crn_track *t)
{
    return t->target.level == CAIRN_LEVEL_NONE ? !crn_config_flushes_all(&s->cfg, t->name)
                                               : t->target.level != CAIRN_PERSISTENT;
}

/* A version that is not due would never be flushed, and with a broker a newer capture would
 * supersede it before its turn comes. */
static void wait_insist(cairn_session *s, struct crn_track *t, cairn_level level)
{
    struct crn_msg m = {.type = CRN_MSG_WAITED,
                        .seq = t->seq,
                        .waited = {.ckpt = {.version = t->version, .created_ns = t->captured_ns},
                                   .level = (uint32_t)level}};
    struct crn_errinfo ignored = {0};

    memcpy(m.run, s->run, 16);
    memcpy(m.ckpt.name, t->name, sizeof(m.ckpt.name));
    if (t->insisted >= level || crn_level_has(t->levels, level) ||
        (s->cfg.broker[0] == '\0' && !may_be_held(s, t)))
        return;
    t->insisted = level;
    if (crn_service_link_send(s, &m, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg);
}

/* The newest checkpoint of the name that has not failed. */
static struct crn_track *newest_of(cairn_session *s, const char *name)
{
    uint32_t n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    uint32_t i;

    for (i = 1; i <= n; i++) {
        struct crn_track *t = &s->track[(s->ntracked - i) % CRN_TRACKED];

        if (t->error.code == CAIRN_OK && strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

/* The checkpoint to flush so that this one comes to an end: if it may be held, the newest of its
 * name, which supersedes it. */
static struct crn_track *newest_for(cairn_session *s, struct crn_track *t)
{
    struct crn_track *newest = may_be_held(s, t) ? newest_of(s, t->name) : NULL;

    return newest != NULL && !crn_level_has(newest->levels, CAIRN_PERSISTENT) ? newest : t;
}

int crn_wait_may_hold(const cairn_session *s)
{
    uint32_t n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    uint32_t i;

    for (i = 0; i < n; i++)
        if (s->track[i].error.code == CAIRN_OK && may_be_held(s, &s->track[i]) &&
            !crn_level_has(s->track[i].levels, CAIRN_PERSISTENT))
            return 1;
    return 0;
}

void crn_wait_insist_newest(cairn_session *s)
{
    uint32_t n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    uint32_t i;

    for (i = 0; i < n; i++)
        wait_insist(s, newest_for(s, &s->track[i]), CAIRN_PERSISTENT);
}

/* What a call waits for. */
struct wait_for {
    cairn_level level;
    int64_t until;
    int is_all; /* of the checkpoints of a name only the newest must reach the file system */
};

/* A lost service is an error only for a level that it had not reported before. A poll (no time
 * left) leaves the flush throttled; only a lazy session asks for the flush even then, because
 * otherwise it never starts. */
static cairn_err wait_until(cairn_session *s, struct crn_track *t, const struct wait_for *w,
                            struct crn_errinfo *ei)
{
    cairn_level insist = level_to_insist(s, w->level);
    uint64_t seq = t->seq;
    int64_t step = 0; /* first take what has already arrived */
    cairn_err lost = CAIRN_OK;

    for (;; step = STEP_NS) {
        struct crn_errinfo why = {0};
        int64_t left = w->until - s->clock->mono_ns(s->clock);

        lost = crn_service_link_pump(s, left < 0 ? 0 : left < step ? left : step, &why);
        if (t->seq != seq || wait_reached(t, w->level))
            return CAIRN_OK;
        if (t->error.code != CAIRN_OK)
            return wait_failure(t, ei);
        if (lost != CAIRN_OK) { /* not final: a restarted service may still save it */
            *ei = why;
            return crn_err_context(ei, lost, "%s@%" PRId64, t->name, t->version);
        }
        if (needs_flush(w->level) && (left > 0 || crn_config_is_lazy(&s->cfg)))
            crn_wait_want(s, seq);
        if (insist != CAIRN_LEVEL_NONE && left > 0)
            wait_insist(s, w->is_all ? newest_for(s, t) : t, insist);
        if (left <= 0)
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                            "%s@%" PRId64 " is not %s yet (level reached: %s): %s", t->name,
                            t->version, crn_level_name(w->level),
                            crn_level_name(crn_level_highest(t->levels)),
                            t->remark[0] != '\0'
                                ? t->remark
                                : "'cairn top' shows the progress; wait longer (wait_timeout)");
    }
}

/* A flush that a caller waits for must not wait for the application's phase. A poll waits for
 * nothing. */
static cairn_err wait_one(cairn_session *s, struct crn_track *t, const struct wait_for *w,
                          struct crn_errinfo *ei)
{
    int64_t begin = s->clock->mono_ns(s->clock);
    cairn_err rc;

    if (w->until > begin)
        crn_phase_show(s, CAIRN_PHASE_COMPUTE);
    rc = wait_until(s, t, w, ei);
    s->waited_ns += s->clock->mono_ns(s->clock) - begin;
    crn_phase_show(s, s->phase);
    return rc;
}

cairn_err cairn_test(cairn_session *s, const char *name, int64_t version, cairn_level level,
                     int *ret_reached)
{
    struct crn_errinfo ei = {0};
    struct crn_track *t = NULL;
    cairn_err rc;

    rc = check_level(level, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_reached", ret_reached, &ei);
    if (rc == CAIRN_OK)
        rc = wait_find(s, name, version, &t, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    rc = wait_one(s, t, &(struct wait_for){.level = level}, &ei);
    if (rc == CAIRN_OK || rc == CAIRN_ETIMEDOUT) {
        *ret_reached = rc == CAIRN_OK;
        return CAIRN_OK;
    }
    return crn_api_end(&ei, rc);
}

cairn_err cairn_wait(cairn_session *s, const char *name, int64_t version, cairn_level level,
                     int64_t timeout_ms)
{
    struct wait_for w = {.level = level};
    struct crn_errinfo ei = {0};
    struct crn_track *t = NULL;
    cairn_err rc;

    rc = check_level(level, &ei);
    if (rc == CAIRN_OK)
        rc = check_timeout(timeout_ms, &ei);
    if (rc == CAIRN_OK)
        rc = wait_find(s, name, version, &t, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    w.until = wait_deadline(s, timeout_ms);
    return crn_api_end(&ei, wait_one(s, t, &w, &ei));
}

cairn_err cairn_wait_all(cairn_session *s, cairn_level level, int64_t timeout_ms)
{
    struct wait_for w = {.level = level, .is_all = 1};
    struct crn_errinfo first = {0};
    cairn_err rc;
    uint32_t n;
    uint32_t i;

    rc = crn_arg_session(s, &first);
    if (rc == CAIRN_OK)
        rc = check_level(level, &first);
    if (rc == CAIRN_OK)
        rc = check_timeout(timeout_ms, &first);
    if (rc != CAIRN_OK)
        return crn_api_end(&first, rc);
    w.until = wait_deadline(s, timeout_ms);
    n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    for (i = 0; i < n; i++) {
        struct crn_track *t = &s->track[(s->ntracked - n + i) % CRN_TRACKED];
        struct crn_errinfo ei = {0};

        if (t->error.code != CAIRN_OK && t->is_reported)
            continue;
        if (wait_one(s, t, &w, &ei) != CAIRN_OK && ei.code != CAIRN_ECANCELED)
            crn_err_keep(&first, &ei);
    }
    return crn_api_end(&first, first.code);
}

int cairn_event_fd(cairn_session *s)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, crn_arg_session(s, &ei)) == CAIRN_OK ? s->link.fd : -1;
}

cairn_err cairn_stats(cairn_session *s, const char *name, int64_t version,
                      struct cairn_stats *ret_stats)
{
    struct crn_errinfo ei = {0};
    struct crn_track *t = NULL;
    cairn_err rc;

    rc = crn_arg_struct("ret_stats", ret_stats, "cairn_stats", sizeof(*ret_stats), &ei);
    if (rc == CAIRN_OK)
        rc = wait_find(s, name, version, &t, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    crn_service_link_listen(s);
    ret_stats->level = crn_level_highest(t->levels);
    ret_stats->levels = t->levels;
    ret_stats->error = t->error.code;
    ret_stats->bytes = t->bytes;
    ret_stats->copy_seconds = t->copy_seconds;
    ret_stats->blocked_seconds = t->blocked_seconds;
    ret_stats->persistent_seconds =
        t->committed_ns > t->captured_ns ? (double)(t->committed_ns - t->captured_ns) * 1e-9 : 0;
    return CAIRN_OK;
}
