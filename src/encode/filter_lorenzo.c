/* SPDX-License-Identifier: BSD-3-Clause */
/* The Lorenzo predictor: a number is predicted from its neighbours that precede it in every
 * dimension (the corner of a cube from the seven others). On integers that is a difference along
 * each dimension in turn, exact and modulo 2^bits, so every bit pattern survives, NaN payloads
 * included. Rows are not separated: the predecessor of a row's first element is the last of the
 * previous row, which costs little and keeps the loops simple. Every run starts from zeros.
 *
 * Argument: the sum of 1 (along rows), 2 (across rows), 4 (across planes), 8 (minus the older
 * version), 16 (each difference twice, which suits smooth numbers), 32 (of floating-point values:
 * lorenzo_values.c). The residuals come out folded: 0, -1, 1, -2, ... become 0, 1, 2, 3, ... */
#include "encode/lorenzo.h"

#include <string.h>
#include "encode/lorenzo_values.h"
#include "encode/words.h"
#include "encode/work.h"

/* One run, in units of words. */
struct filter_lorenzo_run {
    unsigned width;
    int is_float;
    int is_twice;
    size_t words;
    unsigned nstrides;
    size_t stride[2 * CRN_STRIDES]; /* each below words */
};

/* Prepares the numbers for the differences: maps them to ordered integers, minus those of the
 * older version. */
static void filter_lorenzo_take(const struct filter_lorenzo_run *r, void *dst, const void *src,
                                const void *previous, void *tmp)
{
    if (!r->is_float) {
        memcpy(dst, src, r->words * r->width);
        if (previous != NULL)
            crn_words_subtract(r->width, dst, previous, r->words);
        return;
    }
    crn_words_order(r->width, dst, src, r->words);
    if (previous != NULL) {
        crn_words_order(r->width, tmp, previous, r->words);
        crn_words_subtract(r->width, dst, tmp, r->words);
    }
}

/* Alternates between dst and tmp so that the last step ends in dst. */
static void lorenzo_forward(const struct filter_lorenzo_run *r, void *dst, const void *src,
                            const void *previous, void *tmp)
{
    void *from = r->nstrides > 0 && r->nstrides % 2 == 0 ? dst : tmp;
    void *to = from == dst ? tmp : dst;
    unsigned k;

    filter_lorenzo_take(r, from, src, previous, to);
    for (k = 0; k + 1 < r->nstrides; k++) {
        void *swap = from;

        crn_words_difference(r->width, to, from, r->words, r->stride[k]);
        from = to;
        to = swap;
    }
    crn_words_fold(r->width, to, from, r->words, r->nstrides > 0 ? r->stride[k] : r->words);
}

/* The sums may be taken in any order: the first while unfolding, the last while mapping back. */
static void lorenzo_inverse(const struct filter_lorenzo_run *r, void *dst, const void *src,
                            const void *previous, void *tmp)
{
    size_t last = r->nstrides > 1 ? r->stride[r->nstrides - 1] : r->words;
    unsigned k;

    crn_words_unfold(r->width, dst, src, r->words, r->nstrides > 0 ? r->stride[0] : r->words);
    for (k = 1; k + 1 < r->nstrides; k++)
        crn_words_sum(r->width, dst, r->words, r->stride[k]);
    if (r->is_float && previous == NULL) {
        crn_words_sum_reorder(r->width, dst, r->words, last);
        return;
    }
    crn_words_sum(r->width, dst, r->words, last);
    if (previous != NULL && r->is_float) {
        crn_words_order(r->width, tmp, previous, r->words);
        previous = tmp;
    }
    if (previous != NULL)
        crn_words_add(r->width, dst, previous, r->words);
    if (r->is_float)
        crn_words_reorder(r->width, dst, r->words);
}

/* The i-th run; elements that no run covers form one more, of one dimension. Strides longer than
 * the run have no effect. */
