/* SPDX-License-Identifier: BSD-3-Clause */
/* Rebuilds a part of this node's data in a living job: from the other members of its set, as a drain
 * does for a lost node (rebuild.h). */
#ifndef CRN_SERVICE_MEND_H
#define CRN_SERVICE_MEND_H

#include "service/job.h"

/* Makes the bytes [at, at+bytes) of this node's stream again, at most a block. The item is protected, and
 * its stream and theirs are open. CAIRN_EDAMAGED if the result does not have the checksum. Waits for other
 * nodes, so not on the loop thread. */
CAIRN_CHECKED cairn_err crn_mend_chunk(struct crn_job *job, struct crn_item *item, uint64_t at,
                                       uint64_t bytes, uint64_t hash, unsigned char *dst,
                                       struct crn_errinfo *ei);

#endif
