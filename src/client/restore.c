/* SPDX-License-Identifier: BSD-3-Clause */
/* Restoring: a checkpoint's bytes into the application's memory. What this session took and memory still
 * holds comes from there, committed or not; all else from the files of the version. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

struct target {
    const char *name;
    int64_t version;
    struct crn_version *v; /* NULL: not opened */
    struct crn_shard want; /* what the application protects */
    struct crn_place *places;
    const struct crn_shard *have; /* the old rank's; NULL if there is none */
    uint32_t old_rank;
    int64_t *from; /* per wanted region: index in have; -1: redistribute */
};

static int same_block(const struct crn_region *a, const struct crn_region *b)
{
    size_t n = a->ndims * sizeof(a->dims[0]);

    return a->ndims == b->ndims && memcmp(a->dims, b->dims, n) == 0 &&
           memcmp(a->offset, b->offset, n) == 0 && memcmp(a->global_dims, b->global_dims, n) == 0;
}

/* Decides where each region comes from, and refuses before anything is written. */
static cairn_err match(const cairn_session *s, struct target *t, int is_named,
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
            (h == NULL || !h->is_global || !same_block(w, h) || h->type != w->type)) {
            t->from[i] = -1; /* crn_version_read_block checks and says what does not fit */
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

/* The image of the shard in the arena, if it is there. */
static const unsigned char *cached(cairn_session *s, const struct target *t,
                                   struct crn_image *image, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(t->v);
    struct crn_slot_info info;
    int slot;

    if (s->arena == NULL || crn_tiers_are_open(s) || t->have == NULL || t->old_rank != s->rank)
        return NULL; /* the tiers would have given it, and may evict it at any time */
    slot = crn_arena_find(s->arena, &m->id);
    if (slot < 0 || crn_slot_info(s->arena, (uint32_t)slot, &info, ei) != CAIRN_OK ||
        crn_image_layout(t->have, info.descriptor_bytes, image, ei) != CAIRN_OK)
        return NULL;
    if (image->bytes != info.image_bytes) {
        crn_image_free(image);
        return NULL;
    }
    return crn_slot_memory(s->arena, &info);
}

/* One region: from the arena (source), from this shard of the version, or put together from all. */
static cairn_err fill_host(cairn_session *s, const struct target *t, uint32_t i,
                           const unsigned char *source, struct crn_errinfo *ei)
{
    const struct crn_region *w = &t->want.regions[i];
    struct crn_copy one = {t->places[i].ptr, source, w->bytes};

    if (t->from[i] < 0)
        return crn_version_read_block(t->v, w, t->places[i].ptr, ei);
    if (source == NULL)
        return crn_version_read(t->v, t->old_rank, (uint32_t)t->from[i], 0, w->bytes,
                                t->places[i].ptr, ei);
    crn_copier_run(s->copier, &one, 1);
    return CAIRN_OK;
}

static cairn_err fill_device(cairn_session *s, const struct target *t, uint32_t i,
                             const unsigned char *source, struct crn_errinfo *ei)
{
    const struct crn_region *w = &t->want.regions[i];

    if (t->from[i] < 0)
        return crn_gpu_read_block(s, &t->places[i], t->v, w, ei);
    if (source == NULL)
        return crn_gpu_read(s, &t->places[i], t->v, t->old_rank, (uint32_t)t->from[i], w->bytes,
                            ei);
    return crn_gpu_restore(s, &t->places[i], source, w->bytes, ei);
}

/* memory: the image of the shard; NULL: it is read. */
static cairn_err fill(cairn_session *s, const struct target *t, const unsigned char *memory,
                      const struct crn_image *image, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err rc = CAIRN_OK;
    cairn_err waited;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < t->want.nregions; i++) {
        const unsigned char *source =
            t->from[i] >= 0 && memory != NULL ? memory + image->at[t->from[i]] : NULL;

        rc = t->places[i].device != NULL ? fill_device(s, t, i, source, ei)
                                         : fill_host(s, t, i, source, ei);
    }
    waited = crn_gpu_wait(s, &late);
    crn_err_keep(ei, &late);
    return rc != CAIRN_OK ? rc : waited;
}

/* From memory. ------------------------------------------------------------------------------------- */

/* Can every region be taken as it is from a shard that this rank captured? */
static int fits(const struct crn_shard *have, struct target *t)
{
    uint32_t i;

    for (i = 0; i < t->want.nregions; i++) {
        const struct crn_region *w = &t->want.regions[i];
        int64_t k = crn_shard_find(have, CRN_REGION_MEMORY, w->name);
        const struct crn_region *h = k >= 0 ? &have->regions[k] : NULL;

        t->from[i] = k;
        if (h == NULL || h->type != w->type || h->bytes != w->bytes ||
            h->is_global != w->is_global || (w->is_global && !same_block(w, h)))
            return 0;
    }
    return 1;
}

/* The capture of a checkpoint that this session took and that has not failed, in the arena. 1 if it is
 * there; shard and image are the caller's then. */
static int find_own(cairn_session *s, const struct target *t, struct crn_shard *shard,
                    struct crn_image *image, const unsigned char **ret)
{
    struct crn_errinfo ignored = {0};
    struct crn_capture_id id = {0};
    const struct crn_track *mine;
    struct crn_slot_info info;
    int slot;

