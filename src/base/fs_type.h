/* SPDX-License-Identifier: BSD-3-Clause */
/* What Cairn knows of file systems. Pure but for the one that asks. */
#ifndef CRN_FS_TYPE_H
#define CRN_FS_TYPE_H

#include <stdint.h>

#define CRN_FS_LUSTRE 0x0BD00BD0u

struct crn_fs_type {
    uint32_t magic; /* as statfs tells; 0: none of those that are known */
    const char *name;
    /* On a disk of this machine, where writing behind pays: the kernel's cache is all there is between. */
    int is_disk;
    int is_memory; /* of this machine: one write at a time gets into a file, and copying is all it does */
    /* Several nodes may write aligned parts of one file side by side without taking locks, caches or whole
     * pages from each other. Lustre: as far as the file has stripes for them. */
    int is_shared;
    /* For so long a host may see names and sizes as they were before another changed them. 0: never. */
    unsigned late_s;
};

/* Never NULL: what is not known has the name "unknown file system" and nothing else. */
const struct crn_fs_type *crn_fs_type_find(uint32_t magic);
const struct crn_fs_type *crn_fs_type_of(int fd);

#endif
