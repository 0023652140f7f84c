/* SPDX-License-Identifier: BSD-3-Clause */
/* The persistent side: names, versions, data files, manifests. publish.c is the only place that
 * says "durable"; catalog.c reads what is there; retention.c and sweep.c remove.
 *
 *     <root>/<name>/.writer                 who writes this name now (locked while he lives)
 *     <root>/<name>/.journal                what happened to versions, for people: journal.h
 *     <root>/<name>/.spare-0000             left by a removed version for data-0000 of the next
 *     <root>/<name>/<version>/data-0000     first attempt; data-0000.1 when the version is taken again
 *     <root>/<name>/<version>/manifest      the version exists if and only if this is there, whole
 *     <root>/<name>/<version>/stats-0000    how data-0000 was written, for people; not committed
 *     <root>/<name>/<version>/pin, bad      marks; bad names the capture it speaks of
 *
 * No locks inside: a store is used by one thread at a time; several stores may be open on one root. */
#ifndef CRN_STORE_H
#define CRN_STORE_H

#include "base/clock.h"
#include "base/fs.h"
#include "format/format.h"

struct crn_store {
    const struct crn_fs *fs;
    int dfd;    /* the root directory */
    char *path; /* owned; for messages */
};

/* create makes the directory (0700 below what exists); otherwise a missing one is CAIRN_ENOENT. */
CAIRN_CHECKED cairn_err crn_store_open(const struct crn_fs *fs, const char *path, int create,
                                       struct crn_store *ret, struct crn_errinfo *ei);
void crn_store_close(struct crn_store *st);
/* Makes the directory where it is missing, and checks that this process can make others in it. The text
 * names the directory, the reason and what to do. A full file system passes. */
CAIRN_CHECKED cairn_err crn_store_check(const struct crn_fs *fs, const char *path,
                                        struct crn_errinfo *ei);

/* Takes the writer's lock of a name for this run until the descriptor is closed (with fs->close).
 * CAIRN_EBUSY names who has it. Where the file system has no locks it succeeds and *ret_fd is -1. */
CAIRN_CHECKED cairn_err crn_store_lock_name(const struct crn_store *st, const char *name,
                                            const char *who, int *ret_fd, struct crn_errinfo *ei);

/* A new generation of the name for a run that has its lock: higher than that of any run before, durably. */
CAIRN_CHECKED cairn_err crn_store_raise_generation(const struct crn_store *st, const char *name,
                                                   uint64_t *ret, struct crn_errinfo *ei);

/* Writing a version. ------------------------------------------------------------------------------ */

/* Makes <name>/<version> and creates a new data file in it, never an existing one: data-0003, else
 * data-0003.1, ... It may have bytes already that mean nothing. The names are durable when the manifest is. */
CAIRN_CHECKED cairn_err crn_store_create_data(const struct crn_store *st, const char *name,
                                              int64_t version, uint32_t file_no,
                                              char ret_file[CRN_FILE_NAME], int *ret_fd,
                                              struct crn_errinfo *ei);
/* Makes <name>/<version> and stripes the data files that are created in it later, where the file system
 * has stripes (CAIRN_ENOTSUP elsewhere). */
CAIRN_CHECKED cairn_err crn_store_stripe(const struct crn_store *st, const char *name,
                                         int64_t version, uint64_t count, uint64_t bytes,
                                         struct crn_errinfo *ei);
/* Appends index and trailer behind data_end bytes of data, fsyncs and closes fd (always). ret
 * describes the file for the manifest: free what it owns, or hand it to a manifest. On failure the
 * file is debris: discard it and write the data again, under a new name. */
CAIRN_CHECKED cairn_err crn_store_finish_data(const struct crn_store *st, int fd, const char *file,
                                              uint64_t data_end, const struct crn_index *index,
                                              struct crn_manifest_file *ret,
                                              struct crn_errinfo *ei);
/* Keeps how a data file was written beside it: text, not durable, no part of the version. */
CAIRN_CHECKED cairn_err crn_store_write_stats(const struct crn_store *st, const char *name,
                                              int64_t version, const char *file, const void *text,
                                              size_t len, struct crn_errinfo *ei);
/* The text, malloc'ed, with a 0 behind it; CAIRN_ENOENT if none was kept. */
CAIRN_CHECKED cairn_err crn_store_read_stats(const struct crn_store *st, const char *name,
                                             int64_t version, const char *file, void **ret_text,
                                             size_t *ret_len, struct crn_errinfo *ei);
/* The commit: fsync of the directories, manifest by write-new + fsync + rename + fsync. CAIRN_OK
 * means durable and visible. Idempotent: after a failure the version is the old one or the new one,
 * and publishing again is right. What only the replaced manifest named is removed then, best effort.
 * CAIRN_ECANCELED if the version already holds a later capture of the same run. CAIRN_EPINNED if it is pinned
 * and holds another capture. CAIRN_ESTATE if a version
 * that it was encoded against was removed at the same time: then it is as it was before. */
