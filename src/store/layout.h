/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and paths in a store. Inside src/store only. */
#ifndef CRN_STORE_LAYOUT_H
#define CRN_STORE_LAYOUT_H

#include "store/store.h"

#define CRN_MANIFEST "manifest"
#define CRN_PIN      "pin"
#define CRN_BAD      "bad"
#define CRN_REMOVED                                                                                \
    "removed" /* the manifest of a version that was removed, until its files are gone */
#define CRN_WRITER       ".writer"
#define CRN_NUMBER       ".generation"
#define CRN_REMOVED_LIST ".removed"

/* A path for messages: "<root>/<name>/<version>/<file>"; file may be NULL. */
struct crn_where {
    char text[400];
};
struct crn_where crn_where(const struct crn_store *st, const char *name, int64_t version,
                           const char *file);

#define CRN_VERSION_TEXT 24
void crn_version_text(int64_t version, char ret[CRN_VERSION_TEXT]);
/* Accepts exactly the output of crn_version_text. Returns 0 or -1. */
int crn_version_parse(const char *text, int64_t *ret);
/* Is it ".manifest.0123abcd.tmp", or the same for a mark? crn_fs_replace leaves such files on a
 * crash. */
int crn_store_is_temp_name(const char *name);

/* "stats-0000.1" for "data-0000.1". */
void crn_stats_name(const char *data_file, char ret[CRN_FILE_NAME]);
/* The data file that a statistics file belongs to. Returns 0 or -1. */
int crn_stats_name_parse(const char *name, char ret_data_file[CRN_FILE_NAME]);

/* Opens the directory of a name; CAIRN_ENOENT if it does not exist. */
CAIRN_CHECKED cairn_err crn_store_name_dir(const struct crn_store *st, const char *name,
                                           int *ret_dfd, struct crn_errinfo *ei);
/* Removes the directory of a version if it is empty. It is not if other versions need a file, or if
 * a capture is being written. */
CAIRN_CHECKED cairn_err crn_store_remove_empty(const struct crn_store *st, const char *name,
                                               int64_t version, struct crn_errinfo *ei);
/* Creates and opens the directory of a name and its .writer, which marks the directory as
 * Cairn's. */
CAIRN_CHECKED cairn_err crn_store_make_name(const struct crn_store *st, const char *name,
                                            int *ret_dfd, struct crn_errinfo *ei);
/* Reads and checks the manifest in a version's directory. CAIRN_ENOENT if there is none. */
CAIRN_CHECKED cairn_err crn_store_read_manifest(const struct crn_store *st, int dfd,
                                                const char *name, int64_t version,
                                                struct crn_manifest *ret, struct crn_errinfo *ei);
/* The same for another file that contains a manifest (CRN_REMOVED), without retrying for late
 * visibility. */
CAIRN_CHECKED cairn_err crn_store_read_head(const struct crn_store *st, int dfd, const char *file,
                                            const char *name, int64_t version,
                                            struct crn_manifest *ret, struct crn_errinfo *ei);
/* Is the version marked as bad? The reason goes to why. An unreadable mark counts: an older version
 * is better than a bad one. */
CAIRN_CHECKED cairn_err crn_store_is_bad(const struct crn_store *st, int dfd,
                                         const struct crn_capture_id *id, int *ret_is_bad,
                                         char *why, size_t why_size, struct crn_errinfo *ei);
/* crn_store_check_pin in the directory of the version. */
CAIRN_CHECKED cairn_err crn_store_refuse_pinned(const struct crn_store *st, int dfd,
                                                const char *name, int64_t version,
                                                const struct crn_capture_id *id,
                                                struct crn_errinfo *ei);
/* The versions of a name, ascending; malloc'ed. */
CAIRN_CHECKED cairn_err crn_store_versions(const struct crn_store *st, int name_dfd,
                                           const char *name, int64_t **ret, size_t *ret_n,
                                           struct crn_errinfo *ei);
/* The data files that manifests of a name refer to, as their own or in a chain. */
struct crn_named_file {
    int64_t version; /* in whose directory it lies */
    int64_t by;      /* one of the versions that name it */
    char file[CRN_FILE_NAME];
};
struct crn_named {
    struct crn_named_file *v; /* sorted */
    size_t n, room;
    int is_unknown; /* a newer Cairn wrote one of the manifests: any file may be named */
};
/* Loads all manifests except that of version `except` (-1: all). A system error while
 * reading one is an error; a damaged manifest is ignored. */
CAIRN_CHECKED cairn_err crn_named_load(const struct crn_store *st, const char *name, int64_t except,
                                       struct crn_named *ret, struct crn_errinfo *ei);
void crn_named_free(struct crn_named *n);
int crn_named_has(const struct crn_named *n, int64_t version, const char *file);
/* One version that is known to name it; NULL: none. */
const struct crn_named_file *crn_named_find(const struct crn_named *n, int64_t version,
                                            const char *file);
/* Records a removal for crn_store_was_removed; called before the manifest goes. */
CAIRN_CHECKED cairn_err crn_store_note_removed(const struct crn_store *st, const char *name,
                                               int64_t version, const struct crn_capture_id *id,
                                               struct crn_errinfo *ei);
/* Makes durable that no manifest outside `named` names a data file of the name. Call before
 * removing unnamed files: otherwise an older manifest might reappear after a power loss. */
CAIRN_CHECKED cairn_err crn_store_settle(const struct crn_store *st, const char *name,
                                         const struct crn_named *named, struct crn_errinfo *ei);
/* fsyncs the directory of a version: its publisher may have died before the last fsync. */
CAIRN_CHECKED cairn_err crn_store_sync_version(const struct crn_store *st, const char *name,
                                               int64_t version, struct crn_errinfo *ei);
/* Removes the files of a manifest from its directory, except those in named. */
CAIRN_CHECKED cairn_err crn_store_unlink_files(const struct crn_store *st, int dfd,
                                               const struct crn_manifest *m,
                                               const struct crn_named *named,
                                               struct crn_errinfo *ei);
/* Spares: see spare.c. Keeps the files of a removed manifest as spares, except those in named; best
 * effort. */
void crn_spare_keep(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                    const struct crn_named *named);
/* Renames the spare for a data file over the empty file that was just created. Returns its
 * descriptor; -ENOENT if there is no spare; any other error means that the empty file is gone
 * too. */
int crn_spare_take(const struct crn_store *st, const char *name, int dfd, uint32_t file_no,
                   const char *file);
/* Removes all spares of a name, or counts them. dfd: the directory of the name. */
CAIRN_CHECKED cairn_err crn_spares_remove(const struct crn_store *st, const char *name, int dfd,
                                          int dry_run, struct crn_sweep_result *res,
                                          struct crn_errinfo *ei);

/* Checks that every base in the chains of a manifest exists and has its size. dfd: the version's
 * directory. */
CAIRN_CHECKED cairn_err crn_store_check_bases(const struct crn_store *st, int dfd,
                                              const struct crn_manifest *m, struct crn_errinfo *ei);

#endif
