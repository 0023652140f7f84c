/* SPDX-License-Identifier: BSD-3-Clause */
/* Restores a checkpoint's bytes into the application's memory. A version that this session took and
 * that is still in memory comes from there, committed or not; any other from its files. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/restoring.h"
#include "client/together.h"

/* Decides where each region comes from, and refuses before anything is written. */
cairn_err crn_restoring_match(const cairn_session *s, struct crn_restoring *t, int is_named,
                              struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(t->v);
    uint32_t i;

    for (i = 0; i < t->want.nregions; i++) {
        const struct crn_region *w = &t->want.regions[i];
        int64_t k = t->have != NULL ? crn_shard_find(t->have, CRN_REGION_MEMORY, w->name) : -1;
        const struct crn_region *h = k >= 0 ? &t->have->regions[k] : NULL;

        t->from[i] = k;
        if (w->is_global && !is_named &&
            (h == NULL || !crn_cached_same_block(w, h) || h->type != w->type)) {
            t->from[i] = -1; /* crn_version_read_block checks it and reports a mismatch */
            continue;
        }
        if (!is_named && m->ranks != s->ranks && !w->is_global)
            return crn_fail(ei, CAIRN_EMISMATCH, 0,
                            "region '%s' of %s@%" PRId64
                            " cannot be split from %u to %u ranks: declare it as a block of a "
                            "global array, or read an old rank's shard with cairn_restore_from",
                            w->name, m->name, m->version, m->ranks, s->ranks);
        if (h == NULL)
            return crn_fail(ei, CAIRN_EMISMATCH, 0, "rank %u of %s@%" PRId64 " has no region '%s'",
                            t->old_rank, m->name, m->version, w->name);
        if (h->type != w->type || h->bytes != w->bytes)
            return crn_fail(ei, CAIRN_EMISMATCH, 0,
                            "region '%s' of rank %u in %s@%" PRId64 " is of type %u with %" PRIu64
                            " bytes, the memory of type %u with %" PRIu64,
                            w->name, t->old_rank, m->name, m->version, h->type, h->bytes, w->type,
                            w->bytes);
    }
    return CAIRN_OK;
}

/* Fills one region: from the arena (source), from this shard of the version, or assembled from all
 * shards. */
static cairn_err fill_host(cairn_session *s, const struct crn_restoring *t, uint32_t i,
                           const unsigned char *source, struct crn_errinfo *ei)
{
    const struct crn_region *w = &t->want.regions[i];
    struct crn_copy one = {.dst = t->places[i].ptr, .src = source, .bytes = w->bytes};

    if (source != NULL) {
        crn_copier_run(s->copier, &one, 1);
        return CAIRN_OK;
    }
    if (t->from[i] < 0)
        return crn_version_read_block(t->v, w, t->places[i].ptr, ei);
    return crn_version_read(t->v, t->old_rank, (uint32_t)t->from[i], 0, w->bytes, t->places[i].ptr,
                            ei);
}

static cairn_err fill_device(cairn_session *s, const struct crn_restoring *t, uint32_t i,
                             const unsigned char *source, struct crn_errinfo *ei)
{
    const struct crn_region *w = &t->want.regions[i];

    if (source != NULL)
        return crn_gpu_restore(s, &t->places[i], source, w->bytes, ei);
    if (t->from[i] < 0)
        return crn_gpu_read_block(s, &t->places[i], t->v, w, ei);
    return crn_gpu_read(s, &t->places[i], t->v, t->old_rank, (uint32_t)t->from[i], w->bytes, ei);
}

/* Reads the regions that are not cached. */
static cairn_err restore_fill(cairn_session *s, const struct crn_restoring *t,
                              const struct crn_cached *cached, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err rc = CAIRN_OK;
    cairn_err waited;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < t->want.nregions; i++) {
        const unsigned char *source = crn_cached_region(cached, &t->want.regions[i]);

        rc = t->places[i].device != NULL ? fill_device(s, t, i, source, ei)
                                         : fill_host(s, t, i, source, ei);
    }
    waited = crn_gpu_wait(s, &late);
    crn_err_keep(ei, &late);
    return rc != CAIRN_OK ? rc : waited;
}

/* From memory. --------------------------------------------------------------------------------- */

int crn_restoring_fits(struct crn_restoring *t, const struct crn_shard *have)
{
    uint32_t i;

    for (i = 0; i < t->want.nregions; i++) {
        t->from[i] = crn_cached_find_same(have, &t->want.regions[i]);
        if (t->from[i] < 0)
            return 0;
    }
    return 1;
}

