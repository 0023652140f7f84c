/* SPDX-License-Identifier: BSD-3-Clause */
/* A request to stop running jobs, left in the store by `cairn halt`: <root>/.halt for all jobs of
 * the store, <root>/.halt-JOB for one. It stays until it is withdrawn. */
#ifndef CRN_STORE_HALT_H
#define CRN_STORE_HALT_H

#include "store/store.h"

enum crn_halt_kind {
    CRN_HALT_NONE,
    CRN_HALT_NOW,        /* a last checkpoint, then stop */
    CRN_HALT_CHECKPOINT, /* stop after the next checkpoint that is due anyway */
    CRN_HALT_AT,         /* be stopped by this time */
};

struct crn_halt {
    enum crn_halt_kind kind;
    uint64_t at_ns;    /* CRN_HALT_AT: wall clock */
    char who[160];     /* who asked, when and why; one line, for people */
    int is_of_one_job; /* found in .halt-JOB */
};

/* What holds for a job: its own request, else that of all jobs. None is no error. job: the key job,
 * or "" for none. A request that cannot be understood counts as CRN_HALT_NOW: somebody wants the
 * jobs to stop. */
CAIRN_CHECKED cairn_err crn_halt_read(const struct crn_fs *fs, const char *root, const char *job,
                                      struct crn_halt *ret, struct crn_errinfo *ei);
/* Replaces the request of the job ("": of all jobs); CRN_HALT_NONE withdraws it. */
CAIRN_CHECKED cairn_err crn_halt_write(const struct crn_store *st, const char *job,
                                       const struct crn_halt *halt, struct crn_errinfo *ei);
/* "stop now", "stop after the next checkpoint", "stop by 2026-01-31 12:00:00". */
void crn_halt_text(const struct crn_halt *halt, char *buf, size_t size);

#endif
