/* SPDX-License-Identifier: BSD-3-Clause */
/* Order on a device: Cairn's lanes after the application's streams, graphs that the application
 * captures meanwhile, and waits for lanes after errors. Runs over the fake CUDA library; with
 * $CAIRN_TEST_GPU set, over the real one where possible. */
#include "base/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tier/device.h"
#include "tier/test_fake.h"

#define BYTES  ((size_t)1 << 20)
#define ROUNDS 4

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct device_order_test_bed {
    struct cuda cuda;
    struct crn_driver *driver;
    const struct crn_driver_ops *ops;
    struct crn_device *dev;
    void *gpu, *gpu2;
    unsigned char *host; /* pinned, two halves */
};

static void bed_open(struct device_order_test_bed *b)
{
    memset(b, 0, sizeof(*b));
    assert_ok(crn_driver_cuda(0, &b->driver, ei));
    cuda_find(&b->cuda);
    cuda_enter(&b->cuda, 0);
    b->ops = b->driver->ops;
    assert_ok(b->ops->device_open(b->driver, 0, &b->dev, ei));
    assert_ok(b->ops->alloc(b->dev, BYTES, &b->gpu, ei));
    assert_ok(b->ops->alloc(b->dev, BYTES, &b->gpu2, ei));
    b->host = aligned_alloc(4096, 2 * BYTES);
    assert_non_null(b->host);
    assert_ok(b->ops->pin(b->dev, b->host, 2 * BYTES, ei));
}

static void bed_close(struct device_order_test_bed *b)
{
    b->ops->unpin(b->dev, b->host);
    free(b->host);
    b->ops->free(b->dev, b->gpu);
    b->ops->free(b->dev, b->gpu2);
    b->ops->device_close(b->dev);
    cuda_leave(&b->cuda, 0);
    assert_int_equal(fake_ask(FAKE_CUDA, "fake_gpu_live"), 0);
    b->driver->ops->close(b->driver);
}

static unsigned long long address(void *p)
{
    return (unsigned long long)(uintptr_t)p;
}

/* The order after streams. --------------------------------------------------------------------- */

/* Runs a kernel of the application on a stream, then a copy of Cairn's after the named stream.
 * Returns the last word of the copy. */
static uint32_t launch_and_copy(struct device_order_test_bed *b, uint32_t word, void *stream,
                                void *named)
{
    uint32_t last = 0;
    int i;

    for (i = 0; i < ROUNDS; i++)
        assert_int_equal(b->cuda.set(address(b->gpu), word, BYTES / 4, stream), 0);
    assert_ok(b->ops->after(b->dev, CRN_LANE_WRITE, named, ei));
    assert_ok(b->ops->copy(b->dev, CRN_LANE_WRITE, b->host, b->gpu, BYTES, ei));
    assert_ok(b->ops->wait(b->dev, CRN_LANE_WRITE, ei));
    memcpy(&last, b->host + BYTES - sizeof(last), sizeof(last));
    return last;
}

