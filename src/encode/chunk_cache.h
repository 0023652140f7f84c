/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoded chunks, kept for readers that return to them: small variables of many ranks share chunks. The
 * one unused for longest goes first. One thread at a time. */
#ifndef CRN_CACHE_H
#define CRN_CACHE_H

#include <stddef.h>
#include <stdint.h>

struct crn_chunk_cache_key {
    uint64_t domain; /* the stream, and what older versions it needs */
    uint64_t hash;   /* of the encoded bytes */
    uint64_t offset; /* in the stream */
    uint32_t bytes;
};

struct crn_chunk_cache;

struct crn_chunk_cache *crn_chunk_cache_new(size_t most_bytes); /* NULL: out of memory */
void crn_chunk_cache_free(struct crn_chunk_cache *c);           /* NULL is allowed */
/* The bytes, or NULL. They stay until crn_chunk_cache_room is called. */
const unsigned char *crn_chunk_cache_find(struct crn_chunk_cache *c,
                                          struct crn_chunk_cache_key key);
/* Space for the bytes of a new entry, or NULL if it does not fit. */
unsigned char *crn_chunk_cache_room(struct crn_chunk_cache *c, struct crn_chunk_cache_key key);
/* The entry that was made last could not be filled. */
void crn_chunk_cache_drop(struct crn_chunk_cache *c);

#endif
