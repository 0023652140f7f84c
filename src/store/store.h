/* SPDX-License-Identifier: BSD-3-Clause */
/* The persistent tier: names, versions, data files, manifests. publish.c is the only place that
 * says "durable"; catalog.c lists what exists; retention.c and sweep.c remove.
 *
 *     <root>/<name>/.writer                 the run that writes this name (locked while it lives)
 *     <root>/<name>/.journal                what happened to versions, for people: journal.h
 *     <root>/<name>/.spare-0000             left by a removed version for data-0000 of the next
 *     <root>/<name>/<version>/data-0000     first attempt; data-0000.1 if it is taken again
 *     <root>/<name>/<version>/manifest      the version exists if and only if this is there, whole
 *     <root>/<name>/<version>/stats-0000    how data-0000 was written, for people; not committed
 *     <root>/<name>/<version>/pin, bad      marks; bad names the capture it applies to
 *
 * No locks inside: one thread at a time uses a store; several stores may be open on one root. */
#ifndef CRN_STORE_H
#define CRN_STORE_H

#include "base/clock.h"
#include "base/fs.h"
#include "format/format.h"

struct crn_store {
    const struct crn_fs *fs;
    int dfd;    /* the root directory */
    char *path; /* owned; for messages */
    /* The pipeline of packed indexes, for files that another reader must understand; NULL: chosen */
    const char *index_pipe;
};

/* With create, makes missing directories (mode 0700); otherwise a missing one is CAIRN_ENOENT. */
CAIRN_CHECKED cairn_err crn_store_open(const struct crn_fs *fs, const char *path, int create,
                                       struct crn_store *ret, struct crn_errinfo *ei);
void crn_store_close(struct crn_store *st);
/* Creates the directory if it is missing, and checks that this process can create directories in
 * it. The text names the directory, the reason and the remedy. A full file system passes. */
CAIRN_CHECKED cairn_err crn_store_check(const struct crn_fs *fs, const char *path,
                                        struct crn_errinfo *ei);

/* Takes the writer's lock of a name for this run, until the descriptor is closed (with fs->close).
 * CAIRN_EBUSY names the run that has it. On a file system without locks it succeeds and *ret_fd is
 * -1. */
CAIRN_CHECKED cairn_err crn_store_lock_name(const struct crn_store *st, const char *name,
                                            const char *who, int *ret_fd, struct crn_errinfo *ei);

/* Creates a new generation of the name for the run that has its lock: durably higher than that of
 * any earlier run. On a full disk only the commits of the run record it. */
CAIRN_CHECKED cairn_err crn_store_raise_generation(const struct crn_store *st, const char *name,
                                                   uint64_t *ret, struct crn_errinfo *ei);

/* The highest generation of the name so far; 0 if there is none. */
CAIRN_CHECKED cairn_err crn_store_generation(const struct crn_store *st, const char *name,
                                             uint64_t *ret, struct crn_errinfo *ei);

/* Writing a version. --------------------------------------------------------------------------- */

/* Makes <name>/<version> and creates a new data file in it, never an existing one: data-0003, else
 * data-0003.1, ... The file may already contain bytes without meaning. The names become durable
 * with the manifest. */
CAIRN_CHECKED cairn_err crn_store_create_data(const struct crn_store *st, const char *name,
                                              int64_t version, uint32_t file_no,
                                              char ret_file[CRN_FILE_NAME], int *ret_fd,
                                              struct crn_errinfo *ei);
/* The same for a parity file of this node: parity-0003, ... */
CAIRN_CHECKED cairn_err crn_store_create_parity(const struct crn_store *st, const char *name,
                                                int64_t version, uint32_t node,
                                                char ret_file[CRN_FILE_NAME], int *ret_fd,
                                                struct crn_errinfo *ei);
/* Makes <name>/<version> and sets the striping of data files created in it later. CAIRN_ENOTSUP if
 * the file system has no stripes. */
CAIRN_CHECKED cairn_err crn_store_stripe(const struct crn_store *st, const char *name,
                                         int64_t version, uint64_t count, uint64_t bytes,
                                         struct crn_errinfo *ei);
/* Writes index and trailer after data_end bytes of data, fsyncs, and always closes fd. ret
 * describes the file for the manifest: free what it owns, or hand it to a manifest. On failure the
 * file is debris: discard it and write the data again, under a new name. */
