/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/test_engine.h"

static int temp_file(const char *dir, const void *data, uint64_t n)
{
    char path[300];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/f-XXXXXX", dir);
    fd = mkstemp(path);
    assert_int_equal(pwrite(fd, data, n, 0), n);
    (void)unlink(path);
    return fd;
}

static void set_encoding(struct engine_fixture *f, const char *const *settings)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const char *const *s;

    crn_config_defaults(&f->cfg);
    assert_ok(crn_config_set(&f->cfg, "encode_chunk", "64K", "test", ei));
    for (s = settings; *s != NULL; s += 2)
        assert_ok(crn_config_set(&f->cfg, s[0], s[1], "test", ei));
    f->is_encoded = f->cfg.names.encode != CRN_ENCODE_NONE;
}

/* Compressible data: a different wave on every shard, and a table that all share. */
static void fill_smooth(struct engine_fixture *f, uint32_t s)
{
    uint64_t n = f->shard[s].regions[2].bytes / sizeof(double);
    unsigned char *p = f->shard[s].image + f->shard[s].at[2];
    uint64_t i;

    for (i = 0; i < n; i++) {
        double v = i % 97 == 0 ? NAN : floor(1000 * cos((double)i * 0.01 + s));

        memcpy(p + i * sizeof(v), &v, sizeof(v));
    }
    memmove(f->shard[s].image + f->shard[s].at[3], f->shard[0].image + f->shard[0].at[3],
            f->shard[0].regions[3].bytes);
}

/* A variable in the middle of the file of shard 4. */
static void find_variable(struct engine_fixture *f)
{
    static const uint64_t shape[] = {30, 40};
    struct crn_file_extents files[REGIONS] = {0};
    struct crn_errinfo info = {0}, *ei = &info;

    crn_extents_add(&files[3], crn_extents_key(&files[3], "in/file", 7), CAIRN_F32, 0, 1001, shape,
                    2);
    crn_extents_finish(&files[3], f->shard[4].regions[3].bytes);
    assert_ok(crn_parts_make(&f->sources[4].shard, files, &f->parts, ei));
    crn_extents_free(&files[3]);
    f->sources[4].parts = &f->parts;
}

/* Checksums as a capture takes them, for the first large region. A block is no multiple of their
 * unit: some cover chunks of the file exactly, others do not. */
static void sum_up(struct engine_fixture *f, uint32_t s)
{
    const unsigned char *p = f->shard[s].image + f->shard[s].at[2];
    uint64_t bytes = f->shard[s].regions[2].bytes;
    uint64_t at;

    for (at = 0; at < bytes; at += UNIT)
        f->sums[s][at / UNIT] = crn_hash(p + at, bytes - at < UNIT ? bytes - at : UNIT);
    f->hashes[s][2] = f->sums[s];
    f->sources[s].hashes = f->hashes[s];
    f->sources[s].hash_chunk_bytes = UNIT;
}

static void make_shard(struct engine_fixture *f, uint32_t s, struct crn_rng *rng)
{
    struct test_shard *shard = &f->shard[s];
    uint32_t r;

    for (r = 0; r < REGIONS; r++) {
        shard->regions[r].type = r == 2 ? CAIRN_F64 : CAIRN_BYTES;
        shard->regions[r].dims[0] = sizes[r] * (s % 3 + 1) / (r == 2 ? sizeof(double) : 1);
    }
    test_shard_lay_out(shard, REGIONS, 1);
    shard->image = malloc(shard->bytes + 1);
    test_shard_fill(shard, rng);
    fill_smooth(f, s);
    f->sources[s] = test_shard_source(shard, 10 + s);
}

void engine_set_up(struct engine_fixture *f, const char *const *settings)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_rng rng;
    char path[300];
    uint32_t s;

    memset(f, 0, sizeof(*f));
    test_dir_make(f->dir, sizeof(f->dir));
    crn_rng_seed(&rng, 99);
    for (s = 0; s < SHARDS; s++) {
        make_shard(f, s, &rng);
        if (s < 3)
            sum_up(f, s);
    }
    f->sources[3].image_fd = temp_file(f->dir, f->shard[3].image, f->shard[3].bytes);
    f->sources[3].memory = NULL;
    f->shard[4].regions[3].kind = CRN_REGION_FILE;
    memset(f->region_fd, -1, sizeof(f->region_fd));
    f->region_fd[3] =
        temp_file(f->dir, f->shard[4].image + f->shard[4].at[3], f->shard[4].regions[3].bytes);
    f->sources[4].region_fd = f->region_fd;
    find_variable(f);
    f->head = (struct crn_index){.version = 7, .files = 1, .ranks = 15, .nodes = 1};
    (void)strcpy(f->head.name, "eng");
    set_encoding(f, settings);
    (void)snprintf(path, sizeof(path), "%s/p", f->dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &f->st, ei));
}

void engine_tear_down(struct engine_fixture *f)
{
    int s;

    crn_store_close(&f->st);
    for (s = 0; s < SHARDS; s++)
        free(f->shard[s].image);
    crn_config_fini(&f->cfg);
    crn_parts_free(&f->parts);
    (void)close(f->sources[3].image_fd);
    (void)close(f->region_fd[3]);
    test_dir_remove(f->dir);
}

struct crn_engine *engine_open(const struct engine_fixture *f, int (*may_join)(void))
{
    struct crn_engine_options opt = {.blocks = 2,
                                     .block_bytes = BLOCK,
                                     .chunk_bytes = UNIT,
                                     .align_bytes = 4096,
                                     .writers = 3,
                                     .may_join = may_join};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_engine *e;

    assert_ok(crn_engine_open(&opt, &e, ei));
    assert_ok(crn_engine_encode(e, &f->cfg, "eng", ei));
    return e;
}

cairn_err write_all(struct engine_fixture *f, struct crn_engine *e,
                    const struct crn_fetcher *fetcher, struct crn_manifest_file *mf,
                    struct crn_flush_stats *stats, struct crn_errinfo *ei)
{
    return crn_engine_write(e, &f->st, &f->head, f->sources, SHARDS, fetcher, mf, stats, ei);
}

void path_of(const struct engine_fixture *f, const char *file, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/p/eng/7/%s", f->dir, file);
}
