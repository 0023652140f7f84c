/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that return before their memory is read: what waits for the reading, what does not,
 * and what happens to a source that changes too early. A page of the source that cannot be read yet
 * suspends a copy of host memory; the fake CUDA library suspends those of device memory. */
#include "client/test_bed.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/session.h"

#define PAGE  ((size_t)4096)
#define BYTES ((size_t)8 << 20)
/* Not among the samples of a region of this size, which the call reads. */
#define CLOSED_PAGE 1

static const struct cairn_checkpoint_options lazy = {.size = sizeof(lazy), .flags = CAIRN_LAZY};
static const struct cairn_checkpoint_options ordered = {.size = sizeof(ordered),
                                                        .flags = CAIRN_STREAM_ORDERED};

/* A source with a closed page. ------------------------------------------------------------------ */

static struct {
    unsigned char *memory;
    int gate[2]; /* a byte in this pipe opens the page */
    atomic_int is_open;
} deferred_source;

/* Runs on the thread that reads the closed page. */
static void deferred_fault(int signal, siginfo_t *info_of, void *context)
{
    unsigned char *page = deferred_source.memory + CLOSED_PAGE * PAGE;
    unsigned char *at = info_of->si_addr;
    char byte;

    (void)context;
    if (at < page || at >= page + PAGE) {
        (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        return;
    }
    while (!atomic_load(&deferred_source.is_open) && read(deferred_source.gate[0], &byte, 1) != 1)
        ;
    atomic_store(&deferred_source.is_open, 1);
    (void)mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    (void)write(deferred_source.gate[1], "x", 1); /* for another thread that waits */
}

static void source_fill(uint64_t version)
{
    uint64_t *p = (uint64_t *)(void *)deferred_source.memory;
    size_t i;

    for (i = 0; i < BYTES / sizeof(*p); i++)
        p[i] = value(version, i);
}

static int source_holds(uint64_t version)
{
    const uint64_t *p = (const uint64_t *)(const void *)deferred_source.memory;
    size_t i;

    for (i = 0; i < BYTES / sizeof(*p); i++)
        if (p[i] != value(version, i))
            return 0;
    return 1;
}

static void source_close(void)
{
    assert_int_equal(pipe(deferred_source.gate), 0);
    atomic_store(&deferred_source.is_open, 0);
    assert_int_equal(mprotect(deferred_source.memory + CLOSED_PAGE * PAGE, PAGE, PROT_NONE), 0);
}

static void *deferred_open(void *arg)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* so that the call waits */
    if (write(deferred_source.gate[1], "x", 1) != 1)
        abort();
    return arg;
}

/* The page is open again, and nothing of a round is left. */
static void source_reopen(void)
{
    (void)close(deferred_source.gate[0]);
    (void)close(deferred_source.gate[1]);
}

static void source_make(void)
{
    struct sigaction sa = {.sa_sigaction = deferred_fault, .sa_flags = SA_SIGINFO};

    deferred_source.memory =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(deferred_source.memory, MAP_FAILED);
    assert_int_equal(sigaction(SIGSEGV, &sa, NULL), 0);
}

static void source_free(void)
{
    (void)sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    assert_int_equal(munmap(deferred_source.memory, BYTES), 0);
}

static int is_captured(cairn_session *s, int64_t version)
{
    int reached;

    must(cairn_test(s, "d", version, CAIRN_CAPTURED, &reached));
    return reached;
}

/* Host memory. ---------------------------------------------------------------------------------- */

static void call_source_free(cairn_session *s)
{
    must(cairn_source_free(s));
}

static void call_unprotect(cairn_session *s)
{
    must(cairn_unprotect(s, "field"));
}

static void call_protect(cairn_session *s)
{
    must(cairn_protect(s, "field", NULL, CAIRN_U64, 0));
}

static void call_checkpoint(cairn_session *s)
{
    must(cairn_checkpoint(s, "d", 1000, NULL));
}

