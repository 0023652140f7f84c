/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and places in a store. Inside src/store only. */
#ifndef CRN_STORE_LAYOUT_H
#define CRN_STORE_LAYOUT_H

#include "store/store.h"

#define CRN_MANIFEST "manifest"
#define CRN_PIN      "pin"
#define CRN_BAD      "bad"
#define CRN_REMOVED                                                                                \
    "removed" /* the manifest of a version that was removed, until its files are gone */
#define CRN_WRITER ".writer"
#define CRN_NUMBER ".generation"

/* Text that names a place in messages: "<root>/<name>/<version>/<file>"; file may be NULL. */
struct crn_where {
    char text[400];
};
struct crn_where crn_where(const struct crn_store *st, const char *name, int64_t version,
                           const char *file);

#define CRN_VERSION_TEXT 24
void crn_version_text(int64_t version, char ret[CRN_VERSION_TEXT]);
/* Takes what crn_version_text gives, nothing else: 0, or -1. */
int crn_version_parse(const char *text, int64_t *ret);
/* ".manifest.0123abcd.tmp" and the same for the marks: what crn_file_replace leaves on a crash. */
int crn_is_temp_name(const char *name);

/* "stats-0000.1" of "data-0000.1". */
void crn_stats_name(const char *data_file, char ret[CRN_FILE_NAME]);
/* The data file that such a name belongs to: 0, or -1. */
int crn_stats_name_parse(const char *name, char ret_data_file[CRN_FILE_NAME]);

/* Opens the directory of a name; CAIRN_ENOENT if it is not there. */
CAIRN_CHECKED cairn_err crn_store_name_dir(const struct crn_store *st, const char *name,
                                           int *ret_dfd, struct crn_errinfo *ei);
/* Removes the directory of a version, if nothing is left in it: others may need a file, or a capture be on its
 * way. */
CAIRN_CHECKED cairn_err crn_store_remove_empty(const struct crn_store *st, const char *name,
                                               int64_t version, struct crn_errinfo *ei);
/* Makes and opens the directory of a name and its .writer, which says that the place is ours. */
CAIRN_CHECKED cairn_err crn_store_make_name(const struct crn_store *st, const char *name,
                                            int *ret_dfd, struct crn_errinfo *ei);
/* Reads and checks the manifest in a version's directory. CAIRN_ENOENT if there is none. */
CAIRN_CHECKED cairn_err crn_store_read_manifest(const struct crn_store *st, int dfd,
                                                const char *name, int64_t version,
                                                struct crn_manifest *ret, struct crn_errinfo *ei);
/* The same of another file that holds a manifest (CRN_REMOVED), with one look. */
CAIRN_CHECKED cairn_err crn_store_read_head(const struct crn_store *st, int dfd, const char *file,
                                            const char *name, int64_t version,
                                            struct crn_manifest *ret, struct crn_errinfo *ei);
/* Is the version marked as bad? The reason goes to why. A mark that cannot be parsed counts: better
 * an older version than a bad one. */
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
/* The data files that manifests of a name name, as their own or in a chain. */
struct crn_named_file {
    int64_t version; /* whose directory it lies in */
    int64_t by;      /* one of the versions that name it */
    char file[CRN_FILE_NAME];
};
struct crn_named {
    struct crn_named_file *v; /* sorted */
    size_t n, room;
    int is_unknown; /* a newer Cairn wrote one of them: any file may be named */
};
/* All manifests but that of version `except` (-1: all). A failure to read one is a failure. */
CAIRN_CHECKED cairn_err crn_named_load(const struct crn_store *st, const char *name, int64_t except,
                                       struct crn_named *ret, struct crn_errinfo *ei);
void crn_named_free(struct crn_named *n);
int crn_named_has(const struct crn_named *n, int64_t version, const char *file);
/* Who is known to name it; NULL: nobody. */
const struct crn_named_file *crn_named_find(const struct crn_named *n, int64_t version,
                                            const char *file);
/* For crn_store_was_removed; before the manifest goes. */
CAIRN_CHECKED cairn_err crn_store_note_removed(const struct crn_store *st, const char *name,
                                               int64_t version, const struct crn_capture_id *id,
                                               struct crn_errinfo *ei);
/* Makes durable that nobody but `named` names a data file of the name, before files go because nobody
 * does: after a power loss an older manifest might. */
CAIRN_CHECKED cairn_err crn_store_settle(const struct crn_store *st, const char *name,
                                         const struct crn_named *named, struct crn_errinfo *ei);
/* Makes durable what is seen of a version: its publisher may have died before the last fsync. */
CAIRN_CHECKED cairn_err crn_store_sync_version(const struct crn_store *st, const char *name,
                                               int64_t version, struct crn_errinfo *ei);
/* Removes the files of a manifest from its directory, except those that are named. */
CAIRN_CHECKED cairn_err crn_store_unlink_files(const struct crn_store *st, int dfd,
                                               const struct crn_manifest *m,
                                               const struct crn_named *named,
                                               struct crn_errinfo *ei);
/* Spares: see spare.c. Keeps the files of a removed manifest, except those that are named; best effort. */
void crn_spare_keep(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                    const struct crn_named *named);
/* Puts the spare for a data file in its place, where an empty one was just created: its descriptor, -ENOENT if
 * there is none, or another error; then the empty one is gone, too. */
int crn_spare_take(const struct crn_store *st, const char *name, int dfd, uint32_t file_no,
                   const char *file);
/* Removes all of a name, or counts them. dfd: the directory of the name. */
CAIRN_CHECKED cairn_err crn_spares_remove(const struct crn_store *st, const char *name, int dfd,
                                          int dry_run, struct crn_sweep_result *res,
                                          struct crn_errinfo *ei);

/* Every base in the chains of a manifest is there and has its size. dfd: the version's directory. */
CAIRN_CHECKED cairn_err crn_store_check_bases(const struct crn_store *st, int dfd,
                                              const struct crn_manifest *m, struct crn_errinfo *ei);

#endif
