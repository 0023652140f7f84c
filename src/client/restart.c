/* SPDX-License-Identifier: BSD-3-Clause */
/* Restart: all ranks agree on a version. cairn_find looks at manifests, indexes and sizes;
 * cairn_restart reads, verifies and places the data in one pass (together.c), and a version that turns
 * out to be damaged is overwritten by the next older one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/reading.h"
#include "client/session.h"
#include "client/together.h"
#include "client/unsaved.h"
#include "restart/scatter.h"
#include "service/drain_store.h"

/* Versions. ------------------------------------------------------------------------------------ */

void crn_restart_add_local_copies(const cairn_session *s, struct crn_version *v, const char *name,
                                  int64_t version)
{
    struct crn_errinfo ei = {0};
    struct crn_names files = {0};
    struct crn_store local;
    char root[CRN_PATH_MAX];
    size_t i;
    int dfd;

    if (s->cfg.local[0] == '\0' ||
        crn_rundir_local_root(crn_fs_posix(), &s->cfg, root, sizeof(root), &ei) != CAIRN_OK ||
        crn_store_open(s->fs, root, 0, &local, &ei) != CAIRN_OK)
        return;
    if (crn_store_version_dir(&local, name, version, &dfd, &ei) == CAIRN_OK) {
        if (crn_fs_names(s->fs, dfd, name, &files, &ei) == CAIRN_OK)
            for (i = 0; i < files.n; i++)
                if (strncmp(files.name[i], "data-", 5) == 0 &&
                    crn_version_add_copy(v, dfd, files.name[i], &ei) != CAIRN_OK)
                    crn_err_clear(&ei); /* of another capture, or incomplete */
        crn_names_free(&files);
        (void)s->fs->close(s->fs, dfd);
    }
    crn_store_close(&local);
}

void crn_session_keep(cairn_session *s, struct crn_version *v)
{
    const struct crn_manifest *m = crn_version_manifest(v);

    s->open_version = v;
    s->is_repair_told = 0;
    crn_restart_add_local_copies(s, v, m->name, m->version);
}

cairn_err crn_session_version(cairn_session *s, const char *name, int64_t version,
                              struct crn_version **ret, struct crn_errinfo *ei)
{
    struct crn_track *mine = crn_track_find(s, name, version);
    struct crn_store st;
    cairn_err rc;

    /* This session took it and its flush is in flight: wait for it. */
    if (mine != NULL && !crn_level_has(mine->levels, CAIRN_PERSISTENT) &&
        mine->error.code == CAIRN_OK &&
        cairn_wait(s, name, version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) != CAIRN_OK)
        crn_log(&s->log, CRN_WARN, "%s, continuing", cairn_last_error());

    if (s->open_version != NULL) {
        const struct crn_manifest *m = crn_version_manifest(s->open_version);

        if (m->version == version && strcmp(m->name, name) == 0) {
            *ret = s->open_version;
            return CAIRN_OK;
        }
        crn_version_close(s->open_version);
        s->open_version = NULL;
    }
    rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_version_open(&st, name, version, ret, ei);
    crn_store_close(&st);
    if (rc == CAIRN_OK)
        crn_session_keep(s, *ret);
    return rc;
}

/* Finding. ------------------------------------------------------------------------------------- */

struct candidates {
    struct crn_candidate *v; /* newest first; owned */
    int64_t n;
    struct crn_blocked blocked;
    /* First rank only. */
    uint64_t bytes;             /* of the newest */
    struct crn_catalog catalog; /* all versions in the store, ntold of them examined */
    size_t ntold;               /* counted from the newest */
};

static void free_candidates(struct candidates *c)
{
    crn_catalog_free(&c->catalog);
    free(c->v);
}

/* First rank: reports each version newer than this one that is incomplete or damaged, once. */
static void tell_passed_over(const cairn_session *s, const char *name, struct candidates *c,
                             int64_t bound, int64_t version)
{
    for (; c->ntold < c->catalog.n; c->ntold++) {
        const struct crn_version_entry *e = &c->catalog.v[c->catalog.n - 1 - c->ntold];

        if (e->version <= version)
            return;
        if (e->version <= bound && e->state != CRN_VERSION_OK && e->state != CRN_VERSION_PARTIAL)
            crn_told_passed_over(s, name, e->version, e->why);
    }
}

/* A shortage of memory or descriptors says nothing about the version, so falling back to an older
 * one would be wrong. */
