/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/test_tiers.h"

uint64_t data[N];

void set(uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        data[i] = value(version, i);
}

int is_set(uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        if (data[i] != value(version, i))
            return 0;
    return 1;
}

int is_persistent(cairn_session *s, int64_t version)
{
    int reached = 0;

    must(cairn_test(s, "t", version, CAIRN_PERSISTENT, &reached));
    return reached;
}

void killed_child(struct bed_bed *b, void (*body)(struct bed_bed *b))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        body(b); /* a failed assertion continues with the other tests and ends in an error */
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void in_child(void (*body)(struct bed_bed *b))
{
    struct bed_bed b = {0};

    test_dir_make(b.dir, sizeof(b.dir));
    killed_child(&b, body);
    test_dir_remove(b.dir);
}

void make_order(enum order order, int64_t *ret)
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

void world_open(struct tiers_world *w, int is_gpu)
{
    memset(w, 0, sizeof(*w));
    w->is_gpu = is_gpu;
    if (is_gpu)
        bed_open(&w->b);
    else
        test_dir_make(w->b.dir, sizeof(w->b.dir));
}

void world_close(struct tiers_world *w)
{
    if (w->is_gpu)
        bed_close(&w->b);
    else
        test_dir_remove(w->b.dir);
}

void world_protect(struct tiers_world *w, cairn_session *s)
{
    must(cairn_protect(s, "data", w->is_gpu ? w->b.gpu : data, CAIRN_U64, N));
}

void world_set(struct tiers_world *w, int64_t version)
{
    if (w->is_gpu)
        bed_fill(&w->b, (uint64_t)version);
    else
        set((uint64_t)version);
}

int world_is_set(struct tiers_world *w, int64_t version)
{
    return w->is_gpu ? holds(&w->b, (uint64_t)version) : is_set((uint64_t)version);
}

void take_all(struct tiers_world *w, cairn_session *s)
{
    int64_t v;

    for (v = 1; v <= VERSIONS; v++) {
        world_set(w, v);
        must(cairn_checkpoint(s, "t", v, NULL));
        world_set(w, 99);
    }
}

void read_all(struct tiers_world *w, cairn_session *s, const int64_t *order)
{
    int i;

    for (i = 0; i < VERSIONS; i++) {
        must(cairn_restore(s, "t", order[i], NULL));
        assert_true(world_is_set(w, order[i]));
        world_set(w, 99);
    }
}

void enqueue_all(cairn_session *s, const int64_t *order)
{
    int i;

    for (i = 0; i < VERSIONS; i++)
        must(cairn_prefetch_enqueue(s, "t", order[i]));
}

uint64_t prefetched(const cairn_session *s)
{
    struct crn_cache_stats stats;
    uint64_t sum = 0;
    int i;

    crn_cache_get_stats(s->tiers->cache, &stats);
    for (i = 0; i < CRN_TIERS_MAX; i++)
        sum += stats.prefetched_bytes[i];
    return sum;
}
