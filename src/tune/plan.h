/* SPDX-License-Identifier: BSD-3-Clause */
/* What is measured, in which sizes, and which result is chosen. Pure. */
#ifndef CRN_TUNE_PLAN_H
#define CRN_TUNE_PLAN_H

#include "tune/probe.h"

/* Each stage varies one setting and keeps the best settings of the stages before. */
enum crn_stage {
    CRN_STAGE_THREADS,  /* writers x layout x files: the paper's figures 1 to 3 */
    CRN_STAGE_METHODS,  /* buffered, behind, direct, with writers around the best */
    CRN_STAGE_BLOCKS,   /* size of a block */
    CRN_STAGE_RECEIVED, /* share of received bytes; not used for the choice */
    CRN_STAGES
};
const char *crn_stage_name(enum crn_stage stage);

#define CRN_STAGE_MAX   64 /* probes of a stage */
#define CRN_MAX_REPEATS 32
#define CRN_BLOCK_MIN   ((uint64_t)256 << 10)
#define CRN_BLOCK_BASE  ((uint64_t)64 << 20) /* as in the paper, if the probes are large enough */
#define CRN_BLOCK_MAX   ((uint64_t)256 << 20)

struct crn_tune_options {
    int is_full;
    uint32_t repeats;
    double seconds;         /* no probe starts later */
    uint64_t space_bytes;   /* in the directory at any time, at most */
    uint64_t written_bytes; /* in total, at most */
    uint64_t reserve_bytes; /* always left free */
};
/* Quick: 45 s, 1 GiB at a time, 16 GiB in all. Full: 15 min, 8 GiB, 256 GiB. */
struct crn_tune_options crn_tune_defaults(int is_full);

/* The probes of a stage around base, which has bytes and block_bytes; returns their number. */
size_t crn_tune_plan(const struct crn_tune_options *opt, enum crn_stage stage,
                     const struct crn_probe *base, struct crn_probe *ret);
/* Upper bound on the runs of all stages, for the progress bar and the sizes. */
uint32_t crn_tune_runs(const struct crn_tune_options *opt);
/* Bytes and block size of a probe, from the rate of a first try (bytes/s) and the free space.
 * Fails with CAIRN_ENOSPC if there is no space for the smallest, CAIRN_EINVAL if the limits
 * allow none. */
CAIRN_CHECKED cairn_err crn_tune_size(const struct crn_tune_options *opt, double rate,
                                      uint64_t free_bytes, struct crn_probe *ret,
                                      struct crn_errinfo *ei);

/* The measurements of one probe, in bytes per second. */
struct crn_measure {
    enum crn_stage stage;
    struct crn_probe probe;
    double rate[CRN_MAX_REPEATS];
    uint32_t n; /* 0: not measured; problem says why */
    double median, min, max;
    char problem[96];
};
void crn_measure_add(struct crn_measure *m, double rate); /* also updates median, min, max */
/* The cheapest setting within the noise (5 to 20 %, by their spread) of the best median.
 * Cheapest means: fewest writers, fewest files, the simplest method, interleaved (no thread
 * waits for its region), the smallest block. NULL if none was measured. */
const struct crn_measure *crn_tune_choose(const struct crn_measure *m, size_t n);

#endif