    if (s->sock >= 0 && crn_node_pump(s, 0, &ignored) != CAIRN_OK) /* has it failed meanwhile? */
        crn_err_clear(&ignored);
    mine = crn_track_find(s, t->name, t->version);
    if (mine == NULL || mine->error.code != CAIRN_OK || s->arena == NULL)
        return 0;
    memcpy(id.run, s->run, sizeof(id.run));
    id.seq = mine->seq;
    slot = crn_arena_find(s->arena, &id);
    if (slot < 0 || crn_slot_info(s->arena, (uint32_t)slot, &info, &ignored) != CAIRN_OK ||
        crn_shard_decode(crn_slot_memory(s->arena, &info), info.descriptor_bytes, t->name, shard,
                         &ignored) != CAIRN_OK)
        return 0;
    if (crn_image_layout(shard, info.descriptor_bytes, image, &ignored) != CAIRN_OK) {
        crn_shard_free(shard);
        return 0;
    }
    *ret = crn_slot_memory(s->arena, &info);
    return 1;
}

/* Does the application get all of it? */
static int is_all(const struct crn_shard *have, const struct target *t)
{
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; i < have->nregions; i++)
        n += have->regions[i].kind == CRN_REGION_MEMORY;
    return t->want.nregions == n && n == have->nregions;
}

static cairn_err read_tiers(cairn_session *s, const struct crn_held *h, const struct target *t,
                            struct crn_errinfo *ei)
{
    struct crn_piece *p = calloc(t->want.nregions + (size_t)1, sizeof(*p));
    uint32_t i;
    cairn_err rc;

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", t->want.nregions);
    for (i = 0; i < t->want.nregions; i++)
        p[i] = (struct crn_piece){t->places[i].ptr, crn_held_image(h)->at[t->from[i]],
                                  t->want.regions[i].bytes, t->places[i].device};
    rc = crn_tiers_read(s, h, p, t->want.nregions, is_all(crn_held_shard(h), t), ei);
    free(p);
    return rc;
}

/* As from_memory, where the session has tiers. What they have lost or let go the files may have. */
static cairn_err from_tiers(cairn_session *s, struct target *t, int *ret_done,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    const struct crn_held *h;
    cairn_err rc;

    if (s->sock >= 0 && crn_node_pump(s, 0, &why) != CAIRN_OK)
        crn_err_clear(&why);
    h = crn_tiers_find(s, t->name, t->version);
    if (h == NULL || !fits(crn_held_shard(h), t))
        return CAIRN_OK;
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

const struct crn_shard *crn_own_shard(cairn_session *s, const char *name, int64_t version)
{
    struct target t = {.name = name, .version = version};
    struct crn_image image = {0};
    const struct crn_held *h;
    const unsigned char *memory;

    crn_shard_free(&s->own_shard);
    memset(&s->own_shard, 0, sizeof(s->own_shard));
    if (crn_tiers_are_open(s)) {
        h = crn_tiers_find(s, name, version);
        return h != NULL && crn_tiers_hold(s, h) ? crn_held_shard(h) : NULL;
    }
    if (!find_own(s, &t, &s->own_shard, &image, &memory))
        return NULL;
    crn_image_free(&image);
    return &s->own_shard;
}

int crn_session_holds(cairn_session *s, const char *name, int64_t version)
{
    return crn_own_shard(s, name, version) != NULL;
}

/* *ret_done: it was tried, and the return value says how it went; else the files have to do. */
static cairn_err from_memory(cairn_session *s, struct target *t, int *ret_done,
                             struct crn_errinfo *ei)
{
    const unsigned char *memory;
    struct crn_image image;
    struct crn_shard shard;
    cairn_err rc = CAIRN_OK;

    if (!find_own(s, t, &shard, &image, &memory))
        return CAIRN_OK;
    *ret_done = fits(&shard, t);
    if (*ret_done)
        rc = fill(s, t, memory, &image, ei);
    crn_image_free(&image);
    crn_shard_free(&shard);
    return rc;
}

/* From files. --------------------------------------------------------------------------------------- */

static cairn_err from_version(cairn_session *s, struct target *t, int is_named,
                              struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_image image = {0};
    const struct crn_manifest *m;
    const unsigned char *memory;
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
        rc = match(s, t, is_named, ei);
    if (rc != CAIRN_OK)
        return rc;
    memory = cached(s, t, &image, &ignored);
    rc = fill(s, t, memory, &image, ei);
    crn_image_free(&image);
    return rc;
}

cairn_err crn_restore(cairn_session *s, const char *name, int64_t version, int old_rank,
                      const char *const *regions, struct crn_errinfo *ei)
{
    struct target t = {.name = name, .version = version};
    int is_named = old_rank != CAIRN_OWN_RANK;
    int is_done = 0;
    cairn_err rc;

    t.old_rank = is_named ? (uint32_t)old_rank : s->rank;
    rc = crn_check_name("checkpoint", name, ei);
    if (rc == CAIRN_OK)
        rc = crn_select(s, regions, &t.want, &t.places, ei);
    if (rc != CAIRN_OK)
        return rc;
    t.from = calloc(t.want.nregions + (size_t)1, sizeof(*t.from));
    if (t.from == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", t.want.nregions);
    if (rc == CAIRN_OK && t.old_rank == s->rank)
        rc = crn_tiers_are_open(s) ? from_tiers(s, &t, &is_done, ei)
                                   : from_memory(s, &t, &is_done, ei);
    if (rc == CAIRN_OK && !is_done) {
        rc = from_version(s, &t, is_named, ei);
        crn_tiers_passed(s, name, version);
    }
    crn_shard_free(&t.want);
    free(t.places);
    free(t.from);
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
