/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/test_shards.h"

void test_shard_lay_out(struct test_shard *s, uint32_t n, uint64_t align)
{
    struct crn_errinfo info = {0}, *ei = &info;
    uint32_t r;

    s->n = n;
    s->bytes = 0;
    for (r = 0; r < n; r++) {
        struct crn_region *region = &s->regions[r];

        (void)snprintf(region->name, sizeof(region->name), "region-%u", r);
        region->ndims = 1;
        assert_ok(crn_region_check(region, ei));
        s->at[r] = s->bytes;
        s->bytes = (s->bytes + region->bytes + align - 1) / align * align;
    }
}

void test_shard_fill(struct test_shard *s, struct crn_rng *rng)
{
    uint64_t i;

    for (i = 0; i < s->bytes; i++)
        s->image[i] = (unsigned char)crn_rng_u64(rng);
}

struct crn_source test_shard_source(struct test_shard *s, uint32_t rank)
{
    return (struct crn_source){.shard = {.rank = rank, .nregions = s->n, .regions = s->regions},
                               .at = s->at,
                               .memory = s->image,
                               .image_fd = -1};
}

const unsigned char *test_bytes(const struct test_shard *shards, const struct crn_extent *x)
{
    return shards[x->shard].image + shards[x->shard].at[x->region] + x->offset;
}

void test_gather(const struct test_shard *shards, const struct crn_write *w,
                 const struct crn_extent *extents, const uint64_t *order, unsigned char *block)
{
    uint32_t i;

    for (i = 0; i < w->nsegments; i++) {
        const struct crn_extent *x = &extents[order[w->first + i]];

        memcpy(block, test_bytes(shards, x), x->bytes);
        block += x->bytes;
    }
}

void test_compare(const struct test_shard *shards, uint32_t n, const struct crn_index *x,
                  const char *path)
{
    struct crn_data_file data = {.fs = crn_fs_posix(), .index = x, .what = path};
    unsigned char *buf = malloc(x->chunk_bytes);
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_decoder *decoder = NULL;
    uint64_t i, k, left = 0;

    assert_non_null(buf);
    assert_int_equal(x->nshards, n);
    for (i = 0; i < (uint64_t)n * TEST_REGIONS; i++)
        left += shards[i / TEST_REGIONS].regions[i % TEST_REGIONS].bytes;
    data.fd = open(path, O_RDONLY);
    assert_true(data.fd >= 0);
    for (i = 0; i < x->nextents; i++) {
        const struct crn_extent *e = &x->extents[i];
        const unsigned char *want = test_bytes(shards, e);

        for (k = 0; k * x->chunk_bytes < e->bytes; k++) {
            size_t bytes = crn_data_chunk_bytes(x, e, k);

            assert_ok(crn_data_chunk(&data, e, k, &decoder, buf, ei));
            assert_memory_equal(buf, want + k * x->chunk_bytes, bytes);
            assert_true(x->hashes[e->first_hash + k] == crn_hash(want + k * x->chunk_bytes, bytes));
            left -= bytes;
        }
    }
    assert_int_equal(left, 0);
    crn_decoder_free(decoder);
    (void)close(data.fd);
    free(buf);
}

void test_nothing_left(const struct crn_store *st, const char *name, int64_t version)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_names names;
    int dfd;

    if (crn_store_version_dir(st, name, version, &dfd, ei) != CAIRN_OK)
        return;
    assert_ok(crn_fs_names(crn_fs_posix(), dfd, name, &names, ei));
    assert_int_equal(names.n, 0);
    crn_names_free(&names);
    (void)close(dfd);
}
