/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables inside files of other formats: which bytes of a file are arrays of which elements. All other
 * bytes are plain. A list never claims more than the file has and no byte twice, so whoever takes the
 * extents and the bytes between them has the file, whatever the readers made of it. What is not
 * understood (foreign, damaged, still growing) has no extents; nothing here is an error.
 *
 * Known: HDF5 (and netCDF-4, which is HDF5) through a program of its own, netCDF classic. */
#ifndef CRN_EXTENTS_H
#define CRN_EXTENTS_H

#include "base/buf.h"
#include "base/fs.h"
#include "format/format.h"

#define CRN_EXTENT_MIN  256               /* bytes; smaller arrays stay plain */
#define CRN_EXTENTS_MAX ((size_t)1 << 16) /* of one file; more stay plain */

/* Consecutive elements in row-major order: a whole array, a chunk of it, or one of its records. */
struct crn_file_extent {
    const char *key; /* "group/name", as the name of a region; owned by the list */
    uint64_t offset; /* in the file */
    uint64_t bytes;
    /* Of little-endian elements. Big-endian ones are unsigned integers of their width: no predictor may
     * take them for numbers before they are swapped. */
    cairn_type type;
    uint8_t is_big_endian;
    uint8_t ndims;
    uint64_t dims[CAIRN_MAX_DIMS];
};

struct crn_file_extents {
    struct crn_file_extent *v; /* owned; by offset, none overlap */
    size_t n, room;
    char **key; /* owned */
    size_t nkeys, keys_room;
    int failed; /* out of memory */
};

/* The variables of an open file. hdf5: the program cairn-hdf5-extents, by its path or as one of PATH; NULL:
 * HDF5 files are plain. */
void crn_extents_read(const struct crn_fs *fs, int fd, const char *hdf5,
                      struct crn_file_extents *ret);
void crn_extents_free(struct crn_file_extents *x);

/* For the readers. ---------------------------------------------------------------------------------- */

/* A name as a key: unprintable bytes replaced, clipped with a hash. NULL for want of memory. */
const char *crn_extents_key(struct crn_file_extents *x, const char *name, size_t n);
/* Adds an extent. More than CAIRN_MAX_DIMS dims: the outer ones become one. bytes follow from dims. An
 * extent that cannot be is left out. */
void crn_extents_add(struct crn_file_extents *x, const char *key, cairn_type type,
                     int is_big_endian, uint64_t offset, const uint64_t *dims, unsigned ndims);
/* Sorts, and drops what overlaps or lies outside the file. */
void crn_extents_finish(struct crn_file_extents *x, uint64_t file_bytes);

/* Parses the header of a netCDF classic file (CDF-1, 2, 5) of which the first n bytes are there. 0, or -1
 * if it does not end within them. */
int crn_extents_netcdf(const void *header, size_t n, uint64_t file_bytes,
                       struct crn_file_extents *ret);

/* What cairn-hdf5-extents writes: all extents, then an end mark. Decoding takes every byte as hostile; 0, or
 * -1 if it is not whole. */
void crn_extents_encode(const struct crn_file_extents *x, struct crn_buf *buf);
int crn_extents_decode(const void *data, size_t n, struct crn_file_extents *ret);
/* Runs the program on an open file; what it does not answer in time and whole is no extent. */
void crn_extents_hdf5(const char *program, int fd, struct crn_file_extents *ret);

#endif
