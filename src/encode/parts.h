/* SPDX-License-Identifier: BSD-3-Clause */
/* A shard as merging sees it: memory regions as they are, files cut into the variables that were found in
 * them and the plain bytes between. Each part is a region of a shard that exists here only, and knows
 * which bytes of the real one it is. */
#ifndef CRN_PARTS_H
#define CRN_PARTS_H

#include "encode/extents.h"

#define CRN_PLAIN_KEY "plain bytes" /* the name of all parts that are no variable */

struct crn_part_place {
    uint32_t region; /* of the real shard */
    uint64_t offset; /* in it */
};

struct crn_parts {
    /* Owned; its regions are the parts, in the order of the real bytes. Those of files are of kind file,
     * though they have types and shapes. */
    struct crn_shard shard;
    struct crn_part_place *part; /* owned; for each */
};

/* files: for each region what was found in it; may be NULL, as may be the extents of one. */
CAIRN_CHECKED cairn_err crn_parts_make(const struct crn_shard *s,
                                       const struct crn_file_extents *files, struct crn_parts *ret,
                                       struct crn_errinfo *ei);
void crn_parts_free(struct crn_parts *p);
/* Looks for the variables in the open files of a shard; fds: for each region, -1 where it is no file.
 * hdf5: as for crn_extents_read. What is not understood stays bytes. Ended by crn_parts_close. */
CAIRN_CHECKED cairn_err crn_parts_open(const struct crn_fs *fs, const struct crn_shard *s,
                                       const int *fds, const char *hdf5, struct crn_parts **ret,
                                       struct crn_errinfo *ei);
void crn_parts_close(struct crn_parts *p); /* NULL is fine */

/* The variables as one node tells them to another. Decoding takes every byte as hostile: whatever they
 * are, the parts are the bytes of the shard. */
void crn_parts_encode(const struct crn_parts *p, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_parts_decode(const void *data, size_t n, const struct crn_shard *s,
                                         struct crn_parts **ret, struct crn_errinfo *ei);
/* The part that has this byte of a real region. */
uint32_t crn_parts_find(const struct crn_parts *p, uint32_t region, uint64_t offset);

#endif
