/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/encoding.h"
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

/* Every byte of every region exactly once, in order, in extents that each lie in one write, one
 * stream and one part. */
static void check_cover(const struct crn_plan *p, const struct crn_shard *const *shards, uint32_t n,
                        uint64_t chunk)
{
    unsigned char *seen = calloc(p->nextents + 1, 1);
    uint64_t i = 0, hashes = 0;
    uint32_t s, r;

    for (s = 0; s < n; s++)
        for (r = 0; r < shards[s]->nregions; r++) {
            uint64_t at = 0;

            for (; at < shards[s]->regions[r].bytes; at += p->extents[i++].bytes) {
                const struct crn_extent *e = &p->extents[i];

                assert_true(e->shard == s && e->region == r && e->offset == at && e->bytes > 0);
                assert_true(e->first_hash == hashes);
                hashes += pieces(e->bytes, chunk);
            }
            assert_true(at == shards[s]->regions[r].bytes);
        }
    assert_true(i == p->nextents && hashes == p->nhashes);
    for (i = 0; i < p->nextents; i++)
        assert_int_equal(seen[p->order[i]]++, 0);
    free(seen);
}

static void check_merged(const struct crn_plan *p, const struct crn_shard *const *shards,
                         const uint32_t *owner, uint64_t most)
{
    uint64_t k = 0, bytes = 0, i;
    uint32_t j, m;

    for (i = 0; i < p->nwrites; i++) {
        const struct crn_write *w = &p->writes[i];
        uint64_t streams = 0, parts = 0, first = k;

        assert_true(w->first == k && w->bytes > 0 && w->bytes <= most);
        for (j = 0; j < w->nstreams; j++) {
            const struct crn_plan_stream *s = &p->streams[w->first_stream + j];
            uint64_t sum = 0;

            assert_true(s->first == k && s->start == bytes + streams);
            for (m = 0; m < s->nsegments; m++, k++) {
                const struct crn_extent *e = &p->extents[p->order[k]];
                const struct crn_region *r = &shards[e->shard]->regions[e->region];

                assert_true(s->type == CAIRN_BYTES || s->type == (cairn_type)r->type);
                assert_true(e->bytes % cairn_type_size(s->type) == 0);
                sum += e->bytes;
            }
            assert_true(sum == s->bytes);
            streams += sum;
        }
        assert_true(streams == w->bytes && k - first == w->nsegments);
        for (j = 0; j < w->nparts; j++) {
            const struct crn_write_part *part = &p->parts[w->first_part + j];

            assert_true(part->whole == i && part->at == parts && part->w.is_part);
            assert_true(part->w.first == first);
            for (m = 0; m < part->w.nsegments; m++)
                assert_int_equal(owner[p->extents[p->order[first++]].shard], part->w.owner);
            parts += part->w.bytes;
        }
        assert_true(w->nparts == 0 || (parts == w->bytes && first == k));
        for (; first < k; first++) /* no parts: all extents have the write's owner */
            assert_int_equal(owner[p->extents[p->order[first]].shard], w->owner);
        bytes += w->bytes;
    }
    assert_true(k == p->nextents && bytes == p->bytes);
}

/* Plans for encoded data: all schemes, types and sizes; some regions are small, some empty. */
static void merged_shards(void **state)
{
    enum { SHARDS = 7, REGIONS = 6 };
    struct crn_encoding encoding = {.block_bytes = 64};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_region regions[SHARDS][REGIONS];
    struct crn_shard shard[SHARDS];
    const struct crn_shard *list[SHARDS];
    uint32_t owner[SHARDS];
    struct crn_rng rng;
    int round, s, r;

    (void)state;
    crn_rng_seed(&rng, 8);
    for (round = 0; round < 400; round++) {
        uint64_t most = 16 * (1 + crn_rng_below(&rng, 400));
        uint64_t chunk = (uint64_t)1 << (4 + crn_rng_below(&rng, 8));
        uint32_t n = (uint32_t)crn_rng_below(&rng, SHARDS + 1);
        struct crn_plan p;

        encoding.scheme = (enum crn_scheme)(round % CRN_SCHEMES);
        memset(regions, 0, sizeof(regions));
        for (s = 0; s < (int)n; s++) {
            shard[s] = (struct crn_shard){.rank = (uint32_t)s, .regions = regions[s]};
            shard[s].nregions = (uint32_t)crn_rng_below(&rng, REGIONS + 1);
            for (r = 0; r < REGIONS; r++) {
                struct crn_region *x = &regions[s][r];

                (void)snprintf(x->name, sizeof(x->name), "v%d", r);
                x->type = (uint8_t)((r * 5 + round) % CRN_TYPES);
                x->ndims = 1;
                x->dims[0] = crn_rng_below(&rng, 4) == 0 ? 0 : crn_rng_below(&rng, 500);
                assert_ok(crn_region_check(x, ei));
            }
            list[s] = &shard[s];
            owner[s] = (uint32_t)s / 2;
        }
        assert_ok(crn_plan_merged(list, owner, n, &encoding, most, chunk, &p, ei));
        check_cover(&p, list, n, chunk);
        check_merged(&p, list, owner, most);
        crn_plan_free(&p);
    }
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

/* Ten thousand ranks with 1 KiB each make a small file, and a region over 4 GiB is cut
 * correctly. */
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
        cmocka_unit_test(merged_shards),
        cmocka_unit_test(extremes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
