/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA and HIP back ends against fake libraries (device_fake.c), found beside the test. On a
 * machine with a GPU and $CAIRN_TEST_GPU set, the same against the real driver. */
#include "base/test.h"

#include "tier/device.h"
#include "tier/test_fake.h"

#define BYTES ((size_t)1 << 20)

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct kind {
    const char *name;
    cairn_err (*open)(int is_loaded, struct crn_driver **ret, struct crn_errinfo *ei);
    const char *library;
    const char *first; /* functions of the library that are made to fail, by code */
    const char *makers[14];
};

static const struct kind cuda_kind = {
    "cuda",
    crn_driver_cuda,
    "libcuda.so.1",
    "cuInit",
    {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamCreate",
     "cuEventCreate", "cuMemAlloc_v2", "cuMemHostRegister_v2", "cuEventRecord", "cuStreamWaitEvent",
     "cuMemcpyAsync", "cuEventSynchronize", "cuEventQuery", "cuMemFree_v2", NULL}};
static const struct kind hip_kind = {"hip",
                                     crn_driver_hip,
                                     "libamdhip64.so.6",
                                     "hipInit",
                                     {"hipSetDevice", "hipStreamCreateWithFlags",
                                      "hipEventCreateWithFlags", "hipMalloc", "hipHostRegister",
                                      "hipEventRecord", "hipStreamWaitEvent", "hipMemcpyAsync",
                                      "hipEventSynchronize", "hipEventQuery", "hipFree", NULL}};

/* Copies on all lanes, between all kinds of memory. */
static void roundtrip(struct crn_driver *driver, int ordinal)
{
    const struct crn_driver_ops *ops = driver->ops;
    unsigned char *host = aligned_alloc(4096, 2 * BYTES);
    struct crn_device *dev;
    uint64_t left;
    uint64_t total;
    void *a;
    void *b;
    size_t i;
    int lane;

    assert_non_null(host);
    assert_ok(ops->device_open(driver, ordinal, &dev, ei));
    assert_ok(ops->memory(dev, &left, &total, ei));
    assert_true(left > 0 && left <= total);
    assert_ok(ops->alloc(dev, BYTES, &a, ei));
    assert_ok(ops->alloc(dev, BYTES, &b, ei));
    assert_ok(ops->pin(dev, host, 2 * BYTES, ei));
    assert_int_equal(ops->owner(driver, a), ordinal);
    assert_int_equal(ops->owner(driver, (char *)b + BYTES - 1), ordinal);
    assert_int_equal(ops->owner(driver, host), -1);
    assert_int_equal(ops->owner(driver, &info), -1);
    for (lane = 0; lane < CRN_LANES; lane++) {
        for (i = 0; i < BYTES; i++)
            host[i] = (unsigned char)(i * 3 + (size_t)lane);
        memset(host + BYTES, 0, BYTES);
        assert_ok(ops->after(dev, (enum crn_lane)lane, NULL, ei));
        assert_ok(ops->copy(dev, (enum crn_lane)lane, a, host, BYTES, ei));
        assert_ok(ops->copy(dev, (enum crn_lane)lane, b, a, BYTES, ei));
        assert_ok(ops->copy(dev, (enum crn_lane)lane, host + BYTES, b, BYTES, ei));
        assert_ok(ops->wait(dev, (enum crn_lane)lane, ei));
        assert_memory_equal(host, host + BYTES, BYTES);
    }
    ops->unpin(dev, host);
    ops->free(dev, a);
    ops->free(dev, b);
    ops->device_close(dev);
    free(host);
}

