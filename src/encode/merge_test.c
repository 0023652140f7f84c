/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans cover every byte exactly once, in the order that the paper's figures show. Gathering
 * along a plan and scattering along it again restores the data. */
#include "base/test.h"

#include "base/rng.h"
#include "encode/merge.h"

#define RANKS_MAX   9
#define REGIONS_MAX 12
#define MEMORY      ((size_t)8 << 20)

static unsigned char memory[MEMORY]; /* of the current set */
static size_t memory_used;

struct set {
    uint32_t ranks;
    struct crn_shard shards[RANKS_MAX];
    struct crn_region regions[RANKS_MAX][REGIONS_MAX];
    unsigned char *data[RANKS_MAX][REGIONS_MAX];
};

static struct crn_region *add_region(struct set *s, uint32_t rank, const char *name,
                                     cairn_type type, uint64_t rows, uint64_t columns)
{
    struct crn_region *r = &s->regions[rank][s->shards[rank].nregions];
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;

    memset(r, 0, sizeof(*r));
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
    r->type = (uint8_t)type;
    r->ndims = columns > 0 ? 2 : 1;
    r->dims[0] = rows;
    r->dims[1] = columns;
    assert_ok(crn_region_check(r, ei));
    assert_true(memory_used + r->bytes <= MEMORY);
    s->data[rank][s->shards[rank].nregions] = memory + memory_used;
    memory_used += r->bytes;
    s->shards[rank].regions = s->regions[rank];
    s->shards[rank].nregions++;
    return r;
}

/* Variables of many types and sizes (including 0 and 1 element) that differ between ranks. */
static void make_random(struct crn_rng *rng, struct set *s)
{
    char name[32];
    uint32_t i, k, n;
    uint64_t b;

    memset(s, 0, sizeof(*s));
    memory_used = 0;
    s->ranks = 1 + (uint32_t)crn_rng_below(rng, RANKS_MAX);
    for (i = 0; i < s->ranks; i++) {
        n = (uint32_t)crn_rng_below(rng, REGIONS_MAX + 1);
        for (k = 0; k < n; k++) {
            struct crn_region *r;

            (void)snprintf(name, sizeof(name), "g%u/v%u", k / 3, k);
            r = add_region(s, i, name, (cairn_type)(k % 13), crn_rng_below(rng, 90),
                           crn_rng_below(rng, 2) * (1 + crn_rng_below(rng, 30)));
            for (b = 0; b < r->bytes; b++)
                s->data[i][k][b] = (unsigned char)crn_rng_u64(rng);
        }
    }
}

/* Gathers every stream into one buffer, scatters it into zeroed copies and compares. */
static void check_inverse(struct crn_rng *rng, struct set *s, const struct crn_merge_options *o)
{
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_merge_cursor c;
    struct crn_merge *m;
    struct crn_merge_piece p;
    uint64_t sum = 0, total = 0;
    uint32_t i, k;

    assert_ok(crn_merge_plan(s->shards, s->ranks, o, &m, ei));
    for (i = 0; i < s->ranks; i++)
        for (k = 0; k < s->shards[i].nregions; k++)
            total += s->regions[i][k].bytes;
    for (i = 0; i < crn_merge_streams(m); i++) {
        const struct crn_merge_stream *info_of = crn_merge_stream(m, i);
        unsigned char *stream = malloc(info_of->bytes + 1);
        uint64_t at = 0;

        crn_merge_start(m, i, &c);
        while (crn_merge_next(&c, 16 + 16 * crn_rng_below(rng, 500), &p)) {
            assert_true(p.bytes > 0 && at + p.bytes <= info_of->bytes);
            memcpy(stream + at, s->data[p.shard][p.region] + p.offset, p.bytes);
            memset(s->data[p.shard][p.region] + p.offset, 0, p.bytes); /* each byte once */
            at += p.bytes;
        }
        assert_int_equal(at, info_of->bytes);
        crn_merge_start(m, i, &c);
        for (at = 0; crn_merge_next(&c, 16 + 16 * crn_rng_below(rng, 500), &p); at += p.bytes)
            memcpy(s->data[p.shard][p.region] + p.offset, stream + at, p.bytes);
        sum += info_of->bytes;
        free(stream);
    }
    assert_int_equal(sum, total);
    crn_merge_free(m);
}

