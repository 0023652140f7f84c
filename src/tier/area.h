/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of fixed size on the node's disk that hold images of checkpoints: in the first a header with a
 * checksum for each granule, in all of them the data, stripe by stripe. Who uses it decides what lies
 * where. It extends memory: nothing is synced, and it need not outlive the node. It does outlive the
 * process, so that the node service and a drain can read what was captured; what they get is what was
 * written, or CAIRN_EDAMAGED. */
#ifndef CRN_TIER_AREA_H
#define CRN_TIER_AREA_H

#include "base/fs.h"

#define CRN_AREA_GRANULE ((uint64_t)64 << 10) /* images begin at a multiple of it */
#define CRN_AREA_STRIPE  ((uint64_t)4 << 20)
#define CRN_AREA_FILES   4 /* or one for each stripe; so many threads write at once */

struct crn_area; /* opaque */

struct crn_area_options {
    const char *name; /* of the first; NULL: nobody else sees it, and it is gone with the process */
    uint64_t bytes;
    int is_direct; /* past the page cache, where it can be: memory that is free is not made use of */
};

/* New files in dfd, reserved on the disk where the file system can. CAIRN_ENOSPC. */
CAIRN_CHECKED cairn_err crn_area_create(const struct crn_fs *fs, int dfd,
                                        const struct crn_area_options *options,
                                        struct crn_area **ret, struct crn_errinfo *ei);
/* One that another process made, to read from it. */
CAIRN_CHECKED cairn_err crn_area_open(const struct crn_fs *fs, int dfd, const char *name,
                                      struct crn_area **ret, struct crn_errinfo *ei);
void crn_area_close(struct crn_area *a); /* the files stay. NULL is fine */
void crn_area_remove(const struct crn_fs *fs, int dfd, const char *name);
uint64_t crn_area_bytes(const struct crn_area *a);

/* Any thread, several at once for different bytes. image: where it begins. Bytes at..at+n-1 of it: at is a
 * multiple of the granule, and so is n but at the image's end. */
CAIRN_CHECKED cairn_err crn_area_write(struct crn_area *a, uint64_t image, uint64_t at,
                                       const void *src, uint64_t n, struct crn_errinfo *ei);
/* Any part of an image of so many bytes, checked. */
CAIRN_CHECKED cairn_err crn_area_read(struct crn_area *a, uint64_t image, uint64_t image_bytes,
                                      uint64_t at, void *dst, uint64_t n, struct crn_errinfo *ei);

#endif
