/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides when trials are made, which trial wins, and when a choice has become stale.
 *
 * A quick look first tells whether anything can be saved at all, so that noise costs almost
 * nothing. The trials estimate sizes from a sample; speeds are those measured so far. Pipelines
 * whose cost is close to the best then encode the whole chunk, as far as the CPU share allows.
 * The best result is kept, so only the time of the losers is wasted. A variable is tried again
 * when its chunks come out DRIFT larger or smaller than expected, and after AGAIN chunks, because what
 * is best may change while the size does not; a raw one after 1, 2, 4 and then every RAW_CHECK chunks. The share is one of the time that the bytes seen so far usually take, so
 * that it grows while chunks are stored raw, which takes no time. */
#include "encode/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "encode/chunk.h"
#include "encode/lorenzo.h"
#include "encode/trial.h"
#include "encode/work.h"

#define DEFAULT_SHARE 0.15
#define SPEED_NS      3.0   /* CRN_AIM_SPEED: the most that a saved byte may cost */
#define NOT_WORTH     0.985 /* saves too little to justify the decoding time */
#define RATIO_NS      0.005 /* CRN_AIM_RATIO: share of the bytes that one ns per byte is worth */
#define CLOSE         1.05  /* ratio of costs below which the whole chunk decides */
#define DRIFT         0.12
#define RAW_CHECK     8
#define AGAIN         256 /* chunks after which a choice is made again, whatever they saved */
#define GLANCE_MIN    ((size_t)64 << 10)
#define SAMPLE_MIN    ((uint64_t)16 << 10)
#define SAMPLE_MAX    ((uint64_t)32 << 10)
#define SAMPLE_PART   64  /* sample one byte in so many of those to come */
#define USUAL_NS      2.0 /* to encode a byte, for the budget */
#define CONTENDERS    4
#define SLOWER        1.5 /* a pipeline that turns out slower by this factor is chosen anew */

struct choose_entry {
    uint64_t key; /* hash; 0: empty */
    struct crn_pipe pipe;
    struct crn_as as;
    double share;
    uint32_t chunks;  /* since the choice */
    uint8_t width;    /* of the words */
    uint8_t is_stale; /* to be tried again */
    uint8_t is_fresh; /* the share is an estimate from a sample; the first chunk corrects it */
    uint8_t wait;     /* raw: chunks until the next look */
};

/* Speeds are recorded by last codec, or by the filter that does most of the work, and word width. */
#define FAMILIES 64

struct crn_chooser {
    struct crn_choose_options options;
    struct crn_chooser_stats stats;
    double ns[FAMILIES][4]; /* CPU time per byte */
    uint8_t is_measured[FAMILIES][4];
    size_t used;
    size_t size; /* a power of two */
    struct choose_entry *table;
};

static unsigned family_of(const struct crn_pipe *p)
{
    unsigned family = p->n > 0 ? p->stage[p->n - 1].id : crn_codec_raw.id;
    unsigned i;

    for (i = 0; i < p->n; i++)
        if (p->stage[i].id == crn_filter_bitshuffle.id || p->stage[i].id == crn_filter_shuffle.id ||
            (p->stage[i].id == crn_filter_lorenzo.id &&
             (p->stage[i].arg & CRN_LORENZO_VALUES) != 0))
            family = p->stage[i].id;
    return family % FAMILIES;
}

static unsigned column_of(unsigned width)
{
    return width == 8 ? 3 : width == 4 ? 2 : width == 2 ? 1 : 0;
}

static double speed_of(const struct crn_chooser *c, const struct crn_pipe *p, unsigned width)
{
    return c->ns[family_of(p)][column_of(width)];
}

/* Initial speeds, until there are measurements: those of a fast core. The first use of a pipeline
 * corrects a speed that is too high. A pipeline that seems too slow would never be used, nor corrected. */