CAIRN_CHECKED cairn_err crn_store_finish_data(const struct crn_store *st, int fd, const char *file,
                                              uint64_t data_end, const struct crn_index *index,
                                              struct crn_manifest_file *ret,
                                              struct crn_errinfo *ei);
/* Stores how a data file was written beside it: text, not durable, not part of the version. */
CAIRN_CHECKED cairn_err crn_store_write_stats(const struct crn_store *st, const char *name,
                                              int64_t version, const char *file, const void *text,
                                              size_t len, struct crn_errinfo *ei);
/* The text, malloc'ed and zero-terminated; CAIRN_ENOENT if none was stored. */
CAIRN_CHECKED cairn_err crn_store_read_stats(const struct crn_store *st, const char *name,
                                             int64_t version, const char *file, void **ret_text,
                                             size_t *ret_len, struct crn_errinfo *ei);
/* The commit: fsync of the directories, manifest by write-new + fsync + rename + fsync. CAIRN_OK
 * means durable and visible. Idempotent: after a failure the version is the old one or the new one,
 * and the caller may publish again. Files that only the replaced manifest named are then removed,
 * best effort. CAIRN_ECANCELED if the version already has a later capture of the same run.
 * CAIRN_EPINNED if it is pinned and has another capture. CAIRN_ESTATE if a version that it is
 * encoded against was removed at the same time: the state before the commit is restored. */
CAIRN_CHECKED cairn_err crn_store_publish(const struct crn_store *st, const struct crn_manifest *m,
                                          struct crn_errinfo *ei);
struct crn_unpublished {
    const char *name;
    int64_t version;
    const struct crn_capture_id *id;
    uint32_t files; /* of the version; other flushes may have left another number of files */
    const char *job;
    const char *own; /* the data file that the caller has just written; NULL: none */
};
/* For drain: publishes a capture if the directory contains a whole data file for every file number.
 * Reads and verifies them all first, because their writer may have died before the fsync.
 * *ret_missing: how many files are missing (0: published). A file is missing only if it does not
 * exist or is not whole. A system error while looking at a file is an error, and so is an own file
 * that is not whole. */
CAIRN_CHECKED cairn_err crn_store_try_publish(const struct crn_store *st,
                                              const struct crn_unpublished *u,
                                              uint32_t *ret_missing, struct crn_errinfo *ei);
/* Whole data files that no manifest of the name names, by capture. */
struct crn_left {
    int64_t version;
    struct crn_capture_id id;
    uint64_t created_ns;
    uint32_t files;    /* of the capture; a flush and a drain of it may use different numbers */
    uint32_t have;     /* how many of them exist */
    int is_promised;   /* all nodes had captured it: the missing files exist elsewhere, or did */
    int has_parity;    /* there are parity files: missing files may be rebuilt */
    int is_superseded; /* the version was removed, or has the same or a later capture: debris */
    uint32_t last;     /* private */
};
struct crn_lefts {
    struct crn_left *v; /* owned; ascending by version */
    size_t n;
};
CAIRN_CHECKED cairn_err crn_store_left(const struct crn_store *st, const char *name,
                                       struct crn_lefts *ret, struct crn_errinfo *ei);
void crn_lefts_free(struct crn_lefts *l);
/* All its files exist and nothing supersedes it: a drain publishes it. */
int crn_left_is_complete(const struct crn_left *l);
/* Files are missing, but there is parity: a drain tries to rebuild them. */
int crn_left_may_be_rebuilt(const struct crn_left *l);
/* NULL: there is none. */
const struct crn_left *crn_left_find(const struct crn_lefts *l, int64_t version,
                                     const struct crn_capture_id *id, uint32_t files);
/* Was a taken after b? All ordering of captures goes through this function. */
int crn_store_capture_is_later(const struct crn_capture_id *a, uint64_t a_created_ns,
                               const struct crn_capture_id *b, uint64_t b_created_ns);

/* Describes a whole data file from its trailer and index, in the form of the manifest. */
CAIRN_CHECKED cairn_err crn_store_describe_data(const struct crn_store *st, const char *name,
                                                int64_t version, const char *file,
                                                struct crn_manifest_file *ret,
                                                struct crn_index *ret_index,
                                                struct crn_errinfo *ei);
