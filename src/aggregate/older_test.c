/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are encoded against the previous version: shards of random shapes on this node and
 * on others are decoded with the older bytes and compared, within the pool. Also cases that must
 * not be encoded that way. */
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "aggregate/engine.h"
#include "base/rng.h"
#include "base/test.h"
#include "encode/stream.h"
#include "encode/work.h"

enum { SHARDS = 6, REGIONS = 5, BLOCK = 256 * 1024, BLOCKS = 3, FULL_EVERY = 3 };

/* One capture of all shards. */
struct older_test_capture {
    struct crn_region regions[SHARDS][REGIONS];
    uint64_t at[SHARDS][REGIONS];
    unsigned char *image[SHARDS];
    uint64_t bytes[SHARDS];
    struct crn_source sources[SHARDS];
};

struct older_test_world {
    char dir[256];
    struct crn_config cfg;
    struct crn_rng rng;
    struct crn_engine *engine;
    struct crn_store st;
    struct crn_index head;
    uint32_t nshards;
    struct older_test_capture before, now;
    struct crn_manifest_file file;
    struct crn_index index; /* of the file that was written last */
    uint64_t nolder;        /* extents of the older version that were requested */
};

/* Shapes. -------------------------------------------------------------------------------------- */

static void make_region(struct older_test_world *w, struct crn_region *r, uint32_t number)
{
    static const uint8_t types[] = {CAIRN_F64, CAIRN_F32, CAIRN_BYTES, CAIRN_I32, CAIRN_U16};
    static const uint64_t most[] = {10, 3000, 200000, 40000, 5000};
    struct crn_errinfo info = {0}, *ei = &info;

    (void)snprintf(r->name, sizeof(r->name), "v%u", number);
    r->type = types[number];
    r->ndims = number == 1 ? 2 : 1;
    r->dims[0] = crn_rng_u64(&w->rng) % most[number];
    if (number == 1)
        r->dims[1] = 1 + crn_rng_u64(&w->rng) % 30;
    assert_ok(crn_region_check(r, ei));
}

static void lay_out(struct older_test_capture *c, uint32_t s, uint32_t nregions)
{
    uint32_t r;

    c->bytes[s] = 0;
    for (r = 0; r < nregions; r++) {
        c->at[s][r] = c->bytes[s];
        c->bytes[s] += (c->regions[s][r].bytes + 63) / 64 * 64;
    }
    c->image[s] = calloc(1, c->bytes[s] + 1);
    assert_non_null(c->image[s]);
}

static void describe(struct older_test_capture *c, uint32_t s, uint32_t nregions, uint32_t owner)
{
    c->sources[s] = (struct crn_source){
        .shard = {.rank = 7 + 2 * s, .nregions = nregions, .regions = c->regions[s]},
        .at = c->at[s],
        .memory = owner == 0 ? c->image[s] : NULL,
        .image_fd = -1,
        .owner = owner};
}

/* Noise in which every 50th byte changes between versions, and numbers that grow. */
static void fill_region(const struct crn_region *r, unsigned char *p, uint32_t shard, double time)
{
    uint64_t i;

    for (i = 0; r->type != CAIRN_F32 && i < r->bytes; i++)
        p[i] = (unsigned char)((i + shard) * (i + shard) * 0x9e3779b97f4a7c15U >> 40) ^
               (i % 50 == 0 && time > 0);
    for (i = 0; r->type == CAIRN_F32 && i < r->bytes / sizeof(float); i++) {
        float v = (float)(sin((double)(i * i + shard)) * (1 + time));

        memcpy(p + i * sizeof(v), &v, sizeof(v));
    }
}

static void fill(struct older_test_world *w, struct older_test_capture *c, double time)
{
    uint32_t s, r;

    for (s = 0; s < w->nshards; s++)
        for (r = 0; r < c->sources[s].shard.nregions; r++)
            fill_region(&c->regions[s][r], c->image[s] + c->at[s][r], s, time);
}

