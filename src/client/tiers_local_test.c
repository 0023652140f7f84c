/* SPDX-License-Identifier: BSD-3-Clause */
/* Histories larger than memory: images that leave the arena lie on the node's disk. They are
 * restored and flushed from there, survive the process, and no file is left in the end. Damaged
 * images are always detected. */
#include "client/test_tiers.h"

#include <dirent.h>
#include <fcntl.h>

static char local[300];
static struct tiers_world w;

static const char *local_of(const struct bed_bed *b)
{
    (void)snprintf(local, sizeof(local), "local=%s/local", b->dir);
    return local;
}

/* The directory of the spool, if there is one with an area. */
static int find_area(const struct bed_bed *b, char *ret, size_t size)
{
    char root[400];
    struct dirent *e;
    DIR *d;

    (void)snprintf(root, sizeof(root), "%s/local/cairn-%u", b->dir, (unsigned)getuid());
    d = opendir(root);
    ret[0] = '\0';
    while (d != NULL && (e = readdir(d)) != NULL)
        if (strncmp(e->d_name, "spool-", 6) == 0)
            (void)snprintf(ret, size, "%s/%.200s/tier-0", root, e->d_name);
    if (d != NULL)
        (void)closedir(d);
    return ret[0] != '\0';
}

/* Versions that were committed. */
static int persistent_versions(const struct bed_bed *b)
{
    char cmd[400];
    char line[64] = "";
    FILE *p;

    (void)snprintf(cmd, sizeof(cmd), "find %s/p/t -name 'manifest*' 2>/dev/null | wc -l", b->dir);
    p = popen(cmd, "r");
    assert_non_null(p);
    assert_non_null(fgets(line, sizeof(line), p));
    assert_int_equal(pclose(p), 0);
    return atoi(line);
}

static int noutside(const cairn_session *s)
{
    const struct crn_tiered *h;
    int n = 0;

    crn_lock(&s->tiers->mu);
    for (h = s->tiers->all; h != NULL; h = h->next)
        n += h->is_out;
    crn_unlock(&s->tiers->mu);
    return n;
}

/* No flush ends, and the arena has space for two of twelve images. */
static cairn_session *history(struct bed_bed *b, int is_gpu, const char *more)
{
    cairn_session *s;

    world_open(&w, is_gpu);
    s = bed_session(b, NEVER, "arena_bytes=6M", "local_cache=40M", local_of(b), more, NULL);
    world_protect(&w, s);
    take_all(&w, s);
    must(cairn_wait_all(s, CAIRN_CAPTURED, 60000));
    assert_true(noutside(s) >= VERSIONS - 4);
    return s;
}

/* Reads with and without hints, in every order, repeatedly. */
static void any_order(struct bed_bed *b, int is_gpu, const char *more)
{
    cairn_session *s = history(b, is_gpu, more);
    int64_t reads[VERSIONS];
    int i;

    test_dir_remove(w.b.dir);
    for (i = 0; i < ORDERS; i++) {
        make_order((enum order)i, reads);
        read_all(&w, s, reads);
    }
    must(cairn_prefetch_start(s));
    for (i = 0; i < ORDERS; i++) {
        make_order((enum order)i, reads);
        enqueue_all(s, reads);
        read_all(&w, s, reads);
    }
    for (i = 1; i <= VERSIONS; i++)
        assert_false(is_persistent(s, i));
}

static void of_host_memory(struct bed_bed *b)
{
    any_order(b, 0, NULL);
}

static void of_a_gpu(struct bed_bed *b)
{
    any_order(b, 1, "device_cache=6M");
}

static void test_any_order(void **state)
{
    (void)state;
    in_child(of_host_memory);
    in_child(of_a_gpu);
}

/* The process dies: the next one commits its captures from the file. */
static void to_be_killed(struct bed_bed *b)
{
    (void)history(b, 0, NULL);
    test_dir_remove(w.b.dir);
}

