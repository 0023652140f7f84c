/* SPDX-License-Identifier: BSD-3-Clause */
/* A leader and its assistants write a file together, which is compared byte by byte through the
 * index. Assistants get their own data first, and then what a slow leader has not requested.
 * Memory stays within each pool. */
#include <semaphore.h>

#include "aggregate/test_assist.h"

static void they_write_one_file(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_store st;
    struct assist_world w;
    int round, i;

    (void)state;
    assist_set_up(&w);
    open_store(&w, &st);
    w.engine = assist_open_engine(BLOCKS, 2);
    aide_open(&w, 1);
    aide_open(&w, 3);
    aide_open(&w, 0); /* from another group */
    for (round = 0; round < 40; round++) {
        uint64_t assisted = 0;

        w.is_slow = round % 2;
        assert_ok(write_together(&w, &st, &mf, &stats, ei));
        compare(&w, &st, mf.name);
        for (i = 0; i < w.naides; i++) {
            assert_int_equal(w.aide[i].rc, CAIRN_OK);
            assisted += w.aide[i].bytes;
        }
        assert_int_equal(stats.assisted_bytes, assisted);
        assert_int_equal(w.told, assisted);
        crn_manifest_file_free(&mf);
        if (round % 2 == 0)
            continue;
        /* The leader took two blocks. The assistants wrote the rest, their own data in place. */
        assert_int_equal(w.nheld, BLOCKS);
        assert_int_equal(stats.assisted_bytes + stats.remote_bytes + w.shard[1].regions[1].bytes +
                             w.shard[1].regions[2].bytes,
                         stats.bytes);
        assert_true(w.aide[2].own == 0 && w.aide[0].own + w.aide[1].own + w.aide[0].foreign +
                                                  w.aide[1].foreign + w.aide[2].foreign >
                                              8);
    }
    assert_int_equal(crn_engine_most_blocks(w.engine), BLOCKS);
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
}

static ssize_t slow_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    (void)fs;
    (void)usleep(2000);
    return crn_fs_posix()->pwrite(crn_fs_posix(), fd, buf, n, off);
}

/* The leader waits for assistants only while it has local data to write; fetch() checks that. */
static void assistants_may_never_come(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_fs slow = *crn_fs_posix();
    struct crn_store st;
    struct assist_world w;
    int round;

    (void)state;
    slow.pwrite = slow_pwrite;
    assist_set_up(&w);
    open_store(&w, &st);
    st.fs = &slow;
    w.engine = assist_open_engine(BLOCKS, 2);
    memset(w.assists + 1, 1, NODES - 1);
    for (round = 0; round < 10; round++) {
        assert_ok(write_together(&w, &st, &mf, &stats, ei));
        compare(&w, &st, mf.name);
        assert_int_equal(stats.assisted_bytes, 0);
        assert_true(stats.remote_bytes > 0 && stats.remote_bytes < stats.bytes);
        crn_manifest_file_free(&mf);
    }
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
}

/* Hands a write to an assistant that never writes it. Returns the owner of the write, or 0; *ret
 * is the outcome. */
static uint32_t take(struct assist_world *w, struct crn_assistant *a, enum crn_handing *ret,
                     uint64_t *ret_id, uint64_t *ret_hashes)
{
    struct crn_handout out = {0};
    struct crn_buf b = {0};
    struct crn_view v;
    uint32_t i, n;

    *ret = crn_assist_hand_out(w->engine, w->generation, a, &out, &b);
    v = crn_view_of(b.data, b.len);
    n = *ret == CRN_HANDED ? crn_view_u32(&v) : 0;
    for (i = 0, *ret_hashes = 0; i < n; i++) {
        (void)crn_view_take(&v, 16); /* rank, region, offset */
        *ret_hashes += (crn_view_u64(&v) + CHUNK - 1) / CHUNK;
    }
    assert_false(v.failed);
    crn_buf_free(&b);
    *ret_id = out.id;
    return out.owner;
}

/* Before the leader fetches anything: nodes 1 and 3 assist, node 2 does not. Another assistant
 * gets node 3's data only when it is almost idle. */
static void hand_out_by_turns(void *arg, const char *file, uint64_t generation)
{
    static const unsigned char hashes[8 * 64];
    struct crn_assistant one = {.owner = 1}, three = {.owner = 3};
    struct assist_world *w = arg;
    uint64_t ids[64], n[64];
    enum crn_handing given = CRN_HANDED;
    uint32_t owner = 1, last = 1, count = 0;
    uint32_t i;

    (void)file;
    w->generation = generation;
    for (i = 0; given == CRN_HANDED; i++) {
        owner = take(w, &one, &given, &ids[i], &n[i]);
        assert_true(given != CRN_HANDED || owner == last || (owner == 2 && last == 1));
        last = given == CRN_HANDED ? owner : last;
    }
    assert_true(given == CRN_HAND_LATER && last == 2 && i > 6 && one.in_hand == i - 1);
    for (i--; i > 1; i--) {
        assert_int_equal(take(w, &one, &given, &ids[63], &n[63]), 0);
        assert_int_equal(given, CRN_HAND_LATER);
        crn_assist_handed_back(w->engine, generation, &one, ids[i - 1], hashes, 8 * n[i - 1]);
    }
    assert_int_equal(take(w, &one, &given, &ids[1], &n[1]), 3);
    (void)take(w, &one, &given, &ids[63], &n[63]);
    assert_true(given == CRN_HAND_LATER && one.in_hand == 2);
    do {
        owner = take(w, &three, &given, &ids[63], &n[63]);
        count += given == CRN_HANDED && owner == 3;
    } while (given == CRN_HANDED);
    assert_true(given == CRN_HAND_NONE && count > 2 && three.in_hand == count);
    (void)take(w, &one, &given, &ids[63], &n[63]);
    assert_int_equal(given, CRN_HAND_NONE);
    crn_assist_cancel(w->engine, generation,
                      &(struct crn_errinfo){.code = CAIRN_ECANCELED, .msg = "it is enough"});
}

