/* SPDX-License-Identifier: BSD-3-Clause */
/* How a sample is judged. Predictors are compared by what the magnitude codec would need for
 * their residuals, which takes only counting. Then the numeric codecs are estimated plane by
 * plane, for the best predictor and for the numbers themselves; the byte codecs are run. All see
 * the same samples, since a chunk may be smooth in one place and rough in another. */
#include "encode/trial.h"

#include <string.h>
#include "encode/entropy.h"
#include "encode/lorenzo.h"
#include "encode/plane.h"
#include "encode/sample.h"
#include "encode/transpose.h"
#include "encode/work.h"

#define GLANCE_BYTES ((size_t)8 << 10)
#define LEVEL        1 /* of zstd */
#define HOPELESS     0.98
#define PREDICTORS   8
#define SMOOTH       0.97  /* first differences leave less than that: try second ones */
#define SIMPLER      0.995 /* a predictor with more terms must gain this much */
#define FASTER       0.982 /* and the prediction of values, which decodes more slowly, this much */
#define SHORT_ROW    6     /* words; shorter rows decode even more slowly */

/* A sample and space for its residuals, in one slot. */
struct bench {
    struct crn_encode_work *work;
    struct crn_sample sample;
    unsigned char *words;
    unsigned char *residuals;
    unsigned char *planes;
    unsigned char *tmp; /* CRN_SAMPLE_ROOM times the size */
    size_t bytes;
};

static cairn_err bench_init(struct bench *b, struct crn_encode_work *w, const struct crn_data *data,
                            const void *src, size_t n, size_t want, struct crn_errinfo *ei)
{
    cairn_err rc;

    memset(b, 0, sizeof(*b));
    b->work = w;
    crn_sample_init(&b->sample, data, src, n, want);
    b->bytes = b->sample.words * b->sample.word.width;
    rc = crn_work_scratch(w, CRN_SLOT_SAMPLE, (3 + CRN_SAMPLE_ROOM) * b->bytes, &b->words, ei);
    if (rc != CAIRN_OK)
        return rc;
    b->residuals = b->words + b->bytes;
    b->planes = b->residuals + b->bytes;
    b->tmp = b->planes + b->bytes;
    crn_sample_words(&b->sample, b->words);
    return CAIRN_OK;
}

/* The arguments of the Lorenzo filter that make sense for the sample, simple ones first. */
static size_t trial_predictors(const struct bench *b, unsigned ret[PREDICTORS])
{
    int has_rows = crn_sample_has_stride(&b->sample, 1);
    int has_planes = crn_sample_has_stride(&b->sample, 2);
    unsigned base = b->sample.data->previous != NULL ? CRN_LORENZO_PREVIOUS : 0;
    size_t n = 0;

    ret[n++] = CRN_LORENZO_ROW;
    if (base != 0) {
        ret[n++] = base;
        ret[n++] = base | CRN_LORENZO_ROW;
    }
    if (has_rows) {
        ret[n++] = CRN_LORENZO_COLUMN;
        ret[n++] = CRN_LORENZO_ROW | CRN_LORENZO_COLUMN;
    }
    if (has_rows && base != 0)
        ret[n++] = base | CRN_LORENZO_ROW | CRN_LORENZO_COLUMN;
    if (has_planes)
        ret[n++] = CRN_LORENZO_ROW | CRN_LORENZO_COLUMN | CRN_LORENZO_PLANE;
    return n;
}

/* Second differences, for numbers that first differences predict well. */
static size_t trial_smoother(const struct bench *b, unsigned best, unsigned ret[PREDICTORS])
{
    size_t n = 0;

    ret[n++] = CRN_LORENZO_TWICE | CRN_LORENZO_ROW;
    if (crn_sample_has_stride(&b->sample, 1)) {
        ret[n++] = CRN_LORENZO_TWICE | CRN_LORENZO_COLUMN;
        ret[n++] = CRN_LORENZO_TWICE | CRN_LORENZO_ROW | CRN_LORENZO_COLUMN;
    }
    if ((best & CRN_LORENZO_PLANE) != 0)
        ret[n++] = CRN_LORENZO_TWICE | best;
    return n;
}

/* Bytes that the residuals in b take as magnitudes with an ideal code. */
static double ideal_bytes(struct bench *b)
{
    uint32_t count[256];
    uint64_t bits = crn_sample_magnitudes(b->residuals, b->sample.words, b->sample.word.width,
                                          b->planes, count);

    return ((double)bits + crn_entropy_bits(count, b->sample.words)) / 8;
}

