/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of a chunk, for trials. Their residuals are those that they have inside the whole
 * chunk: the predictor takes its history from the chunk, so a small sample is representative. */
#ifndef CRN_SAMPLE_H
#define CRN_SAMPLE_H

#include "encode/codec.h"

#define CRN_SAMPLE_PIECES 4
#define CRN_SAMPLE_ROOM   8

struct crn_sample {
    const struct crn_data *data;
    const unsigned char *src;
    struct crn_word word;
    unsigned npieces;
    struct {
        size_t begin; /* in words */
        size_t words;
        size_t run_begin; /* of the run that contains it, in words */
        size_t stride[CRN_STRIDES];
    } piece[CRN_SAMPLE_PIECES];
    size_t words; /* of all pieces */
};

/* Chooses up to CRN_SAMPLE_PIECES samples spread over the n bytes of a chunk, about `bytes` in
 * all. src and data must outlive s. */
void crn_sample_init(struct crn_sample *s, const struct crn_data *data, const void *src, size_t n,
                     size_t bytes);
/* Copies the sampled words, one sample after the other. */
void crn_sample_words(const struct crn_sample *s, unsigned char *dst);
/* The output of the Lorenzo filter with this argument for the samples. tmp has CRN_SAMPLE_ROOM times
 * the size of dst. */
void crn_sample_residuals(const struct crn_sample *s, unsigned arg, unsigned char *dst,
                          unsigned char *tmp);
/* Does one of the samples have this dimension, stride k of its run? */
int crn_sample_has_stride(const struct crn_sample *s, int k);
/* Does one of the samples have rows of fewer words than this? */
int crn_sample_has_short_rows(const struct crn_sample *s, size_t words);

/* The magnitudes of n words as the codec computes them; returns the number of bits below them.
 * count gets the frequency of each. */
uint64_t crn_sample_magnitudes(const unsigned char *words, size_t n, unsigned width,
                               unsigned char *magnitudes, uint32_t count[256]);

#endif