static void make_captures(struct older_test_world *w)
{
    uint32_t s, r;

    w->nshards = 1 + (uint32_t)(crn_rng_u64(&w->rng) % SHARDS);
    for (s = 0; s < w->nshards; s++) {
        uint32_t nregions = (uint32_t)(crn_rng_u64(&w->rng) % (REGIONS + 1));
        uint32_t owner = (uint32_t)(crn_rng_u64(&w->rng) % 3);

        for (r = 0; r < nregions; r++)
            make_region(w, &w->before.regions[s][r], r);
        memcpy(w->now.regions[s], w->before.regions[s], sizeof(w->now.regions[s]));
        lay_out(&w->before, s, nregions);
        lay_out(&w->now, s, nregions);
        describe(&w->before, s, nregions, owner);
        describe(&w->now, s, nregions, owner);
    }
    fill(w, &w->before, 0);
    fill(w, &w->now, 0.001);
}

static void free_captures(struct older_test_world *w)
{
    uint32_t s;

    for (s = 0; s < w->nshards; s++) {
        free(w->before.image[s]);
        free(w->now.image[s]);
    }
    memset(&w->before, 0, sizeof(w->before));
    memset(&w->now, 0, sizeof(w->now));
}

static void set_up(struct older_test_world *w, const char *encode, const char *pipe, uint64_t seed)
{
    struct crn_engine_options opt = {.blocks = BLOCKS,
                                     .block_bytes = BLOCK,
                                     .chunk_bytes = 5000,
                                     .align_bytes = 4096,
                                     .writers = 2};
    struct crn_errinfo info = {0}, *ei = &info;
    char path[300];

    memset(w, 0, sizeof(*w));
    test_dir_make(w->dir, sizeof(w->dir));
    crn_rng_seed(&w->rng, seed);
    crn_config_defaults(&w->cfg);
    assert_ok(crn_config_set(&w->cfg, "encode", encode, "test", ei));
    assert_ok(crn_config_set(&w->cfg, "encode_pipe", pipe, "test", ei));
    assert_ok(crn_config_set(&w->cfg, "encode_chunk", "64K", "test", ei));
    w->cfg.names.encode_full_every = FULL_EVERY;
    (void)snprintf(path, sizeof(path), "%s/p", w->dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &w->st, ei));
    assert_ok(crn_engine_open(&opt, &w->engine, ei));
    w->head = (struct crn_index){.version = 1, .files = 1, .ranks = 100, .nodes = 3};
    (void)strcpy(w->head.name, "old");
}

static void tear_down(struct older_test_world *w)
{
    crn_engine_close(w->engine);
    crn_store_close(&w->st);
    crn_config_fini(&w->cfg);
    test_dir_remove(w->dir);
}

/* Writing. ------------------------------------------------------------------------------------- */

struct older_test_far_away {
    struct older_test_world *w;
    const struct older_test_capture *now;
};

static void answer(void *arg, const struct crn_write *wr, const struct crn_extent *extents,
                   const uint64_t *order, int is_older, void *block)
{
    struct older_test_far_away *far = arg;
    const struct older_test_capture *c = is_older ? &far->w->before : far->now;
    unsigned char *dst = block;
    uint32_t i;

    for (i = 0; i < wr->nsegments; i++) {
        const struct crn_extent *x = &extents[order[wr->first + i]];

        memcpy(dst, c->image[x->shard] + c->at[x->shard][x->region] + x->offset, x->bytes);
        dst += x->bytes;
        far->w->nolder += (uint64_t)is_older;
    }
    crn_engine_arrived(far->w->engine, wr, NULL);
}

