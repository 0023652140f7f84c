/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU regions through the public functions, over the pretended CUDA library of tier/device_fake.c; with
 * $CAIRN_TEST_GPU set, over the real one. */
#include "base/test.h"

#include <errno.h>

#include "base/err.h"
#include "tier/device.h"

#define N ((size_t)300000) /* of u64 */

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct bed {
    char dir[256];
    struct crn_driver *driver;
    struct crn_device *dev;
    uint64_t *gpu;  /* the application's, on the device */
    uint64_t *host; /* and in the host */
};

static int is_real(void)
{
    return getenv("CAIRN_TEST_GPU") != NULL;
}

static void fail_at(const char *what)
{
    assert_int_equal(what != NULL ? setenv("FAKE_GPU_FAIL", what, 1) : unsetenv("FAKE_GPU_FAIL"),
                     0);
}

static void bed_open(struct bed *b)
{
    void *p;

    memset(b, 0, sizeof(*b));
    test_dir_make(b->dir, sizeof(b->dir));
    assert_ok(crn_driver_cuda(0, &b->driver, ei)); /* as the application's runtime would */
    assert_ok(b->driver->ops->device_open(b->driver, 0, &b->dev, ei));
    assert_ok(b->driver->ops->alloc(b->dev, N * sizeof(uint64_t), &p, ei));
    b->gpu = p;
    b->host = malloc(N * sizeof(uint64_t));
    assert_non_null(b->host);
}

static void bed_close(struct bed *b)
{
    b->driver->ops->free(b->dev, b->gpu);
    b->driver->ops->device_close(b->dev);
    b->driver->ops->close(b->driver);
    free(b->host);
    test_dir_remove(b->dir);
}

