/* SPDX-License-Identifier: BSD-3-Clause */
/* A shard as merging sees it: memory regions unchanged, files cut into the variables found in
 * them and the plain bytes between. Each part is a region of a virtual shard, and knows which
 * bytes of the real one it represents. */
#ifndef CRN_PARTS_H
#define CRN_PARTS_H

#include "encode/extents.h"

#define CRN_PLAIN_KEY "plain bytes" /* the name of all parts that are no variable */

struct crn_part_place {
    uint32_t region; /* of the real shard */
    uint64_t offset; /* in it */
};

struct crn_parts {
    /* Owned; its regions are the parts, in the order of the real bytes. Those of files are of
     * kind file, though they have types and shapes. */
    struct crn_shard shard;
    struct crn_part_place *part; /* owned; per part */
};

/* files: the extents found in each region; may be NULL, as may be the extents of one. */
CAIRN_CHECKED cairn_err crn_parts_make(const struct crn_shard *s,
                                       const struct crn_file_extents *files, struct crn_parts *ret,
                                       struct crn_errinfo *ei);
void crn_parts_free(struct crn_parts *p);
/* Looks for variables in the open files of a shard. fds: per region, -1 if it is not a file.
 * hdf5: as for crn_extents_read. Files that are not understood stay bytes. End with
 * crn_parts_close. */
CAIRN_CHECKED cairn_err crn_parts_open(const struct crn_fs *fs, const struct crn_shard *s,
                                       const int *fds, const char *hdf5, struct crn_parts **ret,
                                       struct crn_errinfo *ei);
void crn_parts_close(struct crn_parts *p); /* NULL is fine */

/* The variables as one node sends them to another. Decoding treats them as hostile: whatever
 * they say, the parts cover exactly the bytes of the shard. */
void crn_parts_encode(const struct crn_parts *p, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_parts_decode(const void *data, size_t n, const struct crn_shard *s,
                                         struct crn_parts **ret, struct crn_errinfo *ei);
/* The part that contains this byte of a real region. */
uint32_t crn_parts_find(const struct crn_parts *p, uint32_t region, uint64_t offset);

#endif
