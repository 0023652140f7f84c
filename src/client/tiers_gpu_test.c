/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints kept in GPU memory: while no flush ends, when the device is lost, too small or not
 * the only one, when the process is killed; taken in steps, taken again, superseded, read once. */
#include "client/test_tiers.h"

#include <fcntl.h>
#include <sys/socket.h>

/* For a process that will be killed: it must leave nothing in any directory. */
static struct tiers_world doomed;

static void open_doomed(void)
{
    world_open(&doomed, 1);
    test_dir_remove(doomed.b.dir);
}

static int is_captured(cairn_session *s, int64_t version)
{
    int reached = 0;

    must(cairn_test(s, "t", version, CAIRN_CAPTURED, &reached));
    return reached;
}

/* The arena has space for one image, the device for four, and no flush ends: all five can be
 * read. */
static void on_the_device(struct bed_bed *dir)
{
    cairn_session *s;
    int64_t v;

    open_doomed();
    s = bed_session(dir, NEVER, "arena_bytes=3M", "device_cache=10M", "wait_timeout=200ms", NULL);
    world_protect(&doomed, s);
    for (v = 1; v <= 5; v++) {
        world_set(&doomed, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        world_set(&doomed, 99);
        if (v == 1)
            must(cairn_wait(s, "t", 1, CAIRN_CAPTURED, 60000));
    }
    for (v = 2; v <= 5; v++)
        assert_false(is_captured(s, v)); /* only in GPU memory */
    assert_int_equal(cairn_checkpoint(s, "t", 6, NULL), CAIRN_ETIMEDOUT);
    for (v = 5; v >= 1; v--) {
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&doomed, v));
        world_set(&doomed, 99);
    }
    if (is_real())
        return;
    fail_at("cuMemcpyAsync 719"); /* the device is lost, with the checkpoints only it had */
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
    for (v = 2; v <= 5; v++)
        assert_int_equal(cairn_wait(s, "t", v, CAIRN_CAPTURED, 60000), CAIRN_EDEVICE);
    fail_at(NULL);
    must(cairn_restore(s, "t", 1, NULL)); /* from the arena */
    assert_true(world_is_set(&doomed, 1));
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
}

static void test_on_the_device(void **state)
{
    (void)state;
    in_child(on_the_device);
}

