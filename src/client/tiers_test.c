/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that a living session reads back: from memory while they are on their way, from wherever
 * they are afterwards, announced or not, in every order. */
#include "client/test_bed.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "client/tiers_impl.h"

#define NEVER "free_reserve_bytes=1000T" /* no flush ends */

static uint64_t data[N];

static void set(uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        data[i] = value(version, i);
}

static int is_set(uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        if (data[i] != value(version, i))
            return 0;
    return 1;
}

static int is_persistent(cairn_session *s, int64_t version)
{
    int reached = 0;

    must(cairn_test(s, "t", version, CAIRN_PERSISTENT, &reached));
    return reached;
}

/* A session whose flushes never end is left by the death of its process. */
static void in_child(void (*body)(struct bed *b))
{
    struct bed b = {0};
    int status;
    pid_t pid;

    test_dir_make(b.dir, sizeof(b.dir));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body(&b); /* a failed assertion goes on with the other tests and ends in an error */
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    test_dir_remove(b.dir);
}

static void before_commit(struct bed *b)
{
    cairn_session *s = bed_session(b, NEVER, "arena_bytes=16M", "wait_timeout=100ms", NULL);
    int64_t v;

    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    for (v = 1; v <= 4; v++) {
        set((uint64_t)v);
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    for (v = 4; v >= 1; v--) {
        set(99);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(is_set((uint64_t)v));
        assert_false(is_persistent(s, v));
    }
    set(7); /* taken again: the newer one counts */
    must(cairn_checkpoint(s, "t", 2, NULL));
    set(99);
    must(cairn_restore(s, "t", 2, NULL));
    assert_true(is_set(7));
    must(cairn_protect(s, "data", data, CAIRN_U64, N - 1)); /* does not fit: nothing is written */
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
    assert_true(is_set(7));
}

/* What this session took is there at once, whatever the flush does. */
static void test_before_commit(void **state)
{
    (void)state;
    in_child(before_commit);
}

/* Hints. ------------------------------------------------------------------------------------------------ */

enum order { SEQUENTIAL, REVERSE, IRREGULAR, ORDERS };

#define VERSIONS 12

static void make_order(enum order order, int64_t *ret)
{
    struct crn_rng rng;
    int i;

    crn_rng_seed(&rng, 5);
    for (i = 0; i < VERSIONS; i++)
        ret[i] = order == REVERSE ? VERSIONS - i : i + 1;
    for (i = VERSIONS - 1; order == IRREGULAR && i > 0; i--) {
        int k = (int)crn_rng_below(&rng, (uint64_t)i + 1);
        int64_t t = ret[i];

        ret[i] = ret[k];
        ret[k] = t;
    }
}

/* Where is the application's data: in the host or on the device of the bed? */
struct world {
    struct bed b;
    int is_gpu;
};

static void world_open(struct world *w, int is_gpu)
{
    memset(w, 0, sizeof(*w));
    w->is_gpu = is_gpu;
    if (is_gpu)
        bed_open(&w->b);
    else
        test_dir_make(w->b.dir, sizeof(w->b.dir));
}

static void world_close(struct world *w)
{
    if (w->is_gpu)
        bed_close(&w->b);
    else
        test_dir_remove(w->b.dir);
}

static void world_protect(struct world *w, cairn_session *s)
{
    must(cairn_protect(s, "data", w->is_gpu ? w->b.gpu : data, CAIRN_U64, N));
}

static void world_set(struct world *w, int64_t version)
{
    if (w->is_gpu)
        fill(&w->b, (uint64_t)version);
    else
        set((uint64_t)version);
}

static int world_is_set(struct world *w, int64_t version)
{
    return w->is_gpu ? holds(&w->b, (uint64_t)version) : is_set((uint64_t)version);
}

static void take_all(struct world *w, cairn_session *s)
{
    int64_t v;

    for (v = 1; v <= VERSIONS; v++) {
        world_set(w, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        world_set(w, 99);
    }
}

static void read_all(struct world *w, cairn_session *s, const int64_t *order)
{
    int i;

    for (i = 0; i < VERSIONS; i++) {
        must(cairn_restore(s, "t", order[i], NULL));
        assert_true(world_is_set(w, order[i]));
        world_set(w, 99);
    }
}

static void enqueue_all(cairn_session *s, const int64_t *order)
{
    int i;

    for (i = 0; i < VERSIONS; i++)
        must(cairn_prefetch_enqueue(s, "t", order[i]));
}

static uint64_t prefetched(const cairn_session *s)
{
    struct crn_cache_stats stats;
    uint64_t sum = 0;
    int i;

    crn_cache_get_stats(s->tiers->cache, &stats);
    for (i = 0; i < CRN_TIERS_MAX; i++)
        sum += stats.prefetched_bytes[i];
    return sum;
}

/* The background has its turn before the application reads. */
static void await_prefetch(const cairn_session *s)
{
    struct timespec ms = {.tv_nsec = 1000000};
    int i;

    for (i = 0; prefetched(s) == 0 && i < 20000; i++)
        (void)nanosleep(&ms, NULL);
    assert_true(prefetched(s) > 0);
}

/* A shot as in the paper: hints, a forward pass, then a backward pass. */
static void shot(int is_gpu, const char *device_cache, enum order order)
{
    int64_t reads[VERSIONS];
    struct world w;
    cairn_session *s;

    world_open(&w, is_gpu);
    s = bed_session(&w.b, "arena_bytes=11M", device_cache, NULL); /* four images */
    world_protect(&w, s);
    make_order(order, reads);
    enqueue_all(s, reads);
    take_all(&w, s);
    must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    must(cairn_prefetch_start(s));
    if (order == SEQUENTIAL)
        await_prefetch(s);
    read_all(&w, s, reads);
    read_all(&w, s, reads); /* no hint is left */
    must(cairn_close(s));
    s = bed_session(&w.b, "arena_bytes=auto", device_cache, NULL); /* what another run left */
    world_protect(&w, s);
    enqueue_all(s, reads);
    must(cairn_prefetch_start(s));
    await_prefetch(s);
    read_all(&w, s, reads);
    must(cairn_close(s));
    world_close(&w);
}

static void test_hints(void **state)
{
    int order;

    (void)state;
    for (order = 0; order < ORDERS; order++)
        shot(0, "gpu=on", (enum order)order);
}

static void test_hints_gpu(void **state)
{
    int order;

    (void)state;
    for (order = 0; order < ORDERS; order++) {
        shot(1, "device_cache=8M", (enum order)order);
        shot(1, "device_cache=0", (enum order)order);
    }
}

/* Reads come in another order than announced, twice, never, and of what was never taken. */
static void test_deviating(void **state)
{
    int64_t reads[VERSIONS];
    int64_t other[VERSIONS];
    struct world w;
    cairn_session *s;
    int i;

    (void)state;
    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=8M", NULL);
    world_protect(&w, s);
    make_order(IRREGULAR, reads);
    make_order(REVERSE, other);
    must(cairn_prefetch_start(s));
    must(cairn_prefetch_enqueue(s, "nobody", 3));
    enqueue_all(s, reads);
    take_all(&w, s);
    must(cairn_prefetch_enqueue(s, "t", 500));
    enqueue_all(s, reads);
    read_all(&w, s, other);
    for (i = 0; i < 50; i++)
        must(cairn_prefetch_enqueue(s, "t", 1 + i % VERSIONS));
    read_all(&w, s, reads);
    assert_int_equal(cairn_prefetch_enqueue(s, "../t", 1), CAIRN_EINVAL);
    assert_int_equal(cairn_prefetch_enqueue(s, "t", -1), CAIRN_EINVAL);
    assert_int_not_equal(cairn_restore(s, "t", 500, NULL), CAIRN_OK);
    must(cairn_close(s));
    world_close(&w);
}

/* The device tier. --------------------------------------------------------------------------------------- */

static int is_captured(cairn_session *s, int64_t version)
{
    int reached = 0;

    must(cairn_test(s, "t", version, CAIRN_CAPTURED, &reached));
    return reached;
}

/* The arena has room for one image, the device for four, and no flush ends: all five can be read. */
static void on_the_device(struct bed *dir)
{
    struct world w;
    cairn_session *s;
    int64_t v;

    world_open(&w, 1);
    s = bed_session(dir, NEVER, "arena_bytes=3M", "device_cache=10M", "wait_timeout=200ms", NULL);
    world_protect(&w, s);
    for (v = 1; v <= 5; v++) {
        world_set(&w, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        world_set(&w, 99);
        if (v == 1)
            must(cairn_wait(s, "t", 1, CAIRN_CAPTURED, 60000));
    }
    for (v = 2; v <= 5; v++)
        assert_false(is_captured(s, v)); /* in the memory of the GPU alone */
    assert_int_equal(cairn_checkpoint(s, "t", 6, NULL), CAIRN_ETIMEDOUT);
    for (v = 5; v >= 1; v--) {
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&w, v));
        world_set(&w, 99);
    }
    if (is_real())
        return;
    fail_at("cuMemcpyAsync 719"); /* the device is lost, with what it alone had */
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
    for (v = 2; v <= 5; v++)
        assert_int_equal(cairn_wait(s, "t", v, CAIRN_CAPTURED, 60000), CAIRN_EDEVICE);
    fail_at(NULL);
    must(cairn_restore(s, "t", 1, NULL)); /* the arena's */
    assert_true(world_is_set(&w, 1));
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
}

static void test_on_the_device(void **state)
{
    (void)state;
    in_child(on_the_device);
}

/* More than the tiers hold at once goes through them to the files; what is not there falls back. */
static void through(const char *arena, const char *device, const char *third, const char *fourth)
{
    int64_t reads[VERSIONS];
    struct world w;
    cairn_session *s;
    int64_t v;

    world_open(&w, 1);
    s = bed_session(&w.b, arena, device, third, fourth, NULL);
    world_protect(&w, s);
    take_all(&w, s);
    must(cairn_close(s)); /* waits for all of it */
    s = bed_session(&w.b, arena, device, third, fourth, NULL);
    world_protect(&w, s);
    make_order(IRREGULAR, reads);
    read_all(&w, s, reads);
    must(cairn_restart(s, "t", NULL, &v));
    assert_int_equal(v, VERSIONS);
    assert_true(world_is_set(&w, VERSIONS));
    must(cairn_close(s));
    world_close(&w);
}

static void test_through(void **state)
{
    char local[64] = "/tmp/cairn-tiers-XXXXXX";
    char setting[80];

    (void)state;
    assert_non_null(mkdtemp(local));
    (void)snprintf(setting, sizeof(setting), "local=%s", local);
    through("arena_bytes=3M", "device_cache=6M", NULL, NULL);
    through("arena_bytes=auto", "device_cache=6M", NULL, NULL);
    through("arena_bytes=1M", "device_cache=6M", setting,
            NULL); /* fits the device, not the arena */
    through("arena_bytes=1M", "device_cache=1M", setting, NULL); /* fits nothing: spilled */
    through("arena_bytes=3M", "device_cache=3M", setting, "arena_full=spill");
    if (!is_real())
        through("arena_bytes=6M", "device_cache=1G", NULL, NULL); /* more than the device has */
    test_dir_remove(local);
}

/* Regions on two devices, and one in the host, in one checkpoint. */
static void test_two_devices(void **state)
{
    struct crn_device *second;
    uint64_t small[64] = {0};
    struct world w;
    cairn_session *s;
    struct bed other;
    int64_t v;
    void *p;

    (void)state;
    if (is_real())
        skip();
    world_open(&w, 1);
    assert_ok(w.b.driver->ops->device_open(w.b.driver, 1, &second, ei));
    assert_ok(w.b.driver->ops->alloc(second, N * sizeof(uint64_t), &p, ei));
    other = w.b; /* the same, with memory of the second device */
    other.dev = second;
    other.gpu = p;
    s = bed_session(&w.b, "arena_bytes=11M", "device_cache=16M", NULL); /* two images, or three */
    world_protect(&w, s);
    must(cairn_protect(s, "other", other.gpu, CAIRN_U64, N));
    must(cairn_protect(s, "small", small, CAIRN_U64, 64));
    for (v = 1; v <= 6; v++) {
        fill(&w.b, (uint64_t)v);
        fill(&other, (uint64_t)v + 100);
        memset(small, (int)v, sizeof(small));
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    for (v = 6; v >= 1; v--) {
        must(cairn_prefetch_enqueue(s, "t", v));
        must(cairn_prefetch_start(s));
    }
    for (v = 6; v >= 1; v--) {
        spoil(&w.b);
        spoil(&other);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(holds(&w.b, (uint64_t)v));
        assert_true(holds(&other, (uint64_t)v + 100));
        assert_int_equal(small[63], UINT64_C(0x0101010101010101) * (uint64_t)v);
    }
    must(cairn_close(s));
    w.b.driver->ops->free(second, p);
    w.b.driver->ops->device_close(second);
    world_close(&w);
}

/* In two steps, with a file, given up and taken again. */
static void test_steps(void **state)
{
    char path[600];
    struct world w;
    cairn_session *s;
    FILE *f;
    int64_t v;

    (void)state;
    world_open(&w, 1);
    s = bed_session(&w.b, "arena_bytes=11M", "device_cache=8M", NULL);
    world_protect(&w, s);
    for (v = 1; v <= 6; v++) {
        world_set(&w, 50);
        must(cairn_file_route(s, "t", v, "note", path, sizeof(path)));
        f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fprintf(f, "file %d", (int)v), 6);
        assert_int_equal(fclose(f), 0);
        must(cairn_capture(s, "t", v, NULL));
        world_set(&w, v);
        must(cairn_capture(s, "t", v, NULL)); /* the copy is replaced */
        world_set(&w, 99);
        if (v % 3 == 0)
            must(cairn_abandon(s, "t", v, "no"));
        else
            must(cairn_submit(s));
    }
    for (v = 1; v <= 6; v++) {
        world_set(&w, 99);
        if (v % 3 == 0) {
            assert_int_not_equal(cairn_restore(s, "t", v, NULL), CAIRN_OK);
            continue;
        }
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&w, v));
        must(cairn_file_restore(s, "t", v, CAIRN_OWN_RANK, "note", path, sizeof(path)));
        f = fopen(path, "r");
        assert_non_null(f);
        assert_int_equal(fgetc(f), 'f');
        assert_int_equal(fclose(f), 0);
    }
    must(cairn_close(s));
    world_close(&w);
}