static void test_after(void **state)
{
    struct device_order_test_bed b;
    void *stream[2]; /* blocking, non-blocking */
    uint32_t word = 0;
    int i;

    (void)state;
    bed_open(&b);
    for (i = 0; i < 2; i++)
        assert_int_equal(b.cuda.stream_create(&stream[i], (unsigned)i), 0);
    for (i = 0; i < 2; i++) {
        void *const used[] = {stream[0], stream[1], CRN_STREAM_LEGACY, CRN_STREAM_PER_THREAD};
        size_t k;

        for (k = 0; k < 4; k++) {
            word++; /* no named stream: after all of them */
            assert_int_equal(launch_and_copy(&b, word, used[k], NULL), word);
            word++; /* this stream is named */
            assert_int_equal(launch_and_copy(&b, word, used[k], used[k]), word);
        }
        word++; /* the legacy stream, which waits for blocking ones */
        assert_int_equal(launch_and_copy(&b, word, stream[0], CRN_STREAM_LEGACY), word);
    }
    assert_int_equal(b.ops->stream_device(b.driver, stream[1]), 0);
    assert_int_equal(b.ops->stream_device(b.driver, CRN_STREAM_LEGACY), 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(b.cuda.stream_destroy(stream[i]), 0);
    bed_close(&b);
}

/* Captures. ------------------------------------------------------------------------------------ */

struct round {
    struct device_order_test_bed *b;
    void *named;
    struct crn_errinfo why;
    cairn_err rc;
    int is_good;
};

/* All calls that Cairn's threads make, in a thread of the default capture mode. */
static cairn_err all_calls(struct device_order_test_bed *b, enum crn_lane lane, void *named,
                           struct crn_errinfo *why)
{
    static unsigned char page[4096];
    uint64_t left;
    uint64_t total;
    void *p = NULL;
    cairn_err rc = b->ops->memory(b->dev, &left, &total, why);

    if (rc == CAIRN_OK)
        rc = b->ops->alloc(b->dev, 4096, &p, why);
    if (rc == CAIRN_OK)
        rc = b->ops->pin(b->dev, page, sizeof(page), why);
    if (rc != CAIRN_OK)
        return rc;
    b->ops->unpin(b->dev, page);
    b->ops->free(b->dev, p);
    rc = b->ops->after(b->dev, lane, named, why);
    if (rc == CAIRN_OK)
        rc = b->ops->copy(b->dev, lane, b->gpu2, b->host, BYTES, why);
    if (rc == CAIRN_OK)
        rc = b->ops->copy(b->dev, lane, b->host + BYTES, b->gpu2, BYTES, why);
    return rc == CAIRN_OK ? b->ops->wait(b->dev, lane, why) : rc;
}

static void *one_round(void *arg)
{
    struct round *r = arg;
    int lane;

    r->is_good = 1;
    for (lane = 0; r->rc == CAIRN_OK && lane < CRN_LANES; lane++) {
        memset(r->b->host, lane + 1, BYTES);
        memset(r->b->host + BYTES, 0, BYTES);
        r->rc = all_calls(r->b, (enum crn_lane)lane, r->named, &r->why);
        r->is_good &= memcmp(r->b->host, r->b->host + BYTES, BYTES) == 0;
    }
    return NULL;
}

static void in_a_thread(void *(*fn)(void *arg), void *arg)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The application captures in each mode, on each kind of stream, while Cairn makes its calls in
 * another thread or in this one: both the capture and the calls succeed. */
static void capture_meanwhile(struct device_order_test_bed *b, unsigned flags, int mode,
                              void *other)
{
    void *graph;
    void *stream;
    int k;

    assert_int_equal(b->cuda.stream_create(&stream, flags), 0);
    for (k = 0; k < 4; k++) {
        struct round r = {.b = b, .named = k < 2 ? NULL : other};

        assert_int_equal(b->cuda.begin(stream, mode), 0);
        assert_int_equal(b->cuda.set(address(b->gpu), 1, 16, stream), 0);
        if (k % 2 == 0)
            in_a_thread(one_round, &r);
        else
            (void)one_round(&r);
        assert_int_equal(b->cuda.end(stream, &graph), 0);
        if (r.rc != CAIRN_OK)
            fail_msg("stream %u, mode %d, round %d: %s", flags, mode, k, r.why.msg);
        assert_true(r.is_good);
    }
    assert_int_equal(b->cuda.stream_destroy(stream), 0);
}

static void test_captures(void **state)
{
    struct device_order_test_bed b;
    void *other;
    unsigned flags;
    int mode;

    (void)state;
    bed_open(&b);
    assert_int_equal(b.cuda.stream_create(&other, 1), 0);
    for (flags = 0; flags < 2; flags++)
        for (mode = 0; mode < 3; mode++)
            capture_meanwhile(&b, flags, mode, other);
    assert_int_equal(b.cuda.stream_destroy(other), 0);
    bed_close(&b);
}

/* Nothing can be ordered after a stream that is being captured, and trying harms no capture. */
static void test_captured_stream(void **state)
{
    struct device_order_test_bed b;
    unsigned flags;

    (void)state;
    bed_open(&b);
    for (flags = 0; flags < 2; flags++) {
        void *const legacy = flags == 0 ? CRN_STREAM_LEGACY : NULL; /* it waits for blocking ones */
        void *stream;
        void *graph;

        assert_int_equal(b.cuda.stream_create(&stream, flags), 0);
        assert_false(b.ops->is_capturing(b.dev, stream));
        assert_int_equal(b.cuda.begin(stream, 0), 0);
        assert_true(b.ops->is_capturing(b.dev, stream));
        crn_err_clear(ei);
        assert_int_equal(b.ops->after(b.dev, CRN_LANE_WRITE, stream, ei), CAIRN_EBUSY);
        assert_non_null(strstr(ei->msg, "graph"));
        crn_err_clear(ei);
        if (legacy != NULL)
            assert_int_equal(b.ops->after(b.dev, CRN_LANE_WRITE, legacy, ei), CAIRN_EBUSY);
        crn_err_clear(ei);
        assert_int_equal(b.ops->stream_device(b.driver, stream), 0);
        assert_int_equal(b.cuda.set(address(b.gpu), 1, 16, stream), 0);
        assert_int_equal(b.cuda.end(stream, &graph), 0);
        assert_ok(b.ops->after(b.dev, CRN_LANE_WRITE, stream, ei));
        assert_int_equal(b.cuda.stream_destroy(stream), 0);
    }
    bed_close(&b);
}

/* Lanes that fail. ----------------------------------------------------------------------------- */

struct waiter {
    struct device_order_test_bed *b;
    enum crn_lane lane;
    cairn_err rc;
    atomic_int has_returned;
};

static void *wait_for_lane(void *arg)
{
    struct waiter *w = arg;
    struct crn_errinfo why = {0};

    w->rc = w->b->ops->wait(w->b->dev, w->lane, &why);
    atomic_store(&w->has_returned, 1);
    return NULL;
}

/* The calls that wait for a copy fail while it is in flight: the wait must not return before the
 * copy has ended, because its target is then reused. */
static void wait_with_errors(struct device_order_test_bed *b, enum crn_lane lane, const char *spec,
                             cairn_err rc)
{
    struct waiter w = {.b = b, .lane = lane};
    const struct timespec a_moment = {.tv_nsec = 1000000};
    pthread_t thread;

    memset(b->host, (int)lane + 7, BYTES);
    memset(b->host + BYTES, 0, BYTES);
    assert_ok(b->ops->copy(b->dev, lane, b->gpu, b->host, BYTES, ei));
    hold(FAKE_HOLD_DOWN);
    assert_ok(b->ops->copy(b->dev, lane, b->host + BYTES, b->gpu, BYTES, ei));
    fail_at(spec);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lane, &w), 0);
    while (count_of(FAKE_COUNT_WAITING) == 0 && !atomic_load(&w.has_returned))
        (void)nanosleep(&a_moment, NULL);
    assert_false(atomic_load(&w.has_returned));
    hold(0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fail_at(NULL);
    assert_int_equal(w.rc, rc);
    assert_memory_equal(b->host, b->host + BYTES, BYTES);
}

