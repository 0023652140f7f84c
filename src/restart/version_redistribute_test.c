/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores a global array as random, possibly overlapping blocks and reads it back as other random
 * blocks. */
#include "base/rng.h"
#include "base/test.h"
#include "restart/version.h"

#define MAX_RANKS 24
#define MAX_BYTES 65536

struct array {
    unsigned ndims;
    uint64_t dims[CAIRN_MAX_DIMS];
    cairn_type type;
    uint32_t ranks;
    struct crn_region block[MAX_RANKS];
};

static unsigned char element_byte(uint64_t linear, size_t b)
{
    return (unsigned char)((linear * 2654435761U) >> (8 * (b % 4)));
}

/* The contents of a block: the position in the global array determines each element. */
static void fill(const struct array *a, const struct crn_region *r, unsigned char *buf)
{
    size_t element = cairn_type_size(a->type);
    uint64_t n = r->bytes / element;
    uint64_t i;

    for (i = 0; i < n; i++) {
        uint64_t linear = 0;
        uint64_t rest = i;
        uint64_t pos[CAIRN_MAX_DIMS];
        unsigned d;
        size_t b;

        for (d = a->ndims; d-- > 0;) {
            pos[d] = r->offset[d] + rest % r->dims[d];
            rest /= r->dims[d];
        }
        for (d = 0; d < a->ndims; d++)
            linear = linear * a->dims[d] + pos[d];
        for (b = 0; b < element; b++)
            buf[i * element + b] = element_byte(linear, b);
    }
}

static void finish_block(const struct array *a, struct crn_region *r)
{
    struct crn_errinfo info = {0}, *ei = &info;

    (void)snprintf(r->name, sizeof(r->name), "field");
    r->type = (uint8_t)a->type;
    r->ndims = (uint8_t)a->ndims;
    r->is_global = 1;
    memcpy(r->global_dims, a->dims, sizeof(a->dims));
    assert_ok(crn_region_check(r, ei));
    assert_true(r->bytes <= MAX_BYTES);
}

/* Repeatedly cuts a block in two at a random position of a random dimension. */
static void random_array(struct crn_rng *rng, struct array *a)
{
    static const cairn_type types[] = {CAIRN_U8, CAIRN_I32, CAIRN_F64, CAIRN_C128};
    uint32_t i;
    unsigned d;

    memset(a, 0, sizeof(*a));
    a->ndims = 1 + (unsigned)crn_rng_below(rng, 4);
    a->type = types[crn_rng_below(rng, 4)];
    a->ranks = 1;
    for (d = 0; d < a->ndims; d++)
        a->block[0].dims[d] = a->dims[d] = 1 + crn_rng_below(rng, a->ndims < 3 ? 30 : 8);
    while (a->ranks < MAX_RANKS - 4 && crn_rng_below(rng, 12) != 0) {
        struct crn_region *r = &a->block[crn_rng_below(rng, a->ranks)];
        uint64_t cut;

        d = (unsigned)crn_rng_below(rng, a->ndims);
        cut = crn_rng_below(rng, r->dims[d] + 1); /* one half may be empty */
        a->block[a->ranks] = *r;
        a->block[a->ranks].offset[d] += cut;
        a->block[a->ranks++].dims[d] -= cut;
        r->dims[d] = cut;
    }
    for (i = 0; i < a->ranks; i++)
        finish_block(a, &a->block[i]);
}

static void random_block(struct crn_rng *rng, const struct array *a, struct crn_region *r)
{
    unsigned d;

    memset(r, 0, sizeof(*r));
    for (d = 0; d < a->ndims; d++) {
        r->offset[d] = crn_rng_below(rng, a->dims[d] + 1);
        r->dims[d] = crn_rng_below(rng, a->dims[d] - r->offset[d] + 1);
    }
    finish_block(a, r);
}

static void add_extent(struct crn_index *x, uint32_t shard, const unsigned char *data, uint64_t at,
                       uint64_t bytes, uint64_t file_offset)
{
    uint64_t c;

    x->extents[x->nextents++] = (struct crn_extent){.shard = shard,
                                                    .offset = at,
                                                    .bytes = bytes,
                                                    .file_offset = file_offset,
                                                    .first_hash = x->nhashes};
    for (c = 0; c < bytes; c += x->chunk_bytes)
        x->hashes[x->nhashes++] =
            crn_hash(data + at + c, bytes - c < x->chunk_bytes ? bytes - c : x->chunk_bytes);
}

