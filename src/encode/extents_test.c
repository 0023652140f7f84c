/* SPDX-License-Identifier: BSD-3-Clause */
/* The pure functions of the extent readers: lists, the HDF5 program's output, and handmade
 * netCDF classic headers. tests/extents has real files. */
#include <stdlib.h>

#include "base/rng.h"
#include "base/test.h"
#include "encode/parts.h"

static void check_valid(const struct crn_file_extents *x, uint64_t file_bytes)
{
    uint64_t end = 0;
    size_t i;
    unsigned d;

    for (i = 0; i < x->n; i++) {
        const struct crn_file_extent *e = &x->v[i];
        uint64_t bytes = cairn_type_size(e->type);

        assert_true(e->offset >= end && e->offset <= file_bytes);
        assert_true(e->bytes <= file_bytes - e->offset);
        for (d = 0; d < e->ndims; d++)
            bytes *= e->dims[d];
        assert_int_equal(bytes, e->bytes);
        assert_true(e->ndims >= 1 && e->ndims <= CAIRN_MAX_DIMS && strlen(e->key) < CAIRN_MAX_NAME);
        end = e->offset + e->bytes;
    }
}

static void what_cannot_be_is_dropped(void **state)
{
    static const uint64_t shape[] = {10, 10}, huge[] = {UINT64_MAX, 3}, none[] = {0, 9};
    struct crn_file_extents x = {0};
    const char *key = crn_extents_key(&x, "g/v", 3);

    (void)state;
    crn_extents_add(&x, key, CAIRN_F64, 0, 5000, shape, 2);
    crn_extents_add(&x, key, CAIRN_F64, 0, 1000, shape, 2);
    crn_extents_add(&x, key, CAIRN_F64, 0, 1799, shape, 2); /* overlaps by a byte */
    crn_extents_add(&x, key, CAIRN_F64, 0, 1800, shape, 2);
    crn_extents_add(&x, key, CAIRN_F64, 0, 9201, shape, 2); /* ends after the end of the file */
    crn_extents_add(&x, key, CAIRN_F64, 0, UINT64_MAX - 8, shape, 2);
    crn_extents_add(&x, key, CAIRN_F64, 0, 0, huge, 2);
    crn_extents_add(&x, key, CAIRN_F64, 0, 0, none, 2);
    crn_extents_add(&x, key, CAIRN_F64, 0, 0, shape, 1);      /* too small */
    crn_extents_add(&x, key, (cairn_type)77, 0, 0, shape, 2); /* no such type */
    crn_extents_add(&x, key, CAIRN_C128, 1, 3000, shape, 2);  /* not an unsigned integer */
    crn_extents_finish(&x, 10000);
    assert_int_equal(x.n, 3);
    assert_int_equal(x.v[0].offset, 1000);
    assert_int_equal(x.v[2].offset, 5000);
    check_valid(&x, 10000);
    crn_extents_free(&x);
}

static void keys_are_names(void **state)
{
    struct crn_file_extents x = {0};
    char text[300];
    const char *a, *b;

    (void)state;
    assert_string_equal(crn_extents_key(&x, "a\nb\x7f", 4), "a?b?");
    memset(text, 'n', sizeof(text));
    a = crn_extents_key(&x, text, 127);
    assert_int_equal(strlen(a), 127);
    a = crn_extents_key(&x, text, 299);
    b = crn_extents_key(&x, text, 300);
    assert_int_equal(strlen(a), 127);
    assert_string_not_equal(a, b);
    crn_extents_free(&x);
}

static void many_dimensions_become_eight(void **state)
{
    static const uint64_t shape[] = {2, 3, 1, 2, 2, 2, 2, 2, 2, 5};
    struct crn_file_extents x = {0};

    (void)state;
    crn_extents_add(&x, crn_extents_key(&x, "v", 1), CAIRN_F32, 1, 0, shape, 10);
    crn_extents_finish(&x, 1 << 20);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.v[0].ndims, 8);
    assert_int_equal(x.v[0].dims[0], 6);
    assert_int_equal(x.v[0].dims[7], 5);
    assert_int_equal(x.v[0].type, CAIRN_U32);
    assert_true(x.v[0].is_big_endian);
    check_valid(&x, 1 << 20);
    crn_extents_free(&x);
}

