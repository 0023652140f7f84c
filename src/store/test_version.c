/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/test_version.h"

struct crn_region tv_region(const struct tv *t, uint32_t rank, uint32_t region)
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
    if (region == 1)
        r.type = t->state_type;
    r.bytes = r.dims[0] * (region == 0 ? TV_COLS : 1) * cairn_type_size((cairn_type)r.type);
    return r;
}

uint32_t tv_element(const struct tv *t, uint64_t row, uint64_t col)
{
    return t->seed * 1000003U + (uint32_t)(row * TV_COLS + col);
}

uint64_t tv_content(const struct tv *t, uint32_t rank, uint32_t region, unsigned char *buf)
{
    struct crn_region r = tv_region(t, rank, region);
    uint64_t i;

    assert(r.bytes <= 256);
    for (i = 0; i < r.bytes; i++)
        buf[i] = (unsigned char)(t->seed * 7 + rank * 31 + region * 101 + i * 3);
    for (i = 0; t->pipe != NULL && region == 3 && i < r.bytes; i++)
        buf[i] = (unsigned char)(t->seed + i * i); /* the same on all ranks: stored once */
    for (i = 0; region == 0 && i < TV_ROWS * TV_COLS; i++) {
        uint32_t v = tv_element(t, (uint64_t)rank * TV_ROWS + i / TV_COLS, i % TV_COLS);
        size_t b;

        for (b = 0; b < 4; b++)
            buf[4 * i + b] = (unsigned char)(v >> (8 * b)); /* the bytes of a little-endian host */
    }
    return r.bytes;
}

struct crn_capture_id tv_id(const struct tv *t)
{
    struct crn_capture_id id = {.seq = t->seq, .generation = t->generation};

    memset(id.run, 0x5a, sizeof(id.run));
    return id;
}

static cairn_err tv_extent(const struct crn_store *st, int fd, const char *file,
                           struct crn_index *x, struct crn_extent e, const unsigned char *data,
                           uint64_t *end, struct crn_errinfo *ei)
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

/* Writes all regions of the ranks of a file, each as two extents. */
static cairn_err tv_fill(const struct crn_store *st, const struct tv *t, int fd, const char *file,
                         struct crn_index *x, uint64_t *end, struct crn_errinfo *ei)
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

/* Appends a region of a shard as two extents; the stream starts at offset `start` of the decoded
 * space. */
static cairn_err tv_append(const struct tv *t, struct crn_index *x, uint32_t shard, uint32_t region,
                           uint64_t start, struct tv_stream *s, struct crn_errinfo *ei)
{
    unsigned char *data = s->bytes + s->n;
    uint64_t bytes = tv_content(t, x->shards[shard].rank, region, data);
    uint64_t half = bytes / 2 + 1;
    uint64_t at, k;

    if (t->older != NULL)
        (void)tv_content(t->older, x->shards[shard].rank, region, s->older + s->n);
    for (at = 0; at < bytes; at += half) {
        struct crn_extent *e = &x->extents[x->nextents++];

        *e = (struct crn_extent){.shard = shard, .region = region, .offset = at};
        e->bytes = bytes - at < half ? bytes - at : half;
        e->file_offset = start + s->map.bytes + at;
        e->first_hash = x->nhashes;
        for (k = 0; k < e->bytes; k += TV_CHUNK)
            x->hashes[x->nhashes++] =
                crn_hash(data + at + k, e->bytes - k < TV_CHUNK ? e->bytes - k : TV_CHUNK);
    }
    if (region != 3 || s->n == 0)
        s->n += bytes;
    return crn_map_add(&s->map, bytes, region != 3 || s->map.n == 0 ? CRN_BLOCK_NEW : 0, ei);
}

/* Encodes the appended bytes chunk by chunk and writes them. */
static cairn_err tv_encode(const struct crn_store *st, const struct tv *t, int fd, const char *file,
                           struct crn_encode_work *work, struct tv_stream *from,
                           struct crn_stream *s, uint64_t *end, struct crn_errinfo *ei)
{
    struct crn_data data = {.type = CAIRN_BYTES};
    struct crn_pipe pipe, plain, used;
    struct crn_buf map = {0};
    unsigned char out[TV_PIECE];
    cairn_err rc = crn_pipe_parse(t->pipe, &pipe, ei);
    uint64_t at;
    size_t n = 0;
    int k;

