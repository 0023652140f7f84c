/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading data files: trailer, index, chain, verified chunks. All input is untrusted. For this
 * folder and for restart. */
#ifndef CRN_STORE_DATA_H
#define CRN_STORE_DATA_H

#include "base/fs.h"
#include "format/format.h"

/* State for reading encoded data files: scratch memory, the last stream, decoded chunks to which reads
 * may return (32 MiB), and descriptors of a few bases. One thread at a time. It may
 * read any number of files in turn, as long as their indexes and chains live. NULL until first
 * needed. */
struct crn_decoder;
/* One that keeps more decoded chunks, for readers that go through the ranks in turn. */
CAIRN_CHECKED cairn_err crn_decoder_open(size_t cache_bytes, struct crn_decoder **ret,
                                         struct crn_errinfo *ei);
void crn_decoder_free(struct crn_decoder *d); /* d may be NULL */

/* The older data files that a file is encoded against, with the necessary data of their indexes. */
struct crn_base_chain;
void crn_base_chain_free(struct crn_base_chain *c); /* c may be NULL */

/* A data file being read. All members are borrowed. */
struct crn_data_file {
    const struct crn_fs *fs;
    int fd;
    int dfd; /* its directory, from which bases are opened; may be -1 without a chain */
    const struct crn_index *index;
    const struct crn_base_chain *chain; /* NULL: the index has no bases */
    const char *what;                   /* in messages */
};

/* Opens dfd/file for reading and decodes its trailer. what names the file in messages.
 * CAIRN_EDAMAGED if the file was never finished or is damaged. */
CAIRN_CHECKED cairn_err crn_data_open(const struct crn_fs *fs, int dfd, const char *file,
                                      const char *what, int *ret_fd, uint64_t *ret_bytes,
                                      struct crn_trailer *ret, struct crn_errinfo *ei);
/* Reads the index that the trailer points to. Every extent lies before the index. */
CAIRN_CHECKED cairn_err crn_data_index(const struct crn_fs *fs, int fd, const struct crn_trailer *t,
                                       const char *what, struct crn_index *ret,
                                       struct crn_errinfo *ei);
/* Reads the indexes of the bases of x, a file in dfd; x must outlive the chain. *ret is NULL if
 * there are no bases. CAIRN_EDAMAGED, naming version and file, if a base is missing, damaged or the
 * wrong file. */
CAIRN_CHECKED cairn_err crn_base_chain_load(const struct crn_fs *fs, int dfd,
                                            const struct crn_index *x, const char *what,
                                            struct crn_base_chain **ret, struct crn_errinfo *ei);
/* The same as bytes, for processes that have x and should not read the bases' indexes again. */
CAIRN_CHECKED cairn_err crn_base_chain_encode(const struct crn_base_chain *c, struct crn_buf *buf,
                                              struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_base_chain_decode(struct crn_view *v, const struct crn_index *x,
                                              const char *what, struct crn_base_chain **ret,
                                              struct crn_errinfo *ei);

/* The size of a chunk of an extent: at most chunk_bytes. */
size_t crn_data_chunk_bytes(const struct crn_index *x, const struct crn_extent *e, uint64_t chunk);
/* Reads a whole chunk into buf and verifies its checksum. The error names rank, region and offset,
 * and the base if the base is damaged. */
CAIRN_CHECKED cairn_err crn_data_chunk(const struct crn_data_file *f, const struct crn_extent *e,
                                       uint64_t chunk, struct crn_decoder **decoder, void *buf,
                                       struct crn_errinfo *ei);
/* Reads bytes [at, at + n) of the decoded streams; the range lies in one stream. Verifies only the
 * checksums of the stream chunks. */
CAIRN_CHECKED cairn_err crn_data_decoded(const struct crn_data_file *f, uint64_t at, void *dst,
                                         size_t n, struct crn_decoder **decoder,
                                         struct crn_errinfo *ei);
/* Verifies a chunk that was read already. */
CAIRN_CHECKED cairn_err crn_data_check(const struct crn_index *x, const struct crn_extent *e,
                                       uint64_t chunk, const void *buf, const char *what,
                                       struct crn_errinfo *ei);
/* Reads and verifies all chunks of a file in file order. Stops at the first bad chunk. With tell it
 * continues, and calls tell after each chunk; why is NULL if the chunk is good. */
typedef void crn_data_tell(void *arg, const struct crn_extent *e, uint64_t chunk,
                           const struct crn_errinfo *why);
CAIRN_CHECKED cairn_err crn_data_verify(const struct crn_data_file *f, crn_data_tell *tell,
                                        void *arg, struct crn_errinfo *ei);
/* The ranges of ranks of an index, in the form of the manifest; malloc'ed. */
CAIRN_CHECKED cairn_err crn_data_ranges(const struct crn_index *x, struct crn_rank_range **ret,
                                        uint32_t *ret_n, struct crn_errinfo *ei);

#endif
