/* SPDX-License-Identifier: BSD-3-Clause */
/* A committed version, opened for reading: manifest -> index -> verified bytes. Every byte that it
 * hands out has passed its chunk's checksum. Indexes are loaded on first use and cached. One thread
 * at a time, except crn_version_check_file: after crn_version_load_all any number of threads may
 * call it on one version at once. */
#ifndef CRN_RESTART_VERSION_H
#define CRN_RESTART_VERSION_H

#include "restart/slice.h"
#include "store/store.h"

struct crn_base_chain; /* store/data.h */
struct crn_version;    /* opaque */

CAIRN_CHECKED cairn_err crn_version_open(const struct crn_store *st, const char *name,
                                         int64_t version, struct crn_version **ret,
                                         struct crn_errinfo *ei);
/* The same from data that another process has read: the manifest, then for each file its index and
 * chain, or the reason why there is none. Takes ownership of all three. Opens nothing until data
 * has to be read. */
CAIRN_CHECKED cairn_err crn_version_adopt(const struct crn_fs *fs, const char *root,
                                          struct crn_manifest *m, struct crn_version **ret,
                                          struct crn_errinfo *ei);
void crn_version_tell(struct crn_version *v, uint32_t file_no, struct crn_index *x,
                      struct crn_base_chain *chain);
void crn_version_tell_failure(struct crn_version *v, uint32_t file_no,
                              const struct crn_errinfo *failure);
/* Keeps so many bytes of decoded chunks of encoded files, instead of 32 MiB. Before the first read. */
CAIRN_CHECKED cairn_err crn_version_keep(struct crn_version *v, size_t bytes,
                                         struct crn_errinfo *ei);
void crn_version_close(struct crn_version *v); /* v may be NULL */
const struct crn_manifest *crn_version_manifest(const struct crn_version *v);
/* 0: the version was removed or replaced since it was opened, so a failure to read it says nothing.
 * 1: it is still there, or nobody knows. */
int crn_version_is_current(const struct crn_version *v);

/* Adds a node-local data file of the same capture. Its shards are read from it first, and from the
 * persistent file where it fails. Opens dfd/file now; the name may be removed later.
 * CAIRN_EMISMATCH if it belongs to another capture. */
CAIRN_CHECKED cairn_err crn_version_add_copy(struct crn_version *v, int dfd, const char *file,
                                             struct crn_errinfo *ei);

/* The number of copies; whether one of them has the shard of the rank. */
uint32_t crn_version_copies(const struct crn_version *v);
int crn_version_has_copy(const struct crn_version *v, uint32_t rank);
/* Is the data of a file, whose index is loaded, encoded? */
int crn_version_is_encoded(const struct crn_version *v, uint32_t file_no);
/* The file that holds the shard of a rank. */
uint32_t crn_version_file_of(const struct crn_version *v, uint32_t rank);

/* The first failure of a copy or file that another source repaired; NULL if there was none. The
 * caller logs it. */
const struct crn_errinfo *crn_version_repaired(const struct crn_version *v);

/* Loads all indexes. Continues after a failure and returns the first one; crn_version_check_file
 * reports the others. */
CAIRN_CHECKED cairn_err crn_version_load_all(struct crn_version *v, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_index(struct crn_version *v, uint32_t file_no,
                                          const struct crn_index **ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_shard(struct crn_version *v, uint32_t rank,
                                          const struct crn_shard **ret, struct crn_errinfo *ei);

/* Reads bytes [offset, offset+bytes) of a region. Chunks are read whole and verified; bytes that
 * one source cannot deliver come from the next. The error names version, rank, region and file
 * offset; dst is then undefined. */
CAIRN_CHECKED cairn_err crn_version_read(struct crn_version *v, uint32_t rank, uint32_t region,
                                         uint64_t offset, uint64_t bytes, void *dst,
                                         struct crn_errinfo *ei);
/* Reads the block dims at offset of the global array of this name, from any set of stored blocks.
 * want->type, ndims, dims, global_dims and offset must be set (is_global). CAIRN_EMISMATCH if type
 * or global shape differ, or if no rank stored some element. */
CAIRN_CHECKED cairn_err crn_version_read_block(struct crn_version *v, const struct crn_region *want,
                                               void *dst, struct crn_errinfo *ei);

/* The same without reading: calls fn with the slices that the block consists of, in order of the
 * ranks that stored them. Their `to` counts from the start of the block. */
typedef cairn_err (*crn_slice_fn)(void *arg, const struct crn_slice *part, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_plan_block(struct crn_version *v, const struct crn_region *want,
                                               crn_slice_fn fn, void *arg, struct crn_errinfo *ei);

/* Verification. Calls bad for each bad chunk (rank, region name or "" for all, text) and progress
 * after every chunk with the bytes checked so far; both may be NULL. CAIRN_EDAMAGED if anything is
 * bad. */
struct crn_check_events {
    void (*bad)(void *arg, uint32_t rank, const char *region, const char *text);
    void (*progress)(void *arg, uint64_t bytes);
    void *arg;
};
CAIRN_CHECKED cairn_err crn_version_check_file(struct crn_version *v, uint32_t file_no,
                                               const struct crn_check_events *ev,
                                               struct crn_errinfo *ei);
/* Verifies the shard of one rank, from the sources that crn_version_read would use. */
CAIRN_CHECKED cairn_err crn_version_check_rank(struct crn_version *v, uint32_t rank,
                                               const struct crn_check_events *ev,
                                               struct crn_errinfo *ei);

#endif
