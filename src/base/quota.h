/* SPDX-License-Identifier: BSD-3-Clause */
/* The free space that the kernel's quotas leave. */
#ifndef CRN_QUOTA_H
#define CRN_QUOTA_H

#include "base/fs.h"

/* Lowers space to what the quotas leave that would be charged for a new file below directory fd:
 * those of the user, the group and the project. Unknown quotas change nothing. */
void crn_quota_bound(int fd, struct crn_room *space);

#endif
