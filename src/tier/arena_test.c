/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/test.h"
#include "tier/arena.h"
#include "tier/arena_rest.h"
#include "tier/image.h"

#define PAGE 4096U

static const uint8_t run[16] = {1, 2, 3};

static struct crn_arena *make_size(const char *dir, struct crn_arena_size size)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_arena *a;
    int dfd = open(dir, O_RDONLY | O_DIRECTORY);

    assert_ok(crn_arena_create(dfd, "arena-3", run, 3, &size, &a, ei));
    (void)close(dfd);
    return a;
}

static struct crn_arena *make(const char *dir, uint64_t bytes)
{
    return make_size(dir, (struct crn_arena_size){.bytes = bytes, .threads = 2});
}

static struct crn_slot_info capture(uint64_t seq, uint64_t bytes)
{
    struct crn_slot_info i = {.id = {.seq = seq}, .name = "x", .version = (int64_t)seq};

    i.created_ns = seq;
    i.bytes = i.image_bytes = bytes;
    return i;
}

/* More slots than the minimum: each is taken, found by another process, freed and taken again. A
 * header with a different number is refused. */
static void many_slots(void **state)
{
    enum { SLOTS = 5000 };
    struct crn_arena_size size = {.bytes = (uint64_t)SLOTS * PAGE, .threads = 1, .slots = SLOTS};
    struct crn_errinfo info = {0}, *ei = &info;
    const uint32_t bad[] = {0, CRN_ARENA_SLOTS, SLOTS + 100, UINT32_MAX};
    struct crn_arena *a, *other;
    char dir[256];
    uint32_t slot, i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make_size(dir, size);
    assert_int_equal(crn_arena_slots(a), SLOTS);
    for (i = 0; i < SLOTS; i++) {
        struct crn_slot_info c = capture(i + 1, PAGE);

        c.offset = (uint64_t)i * PAGE;
        assert_ok(crn_arena_take_at(a, CRN_SLOT_WRITING, &c, &slot, ei));
        assert_int_equal(slot, i);
        assert_true(crn_slot_move(a, slot, i + 1, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
    }
    assert_ok(crn_arena_map(crn_fs_posix(), dup(crn_arena_fd(a)), "the arena", &other, ei));
    assert_int_equal(crn_arena_slots(other), SLOTS);
    assert_int_equal(crn_slot_state_of(other, SLOTS - 1, SLOTS), CRN_SLOT_WRITTEN);
    crn_arena_close(other);
    for (i = 7; i < SLOTS; i += 1000)
        assert_true(crn_slot_move(a, i, i + 1, CRN_SLOT_WRITTEN, CRN_SLOT_FREE));
    for (i = 7; i < SLOTS; i += 1000) {
        struct crn_slot_info c = capture(i + 1, PAGE);

        c.offset = (uint64_t)i * PAGE;
        assert_ok(crn_arena_take_at(a, CRN_SLOT_WRITING, &c, &slot, ei));
        assert_int_equal(slot, i);
    }
    for (i = 0; i < 4; i++) {
        assert_int_equal(pwrite(crn_arena_fd(a), &bad[i], 4, 44), 4);
        crn_err_clear(ei);
        assert_int_equal(crn_arena_map(crn_fs_posix(), dup(crn_arena_fd(a)), "it", &other, ei),
                         CAIRN_EFORMAT);
    }
    crn_arena_close(a);
    test_dir_remove(dir);
}

/* Random takes, flushes and evictions against a model: taken images never overlap, never leave the
 * arena, and keep their bytes until they are given up. */
static void slots_never_overlap(void **state)
{
    enum { PAGES = 64, ROUNDS = 4000 };
    struct crn_errinfo info = {0}, *ei = &info;
    uint64_t live_seq[CRN_ARENA_SLOTS] = {0};
    struct crn_slot_info live[CRN_ARENA_SLOTS] = {0};
    struct crn_arena *a, *other;
    struct crn_rng rng;
    uint64_t seq;
    char dir[256];
    uint32_t slot, i;
    cairn_err rc;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make(dir, PAGES * PAGE);
    assert_ok(crn_arena_map(crn_fs_posix(), dup(crn_arena_fd(a)), "the arena", &other, ei));
    assert_int_equal(crn_arena_rank(other), 3);
    crn_rng_seed(&rng, 42);
    for (seq = 1; seq <= ROUNDS; seq++) {
        struct crn_slot_info c = capture(seq, (1 + crn_rng_below(&rng, 20)) * PAGE);

        crn_err_clear(ei);
        rc = crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei);
        if (rc == CAIRN_OK) {
            live_seq[slot] = seq;
            live[slot] = c;
            assert_true(c.offset + c.bytes <= PAGES * PAGE);
            memset(crn_slot_memory(a, &c), (int)(seq & 0xff), c.bytes);
            assert_true(crn_slot_move(a, slot, seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
        } else {
            assert_int_equal(rc, CAIRN_EBUSY);
        }
        /* The other process flushes one, successfully or not, or none. */
        i = (uint32_t)crn_rng_below(&rng, PAGES); /* no more are in use */
        if (live_seq[i] != 0 && crn_slot_state(other, i) == CRN_SLOT_WRITTEN) {
            assert_true(crn_slot_move(other, i, live_seq[i], CRN_SLOT_WRITTEN, CRN_SLOT_FLUSHING));
            assert_true(crn_slot_move(other, i, live_seq[i], CRN_SLOT_FLUSHING,
                                      i % 2 == 0 ? CRN_SLOT_FLUSHED : CRN_SLOT_KEPT));
        }
        for (i = 0; i < CRN_ARENA_SLOTS; i++) {
            const unsigned char *p;

            if (crn_slot_state(a, i) != CRN_SLOT_WRITTEN)
                continue;
            p = crn_slot_memory(other, &live[i]);
            assert_int_equal(p[0], live_seq[i] & 0xff);
            assert_int_equal(p[live[i].bytes - 1], live_seq[i] & 0xff);
        }
    }
    crn_arena_close(other);
    crn_arena_close(a);
    test_dir_remove(dir);
}

static void a_reused_slot_does_not_move_for_its_past(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_slot_info c = capture(1, PAGE);
    struct crn_slot_info old;
    struct crn_arena *a;
    char dir[256];
    uint32_t slot;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make(dir, PAGE);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei));
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
    assert_true(crn_arena_supersede(a, NULL, NULL, &old));
    assert_int_equal(old.id.seq, 1);
    c = capture(2, PAGE);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei));
    assert_true(crn_slot_move(a, slot, 2, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
    assert_false(crn_slot_move(a, slot, 1, CRN_SLOT_WRITTEN, CRN_SLOT_FLUSHING));
    assert_int_equal(crn_slot_state(a, slot), CRN_SLOT_WRITTEN);
    c = capture(3, 2 * PAGE);
    assert_int_equal(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei), CAIRN_ENOSPC);
    c.is_spilled = 1; /* needs a slot only */
    c.bytes = 0;
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei));
    crn_arena_close(a);
    test_dir_remove(dir);
}