/* Removes a data file that will not be published, and the directory if that leaves it empty.
 * CAIRN_ESTATE if the manifest names it: a publish that failed at its last step has committed after
 * all. */
CAIRN_CHECKED cairn_err crn_store_discard_data(const struct crn_store *st, const char *name,
                                               int64_t version, const char *file,
                                               struct crn_errinfo *ei);

/* Reading. ------------------------------------------------------------------------------------- */

enum crn_version_state {
    CRN_VERSION_OK,       /* manifest whole, all files and bases exist with the right size */
    CRN_VERSION_DAMAGED,  /* the manifest exists, but it or a file is damaged */
    CRN_VERSION_REJECTED, /* marked as bad */
    CRN_VERSION_PARTIAL,  /* no manifest: being written, or debris */
};
const char *crn_version_state_name(enum crn_version_state state);

struct crn_version_need {
    int64_t version;
    struct crn_capture_id id;
};
struct crn_version_entry {
    int64_t version;
    enum crn_version_state state;
    int is_pinned;
    /* For states other than OK: the reason and the file. CAIRN_EDAMAGED means damage; a system
     * error may be transient. */
    cairn_err code;
    char why[CRN_ERR_TEXT];
    /* From the manifest; zero if it cannot be read. */
    struct crn_capture_id id;
    char job[CAIRN_MAX_NAME];
    uint64_t created_ns, committed_ns;
    uint64_t data_bytes, file_bytes;
    uint32_t ranks, nodes, files;
    /* Versions that it is encoded against, directly or indirectly: it needs all of them. */
    uint32_t nneeds;
    struct crn_version_need *needs; /* owned */
    uint32_t chain;                 /* longest chain of its files; 0: no file has bases */
    int64_t against;                /* the nearest base version in that chain */
};
struct crn_catalog {
    struct crn_version_entry *v; /* ascending by version */
    size_t n;
};

/* The names that have at least one version, in any state. */
CAIRN_CHECKED cairn_err crn_store_names(const struct crn_store *st, struct crn_names *ret,
                                        struct crn_errinfo *ei);
/* All versions of a name; CAIRN_ENOENT if the name does not exist. Cheap: reads manifests and
 * sizes, no data. */
CAIRN_CHECKED cairn_err crn_store_catalog(const struct crn_store *st, const char *name,
                                          struct crn_catalog *ret, struct crn_errinfo *ei);
/* The same, but without looking at the files of captures that are known to be whole. */
struct crn_known;
CAIRN_CHECKED cairn_err crn_store_catalog_known(const struct crn_store *st, const char *name,
                                                const struct crn_known *known,
                                                struct crn_catalog *ret, struct crn_errinfo *ei);
void crn_catalog_free(struct crn_catalog *c);
CAIRN_CHECKED cairn_err crn_store_manifest(const struct crn_store *st, const char *name,
                                           int64_t version, struct crn_manifest *ret,
                                           struct crn_errinfo *ei);
/* Opens the version's directory. */
CAIRN_CHECKED cairn_err crn_store_version_dir(const struct crn_store *st, const char *name,
                                              int64_t version, int *ret_dfd,
                                              struct crn_errinfo *ei);
/* The same for a directory that exists, created no later than changed_ns, perhaps by another host:
 * waits until it becomes visible. */
CAIRN_CHECKED cairn_err crn_store_late_dir(const struct crn_store *st, const char *name,
                                           int64_t version, uint64_t changed_ns, int *ret_dfd,
                                           struct crn_errinfo *ei);

/* Marks. --------------------------------------------------------------------------------------- */

CAIRN_CHECKED cairn_err crn_store_pin(const struct crn_store *st, const char *name, int64_t version,
                                      int pin, struct crn_errinfo *ei);
/* CAIRN_EPINNED if the version is pinned and its capture is not this one (NULL: any capture). Such
 * a version must not be replaced. */
