/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart never silently takes a version older than one that was acknowledged. The first rank of
 * each node looks into the memory of its host, rank 0 also into the store. From all findings the
 * ranks decide together which candidates are blocked. */
#include "client/unsaved.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "restart/scatter.h"

static cairn_err unsaved_look(cairn_session *s, const char *name, int64_t first, int64_t last,
                              struct crn_unsaveds *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_unsaveds out = {0};
    struct crn_store st;
    struct crn_unsaved_query q = {.fs = crn_fs_posix(),
                                  .cfg = &s->cfg,
                                  .name = name,
                                  .first = first,
                                  .last = last,
                                  .own_run = s->run};
    cairn_err rc;

    rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, &why);
    if (rc != CAIRN_OK && rc != CAIRN_ENOENT) {
        crn_err_keep(ei, &why);
        return rc;
    }
    if (rc == CAIRN_OK)
        q.st = &st;
    rc = crn_unsaved_host(&q, &out, ei);
    if (rc == CAIRN_OK && s->rank == 0 && q.st != NULL)
        rc = crn_unsaved_store(&q, &out, ei);
    if (q.st != NULL)
        crn_store_close(&st);
    if (rc != CAIRN_OK) {
        crn_unsaveds_free(&out);
        return rc;
    }
    *ret = out;
    return CAIRN_OK;
}

static const struct crn_unsaved *find_alive(const struct crn_unsaveds *now,
                                            const struct crn_unsaveds *before)
{
    size_t i, k;

    for (i = 0; i < now->n; i++)
        for (k = 0; now->v[i].is_alive && k < before->n; k++)
            if (crn_capture_id_equal(&now->v[i].id, &before->v[k].id))
                return &now->v[i];
    return NULL;
}

/* A living process may take new checkpoints forever: wait only for those of the first look. */
cairn_err crn_unsaved_look(cairn_session *s, const char *name, int64_t first, int64_t last,
                           struct crn_unsaveds *ret, struct crn_errinfo *ei)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000000};
    int64_t until = s->clock->mono_ns(s->clock) + (int64_t)s->cfg.wait_timeout_ns;
    struct crn_unsaveds before = {0};
    struct crn_unsaveds now = {0};
    const struct crn_unsaved *alive;
    int has_said = 0;
    cairn_err rc;

    memset(ret, 0, sizeof(*ret));
    if (s->local != 0)
        return CAIRN_OK;
    rc = unsaved_look(s, name, first, last, &before, ei);
    if (rc == CAIRN_OK)
        rc = unsaved_look(s, name, first, last, &now, ei);
    while (rc == CAIRN_OK && (alive = find_alive(&now, &before)) != NULL &&
           s->clock->mono_ns(s->clock) < until) {
        if (!has_said)
            crn_log(&s->log, CRN_INFO, "a restart waits for %s@%" PRId64 ": %s", name,
                    alive->version, alive->where);
        has_said = 1;
        (void)nanosleep(&pause, NULL);
        crn_unsaveds_free(&now);
        rc = unsaved_look(s, name, first, last, &now, ei);
    }
    crn_unsaveds_free(&before);
    if (rc != CAIRN_OK) {
        crn_unsaveds_free(&now);
        return rc;
    }
    *ret = now;
    return CAIRN_OK;
}

static int unsaved_blocks(const struct crn_unsaved *u, const struct crn_candidate *c)
{
    return u->is_unknown ||
           (u->version >= c->version &&
            crn_store_capture_is_later(&u->id, u->created_ns, &c->id, c->created_ns));
}

/* The first candidate that an unsaved version of mine blocks. n (= 0) if there are unsaved versions
 * but no candidates; INT64_MAX if nothing is blocked. */
static int64_t first_blocked(const struct crn_unsaveds *mine, const struct crn_candidate *c,
                             int64_t n, const struct crn_unsaved **ret)
{
    int64_t i;
    size_t k;

    for (i = 0; i < n; i++)
        for (k = 0; k < mine->n; k++)
            if (unsaved_blocks(&mine->v[k], &c[i])) {
                *ret = &mine->v[k];
                return i;
            }
    *ret = mine->n > 0 && n == 0 ? &mine->v[0] : NULL;
    return *ret != NULL ? n : INT64_MAX;
}

static void unsaved_compose(const char *name, const struct crn_unsaved *u, char *text, size_t size)
{
    char what[CAIRN_MAX_NAME + 32];

    (void)snprintf(what, sizeof(what), "%s@%" PRId64, name, u->version);
    (void)snprintf(text, size,
                   "%s%s%s: %.200s. Run 'cairn drain' where it is, or set restart_unsaved = older "
                   "to continue without it",
                   u->is_unknown ? "newer checkpoints may not be saved" : what,
                   u->is_unknown ? "" : " is newer and not saved", u->is_alive ? " yet" : "",
                   u->where);
}

cairn_err crn_unsaved_agree(cairn_session *s, const char *name, const struct crn_unsaveds *mine,
                            const struct crn_candidate *candidates, int64_t n,
                            struct crn_blocked *ret, struct crn_errinfo *ei)
{
    const struct crn_unsaved *u = NULL;
    struct crn_buf buf = {0};
    int64_t at = first_blocked(mine, candidates, n, &u);
    int64_t who;
    cairn_err rc;

    *ret = (struct crn_blocked){.at = at};
    rc = s->all->ops->allreduce(s->all, &ret->at, 1, CRN_COMM_MIN, ei);
    if (rc != CAIRN_OK || ret->at == INT64_MAX)
        return rc;
    who = at == ret->at ? (int64_t)s->rank : INT64_MAX;
    rc = s->all->ops->allreduce(s->all, &who, 1, CRN_COMM_MIN, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (who == (int64_t)s->rank && u != NULL) {
        unsaved_compose(name, u, ret->text, sizeof(ret->text));
        crn_buf_put(&buf, ret->text, strlen(ret->text) + 1);
    }
    rc = crn_together_tell_all(s->all, (int)who, CAIRN_OK, &buf, ei);
    if (rc == CAIRN_OK && who != (int64_t)s->rank && buf.len > 0)
        (void)snprintf(ret->text, sizeof(ret->text), "%.*s", (int)buf.len - 1,
                       (const char *)buf.data);
    crn_buf_free(&buf);
    return rc;
}

cairn_err crn_unsaved_check(const cairn_session *s, const struct crn_blocked *b, int64_t at,
                            struct crn_errinfo *ei)
{
    if (at != b->at)
        return CAIRN_OK;
    if (s->cfg.restart_unsaved == CRN_UNSAVED_FAIL)
        return crn_fail(ei, CAIRN_EUNSAVED, 0, "%s", b->text);
    if (s->rank == 0)
        crn_log(&s->log, CRN_WARN, "an older version is restarted from, continuing: %s", b->text);
    return CAIRN_OK;
}
