/* SPDX-License-Identifier: BSD-3-Clause */
/* What Cairn knows about file systems. Pure, except for crn_fs_type_of. */
#ifndef CRN_FS_TYPE_H
#define CRN_FS_TYPE_H

#include <stdint.h>

#define CRN_FS_LUSTRE 0x0BD00BD0u

struct crn_fs_type {
    uint32_t magic; /* f_type of statfs; 0: unknown */
    const char *name;
    /* On a local disk, where write-behind pays: only the page cache lies in between. */
    int is_disk;
    /* In local memory: a write is only a copy, and the kernel serialises the writes to one file. */
    int is_memory;
    /* Several nodes may write aligned parts of one file concurrently without contending for locks,
     * caches or pages. On Lustre this holds up to the number of stripes. */
    int is_shared;
    /* How long a host may see stale names and sizes after another host changed them. 0: never
     * stale. */
    unsigned late_s;
};

/* Never NULL: an unknown type has the name "unknown file system" and late_s 60. */
const struct crn_fs_type *crn_fs_type_find(uint32_t magic);
const struct crn_fs_type *crn_fs_type_of(int fd);

#endif
