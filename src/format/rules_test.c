/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules for single structures: checks of writers, coverage by extents, chains, names, sizes. */
#include "format/test_random.h"

static void writers_are_checked_too(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_region r = {
        .name = "t", .type = CAIRN_F64, .ndims = 2, .dims = {1U << 31, 1U << 31}};
    struct crn_shard s = {.nregions = 2};
    struct crn_buf out = {0};

    (void)state;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL); /* 2^65 bytes */
    r.dims[1] = 4;
    crn_err_clear(ei);
    assert_ok(crn_region_check(&r, ei));
    assert_int_equal(r.bytes, (uint64_t)1 << 36); /* more than 4 GiB is valid */
    r.is_global = 1;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL); /* no global dims */
    r.global_dims[0] = UINT64_MAX;
    r.global_dims[1] = 4;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL);
    r.global_dims[0] = ((uint64_t)1 << 31) + 5;
    r.offset[0] = 5;
    assert_ok(crn_region_check(&r, ei));
    r.offset[0] = 6;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL);
    r.offset[0] = 0;
    r.name[0] = '\033';
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL);
    r.name[0] = 't';

    s.regions = calloc(2, sizeof(r));
    s.regions[0] = s.regions[1] = r;
    crn_err_clear(ei);
    assert_int_equal(crn_shard_encode(&s, &out, ei), CAIRN_EINVAL);
    assert_non_null(strstr(ei->msg, "twice"));
    crn_shard_free(&s);
    crn_buf_free(&out);
}

/* The end of a parity file says how long its head is, which must lie inside the file. */
static void a_mark_fits_its_file(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf mark = {0};
    uint64_t bytes = 0;
    uint32_t node, attempt;

    (void)state;
    crn_buf_u64(&mark, 500);
    assert_int_equal(mark.len, CRN_PARITY_MARK);
    assert_ok(crn_parity_decode_mark(mark.data, 508, "test", &bytes, ei));
    assert_int_equal(bytes, 500);
    assert_int_equal(crn_parity_decode_mark(mark.data, 507, "test", &bytes, ei), CAIRN_EDAMAGED);
    assert_int_equal(crn_parity_decode_mark(mark.data, 7, "test", &bytes, ei), CAIRN_EDAMAGED);
    crn_buf_free(&mark);
    assert_int_equal(crn_parity_name_parse("parity-0012.3", &node, &attempt), 0);
    assert_int_equal(node, 12);
    assert_int_equal(attempt, 3);
    assert_int_equal(crn_parity_name_parse("parity-12", &node, &attempt), -1);
    assert_int_equal(crn_parity_name_parse("data-0012", &node, &attempt), -1);
}

/* The size of a shard's descriptor is known before it is written, and so are the offsets of regions
 * in an image. */
static void the_length_of_a_shard_is_known(void **state)
{
    struct crn_rng rng;
    int i;

    (void)state;
    crn_rng_seed(&rng, 11);
    for (i = 0; i < 200; i++) {
        struct crn_errinfo info = {0}, *ei = &info;
        struct crn_buf out = {0};
        struct crn_shard s = {0};

        random_shard(&rng, &s, (uint32_t)i);
        assert_ok(crn_shard_encode(&s, &out, ei));
        assert_int_equal(out.len, crn_shard_bytes(&s));
        crn_buf_free(&out);
        crn_shard_free(&s);
    }
}

/* A gap, an overlap and an excess extent. */
static void extents_cover_every_region_once(void **state)
{
    struct crn_region region = {.name = "t", .type = CAIRN_U8, .ndims = 1, .dims = {100}};
    struct crn_extent extents[3] = {{.bytes = 50, .first_hash = 0},
                                    {.offset = 50, .bytes = 50, .first_hash = 4},
                                    {.offset = 100, .bytes = 1, .first_hash = 8}};
    uint64_t hashes[9] = {0};
    struct crn_shard shard = {.nregions = 1, .regions = &region};
    struct crn_index x = {.name = "n", .files = 1, .ranks = 1, .nodes = 1, .chunk_bytes = 16};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf out = {0};

    (void)state;
    assert_ok(crn_region_check(&region, ei));
    x.nshards = 1;
    x.shards = &shard;
    x.extents = extents;
    x.hashes = hashes;
    x.nextents = 2;
    x.nhashes = 8;
    assert_ok(crn_index_encode(&x, &out, ei));
    x.nextents = 1;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.nextents = 3;
    x.nhashes = 9;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.nextents = 2;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL); /* a hash that no extent uses */
    x.nhashes = 8;
    extents[1].offset = 49;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    extents[1].offset = 50;
    extents[1].bytes = 51;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    extents[1].bytes = 50;
    extents[1].first_hash = 5;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    crn_buf_free(&out);
}