/* Flushed slots are evicted when space is needed: only those that must be, and never one that is
 * being read. */
static void eviction_spares_the_pinned(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_slot_info c;
    struct crn_arena *a;
    char dir[256];
    uint32_t slot[4], more;
    uint64_t seq;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make(dir, 8 * PAGE);
    for (seq = 1; seq <= 4; seq++) {
        c = capture(seq, 2 * PAGE);
        assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot[seq - 1], ei));
        assert_true(crn_slot_move(a, slot[seq - 1], seq, CRN_SLOT_WRITING,
                                  seq == 1 ? CRN_SLOT_FLUSHING : CRN_SLOT_FLUSHED));
    }
    c = capture(5, 3 * PAGE); /* needs two neighbours: 2 and 3 are the oldest evictable */
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &more, ei));
    assert_int_equal(c.offset, 2 * PAGE);
    assert_int_equal(crn_slot_state(a, slot[0]), CRN_SLOT_FLUSHING);
    assert_int_equal(crn_slot_state(a, slot[3]), CRN_SLOT_FLUSHED);
    c = capture(6, 2 * PAGE);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &more, ei));
    assert_int_equal(c.offset, 5 * PAGE); /* the gap before 4, and 4 */
    c = capture(7, 2 * PAGE);
    assert_int_equal(crn_arena_take(a, CRN_SLOT_WRITING, &c, &more, ei), CAIRN_EBUSY);
    assert_true(crn_slot_move(a, slot[0], 1, CRN_SLOT_FLUSHING, CRN_SLOT_FLUSHED));
    crn_err_clear(ei);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &more, ei));
    assert_int_equal(c.offset, 0);
    crn_arena_close(a);
    test_dir_remove(dir);
}

