/* SPDX-License-Identifier: BSD-3-Clause */
/* A leader and its assistants, an engine each, without a network: what they write together is compared
 * byte by byte through the index. What is theirs is handed to them first, what a slow leader has not
 * asked for goes to them, memory stays within each pool, and whatever fails on either side fails the
 * file and leaves nothing. */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "aggregate/assist.h"
#include "aggregate/task.h"
#include "aggregate/test_shards.h"
#include "base/fs_faulty.h"

enum {
    NODES = 4,
    SHARDS = 8,
    REGIONS = 3,
    BLOCK = 32 * 1024,
    CHUNK = 5000,
    BLOCKS = 2,
    AIDE_BLOCKS = 5
};

struct world;

/* A node that assists. */
struct aide {
    struct world *w;
    uint32_t owner; /* 0: of another group, it has none of the data */
    struct crn_assistant of_leader;
    struct crn_engine *engine;
    pthread_t thread;
    const struct crn_fs *fs;
    uint64_t bytes, own, foreign; /* pieces that it had, and that it got */
    cairn_err rc;
};

struct world {
    char dir[256];
    struct test_shard shard[SHARDS];
    struct crn_source everywhere[SHARDS]; /* as their owners see them */
    struct crn_source sources[SHARDS];    /* as the leader sees them */
    struct crn_index head;
    struct crn_engine *engine;
    unsigned char assists[NODES + 1];
    struct aide aide[3];
    int naides;
    char file[CRN_FILE_NAME];
    uint64_t told; /* bytes, by the assistants' statistics */
    uint64_t generation;
    /* A leader whose fetches wait until the assistants have nothing more to do. */
    int is_slow;
    const struct crn_write *held[BLOCKS];
    void *block[BLOCKS];
    const struct crn_extent *extents;
    const uint64_t *order;
    int nheld;
    uint32_t nfree;
    pthread_t overtaker;
};

/* Shards of very different sizes, two for each node; node 0 leads. */
static void set_up(struct world *w)
{
    static const uint64_t sizes[REGIONS] = {0, 77, 2 * BLOCK + 1234};
    struct crn_rng rng;
    uint32_t s, r;

    memset(w, 0, sizeof(*w));
    test_dir_make(w->dir, sizeof(w->dir));
    crn_rng_seed(&rng, 4711);
    for (s = 0; s < SHARDS; s++) {
        struct test_shard *shard = &w->shard[s];

        for (r = 0; r < REGIONS; r++)
            shard->regions[r].dims[0] = sizes[r] * (s % 5);
        test_shard_lay_out(shard, REGIONS, 1);
        shard->image = malloc(shard->bytes + 1);
        test_shard_fill(shard, &rng);
        w->everywhere[s] = test_shard_source(shard, s);
        w->everywhere[s].owner = s / 2;
        w->sources[s] = w->everywhere[s];
        if (s >= 2)
            w->sources[s].memory = NULL;
    }
    w->head = (struct crn_index){.version = 7, .files = 1, .ranks = SHARDS, .nodes = NODES};
    (void)strcpy(w->head.name, "many");
}

static void tear_down(struct world *w)
{
    int s;

    for (s = 0; s < SHARDS; s++)
        free(w->shard[s].image);
    test_dir_remove(w->dir);
}

static struct crn_engine *open_engine(uint64_t blocks, int writers)
{
    struct crn_engine_options opt = {.blocks = blocks,
                                     .block_bytes = BLOCK,
                                     .chunk_bytes = CHUNK,
                                     .align_bytes = 4096,
                                     .writers = writers};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_engine *e;

    assert_ok(crn_engine_open(&opt, &e, ei));
    return e;
}

/* Assistants. -------------------------------------------------------------------------------------- */