static void test_killed(void **state)
{
    char path[1000];
    struct bed_bed b = {0};
    cairn_session *s;
    int64_t v;

    (void)state;
    test_dir_make(b.dir, sizeof(b.dir));
    killed_child(&b, to_be_killed);
    assert_true(find_area(&b, path, sizeof(path)));
    s = bed_session(&b, local_of(&b), NULL); /* drains what the dead run left */
    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    for (v = 1; v <= VERSIONS; v++) {
        set(99);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(is_set((uint64_t)v));
    }
    must(cairn_close(s));
    assert_false(find_area(&b, path, sizeof(path))); /* nothing is left */
    test_dir_remove(b.dir);
}

/* Damages some of the images: stripes of the first file. */
static void spoil_area(const struct bed_bed *b)
{
    char path[1000];
    char junk[8192];
    off_t at;
    int fd;

    assert_true(find_area(b, path, sizeof(path)));
    fd = open(path, O_RDWR);
    memset(junk, 0x5a, sizeof(junk));
    for (at = 1 << 20; at < 8 << 20; at += 1 << 20)
        assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
    assert_int_equal(fsync(fd), 0);
    (void)close(fd);
}

/* Good images are equal, damaged ones are refused; a living session first waits for their flush. */
static void expect_damage(cairn_session *s, int most)
{
    int bad = 0;
    int64_t v;

    for (v = 1; v <= VERSIONS && bad < most; v++) {
        cairn_err rc;

        set(99);
        rc = cairn_restore(s, "t", v, NULL);
        if (rc == CAIRN_OK)
            assert_true(is_set((uint64_t)v));
        else
            bad++;
    }
    assert_true(bad > 0 && bad < VERSIONS);
}

static void damaged(struct bed_bed *b)
{
    cairn_session *s = history(b, 0, "wait_timeout=5s");

    test_dir_remove(w.b.dir);
    spoil_area(b);
    expect_damage(s, 1);
}

/* Neither a restore nor the flush of a dead run accepts damaged bytes. */
static void test_damaged(void **state)
{
    struct bed_bed b = {0};
    cairn_session *s;

    (void)state;
    test_dir_make(b.dir, sizeof(b.dir));
    killed_child(&b, damaged);
    s = bed_session(&b, local_of(&b), NULL);
    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    expect_damage(s, VERSIONS);
    must(cairn_close(s));
    test_dir_remove(b.dir);
}

/* Every version reaches the file system, through the disk or directly, and the file is removed with
 * the session. */
static void flushed(const char *more, const char *and_more)
{
    int64_t reads[VERSIONS];
    char path[1000];
    cairn_session *s;

    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=6M", "local_cache=12M", local_of(&w.b), "bandwidth=40M",
                    more, and_more, NULL);
    world_protect(&w, s);
    take_all(&w, s);
    make_order(IRREGULAR, reads);
    read_all(&w, s, reads);
    must(cairn_close(s));
    assert_false(find_area(&w.b, path, sizeof(path)));
    s = bed_session(&w.b, NULL);
    world_protect(&w, s);
    read_all(&w, s, reads);
    must(cairn_close(s));
    world_close(&w);
}

static void test_flushed(void **state)
{
    (void)state;
    flushed(NULL, NULL);
    flushed("arena_full=spill", NULL);
    flushed("keep_local=0", NULL);
}

/* With discard_consumed a version is flushed only if a caller waits for it, or at the end. */
static void test_lazy(void **state)
{
    int64_t reads[VERSIONS];
    cairn_session *s;
    int64_t v;

    (void)state;
    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=6M", "local_cache=40M", local_of(&w.b),
                    "discard_consumed=on", NULL);
    world_protect(&w, s);
    take_all(&w, s);
    make_order(REVERSE, reads);
    read_all(&w, s, reads);
    for (v = 1; v <= VERSIONS; v++)
        assert_int_equal(cairn_wait(s, "t", v, CAIRN_PERSISTENT, 60000), CAIRN_ECANCELED);
    take_all(&w, s);
    must(cairn_wait(s, "t", 2, CAIRN_PERSISTENT, 60000)); /* and 1, before it */
    must(cairn_wait(s, "t", 1, CAIRN_PERSISTENT, 60000));
    assert_int_equal(persistent_versions(&w.b), 2);
    read_all(&w, s, reads);
    world_set(&w, 50);
    must(cairn_checkpoint(s, "t", 50, NULL));
    must(cairn_close(s));
    assert_int_equal(persistent_versions(&w.b), 3);
    world_close(&w);
}

