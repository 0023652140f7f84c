/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of a chunk, for trials. Residuals of a piece are those that it has inside the whole chunk: the
 * history of a predictor is taken from where it lies, so that a small sample is a true one. */
#ifndef CRN_SAMPLE_H
#define CRN_SAMPLE_H

#include "encode/codec.h"

#define CRN_SAMPLE_PIECES 4

struct crn_sample {
    const struct crn_data *data;
    const unsigned char *src;
    struct crn_word word;
    unsigned npieces;
    struct {
        size_t begin; /* in words */
        size_t words;
        size_t run_begin; /* of the run that it lies in, in words */
        size_t stride[CRN_STRIDES];
    } piece[CRN_SAMPLE_PIECES];
    size_t words; /* of all pieces */
};

/* Chooses up to CRN_SAMPLE_PIECES pieces that are spread over the n bytes of a chunk, of about
 * `bytes` in all. src and data must outlive it. */
void crn_sample_init(struct crn_sample *s, const struct crn_data *data, const void *src, size_t n,
                     size_t bytes);
/* The words themselves, one piece after the other. */
void crn_sample_words(const struct crn_sample *s, unsigned char *dst);
/* What the Lorenzo filter with this argument gives for them. tmp has room for them too. */
void crn_sample_residuals(const struct crn_sample *s, unsigned arg, unsigned char *dst,
                          unsigned char *tmp);
/* Whether one of the pieces has such a dimension: stride k of their runs. */
int crn_sample_has_stride(const struct crn_sample *s, int k);

/* The magnitudes of n words as the codec has them, and how many bits lie below them. count gets how
 * often each occurs. */
uint64_t crn_magnitudes(const unsigned char *words, size_t n, unsigned width,
                        unsigned char *magnitudes, uint32_t count[256]);

#endif
