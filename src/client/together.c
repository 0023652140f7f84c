/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks share the reading. Ranks whose shards lie in one file form a team that reads this
 * file; if the number of ranks differs, all ranks form one team for all files. The first rank of
 * each node in a team reads for it. A rank whose shard is in its arena or in a file on the node's
 * disk reads it alone. An error of a single rank is reported only at the end, so that the other
 * ranks are not left waiting. */
#include "client/together.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/mates.h"

#define READ_THREADS 4 /* of each node */
#define READ_BLOCK   ((uint64_t)16 << 20)
#define READ_ALONE   ((uint64_t)256 << 20) /* between two heartbeats */
#define SECOND       1000000000LL

/* Teams. --------------------------------------------------------------------------------------- */

struct room {
    struct crn_readers team;
    uint32_t *files;
    int *readers;
};

static void together_leave(struct room *r)
{
    if (r->team.comm != NULL)
        r->team.comm->ops->free(r->team.comm);
    free(r->files);
    free(r->readers);
}

/* All ranks, or those whose shards lie in the same file as this one's; ascending. */
static cairn_err list_members(const cairn_session *s, const struct crn_version *v, int **ret,
                              int *ret_n, struct crn_errinfo *ei)
{
    int is_same = crn_version_manifest(v)->ranks == s->ranks;
    int *ranks = calloc(s->ranks, sizeof(*ranks));
    uint32_t i;
    int n = 0;

    if (ranks == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of up to %u ranks", s->ranks);
    for (i = 0; i < s->ranks; i++)
        if (!is_same || crn_version_file_of(v, i) == crn_version_file_of(v, s->rank))
            ranks[n++] = (int)i;
    *ret = ranks;
    *ret_n = n;
    return CAIRN_OK;
}

/* The first rank of each node. */
static cairn_err choose_readers(const cairn_session *s, struct room *r, const int *ranks, int n,
                                struct crn_errinfo *ei)
{
    uint8_t *seen = calloc(s->nodes, 1);
    int i;

    r->readers = calloc((size_t)n + 1, sizeof(*r->readers));
    if (seen == NULL || r->readers == NULL) {
        free(seen);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of %d ranks", n);
    }
    for (i = 0; i < n; i++)
        if (!seen[s->node_of[ranks[i]]]) {
            seen[s->node_of[ranks[i]]] = 1;
            r->readers[r->team.nreaders++] = i;
        }
    r->team.readers = r->readers;
    free(seen);
    return CAIRN_OK;
}

/* Local: the manifest determines the teams. */
static cairn_err together_join(const cairn_session *s, const struct crn_version *v, struct room *r,
                               struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    int is_same = m->ranks == s->ranks;
    uint32_t first = is_same ? crn_version_file_of(v, s->rank) : 0;
    int *ranks = NULL;
    cairn_err rc;
    uint32_t i;
    int n = 0;

    r->team.nfiles = is_same ? 1 : m->nfiles;
    r->files = calloc(r->team.nfiles, sizeof(*r->files));
    if (r->files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u files", r->team.nfiles);
    for (i = 0; i < r->team.nfiles; i++)
        r->files[i] = first + i;
    r->team.files = r->files;
    rc = list_members(s, v, &ranks, &n, ei);
    if (rc == CAIRN_OK)
        rc = choose_readers(s, r, ranks, n, ei);
    if (rc == CAIRN_OK)
        rc = crn_mail_part(s->mail, s->teams, ranks, n, &r->team.comm, ei);
    free(ranks);
    return rc;
}

/* What this rank wants. ------------------------------------------------------------------------ */

struct wanted {
    struct crn_shard shard; /* contents of the image; regions owned */
    struct crn_slice *parts;
    uint32_t nparts, cap;
    struct crn_slot_info info;
    uint32_t slot;
    int has_slot; /* ours, READING */
    int has_it;   /* no need to read it together */
};

/* After an MPI error, or if a rank hangs, the state of the other ranks is unknown and they cannot
 * be reached. */
static int is_cut_off(cairn_err rc)
{
    return rc == CAIRN_EMPI || rc == CAIRN_EPEER;
}

/* If cut off, leaves the slot READING: a reader of the node may still write there. */
static void together_forget(cairn_session *s, struct wanted *w, cairn_err rc, int is_good)
{
    if (w->has_slot && !is_cut_off(rc))
        (void)crn_slot_move(s->arena, w->slot, w->info.id.seq, CRN_SLOT_READING,
                            rc == CAIRN_OK && is_good ? CRN_SLOT_READ : CRN_SLOT_FREE);
    crn_shard_free(&w->shard);
    free(w->parts);
}

static cairn_err add_part(void *arg, const struct crn_slice *p, struct crn_errinfo *ei)
{
    struct wanted *w = arg;
    struct crn_slice *grown;
    uint32_t cap;

    if (w->nparts == w->cap) {
        cap = w->cap > 0 ? 2 * w->cap : 16;
        grown = realloc(w->parts, cap * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u parts", cap);
        w->parts = grown;
        w->cap = cap;
    }
    w->parts[w->nparts++] = *p;
    return CAIRN_OK;
}

/* Takes a slot for the image of w->shard and writes its descriptor. Without an arena or free space
 * it is no failure: the shard is then only verified, and the restore reads it again. */
static void lend_slot(cairn_session *s, const struct crn_manifest *m, struct wanted *w,
                      const struct crn_image *image, const struct crn_buf *descriptor)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    w->info = (struct crn_slot_info){.id = m->id, .version = m->version};
    memcpy(w->info.name, m->name, sizeof(w->info.name));
    w->info.descriptor_bytes = descriptor->len;
    w->info.bytes = w->info.image_bytes = image->bytes;
    rc = crn_take_ensure_arena_read(s, image->bytes, &why);
    if (rc == CAIRN_OK)
        rc = crn_arena_take(s->arena, CRN_SLOT_READING, &w->info, &w->slot, &why);
    if (rc != CAIRN_OK) {
        crn_log(&s->log, rc == CAIRN_ENOSPC || rc == CAIRN_EBUSY ? CRN_DEBUG : CRN_WARN,
                "reading without the arena, continuing: %s", why.msg);
        return;
    }
    w->has_slot = 1;
    memcpy(crn_slot_memory(s->arena, &w->info), descriptor->data, descriptor->len);
}

static cairn_err take_slot(cairn_session *s, const struct crn_manifest *m, struct wanted *w,
                           struct crn_image *ret_image, struct crn_errinfo *ei)
{
    struct crn_buf descriptor = {0};
    cairn_err rc;

    if (crn_tiers_are_open(s)) /* the tiers manage the arena */
        return CAIRN_OK;
    rc = crn_shard_encode(&w->shard, &descriptor, ei);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(&w->shard, descriptor.len, ret_image, ei);
    if (rc == CAIRN_OK)
        lend_slot(s, m, w, ret_image, &descriptor);
    crn_buf_free(&descriptor);
    return rc;
}

static cairn_err copy_shard(const struct crn_shard *from, struct crn_shard *ret,
                            struct crn_errinfo *ei)
{
    size_t n = from->nregions;

    *ret = (struct crn_shard){.rank = from->rank};
    ret->regions = calloc(n + 1, sizeof(*ret->regions));
    if (ret->regions == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu regions", n);
    if (n > 0) /* a rank may have none */
        memcpy(ret->regions, from->regions, n * sizeof(*ret->regions));
    ret->nregions = (uint32_t)n;
    return CAIRN_OK;
}

/* Wants all of this rank's shard, one slice per region. */
static cairn_err want_shard(cairn_session *s, struct crn_version *v, struct wanted *w,
                            struct crn_errinfo *ei)
{
    struct crn_image image = {0};
    const struct crn_shard *shard;
    cairn_err rc;
    uint32_t i;

    rc = crn_version_shard(v, s->rank, &shard, ei);
    if (rc == CAIRN_OK)
        rc = copy_shard(shard, &w->shard, ei);
    if (rc == CAIRN_OK)
        rc = take_slot(s, crn_version_manifest(v), w, &image, ei);
    for (i = 0; rc == CAIRN_OK && w->has_slot && i < w->shard.nregions; i++) {
        const struct crn_region *r = &w->shard.regions[i];
        struct crn_slice p = {.rank = s->rank, .region = i, .to = image.at[i]};

        if (r->kind == CRN_REGION_MEMORY)
            p.run = r->bytes;
        rc = add_part(w, &p, ei);
    }
    crn_image_free(&image);
    return rc;
}

/* Wants the blocks of global arrays that are protected now, as far as the version has them. */
static cairn_err want_blocks(cairn_session *s, struct crn_version *v, struct wanted *w,
                             struct crn_errinfo *ei)
{
    uint32_t *first = calloc(s->nregions + (size_t)1, sizeof(*first));
    struct crn_image image = {0};
    cairn_err rc = CAIRN_OK;
    uint32_t i, k;

    w->shard.rank = CRN_NOBODY;
    w->shard.regions = calloc(s->nregions + (size_t)1, sizeof(*w->shard.regions));
    if (first == NULL || w->shard.regions == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", s->nregions);
    for (i = 0; rc == CAIRN_OK && i < s->nregions; i++) {
        const struct crn_region *r = &s->regions[i].region;
        struct crn_errinfo why = {0};
        uint32_t before = w->nparts;

        if (!r->is_global || r->bytes == 0)
            continue;
        if (crn_version_plan_block(v, r, add_part, w, &why) == CAIRN_OK) {
            first[w->shard.nregions] = before;
            w->shard.regions[w->shard.nregions++] = *r;
        } else {
            w->nparts = before; /* cairn_restore reports the mismatch */
        }
    }
    if (rc == CAIRN_OK && w->shard.nregions > 0)
        rc = take_slot(s, crn_version_manifest(v), w, &image, ei);
    if (!w->has_slot)
        w->nparts = 0;
    for (i = 0; image.at != NULL && w->nparts > 0 && i < w->shard.nregions; i++)
        for (k = first[i]; k < (i + 1 < w->shard.nregions ? first[i + 1] : w->nparts); k++)
            w->parts[k].to += image.at[i];
    crn_image_free(&image);
    free(first);
    return rc;
}

static cairn_err read_alone(cairn_session *s, struct crn_version *v, uint32_t region,
                            unsigned char *to, const struct wanted *w, struct crn_errinfo *ei)
{
    uint64_t bytes = w->parts[region].run;
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    for (at = 0; rc == CAIRN_OK && at < bytes; at += READ_ALONE) {
        uint64_t n = bytes - at < READ_ALONE ? bytes - at : READ_ALONE;

        crn_mail_beat(s->mail);
        rc = crn_version_read(v, s->rank, region, at, n, to + at, ei);
    }
    return rc;
}

/* Reads from the node's own disk, or from the store if that fails. */
static cairn_err help_oneself(cairn_session *s, struct crn_version *v, struct wanted *w,
                              struct crn_errinfo *ei)
{
    cairn_err rc;
    uint32_t i;

    w->has_it = 1;
    rc = want_shard(s, v, w, ei);
    if (rc == CAIRN_OK && !w->has_slot)
        return crn_version_check_rank(v, s->rank, NULL, ei);
    for (i = 0; rc == CAIRN_OK && i < w->nparts; i++)
        rc = read_alone(s, v, i, crn_slot_memory(s->arena, &w->info) + w->parts[i].to, w, ei);
    return rc;
}

static cairn_err together_want(cairn_session *s, struct crn_version *v, struct wanted *w,
                               struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    int slot = s->arena != NULL ? crn_arena_find(s->arena, &m->id) : -1;

    if (m->ranks != s->ranks) {
        if (slot >= 0 && !crn_tiers_are_open(s)) /* it may have other blocks */
            (void)crn_slot_move(s->arena, (uint32_t)slot, m->id.seq, CRN_SLOT_READ, CRN_SLOT_FREE);
        return want_blocks(s, v, w, ei);
    }
    if (slot >= 0) { /* still in memory and unchanged */
        w->has_it = 1;
        return CAIRN_OK;
    }
    if (crn_version_has_copy(v, s->rank))
        return help_oneself(s, v, w, ei);
    return want_shard(s, v, w, ei);
}

/* Reading. ------------------------------------------------------------------------------------- */

static cairn_err together_scatter(cairn_session *s, struct crn_version *v,
                                  const struct crn_readers *team, const struct wanted *w,
                                  int *ret_whole, struct crn_errinfo *ei)
{
    struct crn_mates mates = {.s = s, .v = v};
    struct crn_scatter c = {.v = v,
                            .rank = s->rank,
                            .has_it = w->has_it,
                            .node = s->node,
                            .where = CRN_NOWHERE,
                            .reach = crn_mates_reach,
                            .arg = &mates,
                            .threads = READ_THREADS,
                            .cores = (enum crn_background_cores)s->cfg.background_cores,
                            .block_bytes = (size_t)s->cfg.block_bytes};
    cairn_err rc;

    if (c.block_bytes > READ_BLOCK)
        c.block_bytes = READ_BLOCK;
    if (w->has_slot && !w->has_it) {
        c.is_whole = crn_version_manifest(v)->ranks == s->ranks;
        c.parts = w->parts;
        c.nparts = w->nparts;
        c.memory = crn_slot_memory(s->arena, &w->info);
        c.where = w->slot;
    }
    rc = crn_scatter_run(&c, team, ret_whole, ei);
    crn_mates_close(&mates);
    return rc;
}

/* If the store is damaged and nodes have copies, each rank verifies its share of the old ranks from
 * any copy. Collective, after all ranks have agreed that the version could not be read. */
static cairn_err try_copies(cairn_session *s, struct crn_version *v, cairn_err rc,
                            struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    int64_t state[2] = {rc == CAIRN_EDAMAGED, crn_version_copies(v) > 0};
    struct crn_errinfo mpi = {0};
    uint32_t r;

    if (s->all->ops->allreduce(s->all, state, 2, CRN_COMM_MAX, &mpi) != CAIRN_OK) {
        crn_err_keep(ei, &mpi);
        return mpi.code;
    }
    if (state[0] == 0 || state[1] == 0)
        return rc;
    crn_err_clear(ei);
    rc = CAIRN_OK;
    for (r = s->rank; rc == CAIRN_OK && r < m->ranks; r += s->ranks) {
        crn_mail_beat(s->mail);
        rc = crn_version_check_rank(v, r, NULL, ei);
    }
    return crn_session_agree(s, rc, "verifying the version", ei);
}

static cairn_err read_all(cairn_session *s, struct crn_version *v, const struct crn_readers *team,
                          struct crn_errinfo *ei)
{
    struct crn_errinfo index = {0};
    struct crn_errinfo own = {0};
    struct wanted w = {0};
    cairn_err loaded, rc;
    int is_whole = 0;

    loaded = crn_version_load_together(v, team, &index);
    rc = together_want(s, v, &w, &own);
    if (rc == CAIRN_OK && !w.has_it && loaded != CAIRN_OK) {
        rc = loaded;
        crn_err_keep(&own, &index);
    }
    if (loaded == CAIRN_OK) {
        struct crn_errinfo why = {0};
        cairn_err read = together_scatter(s, v, team, &w, &is_whole, &why);

        crn_err_keep(&own, &why);
        if (rc == CAIRN_OK)
            rc = read;
    }
    if (!is_cut_off(rc)) /* after this, no rank writes into another's arena */
        rc = crn_session_agree(s, rc, "verifying the version", &own);
    together_forget(s, &w, rc, is_whole || w.has_it);
    if (rc != CAIRN_OK && !is_cut_off(rc) && crn_version_manifest(v)->ranks != s->ranks)
        rc = try_copies(s, v, rc, &own);
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &own);
    return rc;
}

/* The timeout is the one for a silent node in a flush. */
void crn_together_watch(cairn_session *s, int is_on)
{
    crn_mail_watch(s->mail, is_on ? (int64_t)s->cfg.commit_timeout_ns / 4 * 5 + 3 * SECOND : 0);
}

cairn_err crn_together_read(cairn_session *s, const char *name, int64_t version,
                            struct crn_errinfo *ei)
{
    struct crn_version *v = NULL;
    struct room r = {0};
    cairn_err rc;

    s->teams++;
    crn_together_watch(s, 1);
    crn_version_close(s->open_version); /* reopen: it may have been replaced or repaired */
    s->open_version = NULL;
    rc = crn_version_open_together(s->all, s->fs, s->cfg.persistent, name, version, &v, ei);
    if (rc == CAIRN_OK) {
        crn_session_keep(s, v);
        rc = together_join(s, v, &r, ei);
    }
    rc = crn_session_agree(s, rc, "opening the version", ei);
    if (rc == CAIRN_OK)
        rc = read_all(s, v, &r.team, ei);
    if (rc == CAIRN_OK)
        crn_told_repaired(s, name, version);
    crn_together_watch(s, 0);
    together_leave(&r);
    return rc;
}
