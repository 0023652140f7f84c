/* SPDX-License-Identifier: BSD-3-Clause */
/* make_version DIR NAME VERSION [KEY=VALUE...]: writes a version with known contents through the store,
 * as a flush would. Keys: ranks=4 files=2 seed=1 chunk=4096 rows=8 cols=6 partial=0
 * file=log.txt.
 *
 * Regions of rank r, with g the global row: "field" f64, rows x cols, element seed + g*cols + c, a
 * block of the global array (ranks*rows) x cols; "step" i64, VERSION; "count" i32, r+1 elements, r*100+i;
 * "wave" c64, 3 elements; a file. partial=1 leaves the manifest out. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "store/store.h"

struct spec {
    const char *name;
    int64_t version;
    long ranks, files, seed, chunk, rows, cols, partial;
    const char *file; /* name of the file */
};

#define REGIONS 5

static struct crn_region describe(const struct spec *s, uint32_t rank, uint32_t region)
{
    const char *const names[REGIONS] = {"field", "step", "count", "wave", s->file};
    static const uint8_t types[REGIONS] = {CAIRN_F64, CAIRN_I64, CAIRN_I32, CAIRN_C64, CAIRN_BYTES};
    const uint64_t counts[REGIONS] = {0, 1, rank + 1, 3, 20};
    struct crn_region r = {.ndims = 1};

    (void)snprintf(r.name, sizeof(r.name), "%s", names[region]);
    r.type = types[region];
    r.kind = region == 4 ? CRN_REGION_FILE : CRN_REGION_MEMORY;
    r.dims[0] = counts[region];
    if (region == 0) {
        r.ndims = 2;
        r.is_global = 1;
        r.dims[0] = (uint64_t)s->rows;
        r.dims[1] = r.global_dims[1] = (uint64_t)s->cols;
        r.global_dims[0] = (uint64_t)(s->rows * s->ranks);
        r.offset[0] = (uint64_t)s->rows * rank;
    }
    if (crn_region_check(&r, NULL) != CAIRN_OK)
        exit(3);
    return r;
}

static void fill_field(const struct spec *s, uint32_t rank, double *x)
{
    long i;

    for (i = 0; i < s->rows * s->cols; i++)
        x[i] = (double)(s->seed + (long)rank * s->rows * s->cols + i);
}

/* The region's bytes, malloc'ed. */
static void *content(const struct spec *s, uint32_t rank, const struct crn_region *r)
{
    void *buf = calloc(1, r->bytes + 64);
    uint32_t i;

    if (buf == NULL)
        exit(3);
    if (r->kind == CRN_REGION_FILE)
        (void)snprintf(buf, r->bytes + 1, "the log of rank %04" PRIu32, rank);
    else if (strcmp(r->name, "field") == 0)
        fill_field(s, rank, buf);
    else if (strcmp(r->name, "step") == 0)
        memcpy(buf, &s->version, sizeof(s->version));
    else if (strcmp(r->name, "count") == 0)
        for (i = 0; i <= rank; i++)
            ((int32_t *)buf)[i] = (int32_t)(rank * 100 + i);
    else if (strcmp(r->name, "wave") == 0)
        for (i = 0; i < 6; i++)
            ((float *)buf)[i] = (float)i + 0.5F * (float)rank;
    return buf;
}

struct writer {
    struct crn_store store;
    struct crn_errinfo ei;
    const struct spec *s;
    struct crn_index x;
    int fd;
    uint64_t at; /* end of the data */
};

static void must(struct writer *w, cairn_err rc)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "make_version: %s\n", w->ei.msg);
    exit(3);
}

static void add_hashes(struct writer *w, const void *buf, uint64_t bytes)
{
    const unsigned char *p = buf;
    uint64_t at, n;

    for (at = 0; at < bytes; at += n) {
        n = bytes - at < w->x.chunk_bytes ? bytes - at : w->x.chunk_bytes;
        w->x.hashes[w->x.nhashes++] = crn_hash(p + at, n);
    }
}

static void add_region(struct writer *w, uint32_t shard, uint32_t region)
{
    struct crn_shard *sh = &w->x.shards[shard];
    struct crn_region *r = &sh->regions[region];
    struct crn_extent *e = &w->x.extents[w->x.nextents++];
    void *buf;

    *r = describe(w->s, sh->rank, region);
    buf = content(w->s, sh->rank, r);
    *e = (struct crn_extent){.shard = shard,
                             .region = region,
                             .bytes = r->bytes,
                             .file_offset = w->at,
                             .first_hash = w->x.nhashes};
    add_hashes(w, buf, r->bytes);
    must(w, crn_fs_write_all(w->store.fs, w->fd, buf, r->bytes, w->at, "data", &w->ei));
    w->at += (r->bytes + 63) / 64 * 64;
    free(buf);
}