/* Writes the array as a version: one file, ranks in order, extents of random lengths. */
static void write_array(struct crn_rng *rng, const struct crn_store *st, const struct array *a,
                        int64_t version)
{
    static unsigned char data[MAX_BYTES];
    struct crn_index x = {.name = "a", .version = version, .files = 1, .nodes = 1};
    struct crn_manifest m = {.name = "a", .version = version, .nodes = 1, .nfiles = 1};
    struct crn_errinfo info = {0}, *ei = &info;
    char file[CRN_FILE_NAME];
    uint64_t end = 0;
    uint32_t i;
    int fd;

    x.ranks = m.ranks = x.nshards = a->ranks;
    x.chunk_bytes = 1 + crn_rng_below(rng, 200);
    x.shards = calloc(a->ranks, sizeof(*x.shards));
    x.extents = calloc(a->ranks * 2, sizeof(*x.extents));
    x.hashes = calloc(a->ranks * 2 * (MAX_BYTES / x.chunk_bytes + 1), sizeof(*x.hashes));
    assert_ok(crn_store_create_data(st, "a", version, 0, file, &fd, ei));
    for (i = 0; i < a->ranks; i++) {
        uint64_t bytes = a->block[i].bytes;
        uint64_t half = bytes > 1 ? 1 + crn_rng_below(rng, bytes - 1) : bytes;

        x.shards[i] = (struct crn_shard){.rank = i, .nregions = 1};
        x.shards[i].regions = calloc(1, sizeof(struct crn_region));
        x.shards[i].regions[0] = a->block[i];
        fill(a, &a->block[i], data);
        if (half > 0)
            add_extent(&x, i, data, 0, half, end);
        if (half < bytes)
            add_extent(&x, i, data, half, bytes - half, end + half);
        assert_ok(crn_fs_write_all(st->fs, fd, data, bytes, end, file, ei));
        end += bytes;
    }
    m.files = calloc(1, sizeof(*m.files));
    assert_ok(crn_store_finish_data(st, fd, file, end, &x, &m.files[0], ei));
    assert_ok(crn_store_publish(st, &m, ei));
    crn_index_free(&x);
    crn_manifest_free(&m);
}

static void any_block_comes_from_any_blocks(void **state)
{
    static unsigned char expect[MAX_BYTES], got[MAX_BYTES + 1];
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st;
    struct crn_rng rng;
    char dir[256];
    int round, k;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    assert_ok(crn_store_open(crn_fs_posix(), dir, 1, &st, ei));
    crn_rng_seed(&rng, 11);
    for (round = 0; round < 60; round++) {
        struct crn_version *v;
        struct array a;

        random_array(&rng, &a);
        while (a.ranks < MAX_RANKS && crn_rng_below(&rng, 2) == 0)
            random_block(&rng, &a, &a.block[a.ranks++]); /* overlaps the others */
        write_array(&rng, &st, &a, round);
        assert_ok(crn_version_open(&st, "a", round, &v, ei));
        for (k = 0; k < 10; k++) {
            struct crn_region want;

            random_block(&rng, &a, &want);
            fill(&a, &want, expect);
            memset(got, 0xcc, sizeof(got));
            assert_ok(crn_version_read_block(v, &want, got, ei));
            assert_memory_equal(got, expect, want.bytes);
            assert_int_equal(got[want.bytes], 0xcc);
        }
        crn_version_close(v);
    }
    crn_store_close(&st);
    test_dir_remove(dir);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct array a = {.ndims = 2, .dims = {6, 4}, .type = CAIRN_F64, .ranks = 2};
    struct crn_region want = {.dims = {6, 4}};
    struct crn_version *v;
    struct crn_store st;
    struct crn_rng rng;
    unsigned char got[6 * 4 * 8];
    char dir[256];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    assert_ok(crn_store_open(crn_fs_posix(), dir, 1, &st, ei));
    crn_rng_seed(&rng, 12);
    a.block[0] = (struct crn_region){.dims = {2, 4}};
    a.block[1] = (struct crn_region){.dims = {3, 4}, .offset = {3, 0}}; /* row 2 is missing */
    finish_block(&a, &a.block[0]);
    finish_block(&a, &a.block[1]);
    write_array(&rng, &st, &a, 1);
    assert_ok(crn_version_open(&st, "a", 1, &v, ei));

    finish_block(&a, &want);
    assert_int_equal(crn_version_read_block(v, &want, got, ei), CAIRN_EMISMATCH);
    assert_non_null(strstr(ei->msg, "no rank"));
    want.dims[0] = 2;
    crn_err_clear(ei);
    assert_ok(crn_version_read_block(v, &want, got, ei));
    want.type = CAIRN_I64;
    assert_int_equal(crn_version_read_block(v, &want, got, ei), CAIRN_EMISMATCH);
    assert_non_null(strstr(ei->msg, "type"));
    want.type = CAIRN_F64;
    want.global_dims[1] = 5;
    crn_err_clear(ei);
    assert_int_equal(crn_version_read_block(v, &want, got, ei), CAIRN_EMISMATCH);
    assert_non_null(strstr(ei->msg, "shape"));
    want.global_dims[1] = 4;
    (void)snprintf(want.name, sizeof(want.name), "other");
    crn_err_clear(ei);
    assert_int_equal(crn_version_read_block(v, &want, got, ei), CAIRN_EMISMATCH);
    assert_non_null(strstr(ei->msg, "is not in a@1"));
    want.offset[0] = 5;
    assert_int_equal(crn_version_read_block(v, &want, got, ei), CAIRN_EINVAL);
    want.offset[0] = 0;
    want.is_global = 0;
    assert_int_equal(crn_version_read_block(v, &want, got, ei), CAIRN_EINVAL);
    crn_version_close(v);
    crn_store_close(&st);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_block_comes_from_any_blocks),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
