/* SPDX-License-Identifier: BSD-3-Clause */
/* Finishes what dead runs left on this host: captures in arenas and whole data files of the local
 * tier go to the PFS and are committed as soon as the files of all nodes are there. A run whose
 * service lives is left alone. */
#ifndef CRN_SERVICE_DRAIN_H
#define CRN_SERVICE_DRAIN_H

#include "base/config.h"
#include "base/fs.h"
#include "base/log.h"

enum crn_drain_what {
    CRN_DRAIN_COMMITTED,  /* flushed, and the version is visible now */
    CRN_DRAIN_WAITING,    /* flushed; files of other nodes are missing */
    CRN_DRAIN_KNOWN,      /* was committed already, or replaced by a newer capture */
    CRN_DRAIN_INCOMPLETE, /* some rank had not captured it: dropped; or half a local file */
    CRN_DRAIN_FAILED,     /* stays where it is */
    CRN_DRAIN_ALIVE,      /* the run's service is alive: nothing to do */
};
const char *crn_drain_what_name(enum crn_drain_what what);

struct crn_drain_event {
    enum crn_drain_what what;
    const char *run;  /* hex; "": of a local file that cannot be read */
    const char *name; /* "" for ALIVE, and for a run that cannot be read */
    int64_t version;  /* -1: of a name whose versions cannot be listed */
    uint32_t missing; /* WAITING: files */
    const char *text; /* FAILED, INCOMPLETE: why, or ""; WAITING: why in vain, or "" */
};
typedef void (*crn_drain_fn)(void *arg, const struct crn_drain_event *ev);

/* Drains all dead runs found below cfg->shm_dir and cfg->local; with same_target only those that
 * wrote to cfg->persistent. fn hears of each checkpoint and may be NULL. An error means that
 * something failed and is still there; the rest was done. */
CAIRN_CHECKED cairn_err crn_drain_host(const struct crn_fs *fs, const struct crn_config *cfg,
                                       int same_target, crn_drain_fn fn, void *arg,
                                       struct crn_errinfo *ei);

/* Records an event in the journal of its name, in the store of the configuration, if it is one that people ask
 * for. */
void crn_drain_report(const struct crn_fs *fs, const struct crn_config *cfg,
                      const struct crn_drain_event *ev);

#endif
