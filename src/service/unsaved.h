/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of a name that are whole and not committed: what a restart must know before it takes an older
 * version. A drain that succeeds leaves none behind. */
#ifndef CRN_SERVICE_UNSAVED_H
#define CRN_SERVICE_UNSAVED_H

#include "base/config.h"
#include "store/store.h"

struct crn_unsaved {
    int64_t version;
    struct crn_capture_id id;
    uint64_t created_ns;
    int is_unknown;  /* a run that cannot be looked at: it may hold any version */
    int is_alive;    /* its service lives and flushes it */
    char where[300]; /* it is held, and why it is not saved */
};
struct crn_unsaveds {
    struct crn_unsaved *v; /* owned */
    size_t n;
};
struct crn_unsaved_query {
    const struct crn_fs *fs;
    const struct crn_config *cfg;
    const struct crn_store *st; /* where they would be committed; NULL: it does not exist yet */
    const char *name;
    int64_t first, last;    /* versions that matter */
    const uint8_t *own_run; /* whose captures do not count */
};

/* In the memory of this host, of dead and living runs. An error says that the process lacks something
 * (memory, descriptors); a run that cannot be looked at for another reason is_unknown. */
CAIRN_CHECKED cairn_err crn_unsaved_host(const struct crn_unsaved_query *q,
                                         struct crn_unsaveds *ret, struct crn_errinfo *ei);
/* In the store: data files of captures that all nodes had taken, without a manifest. Appends. */
CAIRN_CHECKED cairn_err crn_unsaved_store(const struct crn_unsaved_query *q,
                                          struct crn_unsaveds *ret, struct crn_errinfo *ei);
void crn_unsaveds_free(struct crn_unsaveds *u);

#endif