static cairn_session *session(struct bed *b, const char *more, const char *more2)
{
    char persistent[300];
    char shm[300];
    char run[300];
    const char *settings[] = {
        persistent, shm, run, "log_level=error", "block_bytes=1M", "blocks=2", more, more2, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", b->dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->dir);
    if (cairn_open(&opt, &s) != CAIRN_OK)
        fail_msg("%s", cairn_last_error());
    return s;
}

static void must(cairn_err rc)
{
    if (rc != CAIRN_OK)
        fail_msg("%s: %s", cairn_error_name(rc), cairn_last_error());
}

static uint64_t value(uint64_t version, uint64_t i)
{
    return version * 1000003 + i * 7;
}

static void copy(struct bed *b, void *dst, const void *src, size_t n)
{
    assert_ok(b->driver->ops->copy(b->dev, CRN_LANE_WRITE, dst, src, n * sizeof(uint64_t), ei));
    assert_ok(b->driver->ops->wait(b->dev, CRN_LANE_WRITE, ei));
}

static void fill(struct bed *b, uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        b->host[i] = value(version, i);
    copy(b, b->gpu, b->host, N);
}

/* The device's buffer, through the host's. */
static int holds(struct bed *b, uint64_t version)
{
    size_t i;

    memset(b->host, 0, N * sizeof(uint64_t));
    copy(b, b->host, b->gpu, N);
    for (i = 0; i < N; i++)
        if (b->host[i] != value(version, i))
            return 0;
    return 1;
}

static void spoil(struct bed *b)
{
    memset(b->host, 0xee, N * sizeof(uint64_t));
    copy(b, b->gpu, b->host, N);
}

static void round_trip(const char *more, const char *more2)
{
    cairn_session *s;
    struct bed b;
    uint64_t small[100];
    int64_t v;

    bed_open(&b);
    s = session(&b, more, more2);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    must(cairn_protect(s, "small", small, CAIRN_U64, 100));
    must(cairn_gpu_stream(s, NULL));
    for (v = 1; v <= 5; v++) {
        fill(&b, (uint64_t)v);
        memset(small, (int)v, sizeof(small));
        must(cairn_checkpoint(s, "gpu", v, NULL));
        spoil(&b); /* at once: the copy must not see it */
    }
    must(cairn_wait(s, "gpu", 5, CAIRN_PERSISTENT, 60000));
    for (v = 5; v >= 1; v--) {
        must(cairn_restore(s, "gpu", v, NULL));
        assert_true(holds(&b, (uint64_t)v));
        assert_int_equal(small[99], UINT64_C(0x0101010101010101) * (uint64_t)v);
        spoil(&b);
    }
    must(cairn_close(s));
    s = session(&b, more, more2); /* a new run reads files */
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    must(cairn_protect(s, "small", small, CAIRN_U64, 100));
    must(cairn_restart(s, "gpu", NULL, &v));
    assert_int_equal(v, 5);
    assert_true(holds(&b, 5));
    must(cairn_restore(s, "gpu", 3, NULL));
    assert_true(holds(&b, 3));
    must(cairn_close(s));
    bed_close(&b);
}

static void test_round_trip(void **state)
{
    (void)state;
    round_trip("arena_bytes=16M", NULL);
    round_trip("arena_bytes=auto", NULL);
}

static void test_spilled(void **state)
{
    char local[64] = "/tmp/cairn-gpu-XXXXXX";
    char setting[80];

    (void)state;
    assert_non_null(mkdtemp(local));
    (void)snprintf(setting, sizeof(setting), "local=%s", local);
    round_trip("arena_bytes=1M", setting); /* nothing fits the arena */
    test_dir_remove(local);
}

static void test_global_array(void **state)
{
    struct cairn_array a = {.size = sizeof(a), .type = CAIRN_U64, .ndims = 2};
    cairn_session *s;
    struct bed b;
    size_t i;

    (void)state;
    bed_open(&b);
    s = session(&b, NULL, NULL);
    a.dims[0] = a.global_dims[0] = 300;
    a.dims[1] = a.global_dims[1] = 1000;
    must(cairn_protect_array(s, "field", b.gpu, &a));
    fill(&b, 1);
    must(cairn_checkpoint(s, "gpu", 1, NULL));
    must(cairn_wait(s, "gpu", 1, CAIRN_PERSISTENT, 60000));
    spoil(&b);
    a.dims[0] = 100; /* the middle third, into device memory */
    a.offset[0] = 100;
    must(cairn_protect_array(s, "field", b.gpu, &a));
    must(cairn_restore(s, "gpu", 1, NULL));
    copy(&b, b.host, b.gpu, N);
    for (i = 0; i < 100000; i++)
        assert_int_equal(b.host[i], value(1, 100000 + i));
    must(cairn_close(s));
    bed_close(&b);
}

static void test_failures(void **state)
{
    cairn_session *s;
    struct bed b;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    s = session(&b, NULL, NULL);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    fill(&b, 1);
    must(cairn_checkpoint(s, "gpu", 1, NULL));
    fail_at("cuMemcpyAsync 719");
    assert_int_equal(cairn_checkpoint(s, "gpu", 2, NULL), CAIRN_EDEVICE);
    assert_non_null(strstr(cairn_last_error(), "GPU 0: copy"));
    fail_at("cuEventSynchronize 700");
    assert_int_equal(cairn_checkpoint(s, "gpu", 2, NULL), CAIRN_EDEVICE);
    fail_at("cuMemcpyAsync 1");
    assert_int_equal(cairn_restore(s, "gpu", 1, NULL), CAIRN_EIO);
    fail_at(NULL);
    must(cairn_restore(s, "gpu", 1, NULL));
    assert_true(holds(&b, 1));
    must(cairn_close(s));
    /* The arena cannot be pinned: slower, not wrong. */
    fail_at("cuMemHostRegister_v2 2");
    s = session(&b, "gpu=on", NULL);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    must(cairn_checkpoint(s, "gpu", 3, NULL));
    must(cairn_close(s));
    fail_at("cuStreamCreate 2");
    s = session(&b, NULL, NULL);
    assert_int_equal(cairn_protect(s, "field", b.gpu, CAIRN_U64, N), CAIRN_ENOMEM);
    assert_non_null(strstr(cairn_last_error(), "region 'field'"));
    fail_at(NULL);
    must(cairn_close(s));
    bed_close(&b);
}

/* Without a driver in the process everything is host memory. Runs first. */
static void test_no_gpu(void **state)
{
    uint64_t a[10] = {1, 2, 3};
    cairn_session *s;
    struct bed b = {0};

    (void)state;
    test_dir_make(b.dir, sizeof(b.dir));
    s = session(&b, NULL, NULL);
    must(cairn_protect(s, "a", a, CAIRN_U64, 10));
    assert_int_equal(cairn_gpu_stream(s, NULL), CAIRN_ENOTSUP);
    must(cairn_checkpoint(s, "host", 1, NULL));
    must(cairn_close(s));
    test_dir_remove(b.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_gpu),   cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_spilled),  cmocka_unit_test(test_global_array),
        cmocka_unit_test(test_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