static uint64_t hash_of(const struct set *s)
{
    uint64_t sum = 0;
    uint32_t i, k;

    for (i = 0; i < s->ranks; i++)
        for (k = 0; k < s->shards[i].nregions; k++)
            sum = sum * 31 + crn_hash(s->data[i][k], s->regions[i][k].bytes);
    return sum;
}

static void every_scheme_has_an_inverse(void **state)
{
    struct crn_rng rng;
    struct set s;
    uint64_t before;
    int round, scheme;

    (void)state;
    crn_rng_seed(&rng, 4);
    for (round = 0; round < 60; round++) {
        make_random(&rng, &s);
        before = hash_of(&s);
        for (scheme = 0; scheme < CRN_SCHEMES; scheme++) {
            struct crn_merge_options o = {.scheme = (enum crn_scheme)scheme,
                                          .block_bytes = 16 * crn_rng_below(&rng, 40),
                                          .min_bytes = crn_rng_below(&rng, 300)};

            check_inverse(&rng, &s, &o);
            assert_int_equal(hash_of(&s), before);
        }
    }
}

/* "rank.region+offset:bytes" of all ranges, streams separated by a bar. */
static void describe(const struct set *s, const struct crn_merge_options *o, char *text,
                     size_t size)
{
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_merge_cursor c;
    struct crn_merge *m;
    struct crn_merge_piece p;
    size_t at = 0;
    uint32_t i;

    text[0] = '\0';
    assert_ok(crn_merge_plan(s->shards, s->ranks, o, &m, ei));
    for (i = 0; i < crn_merge_streams(m); i++) {
        at += (size_t)snprintf(text + at, size - at, "%s", i > 0 ? "| " : "");
        crn_merge_start(m, i, &c);
        while (crn_merge_next(&c, 1 << 20, &p))
            at += (size_t)snprintf(text + at, size - at, "%u.%u+%u:%u ", p.shard, p.region,
                                   (unsigned)p.offset, (unsigned)p.bytes);
    }
    crn_merge_free(m);
}

/* Temperature and pressure of two ranks, figure 4 of the paper; and a scalar. */
static void schemes_as_in_the_paper(void **state)
{
    struct crn_merge_options o = {.block_bytes = 128};
    struct set s = {.ranks = 2};
    char text[600];
    uint32_t i;

    (void)state;
    memory_used = 0;
    for (i = 0; i < 2; i++) {
        (void)add_region(&s, i, "ToyGrp/Temperature", CAIRN_F32, 64, 0); /* 256 bytes */
        (void)add_region(&s, i, "time", CAIRN_F64, 1, 0);
        (void)add_region(&s, i, "ToyGrp/Pressure", CAIRN_F64, 24, 0); /* 192 bytes */
    }
    o.scheme = CRN_AGNOSTIC;
    describe(&s, &o, text, sizeof(text));
    assert_string_equal(text, "0.0+0:256 0.1+0:8 0.2+0:192 1.0+0:256 1.1+0:8 1.2+0:192 ");
    o.scheme = CRN_AGNOSTIC_BLOCK;
    describe(&s, &o, text, sizeof(text));
    assert_string_equal(text, "0.0+0:128 1.0+0:128 0.0+128:128 1.0+128:128 0.1+0:8 0.2+0:120 "
                              "1.1+0:8 1.2+0:120 0.2+120:72 1.2+120:72 ");
    o.scheme = CRN_AWARE;
    describe(&s, &o, text, sizeof(text));
    assert_string_equal(text, "0.0+0:256 1.0+0:256 | 0.1+0:8 1.1+0:8 | 0.2+0:192 1.2+0:192 ");
    o.scheme = CRN_AWARE_BLOCK;
    describe(&s, &o, text, sizeof(text));
    assert_string_equal(text, "0.0+0:128 1.0+0:128 0.0+128:128 1.0+128:128 | 0.1+0:8 1.1+0:8 | "
                              "0.2+0:128 1.2+0:128 0.2+128:64 1.2+128:64 ");
    o.block_bytes = 24;
    {
        struct crn_merge *m;

        assert_int_equal(crn_merge_plan(s.shards, 2, &o, &m, NULL), CAIRN_EINVAL);
    }
}