static struct filter_lorenzo_run nth_run(const struct crn_stage_task *t, size_t i,
                                         size_t words_left)
{
    static const struct crn_run rest = {.stride = {1, 0, 0}};
    struct crn_word word = crn_word_of(t->data->type);
    const struct crn_run *in = i < t->data->nruns ? &t->data->runs[i] : &rest;
    struct filter_lorenzo_run r = {.width = word.width,
                                   .is_float = word.is_float,
                                   .is_twice = (t->arg & CRN_LORENZO_TWICE) != 0,
                                   .words = words_left};
    int k;

    if (i < t->data->nruns && in->elements < words_left / word.count)
        r.words = (size_t)in->elements * word.count;
    for (k = 0; k < CRN_STRIDES; k++) {
        size_t stride = (size_t)in->stride[k] * word.count;

        if ((t->arg >> k & 1) == 0 || stride == 0 || stride >= r.words)
            continue;
        r.stride[r.nstrides++] = stride;
        if (r.is_twice)
            r.stride[r.nstrides++] = stride;
    }
    return r;
}

/* The strides of a run for the prediction of values. */
static struct crn_values values_of(const struct filter_lorenzo_run *r)
{
    struct crn_values v = {.is_twice = r->is_twice};
    unsigned step = r->is_twice ? 2 : 1;
    unsigned k;

    for (k = r->nstrides; k > 0; k -= step)
        v.stride[v.n++] = r->stride[k - 1];
    return v;
}

static void values_forward(const struct filter_lorenzo_run *r, void *dst, const void *src,
                           const void *previous, void *tmp)
{
    struct crn_values v = values_of(r);

    if (v.n > 0)
        crn_lorenzo_values_encode(&v, r->width, src, r->words, dst, tmp);
    else
        lorenzo_forward(r, dst, src, previous, tmp);
}

static void values_inverse(const struct filter_lorenzo_run *r, void *dst, const void *src,
                           const void *previous, void *tmp)
{
    struct crn_values v = values_of(r);

    if (v.n > 0)
        crn_lorenzo_values_decode(&v, r->width, src, r->words, dst, tmp);
    else
        lorenzo_inverse(r, dst, src, previous, tmp);
}

typedef void direction(const struct filter_lorenzo_run *r, void *dst, const void *src,
                       const void *previous, void *tmp);

static cairn_err each_run(const struct crn_stage_task *t, direction *go, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;
    const unsigned char *previous = t->data->previous;
    size_t room = go == values_forward || go == values_inverse ? 2 * t->src_n : t->src_n;
    unsigned char *tmp;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, room, &tmp, ei);
    size_t at = 0;
    size_t i;

    if (rc != CAIRN_OK)
        return rc;
    if ((t->arg & CRN_LORENZO_PREVIOUS) == 0)
        previous = NULL;
    else if (previous == NULL)
        return crn_fail(ei, CAIRN_ESTATE, 0, "a chunk needs the version it was encoded against");
    for (i = 0; at < words; i++) {
        struct filter_lorenzo_run r = nth_run(t, i, words - at);

        go(&r, t->dst + at * width, t->src + at * width,
           previous != NULL ? previous + at * width : NULL, tmp);
        at += r.words;
    }
    memcpy(t->dst + words * width, t->src + words * width, t->src_n - words * width);
    return CAIRN_OK;
}

static size_t filter_lorenzo_bound(size_t n)
{
    return n;
}

/* Integers predict in all other cases: two versions are not predicted from each other's values, and a
 * codec before this stage may have enlarged a chunk beyond what there is memory for. */
static int has_values(const struct crn_stage_task *t)
{
    return (t->arg & CRN_LORENZO_VALUES) != 0 && (t->arg & CRN_LORENZO_PREVIOUS) == 0 &&
           crn_word_of(t->data->type).is_float && t->src_n <= CRN_CHUNK_MAX_BYTES;
}

static cairn_err filter_lorenzo_encode(const struct crn_stage_task *t, size_t *ret_n,
                                       struct crn_errinfo *ei)
{
    *ret_n = t->src_n;
    return each_run(t, has_values(t) ? values_forward : lorenzo_forward, ei);
}

static cairn_err filter_lorenzo_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    return each_run(t, has_values(t) ? values_inverse : lorenzo_inverse, ei);
}

const struct crn_codec crn_filter_lorenzo = {
    .id = 36,
    .name = "lorenzo",
    .kind = CRN_STAGE_FILTER,
    .arg_max = 63,
    .arg_default = CRN_LORENZO_ROW,
    .bound = filter_lorenzo_bound,
    .encode = filter_lorenzo_encode,
    .decode = filter_lorenzo_decode,
};