/* A chain names only possible data files with the same file number. Only encoded files have a
 * chain. */
static void chains_are_checked(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest m;
    struct crn_buf out = {0};
    struct crn_index x;
    struct crn_rng rng;

    (void)state;
    crn_rng_seed(&rng, 7);
    random_chained(&rng, &x);
    assert_ok(crn_index_encode(&x, &out, ei));
    crn_data_name(x.file_no + 1, 0, x.bases[0].file);
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    (void)snprintf(x.bases[0].file, sizeof(x.bases[0].file), "../../x");
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    crn_data_name(x.file_no, 0, x.bases[0].file);
    x.bases[0].version = -1;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.bases[0].version = 1;
    x.bases[0].bytes = CRN_TRAILER_SIZE - 1;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.bases[0].bytes = CRN_TRAILER_SIZE;
    free(x.bases);
    x.nbases = CRN_MAX_BASES + 1;
    x.bases = random_bases(&rng, x.nbases, x.file_no);
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.nbases--;
    crn_err_clear(ei);
    assert_ok(crn_index_encode(&x, &out, ei));
    crn_streams_free(x.streams, x.nstreams);
    x.streams = NULL;
    x.nstreams = 0;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    assert_non_null(strstr(ei->msg, "not encoded"));
    crn_index_free(&x);

    random_needy(&rng, &m);
    crn_data_name(m.nfiles, 0, m.files[m.nfiles - 1].bases[0].file);
    crn_err_clear(ei);
    assert_int_equal(crn_manifest_encode(&m, &out, ei), CAIRN_EINVAL);
    crn_manifest_free(&m);
    crn_buf_free(&out);
}

/* A single file of a manifest is encoded and decoded with its chain. Also tests comparing and
 * copying chains. */
static void a_file_of_a_manifest_alone(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file f = {0};
    const struct crn_manifest_file *last;
    struct crn_base *copy;
    struct crn_manifest m;
    struct crn_buf out = {0};
    struct crn_view v;
    struct crn_rng rng;
    size_t len;

    (void)state;
    crn_rng_seed(&rng, 8);
    random_needy(&rng, &m);
    last = &m.files[m.nfiles - 1];
    crn_manifest_file_put(last, &out);
    v = crn_view_of(out.data, out.len);
    assert_ok(crn_manifest_file_take(&v, "test", &f, ei));
    assert_int_equal(crn_view_left(&v), 0);
    assert_string_equal(f.name, last->name);
    assert_int_equal(f.nranges, last->nranges);
    assert_true(crn_bases_equal(f.bases, f.nbases, last->bases, last->nbases));
    f.bases[f.nbases - 1].id.seq ^= 1;
    assert_false(crn_bases_equal(f.bases, f.nbases, last->bases, last->nbases));
    assert_false(crn_bases_equal(f.bases, f.nbases - 1, last->bases, last->nbases));
    crn_manifest_file_free(&f);
    crn_manifest_file_free(&f);
    assert_ok(crn_bases_copy(last->bases, last->nbases, &copy, ei));
    assert_true(crn_bases_equal(copy, last->nbases, last->bases, last->nbases));
    free(copy);
    for (len = 0; len < out.len; len++) {
        v = crn_view_of(out.data, len);
        if (crn_manifest_file_take(&v, "test", &f, ei) == CAIRN_OK && !v.failed)
            fail_msg("%zu of %zu bytes were taken for a file", len, out.len);
        crn_manifest_file_free(&f);
    }
    crn_manifest_free(&m);
    crn_buf_free(&out);
}

static void data_file_names(void **state)
{
    static const char *const bad[] = {"data-",      "data-1",       "data-0001.",   "data-0001.0",
                                      "data-00001", "data-0001.01", "data-+001",    "data- 001",
                                      "data-0001x", "Data-0001",    "data-1048576", "../data-0001",
                                      "",           "data-0001.1.1"};
    char name[CRN_FILE_NAME];
    uint32_t no, attempt;
    size_t i;

    (void)state;
    crn_data_name(3, 0, name);
    assert_string_equal(name, "data-0003");
    crn_data_name(CRN_MAX_FILES - 1, UINT32_MAX, name);
    assert_int_equal(crn_data_name_parse(name, &no, &attempt), 0);
    assert_int_equal(no, CRN_MAX_FILES - 1);
    assert_int_equal(attempt, UINT32_MAX);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (crn_data_name_parse(bad[i], &no, &attempt) != -1)
            fail_msg("'%s' was taken", bad[i]);
    assert_true(crn_name_is_valid("heat_2.d-x"));
    assert_false(crn_name_is_valid(".hidden"));
    assert_false(crn_name_is_valid("a/b"));
    assert_false(crn_name_is_valid(""));
}

