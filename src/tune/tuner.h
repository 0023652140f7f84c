/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures a directory stage by stage and recommends settings. */
#ifndef CRN_TUNE_TUNER_H
#define CRN_TUNE_TUNER_H

#include <stdio.h>
#include "tune/plan.h"

#define CRN_TUNE_MAX (CRN_STAGES * CRN_STAGE_MAX)

struct crn_tuning {
    struct crn_measure m[CRN_TUNE_MAX]; /* in order of the stages */
    size_t n;
    struct crn_probe best;
    double best_rate;   /* bytes/s; median */
    double one_rate;    /* of one writer to one file */
    uint64_t written;   /* bytes, of all probes */
    double seconds;     /* of all */
    const char *cut_by; /* "time" or "bytes" if probes were skipped; else NULL */
};

struct crn_tuner {
    const struct crn_fs *fs;
    struct crn_tune_options opt;
    const atomic_int *stop; /* as in crn_probe_env */
    /* Called before each run, by the caller's thread; may be NULL. */
    void (*progress)(void *arg, const struct crn_probe *p);
    void *progress_arg;
};

/* Measures dir, which must exist. ret is too large for a thread's stack. Works in its own folder
 * below dir and removes it afterwards; first removes one that a killed run left. */
CAIRN_CHECKED cairn_err crn_tune_run(const struct crn_tuner *t, const char *dir,
                                     struct crn_tuning *ret, struct crn_errinfo *ei);

/* The recommended keys as a configuration file; keys unknown to this version as comments. 0, or
 * -1 if the stream fails. */
int crn_tune_config(const struct crn_tuning *t, const char *dir, FILE *out);

/* scratch.c: the folder. Its lock file is locked while it is in use. */
struct crn_scratch {
    const struct crn_fs *fs;
    int parent, dfd, lock; /* descriptors; -1: none */
    char name[48];
};
CAIRN_CHECKED cairn_err crn_scratch_open(const struct crn_fs *fs, const char *dir,
                                         struct crn_scratch *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_scratch_close(struct crn_scratch *s, struct crn_errinfo *ei);

#endif