static void call_lazy(cairn_session *s)
{
    must(cairn_checkpoint_with(s, "d", 1000, &lazy));
    must(cairn_source_free(s));
}

static void call_capture(cairn_session *s)
{
    must(cairn_capture(s, "d", 1000, NULL));
    must(cairn_submit(s));
}

static void call_find(cairn_session *s)
{
    must(cairn_find_version(s, "d", 1));
}

static void call_restore(cairn_session *s)
{
    must(cairn_restore(s, "d", 1, NULL));
}

static void call_prefetch(cairn_session *s)
{
    must(cairn_prefetch_start(s));
}

static void call_wait(cairn_session *s)
{
    must(cairn_wait(s, "d", 1, CAIRN_CAPTURED, 60000));
}

static void call_close(cairn_session *s)
{
    must(cairn_close(s));
}

/* Takes a lazy checkpoint whose reading is suspended, then makes the call, which must not return
 * before the source has been read; then changes the source. */
static void check_waits(struct bed_bed *b, const char *setting, void (*call)(cairn_session *))
{
    cairn_session *s = bed_session(b, setting, "wait_timeout=60s", NULL);
    pthread_t opener;

    source_fill(1);
    must(cairn_protect(s, "field", deferred_source.memory, CAIRN_U64, BYTES / 8));
    source_close();
    must(cairn_checkpoint_with(s, "d", 1, &lazy)); /* returns although a page cannot be read */
    assert_false(is_captured(s, 1));
    assert_false(atomic_load(&deferred_source.is_open));
    assert_int_equal(pthread_create(&opener, NULL, deferred_open, NULL), 0);
    call(s);
    assert_true(atomic_load(&deferred_source.is_open));
    assert_int_equal(pthread_join(opener, NULL), 0);
    source_fill(2);
    if (call != call_close)
        must(cairn_close(s));
    source_reopen();
    s = bed_session(b, setting, NULL);
    must(cairn_protect(s, "field", deferred_source.memory, CAIRN_U64, BYTES / 8));
    must(cairn_restore(s, "d", 1, NULL));
    assert_true(source_holds(1));
    must(cairn_close(s));
}

static void test_waits(void **state)
{
    static void (*const calls[])(cairn_session *) = {
        call_source_free, call_unprotect, call_protect,  call_checkpoint, call_lazy, call_capture,
        call_find,        call_restore,   call_prefetch, call_wait,       call_close};
    struct bed_bed b;
    char local[300];
    size_t i;

    (void)state;
    bed_open(&b);
    source_make();
    for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        check_waits(&b, "arena_bytes=32M", calls[i]);
    (void)snprintf(local, sizeof(local), "local=%s/local", b.dir);
    check_waits(&b, local, call_source_free);
    source_free();
    bed_close(&b);
}

/* Nothing needs a further call of the application: the version commits by itself. */
static void test_alone(void **state)
{
    cairn_session *s;
    cairn_session *other;
    struct bed_bed b;
    struct cairn_version_info found = {.size = sizeof(found)};

    (void)state;
    bed_open(&b);
    source_make();
    s = bed_session(&b, NULL);
    other = bed_session(&b, NULL);
    source_fill(3);
    must(cairn_protect(s, "field", deferred_source.memory, CAIRN_U64, BYTES / 8));
    must(cairn_checkpoint_with(s, "d", 3, &lazy));
    while (cairn_version_info(other, "d", 3, &found) != CAIRN_OK)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    must(cairn_close(other));
    must(cairn_close(s));
    source_free();
    bed_close(&b);
}