static cairn_err restart_lacking(const char *name, int64_t version, cairn_err rc,
                                 struct crn_errinfo *ei)
{
    return crn_err_context(ei, rc,
                           "%s@%" PRId64 " may be whole, and no older version is taken instead: "
                           "close files, free memory or raise the limits (ulimit -n), and restart "
                           "again",
                           name, version);
}

static void log_published(void *arg, const struct crn_drain_event *ev)
{
    const cairn_session *s = arg;

    crn_log(&s->log, ev->what == CRN_DRAIN_COMMITTED ? CRN_INFO : CRN_WARN,
            "%s@%" PRId64 " of an earlier run, complete in the store without a manifest: %s%s%s",
            ev->name, ev->version, crn_drain_what_name(ev->what), ev->text[0] != '\0' ? ": " : "",
            ev->text);
}

/* Publishes versions that an earlier run wrote completely. If another host publishes them first,
 * that is as good. */
static void publish_left(cairn_session *s, const struct crn_store *st, const char *name)
{
    struct crn_errinfo why = {0};
    cairn_err rc = crn_drain_store_name(st, name, -1, log_published, s, &why);

    if (rc != CAIRN_OK && rc != CAIRN_ENOENT)
        crn_log(&s->log, CRN_WARN, "cannot publish '%s' of an earlier run, continuing: %s", name,
                why.msg);
}

/* A version with a damaged or missing data file may be complete in the copies on the nodes'
 * disks. */
static int may_be_whole(const cairn_session *s, const struct crn_version_entry *e)
{
    return e->state == CRN_VERSION_OK ||
           (e->state == CRN_VERSION_DAMAGED && e->code == CAIRN_EDAMAGED && e->files > 0 &&
            s->cfg.local[0] != '\0');
}

static cairn_err list_on_root(cairn_session *s, const char *name, int64_t bound,
                              struct candidates *ret, struct crn_errinfo *ei)
{
    struct crn_catalog *catalog = &ret->catalog;
    struct crn_store st;
    cairn_err rc;
    size_t i;

    rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, ei);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK; /* no directory: no versions */
    if (rc != CAIRN_OK)
        return rc;
    publish_left(s, &st, name);
    rc = crn_store_catalog(&st, name, catalog, ei);
    crn_store_close(&st);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK)
        return rc;
    ret->v = calloc(catalog->n + 1, sizeof(*ret->v));
    if (ret->v == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu versions", catalog->n);
    for (i = catalog->n; rc == CAIRN_OK && i > 0; i--) {
        const struct crn_version_entry *e = &catalog->v[i - 1];

        if (e->version > bound)
            continue;
        if (may_be_whole(s, e) && ret->n == 0)
            ret->bytes = e->data_bytes;
        if (may_be_whole(s, e))
            ret->v[ret->n++] = (struct crn_candidate){e->version, e->id, e->created_ns};
        else if (crn_err_is_shortage(e->code))
            rc = restart_lacking(name, e->version, crn_fail(ei, e->code, 0, "%s", e->why), ei);
    }
    return rc;
}

/* Flushes in flight add to the candidates: wait for them. */
static void restart_settle(cairn_session *s)
{
    if (cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) != CAIRN_OK)
        crn_log(&s->log, crn_told_level(s), "waiting for flushes before a restart, continuing: %s",
                cairn_last_error());
}

/* Lists the versions from first to last that may be restored, and finds newer ones that are not
 * saved. */
static cairn_err list_candidates(cairn_session *s, const char *name, int64_t first, int64_t last,
                                 struct candidates *ret, struct crn_errinfo *ei)
{
    int is_root = s->rank == 0;
    struct crn_blocked blocked = {.at = INT64_MAX};
    struct crn_unsaveds unsaved = {0};
    struct crn_buf buf = {0};
    cairn_err rc, looked;

    memset(ret, 0, sizeof(*ret));
    restart_settle(s);
    looked = crn_unsaved_look(s, name, first, last, &unsaved, ei);
    rc = s->all->ops->barrier(s->all, ei); /* no rank has a flush in flight any more */
    if (rc != CAIRN_OK)
        goto out;
    crn_together_watch(s, 1);
    if (is_root) {
        rc = list_on_root(s, name, last, ret, ei);
        crn_buf_put(&buf, ret->v, (size_t)ret->n * sizeof(*ret->v));
    }
    rc = crn_together_tell_all(s->all, 0, rc, &buf, ei);
    if (rc == CAIRN_OK && !is_root) {
        ret->n = (int64_t)(buf.len / sizeof(*ret->v));
        ret->v = (struct crn_candidate *)(void *)buf.data; /* taken over */
        buf = (struct crn_buf){0};
    }
    crn_buf_free(&buf);
    rc = crn_session_agree(s, rc != CAIRN_OK ? rc : looked, "listing the versions", ei);
    if (rc == CAIRN_OK)
        rc = crn_unsaved_agree(s, name, &unsaved, ret->v, ret->n, &blocked, ei);
    ret->blocked = blocked;
    crn_together_watch(s, 0);
out:
    crn_unsaveds_free(&unsaved);
    return rc;
}