/* Differences of the floating-point values, in all dimensions. */
static size_t trial_values(const struct bench *b, unsigned ret[PREDICTORS])
{
    unsigned all = CRN_LORENZO_VALUES | CRN_LORENZO_ROW;
    size_t n = 0;

    if (!b->sample.word.is_float || crn_sample_has_short_rows(&b->sample, SHORT_ROW))
        return 0;
    if (crn_sample_has_stride(&b->sample, 1))
        all |= CRN_LORENZO_COLUMN;
    if (crn_sample_has_stride(&b->sample, 2))
        all |= CRN_LORENZO_PLANE;
    ret[n++] = all | CRN_LORENZO_TWICE;
    if (all != (CRN_LORENZO_VALUES | CRN_LORENZO_ROW)) /* as the integers in one dimension */
        ret[n++] = all;
    return n;
}

struct search {
    unsigned best;
    unsigned last; /* whose residuals are in b->residuals */
    double least;
};

static void search_among(struct bench *b, struct search *s, const unsigned *args, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        int is_slower = (args[i] & CRN_LORENZO_VALUES) != 0 && (s->best & CRN_LORENZO_VALUES) == 0;
        double gain = is_slower ? FASTER : SIMPLER;
        double bytes;

        crn_sample_residuals(&b->sample, args[i], b->residuals, b->tmp);
        s->last = args[i];
        bytes = ideal_bytes(b);
        if (bytes < s->least * gain) {
            s->least = bytes;
            s->best = args[i];
        }
    }
}

/* The best of the first `most` predictors; leaves its residuals in b->residuals. */
static unsigned best_predictor(struct bench *b, size_t most, double *ret_bytes)
{
    struct search s = {.least = 2.0 * (double)b->bytes};
    unsigned args[PREDICTORS];
    size_t n = trial_predictors(b, args);

    s.best = args[0];
    search_among(b, &s, args, n < most ? n : most);
    if (n <= most && s.least < SMOOTH * (double)b->bytes) {
        search_among(b, &s, args, trial_smoother(b, s.best, args));
        search_among(b, &s, args, trial_values(b, args));
    }
    if (s.last != s.best)
        crn_sample_residuals(&b->sample, s.best, b->residuals, b->tmp);
    *ret_bytes = s.least;
    return s.best;
}

static cairn_err estimate_planes(struct bench *b, const unsigned char *words, double *ret,
                                 struct crn_errinfo *ei)
{
    size_t n = b->sample.words;
    double sum = 0;
    unsigned p;

    crn_transpose_planes_split(b->planes, words, n, b->sample.word.width);
    for (p = 0; p < b->sample.word.width; p++) {
        double bytes;
        cairn_err rc = crn_plane_estimate(b->work, LEVEL, b->planes + p * n, n, &bytes, ei);

        if (rc != CAIRN_OK)
            return rc;
        sum += bytes;
    }
    *ret = sum;
    return CAIRN_OK;
}

static cairn_err estimate_magnitude(struct bench *b, double *ret, struct crn_errinfo *ei)
{
    uint32_t count[256];
    uint64_t bits = crn_sample_magnitudes(b->residuals, b->sample.words, b->sample.word.width,
                                          b->planes, count);
    cairn_err rc = crn_plane_estimate(b->work, LEVEL, b->planes, b->sample.words, ret, ei);

    if (rc == CAIRN_OK)
        *ret += (double)bits / 8;
    return rc;
}

/* The trials collected so far. */
struct trial_list {
    struct crn_trial *t;
    size_t n;
    /* The next ones are tried on the bytes taken as numbers: by the stages before the predictor. */
    int is_swapped;
    unsigned rotate;
    struct crn_as as;
};

static void trial_push(struct crn_pipe *p, const struct crn_codec *c, unsigned arg)
{
    p->stage[p->n].id = c->id;
    p->stage[p->n++].arg = (uint8_t)arg;
}

/* predictor: 0 for none. */
static void trial_add(struct trial_list *l, unsigned predictor, const struct crn_codec *c,
                      unsigned arg, double share)
{
    struct crn_trial *t = &l->t[l->n++];

    memset(t, 0, sizeof(*t));
    t->as = l->as;
    if (l->rotate > 0)
        trial_push(&t->pipe, &crn_filter_rotate, l->rotate);
    if (l->is_swapped)
        trial_push(&t->pipe, &crn_filter_swap, 0);
    if (predictor != 0)
        trial_push(&t->pipe, &crn_filter_lorenzo, predictor);
    trial_push(&t->pipe, c, arg);
    t->share = share;
}

