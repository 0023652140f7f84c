/* SPDX-License-Identifier: BSD-3-Clause */
/* The data file of one node as a stream of bytes: shards in the order of their ranks, then index and
 * trailer. The stream exists nowhere; its bytes are read out of the arenas. Parity is made of it, and
 * a drain writes it, so that a rebuilt stream is a data file. */
#ifndef CRN_SERVICE_NODEFILE_H
#define CRN_SERVICE_NODEFILE_H

#include "aggregate/source.h"
#include "base/fs.h"

struct crn_nodefile {
    const struct crn_fs *fs;     /* reads spilled images and files */
    struct crn_source *sources;  /* owned array of borrowed sources, by rank */
    struct crn_index index;      /* its shards are borrowed if it was opened, owned if reopened */
    const struct crn_extent *at; /* its extents, by file_offset */
    uint64_t bytes;              /* of the whole stream */
    uint64_t tail_bytes;
    uint64_t index_hash;
    unsigned char *tail; /* index and trailer */
};

/* head: as for crn_engine_write. Computes the checksums that the capture did not take. The sources
 * must outlive the stream. block_bytes: the longest extent. */
CAIRN_CHECKED cairn_err crn_nodefile_open(const struct crn_fs *fs, const struct crn_index *head,
                                          const struct crn_source *sources, uint32_t nsources,
                                          uint64_t block_bytes, uint64_t chunk_bytes,
                                          struct crn_nodefile *ret, struct crn_errinfo *ei);
/* The same stream again, from its end. CAIRN_EDAMAGED if the sources are other ones. */
CAIRN_CHECKED cairn_err crn_nodefile_reopen(const struct crn_fs *fs, const void *tail,
                                            uint64_t tail_bytes, const struct crn_source *sources,
                                            uint32_t nsources, const char *what,
                                            struct crn_nodefile *ret, struct crn_errinfo *ei);
void crn_nodefile_close(struct crn_nodefile *f); /* may be repeated */
/* The chunk that begins at a position: 1, or 0 after the last one. */
struct crn_node_chunk {
    uint32_t rank;
    struct crn_extent extent; /* region, offset and bytes of the chunk */
    uint64_t bytes, hash;
};
int crn_nodefile_chunk(const struct crn_nodefile *f, uint64_t at, struct crn_node_chunk *ret);
/* The address of a range in memory; NULL if it is not in one piece there. */
const unsigned char *crn_nodefile_memory(const struct crn_nodefile *f, uint64_t at, uint64_t bytes);
/* Any thread; several at once. The range lies in the stream. */
CAIRN_CHECKED cairn_err crn_nodefile_read(const struct crn_nodefile *f, uint64_t at, uint64_t bytes,
                                          unsigned char *dst, struct crn_errinfo *ei);

#endif