/* Writes a capture as version `version`; fills w->file and w->index. */
static void write_capture(struct older_test_world *w, const struct older_test_capture *c,
                          int64_t version, const struct crn_older *older)
{
    struct older_test_far_away far = {.w = w, .now = c};
    struct crn_fetcher fetcher = {.fetch = answer, .arg = &far};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file described;
    struct crn_flush_stats stats;

    crn_manifest_file_free(&w->file);
    crn_index_free(&w->index);
    w->nolder = 0;
    w->head.version = version;
    w->head.id.seq = (uint64_t)version;
    assert_ok(crn_engine_encode(w->engine, &w->cfg, "old", ei));
    crn_engine_against(w->engine, older);
    assert_ok(crn_engine_write(w->engine, &w->st, &w->head, c->sources, w->nshards, &fetcher,
                               &w->file, &stats, ei));
    assert_true(stats.most_blocks <= BLOCKS);
    crn_flush_stats_free(&stats);
    assert_ok(
        crn_store_describe_data(&w->st, "old", version, w->file.name, &described, &w->index, ei));
    assert_int_equal(w->index.nbases, w->file.nbases);
    crn_manifest_file_free(&described);
}

/* Reading. ------------------------------------------------------------------------------------- */

/* The bytes of a capture in the order of an index's streams. */
static unsigned char *in_streams(const struct older_test_world *w,
                                 const struct older_test_capture *c)
{
    uint64_t bytes = 0;
    unsigned char *space;
    uint64_t i;

    for (i = 0; i < w->index.nextents; i++)
        bytes += w->index.extents[i].bytes;
    space = malloc(bytes + 1);
    assert_non_null(space);
    for (i = 0; i < w->index.nextents; i++) {
        const struct crn_extent *x = &w->index.extents[i];

        memcpy(space + x->file_offset, c->image[x->shard] + c->at[x->shard][x->region] + x->offset,
               x->bytes);
    }
    return space;
}

struct stored {
    int fd;
    const struct crn_stream *stream;
    const unsigned char *older; /* of the stream */
};

static cairn_err fetch_chunk(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    const struct stored *s = ctx;
    uint64_t at = s->stream->file_offset;
    size_t i;

    for (i = 0; i < chunk; i++)
        at += s->stream->chunks[i].encoded;
    return crn_fs_read_all(crn_fs_posix(), s->fd, buf, s->stream->chunks[chunk].encoded, at, "test",
                           ei);
}

static cairn_err fetch_older(void *ctx, uint64_t offset, size_t n, void *buf,
                             struct crn_errinfo *ei)
{
    (void)ei;
    memcpy(buf, ((const struct stored *)ctx)->older + offset, n);
    return CAIRN_OK;
}

static void check_stream(struct stored *stored, struct crn_encode_work *work,
                         const unsigned char *want)
{
    const struct crn_stream *s = stored->stream;
    struct crn_chunk_record *records = calloc(s->nchunks + (size_t)1, sizeof(*records));
    struct crn_reader_options o = {.records = records,
                                   .n = s->nchunks,
                                   .fetch = fetch_chunk,
                                   .fetch_previous = stored->older != NULL ? fetch_older : NULL,
                                   .ctx = stored};
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char *got = malloc(s->bytes + 1);
    struct crn_reader *reader;
    uint64_t at = 0;
    uint32_t i;

    assert_int_equal(s->map_bytes, 0);
    for (i = 0; i < s->nchunks; i++) {
        records[i] = (struct crn_chunk_record){.offset = at,
                                               .bytes = s->chunks[i].bytes,
                                               .encoded = s->chunks[i].encoded,
                                               .hash = s->chunks[i].hash};
        at += s->chunks[i].bytes;
    }
    assert_ok(crn_reader_open(&o, work, &reader, ei));
    assert_ok(crn_reader_read(reader, 0, got, s->bytes, ei));
    assert_memory_equal(got, want, s->bytes);
    crn_reader_close(reader);
    free(got);
    free(records);
}

/* The last file decodes to the capture, against the previous version if it has a chain. */
static void check_file(const struct older_test_world *w, const struct older_test_capture *c)
{
    unsigned char *want = in_streams(w, c);
    unsigned char *older = in_streams(w, &w->before);
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_encode_work *work;
    struct stored s;
    char path[400];
    uint32_t i;

    (void)snprintf(path, sizeof(path), "%s/p/old/%d/%s", w->dir, (int)w->index.version,
                   w->file.name);
    s.fd = open(path, O_RDONLY);
    assert_true(s.fd >= 0);
    assert_ok(crn_work_new(&work, ei));
    for (i = 0; i < w->index.nstreams; i++) {
        s.stream = &w->index.streams[i];
        s.older = w->index.nbases > 0 ? older + s.stream->start : NULL;
        check_stream(&s, work, want + s.stream->start);
    }
    crn_work_free(work);
    (void)close(s.fd);
    free(want);
    free(older);
}