static void begin_index(struct writer *w, uint32_t file_no, const struct crn_manifest *m)
{
    const struct spec *s = w->s;
    uint64_t chunks = (uint64_t)(s->rows * s->cols * 8 / s->chunk + 2);

    memset(&w->x, 0, sizeof(w->x));
    w->at = 0;
    w->x.id = m->id;
    memcpy(w->x.name, m->name, sizeof(w->x.name));
    w->x.version = s->version;
    w->x.file_no = file_no;
    w->x.files = m->nfiles;
    w->x.ranks = m->ranks;
    w->x.nodes = m->nodes;
    w->x.created_ns = m->created_ns;
    w->x.chunk_bytes = (uint64_t)s->chunk;
    w->x.shards = calloc((size_t)s->ranks, sizeof(*w->x.shards));
    w->x.extents = calloc((size_t)s->ranks * REGIONS, sizeof(*w->x.extents));
    w->x.hashes = calloc((size_t)s->ranks * (chunks + 2 * REGIONS), sizeof(*w->x.hashes));
    if (w->x.shards == NULL || w->x.extents == NULL || w->x.hashes == NULL)
        exit(3);
}

/* File f holds the ranks f, f + files, ... */
static void write_file(struct writer *w, uint32_t file_no, struct crn_manifest *m)
{
    char file[CRN_FILE_NAME];
    uint32_t rank, region;

    begin_index(w, file_no, m);
    must(w, crn_store_create_data(&w->store, m->name, m->version, file_no, file, &w->fd, &w->ei));
    for (rank = file_no; rank < m->ranks; rank += m->nfiles) {
        struct crn_shard *sh = &w->x.shards[w->x.nshards++];

        sh->rank = rank;
        sh->nregions = REGIONS;
        sh->regions = calloc(REGIONS, sizeof(*sh->regions));
        if (sh->regions == NULL)
            exit(3);
        for (region = 0; region < REGIONS; region++) {
            m->data_bytes += describe(w->s, rank, region).bytes;
            add_region(w, w->x.nshards - 1, region);
        }
    }
    must(w,
         crn_store_finish_data(&w->store, w->fd, file, w->at, &w->x, &m->files[file_no], &w->ei));
    crn_index_free(&w->x);
}

static void parse(struct spec *s, char **argv)
{
    struct {
        const char *key;
        long *value;
    } keys[] = {{"ranks=", &s->ranks},    {"files=", &s->files}, {"seed=", &s->seed},
                {"chunk=", &s->chunk},    {"rows=", &s->rows},   {"cols=", &s->cols},
                {"partial=", &s->partial}};
    size_t i;

    for (; *argv != NULL; argv++) {
        if (strncmp(*argv, "file=", 5) == 0)
            s->file = *argv + 5;
        for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            if (strncmp(*argv, keys[i].key, strlen(keys[i].key)) == 0)
                *keys[i].value = strtol(*argv + strlen(keys[i].key), NULL, 10);
    }
}

int main(int argc, char **argv)
{
    struct spec s = {
        .ranks = 4, .files = 2, .seed = 1, .chunk = 4096, .rows = 8, .cols = 6, .file = "log.txt"};
    const struct crn_clock *clock = crn_clock_real();
    struct crn_manifest m = {0};
    struct writer w = {.s = &s};
    uint32_t f;

    if (argc < 4) {
        (void)fprintf(stderr, "usage: make_version DIR NAME VERSION [KEY=VALUE...]\n");
        return 2;
    }
    s.name = argv[2];
    s.version = strtoll(argv[3], NULL, 10);
    parse(&s, argv + 4);
    (void)snprintf(m.name, sizeof(m.name), "%s", s.name);
    (void)snprintf(m.job, sizeof(m.job), "test");
    memset(m.id.run, 7, sizeof(m.id.run));
    m.id.seq = (uint64_t)clock->wall_ns(clock); /* a later one replaces an earlier one */
    m.version = s.version;
    m.created_ns = m.committed_ns = (uint64_t)clock->wall_ns(clock);
    m.ranks = (uint32_t)s.ranks;
    m.nodes = m.nfiles = (uint32_t)s.files;
    m.files = calloc(m.nfiles, sizeof(*m.files));
    must(&w, crn_store_open(crn_fs_default(), argv[1], 1, &w.store, &w.ei));
    for (f = 0; f < m.nfiles; f++)
        write_file(&w, f, &m);
    if (!s.partial)
        must(&w, crn_store_publish(&w.store, &m, &w.ei));
    crn_manifest_free(&m);
    crn_store_close(&w.store);
    return 0;
}