CAIRN_CHECKED cairn_err crn_store_publish(const struct crn_store *st, const struct crn_manifest *m,
                                          struct crn_errinfo *ei);
struct crn_unpublished {
    const char *name;
    int64_t version;
    const struct crn_capture_id *id;
    uint32_t files; /* of the version; a flush that shared files among nodes may have left others */
    const char *job;
    const char *own; /* the data file that the caller has just written; NULL: none */
};
/* For drain: if the directory holds a whole data file of every file number of this capture, reads
 * and verifies them all (their writer may have died before the fsync), composes the manifest and
 * publishes it. *ret_missing: how many files are still missing (0: published). A file is missing only if it
 * is not there, or not whole; an error to look at one is an error, as is an own file that is not whole. */
CAIRN_CHECKED cairn_err crn_store_try_publish(const struct crn_store *st,
                                              const struct crn_unpublished *u,
                                              uint32_t *ret_missing, struct crn_errinfo *ei);
/* Data files that are whole and that no manifest of the name names, by capture. */
struct crn_left {
    int64_t version;
    struct crn_capture_id id;
    uint64_t created_ns;
    uint32_t files;    /* of the capture; a flush and a drain of one capture may differ in it */
    uint32_t have;     /* of these, how many are there */
    int is_promised;   /* all nodes had captured it: the files that are missing exist, or did */
    int is_superseded; /* the version was removed, or holds the same or a later capture: debris */
    uint32_t last;     /* private */
};
struct crn_lefts {
    struct crn_left *v; /* owned; ascending by version */
    size_t n;
};
CAIRN_CHECKED cairn_err crn_store_left(const struct crn_store *st, const char *name,
                                       struct crn_lefts *ret, struct crn_errinfo *ei);
void crn_lefts_free(struct crn_lefts *l);
/* All its files are there, and nothing supersedes it: a drain publishes it. */
int crn_left_is_complete(const struct crn_left *l);
/* NULL: there is none. */
const struct crn_left *crn_left_find(const struct crn_lefts *l, int64_t version,
                                     const struct crn_capture_id *id, uint32_t files);
/* Was a taken after b? The one place that orders captures. */
int crn_capture_is_later(const struct crn_capture_id *a, uint64_t a_created_ns,
                         const struct crn_capture_id *b, uint64_t b_created_ns);

/* Describes a whole data file from its trailer and index, as the manifest would. */
CAIRN_CHECKED cairn_err crn_store_describe_data(const struct crn_store *st, const char *name,
                                                int64_t version, const char *file,
                                                struct crn_manifest_file *ret,
                                                struct crn_index *ret_index,
                                                struct crn_errinfo *ei);
/* Removes a data file that will not be published, and the directory if it is empty then.
 * CAIRN_ESTATE if the manifest names it: a publish that failed at its end has committed after all. */
CAIRN_CHECKED cairn_err crn_store_discard_data(const struct crn_store *st, const char *name,
                                               int64_t version, const char *file,
                                               struct crn_errinfo *ei);

/* Reading. ----------------------------------------------------------------------------------------- */

enum crn_version_state {
    CRN_VERSION_OK,       /* manifest whole, all files there with the right size, and all bases */
    CRN_VERSION_DAMAGED,  /* manifest there, but it or a file is not whole */
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
    /* For the states that are not OK: what was found, and where. CAIRN_EDAMAGED is damage, what a
     * system error says may pass. */
    cairn_err code;
    char why[CRN_ERR_TEXT];
    /* From the manifest; zero where it cannot be read. */
    struct crn_capture_id id;
    char job[CAIRN_MAX_NAME];
    uint64_t created_ns, committed_ns;
    uint64_t data_bytes, file_bytes;
    uint32_t ranks, nodes, files;
    /* Versions that it was encoded against, directly or not: without one of them it cannot be read. */
    uint32_t nneeds;
    struct crn_version_need *needs; /* owned */
    uint32_t chain;                 /* the longest of its files; 0: all are full */
    int64_t against;                /* the nearest version of that one */
};
struct crn_catalog {
    struct crn_version_entry *v; /* ascending by version */
    size_t n;
};

/* The names that have at least one version, in whatever state. */
CAIRN_CHECKED cairn_err crn_store_names(const struct crn_store *st, struct crn_names *ret,
                                        struct crn_errinfo *ei);
/* What is there of a name; CAIRN_ENOENT if the name is not known. Cheap: reads manifests and sizes,
 * no data. */
CAIRN_CHECKED cairn_err crn_store_catalog(const struct crn_store *st, const char *name,
                                          struct crn_catalog *ret, struct crn_errinfo *ei);
void crn_catalog_free(struct crn_catalog *c);
CAIRN_CHECKED cairn_err crn_store_manifest(const struct crn_store *st, const char *name,
                                           int64_t version, struct crn_manifest *ret,
                                           struct crn_errinfo *ei);
