/* SPDX-License-Identifier: BSD-3-Clause */
/* The Lorenzo predictor on floating-point values, for words of 4 and 8 bytes at any address. The
 * prediction of a word is a sum over the strides: along the first it comes from the words before it,
 * along each further one from what the predictions so far leave of them. */
#ifndef CRN_LORENZO_VALUES_H
#define CRN_LORENZO_VALUES_H

#include <stddef.h>

#define CRN_VALUES_STRIDES 3
#define CRN_VALUES_WINDOWS 8 /* sample: words of scratch memory for each word */

struct crn_values {
    unsigned n;                        /* at least 1 */
    size_t stride[CRN_VALUES_STRIDES]; /* in words; those of planes, rows, numbers in a row */
    int is_twice;                      /* second differences */
};

/* n words of a run at src to folded residuals, and back. tmp: twice n words. */
void crn_lorenzo_values_encode(const struct crn_values *v, unsigned width, const void *src,
                               size_t n, void *dst, void *tmp);
void crn_lorenzo_values_decode(const struct crn_values *v, unsigned width, const void *src,
                               size_t n, void *dst, void *tmp);
/* What encode gives for n words from `from` on of the run at src. tmp: CRN_VALUES_WINDOWS * n. */
void crn_lorenzo_values_sample(const struct crn_values *v, unsigned width, const void *src,
                               size_t from, size_t n, void *dst, void *tmp);

#endif
