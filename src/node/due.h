/* SPDX-License-Identifier: BSD-3-Clause */
/* Which versions go to the PFS although nobody waits for them, and which of the others stay. Only
 * the first node decides, from what it has seen of a name, so all nodes agree. */
#ifndef CRN_NODE_DUE_H
#define CRN_NODE_DUE_H

#include "base/config.h"

/* What the first node has seen of a name. */
struct crn_due_seen {
    uint64_t passed;  /* versions captured since the last one that was flushed */
    int64_t since_ns; /* when that one was captured; before the first: when the job started */
};

/* Is the version that all ranks have just captured due? */
int crn_due_is(const struct crn_every *every, const struct crn_due_seen *seen, int64_t now_ns);
/* Should a version that is not flushed be given up? `newer`: versions of its name that all ranks
 * have captured since; has_newer: one of them is on the PFS. */
int crn_due_gives_way(uint64_t keep, uint64_t newer, int has_newer);

#endif