static void speeds_init(struct crn_chooser *c)
{
    static const struct {
        const struct crn_codec *codec;
        double ns;     /* for words of 8 bytes */
        double narrow; /* added for each halving of the width */
    } usual[] = {{&crn_codec_raw, 0.1, 0},          {&crn_codec_magnitude, 0.35, 0.15},
                 {&crn_codec_planes, 0.4, 0.1},     {&crn_codec_zstd, 0.8, 0},
                 {&crn_codec_lz4, 0.15, 0},         {&crn_filter_bitshuffle, 0.5, 0},
                 {&crn_filter_shuffle, 0.35, 0.05}, {&crn_filter_lorenzo, 0.7, 0.3}};
    size_t i;
    int w;

    for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        for (w = 0; w < 4; w++)
            c->ns[usual[i].codec->id % FAMILIES][w] = usual[i].ns + usual[i].narrow * (3 - w);
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

cairn_err crn_chooser_open(const struct crn_choose_options *options, struct crn_chooser **ret,
                           struct crn_errinfo *ei)
{
    struct crn_chooser *c;

    if (options->aim == CRN_AIM_TIME && !(options->bandwidth > 0))
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "the least time needs the bandwidth of the file system");
    c = calloc(1, sizeof(*c));
    if (c != NULL)
        c->table = calloc(64, sizeof(*c->table));
    if (c == NULL || c->table == NULL) {
        free(c);
        return crn_fail(ei, CAIRN_ENOMEM, 0, "memory of choices");
    }
    c->size = 64;
    c->options = *options;
    if (!(c->options.cpu_share > 0))
        c->options.cpu_share = DEFAULT_SHARE;
    if (c->options.cpu_ns == NULL)
        c->options.cpu_ns = thread_cpu_ns;
    speeds_init(c);
    *ret = c;
    return CAIRN_OK;
}

void crn_chooser_close(struct crn_chooser *c)
{
    if (c == NULL)
        return;
    free(c->table);
    free(c);
}

void crn_chooser_stats(const struct crn_chooser *c, struct crn_chooser_stats *ret)
{
    *ret = c->stats;
}

int64_t crn_chooser_cpu_ns(const struct crn_chooser *c)
{
    return c->options.cpu_ns();
}

/* A variable with its older version available is a separate entry. */
static uint64_t hash_of(const char *key, const struct crn_data *data)
{
    uint64_t h = crn_hash(key, strlen(key)) + (data->previous != NULL);

    return h != 0 ? h : UINT64_MAX;
}

/* The entry of a key, or the free one where it belongs. */
static struct choose_entry *choose_find(struct choose_entry *table, size_t size, uint64_t key)
{
    size_t i = (size_t)key & (size - 1);

    while (table[i].key != 0 && table[i].key != key)
        i = (i + 1) & (size - 1);
    return &table[i];
}

static cairn_err choose_grow(struct crn_chooser *c, struct crn_errinfo *ei)
{
    struct choose_entry *larger = calloc(2 * c->size, sizeof(*larger));
    size_t i;

    if (larger == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "memory of choices");
    for (i = 0; i < c->size; i++)
        if (c->table[i].key != 0)
            *choose_find(larger, 2 * c->size, c->table[i].key) = c->table[i];
    free(c->table);
    c->table = larger;
    c->size *= 2;
    return CAIRN_OK;
}

/* A trial and its cost with respect to the aim. */
struct contender {
    struct crn_pipe pipe;
    struct crn_as as;
    double share;
    double ns;
    double cost;
};

/* The cost to minimise: bytes, time, or a mixture. Encoding and writing overlap, so the slower
 * of the two counts. A small share of the other breaks ties in favour of the cheaper pipeline. */
static double cost_of(const struct crn_chooser *c, double share, double ns)
{
    double write_ns;

    switch (c->options.aim) {
    case CRN_AIM_SPEED:
        return ns + SPEED_NS * share;
    case CRN_AIM_TIME:
        write_ns = share * 1e9 / c->options.bandwidth;
        return fmax(ns, write_ns) + 0.05 * fmin(ns, write_ns);
    default:
        return share * (1 + RATIO_NS * ns);
    }
}

/* Best first. Insertion sort, since there are few. */
static void choose_sort(struct contender *x, size_t n)
{
    size_t i;
    size_t k;

    for (i = 1; i < n; i++) {
        struct contender moved = x[i];

        for (k = i; k > 0 && moved.cost < x[k - 1].cost; k--)
            x[k] = x[k - 1];
        x[k] = moved;
    }
}

/* A chunk and what is known about it. */
struct question {
    struct crn_chooser *c;
    struct crn_encode_work *work;
    const struct crn_data *data;
    const unsigned char *src;
    size_t n;
    uint64_t ahead;
};

static unsigned width_as(const struct crn_data *data, struct crn_as as)
{
    return crn_word_of(as.stride > 0 ? as.type : data->type).width;
}

static cairn_err choose_estimate(const struct question *q, struct contender *x, size_t *ret_n,
                                 struct crn_errinfo *ei)
{
    uint64_t sample = q->ahead / SAMPLE_PART;
    struct crn_trial t[CRN_TRIALS_MAX];
    cairn_err rc;
    size_t i;