static void answers_go_through(void **state)
{
    static const uint64_t shape[] = {100, 7};
    struct crn_file_extents x = {0}, y;
    struct crn_buf b = {0};
    size_t i;

    (void)state;
    for (i = 0; i < 9; i++)
        crn_extents_add(&x, crn_extents_key(&x, &"abcdefghi"[i], 1), (cairn_type)(1 + i), i % 2,
                        10000 * i, shape, 2);
    crn_extents_encode(&x, &b);
    assert_int_equal(crn_extents_decode(b.data, b.len, &y), 0);
    assert_int_equal(y.n, x.n);
    for (i = 0; i < x.n; i++) {
        assert_string_equal(x.v[i].key, y.v[i].key);
        assert_int_equal(x.v[i].type, y.v[i].type);
        assert_int_equal(x.v[i].offset, y.v[i].offset);
        assert_int_equal(x.v[i].bytes, y.v[i].bytes);
    }
    crn_extents_free(&y);
    for (i = 0; i < b.len; i++)
        assert_int_equal(crn_extents_decode(b.data, i, &y), -1); /* truncated */
    crn_buf_u8(&b, 0);
    assert_int_equal(crn_extents_decode(b.data, b.len, &y), -1); /* trailing bytes */
    crn_buf_free(&b);
    crn_extents_free(&x);
}

/* Whatever another node sends, the parts of a file cover exactly its bytes. */
static void assert_parts_cover(const struct crn_shard *s, const struct crn_parts *p)
{
    uint64_t at = 0;
    uint32_t region = 0;
    uint32_t i;

    for (i = 0; i < p->shard.nregions; i++) {
        if (p->part[i].region != region) {
            assert_int_equal(at, s->regions[region].bytes);
            assert_int_equal(p->part[i].region, ++region);
            at = 0;
        }
        assert_int_equal(p->part[i].offset, at);
        at += p->shard.regions[i].bytes;
    }
    assert_int_equal(region, s->nregions - 1);
    assert_int_equal(at, s->regions[region].bytes);
}

/* Encodes and decodes; also with each byte changed, and truncated to every length. */
static void tell_parts(const struct crn_shard *s, const struct crn_parts *p)
{
    struct crn_buf b = {0};
    struct crn_parts *q;
    size_t i;

    crn_parts_encode(p, &b);
    assert_int_equal(crn_parts_decode(b.data, b.len, s, &q, NULL), CAIRN_OK);
    assert_int_equal(q->shard.nregions, p->shard.nregions);
    for (i = 0; i < p->shard.nregions; i++) {
        assert_int_equal(q->part[i].offset, p->part[i].offset);
        assert_string_equal(q->shard.regions[i].name, p->shard.regions[i].name);
        assert_int_equal(q->shard.regions[i].type, p->shard.regions[i].type);
        assert_int_equal(q->shard.regions[i].ndims, p->shard.regions[i].ndims);
    }
    crn_parts_close(q);
    for (i = 0; i < 256 * b.len; i++) {
        unsigned char was = b.data[i / 256];

        b.data[i / 256] = (unsigned char)i;
        assert_int_equal(crn_parts_decode(b.data, b.len, s, &q, NULL), CAIRN_OK);
        assert_parts_cover(s, q);
        crn_parts_close(q);
        b.data[i / 256] = was;
    }
    for (i = 0; i < b.len; i++) {
        assert_int_equal(crn_parts_decode(b.data, i, s, &q, NULL), CAIRN_OK);
        assert_parts_cover(s, q);
        crn_parts_close(q);
    }
    crn_buf_free(&b);
}