static void ask(void *arg, void *block)
{
    struct aide *a = arg;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_handout out;
    struct crn_errand *x;
    struct crn_buf b = {0};
    struct crn_view v;
    enum crn_handing given;
    uint64_t at = 0;
    uint32_t i, n;

    given = crn_engine_hand_out(a->w->engine, a->w->generation, &a->of_leader, &out, &b);
    if (given == CRN_HAND_NONE)
        crn_engine_no_errand(a->engine, block, NULL);
    if (given == CRN_HAND_LATER)
        crn_engine_errand_later(a->engine, block);
    if (given != CRN_HANDED)
        return;
    v = crn_view_of(b.data, b.len);
    n = crn_view_u32(&v);
    assert_ok(crn_errand_new(n, &x, ei));
    for (i = 0; i < n; i++) {
        struct crn_extent *e = &x->plan.extents[i];

        e->shard = crn_view_u32(&v); /* ranks are shards here */
        e->region = crn_view_u32(&v);
        e->offset = crn_view_u64(&v);
        e->bytes = crn_view_u64(&v);
        assert_int_equal(e->shard / 2, out.owner);
        if (out.owner != a->owner)
            memcpy((unsigned char *)block + at, test_bytes(a->w->shard, e), e->bytes);
        at += e->bytes;
    }
    assert_true(!v.failed && crn_view_left(&v) == 0 && at <= BLOCK && out.offset % 4096 == 0);
    x->id = out.id;
    x->all.place = out.offset;
    a->own += out.owner == a->owner;
    a->foreign += out.owner != a->owner;
    crn_buf_free(&b);
    crn_engine_errand(a->engine, x, a->w->everywhere, block, out.owner != a->owner, NULL);
}

static cairn_err written(void *arg, const struct crn_errand *x, struct crn_errinfo *ei)
{
    struct aide *a = arg;
    struct crn_buf b = {0};
    uint64_t i;

    (void)ei;
    for (i = 0; i < x->plan.nhashes; i++)
        crn_buf_u64(&b, x->hashes[i]);
    crn_engine_handed_back(a->w->engine, a->w->generation, &a->of_leader, x->id, b.data, b.len);
    crn_buf_free(&b);
    return CAIRN_OK;
}

/* The last message to the leader, with what was measured. */
static void tell_end(struct aide *a, struct crn_flush_stats *s, const struct crn_errinfo *error)
{
    struct crn_errinfo ei = {0};
    struct crn_buf text = {0};
    struct crn_view v;

    if (s != NULL && crn_flush_stats_encode(s, &text, &ei) != CAIRN_OK)
        a->rc = ei.code;
    v = crn_view_of(text.data, text.len);
    crn_engine_assistant_left(a->w->engine, a->w->generation, &a->of_leader, &v, error);
    crn_buf_free(&text);
    if (s != NULL)
        crn_flush_stats_free(s);
}

static void *assist(void *arg)
{
    struct aide *a = arg;
    struct crn_assist ops = {ask, written, a};
    struct crn_flush_stats stats;
    struct crn_errinfo ei = {0};
    struct crn_store st;
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/p", a->w->dir);
    a->rc = crn_store_open(crn_fs_posix(), path, 0, &st, &ei);
    if (a->rc != CAIRN_OK)
        return NULL;
    st.fs = a->fs;
    a->rc = crn_engine_assist(a->engine, &st, &a->w->head, a->w->file, &ops, &stats, &ei);
    a->bytes = a->rc == CAIRN_OK ? stats.bytes : 0;
    st.fs = crn_fs_posix();
    tell_end(a, a->rc == CAIRN_OK ? &stats : NULL, &ei);
    crn_store_close(&st);
    return NULL;
}

/* Leader. ------------------------------------------------------------------------------------------ */

static void start_aides(struct world *w)
{
    int i;

    for (i = 0; i < w->naides; i++)
        assert_int_equal(pthread_create(&w->aide[i].thread, NULL, assist, &w->aide[i]), 0);
}

static void opened(void *arg, const char *file, uint64_t generation)
{
    struct world *w = arg;

    (void)snprintf(w->file, sizeof(w->file), "%s", file);
    w->generation = generation;
    if (!w->is_slow)
        start_aides(w);
}

static void deliver(struct world *w, const struct crn_write *wr, const struct crn_extent *extents,
                    const uint64_t *order, unsigned char *block)
{
    test_gather(w->shard, wr, extents, order, block);
    crn_engine_arrived(w->engine, wr, NULL);
}

/* What assistants have is theirs as long as the leader has something of its own. */
static void assert_nothing_else_to_do(struct crn_engine *e)
{
    crn_lock(&e->mu);
    assert_null(crn_task_seek_local(e->task));
    assert_true(e->task->outstanding + e->task->nready <= (size_t)e->started + 1);
    crn_unlock(&e->mu);
}

/* A slow leader: its pool is empty before its assistants come, and nothing arrives before they have
 * written all the rest. */