/* Codecs after the best predictor, and planes without one. */
static cairn_err try_numbers(struct bench *b, struct trial_list *l, struct crn_errinfo *ei)
{
    double bytes;
    unsigned arg = best_predictor(b, SIZE_MAX, &bytes);
    cairn_err rc = CAIRN_OK;

    if (crn_codec_magnitude.fits(b->sample.data)) {
        rc = estimate_magnitude(b, &bytes, ei);
        if (rc != CAIRN_OK)
            return rc;
        trial_add(l, arg, &crn_codec_magnitude, LEVEL, bytes / (double)b->bytes);
    }
    rc = estimate_planes(b, b->residuals, &bytes, ei);
    if (rc != CAIRN_OK)
        return rc;
    trial_add(l, arg, &crn_codec_planes, LEVEL, bytes / (double)b->bytes);
    if (l->is_swapped)
        return CAIRN_OK; /* the same planes in another order */
    rc = estimate_planes(b, b->words, &bytes, ei);
    if (rc == CAIRN_OK)
        trial_add(l, 0, &crn_codec_planes, LEVEL, bytes / (double)b->bytes);
    return rc;
}

static cairn_err try_bytes(struct crn_encode_work *w, const struct crn_data *data,
                           const unsigned char *src, size_t n, const struct crn_codec *c,
                           double *ret, struct crn_errinfo *ei)
{
    struct crn_stage_task t = {.work = w,
                               .data = data,
                               .arg = c->arg_default,
                               .src = src,
                               .src_n = n,
                               .dst_n = c->bound(n)};
    size_t size;
    cairn_err rc = crn_work_scratch(w, CRN_SLOT_TRIAL, t.dst_n, &t.dst, ei);

    if (rc == CAIRN_OK)
        rc = c->encode(&t, &size, ei);
    if (rc == CAIRN_OK)
        *ret = (double)size / (double)n;
    return rc;
}

/* Bytes or bits of equal weight side by side, for lz4: little gain for little time. */
static cairn_err try_fast(struct bench *b, const struct crn_codec *filter, struct trial_list *l,
                          struct crn_errinfo *ei)
{
    struct crn_stage_task t = {.work = b->work,
                               .data = b->sample.data,
                               .src = b->words,
                               .src_n = b->bytes,
                               .dst = b->tmp,
                               .dst_n = b->bytes};
    double share;
    size_t n;
    cairn_err rc;

    if (crn_codec_lz4.encode == NULL)
        return CAIRN_OK;
    rc = filter->encode(&t, &n, ei);
    if (rc == CAIRN_OK)
        rc = try_bytes(b->work, b->sample.data, b->tmp, n, &crn_codec_lz4, &share, ei);
    if (rc != CAIRN_OK)
        return rc;
    trial_add(l, 0, &crn_codec_lz4, crn_codec_lz4.arg_default, share);
    l->t[l->n - 1].pipe = (struct crn_pipe){
        .n = 2, .stage = {{filter->id, 0}, {crn_codec_lz4.id, crn_codec_lz4.arg_default}}};
    return CAIRN_OK;
}

/* Unsigned integers may be numbers of a big-endian file, so they are tried in the other byte
 * order, too. */
