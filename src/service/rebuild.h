/* SPDX-License-Identifier: BSD-3-Clause */
/* Rebuilds data files of lost nodes in the store. A drain of each surviving node brings its own data
 * file and its parity there; the drain that finds enough of a set rebuilds what is missing. Every
 * step may be repeated: after a crash the next drain begins again, under new names. */
#ifndef CRN_SERVICE_REBUILD_H
#define CRN_SERVICE_REBUILD_H

#include "service/nodefile.h"
#include "store/store.h"

/* Opens a parity file and reads its head. CAIRN_EDAMAGED if it is not whole. Free ret with
 * crn_parity_free, and close the descriptor. */
CAIRN_CHECKED cairn_err crn_rebuild_load(const struct crn_fs *fs, int dfd, const char *file,
                                         const char *what, struct crn_parity *ret, int *ret_fd,
                                         struct crn_errinfo *ei);
/* Writes the stream of this node as its data file of the version, durably. */
CAIRN_CHECKED cairn_err crn_rebuild_raise_data(const struct crn_store *st,
                                               const struct crn_nodefile *f,
                                               char ret_file[CRN_FILE_NAME],
                                               struct crn_errinfo *ei);
/* Copies a parity file, whose head is p, to the version, durably. */
CAIRN_CHECKED cairn_err crn_rebuild_raise_parity(const struct crn_store *st,
                                                 const struct crn_parity *p, int from,
                                                 struct crn_errinfo *ei);
/* What was rebuilt, for people: "node 2 from 0+1+3 (xor)". */
struct crn_rebuilt {
    uint32_t files;
    char text[200];
};
/* Rebuilds the data files of this capture that are missing or damaged, as far as there is enough of their
 * sets. The caller has the writer's lock. */
CAIRN_CHECKED cairn_err crn_rebuild_version(const struct crn_store *st, const char *name,
                                            int64_t version, const struct crn_capture_id *id,
                                            struct crn_rebuilt *ret, struct crn_errinfo *ei);
/* The version is committed: its parity has no meaning any more. Best effort; a sweep removes the
 * rest. */
void crn_rebuild_clean(const struct crn_store *st, const char *name, int64_t version);

#endif