    if (rc == CAIRN_OK)
        rc = crn_pipe_parse(t->older != NULL ? "delta,gzip" : t->pipe, &plain, ei);
    s->bytes = from->map.bytes;
    s->file_offset = *end;
    s->chunks = calloc(sizeof(from->bytes) / TV_PIECE, sizeof(*s->chunks));
    for (at = 0; rc == CAIRN_OK && at < from->n; at += TV_PIECE) {
        struct crn_stream_chunk *c = &s->chunks[s->nchunks++];

        c->bytes = (uint32_t)(from->n - at < TV_PIECE ? from->n - at : TV_PIECE);
        /* In every third version the first stream is not encoded against the older one. */
        data.previous = t->older != NULL && from->map.n <= 1 && (s->start > 0 || t->seq % 3 != 0)
                            ? from->older + at
                            : NULL;
        rc = crn_chunk_encode(work, data.previous != NULL ? &pipe : &plain, &data, from->bytes + at,
                              c->bytes, out, &n, &used, ei);
        if (rc != CAIRN_OK)
            break;
        if (n == c->bytes) /* raw */
            memcpy(out, from->bytes + at, n);
        c->encoded = (uint32_t)n;
        c->hash = crn_hash(out, n);
        c->nstages = n == c->bytes ? 0 : used.n;
        for (k = 0; k < c->nstages; k++) {
            c->stages[2 * k] = used.stage[k].id;
            c->stages[2 * k + 1] = used.stage[k].arg;
        }
        rc = crn_fs_write_all(st->fs, fd, out, n, *end, file, ei);
        *end += n;
    }
    if (from->map.n > 1) {
        crn_map_encode(&from->map, &map);
        s->map = map.data;
        s->map_bytes = (uint32_t)map.len;
    }
    *end = (*end + TV_ALIGN - 1) / TV_ALIGN * TV_ALIGN;
    return rc;
}

static int tv_by_region(const void *a, const void *b)
{
    const struct crn_extent *x = a;
    const struct crn_extent *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->region != y->region)
        return x->region < y->region ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Writes the same regions and extents as streams. */
static cairn_err tv_fill_streams(const struct crn_store *st, const struct tv *t, int fd,
                                 const char *file, struct crn_index *x, uint64_t *end,
                                 struct crn_errinfo *ei)
{
    struct crn_encode_work *work = NULL;
    cairn_err rc = crn_work_new(&work, ei);
    uint64_t start = 0;
    uint32_t s, r;

    x->streams = calloc(TV_REGIONS, sizeof(*x->streams));
    assert(x->streams != NULL);
    for (r = 0; rc == CAIRN_OK && r < TV_REGIONS; r++) {
        struct tv_stream from = {.n = 0};
        struct crn_stream *to = &x->streams[x->nstreams];

        for (s = 0; rc == CAIRN_OK && s < x->nshards; s++)
            if (tv_region(t, 0, r).bytes > 0)
                rc = tv_append(t, x, s, r, start, &from, ei);
        if (rc == CAIRN_OK && from.n > 0) {
            (void)snprintf(to->key, sizeof(to->key), "%s", tv_region(t, 0, r).name);
            to->start = start;
            x->nstreams++;
            rc = tv_encode(st, t, fd, file, work, &from, to, end, ei);
            start += to->bytes;
        }
        crn_map_free(&from.map);
    }
    crn_work_free(work);
    qsort(x->extents, x->nextents, sizeof(*x->extents), tv_by_region);
    return rc;
}

/* The chain of a file: the file of the older version, then the chain of that file. */
static cairn_err tv_bases(const struct crn_store *st, const struct tv *t, uint32_t file_no,
                          struct crn_index *x, struct crn_errinfo *ei)
{
    struct crn_manifest m;
    const struct crn_manifest_file *f;
    cairn_err rc;

    if (t->older == NULL)
        return CAIRN_OK;
    rc = crn_store_manifest(st, t->name, t->older->version, &m, ei);
    if (rc != CAIRN_OK)
        return rc;
    f = &m.files[file_no];
    x->bases = calloc((size_t)f->nbases + 1, sizeof(*x->bases));
    assert(x->bases != NULL);
    x->bases[0] = (struct crn_base){
        .version = m.version, .id = m.id, .bytes = f->bytes, .index_hash = f->trailer.index_hash};
    memcpy(x->bases[0].file, f->name, sizeof(f->name));
    for (x->nbases = 1; x->nbases <= f->nbases; x->nbases++)
        x->bases[x->nbases] = f->bases[x->nbases - 1];
    crn_manifest_free(&m);
    return CAIRN_OK;
}

cairn_err tv_write_file(const struct crn_store *st, const struct tv *t, uint32_t file_no,
                        char file[CRN_FILE_NAME], struct crn_manifest_file *ret,
                        struct crn_errinfo *ei)
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
    rc = tv_bases(st, t, file_no, &x, ei);
    if (rc == CAIRN_OK)
        rc = t->pipe != NULL ? tv_fill_streams(st, t, fd, file, &x, &end, ei)
                             : tv_fill(st, t, fd, file, &x, &end, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_finish_data(st, fd, file, end, &x, ret, ei);
    else
        (void)st->fs->close(st->fs, fd);
    crn_index_free(&x);
    return rc;
}

void tv_manifest(const struct tv *t, struct crn_manifest *m)
{
    memset(m, 0, sizeof(*m));
    m->id = tv_id(t);
    (void)snprintf(m->name, sizeof(m->name), "%s", t->name);
    (void)snprintf(m->job, sizeof(m->job), "job 7");
    m->version = t->version;
    m->created_ns = 1000 + t->seq;
    m->committed_ns = t->committed_ns != 0 ? t->committed_ns : 2000 + t->seq;
    m->ranks = t->ranks;
    m->nodes = t->files;
    m->nfiles = t->files;
    m->files = calloc((size_t)t->files + 1, sizeof(*m->files));
    assert(m->files != NULL);
}

cairn_err tv_write(const struct crn_store *st, const struct tv *t, struct crn_errinfo *ei)
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
