/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a table of file operations that records every change below a directory and can rebuild
 * elsewhere what a power loss might leave. The model is as strict as POSIX allows:
 *
 *     bytes of a file are durable only after a later fsync of the file;
 *     a directory entry (create, mkdir, rename, unlink) only after a later fsync of the directory;
 *     of all other changes any subset may be on disk, in any order, and half of any write;
 *     a rename within a directory is atomic; one into another directory is two changes.
 *
 * For one thread. Not part of libcairn. */
#ifndef CRN_FS_JOURNAL_H
#define CRN_FS_JOURNAL_H

#include "base/fs.h"

struct crn_fs_journal; /* opaque */

/* Records changes below root, a directory of regular files and directories. Its present content
 * counts as durable. The journal knows only descriptors opened through its table. NULL: out of
 * memory, or root cannot be read. */
struct crn_fs_journal *crn_fs_journal_open(const struct crn_fs *under, const char *root);
void crn_fs_journal_close(struct crn_fs_journal *j);
const struct crn_fs *crn_fs_journal_fs(struct crn_fs_journal *j);

/* Operations recorded so far. A power loss at n happens before operation n. */
size_t crn_fs_journal_now(const struct crn_fs_journal *j);
/* The operations before n that are not durable at n, ascending. malloc'ed; NULL if there are
 * none. */
size_t *crn_fs_journal_unsynced(const struct crn_fs_journal *j, size_t n, size_t *ret_count);

/* A state: everything durable at n, plus the operations for which apply[] (indexed by operation) is
 * set. Equal states have equal hashes. */
uint64_t crn_fs_journal_hash(const struct crn_fs_journal *j, size_t n, const unsigned char *apply);
/* Writes the state into dir, which exists and is empty. 0, or -1. */
int crn_fs_journal_build(const struct crn_fs_journal *j, size_t n, const unsigned char *apply,
                         const char *dir);
/* "rename .manifest.tmp -> manifest", for messages. */
void crn_fs_journal_describe(const struct crn_fs_journal *j, size_t op, char *buf, size_t size);

#endif
