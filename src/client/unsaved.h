/* SPDX-License-Identifier: BSD-3-Clause */
/* Does a restart know of newer checkpoints than those it can read? */
#ifndef CRN_CLIENT_UNSAVED_H
#define CRN_CLIENT_UNSAVED_H

#include "client/session.h"
#include "service/unsaved.h"

/* A version that could be restored, as the first rank told all. */
struct crn_candidate {
    int64_t version;
    struct crn_capture_id id;
    uint64_t created_ns;
};

/* What the ranks of a restart know of captures that are not saved. */
struct crn_blocked {
    int64_t at; /* candidates from here on are older than one of them; INT64_MAX: none is */
    char text[CRN_ERR_TEXT]; /* which, where, and how to go on */
};

/* Local. Looks for unsaved versions from first to last; waits for those that a living process flushes, at
 * most wait_timeout. Does nothing on ranks that are not the first of their node. */
CAIRN_CHECKED cairn_err crn_unsaved_look(cairn_session *s, const char *name, int64_t first,
                                         int64_t last, struct crn_unsaveds *ret,
                                         struct crn_errinfo *ei);
/* Collective. The same answer on all ranks; candidates are newest first. */
CAIRN_CHECKED cairn_err crn_unsaved_agree(cairn_session *s, const char *name,
                                          const struct crn_unsaveds *mine,
                                          const struct crn_candidate *candidates, int64_t n,
                                          struct crn_blocked *ret, struct crn_errinfo *ei);
/* The search has come to candidate `at`: an error that ends it, unless the user wants an older version. */
CAIRN_CHECKED cairn_err crn_unsaved_check(const cairn_session *s, const struct crn_blocked *b,
                                          int64_t at, struct crn_errinfo *ei);

#endif
