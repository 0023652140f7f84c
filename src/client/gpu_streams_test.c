/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of an application that uses streams and captures graphs. A checkpoint must have the
 * bytes that kernels submitted before the call produced, on any stream, and graph captures must
 * succeed. Runs over the fake CUDA library; with $CAIRN_TEST_GPU set, over the real one where
 * possible. */
#include "client/test_bed.h"

#include <time.h>

#define WORDS (N * 2) /* of four bytes */

static const char *const caches[] = {"device_cache=0", "device_cache=12M"};

/* Do all words of the device buffer have this value? */
static int all_are(struct bed_bed *b, uint32_t word)
{
    const uint32_t *p = (const uint32_t *)(void *)b->host;
    size_t i;

    memset(b->host, 0, N * sizeof(uint64_t));
    copy(b, b->host, b->gpu, N);
    for (i = 0; i < WORDS; i++)
        if (p[i] != word)
            return 0;
    return 1;
}

static void kernel(const struct cuda *c, const struct bed_bed *b, uint32_t word, void *stream)
{
    assert_int_equal(c->set((unsigned long long)(uintptr_t)b->gpu, word, WORDS, stream), 0);
}

/* Order. --------------------------------------------------------------------------------------- */

/* Runs kernels on a stream, takes a checkpoint without waiting for them, and runs more kernels
 * after it. */
static void check_order(struct bed_bed *b, const struct cuda *c, const char *cache, void *stream,
                        void *named)
{
    cairn_session *s = bed_session(b, cache, "arena_bytes=16M", NULL);
    int64_t v;

    must(cairn_protect(s, "field", b->gpu, CAIRN_U64, N));
    must(cairn_gpu_stream(s, named));
    for (v = 1; v <= 4; v++) {
        kernel(c, b, 1000, stream);
        kernel(c, b, (uint32_t)v, stream);
        must(cairn_checkpoint(s, "g", v, NULL));
        kernel(c, b, 2000, stream);
    }
    must(cairn_wait(s, "g", 4, CAIRN_PERSISTENT, 60000));
    for (v = 1; v <= 4; v++) {
        kernel(c, b, 3000, stream); /* a restore must be ordered after it */
        must(cairn_restore(s, "g", v, NULL));
        assert_true(all_are(b, (uint32_t)v));
    }
    must(cairn_close(s));
}

static void test_order(void **state)
{
    void *stream[2]; /* blocking, non-blocking */
    struct cuda c;
    struct bed_bed b;
    size_t i;
    size_t k;

    (void)state;
    bed_open(&b);
    cuda_find(&c);
    cuda_enter(&c, 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(c.stream_create(&stream[i], (unsigned)i), 0);
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 2; k++) {
            check_order(&b, &c, caches[i], stream[k], NULL);
            check_order(&b, &c, caches[i], stream[k], stream[k]);
        }
        check_order(&b, &c, caches[i], stream[0], CRN_STREAM_LEGACY);
        check_order(&b, &c, caches[i], CRN_STREAM_PER_THREAD, CRN_STREAM_PER_THREAD);
    }
    for (i = 0; i < 2; i++)
        assert_int_equal(c.stream_destroy(stream[i]), 0);
    cuda_leave(&c, 0);
    bed_close(&b);
}

/* A stream is named for its own device; NULL clears all names. */
static void test_two_devices(void **state)
{
    struct crn_device *second;
    struct bed_bed other;
    struct cuda c;
    struct bed_bed b;
    void *stream[2];
    size_t i;
    void *p;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    cuda_find(&c);
    assert_ok(b.driver->ops->device_open(b.driver, 1, &second, ei));
    assert_ok(b.driver->ops->alloc(second, N * sizeof(uint64_t), &p, ei));
    other = b;
    other.dev = second;
    other.gpu = p;
    for (i = 0; i < 2; i++) {
        cuda_enter(&c, (int)i);
        assert_int_equal(c.stream_create(&stream[i], 1), 0);
        cuda_leave(&c, (int)i);
    }
    for (i = 0; i < 6; i++) { /* both named, one of them, or none */
        cairn_session *s = bed_session(&b, caches[i % 2], "arena_bytes=16M", NULL);

        must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
        must(cairn_protect(s, "other", other.gpu, CAIRN_U64, N));
        must(cairn_gpu_stream(s, stream[1]));
        if (i < 2)
            must(cairn_gpu_stream(s, stream[0]));
        if (i >= 4)
            must(cairn_gpu_stream(s, NULL));
        kernel(&c, &b, (uint32_t)i + 1, stream[0]);
        kernel(&c, &other, (uint32_t)i + 101, stream[1]);
        must(cairn_checkpoint(s, "g", (int64_t)i, NULL));
        kernel(&c, &b, 999, stream[0]);
        kernel(&c, &other, 999, stream[1]);
        must(cairn_restore(s, "g", (int64_t)i, NULL));
        assert_true(all_are(&b, (uint32_t)i + 1));
        assert_true(all_are(&other, (uint32_t)i + 101));
        must(cairn_close(s));
    }
    for (i = 0; i < 2; i++)
        assert_int_equal(c.stream_destroy(stream[i]), 0);
    b.driver->ops->free(second, p);
    b.driver->ops->device_close(second);
    bed_close(&b);
}

/* A value that is no stream of a device cannot be named; nor can a default stream without a current
 * device, if there are two devices. */
