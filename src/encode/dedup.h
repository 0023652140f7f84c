/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds repeated blocks at any distance: ranks with the same table, or the same halo. A stream is
 * cut into blocks at places that its contents determine, not at fixed offsets, so shifted data is
 * still found. A repeated block is stored as a reference to its first occurrence.
 *
 * Blocks are equal if their 128-bit hashes are. The seed is drawn for every stream, so nobody
 * can construct two blocks that collide. */
#ifndef CRN_DEDUP_H
#define CRN_DEDUP_H

#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define CRN_BLOCK_NEW UINT64_MAX

struct crn_dedup;

/* width: of the words, 1 to 8; blocks begin at multiples of it. */
CAIRN_CHECKED cairn_err crn_dedup_open(unsigned width, struct crn_dedup **ret,
                                       struct crn_errinfo *ei);
void crn_dedup_close(struct crn_dedup *d); /* NULL is allowed */

/* Receives the next n bytes. seen is CRN_BLOCK_NEW, or the offset of the same bytes among the
 * new ones (the concatenated new bytes of all blocks). */
typedef cairn_err crn_dedup_sink(void *ctx, const unsigned char *bytes, size_t n, uint64_t seen,
                                 struct crn_errinfo *ei);
/* Cuts n bytes. Neighbours of one kind may be passed as one. Stops at an error of the sink. */
CAIRN_CHECKED cairn_err crn_dedup_put(struct crn_dedup *d, const void *bytes, size_t n,
                                      crn_dedup_sink *sink, void *ctx, struct crn_errinfo *ei);
/* The number of bytes put in, and how many of them were new. */
void crn_dedup_stats(const struct crn_dedup *d, uint64_t *ret_bytes, uint64_t *ret_new);

/* How to rebuild a stream from its new bytes: one item after the other, `bytes` bytes starting
 * at `source`. A source starts no later than the next new byte, so all new bytes occur, in
 * order. */
struct crn_map_item {
    uint64_t bytes;
    uint64_t source;
};
struct crn_map {
    size_t n;
    size_t room;
    struct crn_map_item *items; /* owned */
    uint64_t bytes;             /* of the stream */
    uint64_t new_bytes;
};

/* Appends an item; joins adjacent ones. seen as above. */
CAIRN_CHECKED cairn_err crn_map_add(struct crn_map *m, uint64_t bytes, uint64_t seen,
                                    struct crn_errinfo *ei);
void crn_map_free(struct crn_map *m);
/* varint count, then for each item varint bytes, varint (new bytes so far - source). */
void crn_map_encode(const struct crn_map *m, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_map_decode(struct crn_view *v, struct crn_map *ret,
                                       struct crn_errinfo *ei);

#endif