/* If the disk is full too, the oldest versions are flushed; all can be restored. */
static void lazy_and_full(const char *local_cache)
{
    int64_t reads[VERSIONS];
    cairn_session *s;

    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=6M", local_cache, local_of(&w.b), "discard_consumed=on",
                    NULL);
    world_protect(&w, s);
    take_all(&w, s);
    make_order(REVERSE, reads);
    read_all(&w, s, reads);
    assert_true(persistent_versions(&w.b) < VERSIONS);
    must(cairn_close(s));
    world_close(&w);
}

static void test_lazy_and_full(void **state)
{
    (void)state;
    lazy_and_full("local_cache=10M");
    lazy_and_full("local_cache=900T"); /* more than the disk has: no local cache */
}

/* No space on the disk: the session uses the arena alone. */
static void test_no_room(void **state)
{
    int64_t reads[VERSIONS];
    cairn_session *s;

    (void)state;
    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=6M", "local_cache=900T", local_of(&w.b), NULL);
    world_protect(&w, s);
    take_all(&w, s);
    make_order(REVERSE, reads);
    read_all(&w, s, reads);
    must(cairn_close(s));
    world_close(&w);
}

/* Waits until the version is on the node's disk. */
static void await_local(cairn_session *s, int64_t version)
{
    const struct crn_tiered *h = crn_tiers_find(s, "t", version);
    int tier = s->tiers->arena_tier + 1;
    struct timespec ms = {.tv_nsec = 1000000};
    int i;

    assert_non_null(h);
    for (i = 0; i < 20000; i++) {
        if (crn_life_is_whole(crn_cache_state(s->tiers->cache, crn_held_key(h), tier)))
            return;
        (void)nanosleep(&ms, NULL);
    }
    fail_msg("version %d did not get to the node's disk", (int)version);
}

/* A version is committed before it must leave the arena. If it is hinted it is still copied to the
 * disk, and read from there, not from the file system. */
static void test_flushed_and_announced(void **state)
{
    char away[400];
    char at[400];
    int64_t order[VERSIONS];
    struct bed_bed b = {0};
    cairn_session *s;
    int64_t v;

    (void)state;
    test_dir_make(b.dir, sizeof(b.dir));
    s = bed_session(&b, "arena_bytes=6M", "local_cache=40M", local_of(&b), NULL);
    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    make_order(SEQUENTIAL, order);
    enqueue_all(s, order);
    for (v = 1; v <= VERSIONS; v++) {
        set((uint64_t)v);
        must(cairn_checkpoint(s, "t", v, NULL));
        must(cairn_wait(s, "t", v, CAIRN_PERSISTENT, 60000));
        await_local(s, v);
    }
    (void)snprintf(at, sizeof(at), "%s/p", b.dir);
    (void)snprintf(away, sizeof(away), "%s/away", b.dir);
    assert_int_equal(rename(at, away), 0);
    must(cairn_prefetch_start(s));
    for (v = 1; v <= VERSIONS; v++) {
        set(99);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(is_set((uint64_t)v));
    }
    assert_int_equal(rename(away, at), 0);
    must(cairn_close(s));
    test_dir_remove(b.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* In children, so before this process has met a GPU. */
        cmocka_unit_test(test_any_order), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_damaged),   cmocka_unit_test(test_flushed),
        cmocka_unit_test(test_lazy),      cmocka_unit_test(test_lazy_and_full),
        cmocka_unit_test(test_no_room),   cmocka_unit_test(test_flushed_and_announced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