static void keys_and_patterns(void **state)
{
    static const char *const patterns[] = {"Grid([0-9]+)/(Old)?Density", "step[0-9]+"};
    static const char *const broken[] = {"ok", "a(b"};
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_similar *similar;
    struct crn_region r = {.type = CAIRN_F32, .ndims = 1, .dims = {40}};
    char key[CRN_SIMILAR_TEXT];

    (void)state;
    assert_ok(crn_similar_open(patterns, 2, &similar, ei));
    (void)snprintf(r.name, sizeof(r.name), "ToyGrp/Temperature");
    crn_similar_key(similar, &r, key);
    assert_string_equal(key, "ToyGrp/Temperature_F32LE_Array1D");
    (void)snprintf(r.name, sizeof(r.name), "Grid00012/Density");
    crn_similar_key(NULL, &r, key);
    assert_string_equal(key, "Grid00012/Density_F32LE_Array1D");
    r.ndims = 3;
    crn_similar_key(similar, &r, key);
    assert_string_equal(key, "Grid*/Density_F32LE_Array3D");
    (void)snprintf(r.name, sizeof(r.name), "Grid00012/Densitys"); /* whole names only */
    crn_similar_key(similar, &r, key);
    assert_string_equal(key, "Grid00012/Densitys_F32LE_Array3D");
    (void)snprintf(r.name, sizeof(r.name), "step4");
    r.type = CAIRN_I64;
    r.ndims = 1;
    r.dims[0] = 1;
    crn_similar_key(similar, &r, key);
    assert_string_equal(key, "step[0-9]+_I64LE_Atomic");
    memset(r.name, 'x', sizeof(r.name) - 1); /* the longest name fits */
    crn_similar_key(similar, &r, key);
    assert_int_equal(strlen(key), CAIRN_MAX_NAME - 1 + strlen("_I64LE_Atomic"));
    crn_similar_close(similar);
    assert_int_equal(crn_similar_open(broken, 2, &similar, ei), CAIRN_ECONFIG);
    assert_non_null(strstr(ei->msg, "a(b"));
}

/* One variable per grid number, of different sizes: one stream with the pattern. */
static void grids_of_amr(void **state)
{
    static const char *const pattern = "Grid([0-9]+)/Density";
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_similar *similar;
    struct crn_merge_options o = {.scheme = CRN_AWARE};
    struct set s = {.ranks = 3};
    struct crn_merge *m;
    char name[32];
    uint32_t i;

    (void)state;
    memory_used = 0;
    for (i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof(name), "Grid%u/Density", i);
        (void)add_region(&s, i / 3, name, CAIRN_F32, 10 + i, 8);
    }
    assert_ok(crn_merge_plan(s.shards, 3, &o, &m, ei));
    assert_int_equal(crn_merge_streams(m), 9);
    crn_merge_free(m);
    assert_ok(crn_similar_open(&pattern, 1, &similar, ei));
    o.similar = similar;
    assert_ok(crn_merge_plan(s.shards, 3, &o, &m, ei));
    assert_int_equal(crn_merge_streams(m), 1);
    assert_int_equal(crn_merge_stream(m, 0)->strands, 9);
    assert_int_equal(crn_merge_stream(m, 0)->type, CAIRN_F32);
    crn_merge_free(m);
    crn_similar_close(similar);
}

/* Small streams are joined: grids by number, then what is left by type. Large ones are not. */
static void small_streams_are_joined(void **state)
{
    struct crn_merge_options o = {.scheme = CRN_AWARE, .group_bytes = 8000};
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_rng rng;
    struct crn_merge *m;
    struct set s = {.ranks = 2};
    char text[256];

    (void)state;
    memory_used = 0;
    crn_rng_seed(&rng, 3);
    add_region(&s, 0, "Grid01/rho", CAIRN_F64, 20, 30);
    add_region(&s, 1, "Grid002/rho", CAIRN_F64, 30, 20);
    add_region(&s, 1, "Grid3/rho", CAIRN_F32, 20, 30); /* another type */
    add_region(&s, 0, "x1", CAIRN_F64, 2000, 0);       /* large: digits tell them apart */
    add_region(&s, 0, "x2", CAIRN_F64, 2000, 0);
    add_region(&s, 0, "a", CAIRN_F64, 20, 0);
    add_region(&s, 1, "b", CAIRN_F64, 30, 0);
    add_region(&s, 1, "flag", CAIRN_I32, 2, 0); /* below min_bytes */
    assert_ok(crn_merge_plan(s.shards, s.ranks, &o, &m, ei));
    text[0] = '\0';
    for (uint32_t i = 0; i < crn_merge_streams(m); i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:%u ",
                       crn_merge_stream(m, i)->key, crn_merge_stream(m, i)->strands);
    assert_string_equal(text, "Grid#/rho_F64LE_Array2D:2 x1_F64LE_Array1D:1 x2_F64LE_Array1D:1 "
                              "*_F64LE:2 Grid3/rho_F32LE_Array2D:1 :1 ");
    crn_merge_free(m);
    check_inverse(&rng, &s, &o);
}

