/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns slots into sources. The descriptor lies at the start of the image, in the arena or in the
 * spill file. It is untrusted, since the process that wrote it may have died. */
#include "service/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "encode/parts.h"
#include "service/rundir.h"
#include "tier/area.h"

#define MAX_DESCRIPTOR ((uint64_t)1 << 30)

/* Opens an image outside the arena: a file, or an extent of the rank's area. */
static cairn_err open_spilled(const struct crn_rundir *rd, uint32_t rank,
                              const struct crn_open_shard *h, char name[CRN_SPOOL_NAME],
                              struct crn_source *s, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = rd->fs;
    int fd;

    if (h->info.is_out) {
        crn_rundir_area_name(rank, name);
        s->area_at = h->info.area_at;
        s->area_bytes = h->info.area_bytes;
        return crn_area_open(fs, rd->spool_dfd, name, &s->area, ei);
    }
    crn_rundir_spill_name(rank, h->info.id.seq, name);
    fd = fs->openat(fs, rd->spool_dfd, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open the spilled image '%s'", name);
    s->image_fd = fd;
    return CAIRN_OK;
}

static cairn_err decode_spilled(const struct crn_rundir *rd, uint32_t rank,
                                struct crn_open_shard *h, struct crn_source *s,
                                struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    cairn_err rc;
    void *buf;

    rc = open_spilled(rd, rank, h, name, s, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (h->info.descriptor_bytes > MAX_DESCRIPTOR)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "the spilled image '%s' is damaged", name);
    buf = malloc(h->info.descriptor_bytes + 1);
    if (buf == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the descriptor of '%s'", name);
    if (s->area != NULL)
        rc =
            crn_area_read(s->area, s->area_at, s->area_bytes, 0, buf, h->info.descriptor_bytes, ei);
    else
        rc = crn_fs_read_all(rd->fs, s->image_fd, buf, h->info.descriptor_bytes, 0, name, ei);
    if (rc == CAIRN_OK)
        rc = crn_shard_decode(buf, h->info.descriptor_bytes, name, &s->shard, ei);
    free(buf);
    return rc;
}

static cairn_err open_files(const struct crn_rundir *rd, struct crn_open_shard *h,
                            struct crn_source *s, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = rd->fs;
    char name[CRN_SPOOL_NAME];
    struct stat st;
    uint32_t i;
    int r;

    h->region_fd = malloc((s->shard.nregions + (size_t)1) * sizeof(int));
    if (h->region_fd == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a shard of %u regions", s->shard.nregions);
    for (i = 0; i < s->shard.nregions; i++)
        h->region_fd[i] = -1;
    s->region_fd = h->region_fd;
    for (i = 0; i < s->shard.nregions; i++) {
        if (s->shard.regions[i].kind != CRN_REGION_FILE)
            continue;
        crn_rundir_spool_file_name(s->shard.rank, h->info.id.seq, i, name);
        r = fs->openat(fs, rd->spool_dfd, name, O_RDONLY | O_NOFOLLOW, 0);
        if (r >= 0) {
            h->region_fd[i] = r;
            r = fs->fstat(fs, h->region_fd[i], &st);
        }
        if (r < 0)
            return crn_fail_errno(ei, -r, "open the handed-over file '%s' of rank %u",
                                  s->shard.regions[i].name, s->shard.rank);
        if ((uint64_t)st.st_size != s->shard.regions[i].bytes)
            return crn_fail(ei, CAIRN_EDAMAGED, 0,
                            "the handed-over file '%s' of rank %u changed its size",
                            s->shard.regions[i].name, s->shard.rank);
    }
    return CAIRN_OK;
}

/* Finds the checksums after the image, if it has any. */
static cairn_err find_hashes(struct crn_open_shard *h, struct crn_source *s, struct crn_errinfo *ei)
{
    const struct crn_slot_info *info = &h->info;

    if (info->is_spilled || info->hash_chunk_bytes == 0)
        return CAIRN_OK;
    if (crn_image_hash_words(&s->shard, info->hash_chunk_bytes) >
        (info->bytes - info->image_bytes) / 8)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "the checksums of rank %u have the wrong size",
                        s->shard.rank);
    h->hashes = calloc(s->shard.nregions + (size_t)1, sizeof(*h->hashes));
    if (h->hashes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a shard of %u regions", s->shard.nregions);
    crn_image_hashes(&s->shard, info->hash_chunk_bytes,
                     (const uint64_t *)(const void *)(s->memory + info->image_bytes), h->hashes);
    s->hashes = h->hashes;
    s->hash_chunk_bytes = info->hash_chunk_bytes;
    return CAIRN_OK;
}

static cairn_err open_one(const struct crn_arena *a, uint32_t slot, const struct crn_rundir *rd,
                          struct crn_open_shard *h, struct crn_source *s, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_slot_info(a, slot, &h->info, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (h->info.is_spilled) {
        rc = decode_spilled(rd, crn_arena_rank(a), h, s, ei);
    } else {
        s->memory = crn_slot_memory(a, &h->info);
        rc = crn_shard_decode(s->memory, h->info.descriptor_bytes, "a captured shard", &s->shard,
                              ei);
    }
    if (rc == CAIRN_OK && s->shard.rank != crn_arena_rank(a))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "the arena of rank %u holds a shard of rank %u",
                      crn_arena_rank(a), s->shard.rank);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(&s->shard, h->info.descriptor_bytes, &h->image, ei);
    if (rc == CAIRN_OK && h->image.bytes != h->info.image_bytes)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "the image of rank %u has the wrong size",
                      s->shard.rank);
    s->at = h->image.at;
    if (rc == CAIRN_OK)
        rc = find_hashes(h, s, ei);
    return rc == CAIRN_OK ? open_files(rd, h, s, ei) : rc;
}

cairn_err crn_sources_open(struct crn_arena *const *arenas, const uint32_t *slots, uint32_t nparts,
                           const struct crn_rundir *rd, struct crn_open_shard *held,
                           struct crn_source *sources, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    memset(held, 0, nparts * sizeof(*held));
    memset(sources, 0, nparts * sizeof(*sources));
    for (i = 0; i < nparts; i++)
        sources[i].image_fd = -1;
    for (i = 0; rc == CAIRN_OK && i < nparts; i++)
        rc = open_one(arenas[i], slots[i], rd, &held[i], &sources[i], ei);
    if (rc != CAIRN_OK)
        crn_sources_close(held, sources, nparts);
    return rc;
}

static int has_files(const struct crn_shard *s)
{
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        if (s->regions[i].kind == CRN_REGION_FILE)
            return 1;
    return 0;
}

cairn_err crn_sources_look_inside(const struct crn_config *cfg, const char *name,
                                  struct crn_source *sources, uint32_t n, struct crn_errinfo *ei)
{
    const char *hdf5 = cfg->hdf5_reader[0] != '\0' ? cfg->hdf5_reader : NULL;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (crn_config_name(cfg, name)->encode == CRN_ENCODE_NONE)
        return CAIRN_OK;
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        struct crn_parts *parts = NULL;

        if (has_files(&sources[i].shard))
            rc = crn_parts_open(crn_fs_posix(), &sources[i].shard, sources[i].region_fd, hdf5,
                                &parts, ei);
        sources[i].parts = parts;
    }
    return rc;
}

void crn_sources_close(struct crn_open_shard *held, struct crn_source *sources, uint32_t nparts)
{
    uint32_t i, r;

    for (i = 0; i < nparts; i++) {
        for (r = 0; held[i].region_fd != NULL && r < sources[i].shard.nregions; r++)
            if (held[i].region_fd[r] >= 0)
                (void)close(held[i].region_fd[r]);
        free(held[i].region_fd);
        held[i].region_fd = NULL;
        free(held[i].hashes);
        held[i].hashes = NULL;
        if (sources[i].image_fd >= 0)
            (void)close(sources[i].image_fd);
        sources[i].image_fd = -1;
        crn_parts_close((struct crn_parts *)sources[i].parts);
        sources[i].parts = NULL;
        crn_area_close(sources[i].area);
        sources[i].area = NULL;
        crn_image_free(&held[i].image);
        crn_shard_free(&sources[i].shard);
    }
}

struct spool_match {
    char spill[CRN_SPOOL_NAME];
    char files[CRN_SPOOL_NAME]; /* prefix */
    int dfd;
};

static int remove_match(void *arg, const char *name)
{
    const struct spool_match *m = arg;

    if (strcmp(name, m->spill) == 0 || strncmp(name, m->files, strlen(m->files)) == 0)
        (void)unlinkat(m->dfd, name, 0);
    return 0;
}

void crn_source_remove_spool(int spool_dfd, uint32_t rank, uint64_t seq)
{
    const struct crn_fs *fs = crn_fs_posix();
    struct spool_match m = {.dfd = spool_dfd};

    crn_rundir_spill_name(rank, seq, m.spill);
    crn_rundir_spool_file_name(rank, seq, 0, m.files);
    m.files[strlen(m.files) - 1] = '\0';             /* "f-<rank>-<seq>-" */
    (void)fs->list(fs, spool_dfd, remove_match, &m); /* the rest goes with the directory */
}
