/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables inside files of other formats: which bytes of a file are arrays of which elements. All
 * other bytes are plain. A list never exceeds the file and never claims a byte twice, so the
 * extents and the bytes between them always make up the file. A file that is not understood
 * (foreign, damaged, still growing) has no extents; that is not an error.
 *
 * Known formats: HDF5 (and netCDF-4, which is HDF5) through a separate program, netCDF classic,
 * safetensors, NumPy's .npy and .npz, and the files of PyTorch. */
#ifndef CRN_EXTENTS_H
#define CRN_EXTENTS_H

#include "base/buf.h"
#include "base/fs.h"
#include "format/format.h"

#define CRN_EXTENT_MIN  256               /* bytes; smaller arrays stay plain */
#define CRN_EXTENTS_MAX ((size_t)1 << 16) /* per file; further ones stay plain */

/* Consecutive elements in row-major order: a whole array, a chunk of it, or one of its records. */
struct crn_file_extent {
    const char *key; /* "group/name", used like the name of a region; owned by the list */
    uint64_t offset; /* in the file */
    uint64_t bytes;
    /* The type of little-endian elements. Big-endian elements are listed as unsigned integers of
     * their width, so that no predictor takes them for numbers before they are swapped. */
    cairn_type type;
    uint8_t is_big_endian;
    uint8_t ndims;
    uint64_t dims[CAIRN_MAX_DIMS];
};

struct crn_file_extents {
    struct crn_file_extent *v; /* owned; sorted by offset, without overlap */
    size_t n, room;
    char **key; /* owned */
    size_t nkeys, keys_room;
    int failed; /* out of memory */
};

/* The variables of an open file. hdf5: path of the program cairn-hdf5-extents, or its name in
 * PATH; NULL: HDF5 files are plain. */
void crn_extents_read(const struct crn_fs *fs, int fd, const char *hdf5,
                      struct crn_file_extents *ret);
void crn_extents_free(struct crn_file_extents *x);

/* For the readers. ----------------------------------------------------------------------------- */

/* Turns a name into a key: replaces unprintable bytes, and clips long names with a hash. NULL if
 * out of memory. */
const char *crn_extents_key(struct crn_file_extents *x, const char *name, size_t n);
/* Adds an extent. With more than CAIRN_MAX_DIMS dims, the outer ones are joined. bytes follow
 * from dims. An invalid extent is omitted. */
void crn_extents_add(struct crn_file_extents *x, const char *key, cairn_type type,
                     int is_big_endian, uint64_t offset, const uint64_t *dims, unsigned ndims);
/* Sorts the list, and drops extents that overlap or lie outside the file. */
void crn_extents_finish(struct crn_file_extents *x, uint64_t file_bytes);

/* Parses the header of a netCDF classic file (CDF-1, 2, 5) from the file's first n bytes. 0, or
 * -1 if the header does not end within them. */
int crn_extents_netcdf(const void *header, size_t n, uint64_t file_bytes,
                       struct crn_file_extents *ret);

/* The same for safetensors. */
int crn_extents_safetensors(const void *header, size_t n, uint64_t file_bytes,
                            struct crn_file_extents *ret);
#define CRN_NPY_HEAD 4096 /* bytes of a header that are looked at */
/* Adds the array of a .npy file that begins at `at`, from its first n bytes. */
void crn_extents_npy(const void *header, size_t n, uint64_t at, const char *name, size_t name_n,
                     struct crn_file_extents *ret);
/* A file to read from: read returns how many bytes it got. */
struct crn_extents_file {
    uint64_t bytes;
    size_t (*read)(const struct crn_extents_file *f, void *buf, size_t n, uint64_t offset);
};
/* The arrays in a zip archive: .npz, PyTorch. */
void crn_extents_zip(const struct crn_extents_file *f, struct crn_file_extents *ret);

/* The output of cairn-hdf5-extents: all extents, then an end mark. Decoding treats it as
 * hostile; 0, or -1 if it is incomplete. */
void crn_extents_encode(const struct crn_file_extents *x, struct crn_buf *buf);
int crn_extents_decode(const void *data, size_t n, struct crn_file_extents *ret);
/* Runs the program on an open file. A late or incomplete answer gives no extents. */
void crn_extents_hdf5(const char *program, int fd, struct crn_file_extents *ret);

#endif