static void to_be_killed(struct bed_bed *dir)
{
    cairn_session *s;
    int64_t v;

    open_doomed();
    s = bed_session(dir, "arena_bytes=11M", "device_cache=8M", NULL);
    world_protect(&doomed, s);
    for (v = 1; v <= 3; v++) {
        world_set(&doomed, v);
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    must(cairn_wait(s, "t", 3, CAIRN_CAPTURED, 60000));
}

/* A checkpoint that has left the GPU survives the process. */
static void test_killed(void **state)
{
    struct bed_bed b = {0};
    cairn_session *s;
    int64_t v;

    (void)state;
    test_dir_make(b.dir, sizeof(b.dir));
    killed_child(&b, to_be_killed);
    s = bed_session(&b, "arena_bytes=11M", NULL); /* opening drains the dead run */
    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    must(cairn_restart(s, "t", NULL, &v));
    assert_int_equal(v, 3);
    assert_true(is_set(3));
    must(cairn_close(s));
    test_dir_remove(b.dir);
}

/* More checkpoints than fit the tiers pass through them to the files; a read of an evicted one
 * falls back to the files. */
static void through(const char *arena, const char *device, const char *third, const char *fourth)
{
    int64_t reads[VERSIONS];
    struct tiers_world w;
    cairn_session *s;
    int64_t v;

    world_open(&w, 1);
    s = bed_session(&w.b, arena, device, third, fourth, NULL);
    world_protect(&w, s);
    take_all(&w, s);
    must(cairn_close(s)); /* waits for all flushes */
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
    char local[256];
    char setting[300];

    (void)state;
    test_dir_make(local, sizeof(local));
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
    struct tiers_world w;
    cairn_session *s;
    struct bed_bed other;
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
        bed_fill(&w.b, (uint64_t)v);
        bed_fill(&other, (uint64_t)v + 100);
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

/* A checkpoint of host memory opens the tiers, with a hint or a local cache. The application
 * protects GPU memory later: from then on its checkpoints are kept there. */
static void late_device(const char *local)
{
    struct tiers_world w;
    cairn_session *s;
    int64_t v;

    world_open(&w, 1);
    s = bed_session(&w.b, "arena_bytes=11M", "device_cache=8M", local,
                    local != NULL ? "local_cache=20M" : NULL, NULL);
    if (local == NULL)
        must(cairn_prefetch_start(s));
    must(cairn_protect(s, "host", data, CAIRN_U64, N));
    set(1);
    must(cairn_checkpoint(s, "t", 1, NULL));
    assert_true(crn_tiers_are_open(s));
    assert_int_equal(s->tiers->op.tier, s->tiers->arena_tier);
    must(cairn_unprotect(s, "host"));
    world_protect(&w, s);
    for (v = 2; v <= 6; v++) {
        world_set(&w, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        assert_int_equal(s->tiers->op.tier, 0);
        world_set(&w, 99);
    }
    for (v = 6; v >= 2; v--) {
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&w, v));
    }
    must(cairn_unprotect(s, "data"));
    must(cairn_protect(s, "host", data, CAIRN_U64, N));
    set(99);
    must(cairn_restore(s, "t", 1, NULL));
    assert_true(is_set(1));
    must(cairn_close(s));
    world_close(&w);
}

static void test_late_device(void **state)
{
    char local[256];
    char setting[300];

    (void)state;
    late_device(NULL);
    test_dir_make(local, sizeof(local));
    (void)snprintf(setting, sizeof(setting), "local=%s", local);
    late_device(setting);
    test_dir_remove(local);
}

/* In two steps, with a file, abandoned and taken again. */
static void test_steps(void **state)
{
    char path[600];
    struct tiers_world w;
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

/* A version is taken again while the flush of the older capture is in flight, with and without a
 * hint. */
static void test_again(void **state)
{
    struct tiers_world w;
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
            bed_fill(&w.b, (uint64_t)v);
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

/* With arena_full=supersede older captures are dropped for new ones, and their reported states are
 * correct. */
static void test_superseded(void **state)
{
    struct tiers_world w;
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

/* A version that was restored once is not flushed and frees its space; twelve pass through space
 * for six. */
static void discarding(struct bed_bed *dir)
{
    cairn_session *s;
    int64_t v;

    open_doomed();
    s = bed_session(dir, NEVER, "arena_bytes=6M", "device_cache=10M", "discard_consumed=on",
                    "wait_timeout=10s", NULL);
    world_protect(&doomed, s);
    for (v = 1; v <= VERSIONS; v++) {
        int reached;

        world_set(&doomed, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        world_set(&doomed, 99);
        if (v < 3)
            continue;
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&doomed, v));
        if (cairn_test(s, "t", v, CAIRN_PERSISTENT, &reached) == CAIRN_OK)
            assert_false(reached); /* no error: its flush had begun, and never ends */
    }
    must(cairn_restore(s, "t", 1, NULL));
    assert_true(world_is_set(&doomed, 1));
}

static void test_discarding(void **state)
{
    (void)state;
    in_child(discarding);
}

/* The service dies while the GPU copies: the capture fails. Captures taken before are still
 * readable. */
static void without_service(struct bed_bed *dir)
{
    cairn_session *s;

    open_doomed();
    s = bed_session(dir, NEVER, "arena_bytes=6M", "device_cache=10M", "wait_timeout=10s", NULL);
    world_protect(&doomed, s);
    world_set(&doomed, 1);
    must(cairn_checkpoint(s, "t", 1, NULL));
    must(cairn_wait(s, "t", 1, CAIRN_CAPTURED, 60000));
    assert_int_equal(shutdown(cairn_event_fd(s), SHUT_RDWR), 0);
    world_set(&doomed, 2);
    assert_int_equal(cairn_checkpoint(s, "t", 2, NULL), CAIRN_ESERVICE);
    assert_non_null(strstr(cairn_last_error(), "the node service is gone"));
    assert_int_equal(cairn_capture(s, "t", 3, NULL), CAIRN_ESERVICE);
    assert_int_equal(cairn_submit(s), CAIRN_ESTATE);
    assert_int_not_equal(cairn_restore(s, "t", 2, NULL), CAIRN_OK);
    must(cairn_restore(s, "t", 1, NULL));
    assert_true(world_is_set(&doomed, 1));
}

static void test_without_service(void **state)
{
    (void)state;
    in_child(without_service);
}

/* The next capture returns an unreported failure and does not count; the capture after that
 * counts. */
static void told(struct bed_bed *dir)
{
    cairn_session *s;
    struct crn_track *t;

    open_doomed();
    s = bed_session(dir, NEVER, "arena_bytes=6M", "device_cache=10M", "on_failure=strict", NULL);
    world_protect(&doomed, s);
    world_set(&doomed, 1);
    must(cairn_checkpoint(s, "t", 1, NULL));
    must(cairn_wait(s, "t", 1, CAIRN_CAPTURED, 60000));
    t = crn_track_find(s, "t", 1);
    (void)!crn_fail(&t->error, CAIRN_EIO, 0, "the disk");
    s->may_have_failures = 1;
    world_set(&doomed, 2);
    assert_int_equal(cairn_checkpoint(s, "t", 2, NULL), CAIRN_EIO);
    assert_non_null(strstr(cairn_last_error(), "an earlier checkpoint, t@1, failed: the disk"));
    assert_int_not_equal(cairn_restore(s, "t", 2, NULL), CAIRN_OK);
    world_set(&doomed, 3);
    must(cairn_checkpoint(s, "t", 3, NULL));
    world_set(&doomed, 99);
    must(cairn_restore(s, "t", 3, NULL));
    assert_true(world_is_set(&doomed, 3));
}

static void test_told(void **state)
{
    (void)state;
    in_child(told);
}

/* Bytes that device_cache = auto takes beside so many other ranks that use the GPU. */
static int64_t automatic(struct tiers_world *w, int others)
{
    uint64_t before, after, total;
    cairn_session *s = bed_session(&w->b, "arena_bytes=11M", "device_cache=auto", NULL);
    char bus[32], name[64];
    int64_t v;
    int i;

    assert_int_equal(w->b.dev->driver->ops->bus(w->b.dev, bus, sizeof(bus)), 0);
    for (i = 1; i <= others; i++) {
        int fd;

        (void)snprintf(name, sizeof(name), "gpu-%s-%d", bus, i);
        fd = openat(s->dir.dfd, name, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0 && close(fd) == 0);
    }
    assert_ok(w->b.dev->driver->ops->memory(w->b.dev, &before, &total, ei));
    for (v = 1; v <= 4; v++) {
        world_protect(w, s);
        bed_fill(&w->b, (uint64_t)v);
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    assert_ok(w->b.dev->driver->ops->memory(w->b.dev, &after, &total, ei));
    (void)snprintf(name, sizeof(name), "gpu-%s-0", bus);
    assert_int_equal(faccessat(s->dir.dfd, name, F_OK, 0), 0);
    for (v = 4; v >= 1; v--) {
        spoil(&w->b);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(holds(&w->b, (uint64_t)v));
    }
    must(cairn_close(s));
    return (int64_t)(before - after);
}

/* Two images, as many as fit a share of half of the free memory, or none: then the arena takes
 * the captures. */
static void test_automatic_size(void **state)
{
    const int64_t image = N * sizeof(uint64_t);
    struct tiers_world w;
    int64_t got;

    (void)state;
    if (is_real())
        skip();
    world_open(&w, 1);
    got = automatic(&w, 0);
    assert_true(got >= 2 * image && got < 3 * image);
    got = automatic(&w, 10);
    assert_true(got >= image && got < 2 * image);
    assert_true(automatic(&w, 30) < image);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* These fork, so they must run before this process uses a GPU. */
        cmocka_unit_test(test_on_the_device),   cmocka_unit_test(test_discarding),
        cmocka_unit_test(test_without_service), cmocka_unit_test(test_told),
        cmocka_unit_test(test_killed),          cmocka_unit_test(test_through),
        cmocka_unit_test(test_two_devices),     cmocka_unit_test(test_steps),
        cmocka_unit_test(test_again),           cmocka_unit_test(test_superseded),
        cmocka_unit_test(test_late_device),     cmocka_unit_test(test_automatic_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