/* Collective: can every rank restore it, or has it? */
static cairn_err check_version(cairn_session *s, const char *name, int64_t version,
                               enum crn_together_how how, const char *const *regions,
                               struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    rc = crn_together_read(s, name, version, how, regions, &why);
    if (rc != CAIRN_OK) {
        crn_log(&s->log, CRN_DEBUG, "%s@%" PRId64 " cannot be restored: %s", name, version,
                why.msg);
        crn_err_keep(ei, &why);
    }
    return rc;
}

/* Collective, after a version could not be restored: does that end the search? All ranks get the
 * same answer. */
static cairn_err ends_search(cairn_session *s, const char *name, int64_t version,
                             const struct crn_errinfo *why, struct crn_errinfo *ei)
{
    int is_cut_off = why->code == CAIRN_EMPI || why->code == CAIRN_EPEER;
    int is_final = why->code == CAIRN_EMISMATCH || /* older versions would mismatch too */
                   is_cut_off || crn_err_is_shortage(why->code);
    int64_t code = is_final ? why->code : CAIRN_OK;
    cairn_err rc;

    if (!is_cut_off) {
        rc = s->all->ops->allreduce(s->all, &code, 1, CRN_COMM_MIN, ei);
        if (rc != CAIRN_OK)
            return rc;
    }
    rc = (cairn_err)code;
    if (rc == CAIRN_OK)
        return CAIRN_OK;
    if (rc == why->code)
        crn_err_keep(ei, why);
    else
        rc = crn_fail(ei, rc, 0, "another rank could not read it; on this one: %.200s", why->msg);
    return crn_err_is_shortage(rc) ? restart_lacking(name, version, rc, ei) : rc;
}

/* Collective: an invalid argument on one rank is an error on all, so that no rank waits for that
 * one. */
