/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table of file operations below everything that Cairn keeps on disk. It is POSIX; tests
 * use a table that fails, tears a write or kills the process at the k-th call, or one that records
 * what a power loss would leave. */
#ifndef CRN_FS_H
#define CRN_FS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/fs_type.h"

/* Called for each entry except "." and "..". A non-zero result stops the listing and is
 * returned. */
typedef int (*crn_fs_entry_fn)(void *arg, const char *name);

/* How much can still be written, and which limit applies. */
struct crn_room {
    uint64_t bytes;
    char text[56]; /* what the bytes are: "free", or "left of the quota of user 1000" */
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
    /* Starts writeback of a range. With is_end it waits until the range is on disk and evicts it
     * from the page cache; an error reported then is not reported again by fsync. Nothing is
     * durable before fsync. */
    int (*behind)(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end);
    int (*renameat)(const struct crn_fs *fs, int olddfd, const char *from, int newdfd,
                    const char *to);
    int (*unlinkat)(const struct crn_fs *fs, int dfd, const char *name, int flags);
    int (*mkdirat)(const struct crn_fs *fs, int dfd, const char *name, mode_t mode);
    int (*fstat)(const struct crn_fs *fs, int fd, struct stat *st);
    int (*fstatat)(const struct crn_fs *fs, int dfd, const char *name, struct stat *st);
    int (*list)(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg);
    /* How much this user can still write below fd, within the quotas that the kernel reports. */
    int (*space)(const struct crn_fs *fs, int fd, struct crn_room *ret);
    /* Sets the striping of files that are created in the directory later. 0 leaves count or bytes
     * unchanged. -ENOTSUP if the file system has no stripes. */
    int (*stripe)(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes);
    /* 1 if the file has one name and no other open descriptor, so nobody else can read or write it.
     * 0 if not, or if that cannot be determined, as on network file systems. */
    int (*is_sole)(const struct crn_fs *fs, int fd);
    /* The type of the file system; never NULL. */
    const struct crn_fs_type *(*type)(const struct crn_fs *fs, int fd);
    /* Takes an exclusive lock on the open file, which ends with its last descriptor or process.
     * -EAGAIN if it is locked elsewhere; -ENOTSUP if the file system has no locks. Re-acquiring a
     * held lock returns 0, or the error that shows it was lost. */
    int (*lock)(const struct crn_fs *fs, int fd);
    /* The same for one byte of the file: conflicts with a lock on all of it, or on this byte. */
    int (*lock_byte)(const struct crn_fs *fs, int fd, uint32_t at);
    /* Maps the first bytes of a file, shared; unmap with munmap(2). */
    int (*map)(const struct crn_fs *fs, int fd, size_t bytes, int prot, void **ret);
};

/* The table of this process: POSIX. A build with fault injection wraps it as $CAIRN_FAULT_FS says
 * (see fs_faulty.h). */
const struct crn_fs *crn_fs_default(void);
const struct crn_fs *crn_fs_posix(void);

/* Returns CAIRN_OK if ret >= 0; else records the error. */
CAIRN_CHECKED cairn_err crn_fs_check(int ret, struct crn_errinfo *ei, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes all bytes or fails; continues after short counts and EINTR. what names the file. */
CAIRN_CHECKED cairn_err crn_fs_write_all(const struct crn_fs *fs, int fd, const void *buf, size_t n,
                                         uint64_t off, const char *what, struct crn_errinfo *ei);
/* Reads all bytes; CAIRN_EDAMAGED if the file ends early. */
CAIRN_CHECKED cairn_err crn_fs_read_all(const struct crn_fs *fs, int fd, void *buf, size_t n,
                                        uint64_t off, const char *what, struct crn_errinfo *ei);
/* Reads a whole small file into malloc'ed memory and appends one 0 byte. A file larger than max is
 * CAIRN_EDAMAGED. */
CAIRN_CHECKED cairn_err crn_fs_read_file(const struct crn_fs *fs, int dfd, const char *name,
                                         size_t max, void **ret_buf, size_t *ret_len,
                                         struct crn_errinfo *ei);
/* Publishes buf as dfd/name. After a crash the file holds the old bytes or the new ones, never a
 * mix. CAIRN_OK means durable. After an error either content may be in place, so callers must be
 * idempotent. */
CAIRN_CHECKED cairn_err crn_fs_replace(const struct crn_fs *fs, int dfd, const char *name,
                                       const void *buf, size_t len, struct crn_errinfo *ei);
/* mkdir -p below dfd (AT_FDCWD for a path). Makes each new entry durable and returns a
 * descriptor. */
CAIRN_CHECKED cairn_err crn_fs_make_dirs(const struct crn_fs *fs, int dfd, const char *path,
                                         mode_t mode, int *ret_fd, struct crn_errinfo *ei);
/* Opens a directory that only this user can enter. Creates it with mode 0700; refuses an existing
 * one with another owner or mode. */
CAIRN_CHECKED cairn_err crn_fs_private_dir(const struct crn_fs *fs, const char *path, int *ret_fd,
                                           struct crn_errinfo *ei);
/* Removes a file, or a directory with up to two levels of directories below it. Stops at the first
 * error and returns it. */
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