static void fetch(void *arg, const struct crn_write *wr, const struct crn_extent *extents,
                  const uint64_t *order, int is_older, void *block)
{
    struct world *w = arg;
    int i;

    assert_false(is_older); /* nobody assists where data is encoded */
    if (w->assists[wr->owner])
        assert_nothing_else_to_do(w->engine);
    if (!w->is_slow) {
        deliver(w, wr, extents, order, block);
        return;
    }
    assert_int_equal(wr->owner, 2); /* what the others have is left to them */
    w->held[w->nheld] = wr;
    w->block[w->nheld++] = block;
    if (w->nheld < BLOCKS)
        return;
    start_aides(w);
    for (i = 0; i < w->naides; i++) {
        (void)pthread_join(w->aide[i].thread, NULL);
        w->aide[i].thread = 0;
    }
    for (i = 0; i < BLOCKS; i++)
        deliver(w, w->held[i], extents, order, w->block[i]);
    w->is_slow = 0;
}

static void aide_open(struct world *w, uint32_t owner)
{
    struct aide *a = &w->aide[w->naides++];

    *a = (struct aide){
        .w = w, .owner = owner, .engine = open_engine(AIDE_BLOCKS, 2), .fs = crn_fs_posix()};
    w->assists[owner] = owner != 0;
}

/* What all assistants told that they wrote: one text behind the other. */
static uint64_t sum_told(const struct crn_buf *texts)
{
    const char *text = (const char *)texts->data;
    struct crn_flush_stats s;
    uint64_t sum = 0;
    size_t at, n;

    for (at = 0; at < texts->len; at += n) {
        n = crn_flush_stats_text_len(text + at, texts->len - at);
        assert_int_not_equal(n, 0);
        assert_int_equal(crn_flush_stats_decode(text + at, n, &s, NULL), CAIRN_OK);
        assert_int_equal(crn_stats_local(&s).bytes + crn_stats_received(&s).bytes, s.bytes);
        assert_true(s.total_ns >= s.write_ns && s.write_ns > 0);
        sum += s.bytes;
        crn_flush_stats_free(&s);
    }
    return sum;
}

static cairn_err write_together(struct world *w, const struct crn_store *st,
                                struct crn_manifest_file *mf, struct crn_flush_stats *stats,
                                struct crn_errinfo *ei)
{
    struct crn_fetcher fetcher = {
        .fetch = fetch, .opened = opened, .assists = w->assists, .arg = w};
    cairn_err rc;
    int i;

    for (i = 0; i < w->naides; i++) {
        w->aide[i].of_leader = (struct crn_assistant){.owner = w->aide[i].owner};
        w->aide[i].own = w->aide[i].foreign = w->aide[i].bytes = 0;
        w->aide[i].thread = 0;
    }
    w->nheld = 0;
    rc = crn_engine_write(w->engine, st, &w->head, w->sources, SHARDS, &fetcher, mf, stats, ei);
    for (i = 0; i < w->naides; i++)
        if (w->aide[i].thread != 0)
            (void)pthread_join(w->aide[i].thread, NULL);
    if (rc == CAIRN_OK) { /* the sums stay */
        struct crn_flush_stats all = *stats;

        w->told = sum_told(&stats->helpers);
        memset(&stats->helpers, 0, sizeof(stats->helpers));

        stats->writer = NULL;
        stats->peer = NULL;
        crn_flush_stats_free(&all);
    }
    return rc;
}

static void compare(const struct world *w, const struct crn_store *st, const char *file)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_index x;
    char path[300];

    assert_ok(crn_store_describe_data(st, "many", 7, file, &mf, &x, ei));
    (void)snprintf(path, sizeof(path), "%s/p/many/7/%s", w->dir, file);
    test_compare(w->shard, SHARDS, &x, path);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

static void open_store(const struct world *w, struct crn_store *st)
{
    struct crn_errinfo info = {0}, *ei = &info;
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/p", w->dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, st, ei));
}

static void close_engines(struct world *w)
{
    int i;

    for (i = 0; i < w->naides; i++) {
        assert_true(crn_engine_most_blocks(w->aide[i].engine) <= AIDE_BLOCKS);
        crn_engine_close(w->aide[i].engine);
    }
    crn_engine_close(w->engine);
}

