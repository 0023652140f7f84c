/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates from a sample what pipelines would make of a chunk; choose.c decides from it. */
#ifndef CRN_TRIAL_H
#define CRN_TRIAL_H

#include "encode/guess.h"
#include "encode/pipe.h"

#define CRN_TRIALS_MAX 12

struct crn_trial {
    struct crn_pipe pipe;
    struct crn_as as; /* how the pipeline takes the bytes */
    double share;     /* bytes out / bytes in */
};

/* Estimates the pipelines that may suit such data from about `bytes` of it. Returns at least
 * raw, as the first. */
CAIRN_CHECKED cairn_err crn_trials(struct crn_encode_work *w, const struct crn_data *data,
                                   const void *src, size_t n, size_t bytes,
                                   struct crn_trial ret[CRN_TRIALS_MAX], size_t *ret_n,
                                   struct crn_errinfo *ei);
/* A quick look: is there no point in trying? */
CAIRN_CHECKED cairn_err crn_trial_glance(struct crn_encode_work *w, const struct crn_data *data,
                                         const void *src, size_t n, int *ret_is_hopeless,
                                         struct crn_errinfo *ei);

#endif
