/* SPDX-License-Identifier: BSD-3-Clause */
#include "tier/test_fake.h"

int is_real(void)
{
    return getenv("CAIRN_TEST_GPU") != NULL;
}

/* Finds a function of a loaded library and stores its pointer; 0 if there is none. */
static int fake_find(const char *library, const char *name, void *ret_fn)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *fn = lib != NULL ? dlsym(lib, name) : NULL;

    if (lib != NULL)
        (void)dlclose(lib);
    *(void **)ret_fn = fn;
    return fn != NULL;
}

int fake_ask(const char *library, const char *what)
{
    int (*fn)(void);

    return fake_find(library, what, &fn) ? fn() : 0;
}

void fail_at(const char *spec)
{
    static const char *const libraries[] = {FAKE_CUDA, FAKE_HIP};
    void (*set_spec)(const char *text);
    size_t i;

    assert_int_equal(spec != NULL ? setenv("FAKE_GPU_FAIL", spec, 1) : unsetenv("FAKE_GPU_FAIL"),
                     0);
    for (i = 0; i < 2; i++)
        if (fake_find(libraries[i], "fake_gpu_fail", &set_spec))
            set_spec(spec);
}

void hold(int kinds)
{
    void (*fn)(int kinds);

    if (fake_find(FAKE_CUDA, "fake_gpu_hold", &fn))
        fn(kinds);
}

void set_speed(double link, double pageable)
{
    void (*fn)(double link, double pageable);

    if (fake_find(FAKE_CUDA, "fake_gpu_speed", &fn))
        fn(link, pageable);
}

int poke(void *dst, const void *src, size_t bytes)
{
    void (*fn)(void *dst, const void *src, size_t bytes);

    if (!fake_find(FAKE_CUDA, "fake_gpu_poke", &fn))
        return 0;
    fn(dst, src, bytes);
    return 1;
}

long count_of(int what)
{
    long (*fn)(int what);

    return fake_find(FAKE_CUDA, "fake_gpu_count", &fn) ? fn(what) : 0;
}

void cuda_find(struct cuda *c)
{
    assert_true(fake_find(FAKE_CUDA, "cuCtxPushCurrent_v2", &c->push));
    assert_true(fake_find(FAKE_CUDA, "cuCtxPopCurrent_v2", &c->pop));
    assert_true(fake_find(FAKE_CUDA, "cuDevicePrimaryCtxRetain", &c->retain));
    assert_true(fake_find(FAKE_CUDA, "cuDevicePrimaryCtxRelease_v2", &c->release));
    assert_true(fake_find(FAKE_CUDA, "cuDeviceGet", &c->device));
    assert_true(fake_find(FAKE_CUDA, "cuStreamCreate", &c->stream_create));
    assert_true(fake_find(FAKE_CUDA, "cuStreamDestroy_v2", &c->stream_destroy));
    assert_true(fake_find(FAKE_CUDA, "cuStreamSynchronize", &c->stream_sync));
    assert_true(fake_find(FAKE_CUDA, "cuCtxSynchronize", &c->ctx_sync));
    assert_true(fake_find(FAKE_CUDA, "cuStreamBeginCapture_v2", &c->begin));
    assert_true(fake_find(FAKE_CUDA, "cuStreamEndCapture", &c->end));
    assert_true(fake_find(FAKE_CUDA, "cuMemsetD32Async", &c->set));
    assert_true(fake_find(FAKE_CUDA, "cuMemcpyAsync", &c->copy));
}

void cuda_enter(const struct cuda *c, int ordinal)
{
    void *ctx;
    int dev;

    assert_int_equal(c->device(&dev, ordinal), 0);
    assert_int_equal(c->retain(&ctx, dev), 0);
    assert_int_equal(c->push(ctx), 0);
}

void cuda_leave(const struct cuda *c, int ordinal)
{
    void *ctx;
    int dev;

    assert_int_equal(c->pop(&ctx), 0);
    assert_int_equal(c->device(&dev, ordinal), 0);
    assert_int_equal(c->release(dev), 0);
}