static void they_write_one_file(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_store st;
    struct world w;
    int round, i;

    (void)state;
    set_up(&w);
    open_store(&w, &st);
    w.engine = open_engine(BLOCKS, 2);
    aide_open(&w, 1);
    aide_open(&w, 3);
    aide_open(&w, 0); /* of another group */
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
        /* The leader took two blocks; the assistants the rest, their own from where it lies. */
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
    tear_down(&w);
}

static ssize_t slow_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    (void)fs;
    (void)usleep(2000);
    return crn_fs_posix()->pwrite(crn_fs_posix(), fd, buf, n, off);
}

/* They are waited for no longer than the leader has something of its own: fetch() looks. */
static void assistants_may_never_come(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_fs slow = *crn_fs_posix();
    struct crn_store st;
    struct world w;
    int round;

    (void)state;
    slow.pwrite = slow_pwrite;
    slow.map_write = NULL;
    set_up(&w);
    open_store(&w, &st);
    st.fs = &slow;
    w.engine = open_engine(BLOCKS, 2);
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
    tear_down(&w);
}

/* Hands a write to an assistant that never writes it: whose it is, or 0, and which way that went. */
static uint32_t take(struct world *w, struct crn_assistant *a, enum crn_handing *ret,
                     uint64_t *ret_id, uint64_t *ret_hashes)
{
    struct crn_handout out = {0};
    struct crn_buf b = {0};
    struct crn_view v;
    uint32_t i, n;

    *ret = crn_engine_hand_out(w->engine, w->generation, a, &out, &b);
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

/* Before the leader fetches anything: 1 and 3 assist, 2 does not. What is 3's the other gets only with next to
 * nothing in hand. */
static void hand_out_by_turns(void *arg, const char *file, uint64_t generation)
{
    static const unsigned char hashes[8 * 64];
    struct crn_assistant one = {.owner = 1}, three = {.owner = 3};
    struct world *w = arg;
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
        crn_engine_handed_back(w->engine, generation, &one, ids[i - 1], hashes, 8 * n[i - 1]);
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
    crn_engine_cancel(w->engine, generation,
                      &(struct crn_errinfo){.code = CAIRN_ECANCELED, .msg = "it is enough"});
}

static void assistants_write_their_own(void **state)
{
    struct crn_fetcher fetcher = {.fetch = fetch, .opened = hand_out_by_turns};
    struct crn_errinfo ei = {0};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_store st;
    struct world w;

    (void)state;
    set_up(&w);
    open_store(&w, &st);
    w.engine = open_engine(BLOCKS, 2);
    w.assists[1] = w.assists[3] = 1;
    fetcher.assists = w.assists;
    fetcher.arg = &w;
    assert_int_equal(
        crn_engine_write(w.engine, &st, &w.head, w.sources, SHARDS, &fetcher, &mf, &stats, &ei),
        CAIRN_ECANCELED);
    test_nothing_left(&st, "many", 7);
    close_engines(&w);
    crn_store_close(&st);
    tear_down(&w);
}

/* A leader whose pool is empty, while it has data of its own and waits for a block for what nobody assists
 * with, which another node then takes: what is left is the assistants' and waits for its turn. */
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
    struct world *w = arg;
    enum crn_handing given = CRN_HANDED;
    uint64_t id, n;
    int i;

    (void)usleep(20000); /* by now the leader waits for a block, most likely */
    while (given == CRN_HANDED && crn_engine_wants_help(w->engine, w->generation) &&
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
    struct world *w = arg;

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
    crn_engine_cancel(w->engine, w->generation,
                      &(struct crn_errinfo){.code = CAIRN_ECANCELED, .msg = "it is enough"});
    deliver(w, wr, extents, order, block);
}

/* Writes of what nobody assists with, less those that are held. */
static void count_free(void *arg, const char *file, uint64_t generation)
{
    struct world *w = arg;
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
    struct world w;

    (void)state;
    assert_int_equal(sem_init(&go, 0, 0), 0);
    gated.pwrite = gated_pwrite;
    gated.map_write = NULL;
    set_up(&w);
    open_store(&w, &st);
    st.fs = &gated;
    w.engine = open_engine(BLOCKS, 1);
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
    tear_down(&w);
    (void)sem_destroy(&go);
}

/* A file that failed takes no late writes: its generation is over. */
static void late_words_do_nothing(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char none[8] = {0};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_handout out;
    struct crn_assistant a = {.owner = 1};
    struct crn_buf b = {0};
    struct crn_store st;
    struct world w;

    (void)state;
    set_up(&w);
    open_store(&w, &st);
    w.engine = open_engine(BLOCKS, 2);
    assert_ok(write_together(&w, &st, &mf, &stats, ei));
    compare(&w, &st, mf.name);
    assert_int_equal(stats.assisted_bytes, 0);
    assert_int_equal(crn_engine_hand_out(w.engine, w.generation, &a, &out, &b), CRN_HAND_NONE);
    crn_engine_handed_back(w.engine, w.generation, &a, 0, none, sizeof(none));
    crn_engine_assistant_left(w.engine, w.generation, &a, &(struct crn_view){0},
                              &(struct crn_errinfo){.code = CAIRN_EIO});
    crn_engine_cancel(w.engine, w.generation, &(struct crn_errinfo){.code = CAIRN_EIO});
    crn_manifest_file_free(&mf);
    assert_ok(write_together(&w, &st, &mf, &stats, ei));
    compare(&w, &st, mf.name);
    crn_manifest_file_free(&mf);
    close_engines(&w);
    crn_store_close(&st);
    tear_down(&w);
}

/* Whatever call of an assistant fails: the file fails with the reason, or the assistant had no part in
 * it; nothing is left, and both work again. */
static void a_failing_assistant_fails_the_file(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_fs_faulty faulty;
    struct crn_store st;
    struct world w;
    int failed = 0;
    long k;

    (void)state;
    set_up(&w);
    open_store(&w, &st);
    w.engine = open_engine(BLOCKS, 2);
    aide_open(&w, 1);
    for (k = 1;; k++) {
        cairn_err rc;

        crn_fs_faulty_init(&faulty, crn_fs_posix());
        faulty.fs.map_write = NULL; /* where that fails pwrite does it */
        faulty.at = k;
        faulty.sys_errno = EIO;
        w.aide[0].fs = &faulty.fs;
        w.is_slow = 1;
        crn_err_clear(ei);
        rc = write_together(&w, &st, &mf, &stats, ei);
        if (rc == CAIRN_OK) {
            compare(&w, &st, mf.name);
            crn_manifest_file_free(&mf);
            crn_err_clear(ei);
            assert_ok(crn_store_discard_data(&st, "many", 7, mf.name, ei));
        } else {
            failed++;
            assert_int_equal(rc, CAIRN_EIO);
            assert_true(strlen(ei->msg) > 10);
        }
        test_nothing_left(&st, "many", 7);
        if (atomic_load(&faulty.calls) < k)
            break;
    }
    assert_true(k > 20 && failed > 15);
    close_engines(&w);
    crn_store_close(&st);
    tear_down(&w);
}

/* One that was told to ask later, for what is left is that of a node that never comes: it fails at once all the
 * same, and does not wait for an answer. */
static void a_limited_assistant_fails_at_once(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_fs_faulty faulty;
    struct crn_store st;
    struct world w;
    int failed = 0;
    long k;

    (void)state;
    set_up(&w);
    open_store(&w, &st);
    w.engine = open_engine(BLOCKS, 2);
    aide_open(&w, 1);
    aide_open(&w, 3);
    w.assists[2] = 1;
    for (k = 1; k < 60; k++) {
        cairn_err rc;

        crn_fs_faulty_init(&faulty, crn_fs_posix());
        faulty.fs.map_write = NULL;
        faulty.ops = CRN_OP_WRITE;
        faulty.at = k;
        faulty.sys_errno = EIO;
        w.aide[0].fs = &faulty.fs;
        crn_err_clear(ei);
        rc = write_together(&w, &st, &mf, &stats, ei);
        assert_true(rc == CAIRN_OK || rc == CAIRN_EIO);
        failed += rc != CAIRN_OK;
        if (rc == CAIRN_OK) {
            compare(&w, &st, mf.name);
            crn_manifest_file_free(&mf);
        }
    }
    assert_true(failed > 0);
    close_engines(&w);
    crn_store_close(&st);
    tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_write_one_file),
        cmocka_unit_test(assistants_may_never_come),
        cmocka_unit_test(assistants_write_their_own),
        cmocka_unit_test(what_is_overtaken_waits_for_its_turn),
        cmocka_unit_test(late_words_do_nothing),
        cmocka_unit_test(a_failing_assistant_fails_the_file),
        cmocka_unit_test(a_limited_assistant_fails_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
