/* SPDX-License-Identifier: BSD-3-Clause */
/* Repeated blocks at any distance: ranks that hold the same table, or the same halo. A stream is cut
 * into blocks where its contents say so (not at fixed places, so that what is shifted is still found);
 * a block that was there before is kept as a reference to its first occurrence.
 *
 * Blocks are taken for equal when their hashes of 128 bits are, with a seed that is drawn for every
 * stream: nobody can make two blocks that collide. */
#ifndef CRN_DEDUP_H
#define CRN_DEDUP_H

#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define CRN_BLOCK_NEW UINT64_MAX

struct crn_dedup;

/* width: of the words, 1 to 8; blocks begin at a multiple of it. */
CAIRN_CHECKED cairn_err crn_dedup_open(unsigned width, struct crn_dedup **ret,
                                       struct crn_errinfo *ei);
void crn_dedup_close(struct crn_dedup *d); /* NULL is allowed */

/* What to do with the next n bytes: seen is CRN_BLOCK_NEW, or where the same bytes lie among the new
 * ones (the new bytes of all blocks, one after the other). */
typedef cairn_err crn_dedup_sink(void *ctx, const unsigned char *bytes, size_t n, uint64_t seen,
                                 struct crn_errinfo *ei);
/* Cuts n bytes; neighbours of one kind may come as one. An error of the sink ends it. */
CAIRN_CHECKED cairn_err crn_dedup_put(struct crn_dedup *d, const void *bytes, size_t n,
                                      crn_dedup_sink *sink, void *ctx, struct crn_errinfo *ei);
/* Bytes that went in, and how many of them were new. */
void crn_dedup_stats(const struct crn_dedup *d, uint64_t *ret_bytes, uint64_t *ret_new);

/* How a stream comes from its new bytes: one item after the other, `bytes` from `source` on. Sources
 * reach at most to where the next new byte is, so that all new bytes occur, in order. */
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

/* Appends; joins what is adjacent. seen as above. */
CAIRN_CHECKED cairn_err crn_map_add(struct crn_map *m, uint64_t bytes, uint64_t seen,
                                    struct crn_errinfo *ei);
void crn_map_free(struct crn_map *m);
/* varint count, then for each item varint bytes, varint (new bytes so far - source). */
void crn_map_encode(const struct crn_map *m, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_map_decode(struct crn_view *v, struct crn_map *ret,
                                       struct crn_errinfo *ei);

#endif