    sample = sample < SAMPLE_MIN ? SAMPLE_MIN : sample > SAMPLE_MAX ? SAMPLE_MAX : sample;
    rc = crn_trials(q->work, q->data, q->src, q->n, (size_t)sample, t, ret_n, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < *ret_n; i++) {
        x[i].pipe = t[i].pipe;
        x[i].as = t[i].as;
        x[i].share = t[i].share;
        x[i].ns = speed_of(q->c, &t[i].pipe, width_as(q->data, t[i].as));
        x[i].cost = cost_of(q->c, x[i].share, x[i].ns);
    }
    choose_sort(x, *ret_n);
    return CAIRN_OK;
}

/* Notes that n bytes took cpu_ns. Returns how much slower that is than was assumed, if this is the
 * first measurement; otherwise 1. */
static double learn_speed(struct crn_chooser *c, const struct crn_pipe *p, unsigned width, size_t n,
                          int64_t cpu_ns)
{
    double *ns = &c->ns[family_of(p)][column_of(width)];
    uint8_t *is_measured = &c->is_measured[family_of(p)][column_of(width)];
    double seen = (double)cpu_ns / (double)n;
    double assumed = *ns;

    if (n < GLANCE_MIN || p->n == 0) /* small chunks mostly measure set-up time */
        return 1;
    if (*is_measured) {
        *ns += 0.25 * (seen - *ns);
        return 1;
    }
    *is_measured = 1;
    *ns = seen;
    return seen / assumed;
}

/* Encodes the whole chunk, which is more accurate than a sample. */
static cairn_err choose_measure(const struct question *q, enum crn_slot slot, struct contender *x,
                                struct crn_choice *ret, struct crn_errinfo *ei)
{
    struct crn_data data;
    struct crn_run run;
    unsigned char *room;
    int64_t before = q->c->options.cpu_ns();
    cairn_err rc = crn_work_scratch(q->work, slot, q->n, &room, ei);

    if (rc != CAIRN_OK)
        return rc;
    crn_as_data(q->data, x->as, q->n, &run, &data);
    rc = crn_chunk_encode(q->work, &x->pipe, &data, q->src, q->n, room, &ret->encoded_n, NULL, ei);
    if (rc != CAIRN_OK)
        return rc;
    ret->pipe = x->pipe;
    ret->as = x->as;
    ret->encoded = room;
    ret->encoded_ns = q->c->options.cpu_ns() - before;
    x->ns = (double)ret->encoded_ns / (double)q->n;
    x->share = (double)ret->encoded_n / (double)q->n;
    x->cost = cost_of(q->c, x->share, x->ns);
    return CAIRN_OK;
}

static void choose_note(const struct question *q, const struct contender *x)
{
    (void)learn_speed(q->c, &x->pipe, width_as(q->data, x->as), q->n,
                      (int64_t)(x->ns * (double)q->n));
}

/* Takes sorted contenders. The first encodes the chunk in any case. So do those that promise about as
 * much as it has kept, until the budget is spent: a sample may have missed what the chunk holds. */
static cairn_err choose_settle(const struct question *q, struct contender *x, size_t n,
                               struct crn_choice *ret, struct crn_errinfo *ei)
{
    static const enum crn_slot slots[2] = {CRN_SLOT_RESULT_A, CRN_SLOT_RESULT_B};
    double budget = q->c->options.cpu_share * USUAL_NS * (double)q->ahead;
    struct contender best = x[0];
    size_t winner = 0;
    int slot = 0; /* the slot that does not hold the best result */
    size_t i;

    ret->pipe = x[0].pipe;
    ret->as = x[0].as;
    ret->share = x[0].share;
    for (i = 0; i < n && i < CONTENDERS && x[i].pipe.n > 0; i++) {
        struct crn_choice now = {0};
        cairn_err rc;

        if (i > 0 && (x[i].cost > best.cost * CLOSE || x[i].ns * (double)q->n > budget))
            break;
        rc = choose_measure(q, slots[slot], &x[i], &now, ei);
        if (rc != CAIRN_OK)
            return rc;
        budget -= i > 0 ? (double)now.encoded_ns : 0;
        if (i == 0 || x[i].cost < best.cost) {
            best = x[i];
            winner = i;
            *ret = now;
            ret->share = x[i].share;
            slot = !slot;
        }
        if (i > 0)
            choose_note(q, &x[i]);
    }
    if (winner > 0)
        choose_note(q, &x[0]); /* otherwise the caller tells what it took */
    return CAIRN_OK;
}

static cairn_err choose_decide(const struct question *q, struct crn_choice *ret,
                               struct crn_errinfo *ei)
{
    struct contender x[CRN_TRIALS_MAX] = {{.cost = 0}};
    int is_hopeless = 0;
    size_t n;
    cairn_err rc = CAIRN_OK;

