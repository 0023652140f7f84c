/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading data files: trailer, index, verified chunks. Everything read is hostile. For this folder
 * and for restart. */
#ifndef CRN_STORE_DATA_H
#define CRN_STORE_DATA_H

#include "base/fs.h"
#include "format/format.h"

/* Opens dfd/file for reading and decodes its trailer. what names the file in messages.
 * CAIRN_EDAMAGED if the file was never finished or is damaged. */
CAIRN_CHECKED cairn_err crn_data_open(const struct crn_fs *fs, int dfd, const char *file,
                                      const char *what, int *ret_fd, uint64_t *ret_bytes,
                                      struct crn_trailer *ret, struct crn_errinfo *ei);
/* Reads the index that the trailer points to; every extent lies before it. */
CAIRN_CHECKED cairn_err crn_data_index(const struct crn_fs *fs, int fd, const struct crn_trailer *t,
                                       const char *what, struct crn_index *ret,
                                       struct crn_errinfo *ei);

/* The bytes of a chunk of an extent: at most chunk_bytes. */
size_t crn_data_chunk_bytes(const struct crn_index *x, const struct crn_extent *e, uint64_t chunk);
/* Reads a whole chunk into buf and checks its checksum. The error names rank, region and place. */
CAIRN_CHECKED cairn_err crn_data_chunk(const struct crn_fs *fs, int fd, const struct crn_index *x,
                                       const struct crn_extent *e, uint64_t chunk, void *buf,
                                       const char *what, struct crn_errinfo *ei);
/* The largest chunk of an index, which is what a buffer for crn_data_chunk needs; at least 1. */
size_t crn_data_buffer_bytes(const struct crn_index *x);

/* Ranges of ranks of an index, as the manifest has them; malloc'ed. */
CAIRN_CHECKED cairn_err crn_data_ranges(const struct crn_index *x, struct crn_rank_range **ret,
                                        uint32_t *ret_n, struct crn_errinfo *ei);

#endif