/* A slot lent to the service can still be read, also for a restore, and is not evicted until it is
 * returned. */
static void what_is_lent_stays(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_slot_info c = capture(1, 3 * PAGE);
    struct crn_capture_id id = c.id;
    struct crn_arena *a;
    uint32_t slot, more;
    char dir[256];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make(dir, 4 * PAGE);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei));
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_WRITING, CRN_SLOT_FLUSHED));
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_FLUSHED, CRN_SLOT_LENT));
    assert_false(crn_slot_move(a, slot, 1, CRN_SLOT_FLUSHED, CRN_SLOT_LENT)); /* only once */
    assert_int_equal(crn_arena_find(a, &id), (int)slot);
    c = capture(2, 3 * PAGE);
    assert_int_equal(crn_arena_take(a, CRN_SLOT_WRITING, &c, &more, ei), CAIRN_EBUSY);
    crn_err_clear(ei);
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_LENT, CRN_SLOT_FLUSHED));
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &more, ei));
    crn_arena_close(a);
    test_dir_remove(dir);
}

/* A borrower runs while the application evicts: a borrowed slot is still unchanged when it is
 * returned. */
struct borrower {
    struct crn_arena *a;
    atomic_uint_fast64_t newest; /* seq << 16 | slot of a capture that was flushed */
    atomic_int is_over;
    uint64_t loans, lost;
};

static void *borrow(void *arg)
{
    struct borrower *b = arg;

    while (!atomic_load(&b->is_over)) {
        uint64_t newest = atomic_load(&b->newest);
        uint32_t slot = (uint32_t)(newest & 0xffff);

        if (newest == 0 ||
            !crn_slot_move(b->a, slot, newest >> 16, CRN_SLOT_FLUSHED, CRN_SLOT_LENT))
            continue;
        b->loans++;
        b->lost += !crn_slot_move(b->a, slot, newest >> 16, CRN_SLOT_LENT, CRN_SLOT_FLUSHED);
    }
    return NULL;
}

static void what_is_lent_meanwhile_stays(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct borrower b = {0};
    pthread_t thread;
    char dir[256];
    uint64_t seq;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    b.a = make(dir, 4 * PAGE);
    assert_int_equal(pthread_create(&thread, NULL, borrow, &b), 0);
    for (seq = 1; seq < 300000; seq++) {
        struct crn_slot_info c = capture(seq, 3 * PAGE); /* there is space for one */
        uint32_t slot;

        if (crn_arena_take(b.a, CRN_SLOT_WRITING, &c, &slot, ei) != CAIRN_OK) {
            crn_err_clear(ei);
            continue;
        }
        assert_true(crn_slot_move(b.a, slot, seq, CRN_SLOT_WRITING, CRN_SLOT_FLUSHED));
        atomic_store(&b.newest, seq << 16 | slot);
    }
    atomic_store(&b.is_over, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.lost, 0);
    crn_arena_close(b.a);
    test_dir_remove(dir);
}

/* An image that is out takes no space, is found by the process that claims it, and stays out to its
 * end. */