static void test_no_stream(void **state)
{
    struct crn_device *second;
    uint64_t not_a_stream = 0;
    cairn_session *s;
    struct bed_bed b;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    s = bed_session(&b, NULL);
    assert_int_equal(cairn_gpu_stream(s, &not_a_stream), CAIRN_EINVAL);
    must(cairn_gpu_stream(s, CRN_STREAM_LEGACY));
    assert_ok(b.driver->ops->device_open(b.driver, 1, &second, ei));
    assert_int_equal(cairn_gpu_stream(s, CRN_STREAM_LEGACY), CAIRN_EINVAL);
    assert_non_null(strstr(cairn_last_error(), "current"));
    b.driver->ops->device_close(second);
    must(cairn_close(s));
    bed_close(&b);
}

/* Captures. ------------------------------------------------------------------------------------ */

/* Captures graphs while background threads flush and prefetch checkpoints, and while checkpoints
 * are taken and restored. */
static void capture_meanwhile(struct bed_bed *b, const struct cuda *c, void *stream, void *other,
                              int mode)
{
    cairn_session *s = bed_session(b, "device_cache=12M", "arena_bytes=16M", NULL);
    void *graph;
    int64_t v;

    must(cairn_protect(s, "field", b->gpu, CAIRN_U64, N));
    must(cairn_prefetch_start(s));
    for (v = 1; v <= 6; v++) {
        long queries;

        bed_fill(b, (uint64_t)v);
        must(cairn_gpu_stream(s, other)); /* captures do not wait for the suspended copy */
        hold(FAKE_HOLD_DOWN);
        must(cairn_checkpoint(s, "g", v, NULL));
        assert_int_equal(c->begin(stream, mode), 0);
        kernel(c, b, 7, stream);
        for (queries = count_of(FAKE_COUNT_QUERIES); /* wait until the background polls its copy */
             !is_real() && count_of(FAKE_COUNT_QUERIES) < queries + 3;)
            (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        must(cairn_checkpoint(s, "g", v + 100, NULL));
        must(cairn_prefetch_enqueue(s, "g", v));
        hold(0);
        must(cairn_gpu_stream(s, NULL));
        must(cairn_checkpoint(s, "g", v + 200, NULL));
        must(cairn_wait(s, "g", v, CAIRN_CAPTURED, 60000));
        must(cairn_restore(s, "g", v, NULL));
        assert_int_equal(c->end(stream, &graph), 0);
        assert_true(holds(b, (uint64_t)v));
    }
    must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    must(cairn_close(s));
    s = bed_session(b, "arena_bytes=16M", NULL); /* reads the files */
    must(cairn_protect(s, "field", b->gpu, CAIRN_U64, N));
    for (v = 1; v <= 6; v++) {
        must(cairn_restore(s, "g", v, NULL));
        assert_true(holds(b, (uint64_t)v));
        must(cairn_restore(s, "g", v + 100, NULL));
        assert_true(holds(b, (uint64_t)v));
        must(cairn_restore(s, "g", v + 200, NULL));
        assert_true(holds(b, (uint64_t)v));
    }
    must(cairn_close(s));
}

static void test_captures(void **state)
{
    struct cuda c;
    struct bed_bed b;
    unsigned flags;
    int mode;

    (void)state;
    for (flags = 0; flags < 2; flags++) {
        for (mode = 0; mode < 3; mode++) {
            void *stream;
            void *other;

            bed_open(&b);
            cuda_find(&c);
            cuda_enter(&c, 0);
            assert_int_equal(c.stream_create(&stream, flags), 0);
            assert_int_equal(c.stream_create(&other, 1), 0);
            capture_meanwhile(&b, &c, stream, other, mode);
            assert_int_equal(c.stream_destroy(stream), 0);
            assert_int_equal(c.stream_destroy(other), 0);
            cuda_leave(&c, 0);
            bed_close(&b);
        }
    }
}

/* The named stream is being captured: the call returns an error, harms nothing, and succeeds
 * later. */
static void test_captured_stream(void **state)
{
    struct cuda c;
    struct bed_bed b;
    size_t i;

    (void)state;
    bed_open(&b);
    cuda_find(&c);
    cuda_enter(&c, 0);
    for (i = 0; i < 4; i++) {
        cairn_session *s =
            bed_session(&b, caches[i % 2], "arena_bytes=16M", "wait_timeout=60s", NULL);
        void *stream;
        void *graph;

        assert_int_equal(c.stream_create(&stream, 0), 0);
        must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
        bed_fill(&b, 5);
        must(cairn_checkpoint(s, "g", 1, NULL));
        assert_int_equal(c.begin(stream, 0), 0);
        must(cairn_gpu_stream(s, i < 2 ? stream : CRN_STREAM_LEGACY));
        assert_int_equal(cairn_checkpoint(s, "g", 2, NULL), CAIRN_EBUSY);
        assert_non_null(strstr(cairn_last_error(), "graph"));
        assert_int_equal(cairn_restore(s, "g", 1, NULL), CAIRN_EBUSY);
        must(cairn_gpu_stream(s, NULL)); /* during the capture */
        must(cairn_checkpoint(s, "g", 3, NULL));
        kernel(&c, &b, 7, stream);
        assert_int_equal(c.end(stream, &graph), 0);
        must(cairn_gpu_stream(s, stream));
        must(cairn_checkpoint(s, "g", 4, NULL));
        spoil(&b);
        must(cairn_restore(s, "g", 4, NULL));
        assert_true(holds(&b, 5));
        must(cairn_close(s));
        assert_int_equal(c.stream_destroy(stream), 0);
    }
    cuda_leave(&c, 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),           cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_no_stream),       cmocka_unit_test(test_captures),
        cmocka_unit_test(test_captured_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
