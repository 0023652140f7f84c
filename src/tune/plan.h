/* SPDX-License-Identifier: BSD-3-Clause */
/* What is measured, how large it is, and which result is taken. Pure. */
#ifndef CRN_TUNE_PLAN_H
#define CRN_TUNE_PLAN_H

#include "tune/probe.h"

/* Each stage varies something and keeps what the stages before found best. */
enum crn_stage {
    CRN_STAGE_THREADS,  /* writers x layout x files: the paper's figures 1 to 3 */
    CRN_STAGE_METHODS,  /* buffered, behind, direct, with writers around the best */
    CRN_STAGE_BLOCKS,   /* size of a block */
    CRN_STAGE_RECEIVED, /* share of the bytes that was received; nothing is chosen by it */
    CRN_STAGES
};
const char *crn_stage_name(enum crn_stage stage);

#define CRN_STAGE_MAX   64 /* probes of a stage */
#define CRN_MAX_REPEATS 32
#define CRN_BLOCK_MIN   ((uint64_t)256 << 10)
#define CRN_BLOCK_BASE  ((uint64_t)64 << 20) /* as in the paper, where the probes are large enough */
#define CRN_BLOCK_MAX   ((uint64_t)256 << 20)

struct crn_tune_options {
    int is_full;
    uint32_t repeats;
    double seconds;         /* no probe starts later */
    uint64_t space_bytes;   /* in the directory at any time, at most */
    uint64_t written_bytes; /* in all, at most */
    uint64_t reserve_bytes; /* left free in any case */
};
/* Quick: 45 s, 1 GiB at a time, 16 GiB in all. Full: 15 min, 8 GiB, 256 GiB. */
struct crn_tune_options crn_tune_defaults(int is_full);

/* The probes of a stage around base, which holds bytes and block_bytes; returns how many. */
size_t crn_tune_plan(const struct crn_tune_options *opt, enum crn_stage stage,
                     const struct crn_probe *base, struct crn_probe *ret);
/* Runs of all stages, at most: for the progress bar and the sizes. */
uint32_t crn_tune_runs(const struct crn_tune_options *opt);
/* Bytes and block of a probe, from what a first try reached (bytes/s) and what is free. Fails with
 * CAIRN_ENOSPC if there is no room for the smallest, CAIRN_EINVAL if the limits leave none. */
CAIRN_CHECKED cairn_err crn_tune_size(const struct crn_tune_options *opt, double rate,
                                      uint64_t free_bytes, struct crn_probe *ret,
                                      struct crn_errinfo *ei);

/* What was measured of one probe, in bytes per second. */
struct crn_measure {
    enum crn_stage stage;
    struct crn_probe probe;
    double rate[CRN_MAX_REPEATS];
    uint32_t n; /* 0: not measured, problem says why */
    double median, min, max;
    char problem[96];
};
void crn_measure_add(struct crn_measure *m, double rate); /* and median, min, max */
/* The cheapest of those within the noise (5 to 20 %, by their spread) of the best median: fewest writers, fewest files, the simplest
 * method, interleaved (nobody waits for his region), the smallest block. NULL if none was measured. */
const struct crn_measure *crn_tune_choose(const struct crn_measure *m, size_t n);

#endif
