/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of fixed size on the node's disk for images of checkpoints. The first file begins with a
 * header that has a checksum for each granule; the data is striped over all files. The user decides
 * what lies where. An area extends memory: nothing is synced, and it need not outlive the node. It
 * does outlive the process, so that the node service and a drain can read captures from it. A read
 * returns the bytes that were written, or CAIRN_EDAMAGED. */
#ifndef CRN_TIER_AREA_H
#define CRN_TIER_AREA_H

#include "base/fs.h"

#define CRN_AREA_GRANULE ((uint64_t)64 << 10) /* images start at a multiple of it */
#define CRN_AREA_STRIPE  ((uint64_t)4 << 20)
#define CRN_AREA_FILES   4 /* at most one per stripe; so many threads write at once */

struct crn_area; /* opaque */

struct crn_area_options {
    const char *name; /* of the first file; NULL: unnamed, and gone with the process */
    uint64_t bytes;
    /* Bypass the page cache if possible. Then free memory does not serve as a cache. */
    int is_direct;
};

/* Creates the files in dfd, reserved on the disk if the file system supports it. CAIRN_ENOSPC if
 * they do not fit. */
CAIRN_CHECKED cairn_err crn_area_create(const struct crn_fs *fs, int dfd,
                                        const struct crn_area_options *options,
                                        struct crn_area **ret, struct crn_errinfo *ei);
/* Opens an area that another process created, for reading. */
CAIRN_CHECKED cairn_err crn_area_open(const struct crn_fs *fs, int dfd, const char *name,
                                      struct crn_area **ret, struct crn_errinfo *ei);
void crn_area_close(struct crn_area *a); /* the files stay. NULL is fine */
void crn_area_remove(const struct crn_fs *fs, int dfd, const char *name);
uint64_t crn_area_bytes(const struct crn_area *a);

/* Any thread; several at once for different bytes. Writes bytes at .. at+n-1 of the image that
 * starts at offset image. at is a multiple of the granule; so is n, except at the end of the
 * image. */
CAIRN_CHECKED cairn_err crn_area_write(struct crn_area *a, uint64_t image, uint64_t at,
                                       const void *src, uint64_t n, struct crn_errinfo *ei);
/* Reads any bytes of an image of image_bytes bytes, and verifies them. */
CAIRN_CHECKED cairn_err crn_area_read(struct crn_area *a, uint64_t image, uint64_t image_bytes,
                                      uint64_t at, void *dst, uint64_t n, struct crn_errinfo *ei);

#endif
