/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/test_assist.h"

void assist_set_up(struct assist_world *w)
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

void assist_tear_down(struct assist_world *w)
{
    int s;

    for (s = 0; s < SHARDS; s++)
        free(w->shard[s].image);
    test_dir_remove(w->dir);
}

struct crn_engine *assist_open_engine(uint64_t blocks, int writers)
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

void ask(void *arg, void *block)
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

    given = crn_assist_hand_out(a->w->engine, a->w->generation, &a->of_leader, &out, &b);
    if (given == CRN_HAND_NONE)
        crn_assist_no_errand(a->engine, block, NULL);
    if (given == CRN_HAND_LATER)
        crn_assist_errand_later(a->engine, block);
    if (given != CRN_HANDED)
        return;
    v = crn_view_of(b.data, b.len);
    n = crn_view_u32(&v);
    assert_ok(crn_errand_new(n, &x, ei));
    for (i = 0; i < n; i++) {
        struct crn_extent *e = &x->plan.extents[i];

        e->shard = crn_view_u32(&v); /* ranks are shard numbers here */
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
    crn_assist_errand(a->engine, x, a->w->everywhere, block, out.owner != a->owner, NULL);
}

cairn_err written(void *arg, const struct crn_errand *x, struct crn_errinfo *ei)
{
    struct aide *a = arg;
    struct crn_buf b = {0};
    uint64_t i;

    (void)ei;
    for (i = 0; i < x->plan.nhashes; i++)
        crn_buf_u64(&b, x->hashes[i]);
    crn_assist_handed_back(a->w->engine, a->w->generation, &a->of_leader, x->id, b.data, b.len);
    crn_buf_free(&b);
    return CAIRN_OK;
}

/* The last message to the leader, with the statistics. */
static void tell_end(struct aide *a, struct crn_flush_stats *s, const struct crn_errinfo *error)
{
    struct crn_errinfo ei = {0};
    struct crn_buf text = {0};
    struct crn_view v;

    if (s != NULL && crn_flush_stats_encode(s, &text, &ei) != CAIRN_OK)
        a->rc = ei.code;
    v = crn_view_of(text.data, text.len);
    crn_assist_left(a->w->engine, a->w->generation, &a->of_leader, &v, error);
    crn_buf_free(&text);
    if (s != NULL)
        crn_flush_stats_free(s);
}

void *assist(void *arg)
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
    a->rc = crn_assist_write(a->engine, &st, &a->w->head, a->w->file, &ops, &stats, &ei);
    a->bytes = a->rc == CAIRN_OK ? stats.bytes : 0;
    st.fs = crn_fs_posix();
    tell_end(a, a->rc == CAIRN_OK ? &stats : NULL, &ei);
    crn_store_close(&st);
    return NULL;
}

static void start_aides(struct assist_world *w)
{
    int i;

    for (i = 0; i < w->naides; i++)
        assert_int_equal(pthread_create(&w->aide[i].thread, NULL, assist, &w->aide[i]), 0);
}

void opened(void *arg, const char *file, uint64_t generation)
{
    struct assist_world *w = arg;

    (void)snprintf(w->file, sizeof(w->file), "%s", file);
    w->generation = generation;
    if (!w->is_slow)
        start_aides(w);
}

void deliver(struct assist_world *w, const struct crn_write *wr, const struct crn_extent *extents,
             const uint64_t *order, unsigned char *block)
{
    test_gather(w->shard, wr, extents, order, block);
    crn_engine_arrived(w->engine, wr, NULL);
}

void assert_nothing_else_to_do(struct crn_engine *e)
{
    crn_lock(&e->mu);
    assert_null(crn_task_seek_local(e->task));
    assert_true(e->task->outstanding + e->task->nready <= (size_t)e->started + 1);
    crn_unlock(&e->mu);
}

void fetch(void *arg, const struct crn_write *wr, const struct crn_extent *extents,
           const uint64_t *order, int is_older, void *block)
{
    struct assist_world *w = arg;
    int i;

    assert_false(is_older); /* encoded data has no assistants */
    if (w->assists[wr->owner])
        assert_nothing_else_to_do(w->engine);
    if (!w->is_slow) {
        deliver(w, wr, extents, order, block);
        return;
    }
    assert_int_equal(wr->owner, 2); /* the data of the others is left to them */
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

void aide_open(struct assist_world *w, uint32_t owner)
{
    struct aide *a = &w->aide[w->naides++];

    *a = (struct aide){
        .w = w, .owner = owner, .engine = assist_open_engine(AIDE_BLOCKS, 2), .fs = crn_fs_posix()};
    w->assists[owner] = owner != 0;
}

/* Sums what all assistants report to have written, from their concatenated texts. */
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

cairn_err write_together(struct assist_world *w, const struct crn_store *st,
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
    if (rc == CAIRN_OK) { /* the sums stay valid */
        struct crn_flush_stats all = *stats;

        w->told = sum_told(&stats->helpers);
        memset(&stats->helpers, 0, sizeof(stats->helpers));

        stats->writer = NULL;
        stats->peer = NULL;
        crn_flush_stats_free(&all);
    }
    return rc;
}

void compare(const struct assist_world *w, const struct crn_store *st, const char *file)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_index x;
    char path[400];

    assert_ok(crn_store_describe_data(st, "many", 7, file, &mf, &x, ei));
    (void)snprintf(path, sizeof(path), "%s/p/many/7/%s", w->dir, file);
    test_compare(w->shard, SHARDS, &x, path);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

void open_store(const struct assist_world *w, struct crn_store *st)
{
    struct crn_errinfo info = {0}, *ei = &info;
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/p", w->dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, st, ei));
}

void close_engines(struct assist_world *w)
{
    int i;

    for (i = 0; i < w->naides; i++) {
        assert_true(crn_engine_most_blocks(w->aide[i].engine) <= AIDE_BLOCKS);
        crn_engine_close(w->aide[i].engine);
    }
    crn_engine_close(w->engine);
}
