/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of a name that are whole but not committed: a restart must know of them before it uses
 * an older version. A successful drain leaves none. */
#ifndef CRN_SERVICE_UNSAVED_H
#define CRN_SERVICE_UNSAVED_H

#include "base/config.h"
#include "store/store.h"

struct crn_unsaved {
    int64_t version;
    struct crn_capture_id id;
    uint64_t created_ns;
    int is_unknown;  /* the run cannot be examined: it may have any version */
    int is_alive;    /* its service lives and flushes it */
    char where[300]; /* where it is, and why it is not saved */
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
    int64_t first, last;    /* range of versions that matter */
    const uint8_t *own_run; /* captures of this run do not count */
};

/* Finds captures in the memory of this host, of dead and living runs. An error means that this
 * process lacks memory or descriptors; a run that cannot be examined for another reason
 * is_unknown. */
CAIRN_CHECKED cairn_err crn_unsaved_host(const struct crn_unsaved_query *q,
                                         struct crn_unsaveds *ret, struct crn_errinfo *ei);
/* Finds captures in the store: data files without a manifest of captures that all nodes had taken.
 * Appends to ret. */
CAIRN_CHECKED cairn_err crn_unsaved_store(const struct crn_unsaved_query *q,
                                          struct crn_unsaveds *ret, struct crn_errinfo *ei);
void crn_unsaveds_free(struct crn_unsaveds *u);

#endif
