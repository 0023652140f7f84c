/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: writes small versions with known contents through the store, as a flush would. The
 * contents follow from a seed, so that a reader can be compared byte by byte. */
#ifndef CRN_STORE_TEST_VERSION_H
#define CRN_STORE_TEST_VERSION_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/store.h"

#define TV_REGIONS 4
#define TV_ROWS    2 /* of the global array, per rank */
#define TV_COLS    3
#define TV_CHUNK   16
#define TV_ALIGN   16

struct tv {
    const char *name;
    int64_t version;
    uint64_t seq;
    uint32_t seed;
    uint32_t ranks;
    uint32_t files;
};

/* Region 0: block of a global array; 1: bytes of its own size; 2: empty; 3: a file. */
static inline struct crn_region tv_region(const struct tv *t, uint32_t rank, uint32_t region)
{
    static const char *const names[TV_REGIONS] = {"field", "state", "none", "log.txt"};
    struct crn_region r = {.type = CAIRN_BYTES, .ndims = 1};

    (void)snprintf(r.name, sizeof(r.name), "%s", names[region]);
    r.kind = region == 3 ? CRN_REGION_FILE : CRN_REGION_MEMORY;
    r.dims[0] = region == 1 ? 40 + rank : region == 3 ? 25 : 0;
    if (region == 0) {
        r.type = CAIRN_U32;
        r.ndims = 2;
        r.is_global = 1;
        r.dims[0] = TV_ROWS;
        r.dims[1] = r.global_dims[1] = TV_COLS;
        r.global_dims[0] = (uint64_t)t->ranks * TV_ROWS;
        r.offset[0] = (uint64_t)rank * TV_ROWS;
    }
    r.bytes = r.dims[0] * (region == 0 ? TV_COLS * sizeof(uint32_t) : 1);
    return r;
}

static inline uint32_t tv_element(const struct tv *t, uint64_t row, uint64_t col)
{
    return t->seed * 1000003U + (uint32_t)(row * TV_COLS + col);
}

/* The contents of a region; buf has room for 256 bytes. */
static inline uint64_t tv_content(const struct tv *t, uint32_t rank, uint32_t region,
                                  unsigned char *buf)
{
    struct crn_region r = tv_region(t, rank, region);
    uint64_t i;

    assert(r.bytes <= 256);
    for (i = 0; i < r.bytes; i++)
        buf[i] = (unsigned char)(t->seed * 7 + rank * 31 + region * 101 + i * 3);
    for (i = 0; region == 0 && i < TV_ROWS * TV_COLS; i++) {
        uint32_t v = tv_element(t, (uint64_t)rank * TV_ROWS + i / TV_COLS, i % TV_COLS);
        size_t b;

        for (b = 0; b < 4; b++)
            buf[4 * i + b] = (unsigned char)(v >> (8 * b)); /* the bytes of a little-endian host */
    }
    return r.bytes;
}

static inline struct crn_capture_id tv_id(const struct tv *t)
{
    struct crn_capture_id id = {.seq = t->seq};

    memset(id.run, 0x5a, sizeof(id.run));
    return id;
}

static inline cairn_err tv_extent(const struct crn_store *st, int fd, const char *file,
                                  struct crn_index *x, struct crn_extent e,
                                  const unsigned char *data, uint64_t *end, struct crn_errinfo *ei)
{
    uint64_t at;

    e.file_offset = *end;
    e.first_hash = x->nhashes;
    for (at = 0; at < e.bytes; at += TV_CHUNK)
        x->hashes[x->nhashes++] =
            crn_hash(data + at, e.bytes - at < TV_CHUNK ? e.bytes - at : TV_CHUNK);
    x->extents[x->nextents++] = e;
    *end = (*end + e.bytes + TV_ALIGN - 1) / TV_ALIGN * TV_ALIGN;
    return crn_fs_write_all(st->fs, fd, data, e.bytes, e.file_offset, file, ei);
}

/* All regions of the ranks of a file, each as two extents. */
static inline cairn_err tv_fill(const struct crn_store *st, const struct tv *t, int fd,
                                const char *file, struct crn_index *x, uint64_t *end,
                                struct crn_errinfo *ei)
{
    unsigned char data[256];
    cairn_err rc = CAIRN_OK;
    uint32_t s, r;