/* A version that is taken again while the older one is on its way, hinted or not. */
static void test_again(void **state)
{
    struct world w;
    cairn_session *s;
    int64_t v;

    (void)state;
    world_open(&w, 1);
    s = bed_session(&w.b, "arena_bytes=6M", "device_cache=8M", NULL);
    world_protect(&w, s);
    must(cairn_prefetch_start(s));
    for (v = 1; v <= 100; v++) {
        if (v % 7 == 0)
            must(cairn_prefetch_enqueue(s, "t", v % 3));
        if (v % 20 == 0)
            fill(&w.b, (uint64_t)v);
        must(cairn_checkpoint(s, "t", v % 3, NULL));
        if (v % 20 == 0) {
            spoil(&w.b);
            must(cairn_restore(s, "t", v % 3, NULL));
            assert_true(holds(&w.b, (uint64_t)v));
        }
    }
    must(cairn_close(s));
    world_close(&w);
}

/* With arena_full=supersede older captures make room; what is told of them is the truth. */
static void test_superseded(void **state)
{
    struct world w;
    cairn_session *s;
    int64_t v;

    (void)state;
    world_open(&w, 1);
    s = bed_session(&w.b, "arena_bytes=6M", "device_cache=6M", "arena_full=supersede", NULL);
    world_protect(&w, s);
    take_all(&w, s);
    must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    for (v = 1; v <= VERSIONS; v++) {
        cairn_err rc = cairn_wait(s, "t", v, CAIRN_PERSISTENT, 60000);

        assert_true(rc == CAIRN_OK || rc == CAIRN_ECANCELED);
        if (rc != CAIRN_OK)
            continue;
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&w, v));
    }
    must(cairn_close(s));
    world_close(&w);
}