    memset(ret, 0, sizeof(*ret));
    ret->share = 1;
    if (q->n >= GLANCE_MIN)
        rc = crn_trial_glance(q->work, q->data, q->src, q->n, &is_hopeless, ei);
    if (rc != CAIRN_OK || is_hopeless)
        return rc;
    rc = choose_estimate(q, x, &n, ei);
    if (rc == CAIRN_OK)
        rc = choose_settle(q, x, n, ret, ei);
    if (rc == CAIRN_OK && ret->share > NOT_WORTH) {
        memset(ret, 0, sizeof(*ret));
        ret->share = 1;
    }
    return rc;
}

/* May trials be made again now? The first trial of a variable always may. */
static int within_budget(const struct crn_chooser *c)
{
    return (double)c->stats.trial_ns <= c->options.cpu_share * USUAL_NS * (double)c->stats.bytes;
}

static cairn_err make_choice(const struct question *q, struct choose_entry *e,
                             struct crn_choice *ret, struct crn_errinfo *ei)
{
    struct crn_chooser *c = q->c;
    int64_t before = c->options.cpu_ns();
    cairn_err rc = choose_decide(q, ret, ei);

    if (rc != CAIRN_OK)
        return rc;
    c->stats.trial_ns += c->options.cpu_ns() - before - ret->encoded_ns;
    c->stats.choices++;
    e->pipe = ret->pipe;
    e->as = ret->as;
    e->share = ret->share;
    e->width = (uint8_t)width_as(q->data, e->as);
    e->chunks = 0;
    e->is_stale = 0;
    e->is_fresh = 1;
    if (e->pipe.n > 0 || e->wait == 0)
        e->wait = 1;
    else if (e->wait < RAW_CHECK)
        e->wait *= 2;
    return CAIRN_OK;
}

cairn_err crn_choose(struct crn_chooser *c, struct crn_encode_work *w, const char *key,
                     const struct crn_data *data, const void *src, size_t n, uint64_t ahead,
                     struct crn_choice *ret, struct crn_errinfo *ei)
{
    struct question q = {
        .c = c, .work = w, .data = data, .src = src, .n = n, .ahead = ahead > n ? ahead : n};
    uint64_t hash = hash_of(key, data);
    struct choose_entry *e;
    struct crn_data taken;
    struct crn_run run;
    cairn_err rc = CAIRN_OK;

    if (2 * (c->used + 1) > c->size)
        rc = choose_grow(c, ei);
    if (rc != CAIRN_OK)
        return rc;
    e = choose_find(c->table, c->size, hash);
    /* A chunk that the remembered pipeline cannot encode needs another one. */
    crn_as_data(data, e->as, n, &run, &taken);
    if (e->key == 0 || (e->is_stale && within_budget(c)) || !crn_pipe_fits(&e->pipe, &taken)) {
        rc = make_choice(&q, e, ret, ei);
        if (rc == CAIRN_OK && e->key == 0) {
            e->key = hash;
            c->used++;
        }
        return rc;
    }
    memset(ret, 0, sizeof(*ret));
    ret->pipe = e->pipe;
    ret->as = e->as;
    ret->share = e->share;
    return CAIRN_OK;
}

void crn_choose_learn(struct crn_chooser *c, const char *key, const struct crn_data *data, size_t n,
                      size_t encoded, int64_t cpu_ns)
{
    struct choose_entry *e = choose_find(c->table, c->size, hash_of(key, data));
    double share;

    c->stats.encode_ns += cpu_ns;
    c->stats.bytes += n;
    if (e->key == 0 || n == 0)
        return;
    share = (double)encoded / (double)n;
    e->chunks++;
    if (learn_speed(c, &e->pipe, e->width, n, cpu_ns) > SLOWER && c->options.aim != CRN_AIM_RATIO)
        e->is_stale = 1;
    if (e->pipe.n == 0) {
        e->is_stale = e->chunks >= e->wait;
        return;
    }
    if (e->is_fresh) {
        e->share = share;
        e->is_fresh = 0;
        return;
    }
    if (fabs(share / e->share - 1) > DRIFT) {
        c->stats.drifts += !e->is_stale;
        e->is_stale = 1;
    }
    if (e->chunks >= AGAIN)
        e->is_stale = 1;
    e->share += 0.125 * (share - e->share);
}

void crn_chooser_bandwidth(struct crn_chooser *c, double bandwidth)
{
    c->options.bandwidth = bandwidth;
}
