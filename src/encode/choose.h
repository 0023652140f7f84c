/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses a pipeline for each variable adaptively: from a sample of the variable's first chunk,
 * within a share of the CPU time that encoding usually takes. The choice is remembered for later chunks
 * and versions, and made again when chunks no longer come out as expected. A variable has one
 * choice for use with its older version and one for use without. Lossy pipelines are never
 * chosen. */
#ifndef CRN_CHOOSE_H
#define CRN_CHOOSE_H

#include "encode/guess.h"
#include "encode/pipe.h"

enum crn_aim {
    CRN_AIM_RATIO, /* the fewest bytes; among close results the fastest */
    CRN_AIM_SPEED, /* a saved byte may cost at most a few ns */
    CRN_AIM_TIME   /* the least time until the bytes are on the file system */
};

struct crn_choose_options {
    enum crn_aim aim;
    double bandwidth; /* CRN_AIM_TIME: bytes per second to the file system, per encoding thread */
    double cpu_share; /* share of the usual encoding time that trials may take; 0: 0.15 */
    int64_t (*cpu_ns)(void); /* CPU time of this thread; NULL: the real one */
};

struct crn_choice {
    struct crn_pipe pipe;
    struct crn_as as; /* how the pipeline takes the bytes: crn_as_data */
    double share;     /* expected bytes out / bytes in */
    /* The chunk as encoded during the comparison of pipelines, valid until the work is used
     * again. NULL: not encoded yet. */
    const unsigned char *encoded;
    size_t encoded_n;
    int64_t encoded_ns; /* CPU time of that encoding */
};

/* The remembered choices. One thread at a time. */
struct crn_chooser;

CAIRN_CHECKED cairn_err crn_chooser_open(const struct crn_choose_options *options,
                                         struct crn_chooser **ret, struct crn_errinfo *ei);
void crn_chooser_close(struct crn_chooser *c); /* NULL is allowed */

/* The pipeline for a chunk of the variable with this key. ahead: bytes of the variable still to
 * come, including these n, as far as known; more of them allow more trials. */
CAIRN_CHECKED cairn_err crn_choose(struct crn_chooser *c, struct crn_encode_work *w,
                                   const char *key, const struct crn_data *data, const void *src,
                                   size_t n, uint64_t ahead, struct crn_choice *ret,
                                   struct crn_errinfo *ei);
/* Reports the outcome: n bytes took cpu_ns and became `encoded` bytes. */
void crn_choose_learn(struct crn_chooser *c, const char *key, const struct crn_data *data, size_t n,
                      size_t encoded, int64_t cpu_ns);

/* Sets a newly measured bandwidth, used by later choices. */
void crn_chooser_bandwidth(struct crn_chooser *c, double bandwidth);

/* For reports: CPU time spent on trials and on encoding, and how many choices were made. */
struct crn_chooser_stats {
    int64_t trial_ns;
    int64_t encode_ns;
    uint64_t bytes; /* encoded or stored raw */
    uint64_t choices;
    uint64_t drifts;
};
void crn_chooser_stats(const struct crn_chooser *c, struct crn_chooser_stats *ret);
int64_t crn_chooser_cpu_ns(const struct crn_chooser *c);

#endif
