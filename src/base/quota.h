/* SPDX-License-Identifier: BSD-3-Clause */
/* What the quotas of the kernel leave of the free space. */
#ifndef CRN_QUOTA_H
#define CRN_QUOTA_H

#include "base/fs.h"

/* Lowers space to what the quotas of this user, of the group and of the project that a new file below
 * the directory fd would be counted to leave. Where none is known nothing changes. */
void crn_quota_bound(int fd, struct crn_room *space);

#endif