static void check_kind(const struct kind *k)
{
    struct crn_errinfo why = {0};
    struct crn_driver *driver;
    struct crn_device *dev;
    void *p = NULL;

    assert_ok(k->open(0, &driver, ei));
    assert_string_equal(driver->ops->name, k->name);
    assert_true(driver->ndevices >= 1);
    roundtrip(driver, 0);
    assert_int_equal(fake_ask(k->library, "fake_gpu_depth"), 0);
    if (driver->ndevices > 1)
        roundtrip(driver, 1);
    assert_int_equal(driver->ops->device_open(driver, 99, &dev, &why), CAIRN_ENOTSUP);
    assert_ok(driver->ops->device_open(driver, 0, &dev, ei));
    memset(&why, 0, sizeof(why));
    assert_int_equal(driver->ops->alloc(dev, UINT64_C(1) << 50, &p, &why), CAIRN_ENOMEM);
    assert_non_null(strstr(why.msg, "GPU 0: allocate device memory"));
    assert_null(p);
    driver->ops->device_close(dev);
    assert_int_equal(fake_ask(k->library, "fake_gpu_live"), 0);
    assert_int_equal(fake_ask(k->library, "fake_gpu_depth"), 0);
    driver->ops->close(driver);
}

static void test_cuda(void **state)
{
    (void)state;
    check_kind(&cuda_kind);
}

static void test_hip(void **state)
{
    (void)state;
    if (is_real())
        skip();
    check_kind(&hip_kind);
    assert_int_equal(setenv("FAKE_GPU_OLD", "1", 1), 0); /* other numbers before release 6 */
    check_kind(&hip_kind);
    assert_int_equal(unsetenv("FAKE_GPU_OLD"), 0);
}

/* Every function fails in turn: the error is returned, and no resource leaks. */
static cairn_err whole_life(struct crn_driver *driver, struct crn_errinfo *why)
{
    static unsigned char host[4096];
    const struct crn_driver_ops *ops = driver->ops;
    struct crn_device *dev;
    void *p = NULL;
    cairn_err rc = ops->device_open(driver, 1, &dev, why);

    if (rc != CAIRN_OK)
        return rc;
    rc = ops->alloc(dev, 4096, &p, why);
    if (rc == CAIRN_OK)
        rc = ops->pin(dev, host, sizeof(host), why);
    if (rc == CAIRN_OK) {
        static const enum crn_lane lanes[] = {CRN_LANE_WRITE, CRN_LANE_UP};
        size_t i;

        for (i = 0; rc == CAIRN_OK && i < 2; i++) {
            rc = ops->after(dev, lanes[i], i == 0 ? CRN_STREAM_LEGACY : NULL, why);
            if (rc == CAIRN_OK)
                rc = ops->copy(dev, lanes[i], p, host, sizeof(host), why);
            if (rc == CAIRN_OK)
                rc = ops->wait(dev, lanes[i], why);
        }
        fail_at(NULL); /* cleanup succeeds again */
        ops->unpin(dev, host);
    }
    fail_at(NULL);
    ops->free(dev, p);
    ops->device_close(dev);
    return rc;
}

static void check_failures(const struct kind *k)
{
    struct crn_driver *driver;
    int i;

    for (i = 0; k->makers[i] != NULL; i++) {
        static const struct {
            int code;
            cairn_err rc;
        } codes[] = {{2, CAIRN_ENOMEM}, {719, CAIRN_EDEVICE}, {801, CAIRN_EIO}};
        size_t c;

        for (c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
            struct crn_errinfo why = {0};
            char spec[128];

            assert_ok(k->open(0, &driver, ei));
            (void)snprintf(spec, sizeof(spec), "%s %d", k->makers[i], codes[c].code);
            fail_at(spec);
            assert_int_equal(whole_life(driver, &why), codes[c].rc);
            assert_non_null(strstr(why.msg, "GPU 1: "));
            fail_at(NULL);
            assert_int_equal(fake_ask(k->library, "fake_gpu_live"), 0);
            assert_int_equal(fake_ask(k->library, "fake_gpu_depth"), 0);
            driver->ops->close(driver);
        }
    }
}

static void test_failures(void **state)
{
    (void)state;
    if (is_real())
        skip();
    check_failures(&cuda_kind);
    check_failures(&hip_kind);
}

