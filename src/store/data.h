/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading data files: trailer, index, chain, verified chunks. Everything read is hostile. For this
 * folder and for restart. */
#ifndef CRN_STORE_DATA_H
#define CRN_STORE_DATA_H

#include "base/fs.h"
#include "format/format.h"

/* What reading encoded data files needs: scratch memory, the stream that was read last and its last
 * chunk, so that neighbours are decoded once, and descriptors of a few bases. One thread at a time; any
 * number of files in turn, as long as their indexes and chains live. NULL until it is first needed. */
struct crn_decoder;
void crn_decoder_free(struct crn_decoder *d); /* NULL is fine */

/* The older data files that one was encoded against: what is needed of their indexes. */
struct crn_base_chain;
void crn_chain_free(struct crn_base_chain *c); /* NULL is fine */

/* A data file that is being read. All of it is borrowed. */
struct crn_data_file {
    const struct crn_fs *fs;
    int fd;
    int dfd; /* its directory: bases are found from there; -1 will do without a chain */
    const struct crn_index *index;
    const struct crn_base_chain *chain; /* NULL: the index has no bases */
    const char *what;                   /* in messages */
};

/* Opens dfd/file for reading and decodes its trailer. what names the file in messages.
 * CAIRN_EDAMAGED if the file was never finished or is damaged. */
CAIRN_CHECKED cairn_err crn_data_open(const struct crn_fs *fs, int dfd, const char *file,
                                      const char *what, int *ret_fd, uint64_t *ret_bytes,
                                      struct crn_trailer *ret, struct crn_errinfo *ei);
/* Reads the index that the trailer points to; every extent lies before it. */
CAIRN_CHECKED cairn_err crn_data_index(const struct crn_fs *fs, int fd, const struct crn_trailer *t,
                                       const char *what, struct crn_index *ret,
                                       struct crn_errinfo *ei);
/* Reads the indexes of the bases of x, a file in dfd; x must outlive the chain. NULL if there are none.
 * CAIRN_EDAMAGED, naming version and file, for a base that is missing, damaged or another one. */
CAIRN_CHECKED cairn_err crn_chain_load(const struct crn_fs *fs, int dfd, const struct crn_index *x,
                                       const char *what, struct crn_base_chain **ret,
                                       struct crn_errinfo *ei);
/* The same as bytes, for processes that have x and need not read the bases' indexes again. */
CAIRN_CHECKED cairn_err crn_chain_encode(const struct crn_base_chain *c, struct crn_buf *buf,
                                         struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_chain_decode(struct crn_view *v, const struct crn_index *x,
                                         const char *what, struct crn_base_chain **ret,
                                         struct crn_errinfo *ei);

/* The bytes of a chunk of an extent: at most chunk_bytes. */
size_t crn_data_chunk_bytes(const struct crn_index *x, const struct crn_extent *e, uint64_t chunk);
/* Reads a whole chunk into buf and checks its checksum. The error names rank, region and place, and
 * the base if that is what is damaged. */
CAIRN_CHECKED cairn_err crn_data_chunk(const struct crn_data_file *f, const struct crn_extent *e,
                                       uint64_t chunk, struct crn_decoder **decoder, void *buf,
                                       struct crn_errinfo *ei);
/* Bytes [at, at + n) of the streams of an encoded file, which lie in one of them; only the checksums of
 * their chunks are checked. */
CAIRN_CHECKED cairn_err crn_data_decoded(const struct crn_data_file *f, uint64_t at, void *dst,
                                         size_t n, struct crn_decoder **decoder,
                                         struct crn_errinfo *ei);
/* Checks a chunk that has been read already. */
CAIRN_CHECKED cairn_err crn_data_check(const struct crn_index *x, const struct crn_extent *e,
                                       uint64_t chunk, const void *buf, const char *what,
                                       struct crn_errinfo *ei);
/* Reads all chunks of a file, in the order in which they lie there, and checks them. Ends with the
 * first that is bad; with tell it goes on, and says after each one whether it is good (why is NULL). */
typedef void crn_data_tell(void *arg, const struct crn_extent *e, uint64_t chunk,
                           const struct crn_errinfo *why);
CAIRN_CHECKED cairn_err crn_data_verify(const struct crn_data_file *f, crn_data_tell *tell,
                                        void *arg, struct crn_errinfo *ei);
/* Ranges of ranks of an index, as the manifest has them; malloc'ed. */
CAIRN_CHECKED cairn_err crn_data_ranges(const struct crn_index *x, struct crn_rank_range **ret,
                                        uint32_t *ret_n, struct crn_errinfo *ei);

#endif