/* The capture of a checkpoint that this session took and that has not failed, in the arena. */
static void find_own(cairn_session *s, const struct crn_restoring *t, struct crn_cached *ret)
{
    struct crn_capture_id id = {0};
    const struct crn_track *mine;

    memset(ret, 0, sizeof(*ret));
    crn_service_link_listen(s); /* it may have failed meanwhile */
    mine = crn_track_find(s, t->name, t->version);
    if (mine == NULL || mine->error.code != CAIRN_OK || mine->is_rejected)
        return;
    memcpy(id.run, s->run, sizeof(id.run));
    id.seq = mine->seq;
    crn_cached_open(s, &id, ret);
}

/* Does the application get all of it? */
static int is_all(const struct crn_shard *have, const struct crn_restoring *t)
{
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; i < have->nregions; i++)
        n += have->regions[i].kind == CRN_REGION_MEMORY;
    return t->want.nregions == n && n == have->nregions;
}

static cairn_err read_tiers(cairn_session *s, const struct crn_tiered *h,
                            const struct crn_restoring *t, struct crn_errinfo *ei)
{
    struct crn_tier_piece *p = calloc(t->want.nregions + (size_t)1, sizeof(*p));
    uint32_t i;
    cairn_err rc;

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", t->want.nregions);
    for (i = 0; i < t->want.nregions; i++)
        p[i] = (struct crn_tier_piece){t->places[i].ptr, crn_held_image(h)->at[t->from[i]],
                                       t->want.regions[i].bytes, t->places[i].device};
    rc = crn_tiers_read(s, h, p, t->want.nregions, is_all(crn_held_shard(h), t), ei);
    free(p);
    return rc;
}

/* Like from_memory, for a session with tiers. What the tiers lost or evicted may still be in the
 * files. */
static cairn_err from_tiers(cairn_session *s, struct crn_restoring *t, int *ret_done,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    const struct crn_tiered *h;
    cairn_err rc;

    crn_service_link_listen(s);
    h = crn_tiers_find(s, t->name, t->version);
    if (h == NULL || !crn_restoring_fits(t, crn_held_shard(h)))
        return CAIRN_OK;
    t->is_asked = 1;
    rc = read_tiers(s, h, t, &why);
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED || rc == CAIRN_ETIMEDOUT) {
        crn_log(&s->log, CRN_DEBUG, "%s@%" PRId64 " is read from files: %s", t->name, t->version,
                why.msg);
        return CAIRN_OK;
    }
    *ret_done = 1;
    crn_err_keep(ei, &why);
    return rc;
}

const struct crn_shard *crn_restore_own_shard(cairn_session *s, const char *name, int64_t version)
{
    struct crn_restoring t = {.name = name, .version = version};
    const struct crn_tiered *h;
    struct crn_cached own;

    crn_shard_free(&s->own_shard);
    memset(&s->own_shard, 0, sizeof(s->own_shard));
    if (crn_tiers_are_open(s)) {
        h = crn_tiers_find(s, name, version);
        return h != NULL && crn_tiers_hold(s, h) && crn_held_shard(h)->rank == s->rank
                   ? crn_held_shard(h)
                   : NULL; /* assembled blocks are no shard */
    }
    find_own(s, &t, &own);
    if (own.memory == NULL) {
        crn_cached_close(&own);
        return NULL;
    }
    s->own_shard = own.shard;
    crn_image_free(&own.image);
    return &s->own_shard;
}

int crn_session_holds(cairn_session *s, const char *name, int64_t version)
{
    return crn_restore_own_shard(s, name, version) != NULL;
}

/* If *ret_done, the restore was tried and the return value is its result; otherwise the caller
 * reads the files. */
static cairn_err from_memory(cairn_session *s, const struct crn_restoring *t, int *ret_done,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    struct crn_cached own;
    uint32_t i;

    find_own(s, t, &own);
    *ret_done = own.memory != NULL;
    for (i = 0; *ret_done && i < t->want.nregions; i++)
        *ret_done = crn_cached_region(&own, &t->want.regions[i]) != NULL;
    if (*ret_done)
        rc = restore_fill(s, t, &own, ei);
    crn_cached_close(&own);
    return rc;
}

/* From files. ---------------------------------------------------------------------------------- */

static cairn_err from_version(cairn_session *s, struct crn_restoring *t, int is_named,
                              struct crn_errinfo *ei)
{
    struct crn_cached cached = {0};
    const struct crn_manifest *m;
    cairn_err rc;