CAIRN_CHECKED cairn_err crn_store_check_pin(const struct crn_store *st, const char *name,
                                            int64_t version, const struct crn_capture_id *id,
                                            struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_store_reject(const struct crn_store *st, const char *name,
                                         int64_t version, const char *reason,
                                         struct crn_errinfo *ei);

/* Removing. ------------------------------------------------------------------------------------ */

/* Was this capture removed with crn_store_remove? Then copies of it found elsewhere must not be
 * restored. If the version was taken again since, that is another capture. */
CAIRN_CHECKED cairn_err crn_store_was_removed(const struct crn_store *st, const char *name,
                                              int64_t version, const struct crn_capture_id *id,
                                              int *ret, struct crn_errinfo *ei);
/* Crash-safe: the manifest goes first, durably; everything else is then debris. CAIRN_EPINNED for a
 * pinned version; CAIRN_EBUSY, naming the user, if another version needs it; CAIRN_ENOENT without a
 * manifest (a sweep removes it). Data files that the manifest does not name, or all if it cannot be
 * read, are left to a sweep. */
CAIRN_CHECKED cairn_err crn_store_remove(const struct crn_store *st, const char *name,
                                         int64_t version, struct crn_errinfo *ei);

/* Captures of a name whose files were all there when they were last looked at, or committed. Only the
 * owner of the writer's lock changes them, so it need not look at each file again. */
struct crn_known {
    struct crn_capture_id *v; /* owned */
    size_t n;
};
void crn_known_free(struct crn_known *k);
int crn_known_has(const struct crn_known *k, const struct crn_capture_id *id); /* k may be NULL */
/* Out of memory is no error: the capture is looked at again. */
void crn_known_add(struct crn_known *k, const struct crn_capture_id *id);

struct crn_retention {
    uint64_t keep_last, keep_every;
    int reuse;             /* keep data files of retired versions as spares, where that is safe */
    const int64_t *spared; /* versions that a capture in flight may need: kept beyond keep_last */
    size_t nspared;
    /* Tells that all versions of the name are durable. A retention that removes something makes
     * them durable and sets it. The caller clears it when a commit fails, and keeps it only as long
     * as it has the writer's lock. NULL: nothing is known. */
    int *is_durable;
    /* The same for the files of versions: a retention looks at the files of those that are missing
     * here, and puts what it finds here. NULL: it looks at all. */
    struct crn_known *known;
};
/* Decides which versions a policy retires. Pure. Sets retire[i]. Never retires the newest OK
 * version, the one committed last, or pinned and spared ones. Only OK versions count towards
 * keep_last (0: retire nothing). Damaged and rejected versions go when keep_last newer OK ones
 * exist. Versions of a newer Cairn or with a read error stay, and so does everything that a kept
 * version needs. */
void crn_retention_plan(const struct crn_catalog *c, const struct crn_retention *policy,
                        unsigned char *retire);
/* Would the policy remove this capture soon after its commit? Only if keep_last whole versions
 * exist that have higher numbers and were taken later; they are durable if *ret is 1. */
CAIRN_CHECKED cairn_err crn_store_would_retire(const struct crn_store *st, const char *name,
                                               const struct crn_retention *policy, int64_t version,
                                               const struct crn_capture_id *id, uint64_t created_ns,
                                               int *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_store_retain(const struct crn_store *st, const char *name,
                                         const struct crn_retention *policy, uint32_t *ret_removed,
                                         struct crn_errinfo *ei);
/* Spares that a retention with reuse left: the space already allocated for data file file_no of the
 * next version, and their removal when no more versions come. */
uint64_t crn_store_spare_bytes(const struct crn_store *st, const char *name, uint32_t file_no);
CAIRN_CHECKED cairn_err crn_store_drop_spares(const struct crn_store *st, const char *name,
                                              struct crn_errinfo *ei);

/* Removes debris: temporary files, data files that no manifest of the name names, directories
 * without a manifest. Skips a name whose writer lives (busy), and anything that is not provably
 * Cairn's.
 *
 * A drain may still complete an uncommitted capture. A whole data file of one goes only if a newer
 * version is committed, the file is older than min_age_ns, or force is set. A capture with all its
 * files stays until a drain publishes it, or force. held_fd: the writer's lock of this name if the
 * caller has it, or -1. On a file system without locks, age alone decides. */
struct crn_sweep_result {
    uint32_t files, dirs;
    uint64_t bytes;
    int busy;
    uint32_t kept;     /* whole data files left for a drain */
    uint32_t complete; /* of these, captures that lack only the manifest */
};
CAIRN_CHECKED cairn_err crn_store_sweep(const struct crn_store *st, const char *name, int held_fd,
                                        int64_t min_age_ns, int force, int dry_run,
                                        const struct crn_clock *clock, struct crn_sweep_result *ret,
                                        struct crn_errinfo *ei);

#endif