/* Every byte of a shard is in exactly one part, in order. */
static void parts_are_the_shard(void **state)
{
    static const uint64_t shape[] = {10, 10};
    struct crn_region regions[3] = {
        {.name = "a", .type = CAIRN_F64, .ndims = 1, .dims = {7}, .bytes = 56},
        {.name = "f", .kind = CRN_REGION_FILE, .ndims = 1, .dims = {5000}, .bytes = 5000},
        {.name = "g", .kind = CRN_REGION_FILE, .ndims = 1, .dims = {9}, .bytes = 9}};
    struct crn_shard s = {.rank = 3, .nregions = 3, .regions = regions};
    struct crn_file_extents files[3] = {0};
    struct crn_parts p;
    uint32_t i;

    (void)state;
    crn_extents_add(&files[1], crn_extents_key(&files[1], "x/v", 3), CAIRN_F32, 0, 100, shape, 2);
    crn_extents_add(&files[1], crn_extents_key(&files[1], "w", 1), CAIRN_F64, 0, 500, shape, 2);
    crn_extents_finish(&files[1], 5000);
    assert_int_equal(crn_parts_make(&s, files, &p, NULL), CAIRN_OK);
    assert_int_equal(p.shard.rank, 3);
    assert_int_equal(p.shard.nregions, 1 + 4 + 1);
    assert_string_equal(p.shard.regions[2].name, "x/v");
    assert_int_equal(p.shard.regions[2].dims[1], 10);
    for (i = 1; i < 5; i++) { /* of the file: consecutive */
        uint64_t end = p.part[i].offset + p.shard.regions[i].bytes;

        assert_int_equal(p.part[i].region, 1);
        assert_int_equal(end, i < 4 ? p.part[i + 1].offset : 5000);
        assert_int_equal(crn_parts_find(&p, 1, p.part[i].offset), i);
        assert_int_equal(crn_parts_find(&p, 1, end - 1), i);
    }
    assert_int_equal(crn_parts_find(&p, 0, 55), 0);
    assert_int_equal(crn_parts_find(&p, 2, 8), 5);
    assert_int_equal(p.part[1].offset, 0);
    assert_string_equal(p.shard.regions[5].name, CRN_PLAIN_KEY);
    assert_int_equal(p.part[5].region, 2);
    tell_parts(&s, &p);
    crn_parts_free(&p);
    crn_extents_free(&files[1]);
    assert_int_equal(crn_parts_make(&s, NULL, &p, NULL), CAIRN_OK);
    assert_int_equal(p.shard.nregions, 3);
    crn_parts_free(&p);
}

/* netCDF classic. ------------------------------------------------------------------------------ */

struct extents_test_header {
    struct crn_buf b;
    int version;
};

static void put(struct extents_test_header *h, uint64_t v, int width)
{
    while (width-- > 0)
        crn_buf_u8(&h->b, (uint8_t)(v >> (8 * width)));
}

static void put_count(struct extents_test_header *h, uint64_t v)
{
    put(h, v, h->version == 5 ? 8 : 4);
}

static void put_name(struct extents_test_header *h, const char *s)
{
    put_count(h, strlen(s));
    crn_buf_put(&h->b, s, strlen(s));
    crn_buf_zero(&h->b, -strlen(s) & 3);
}

static void put_attribute(struct extents_test_header *h, const char *name, uint32_t type,
                          uint64_t n, size_t pad)
{
    put_name(h, name);
    put(h, type, 4);
    put_count(h, n);
    crn_buf_zero(&h->b, pad);
}

static void put_variable(struct extents_test_header *h, const char *name, const uint32_t *ids,
                         size_t n, uint32_t type, uint64_t begin)
{
    size_t i;

    put_name(h, name);
    put_count(h, n);
    for (i = 0; i < n; i++)
        put_count(h, ids[i]);
    put(h, 12, 4);
    put_count(h, 1);
    put_attribute(h, "units", 2, 5, 8);
    put(h, type, 4);
    put_count(h, 12345); /* size: ignored */
    put(h, begin, h->version == 1 ? 4 : 8);
}

/* Dimensions time (records), y = 20, x = 30; nrec record variables. */
static struct extents_test_header make(int version, uint64_t numrecs, int nrec)
{
    static const uint32_t yx[] = {1, 2}, tyx[] = {0, 1, 2}, tx[] = {0, 2}, t[] = {0};
    struct extents_test_header h = {.version = version};

    crn_buf_put(&h.b, "CDF", 3);
    crn_buf_u8(&h.b, (uint8_t)version);
    put_count(&h, numrecs);
    put(&h, 10, 4);
    put_count(&h, 3);
    put_name(&h, "time");
    put_count(&h, 0);
    put_name(&h, "y");
    put_count(&h, 20);
    put_name(&h, "x");
    put_count(&h, 30);
    put(&h, 12, 4);
    put_count(&h, 1);
    put_attribute(&h, "title", 6, 3, 24);
    put(&h, 11, 4);
    put_count(&h, 2 + (uint64_t)nrec);
    put_variable(&h, "temperature", yx, 2, 6, 4096);
    put_variable(&h, "mask", yx, 2, 1, 8896);
    if (nrec > 0)
        put_variable(&h, "u", tyx, 3, 5, 10000);
    if (nrec > 1)
        put_variable(&h, "s", tx, 2, 3, 12400); /* 60 bytes: plain, but takes its place */
    if (nrec > 2)
        put_variable(&h, "t", t, 1, 6, 12460);
    return h;
}