/* The source changed while it was read: this version fails, others are not affected. */
static void test_changed(void **state)
{
    struct cairn_stats stats = {.size = sizeof(stats)};
    cairn_session *s;
    struct bed_bed b;
    int64_t newest;

    (void)state;
    bed_open(&b);
    source_make();
    s = bed_session(&b, "on_failure=continue", NULL);
    must(cairn_protect(s, "field", deferred_source.memory, CAIRN_U64, BYTES / 8));
    source_fill(1);
    must(cairn_checkpoint(s, "d", 1, NULL));
    source_close();
    must(cairn_checkpoint_with(s, "d", 2, &lazy));
    memset(deferred_source.memory, 0x5a, PAGE); /* too early */
    assert_int_equal(write(deferred_source.gate[1], "x", 1), 1);
    assert_int_equal(cairn_source_free(s), CAIRN_ESTATE);
    assert_non_null(strstr(cairn_last_error(), "'field' changed before it was read"));
    must(cairn_source_free(s)); /* said once */
    assert_int_equal(cairn_wait(s, "d", 2, CAIRN_CAPTURED, 60000), CAIRN_ESTATE);
    must(cairn_stats(s, "d", 2, &stats));
    assert_int_equal(stats.error, CAIRN_ESTATE);
    source_reopen();
    source_fill(3);
    must(cairn_checkpoint_with(s, "d", 3, &lazy));
    must(cairn_source_free(s));
    source_fill(9);
    must(cairn_close(s));
    s = bed_session(&b, NULL);
    must(cairn_protect(s, "field", deferred_source.memory, CAIRN_U64, BYTES / 8));
    assert_int_equal(cairn_find_version(s, "d", 2), CAIRN_ENOENT);
    must(cairn_restart(s, "d", NULL, &newest));
    assert_int_equal(newest, 3);
    assert_true(source_holds(3));
    must(cairn_restore(s, "d", 1, NULL));
    assert_true(source_holds(1));
    must(cairn_close(s));
    source_free();
    bed_close(&b);
}

/* With a strict policy the next checkpoint reports what cairn_source_free did not. */
static void test_strict(void **state)
{
    cairn_session *s;
    struct bed_bed b;

    (void)state;
    bed_open(&b);
    source_make();
    s = bed_session(&b, "on_failure=strict", NULL);
    must(cairn_protect(s, "field", deferred_source.memory, CAIRN_U64, BYTES / 8));
    source_close();
    must(cairn_checkpoint_with(s, "d", 1, &lazy));
    memset(deferred_source.memory, 0x5a, PAGE);
    assert_int_equal(write(deferred_source.gate[1], "x", 1), 1);
    assert_int_equal(cairn_checkpoint(s, "d", 2, NULL), CAIRN_ESTATE);
    must(cairn_checkpoint(s, "d", 3, NULL));
    must(cairn_close(s));
    source_reopen();
    source_free();
    bed_close(&b);
}

/* A flag with nothing to read, and wrong flags. */
static void test_flags(void **state)
{
    struct cairn_checkpoint_options with = {.size = sizeof(with),
                                            .flags = CAIRN_LAZY | CAIRN_STREAM_ORDERED};
    cairn_session *s;
    struct bed_bed b;

    (void)state;
    bed_open(&b);
    s = bed_session(&b, NULL);
    must(cairn_source_free(s));
    assert_int_equal(cairn_checkpoint_with(s, "d", 1, &with), CAIRN_EINVAL);
    must(cairn_checkpoint_with(s, "d", 2, &lazy));
    must(cairn_checkpoint_with(s, "d", 3, &ordered));
    must(cairn_source_free(s));
    must(cairn_wait(s, "d", 3, CAIRN_PERSISTENT, 60000));
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    assert_int_equal(cairn_checkpoint_with(s, "d", 4, &ordered), CAIRN_ESTATE);
    assert_non_null(strstr(cairn_last_error(), "cairn_gpu_stream"));
    must(cairn_close(s));
    bed_close(&b);
}

/* Device memory. -------------------------------------------------------------------------------- */

static void kernel(const struct cuda *c, const struct bed_bed *b, uint32_t word, void *stream)
{
    assert_int_equal(c->set((unsigned long long)(uintptr_t)b->gpu, word, N * 2, stream), 0);
}