    rc = crn_session_version(s, t->name, t->version, &t->v, ei);
    if (rc != CAIRN_OK)
        return rc;
    m = crn_version_manifest(t->v);
    if (is_named && t->old_rank >= m->ranks)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s@%" PRId64 " has ranks 0 to %u, not %d", t->name,
                        t->version, m->ranks - 1, (int)t->old_rank);
    if (t->old_rank < m->ranks)
        rc = crn_version_shard(t->v, t->old_rank, &t->have, ei);
    if (rc == CAIRN_OK)
        rc = crn_restoring_match(s, t, is_named, ei);
    if (rc != CAIRN_OK)
        return rc;
    /* The arena has this rank's shard, or the blocks assembled for this rank. Open tiers would have
     * returned it already, and may evict it at any time. */
    if (!crn_tiers_are_open(s) && (!is_named || (t->old_rank == s->rank && m->ranks == s->ranks)))
        crn_cached_open(s, &m->id, &cached);
    rc = restore_fill(s, t, &cached, ei);
    crn_cached_close(&cached);
    return rc;
}

/* Other ranks have some of what this rank wants, and a version of this session may not be in files
 * yet: waits for that. */
static cairn_err settle_own(cairn_session *s, const struct crn_restoring *t, struct crn_errinfo *ei)
{
    const struct crn_track *mine = crn_track_find(s, t->name, t->version);
    cairn_err rc;

    if (mine == NULL || mine->error.code != CAIRN_OK ||
        crn_level_has(mine->levels, CAIRN_PERSISTENT))
        return CAIRN_OK;
    rc = cairn_wait(s, t->name, t->version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG);
    return rc == CAIRN_OK ? rc : crn_fail(ei, rc, 0, "%s", cairn_last_error());
}

cairn_err crn_restoring_open(cairn_session *s, const char *name, int64_t version, int old_rank,
                             const char *const *regions, struct crn_restoring *ret,
                             struct crn_errinfo *ei)
{
    struct crn_restoring t = {.name = name, .version = version};
    cairn_err rc;

    memset(ret, 0, sizeof(*ret));
    rc = crn_arg_shard(s, name, version, old_rank, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_deferred_wait(s);
    rc = crn_regions_select(s, regions, 0, &t.want, &t.places, ei);
    if (rc != CAIRN_OK)
        return rc;
    t.old_rank = old_rank != CAIRN_OWN_RANK ? (uint32_t)old_rank : s->rank;
    t.from = calloc(t.want.nregions + (size_t)1, sizeof(*t.from));
    *ret = t;
    return t.from != NULL ? CAIRN_OK
                          : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", t.want.nregions);
}

void crn_restoring_close(struct crn_restoring *t)
{
    crn_shard_free(&t->want);
    free(t->places);
    free(t->from);
}

void crn_restoring_done(cairn_session *s, const struct crn_restoring *t)
{
    crn_told_repaired_here(s, t->name, t->version);
    if (!t->is_asked)
        crn_tiers_passed(s, t->name, t->version);
}

/* Is this error found before the first byte is placed? */
static int leaves_memory(cairn_err rc)
{
    return rc == CAIRN_ENOENT || rc == CAIRN_EMISMATCH || rc == CAIRN_EINVAL ||
           rc == CAIRN_ECONFIG || rc == CAIRN_ESTATE;
}

cairn_err crn_restore(cairn_session *s, const char *name, int64_t version, int old_rank,
                      const char *const *regions, struct crn_errinfo *ei)
{
    int is_named = old_rank != CAIRN_OWN_RANK;
    struct crn_restoring t;
    int is_done = 0;
    cairn_err rc;

    rc = crn_restoring_open(s, name, version, old_rank, regions, &t, ei);
    if (rc == CAIRN_OK && t.old_rank == s->rank)
        rc = crn_tiers_are_open(s) ? from_tiers(s, &t, &is_done, ei)
                                   : from_memory(s, &t, &is_done, ei);
    if (rc == CAIRN_OK && !is_done)
        rc = settle_own(s, &t, ei);
    if (rc == CAIRN_OK && !is_done) {
        rc = from_version(s, &t, is_named, ei);
        if (rc == CAIRN_OK)
            crn_restoring_done(s, &t);
        else if (!leaves_memory(rc))
            rc = crn_err_context(ei, rc, "the memory's content is undefined now");
    }
    if (rc == CAIRN_OK)
        crn_session_succeeds(s, name);
    crn_restoring_close(&t);
    return rc;
}

cairn_err cairn_restore(cairn_session *s, const char *name, int64_t version,
                        const char *const *regions)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, crn_restore(s, name, version, CAIRN_OWN_RANK, regions, &ei));
}

cairn_err cairn_restore_from(cairn_session *s, const char *name, int64_t version, int old_rank,
                             const char *const *regions)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, crn_restore(s, name, version, old_rank, regions, &ei));
}