/* Tests. --------------------------------------------------------------------------------------- */

/* The previous version as the caller knows it once it is on the file system. */
static void take_base(struct older_test_world *w, struct crn_base *base, struct crn_index *index,
                      struct crn_older *ret)
{
    *base = (struct crn_base){.version = w->index.version,
                              .id = w->index.id,
                              .bytes = w->file.bytes,
                              .index_hash = w->file.trailer.index_hash};
    memcpy(base->file, w->file.name, strlen(w->file.name) + 1);
    *index = w->index;
    memset(&w->index, 0, sizeof(w->index));
    *ret = (struct crn_older){
        .sources = w->before.sources, .index = index, .bases = base, .nbases = 1};
}

static int has_data(const struct older_test_world *w)
{
    uint32_t s;

    for (s = 0; s < w->nshards; s++)
        if (w->now.bytes[s] > 64 * 1024) /* a smaller shard may consist of headers only */
            return 1;
    return 0;
}

static void shapes_of_all_kinds(const char *encode, const char *pipe, uint64_t seed)
{
    struct crn_base base;
    struct crn_index index;
    struct crn_older older;
    struct older_test_world w;
    int round;

    set_up(&w, encode, pipe, seed);
    for (round = 0; round < 12; round++) {
        uint64_t full;

        make_captures(&w);
        write_capture(&w, &w.before, 1, NULL);
        assert_int_equal(w.index.nbases, 0);
        check_file(&w, &w.before);
        full = w.file.bytes;
        take_base(&w, &base, &index, &older);
        write_capture(&w, &w.now, 2, &older);
        check_file(&w, &w.now);
        if (has_data(&w)) {
            assert_int_equal(w.index.nbases, 1);
            assert_string_equal(w.index.bases[0].file, base.file);
            assert_true(w.file.bytes < full);
        }
        crn_index_free(&index);
        free_captures(&w);
    }
    crn_manifest_file_free(&w.file);
    crn_index_free(&w.index);
    tear_down(&w);
}

static void decoded_it_is_the_new_version(void **state)
{
    (void)state;
    shapes_of_all_kinds("adaptive", "auto", 1);
    shapes_of_all_kinds("aware", "lorenzo:9,planes", 2);
    shapes_of_all_kinds("aware", "xor:1,zstd:1", 3);
    shapes_of_all_kinds("aware-block", "lorenzo:8,planes", 4);
    shapes_of_all_kinds("agnostic", "delta:1,zstd:1", 5);
}

/* Shards that are equal now but differed before are not repeats of one another, because they are
 * encoded against different bytes. */
static void equal_now_but_not_before(void **state)
{
    struct crn_base base;
    struct crn_index index;
    struct crn_older older;
    struct older_test_world w;
    uint32_t s;
    uint64_t i;

    (void)state;
    set_up(&w, "adaptive", "auto", 6);
    w.nshards = 4;
    for (s = 0; s < w.nshards; s++) {
        struct crn_region *r = &w.before.regions[s][0];
        struct crn_errinfo info = {0}, *ei = &info;

        *r = (struct crn_region){.name = "v", .type = CAIRN_BYTES, .ndims = 1, .dims = {100000}};
        assert_ok(crn_region_check(r, ei));
        w.now.regions[s][0] = *r;
        lay_out(&w.before, s, 1);
        lay_out(&w.now, s, 1);
        describe(&w.before, s, 1, s % 2);
        describe(&w.now, s, 1, s % 2);
        fill_region(r, w.now.image[s] + w.now.at[s][0], 7, 1);
        fill_region(r, w.before.image[s] + w.before.at[s][0], 7, 1);
        for (i = s; i < r->bytes; i += 50)
            w.before.image[s][w.before.at[s][0] + i] ^= (unsigned char)(1 + s);
    }
    write_capture(&w, &w.before, 1, NULL);
    take_base(&w, &base, &index, &older);
    write_capture(&w, &w.now, 2, &older);
    assert_int_equal(w.index.nbases, 1);
    check_file(&w, &w.now);
    crn_index_free(&index);
    free_captures(&w);
    crn_manifest_file_free(&w.file);
    crn_index_free(&w.index);
    tear_down(&w);
}

