/* SPDX-License-Identifier: BSD-3-Clause */
/* Finishes what dead runs left on this host: writes captures in arenas and whole data files of the
 * local tier to the PFS, and commits a version once the files of all nodes are there. Skips runs
 * whose service is alive. */
#ifndef CRN_SERVICE_DRAIN_H
#define CRN_SERVICE_DRAIN_H

#include "base/config.h"
#include "base/fs.h"
#include "base/log.h"

enum crn_drain_what {
    CRN_DRAIN_COMMITTED,  /* flushed; the version is visible now */
    CRN_DRAIN_WAITING,    /* flushed; files of other nodes are missing */
    CRN_DRAIN_KNOWN,      /* already committed, or replaced by a newer capture */
    CRN_DRAIN_INCOMPLETE, /* some rank had not captured it: dropped; or a half-written local file */
    CRN_DRAIN_FAILED,     /* not saved; the data stays where it is */
    CRN_DRAIN_ALIVE,      /* the run's service is alive: nothing to do */
};
const char *crn_drain_what_name(enum crn_drain_what what);

struct crn_drain_event {
    enum crn_drain_what what;
    const char *run;  /* hex; "" for an unreadable local file */
    const char *name; /* "" for ALIVE, and for an unreadable run */
    int64_t version;  /* -1: the versions of the name cannot be listed */
    uint32_t missing; /* WAITING: number of missing files */
    const char *
        text; /* reason or ""; WAITING: why it waits in vain, or ""; COMMITTED: the lost nodes whose
                       * data was rebuilt, and from which nodes, or "" */
};
typedef void (*crn_drain_fn)(void *arg, const struct crn_drain_event *ev);

/* Drains all dead runs below cfg->shm_dir and cfg->local; with same_target only those that wrote to
 * cfg->persistent. Calls fn, which may be NULL, for each checkpoint. An error means that something
 * failed and still exists; everything else was drained. */
CAIRN_CHECKED cairn_err crn_drain_host(const struct crn_fs *fs, const struct crn_config *cfg,
                                       int same_target, crn_drain_fn fn, void *arg,
                                       struct crn_errinfo *ei);

/* Records failed and incomplete drains in the journal of the name, in the configured store. */
void crn_drain_report(const struct crn_fs *fs, const struct crn_config *cfg,
                      const struct crn_drain_event *ev);

#endif