static void test_no_driver(void **state)
{
    struct crn_errinfo why = {0};
    struct crn_driver *driver;

    (void)state;
    if (is_real())
        skip();
    /* Not loaded by the application, so not used. */
    assert_int_equal(crn_driver_any(1, &driver, &why), CAIRN_ENOTSUP);
    assert_non_null(strstr(why.msg, "libcuda.so.1 is not loaded"));
    memset(&why, 0, sizeof(why));
    fail_at("cuInit 100");
    assert_int_equal(crn_driver_cuda(0, &driver, &why), CAIRN_ENOTSUP);
    assert_string_equal(why.msg, "CUDA shows no GPU");
    assert_ok(crn_driver_any(0, &driver, ei)); /* the other one exists */
    assert_string_equal(driver->ops->name, "hip");
    driver->ops->close(driver);
    memset(&why, 0, sizeof(why));
    fail_at("cuInit 803");
    assert_int_equal(crn_driver_cuda(0, &driver, &why), CAIRN_ENOTSUP);
    assert_non_null(strstr(why.msg, "error 803"));
    fail_at("cuInit 803; hipGetDeviceCount 100");
    memset(&why, 0, sizeof(why));
    assert_int_equal(crn_driver_hip(0, &driver, &why), CAIRN_ENOTSUP);
    fail_at(NULL);
}

/* A thread without a context asks for the owner of a pointer. */
static void test_owner_without_context(void **state)
{
    struct crn_driver *driver;
    struct crn_device *dev;
    void *p;

    (void)state;
    assert_ok(crn_driver_cuda(0, &driver, ei));
    assert_int_equal(driver->ops->owner(driver, &info), -1); /* opens no device */
    assert_int_equal(fake_ask(FAKE_CUDA, "fake_gpu_live"), 0);
    assert_ok(driver->ops->device_open(driver, 0, &dev, ei));
    assert_ok(driver->ops->alloc(dev, 100, &p, ei));
    assert_int_equal(driver->ops->owner(driver, p), 0);
    driver->ops->free(dev, p);
    driver->ops->device_close(dev);
    driver->ops->close(driver);
}

/* A lane waits for operations submitted to the application's stream: here eight large fills on the
 * legacy stream, of which the copy must see the last. */
static void test_real_order(void **state)
{
    enum { FILLS = 8 };
    const size_t bytes = (size_t)1 << 30;
    int (*fill)(unsigned long long p, unsigned word, size_t n, void *stream) = NULL;
    int (*set)(void *ctx) = NULL;
    int (*retain)(void **ctx, int dev) = NULL;
    struct crn_driver *driver;
    struct crn_device *dev;
    uint32_t last = 0;
    void *ctx = NULL;
    void *lib;
    void *p;
    unsigned i;

    (void)state;
    if (!is_real())
        skip();
    lib = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(lib);
    *(void **)&fill = dlsym(lib, "cuMemsetD32Async");
    *(void **)&set = dlsym(lib, "cuCtxSetCurrent");
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    assert_ok(crn_driver_cuda(0, &driver, ei));
    assert_ok(driver->ops->device_open(driver, 0, &dev, ei));
    assert_int_equal(retain(&ctx, 0), 0);
    assert_int_equal(set(ctx), 0);
    assert_ok(driver->ops->alloc(dev, bytes, &p, ei));
    for (i = 1; i <= FILLS; i++)
        assert_int_equal(fill((unsigned long long)(uintptr_t)p, i, bytes / 4, NULL), 0);
    assert_ok(driver->ops->after(dev, CRN_LANE_WRITE, NULL, ei));
    assert_ok(driver->ops->copy(dev, CRN_LANE_WRITE, &last, (char *)p + bytes - 4, 4, ei));
    assert_ok(driver->ops->wait(dev, CRN_LANE_WRITE, ei));
    assert_int_equal(last, FILLS);
    driver->ops->free(dev, p);
    driver->ops->device_close(dev);
    driver->ops->close(driver);
    (void)dlclose(lib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_order), cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_cuda),       cmocka_unit_test(test_hip),
        cmocka_unit_test(test_failures),   cmocka_unit_test(test_owner_without_context),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
