/* SPDX-License-Identifier: BSD-3-Clause */
/* A committed version, opened for reading: manifest -> index -> verified bytes. Every byte that it
 * hands out has passed its chunk's checksum. Indexes are loaded when first needed and kept. One
 * thread at a time, except crn_version_check_file, which any number of threads may call on one
 * version at once after crn_version_load_all. */
#ifndef CRN_RESTART_VERSION_H
#define CRN_RESTART_VERSION_H

#include "restart/slice.h"
#include "store/store.h"

struct crn_base_chain; /* store/data.h */
struct crn_version;    /* opaque */

CAIRN_CHECKED cairn_err crn_version_open(const struct crn_store *st, const char *name,
                                         int64_t version, struct crn_version **ret,
                                         struct crn_errinfo *ei);
/* The same with what another process has read: the manifest (taken over), and the index of a file with
 * its chain (taken over), or why there is none. Nothing is opened before something has to be read. */
CAIRN_CHECKED cairn_err crn_version_adopt(const struct crn_fs *fs, const char *root,
                                          struct crn_manifest *m, struct crn_version **ret,
                                          struct crn_errinfo *ei);
void crn_version_tell(struct crn_version *v, uint32_t file_no, struct crn_index *x,
                      struct crn_base_chain *chain);
void crn_version_tell_failure(struct crn_version *v, uint32_t file_no,
                              const struct crn_errinfo *failure);
void crn_version_close(struct crn_version *v); /* NULL is fine */
const struct crn_manifest *crn_version_manifest(const struct crn_version *v);

/* A node-local data file of the same capture: shards that it holds are read from it first, and from
 * the persistent file where it fails. Takes dfd/file as it is now; CAIRN_EMISMATCH if it is of
 * another capture. */
CAIRN_CHECKED cairn_err crn_version_add_copy(struct crn_version *v, int dfd, const char *file,
                                             struct crn_errinfo *ei);

/* How many copies there are; 1 if one of them has the shard of the rank. */
uint32_t crn_version_copies(const struct crn_version *v);
int crn_version_has_copy(const struct crn_version *v, uint32_t rank);
/* The file that holds the shard of a rank. */
uint32_t crn_version_file_of(const struct crn_version *v, uint32_t rank);

/* The first failure of a copy or file that another one made good; NULL if there was none. Whoever
 * reads says so in the log. */
const struct crn_errinfo *crn_version_repaired(const struct crn_version *v);

/* All indexes. Goes on after a failure and returns the first; crn_version_check_file tells the
 * rest. */
CAIRN_CHECKED cairn_err crn_version_load_all(struct crn_version *v, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_index(struct crn_version *v, uint32_t file_no,
                                          const struct crn_index **ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_shard(struct crn_version *v, uint32_t rank,
                                          const struct crn_shard **ret, struct crn_errinfo *ei);

/* Reads bytes [offset, offset+bytes) of a region. Chunks are read whole and verified; what one copy
 * cannot give is taken from the next. The error names version, rank, region and file offset; dst is
 * undefined then. */
CAIRN_CHECKED cairn_err crn_version_read(struct crn_version *v, uint32_t rank, uint32_t region,
                                         uint64_t offset, uint64_t bytes, void *dst,
                                         struct crn_errinfo *ei);
/* Reads the block dims at offset of the global array of this name, from whatever blocks were
 * stored. want->type, ndims, dims, global_dims and offset must be set (is_global). CAIRN_EMISMATCH
 * if type or global shape differ, or some element was stored by no rank. */
CAIRN_CHECKED cairn_err crn_version_read_block(struct crn_version *v, const struct crn_region *want,
                                               void *dst, struct crn_errinfo *ei);

/* The same without reading: tells fn, in the order of old ranks, the parts that the block is made of,
 * to counted from its start. */
typedef cairn_err (*crn_slice_fn)(void *arg, const struct crn_slice *part, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_plan_block(struct crn_version *v, const struct crn_region *want,
                                               crn_slice_fn fn, void *arg, struct crn_errinfo *ei);

/* Verification. bad is called for each bad place (rank, region name or "" for all, text), progress
 * after every chunk with the bytes checked so far; both may be NULL. CAIRN_EDAMAGED if anything was
 * bad. */
struct crn_check_events {
    void (*bad)(void *arg, uint32_t rank, const char *region, const char *text);
    void (*progress)(void *arg, uint64_t bytes);
    void *arg;
};
CAIRN_CHECKED cairn_err crn_version_check_file(struct crn_version *v, uint32_t file_no,
                                               const struct crn_check_events *ev,
                                               struct crn_errinfo *ei);
/* The shard of one rank, from wherever crn_version_read would take it. */
CAIRN_CHECKED cairn_err crn_version_check_rank(struct crn_version *v, uint32_t rank,
                                               const struct crn_check_events *ev,
                                               struct crn_errinfo *ei);

#endif
