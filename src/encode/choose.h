/* SPDX-License-Identifier: BSD-3-Clause */
/* The adaptive choice of a pipeline for each variable: from a sample of the first chunk that is seen of
 * it, within a share of the CPU time that encoding takes; remembered for the chunks and versions that
 * follow; made again when the chunks no longer come out as expected. What suits a variable whose older
 * version is at hand is remembered beside what suits it alone. Lossy pipelines are never chosen. */
#ifndef CRN_CHOOSE_H
#define CRN_CHOOSE_H

#include "encode/pipe.h"

enum crn_aim {
    CRN_AIM_RATIO, /* the fewest bytes; of those that are close the fastest */
    CRN_AIM_SPEED, /* a byte that is saved may not cost more than a few ns */
    CRN_AIM_TIME   /* the least time until the bytes are on the file system */
};

struct crn_choose_options {
    enum crn_aim aim;
    double bandwidth; /* bytes a second to the file system for each encoding thread: CRN_AIM_TIME */
    double cpu_share; /* of the time of encoding that trials may take. 0: 0.15 */
    int64_t (*cpu_ns)(void); /* CPU time of this thread; NULL: the real one */
};

struct crn_choice {
    struct crn_pipe pipe;
    double share; /* bytes out / bytes in that is expected */
    /* The chunk has been encoded already, to decide between pipelines: the result, valid until the
     * work is used again. NULL: it has not. */
    const unsigned char *encoded;
    size_t encoded_n;
    int64_t encoded_ns; /* CPU time that this took */
};

/* What is remembered. One thread at a time. */
struct crn_chooser;

CAIRN_CHECKED cairn_err crn_chooser_open(const struct crn_choose_options *options,
                                         struct crn_chooser **ret, struct crn_errinfo *ei);
void crn_chooser_close(struct crn_chooser *c); /* NULL is allowed */

/* The pipeline for a chunk of the variable with this key. ahead: how many bytes of the variable are to
 * come, these n included, as far as is known: more of them allow for more trials. */
CAIRN_CHECKED cairn_err crn_choose(struct crn_chooser *c, struct crn_encode_work *w,
                                   const char *key, const struct crn_data *data, const void *src,
                                   size_t n, uint64_t ahead, struct crn_choice *ret,
                                   struct crn_errinfo *ei);
/* What became of it: n bytes took cpu_ns and came out as `encoded` bytes. */
void crn_choose_learn(struct crn_chooser *c, const char *key, const struct crn_data *data, size_t n,
                      size_t encoded, int64_t cpu_ns);

/* The bandwidth has been measured again: choices from now on go by it. */
void crn_chooser_bandwidth(struct crn_chooser *c, double bandwidth);

/* For reports: CPU time spent on trials and on encoding, and how many choices were made. */
struct crn_chooser_stats {
    int64_t trial_ns;
    int64_t encode_ns;
    uint64_t choices;
    uint64_t drifts;
};
void crn_chooser_stats(const struct crn_chooser *c, struct crn_chooser_stats *ret);
int64_t crn_chooser_cpu_ns(const struct crn_chooser *c);

#endif