/* 100,000 ranks with 4 regions in one file, and as a manifest of 1000 files. No time is asserted; a
 * quadratic algorithm would exceed the test's deadline. */
static void a_hundred_thousand_ranks(void **state)
{
    enum { RANKS = 100000, REGIONS = 4, FILES = 1000 };
    struct crn_index x = {.name = "big", .files = 1, .ranks = RANKS, .nodes = 1, .chunk_bytes = 64};
    struct crn_manifest m = {.name = "big", .ranks = RANKS, .nodes = FILES, .nfiles = FILES};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf a = {0}, b = {0};
    uint32_t i, r;

    (void)state;
    x.shards = calloc(RANKS, sizeof(*x.shards));
    x.extents = calloc((size_t)RANKS * REGIONS, sizeof(*x.extents));
    x.hashes = calloc((size_t)RANKS * REGIONS, sizeof(*x.hashes));
    for (i = 0; i < RANKS; i++) {
        x.shards[i] = (struct crn_shard){.rank = i, .nregions = REGIONS};
        x.shards[i].regions = calloc(REGIONS, sizeof(struct crn_region));
        for (r = 0; r < REGIONS; r++) {
            struct crn_region *region = &x.shards[i].regions[r];

            (void)snprintf(region->name, sizeof(region->name), "variable %u", (unsigned)r);
            region->type = CAIRN_U8;
            region->ndims = 1;
            region->dims[0] = 10;
            assert_ok(crn_region_check(region, ei));
            x.extents[x.nextents++] = (struct crn_extent){
                .shard = i, .region = r, .bytes = 10, .first_hash = x.nhashes++};
        }
    }
    x.nshards = RANKS;
    assert_ok(crn_index_encode(&x, &a, ei));
    crn_index_free(&x);
    assert_ok(random_codec("index")->again(a.data, a.len, &b, ei));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    crn_buf_free(&a);
    crn_buf_free(&b);

    m.files = calloc(FILES, sizeof(*m.files));
    for (i = 0; i < FILES; i++) {
        struct crn_manifest_file *f = &m.files[i];

        crn_data_name(i, 0, f->name);
        f->bytes = CRN_TRAILER_SIZE;
        f->nranges = RANKS / FILES; /* the worst case: each rank is a range of its own */
        f->ranges = calloc(f->nranges, sizeof(*f->ranges));
        for (r = 0; r < f->nranges; r++)
            f->ranges[r] = (struct crn_rank_range){.first = i + r * FILES, .count = 1};
    }
    assert_ok(crn_manifest_encode(&m, &a, ei));
    crn_manifest_free(&m);
    assert_ok(random_codec("manifest")->again(a.data, a.len, &b, ei));
    assert_memory_equal(a.data, b.data, a.len);
    crn_buf_free(&a);
    crn_buf_free(&b);
}

/* Readers that do not know a type must refuse the object, so its flag is exact. */
static void new_types_have_a_flag(void **state)
{
    struct crn_region region = {.name = "w", .ndims = 1, .dims = {10}};
    struct crn_shard shard = {.nregions = 1, .regions = &region};
    int type;

    (void)state;
    for (type = CAIRN_BYTES; type < CRN_TYPES; type++) {
        struct crn_errinfo info = {0}, *ei = &info;
        struct crn_buf out = {0};
        struct crn_shard got;
        uint64_t hash;

        region.type = (uint8_t)type;
        assert_ok(crn_region_check(&region, ei));
        assert_ok(crn_shard_encode(&shard, &out, ei));
        assert_int_equal(out.data[16], type > CAIRN_C128 ? 4 : 0);
        assert_ok(crn_shard_decode(out.data, out.len, "t", &got, ei));
        assert_int_equal(got.regions[0].bytes, 10 * cairn_type_size((cairn_type)type));
        crn_shard_free(&got);
        out.data[16] ^= 4;
        hash = crn_hash(out.data, out.len - 8);
        memcpy(out.data + out.len - 8, &hash, sizeof(hash));
        assert_int_equal(crn_shard_decode(out.data, out.len, "t", &got, ei), CAIRN_EDAMAGED);
        crn_buf_free(&out);
    }
    region.type = CRN_TYPES;
    assert_int_equal(crn_region_check(&region, NULL), CAIRN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writers_are_checked_too),
        cmocka_unit_test(a_mark_fits_its_file),
        cmocka_unit_test(the_length_of_a_shard_is_known),
        cmocka_unit_test(extents_cover_every_region_once),
        cmocka_unit_test(chains_are_checked),
        cmocka_unit_test(a_file_of_a_manifest_alone),
        cmocka_unit_test(data_file_names),
        cmocka_unit_test(new_types_have_a_flag),
        cmocka_unit_test(a_hundred_thousand_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
