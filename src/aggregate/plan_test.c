/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/plan.h"
#include "base/rng.h"
#include "base/test.h"

static uint64_t pieces(uint64_t bytes, uint64_t unit)
{
    return bytes / unit + (bytes % unit != 0);
}

/* Every byte of every region exactly once, in order; writes within a block; each extent in one
 * write; the checksums numbered without gaps. */
static void check(const struct crn_plan *p, const struct crn_shard *const *shards,
                  const uint32_t *owner, uint32_t n, uint64_t block, uint64_t pack, uint64_t chunk)
{
    unsigned char *seen = calloc(p->nextents + 1, 1);
    uint64_t i = 0, k = 0, hashes = 0, bytes = 0;
    uint32_t s, r, j;

    for (s = 0; s < n; s++)
        for (r = 0; r < shards[s]->nregions; r++) {
            uint64_t at = 0;

            while (at < shards[s]->regions[r].bytes) {
                const struct crn_extent *e = &p->extents[i++];

                assert_int_equal(e->shard, s);
                assert_int_equal(e->region, r);
                assert_true(e->offset == at && e->bytes > 0 && e->bytes <= block);
                assert_true(e->first_hash == hashes);
                hashes += pieces(e->bytes, chunk);
                at += e->bytes;
            }
            assert_true(at == shards[s]->regions[r].bytes);
        }
    assert_true(i == p->nextents && hashes == p->nhashes);
    for (i = 0; i < p->nwrites; i++) {
        const struct crn_write *w = &p->writes[i];
        uint64_t sum = 0;

        assert_true(w->first == k && w->nsegments > 0);
        for (j = 0; j < w->nsegments; j++, k++) {
            const struct crn_extent *e = &p->extents[p->order[k]];

            assert_int_equal(seen[p->order[k]]++, 0);
            assert_true(w->nsegments == 1 || e->bytes < pack);
            assert_int_equal(w->owner, owner != NULL ? owner[e->shard] : 0);
            sum += e->bytes;
        }
        assert_true(sum == w->bytes && sum <= block);
        bytes += sum;
    }
    assert_true(k == p->nextents && bytes == p->bytes);
    free(seen);
}

static void random_shards(void **state)
{
    enum { SHARDS = 9, REGIONS = 12 };
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_region regions[SHARDS][REGIONS];
    struct crn_shard shard[SHARDS];
    const struct crn_shard *list[SHARDS];
    uint32_t owner[SHARDS];
    struct crn_rng rng;
    int round, s, r;

    (void)state;
    crn_rng_seed(&rng, 7);
    for (round = 0; round < 500; round++) {
        uint64_t block = (uint64_t)1 << (6 + crn_rng_below(&rng, 20));
        uint64_t pack = crn_rng_below(&rng, block) + 1;
        uint64_t chunk = (uint64_t)1 << (4 + crn_rng_below(&rng, 12));
        uint32_t n = (uint32_t)crn_rng_below(&rng, SHARDS + 1);
        struct crn_plan p;

        for (s = 0; s < (int)n; s++) {
            shard[s] = (struct crn_shard){.rank = (uint32_t)s, .regions = regions[s]};
            shard[s].nregions = (uint32_t)crn_rng_below(&rng, REGIONS + 1);
            for (r = 0; r < REGIONS; r++)
                regions[s][r].bytes =
                    crn_rng_below(&rng, 3) == 0 ? 0 : crn_rng_below(&rng, 6 * block);
            list[s] = &shard[s];
            owner[s] = (uint32_t)s / 3;
        }
        assert_ok(crn_plan_build(list, round % 2 ? owner : NULL, n, block, pack, chunk, &p, ei));
        check(&p, list, round % 2 ? owner : NULL, n, block, pack, chunk);
        crn_plan_free(&p);
    }
}

/* Ten thousand ranks with 1 KiB each make a small file, and a region over 4 GiB is cut right. */
static void extremes(void **state)
{
    enum { RANKS = 10000 };
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_region small = {.bytes = 1024};
    struct crn_region large = {.bytes = ((uint64_t)9 << 32) + 5};
    const struct crn_shard **list = calloc(RANKS, sizeof(*list));
    struct crn_shard one = {.nregions = 1, .regions = &small};
    struct crn_shard big = {.nregions = 1, .regions = &large};
    const struct crn_shard *bigs[] = {&big};
    struct crn_plan p;
    int i;

    (void)state;
    for (i = 0; i < RANKS; i++)
        list[i] = &one;
    assert_ok(crn_plan_build(list, NULL, RANKS, 64 << 20, 256 << 10, 1 << 20, &p, ei));
    assert_int_equal(p.nwrites, 1);
    check(&p, list, NULL, RANKS, 64 << 20, 256 << 10, 1 << 20);
    crn_plan_free(&p);
    assert_ok(crn_plan_build(bigs, NULL, 1, 64 << 20, 256 << 10, 1 << 20, &p, ei));
    assert_int_equal(p.nextents, 9 * 64 + 1);
    check(&p, bigs, NULL, 1, 64 << 20, 256 << 10, 1 << 20);
    crn_plan_free(&p);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shards),
        cmocka_unit_test(extremes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
