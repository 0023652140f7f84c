/* SPDX-License-Identifier: BSD-3-Clause */
/* Are there checkpoints newer than those that a restart can read? */
#ifndef CRN_CLIENT_UNSAVED_H
#define CRN_CLIENT_UNSAVED_H

#include "client/session.h"
#include "service/unsaved.h"

/* A version that may be restored, as the first rank told all ranks. */
struct crn_candidate {
    int64_t version;
    struct crn_capture_id id;
    uint64_t created_ns;
};

/* What the ranks of a restart know about unsaved captures. */
struct crn_blocked {
    int64_t at; /* index of the first candidate that is older than one; INT64_MAX: none is */
    char text[CRN_ERR_TEXT]; /* which, where, and how to continue */
};

/* Local. Looks for unsaved versions from first to last. Waits for those that a living process is
 * flushing, at most wait_timeout. Does nothing on ranks that are not the first of their node. */
CAIRN_CHECKED cairn_err crn_unsaved_look(cairn_session *s, const char *name, int64_t first,
                                         int64_t last, struct crn_unsaveds *ret,
                                         struct crn_errinfo *ei);
/* Collective. The same answer on all ranks; candidates are newest first. */
CAIRN_CHECKED cairn_err crn_unsaved_agree(cairn_session *s, const char *name,
                                          const struct crn_unsaveds *mine,
                                          const struct crn_candidate *candidates, int64_t n,
                                          struct crn_blocked *ret, struct crn_errinfo *ei);
/* The search has reached candidate `at`: returns an error that ends the search, unless the
 * configuration allows an older version. */
CAIRN_CHECKED cairn_err crn_unsaved_check(const cairn_session *s, const struct crn_blocked *b,
                                          int64_t at, struct crn_errinfo *ei);

#endif