static cairn_err check_arguments(cairn_session *s, const char *name, int64_t version,
                                 const int64_t *ret_version, struct crn_errinfo *ei)
{
    cairn_err rc = crn_arg_session(s, ei);

    if (rc != CAIRN_OK)
        return rc;
    crn_deferred_wait(s);
    rc = crn_arg_checkpoint(s, name, version, ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_version", ret_version, ei);
    return crn_session_agree(s, rc, "checking the arguments", ei);
}

/* Collective: no version can be restored. Where there are some, that is damage, never CAIRN_ENOENT: a
 * program takes that for "start from the beginning". Rejected versions do not count: the application has
 * decided against them. */
static cairn_err none_found(cairn_session *s, const char *name, const struct candidates *c,
                            int64_t bound, enum crn_together_how how, struct crn_errinfo *ei)
{
    int64_t lost = c->n;
    cairn_err rc;
    size_t i;

    for (i = 0; i < c->catalog.n; i++) /* empty but on the first rank */
        lost += c->catalog.v[i].version <= bound && c->catalog.v[i].state == CRN_VERSION_DAMAGED;
    rc = s->all->ops->allreduce(s->all, &lost, 1, CRN_COMM_MAX, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (lost == 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "'%s' holds no version of '%s'", s->cfg.persistent,
                        name);
    return crn_fail(
        ei, CAIRN_EDAMAGED, 0,
        "'%s' holds versions of '%s', and none can be restored: see 'cairn explain %s'; to "
        "start from the beginning, remove them (cairn rm)%s",
        s->cfg.persistent, name, name,
        how == CRN_TOGETHER_RESTORE ? "; the memory's content is undefined now" : "");
}

static cairn_err find_newest(cairn_session *s, const char *name, int64_t bound,
                             enum crn_together_how how, const char *const *regions,
                             int64_t *ret_version, struct crn_errinfo *ei)
{
    struct crn_kept_turn *turn = NULL;
    struct candidates c = {0};
    cairn_err rc;
    int64_t i;

    rc = check_arguments(s, name, 0, ret_version, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = list_candidates(s, name, 0, bound, &c, ei);
    if (rc == CAIRN_OK && c.n > 0 && how != CRN_TOGETHER_LOOK)
        rc = crn_reading_begin(s, c.bytes, &turn, ei);
    for (i = 0; rc == CAIRN_OK && i < c.n; i++) {
        struct crn_errinfo why = {0};

        tell_passed_over(s, name, &c, bound, c.v[i].version);
        rc = crn_unsaved_check(s, &c.blocked, i, ei);
        if (rc != CAIRN_OK)
            break;
        if (check_version(s, name, c.v[i].version, how, regions, &why) == CAIRN_OK) {
            *ret_version = c.v[i].version;
            break;
        }
        rc = ends_search(s, name, c.v[i].version, &why, ei);
        if (rc == CAIRN_OK)
            crn_told_passed_over(s, name, c.v[i].version, why.msg);
        else
            crn_told_refused(s, name, c.v[i].version, why.msg);
    }
    if (rc == CAIRN_OK && i == c.n)
        rc = crn_unsaved_check(s, &c.blocked, i, ei);
    if (rc == CAIRN_OK && i == c.n) {
        tell_passed_over(s, name, &c, bound, -1);
        rc = none_found(s, name, &c, bound, how, ei);
    }
    crn_reading_end(s, turn);
    free_candidates(&c);
    return rc;
}

cairn_err cairn_find(cairn_session *s, const char *name, int64_t not_newer_than,
                     int64_t *ret_version)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(
        &ei, find_newest(s, name, not_newer_than, CRN_TOGETHER_LOOK, NULL, ret_version, &ei));
}

/* Collective: does every rank have it in memory? */
static int all_hold(cairn_session *s, const char *name, int64_t version)
{
    int64_t holds = crn_restore_own_shard(s, name, version) != NULL;
    struct crn_errinfo ignored = {0};

    return s->all->ops->allreduce(s->all, &holds, 1, CRN_COMM_MIN, &ignored) == CAIRN_OK && holds;
}

/* Collective: opens one version, and reads it if asked to. */
static cairn_err find_one(cairn_session *s, const char *name, int64_t version,
                          enum crn_together_how how, struct crn_errinfo *ei)
{
    struct crn_kept_turn *turn = NULL;
    struct candidates c = {0};
    cairn_err rc;

    rc = check_arguments(s, name, version, &version, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (how == CRN_TOGETHER_LOOK && all_hold(s, name, version))
        return CAIRN_OK;
    rc = list_candidates(s, name, version, version, &c, ei);
    if (rc == CAIRN_OK)
        rc = crn_unsaved_check(s, &c.blocked, 0, ei);
    if (rc == CAIRN_OK && (c.n == 0 || c.v[0].version != version))
        rc = crn_fail(ei, CAIRN_ENOENT, 0,
                      "%s@%" PRId64 " is missing, incomplete or rejected; see 'cairn explain %s'",
                      name, version, name);
    if (rc == CAIRN_OK && how != CRN_TOGETHER_LOOK)
        rc = crn_reading_begin(s, c.bytes, &turn, ei);
    if (rc == CAIRN_OK)
        rc = check_version(s, name, version, how, NULL, ei);
    crn_reading_end(s, turn);
    free_candidates(&c);
    return rc;
}

cairn_err cairn_find_version(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, find_one(s, name, version, CRN_TOGETHER_LOOK, &ei));
}

cairn_err cairn_verify(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, find_one(s, name, version, CRN_TOGETHER_VERIFY, &ei));
}

/* A copy of it in memory must not be restored either. */
static void forget_own(cairn_session *s, const char *name, int64_t version)
{
    struct crn_track *mine = crn_track_find(s, name, version);

    if (mine == NULL)
        return;
    mine->is_rejected = 1;
    crn_tiers_failed(s, mine->seq, CAIRN_EDAMAGED);
}

cairn_err cairn_reject(cairn_session *s, const char *name, int64_t version, const char *reason)
{
    struct crn_errinfo ei = {0};
    struct crn_store st;
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, version, &ei);
    if (rc == CAIRN_OK)
        rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, &ei);
    if (rc == CAIRN_OK) {
        rc = crn_store_reject(&st, name, version, reason != NULL ? reason : "", &ei);
        crn_store_close(&st);
    }
    if (rc == CAIRN_OK)
        forget_own(s, name, version);
    return crn_api_end(&ei, rc);
}

/* Both in one. --------------------------------------------------------------------------------- */

cairn_err cairn_restart(cairn_session *s, const char *name, const char *const *regions,
                        int64_t *ret_version)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(
        &ei, find_newest(s, name, CAIRN_NEWEST, CRN_TOGETHER_RESTORE, regions, ret_version, &ei));
}