static void runs_of_arrays(void **state)
{
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_merge_options o = {.scheme = CRN_AWARE};
    struct crn_region r = {.type = CAIRN_F64, .ndims = 4, .dims = {5, 6, 1, 7}};
    struct crn_shard shard = {.nregions = 1, .regions = &r};
    struct crn_merge_piece p = {.bytes = 5 * 6 * 7 * 8};
    struct crn_merge *m;
    struct crn_run run;

    (void)state;
    (void)snprintf(r.name, sizeof(r.name), "a");
    assert_ok(crn_region_check(&r, ei));
    assert_ok(crn_merge_plan(&shard, 1, &o, &m, ei));
    run = crn_merge_run(m, &p);
    assert_int_equal(run.elements, 210);
    assert_int_equal(run.stride[0], 1);
    assert_int_equal(run.stride[1], 7);
    assert_int_equal(run.stride[2], 42);
    p.bytes = 20 * 8; /* less than a plane */
    run = crn_merge_run(m, &p);
    assert_int_equal(run.stride[1], 7);
    assert_int_equal(run.stride[2], 0);
    crn_merge_free(m);
}

/* Slabs of a global array follow each other in its order, and their runs continue. */
static void slabs_of_a_global_array(void **state)
{
    static const uint64_t first[4] = {4, 0, 6, 2};
    static const uint32_t order[4] = {1, 3, 0, 2};
    struct crn_errinfo info = {0};
    struct crn_errinfo *ei = &info;
    struct crn_merge_options o = {.scheme = CRN_AWARE, .group_bytes = 1 << 20};
    struct crn_region regions[4][2];
    struct crn_shard shards[4];
    struct crn_merge_cursor c;
    struct crn_merge_piece p;
    struct crn_merge *m;
    uint64_t place = 0;
    uint32_t i, k;

    (void)state;
    memset(regions, 0, sizeof(regions));
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 2; k++) { /* the second one is cut across, which is no slab */
            struct crn_region *r = &regions[i][k];

            *r = (struct crn_region){.type = CAIRN_F64,
                                     .ndims = 3,
                                     .is_global = 1,
                                     .dims = {2, 5, 7},
                                     .global_dims = {8, 5, 7}};
            r->offset[0] = first[i];
            if (k == 1)
                r->global_dims[1] = 10;
            (void)snprintf(r->name, sizeof(r->name), "%s", k == 0 ? "slab" : "block");
            assert_ok(crn_region_check(r, ei));
        }
        shards[i] = (struct crn_shard){.rank = i, .nregions = 2, .regions = regions[i]};
    }
    assert_ok(crn_merge_plan(shards, 4, &o, &m, ei));
    crn_merge_start(m, 0, &c);
    for (i = 0; i < 8; i++) {
        struct crn_run run;

        assert_true(crn_merge_next(&c, UINT64_MAX, &p));
        run = crn_merge_run(m, &p);
        if (i < 4) {
            assert_int_equal(p.shard, order[i]);
            assert_int_equal(run.place, place);
            place += run.elements;
            assert_int_equal(run.stride[2], 35);
        } else { /* joined with the others, in the order of the ranks */
            assert_int_equal(p.shard, i - 4);
            assert_int_equal(run.place, 0);
        }
    }
    assert_false(crn_merge_next(&c, UINT64_MAX, &p));
    crn_merge_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_has_an_inverse), cmocka_unit_test(schemes_as_in_the_paper),
        cmocka_unit_test(keys_and_patterns),           cmocka_unit_test(grids_of_amr),
        cmocka_unit_test(small_streams_are_joined),    cmocka_unit_test(runs_of_arrays),
        cmocka_unit_test(slabs_of_a_global_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
