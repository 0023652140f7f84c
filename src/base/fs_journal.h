/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a table of file operations that records every change below a directory and can rebuild,
 * elsewhere, what a power loss might leave. The model is as strict as POSIX allows:
 *
 *     bytes of a file are durable only after an fsync of the file that follows them;
 *     an entry of a directory (create, mkdir, rename, unlink) only after one of the directory;
 *     of everything else any subset may have reached the disk, in any order, writes by halves;
 *     a rename within a directory is atomic; one into another is two changes.
 *
 * One thread. Not built without tests. */
#ifndef CRN_FS_JOURNAL_H
#define CRN_FS_JOURNAL_H

#include "base/fs.h"

struct crn_fs_journal; /* opaque */

/* Records changes below root, a directory of regular files and directories; what is there now is
 * durable. Only descriptors opened through the table are known to it. NULL: out of memory, or root
 * cannot be read. */
struct crn_fs_journal *crn_fs_journal_open(const struct crn_fs *under, const char *root);
void crn_fs_journal_close(struct crn_fs_journal *j);
const struct crn_fs *crn_fs_journal_fs(struct crn_fs_journal *j);

/* Operations recorded so far. A power loss at n happens before operation n. */
size_t crn_fs_journal_now(const struct crn_fs_journal *j);
/* The operations before n that are not durable at n, ascending; malloc'ed, NULL if there are none. */
size_t *crn_fs_journal_unsynced(const struct crn_fs_journal *j, size_t n, size_t *ret_count);

/* A state: what is durable at n plus the operations for which apply[] (indexed by operation) is
 * set. Equal states have equal hashes. */
uint64_t crn_fs_journal_hash(const struct crn_fs_journal *j, size_t n, const unsigned char *apply);
/* Writes the state into dir, which exists and is empty. 0, or -1. */
int crn_fs_journal_build(const struct crn_fs_journal *j, size_t n, const unsigned char *apply,
                         const char *dir);
/* "rename .manifest.tmp -> manifest", for messages. */
void crn_fs_journal_describe(const struct crn_fs_journal *j, size_t op, char *buf, size_t size);

#endif