static cairn_err try_swapped(struct crn_encode_work *w, const struct crn_data *data,
                             const void *src, size_t n, size_t bytes, struct trial_list *l,
                             struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(data->type).width;
    struct crn_data other = *data;
    unsigned char *swapped;
    struct bench b;
    cairn_err rc;

    if (data->type != CAIRN_U16 && data->type != CAIRN_U32 && data->type != CAIRN_U64)
        return CAIRN_OK;
    other.previous = NULL; /* it is not swapped */
    rc = crn_work_scratch(w, CRN_SLOT_SWAPPED, n, &swapped, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_filter_swap_words(swapped, src, n / width, width);
    rc = bench_init(&b, w, &other, swapped, n / width * width, bytes, ei);
    l->is_swapped = 1;
    if (rc == CAIRN_OK && b.sample.words > 1)
        rc = try_numbers(&b, l, ei);
    return rc;
}

/* Bytes of no type may be records of numbers. */
static cairn_err try_guess(struct crn_encode_work *w, const struct crn_data *data,
                           const unsigned char *src, size_t n, size_t bytes, struct trial_list *l,
                           struct crn_errinfo *ei)
{
    struct crn_guess guess;
    struct crn_data other;
    struct crn_run run;
    unsigned char *swapped;
    struct bench b;
    int is_found = 0;
    cairn_err rc = CAIRN_OK;

    if (data->type == CAIRN_BYTES && data->previous == NULL)
        rc = crn_guess(w, src, n, &is_found, &guess, ei);
    if (rc != CAIRN_OK || !is_found)
        return rc;
    crn_as_data(data, guess.as, n, &run, &other);
    src += guess.rotate;
    n -= guess.rotate;
    if (guess.is_swapped) {
        unsigned width = crn_word_of(other.type).width;

        rc = crn_work_scratch(w, CRN_SLOT_SWAPPED, n, &swapped, ei);
        if (rc != CAIRN_OK)
            return rc;
        crn_filter_swap_words(swapped, src, n / width, width);
        src = swapped;
        n = n / width * width;
    }
    rc = bench_init(&b, w, &other, src, n, bytes, ei);
    l->rotate = guess.rotate;
    l->is_swapped = guess.is_swapped;
    l->as = guess.as;
    if (rc == CAIRN_OK && b.sample.words > 1)
        rc = try_numbers(&b, l, ei);
    return rc;
}

cairn_err crn_trials(struct crn_encode_work *w, const struct crn_data *data, const void *src,
                     size_t n, size_t bytes, struct crn_trial ret[CRN_TRIALS_MAX], size_t *ret_n,
                     struct crn_errinfo *ei)
{
    static const struct crn_codec *const codecs[] = {&crn_codec_zstd, &crn_codec_lz4};
    struct trial_list l = {.t = ret};
    struct bench b;
    double share;
    size_t i;
    cairn_err rc = bench_init(&b, w, data, src, n, bytes, ei);

    trial_add(&l, 0, &crn_codec_raw, 0, 1);
    l.t[0].pipe.n = 0;
    if (rc == CAIRN_OK && b.sample.words > 1)
        rc = try_numbers(&b, &l, ei);
    if (rc == CAIRN_OK && b.sample.word.width > 1 && b.sample.words >= 8)
        rc = try_fast(&b, &crn_filter_bitshuffle, &l, ei);
    if (rc == CAIRN_OK && b.sample.word.width > 1)
        rc = try_fast(&b, &crn_filter_shuffle, &l, ei);
    for (i = 0; i < 2 && rc == CAIRN_OK && b.bytes > 0; i++) {
        if (codecs[i]->encode == NULL)
            continue;
        rc = try_bytes(w, data, b.words, b.bytes, codecs[i], &share, ei);
        if (rc == CAIRN_OK)
            trial_add(&l, 0, codecs[i], codecs[i]->arg_default, share);
    }
    if (rc == CAIRN_OK)
        rc = try_swapped(w, data, src, n, bytes, &l, ei);
    if (rc == CAIRN_OK)
        rc = try_guess(w, data, src, n, bytes, &l, ei);
    *ret_n = l.n;
    return rc;
}

/* The entropy of the words' planes, relative to their size. */
static double plane_entropy(struct bench *b)
{
    size_t n = b->sample.words;
    double bits = 0;
    unsigned p;

    crn_transpose_planes_split(b->planes, b->words, n, b->sample.word.width);
    for (p = 0; p < b->sample.word.width; p++) {
        uint32_t count[256];

        crn_entropy_histogram(b->planes + p * n, n, count);
        bits += crn_entropy_bits(count, n);
    }
    return bits / (8.0 * (double)b->bytes);
}

cairn_err crn_trial_glance(struct crn_encode_work *w, const struct crn_data *data, const void *src,
                           size_t n, int *ret_is_hopeless, struct crn_errinfo *ei)
{
    size_t piece = n < 2 * GLANCE_BYTES ? n : 2 * GLANCE_BYTES;
    const unsigned char *middle = (const unsigned char *)src + (n - piece) / 2;
    struct bench b;
    double share;
    cairn_err rc = bench_init(&b, w, data, src, n, GLANCE_BYTES, ei);

    *ret_is_hopeless = 0;
    if (rc != CAIRN_OK || b.sample.words < GLANCE_BYTES / 16)
        return rc;
    (void)best_predictor(&b, 2, &share);
    /* With few samples in many bins, the entropy is underestimated by 255 / (2 n ln 2) bits. */
    if (share / (double)b.bytes < HOPELESS ||
        plane_entropy(&b) + 255 / (16 * 0.693 * (double)b.sample.words) < HOPELESS)
        return CAIRN_OK;
    if (crn_codec_lz4.encode != NULL) {
        rc = try_bytes(w, data, middle, piece, &crn_codec_lz4, &share, ei);
        if (rc != CAIRN_OK || share < HOPELESS)
            return rc;
    }
    *ret_is_hopeless = 1;
    return CAIRN_OK;
}