static void test_drained(void **state)
{
    static const char *const calls[] = {"cuEventQuery", "cuEventRecord", "cuEventSynchronize"};
    static const struct {
        int code;
        cairn_err rc;
    } codes[] = {{900, CAIRN_EIO}, {801, CAIRN_EIO}, {2, CAIRN_ENOMEM}, {719, CAIRN_EDEVICE}};
    struct device_order_test_bed b;
    size_t i;
    size_t c;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    for (i = 0; i < 3; i++) {
        for (c = 0; c < 4; c++) {
            enum crn_lane lane = i == 2 ? CRN_LANE_WRITE : CRN_LANE_DOWN;
            char spec[128];

            (void)snprintf(spec, sizeof(spec), "%s %d; cuStreamSynchronize 900 1 3", calls[i],
                           codes[c].code); /* the drain is retried too */
            wait_with_errors(&b, lane, spec, codes[c].rc);
        }
    }
    bed_close(&b);
}

/* The context is dead: no wait for copies that can never end. */
static void test_dead(void **state)
{
    static const int codes[] = {719, 700, 999, 201, 400, 3};
    struct device_order_test_bed b;
    size_t c;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    for (c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
        char spec[128];

        (void)snprintf(spec, sizeof(spec), "cuEventQuery %d; cuStreamSynchronize %d", codes[c],
                       codes[c]);
        fail_at(spec);
        crn_err_clear(ei);
        assert_int_not_equal(b.ops->wait(b.dev, CRN_LANE_DOWN, ei), CAIRN_OK);
    }
    fail_at(NULL);
    crn_err_clear(ei);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_captured_stream),
        cmocka_unit_test(test_drained),
        cmocka_unit_test(test_dead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
