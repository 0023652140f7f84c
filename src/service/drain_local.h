/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CRN_SERVICE_DRAIN_LOCAL_H
#define CRN_SERVICE_DRAIN_LOCAL_H

#include "service/drain.h"
#include "service/rebuild.h"
#include "store/store.h"

/* Copies whole data files of the local tier that no manifest knows to cfg->persistent. others_live:
 * runs on this host are alive, and half-written files may be theirs. Keeps the first failure in
 * first, and continues. */
void crn_drain_local(const struct crn_fs *fs, const struct crn_config *cfg, int others_live,
                     crn_drain_fn fn, void *arg, struct crn_errinfo *first);

/* drain.c */
#define CRN_DRAIN_WHO "cairn drain"
CAIRN_CHECKED cairn_err crn_drain_lock(const struct crn_store *st, const char *name,
                                       const char *who, int64_t timeout_ns, int *ret_fd,
                                       struct crn_errinfo *ei);
/* Rebuilds the data files of lost nodes and publishes the capture if that makes it whole.
 * *ret_missing changes only if some were rebuilt. The caller has the writer's lock. */
CAIRN_CHECKED cairn_err crn_drain_rebuild(const struct crn_store *st,
                                          const struct crn_unpublished *u, uint32_t *ret_missing,
                                          struct crn_rebuilt *ret, struct crn_errinfo *ei);
struct crn_drain_capture {
    const char *name;
    int64_t version;
    const struct crn_capture_id *id;
    uint64_t created_ns;
    const struct crn_name_config *names; /* retention of the name; NULL: keep all */
};
/* Is the capture committed, replaced by a newer one, removed, or one that retention would remove at
 * once? An error if that cannot be determined. */
CAIRN_CHECKED cairn_err crn_drain_is_known(const struct crn_store *st,
                                           const struct crn_drain_capture *c, int *ret,
                                           struct crn_errinfo *ei);

#endif