static int all_are(struct bed_bed *b, uint32_t word)
{
    const uint32_t *p = (const uint32_t *)(void *)b->host;
    size_t i;

    memset(b->host, 0, N * sizeof(uint64_t));
    copy(b, b->host, b->gpu, N);
    for (i = 0; i < N * 2; i++)
        if (p[i] != word)
            return 0;
    return 1;
}

/* The call returns while the GPU cannot copy. What the stream does afterwards waits for the
 * copy. */
static void check_ordered(struct bed_bed *b, const struct cuda *c, const char *arena, void *stream)
{
    cairn_session *s = bed_session(b, arena, NULL);
    uint64_t small = 0;
    int64_t v;

    must(cairn_protect(s, "field", b->gpu, CAIRN_U64, N));
    must(cairn_protect(s, "small", &small, CAIRN_U64, 1));
    must(cairn_gpu_stream(s, stream));
    for (v = 1; v <= 4; v++) {
        kernel(c, b, (uint32_t)v, stream);
        small = (uint64_t)v;
        must(cairn_source_free(s)); /* else the next call waits for the suspended copy */
        if (v > 1)                  /* the first one pins the arena */
            hold(FAKE_HOLD_DOWN);
        must(cairn_checkpoint_with(s, "d", v, &ordered));
        small = 99;
        kernel(c, b, 2000, stream);
        if (v > 1 && !is_real())
            assert_false(is_captured(s, v));
        hold(0);
    }
    must(cairn_wait(s, "d", 4, CAIRN_PERSISTENT, 60000));
    for (v = 1; v <= 4; v++) {
        must(cairn_restore(s, "d", v, NULL));
        assert_true(all_are(b, (uint32_t)v));
        assert_int_equal(small, v);
    }
    must(cairn_close(s));
}

static void test_ordered(void **state)
{
    void *stream[2];
    struct bed_bed b;
    char local[300];
    struct cuda c;
    size_t i;

    (void)state;
    bed_open(&b);
    (void)snprintf(local, sizeof(local), "local=%s/local", b.dir);
    cuda_find(&c);
    cuda_enter(&c, 0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(c.stream_create(&stream[i], (unsigned)i), 0);
        check_ordered(&b, &c, "arena_bytes=32M", stream[i]);
        assert_int_equal(c.stream_destroy(stream[i]), 0);
    }
    check_ordered(&b, &c, "arena_bytes=auto", CRN_STREAM_LEGACY);
    check_ordered(&b, &c, "arena_bytes=32M", CRN_STREAM_PER_THREAD);
    cuda_leave(&c, 0);
    bed_close(&b);
}