/* Descriptor of the version's directory. */
CAIRN_CHECKED cairn_err crn_store_version_dir(const struct crn_store *st, const char *name,
                                              int64_t version, int *ret_dfd,
                                              struct crn_errinfo *ei);
/* The same of one that is there, perhaps made by another host, at that time at the latest: it may be seen late. */
CAIRN_CHECKED cairn_err crn_store_late_dir(const struct crn_store *st, const char *name,
                                           int64_t version, uint64_t changed_ns, int *ret_dfd,
                                           struct crn_errinfo *ei);

/* Marks. -------------------------------------------------------------------------------------------- */

CAIRN_CHECKED cairn_err crn_store_pin(const struct crn_store *st, const char *name, int64_t version,
                                      int pin, struct crn_errinfo *ei);
/* CAIRN_EPINNED if the version is pinned and holds another capture than this (NULL: any capture): it must
 * not be replaced. */
CAIRN_CHECKED cairn_err crn_store_check_pin(const struct crn_store *st, const char *name,
                                            int64_t version, const struct crn_capture_id *id,
                                            struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_store_reject(const struct crn_store *st, const char *name,
                                         int64_t version, const char *reason,
                                         struct crn_errinfo *ei);

/* Removing. ----------------------------------------------------------------------------------------- */

/* Was this capture removed with crn_store_remove? Then a copy of it that is found elsewhere is not brought
 * back. A version that was taken again since is another capture. */
CAIRN_CHECKED cairn_err crn_store_was_removed(const struct crn_store *st, const char *name,
                                              int64_t version, const struct crn_capture_id *id,
                                              int *ret, struct crn_errinfo *ei);
/* Crash-safe: the manifest goes first, durably; the rest is debris from then on. A pinned version is
 * CAIRN_EPINNED, one that another needs, which is named, CAIRN_EBUSY, one without a manifest CAIRN_ENOENT
 * (a sweep removes it). Data files that the manifest does not name, or all where it cannot be read, are
 * left to a sweep. */
CAIRN_CHECKED cairn_err crn_store_remove(const struct crn_store *st, const char *name,
                                         int64_t version, struct crn_errinfo *ei);

struct crn_retention {
    uint64_t keep_last, keep_every;
    int reuse;             /* data files of what goes are left for new ones, where that is safe */
    const int64_t *spared; /* versions that one on its way may need; not counted */
    size_t nspared;
    /* All versions of the name are known to be durable. A retention that removes something makes them so
     * and sets it. The caller clears it when a commit of his fails, and keeps it only as long as he has the
     * writer's lock. NULL: nothing is known. */
    int *is_durable;
};
/* Which versions a policy lets go. Pure. Marks retire[i]; never the newest OK one, nor the one
 * that was committed last, never pinned or spared ones; only OK versions count towards keep_last (0:
 * nothing goes). Damaged and rejected ones go when keep_last newer OK ones exist; what a newer Cairn
 * wrote or could not be read now stays. What a version that stays needs stays, too. */
void crn_retention_plan(const struct crn_catalog *c, const struct crn_retention *policy,
                        unsigned char *retire);
/* Would this capture, once committed, be removed by the policy at the next chance? Only if keep_last whole
 * versions are there that are newer and were taken later; they are durable when *ret is 1. */
CAIRN_CHECKED cairn_err crn_store_would_retire(const struct crn_store *st, const char *name,
                                               const struct crn_retention *policy, int64_t version,
                                               const struct crn_capture_id *id, uint64_t created_ns,
                                               int *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_store_retain(const struct crn_store *st, const char *name,
                                         const struct crn_retention *policy, uint32_t *ret_removed,
                                         struct crn_errinfo *ei);
/* What a retention with reuse left: the room that data file file_no of the next version has already, and its
 * end when no more versions come. */
uint64_t crn_store_spare_bytes(const struct crn_store *st, const char *name, uint32_t file_no);
CAIRN_CHECKED cairn_err crn_store_drop_spares(const struct crn_store *st, const char *name,
                                              struct crn_errinfo *ei);

/* Debris: temporary files, data files that no manifest of the name names, directories without a manifest. A name
 * whose writer lives is left alone (busy), as is anything that is not provably Cairn's. A whole data
 * file of an uncommitted capture may still be completed by a drain: it goes only when a newer version
 * is committed, or it is older than min_age_ns, or force. A capture whose files are all there stays until
 * a drain publishes it, or force. held_fd: the writer's lock of this name
 * that the caller has, or -1. Where the file system has no locks, age alone decides. */
struct crn_sweep_result {
    uint32_t files, dirs;
    uint64_t bytes;
    int busy;
    uint32_t kept;     /* whole data files left for a drain */
    uint32_t complete; /* captures among them that lack nothing but a manifest */
};
CAIRN_CHECKED cairn_err crn_store_sweep(const struct crn_store *st, const char *name, int held_fd,
                                        int64_t min_age_ns, int force, int dry_run,
                                        const struct crn_clock *clock, struct crn_sweep_result *ret,
                                        struct crn_errinfo *ei);

#endif