static void assistants_write_their_own(void **state)
{
    struct crn_fetcher fetcher = {.fetch = fetch, .opened = hand_out_by_turns};
    struct crn_errinfo ei = {0};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_store st;
    struct assist_world w;

    (void)state;
    assist_set_up(&w);
    open_store(&w, &st);
    w.engine = assist_open_engine(BLOCKS, 2);
    w.assists[1] = w.assists[3] = 1;
    fetcher.assists = w.assists;
    fetcher.arg = &w;
    assert_int_equal(
        crn_engine_write(w.engine, &st, &w.head, w.sources, SHARDS, &fetcher, &mf, &stats, &ei),
        CAIRN_ECANCELED);
    test_nothing_left(&st, "many", 7);
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
}

/* The leader's pool is empty. It still has local data, and waits for a block to receive data of
 * a node that does not assist. An assistant then takes that write, so only data of assistants is
 * left, which the leader may not fetch yet. */
static sem_t go;

static ssize_t gated_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    static atomic_int is_open;

    if (!atomic_load(&is_open)) {
        assert_int_equal(sem_wait(&go), 0);
        atomic_store(&is_open, 1);
    }
    return slow_pwrite(fs, fd, buf, n, off);
}

static void *overtake(void *arg)
{
    struct crn_assistant other = {.owner = 0};
    struct assist_world *w = arg;
    enum crn_handing given = CRN_HANDED;
    uint64_t id, n;
    int i;

    (void)usleep(20000); /* long enough that the leader very likely waits for a block */
    while (given == CRN_HANDED && crn_assist_is_wanted(w->engine, w->generation) &&
           other.in_hand < w->nfree)
        assert_int_equal(take(w, &other, &given, &id, &n), 2);
    for (i = 0; i < BLOCKS; i++)
        deliver(w, w->held[i], w->extents, w->order, w->block[i]);
    (void)sem_post(&go);
    return NULL;
}

static void hold_then_look(void *arg, const struct crn_write *wr, const struct crn_extent *extents,
                           const uint64_t *order, int is_older, void *block)
{
    struct assist_world *w = arg;

    (void)is_older;
    if (w->nheld < BLOCKS) {
        assert_int_equal(wr->owner, 2);
        w->held[w->nheld] = wr;
        w->block[w->nheld++] = block;
        w->extents = extents;
        w->order = order;
        if (w->nheld == BLOCKS)
            assert_int_equal(pthread_create(&w->overtaker, NULL, overtake, w), 0);
        return;
    }
    assert_true(w->assists[wr->owner]);
    assert_nothing_else_to_do(w->engine);
    crn_assist_cancel(w->engine, w->generation,
                      &(struct crn_errinfo){.code = CAIRN_ECANCELED, .msg = "it is enough"});
    deliver(w, wr, extents, order, block);
}

/* Counts the writes of the node that does not assist, minus those already fetched. */
static void count_free(void *arg, const char *file, uint64_t generation)
{
    struct assist_world *w = arg;
    const struct crn_plan *plan = w->engine->task->plan;
    uint64_t i;

    (void)file;
    w->generation = generation;
    for (i = 0, w->nfree = 0; i < plan->nwrites; i++)
        w->nfree += plan->writes[i].owner == 2;
    w->nfree -= BLOCKS;
}

static void what_is_overtaken_waits_for_its_turn(void **state)
{
    struct crn_fetcher fetcher = {.fetch = hold_then_look, .opened = count_free};
    struct crn_errinfo ei = {0};
    struct crn_fs gated = *crn_fs_posix();
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_store st;
    struct assist_world w;

    (void)state;
    assert_int_equal(sem_init(&go, 0, 0), 0);
    gated.pwrite = gated_pwrite;
    assist_set_up(&w);
    open_store(&w, &st);
    st.fs = &gated;
    w.engine = assist_open_engine(BLOCKS, 1);
    w.assists[1] = w.assists[3] = 1;
    fetcher.assists = w.assists;
    fetcher.arg = &w;
    assert_int_equal(
        crn_engine_write(w.engine, &st, &w.head, w.sources, SHARDS, &fetcher, &mf, &stats, &ei),
        CAIRN_ECANCELED);
    (void)pthread_join(w.overtaker, NULL);
    assert_true(w.nfree > 0);
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
    (void)sem_destroy(&go);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_write_one_file),
        cmocka_unit_test(assistants_may_never_come),
        cmocka_unit_test(assistants_write_their_own),
        cmocka_unit_test(what_is_overtaken_waits_for_its_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