/* A graph is captured meanwhile, from another stream and from the named one. */
static void test_graphs(void **state)
{
    void *stream[2];
    struct bed_bed b;
    cairn_session *s;
    struct cuda c;
    void *graph;
    int mode;

    (void)state;
    bed_open(&b);
    cuda_find(&c);
    cuda_enter(&c, 0);
    assert_int_equal(c.stream_create(&stream[0], 1), 0);
    assert_int_equal(c.stream_create(&stream[1], 1), 0);
    s = bed_session(&b, "arena_bytes=32M", NULL);
    must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
    for (mode = 0; mode < 3; mode++) {
        must(cairn_gpu_stream(s, stream[0]));
        kernel(&c, &b, (uint32_t)mode + 1, stream[0]);
        hold(FAKE_HOLD_DOWN);
        must(cairn_checkpoint_with(s, "d", mode, &ordered));
        assert_int_equal(c.begin(stream[1], mode), 0);
        kernel(&c, &b, 7, stream[1]);
        kernel(&c, &b, 2000, stream[0]);
        hold(0);
        must(cairn_source_free(s));
        must(cairn_checkpoint_with(s, "d", mode + 100, &ordered));
        must(cairn_checkpoint_with(s, "d", mode + 200, &lazy));
        must(cairn_wait(s, "d", mode + 200, CAIRN_CAPTURED, 60000));
        assert_int_equal(c.end(stream[1], &graph), 0); /* the capture was not harmed */
        must(cairn_restore(s, "d", mode, NULL));
        assert_true(all_are(&b, (uint32_t)mode + 1));
        must(cairn_restore(s, "d", mode + 100, NULL));
        assert_true(all_are(&b, 2000));
        must(cairn_restore(s, "d", mode + 200, NULL));
        assert_true(all_are(&b, 2000));
        assert_int_equal(c.begin(stream[0], mode), 0);
        assert_int_equal(cairn_checkpoint_with(s, "d", mode + 300, &ordered), CAIRN_EBUSY);
        assert_int_equal(cairn_checkpoint_with(s, "d", mode + 300, &lazy), CAIRN_EBUSY);
        kernel(&c, &b, 7, stream[0]);
        assert_int_equal(c.end(stream[0], &graph), 0);
        must(cairn_checkpoint_with(s, "d", mode + 300, &ordered));
        must(cairn_source_free(s));
    }
    must(cairn_close(s));
    assert_int_equal(c.stream_destroy(stream[0]), 0);
    assert_int_equal(c.stream_destroy(stream[1]), 0);
    cuda_leave(&c, 0);
    bed_close(&b);
}

/* A lazy checkpoint returns while the GPU cannot copy, and is ordered after the stream's work. */
static void check_lazy_gpu(struct bed_bed *b, const struct cuda *c, void *stream, void *named)
{
    cairn_session *s = bed_session(b, "arena_bytes=32M", NULL);
    int64_t v;

    must(cairn_protect(s, "field", b->gpu, CAIRN_U64, N));
    must(cairn_gpu_stream(s, named));
    for (v = 1; v <= 3; v++) {
        kernel(c, b, (uint32_t)v, stream);
        hold(FAKE_HOLD_DOWN);
        must(cairn_checkpoint_with(s, "d", v, &lazy));
        if (!is_real())
            assert_false(is_captured(s, v));
        hold(0);
        must(cairn_source_free(s));
        kernel(c, b, 2000, stream);
    }
    for (v = 1; v <= 3; v++) {
        must(cairn_restore(s, "d", v, NULL));
        assert_true(all_are(b, (uint32_t)v));
    }
    must(cairn_close(s));
}

static void test_lazy_gpu(void **state)
{
    struct bed_bed b;
    struct cuda c;
    void *stream;

    (void)state;
    bed_open(&b);
    cuda_find(&c);
    cuda_enter(&c, 0);
    assert_int_equal(c.stream_create(&stream, 1), 0);
    check_lazy_gpu(&b, &c, stream, stream);
    check_lazy_gpu(&b, &c, stream, NULL);
    assert_int_equal(c.stream_destroy(stream), 0);
    cuda_leave(&c, 0);
    bed_close(&b);
}

/* Every call of the driver fails in turn: the checkpoint fails or is right, and the session goes
 * on. */