static void images_leave_the_memory(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_slot_info c = capture(1, 3 * PAGE);
    struct crn_slot_info seen;
    struct crn_arena *a;
    char dir[256];
    uint32_t slot, more;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make(dir, 4 * PAGE);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &c, &slot, ei));
    assert_false(crn_slot_put_out(a, slot, 1, 0)); /* not complete yet */
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
    assert_false(crn_slot_put_out(a, slot, 2, 0)); /* another capture */
    assert_true(crn_arena_area_is_free(a, 0, 100 * PAGE));
    assert_true(crn_slot_put_out(a, slot, 1, 16 * PAGE));
    assert_false(crn_slot_put_out(a, slot, 1, 0));
    assert_false(crn_arena_area_is_free(a, 18 * PAGE, PAGE));
    assert_true(crn_arena_area_is_free(a, 19 * PAGE, PAGE) &&
                crn_arena_area_is_free(a, 0, 16 * PAGE));
    assert_int_equal(crn_arena_find(a, &c.id), -1);
    c = capture(2, 4 * PAGE);
    c.offset = 0;
    assert_ok(crn_arena_take_at(a, CRN_SLOT_WRITING, &c, &more, ei)); /* all of the memory */
    assert_int_equal(crn_slot_state(a, slot), CRN_SLOT_WRITTEN);
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_WRITTEN, CRN_SLOT_FLUSHING)); /* the service */
    assert_ok(crn_slot_info(a, slot, &seen, ei));
    assert_true(seen.is_out && seen.is_spilled && seen.bytes == 0);
    assert_true(seen.area_at == 16 * PAGE && seen.image_bytes == 3 * PAGE);
    assert_false(crn_slot_put_out(a, more, 2, 0)); /* WRITING */
    assert_true(crn_slot_move(a, slot, 1, CRN_SLOT_FLUSHING, CRN_SLOT_FLUSHED));
    assert_true(crn_arena_area_is_free(a, 16 * PAGE, PAGE));
    assert_int_equal(crn_arena_find(a, &seen.id), -1);
    crn_arena_close(a);
    test_dir_remove(dir);
}

static void a_damaged_arena_is_refused(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_arena *a, *b;
    char dir[256], path[300];
    int fd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make(dir, 4 * PAGE);
    crn_arena_close(a);
    (void)snprintf(path, sizeof(path), "%s/arena-3", dir);
    fd = open(path, O_RDWR);
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(crn_arena_map(crn_fs_posix(), fd, "x", &b, ei), CAIRN_EDAMAGED);
    fd = open(path, O_RDWR);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    assert_int_equal(pwrite(fd, "\0", 1, 0), 1);
    crn_err_clear(ei);
    assert_int_equal(crn_arena_map(crn_fs_posix(), fd, "x", &b, ei), CAIRN_EFORMAT);
    fd = open(path, O_RDWR); /* no magic: never finished */
    assert_int_equal(pwrite(fd, "\0\0\0\0\0\0\0", 8, 0), 8);
    crn_err_clear(ei);
    assert_int_equal(crn_arena_map(crn_fs_posix(), fd, "x", &b, ei), CAIRN_ENOENT);
    fd = open(path, O_RDWR | O_TRUNC); /* created, but without a size yet */
    crn_err_clear(ei);
    assert_int_equal(crn_arena_map(crn_fs_posix(), fd, "x", &b, ei), CAIRN_ENOENT);
    test_dir_remove(dir);
}

/* The first image lies in the memory that is ready at once. A caller that needs more gets it, and
 * data being written meanwhile does not change. */
