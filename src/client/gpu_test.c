/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU regions through the public functions, over the fake CUDA library of tier/device_fake.c; with
 * $CAIRN_TEST_GPU set, over the real one. */
#include "client/test_bed.h"

#include <dlfcn.h>

static int searches; /* calls of dlopen */

void *__real_dlopen(const char *file, int mode); /* NOLINT: the names that the linker gives them */
void *__wrap_dlopen(const char *file, int mode); /* NOLINT */

void *__wrap_dlopen(const char *file, int mode) /* NOLINT */
{
    searches++;
    return __real_dlopen(file, mode);
}

static void round_trip(const char *more, const char *more2)
{
    cairn_session *s;
    struct bed_bed b;
    uint64_t small[100];
    int64_t v;

    bed_open(&b);
    s = bed_session(&b, more, more2, NULL);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    must(cairn_protect(s, "small", small, CAIRN_U64, 100));
    must(cairn_gpu_stream(s, NULL));
    for (v = 1; v <= 5; v++) {
        bed_fill(&b, (uint64_t)v);
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
    s = bed_session(&b, more, more2, NULL); /* a new run reads files */
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
    struct bed_bed b;
    size_t i;

    (void)state;
    bed_open(&b);
    s = bed_session(&b, NULL);
    a.dims[0] = a.global_dims[0] = 300;
    a.dims[1] = a.global_dims[1] = 1000;
    must(cairn_protect_array(s, "field", b.gpu, &a));
    bed_fill(&b, 1);
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
    struct bed_bed b;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    s = bed_session(&b, NULL);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    bed_fill(&b, 1);
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
    /* The arena cannot be pinned: copies are slower, but correct. */
    fail_at("cuMemHostRegister_v2 2");
    s = bed_session(&b, "gpu=on", NULL);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    must(cairn_checkpoint(s, "gpu", 3, NULL));
    must(cairn_close(s));
    fail_at("cuStreamCreate 2");
    s = bed_session(&b, NULL);
    assert_int_equal(cairn_protect(s, "field", b.gpu, CAIRN_U64, N), CAIRN_ENOMEM);
    assert_non_null(strstr(cairn_last_error(), "region 'field'"));
    fail_at(NULL);
    must(cairn_close(s));
    bed_close(&b);
}

/* Without a driver in the process all memory is host memory. This test runs first;
 * compute-sanitizer loads a driver even before that. */
static void test_no_gpu(void **state)
{
    uint64_t a[10] = {1, 2, 3};
    cairn_session *s;
    struct bed_bed b = {0};

    (void)state;
    if (is_real() && dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL)
        skip();
    test_dir_make(b.dir, sizeof(b.dir));
    s = bed_session(&b, NULL);
    must(cairn_protect(s, "a", a, CAIRN_U64, 10));
    searches = 0;
    must(cairn_protect(s, "b", a, CAIRN_U64, 5));
    assert_int_equal(searches, 0);
    must(cairn_unprotect(s, "b"));
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
