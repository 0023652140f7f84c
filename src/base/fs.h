/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table of file operations under everything that Cairn keeps on disk: POSIX, or in tests a
 * table that fails, tears or dies at the k-th call, or records what a power loss would leave. */
#ifndef CRN_FS_H
#define CRN_FS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/fs_type.h"

/* Called for each entry except "." and ".."; a non-zero return stops the listing and is returned. */
typedef int (*crn_fs_entry_fn)(void *arg, const char *name);

/* What can still be written, and what bounds it. */
struct crn_room {
    uint64_t bytes;
    char text[56]; /* "free", or "left of the quota of user 1000": the bytes are ... */
};

/* All return a value >= 0, or -errno. None retries; crn_fs_*_all below do. Any thread. */
struct crn_fs {
    int (*openat)(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode);
    int (*close)(const struct crn_fs *fs, int fd);
    ssize_t (*pread)(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off);
    ssize_t (*pwrite)(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off);
    int (*fsync)(const struct crn_fs *fs, int fd);
    int (*ftruncate)(const struct crn_fs *fs, int fd, off_t size);
    int (*fallocate)(const struct crn_fs *fs, int fd, off_t off, off_t bytes);
    /* Begins to write a range from the page cache to disk; is_end: waits until it is there, and drops it
     * from the page cache. An error then is not told again by fsync. Nothing is durable before fsync. */
    int (*behind)(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end);
    int (*renameat)(const struct crn_fs *fs, int olddfd, const char *from, int newdfd,
                    const char *to);
    int (*unlinkat)(const struct crn_fs *fs, int dfd, const char *name, int flags);
    int (*mkdirat)(const struct crn_fs *fs, int dfd, const char *name, mode_t mode);
    int (*fstat)(const struct crn_fs *fs, int fd, struct stat *st);
    int (*fstatat)(const struct crn_fs *fs, int dfd, const char *name, struct stat *st);
    int (*list)(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg);
    /* What this user can still write below fd, quota included where the system tells. */
    int (*space)(const struct crn_fs *fs, int fd, struct crn_room *ret);
    /* Stripes files made later in the directory (count 0, bytes 0: as before). -ENOTSUP where the file
     * system has no stripes. */
    int (*stripe)(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes);
    /* 1 if nobody but this descriptor can read or write the file: it has one name, and nobody else has it
     * open. 0 also where that cannot be known, as on file systems that other hosts see. */
    int (*is_sole)(const struct crn_fs *fs, int fd);
    /* Of the file system; never NULL. */
    const struct crn_fs_type *(*type)(const struct crn_fs *fs, int fd);
    /* Exclusive lock of the open file, gone with its last descriptor or process; -EAGAIN if held
     * elsewhere, -ENOTSUP where the file system has no locks. Again by who has it: 0, or why it was lost. */
    int (*lock)(const struct crn_fs *fs, int fd);
    /* Shared mapping of the first bytes of a file; munmap(2) ends it. */
    int (*map)(const struct crn_fs *fs, int fd, size_t bytes, int prot, void **ret);
};

/* The table of this process: POSIX; in builds with fault injection wrapped as $CAIRN_FAULT_FS says
 * (see fs_faulty.h). */
const struct crn_fs *crn_fs_default(void);
const struct crn_fs *crn_fs_posix(void);

/* Records the error of a call, or passes a value >= 0 as CAIRN_OK. */
CAIRN_CHECKED cairn_err crn_fs_check(int ret, struct crn_errinfo *ei, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* All bytes or an error; short counts and EINTR are continued. what names the file. */
CAIRN_CHECKED cairn_err crn_fs_write_all(const struct crn_fs *fs, int fd, const void *buf, size_t n,
                                         uint64_t off, const char *what, struct crn_errinfo *ei);
/* CAIRN_EDAMAGED if the file ends before. */
CAIRN_CHECKED cairn_err crn_fs_read_all(const struct crn_fs *fs, int fd, void *buf, size_t n,
                                        uint64_t off, const char *what, struct crn_errinfo *ei);
/* A whole small file into malloc'ed memory (one 0 byte is added behind); larger than max is
 * CAIRN_EDAMAGED. */
CAIRN_CHECKED cairn_err crn_fs_read_file(const struct crn_fs *fs, int dfd, const char *name,
                                         size_t max, void **ret_buf, size_t *ret_len,
                                         struct crn_errinfo *ei);
/* Publishes buf as dfd/name. After a crash the file holds the old bytes or the new ones, never a
 * mix. CAIRN_OK means durable. An error after the rename means "unknown": be idempotent. */
CAIRN_CHECKED cairn_err crn_file_replace(const struct crn_fs *fs, int dfd, const char *name,
                                         const void *buf, size_t len, struct crn_errinfo *ei);
/* mkdir -p below dfd (AT_FDCWD for a path), each new entry made durable; returns a descriptor. */
CAIRN_CHECKED cairn_err crn_fs_make_dirs(const struct crn_fs *fs, int dfd, const char *path,
                                         mode_t mode, int *ret_fd, struct crn_errinfo *ei);
/* A directory that only this user can enter: created 0700, or found so and owned by us. */
CAIRN_CHECKED cairn_err crn_fs_private_dir(const struct crn_fs *fs, const char *path, int *ret_fd,
                                           struct crn_errinfo *ei);
/* Removes a directory with its files (two levels deep at most); best effort, says the first error. */
CAIRN_CHECKED cairn_err crn_fs_remove_tree(const struct crn_fs *fs, int dfd, const char *name,
                                           struct crn_errinfo *ei);

/* Sorted names of a directory; free with crn_names_free. */
struct crn_names {
    char **name;
    size_t n;
};
CAIRN_CHECKED cairn_err crn_fs_names(const struct crn_fs *fs, int dfd, const char *what,
                                     struct crn_names *ret, struct crn_errinfo *ei);
void crn_names_free(struct crn_names *names);

#endif