static void test_driver_fails(void **state)
{
    static const char *const symbols[] = {"cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent",
                                          "cuEventSynchronize"};
    const struct cairn_checkpoint_options *const how[] = {&lazy, &ordered};
    char spec[100];
    struct bed_bed b;
    struct cuda c;
    void *stream;
    size_t i;
    int nth;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b);
    cuda_find(&c);
    cuda_enter(&c, 0);
    assert_int_equal(c.stream_create(&stream, 1), 0);
    for (i = 0; i < 8; i++) {
        for (nth = 1; nth <= 3; nth++) {
            cairn_session *s =
                bed_session(&b, "arena_bytes=32M", "on_failure=continue", "log_level=error", NULL);
            cairn_err rc;

            must(cairn_protect(s, "field", b.gpu, CAIRN_U64, N));
            must(cairn_gpu_stream(s, stream));
            kernel(&c, &b, 5, stream);
            assert_int_equal(c.stream_sync(stream), 0);
            (void)snprintf(spec, sizeof(spec), "%s 1 %d 1", symbols[i / 2], nth);
            fail_at(spec);
            rc = cairn_checkpoint_with(s, "d", 1, how[i % 2]);
            if (rc == CAIRN_OK)
                rc = cairn_source_free(s);
            fail_at(NULL);
            if (rc == CAIRN_OK) {
                spoil(&b);
                must(cairn_restore(s, "d", 1, NULL));
                assert_true(all_are(&b, 5));
            } else {
                assert_int_equal(rc, CAIRN_EIO);
            }
            assert_true(rc != CAIRN_OK || nth > 1);
            kernel(&c, &b, 6, stream);
            must(cairn_checkpoint_with(s, "d", 2, how[i % 2]));
            must(cairn_source_free(s));
            must(cairn_wait(s, "d", 2, CAIRN_PERSISTENT, 60000));
            spoil(&b);
            must(cairn_restore(s, "d", 2, NULL));
            assert_true(all_are(&b, 6));
            (void)cairn_close(s); /* reports the failure of the first */
        }
    }
    assert_int_equal(c.stream_destroy(stream), 0);
    cuda_leave(&c, 0);
    bed_close(&b);
}

/* Every byte of a small region is in a sample; a large one in device memory has some. */
static void test_samples(void **state)
{
    unsigned char source[600];
    unsigned char *image = malloc(600 + N * sizeof(uint64_t));
    uint64_t at[2] = {0, 600};
    struct crn_region regions[2] = {{.name = "host", .bytes = sizeof(source)},
                                    {.name = "gpu", .bytes = N * sizeof(uint64_t)}};
    struct crn_place places[2] = {{.ptr = source}};
    struct crn_capture c = {.nmemory = 1,
                            .places = places,
                            .shard = {.nregions = 2, .regions = regions},
                            .image = {.at = at}};
    struct bed_bed b;
    cairn_session *s;
    size_t i;

    (void)state;
    assert_non_null(image);
    bed_open(&b);
    s = bed_session(&b, NULL);
    memset(source, 1, sizeof(source));
    memset(image, 1, sizeof(source));
    c.early = crn_early_sample(&c);
    assert_non_null(c.early);
    assert_ok(crn_early_check(&c, image, ei));
    for (i = 0; i < sizeof(source); i++) {
        image[i] ^= 1;
        assert_int_equal(crn_early_check(&c, image, ei), CAIRN_ESTATE);
        crn_err_clear(ei);
        source[i] ^= 1; /* the source has the same byte now, but not when the call was made */
        assert_int_equal(crn_early_check(&c, image, ei), CAIRN_ESTATE);
        crn_err_clear(ei);
        image[i] ^= 1;
        source[i] ^= 1;
    }
    free(c.early);
    must(cairn_protect(s, "gpu", b.gpu, CAIRN_U64, N));
    places[1] = s->regions[0].place;
    c.nmemory = 2;
    bed_fill(&b, 1);
    memcpy(image + 600, b.host, N * sizeof(uint64_t));
    c.early = crn_early_sample(&c);
    assert_non_null(c.early);
    assert_ok(crn_early_give(s, &c, ei));
    assert_ok(crn_gpu_wait(s, ei));
    assert_ok(crn_early_check(&c, image, ei));
    image[600] ^= 1;
    assert_int_equal(crn_early_check(&c, image, ei), CAIRN_ESTATE);
    crn_err_clear(ei);
    free(c.early);
    free(image);
    must(cairn_close(s));
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_changed),      cmocka_unit_test(test_strict),
        cmocka_unit_test(test_flags),        cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_graphs),       cmocka_unit_test(test_lazy_gpu),
        cmocka_unit_test(test_driver_fails), cmocka_unit_test(test_samples),
    };

    (void)setenv("CAIRN_LOG_LEVEL", "error", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
