/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints for versions that the session did not take: as stored, as other blocks than stored, with
 * files besides the memory, and of other shapes than are read in the end. */
#include "client/test_tiers.h"

#include <fcntl.h>

#define HALF (N / 2)

static uint64_t step;

static void protect(cairn_session *s, uint64_t offset, uint64_t n)
{
    struct cairn_array a = {.size = sizeof(a),
                            .type = CAIRN_U64,
                            .ndims = 1,
                            .dims = {n},
                            .global_dims = {N},
                            .offset = {offset}};

    must(cairn_protect_array(s, "data", data + offset, &a));
    must(cairn_protect(s, "step", &step, CAIRN_U64, 1));
}

/* Each version includes a file if is_filed. */
static void take_versions(struct bed_bed *b, int is_filed)
{
    cairn_session *s = bed_session(b, NULL);
    char path[300];
    int64_t v;
    int fd;

    protect(s, 0, N);
    for (v = 1; v <= VERSIONS; v++) {
        set((uint64_t)v);
        step = (uint64_t)v;
        if (is_filed) {
            must(cairn_file_route(s, "t", v, "notes", path, sizeof(path)));
            fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            assert_int_equal(write(fd, &v, sizeof(v)), sizeof(v));
            assert_int_equal(close(fd), 0);
        }
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    must(cairn_close(s));
}

/* Opens a session that reads what another one took. */
static cairn_session *reader(struct bed_bed *b, int is_filed, const char *more)
{
    int64_t order[VERSIONS];
    cairn_session *s;

    test_dir_make(b->dir, sizeof(b->dir));
    take_versions(b, is_filed);
    s = bed_session(b, "arena_bytes=8M", more, NULL);
    make_order(SEQUENTIAL, order);
    enqueue_all(s, order);
    return s;
}

static void done(const struct bed_bed *b, cairn_session *s)
{
    must(cairn_close(s));
    test_dir_remove(b->dir);
}

/* Restores n elements of data from offset on, and nothing else. */
static void restore(cairn_session *s, int64_t v, uint64_t offset, uint64_t n)
{
    size_t i;

    set(99);
    step = 99;
    must(cairn_restore(s, "t", v, NULL));
    assert_int_equal(step, v);
    for (i = 0; i < N; i++)
        assert_int_equal(data[i],
                         value(i >= offset && i - offset < n ? (uint64_t)v : (uint64_t)99, i));
}

static uint64_t hits(const cairn_session *s)
{
    struct crn_cache_stats stats;
    uint64_t sum = 0;
    int i;

    crn_cache_get_stats(s->tiers->cache, &stats);
    for (i = 0; i < CRN_TIERS_MAX; i++)
        sum += stats.hits[i];
    return sum;
}

/* Waits until so many bytes were prefetched. */
static void await(const cairn_session *s, uint64_t bytes)
{
    struct timespec ms = {.tv_nsec = 1000000};
    int i;

    for (i = 0; prefetched(s) < bytes && i < 20000; i++)
        (void)nanosleep(&ms, NULL);
    assert_true(prefetched(s) >= bytes);
}

/* Reads the upper half of an array that one rank stored whole, as if there were more ranks now. */
static void other_blocks(void **state)
{
    struct cairn_array a = {.size = sizeof(a)};
    struct bed_bed b = {0};
    cairn_session *s = reader(&b, 0, NULL);
    int64_t v;

    (void)state;
    protect(s, HALF, N - HALF);
    must(cairn_prefetch_start(s));
    for (v = 1; v <= VERSIONS; v++) {
        await(s, (uint64_t)v * (N - HALF) * sizeof(uint64_t));
        must(cairn_region_info(s, "t", v, CAIRN_OWN_RANK, "data", &a));
        assert_int_equal(a.dims[0], N); /* as stored, whatever is in memory */
        restore(s, v, HALF, N - HALF);
    }
    assert_int_equal(hits(s), VERSIONS);
    done(&b, s);
}

/* Memory regions are prefetched; files are not, and can still be restored. */
static void with_files(void **state)
{
    struct bed_bed b = {0};
    cairn_session *s = reader(&b, 1, NULL);
    char path[300];
    int64_t v;
    int64_t got;
    int fd;

    (void)state;
    protect(s, 0, N);
    must(cairn_prefetch_start(s));
    for (v = 1; v <= VERSIONS; v++) {
        await(s, (uint64_t)v * N * sizeof(uint64_t));
        restore(s, v, 0, N);
    }
    assert_int_equal(hits(s), VERSIONS);
    must(cairn_file_restore(s, "t", 5, CAIRN_OWN_RANK, "notes", path, sizeof(path)));
    fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, &got, sizeof(got)), sizeof(got));
    assert_int_equal(close(fd), 0);
    assert_int_equal(got, 5);
    done(&b, s);
}

/* Data prefetched for other blocks than are read is evicted for the next version. */
static void asked_for_otherwise(void **state)
{
    struct bed_bed b = {0};
    cairn_session *s = reader(&b, 0, NULL);
    uint64_t full;
    int64_t v;

    (void)state;
    protect(s, 0, N);
    must(cairn_prefetch_start(s));
    full = 3 * N * sizeof(uint64_t); /* as many as fit in the arena */
    await(s, full);
    protect(s, 0, HALF);
    for (v = 1; v <= 4; v++) {
        restore(s, v, 0, HALF); /* from files */
        await(s, full + (uint64_t)v * N * sizeof(uint64_t));
    }
    assert_int_equal(hits(s), 0);
    protect(s, 0, N);
    for (; v <= VERSIONS; v++)
        restore(s, v, 0, N);
    assert_true(hits(s) > 0);
    done(&b, s);
}

/* A checkpoint does not wait for hinted reads: the version to be read last is evicted. */
static void a_capture_goes_first(void **state)
{
    struct bed_bed b = {0};
    cairn_session *s = reader(&b, 0, "wait_timeout=3s");
    int64_t v;

    (void)state;
    protect(s, 0, N);
    must(cairn_prefetch_start(s));
    await(s, 3 * N * sizeof(uint64_t)); /* they fill the arena */
    set(77);
    step = 77;
    must(cairn_checkpoint(s, "t", 77, NULL));
    for (v = 1; v <= VERSIONS; v++)
        restore(s, v, 0, N);
    restore(s, 77, 0, N);
    assert_true(hits(s) > 0);
    done(&b, s);
}

/* No region of the version matches a protected one: the read works as without a hint and reports
 * the mismatch. */
static void nothing_fits(void **state)
{
    struct bed_bed b = {0};
    cairn_session *s = reader(&b, 0, NULL);

    (void)state;
    must(cairn_protect(s, "unknown", data, CAIRN_U64, 8));
    must(cairn_prefetch_start(s));
    assert_int_equal(cairn_restore(s, "t", 1, NULL), CAIRN_EMISMATCH);
    assert_non_null(strstr(cairn_last_error(), "has no region 'unknown'"));
    done(&b, s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_blocks),        cmocka_unit_test(with_files),
        cmocka_unit_test(asked_for_otherwise), cmocka_unit_test(a_capture_goes_first),
        cmocka_unit_test(nothing_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
