/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/test.h"
#include "service/shards.h"
#include "tier/image.h"

#define UNIT 4096U

static struct crn_region regions[] = {
    {.kind = CRN_REGION_MEMORY,
     .name = "a",
     .type = CAIRN_BYTES,
     .ndims = 1,
     .dims = {2 * UNIT + 5},
     .bytes = 2 * UNIT + 5},
    {.kind = CRN_REGION_MEMORY,
     .name = "gpu",
     .type = CAIRN_BYTES,
     .ndims = 1,
     .dims = {UNIT},
     .bytes = UNIT},
    {.kind = CRN_REGION_MEMORY,
     .name = "none",
     .type = CAIRN_BYTES,
     .ndims = 1,
     .dims = {0},
     .bytes = 0},
    {.kind = CRN_REGION_MEMORY,
     .name = "z",
     .type = CAIRN_BYTES,
     .ndims = 1,
     .dims = {7},
     .bytes = 7},
    {.kind = CRN_REGION_FILE,
     .name = "f",
     .type = CAIRN_BYTES,
     .ndims = 1,
     .dims = {99},
     .bytes = 99},
};

/* For each memory region a flag and its checksums; the second region has none. */
static const uint64_t words[] = {1, 11, 12, 13, 0, 0, 1, 1, 14};

/* Two shards, the first with checksums. */
static void encode(struct crn_buf *ret)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_shard shard = {.rank = 3, .nregions = 5, .regions = regions};
    const uint64_t *table[5];
    struct crn_source sources[] = {{.shard = shard, .hashes = table, .hash_chunk_bytes = UNIT},
                                   {.shard = shard}};

    assert_int_equal(crn_image_hash_words(&shard, UNIT), sizeof(words) / sizeof(words[0]));
    crn_image_hashes(&shard, UNIT, words, table);
    assert_ptr_equal(table[0], words + 1);
    assert_null(table[1]);
    assert_ptr_equal(table[3], words + 8);
    assert_null(table[4]);
    assert_ok(crn_shards_encode(sources, 2, ret, ei));
}

static void shards_travel_with_their_checksums(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_remote r = {0};
    struct crn_buf buf = {0};

    (void)state;
    encode(&buf);
    assert_ok(crn_shards_decode(buf.data, buf.len, 7, 2, &r, ei));
    assert_ok(crn_shards_decode(buf.data, buf.len, 8, 3, &r, ei));
    assert_int_equal(r.n, 4);
    assert_int_equal(r.sources[0].owner, 2);
    assert_int_equal(r.sources[2].owner, 3);
    assert_int_equal(r.sources[2].shard.rank, 3);
    assert_string_equal(r.sources[2].shard.regions[3].name, "z");
    assert_int_equal(r.sources[2].hash_chunk_bytes, UNIT);
    assert_memory_equal(r.sources[2].hashes[0], words + 1, 3 * sizeof(words[0]));
    assert_null(r.sources[2].hashes[1]);
    assert_int_equal(r.sources[2].hashes[3][0], 14);
    assert_null(r.sources[2].hashes[4]);
    assert_null(r.sources[3].hashes);
    crn_remote_free(&r);
    crn_buf_free(&buf);
}

static void damage_is_survived(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf buf = {0};
    size_t i;

    (void)state;
    encode(&buf);
    for (i = 0; i < buf.len; i++) { /* every truncation, every flipped byte */
        struct crn_remote r = {0};

        crn_err_clear(ei);
        assert_int_equal(crn_shards_decode(buf.data, i, 7, 2, &r, ei), CAIRN_EDAMAGED);
        crn_remote_free(&r);
        buf.data[i] ^= 0xff;
        crn_err_clear(ei);
        if (crn_shards_decode(buf.data, buf.len, 7, 2, &r, ei) != CAIRN_OK)
            assert_true(ei->msg[0] != '\0');
        crn_remote_free(&r);
        buf.data[i] ^= 0xff;
    }
    crn_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_travel_with_their_checksums),
        cmocka_unit_test(damage_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