static void the_rest_is_made_beside(void **state)
{
    enum { MIB = 1 << 20, REST = 64 * MIB };
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_arena_size size = {.bytes = MIB + REST, .first = MIB};
    struct crn_slot_info first = capture(1, MIB), second = capture(2, REST);
    struct crn_arena *a;
    struct stat st;
    char dir[256];
    uint32_t slot;
    int i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make_size(dir, size);
    assert_ok(crn_arena_take(a, CRN_SLOT_READING, &first, &slot, ei));
    crn_arena_go_on(a);
    memset(crn_slot_memory(a, &first), 7, MIB);
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &second, &slot, ei));
    assert_true(second.offset >= MIB);
    assert_int_equal(fstat(crn_arena_fd(a), &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 >= size.bytes);
    for (i = 0; i < MIB; i++)
        assert_int_equal(crn_slot_memory(a, &first)[i], 7);
    assert_true(crn_arena_bytes(a) == size.bytes);
    crn_arena_close(a);
    test_dir_remove(dir);

    test_dir_make(dir, sizeof(dir));
    a = make_size(dir, size);
    crn_arena_go_on(a);
    crn_arena_close(a); /* during the preparation */
    test_dir_remove(dir);
}

/* An image that may go stays while there is other room, ready or not. */
static void the_rest_comes_before_evictions(void **state)
{
    enum { MIB = 1 << 20 };
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_arena_size size = {.bytes = 2 * MIB, .first = MIB};
    struct crn_slot_info first = capture(1, MIB), second = capture(2, MIB), third = capture(3, MIB);
    struct crn_arena *a;
    char dir[256];
    uint32_t slot, other;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    a = make_size(dir, size);
    assert_ok(crn_arena_take(a, CRN_SLOT_FLUSHED, &first, &slot, ei));
    assert_ok(
        crn_arena_take(a, CRN_SLOT_WRITING, &second, &other, ei)); /* nothing has begun the rest */
    assert_int_equal(crn_slot_state(a, slot), CRN_SLOT_FLUSHED);
    assert_true(second.offset >= MIB);
    assert_ok(
        crn_arena_take(a, CRN_SLOT_WRITING, &third, &other, ei)); /* now the image has to go */
    assert_true(third.offset == first.offset);
    crn_arena_close(a);
    test_dir_remove(dir);
}

/* As in a tmpfs that has become full. */
static void a_rest_that_cannot_be_had_is_left(void **state)
{
    struct crn_rest r = {.fd = open("/dev/null", O_RDONLY), .bytes = 1 << 20};

    (void)state;
    crn_rest_start(&r);
    crn_rest_end(&r, 0);
    assert_true(crn_rest_is_over(&r));
    assert_int_equal(r.done, 0);
    assert_int_not_equal(r.failure, 0);
    (void)close(r.fd);
}

static void images_align_large_regions(void **state)
{
    struct crn_region regions[3] = {{.name = "small", .bytes = 3},
                                    {.name = "file", .kind = CRN_REGION_FILE, .bytes = 9999},
                                    {.name = "large", .bytes = (uint64_t)5 << 32}};
    struct crn_shard shard = {.nregions = 3, .regions = regions};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_image image;

    (void)state;
    assert_ok(crn_image_layout(&shard, 100, &image, ei));
    assert_int_equal(image.at[0], 128);
    assert_int_equal(image.at[1], 0);
    assert_int_equal(image.at[2], CRN_IMAGE_ALIGN);
    assert_true(image.bytes == CRN_IMAGE_ALIGN + ((uint64_t)5 << 32));
    crn_image_free(&image);
    regions[2].bytes = INT64_MAX;
    assert_int_equal(crn_image_layout(&shard, 100, &image, ei), CAIRN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_slots),
        cmocka_unit_test(slots_never_overlap),
        cmocka_unit_test(a_reused_slot_does_not_move_for_its_past),
        cmocka_unit_test(eviction_spares_the_pinned),
        cmocka_unit_test(what_is_lent_stays),
        cmocka_unit_test(what_is_lent_meanwhile_stays),
        cmocka_unit_test(images_leave_the_memory),
        cmocka_unit_test(a_damaged_arena_is_refused),
        cmocka_unit_test(the_rest_is_made_beside),
        cmocka_unit_test(the_rest_comes_before_evictions),
        cmocka_unit_test(a_rest_that_cannot_be_had_is_left),
        cmocka_unit_test(images_align_large_regions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