    for (s = 0; s < x->nshards; s++)
        for (r = 0; r < TV_REGIONS && rc == CAIRN_OK; r++) {
            uint64_t bytes = tv_content(t, x->shards[s].rank, r, data);
            uint64_t half = bytes / 2 + 1;

            if (bytes == 0)
                continue;
            rc = tv_extent(st, fd, file, x,
                           (struct crn_extent){.shard = s, .region = r, .bytes = half}, data, end,
                           ei);
            if (rc == CAIRN_OK)
                rc = tv_extent(st, fd, file, x,
                               (struct crn_extent){
                                   .shard = s, .region = r, .offset = half, .bytes = bytes - half},
                               data + half, end, ei);
        }
    return rc;
}

/* One data file with the ranks whose number modulo files is file_no; files named in file. */
static inline cairn_err tv_write_file(const struct crn_store *st, const struct tv *t,
                                      uint32_t file_no, char file[CRN_FILE_NAME],
                                      struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    struct crn_index x = {.id = tv_id(t),
                          .version = t->version,
                          .file_no = file_no,
                          .files = t->files,
                          .ranks = t->ranks,
                          .nodes = t->files,
                          .created_ns = 1000 + t->seq,
                          .chunk_bytes = TV_CHUNK};
    uint64_t end = 0;
    uint32_t rank;
    cairn_err rc;
    int fd;

    file[0] = '\0';
    (void)snprintf(x.name, sizeof(x.name), "%s", t->name);
    rc = crn_store_create_data(st, t->name, t->version, file_no, file, &fd, ei);
    if (rc != CAIRN_OK) {
        file[0] = '\0';
        return rc;
    }
    x.shards = calloc((size_t)t->ranks + 1, sizeof(*x.shards));
    x.extents = calloc(((size_t)t->ranks + 1) * TV_REGIONS * 2, sizeof(*x.extents));
    x.hashes = calloc(((size_t)t->ranks + 1) * TV_REGIONS * 32, sizeof(*x.hashes));
    for (rank = file_no; rank < t->ranks; rank += t->files) {
        struct crn_region *regions = calloc(TV_REGIONS, sizeof(*regions));
        uint32_t r;

        assert(regions != NULL);
        for (r = 0; r < TV_REGIONS; r++)
            regions[r] = tv_region(t, rank, r);
        x.shards[x.nshards++] =
            (struct crn_shard){.rank = rank, .nregions = TV_REGIONS, .regions = regions};
    }
    rc = tv_fill(st, t, fd, file, &x, &end, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_finish_data(st, fd, file, end, &x, ret, ei);
    else
        (void)st->fs->close(st->fs, fd);
    crn_index_free(&x);
    return rc;
}

static inline void tv_manifest(const struct tv *t, struct crn_manifest *m)
{
    memset(m, 0, sizeof(*m));
    m->id = tv_id(t);
    (void)snprintf(m->name, sizeof(m->name), "%s", t->name);
    (void)snprintf(m->job, sizeof(m->job), "job 7");
    m->version = t->version;
    m->created_ns = 1000 + t->seq;
    m->committed_ns = 2000 + t->seq;
    m->ranks = t->ranks;
    m->nodes = t->files;
    m->nfiles = t->files;
    m->files = calloc((size_t)t->files + 1, sizeof(*m->files));
    assert(m->files != NULL);
}

/* Writes and publishes; on failure discards what is not committed, as a flush does. */
static inline cairn_err tv_write(const struct crn_store *st, const struct tv *t,
                                 struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    char file[64][CRN_FILE_NAME] = {0};
    struct crn_manifest m;
    cairn_err rc = CAIRN_OK;
    uint32_t i, rank;

    tv_manifest(t, &m);
    for (rank = 0; rank < t->ranks; rank++)
        for (i = 0; i < TV_REGIONS; i++)
            m.data_bytes += tv_region(t, rank, i).bytes;
    for (i = 0; i < t->files && rc == CAIRN_OK; i++)
        rc = tv_write_file(st, t, i, file[i], &m.files[i], ei);
    if (rc == CAIRN_OK)
        rc = crn_store_publish(st, &m, ei);
    for (i = 0; i < t->files && rc != CAIRN_OK; i++) {
        crn_err_clear(&ignored);
        if (file[i][0] != '\0' &&
            crn_store_discard_data(st, t->name, t->version, file[i], &ignored) != CAIRN_OK)
            continue; /* committed after all, or debris */
    }
    crn_manifest_free(&m);
    return rc;
}

#endif