/* Each mismatch gives a full and correct file. The last two affect only some streams. */
enum odd {
    ODD_BYTES,
    ODD_NAME,
    ODD_RANK,
    ODD_FEWER,
    ODD_OWNER,
    ODD_GONE,
    ODD_CHUNKS,
    ODD_LOSSY,
    ODDS
};

static void make_odd(struct older_test_world *w, enum odd odd, struct older_test_capture *gone)
{
    struct crn_errinfo info = {0}, *ei = &info;

    switch (odd) {
    case ODD_BYTES:
        w->now.regions[0][2].dims[0]--;
        assert_ok(crn_region_check(&w->now.regions[0][2], ei));
        break;
    case ODD_NAME:
        (void)strcpy(w->now.regions[0][2].name, "other");
        break;
    case ODD_RANK:
        w->now.sources[0].shard.rank++;
        break;
    case ODD_FEWER:
        w->now.sources[0].shard.nregions--;
        break;
    case ODD_OWNER: /* another node owns it now */
        gone->sources[0].owner = 1;
        break;
    case ODD_GONE:
        gone->sources[0].memory = NULL;
        break;
    case ODD_CHUNKS:
        assert_ok(crn_config_set(&w->cfg, "encode_chunk", "80K", "test", ei));
        break;
    default: /* the older file is lossy */
        assert_ok(crn_config_set(&w->cfg, "encode_lossy", "", "test", ei));
        break;
    }
}

static int needs_older(struct crn_stream *s)
{
    struct crn_index one = {.nstreams = 1, .streams = s};

    return crn_older_is_needed(&one);
}

static void check_odd(struct older_test_world *w, enum odd odd)
{
    uint32_t i;

    check_file(w, &w->now);
    if (odd != ODD_CHUNKS && odd != ODD_LOSSY) {
        assert_int_equal(w->index.nbases, 0);
        assert_int_equal(w->nolder, 0);
        return;
    }
    for (i = 0; i < w->index.nstreams; i++) {
        struct crn_stream *s = &w->index.streams[i];

        if (odd == ODD_CHUNKS ? s->bytes > 64 * 1024 : s->type == CAIRN_F32)
            assert_false(needs_older(s));
        else if (s->bytes > 10000)
            assert_true(needs_older(s));
    }
}

static void what_is_not_alike_is_full(void **state)
{
    enum odd odd;

    (void)state;
    for (odd = 0; odd < ODDS; odd++) {
        struct crn_base base;
        struct crn_index index;
        struct crn_older older;
        struct older_test_capture gone;
        struct older_test_world w;

        set_up(&w, "adaptive", "auto", 77);
        if (odd == ODD_LOSSY && crn_codec_zfp.encode != NULL)
            (void)strcpy(w.cfg.names.encode_lossy, "v1:abs:1e-3");
        do {
            free_captures(&w);
            make_captures(&w);
        } while (w.now.sources[0].shard.nregions < 3 || w.now.regions[0][2].bytes < 100000 ||
                 w.now.sources[0].owner != 0);
        write_capture(&w, &w.before, 1, NULL);
        take_base(&w, &base, &index, &older);
        gone = w.before;
        older.sources = gone.sources;
        make_odd(&w, odd, &gone);
        write_capture(&w, &w.now, 2, &older);
        check_odd(&w, odd);
        crn_index_free(&index);
        free_captures(&w);
        crn_manifest_file_free(&w.file);
        crn_index_free(&w.index);
        tear_down(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoded_it_is_the_new_version),
        cmocka_unit_test(equal_now_but_not_before),
        cmocka_unit_test(what_is_not_alike_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