/* Restored once and needed no more: not flushed, and room is made; twelve pass where six have room. */
static void discarding(struct bed *dir)
{
    struct world w;
    cairn_session *s;
    int64_t v;

    world_open(&w, 1);
    s = bed_session(dir, NEVER, "arena_bytes=6M", "device_cache=10M", "discard_consumed=on",
                    "wait_timeout=10s", NULL);
    world_protect(&w, s);
    for (v = 1; v <= VERSIONS; v++) {
        int reached;

        world_set(&w, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        world_set(&w, 99);
        if (v < 3)
            continue;
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&w, v));
        if (cairn_test(s, "t", v, CAIRN_PERSISTENT, &reached) == CAIRN_OK)
            assert_false(reached); /* its flush had begun */
    }
    must(cairn_restore(s, "t", 1, NULL));
    assert_true(world_is_set(&w, 1));
}

static void test_discarding(void **state)
{
    (void)state;
    in_child(discarding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* In children, so before this process has met a GPU. */
        cmocka_unit_test(test_before_commit), cmocka_unit_test(test_on_the_device),
        cmocka_unit_test(test_discarding),    cmocka_unit_test(test_hints),
        cmocka_unit_test(test_hints_gpu),     cmocka_unit_test(test_deviating),
        cmocka_unit_test(test_through),       cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_steps),         cmocka_unit_test(test_again),
        cmocka_unit_test(test_superseded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