static void all_versions_are_read(void **state)
{
    static const int versions[] = {1, 2, 5};
    struct crn_file_extents x;
    size_t v, i;

    (void)state;
    for (v = 0; v < 3; v++) {
        struct extents_test_header h = make(versions[v], 4, 3);
        uint64_t record = 2400 + 60 + 8;
        uint64_t bytes = 10000 + 4 * record;

        assert_int_equal(crn_extents_netcdf(h.b.data, h.b.len, bytes, &x), 0);
        crn_extents_finish(&x, bytes);
        check_valid(&x, bytes);
        assert_int_equal(x.n, 2 + 4);
        assert_string_equal(x.v[0].key, "temperature");
        assert_int_equal(x.v[0].type, CAIRN_U64);
        assert_int_equal(x.v[0].dims[0], 20);
        assert_int_equal(x.v[0].dims[1], 30);
        assert_int_equal(x.v[1].offset, 8896);
        assert_int_equal(x.v[1].type, CAIRN_I8);
        for (i = 0; i < 4; i++) {
            assert_string_equal(x.v[2 + i].key, "u");
            assert_int_equal(x.v[2 + i].offset, 10000 + i * record);
            assert_int_equal(x.v[2 + i].bytes, 2400);
        }
        crn_extents_free(&x);
        crn_buf_free(&h.b);
    }
}

static void records_are_counted_in_the_file(void **state)
{
    struct extents_test_header h = make(1, UINT32_MAX, 1); /* derived from the file size */
    struct crn_file_extents x;

    (void)state;
    assert_int_equal(crn_extents_netcdf(h.b.data, h.b.len, 10000 + 7 * 2400 + 100, &x), 0);
    crn_extents_finish(&x, 10000 + 7 * 2400 + 100);
    assert_int_equal(x.n, 3);
    assert_int_equal(x.v[2].ndims, 3); /* a single record variable is one array */
    assert_int_equal(x.v[2].dims[0], 7);
    crn_extents_free(&x);
    assert_int_equal(crn_extents_netcdf(h.b.data, h.b.len, 9000, &x),
                     0); /* truncated before the records */
    crn_extents_finish(&x, 9000);
    assert_int_equal(x.n, 1);
    crn_extents_free(&x);
    crn_buf_free(&h.b);
}

static void cut_headers_want_more(void **state)
{
    struct crn_file_extents x;
    int version;
    size_t i;

    (void)state;
    for (version = 1; version <= 5; version += version == 1 ? 1 : 3) {
        struct extents_test_header h = make(version, 4, 3);

        for (i = 0; i < h.b.len; i++) {
            /* exact size: the sanitizer detects reads beyond it */
            unsigned char *cut = malloc(i + 1);

            assert_non_null(cut);
            memcpy(cut, h.b.data, i);
            assert_int_equal(crn_extents_netcdf(cut, i, 1 << 20, &x), -1);
            assert_int_equal(x.n, 0);
            free(cut);
        }
        crn_buf_free(&h.b);
    }
}

static void any_change_is_survived(void **state)
{
    struct crn_file_extents x;
    struct crn_rng rng;
    int k;

    (void)state;
    crn_rng_seed(&rng, 5);
    for (k = 0; k < 20000; k++) {
        struct extents_test_header h = make(k % 3 == 0   ? 1
                                            : k % 3 == 1 ? 2
                                                         : 5,
                                            crn_rng_below(&rng, 9), k % 4);
        uint64_t bytes = crn_rng_below(&rng, 40000);
        int n = (int)crn_rng_below(&rng, 4);

        for (; n >= 0; n--)
            h.b.data[crn_rng_below(&rng, h.b.len)] = (unsigned char)crn_rng_u64(&rng);
        (void)crn_extents_netcdf(h.b.data, h.b.len, bytes, &x);
        crn_extents_finish(&x, bytes);
        check_valid(&x, bytes);
        crn_extents_free(&x);
        crn_buf_free(&h.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_dropped),
        cmocka_unit_test(keys_are_names),
        cmocka_unit_test(many_dimensions_become_eight),
        cmocka_unit_test(answers_go_through),
        cmocka_unit_test(parts_are_the_shard),
        cmocka_unit_test(all_versions_are_read),
        cmocka_unit_test(records_are_counted_in_the_file),
        cmocka_unit_test(cut_headers_want_more),
        cmocka_unit_test(any_change_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
