/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault injection below every file operation. Decides only which call is hit and how; the table
 * below does the I/O. */
#include "base/fs_faulty.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct crn_fs_faulty *fs_faulty_self(const struct crn_fs *fs)
{
    return (struct crn_fs_faulty *)(uintptr_t)fs;
}

static void faulty_die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

/* 0: make the call; 1: do half of it (reads and writes); negative: fail with this. */
static int faulty_hit(struct crn_fs_faulty *f, enum crn_fault_op op)
{
    long call;

    if ((f->ops & (unsigned)op) == 0)
        return 0;
    call = atomic_fetch_add(&f->calls, 1) + 1;
    if (f->at == 0 || call < f->at || (call > f->at && !f->sticky))
        return 0;
    switch (f->action) {
    case CRN_FAULT_KILL:
        faulty_die();
        break;
    case CRN_FAULT_TEAR:
        if (op != CRN_OP_WRITE)
            faulty_die();
        return 1;
    case CRN_FAULT_SHORT:
        return op == CRN_OP_WRITE || op == CRN_OP_READ ? 1 : 0;
    case CRN_FAULT_DELAY:
        (void)nanosleep(&(struct timespec){f->delay_ms / 1000, f->delay_ms % 1000 * 1000000}, NULL);
        return 0;
    case CRN_FAULT_FAIL:
        break;
    }
    return -f->sys_errno;
}

#define UNDER(f, call, ...) (f)->under->call((f)->under, __VA_ARGS__)

static int f_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_OPEN);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), openat, dfd, path, flags, mode);
}

/* As on Linux, a failing close releases the descriptor nevertheless. */
static int f_close(const struct crn_fs *fs, int fd)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_CLOSE);
    int r = UNDER(fs_faulty_self(fs), close, fd);

    return h < 0 ? h : r;
}

/* One line per read, in one append, so that lines of several threads do not mix. */
static void tell_read(int to, int fd, off_t off, ssize_t n)
{
    char link[40], path[400];
    ssize_t len;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    (void)dprintf(to, "%lld %lld %s\n", (long long)off, (long long)n, path);
}

static ssize_t f_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_READ);
    ssize_t r;

    if (h < 0)
        return h;
    r = UNDER(fs_faulty_self(fs), pread, fd, buf, h > 0 && n > 1 ? n / 2 : n, off);
    if (r > 0 && fs_faulty_self(fs)->reads_fd >= 0)
        tell_read(fs_faulty_self(fs)->reads_fd, fd, off, r);
    return r;
}

/* Writes all bytes or half of them. A torn write then kills the process. */
static ssize_t f_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    struct crn_fs_faulty *f = fs_faulty_self(fs);
    int h = faulty_hit(f, CRN_OP_WRITE);
    ssize_t r;

    if (h < 0)
        return h;
    r = f->under->pwrite(f->under, fd, buf, h > 0 && n > 1 ? n / 2 : n, off);
    if (h > 0 && f->action == CRN_FAULT_TEAR)
        faulty_die();
    return r;
}

/* A failed fsync has lost the dirty pages: the caller must not trust a second one. */
static int f_fsync(const struct crn_fs *fs, int fd)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_SYNC);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), fsync, fd);
}

static int f_ftruncate(const struct crn_fs *fs, int fd, off_t size)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_SIZE);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), ftruncate, fd, size);
}

static int f_fallocate(const struct crn_fs *fs, int fd, off_t off, off_t bytes)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_SIZE);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), fallocate, fd, off, bytes);
}

static int f_behind(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_SYNC);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), behind, fd, off, bytes, is_end);
}

static int f_renameat(const struct crn_fs *fs, int olddfd, const char *from, int newdfd,
                      const char *to)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_RENAME);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), renameat, olddfd, from, newdfd, to);
}

static int f_unlinkat(const struct crn_fs *fs, int dfd, const char *name, int flags)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_UNLINK);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), unlinkat, dfd, name, flags);
}

static int f_mkdirat(const struct crn_fs *fs, int dfd, const char *name, mode_t mode)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_MKDIR);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), mkdirat, dfd, name, mode);
}

static int f_fstat(const struct crn_fs *fs, int fd, struct stat *st)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_STAT);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), fstat, fd, st);
}

static int f_fstatat(const struct crn_fs *fs, int dfd, const char *name, struct stat *st)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_STAT);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), fstatat, dfd, name, st);
}

static int f_list(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_STAT);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), list, dfd, fn, arg);
}

static int f_space(const struct crn_fs *fs, int fd, struct crn_room *ret)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_STAT);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), space, fd, ret);
}

static int f_stripe(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_SIZE);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), stripe, dfd, count, bytes);
}

static int f_is_sole(const struct crn_fs *fs, int fd)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_STAT);

    return h < 0 ? 0 : UNDER(fs_faulty_self(fs), is_sole, fd);
}

static const struct crn_fs_type *f_type(const struct crn_fs *fs, int fd)
{
    return UNDER(fs_faulty_self(fs), type, fd);
}

static int f_lock(const struct crn_fs *fs, int fd)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_LOCK);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), lock, fd);
}

static int f_lock_byte(const struct crn_fs *fs, int fd, uint32_t at)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_LOCK);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), lock_byte, fd, at);
}

static int f_map(const struct crn_fs *fs, int fd, size_t bytes, int prot, void **ret)
{
    int h = faulty_hit(fs_faulty_self(fs), CRN_OP_MAP);

    return h < 0 ? h : UNDER(fs_faulty_self(fs), map, fd, bytes, prot, ret);
}

void crn_fs_faulty_init(struct crn_fs_faulty *f, const struct crn_fs *under)
{
    memset(f, 0, sizeof(*f));
    f->fs = (struct crn_fs){.openat = f_openat,
                            .close = f_close,
                            .pread = f_pread,
                            .pwrite = f_pwrite,
                            .fsync = f_fsync,
                            .ftruncate = f_ftruncate,
                            .fallocate = f_fallocate,
                            .behind = f_behind,
                            .renameat = f_renameat,
                            .unlinkat = f_unlinkat,
                            .mkdirat = f_mkdirat,
                            .fstat = f_fstat,
                            .fstatat = f_fstatat,
                            .list = f_list,
                            .space = f_space,
                            .stripe = f_stripe,
                            .is_sole = f_is_sole,
                            .type = f_type,
                            .lock = f_lock,
                            .lock_byte = f_lock_byte,
                            .map = f_map};
    f->under = under;
    f->sys_errno = EIO;
    f->ops = CRN_OP_ALL;
    f->reads_fd = -1;
}

/* One table per process, because there is one environment per process. */
static struct crn_fs_faulty env_table;
static int env_set;

static void write_count(void)
{
    const char *path = getenv("CAIRN_FAULT_COUNT");
    FILE *f = path != NULL ? fopen(path, "we") : NULL;

    if (f == NULL)
        return;
    (void)fprintf(f, "%ld\n", atomic_load(&env_table.calls));
    (void)fclose(f);
}

static unsigned parse_ops(const char *text)
{
    static const char *const names[] = {"open",   "close", "read", "write", "sync", "rename",
                                        "unlink", "mkdir", "size", "stat",  "lock", "map"};
    unsigned ops = 0;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strstr(text, names[i]) != NULL)
            ops |= 1U << i;
    return ops != 0 ? ops : CRN_OP_ALL;
}

static void parse_env(void)
{
    static const char *const actions[] = {"fail", "short", "tear", "kill", "delay"};
    const char *env = getenv("CAIRN_FAULT_FS");
    const char *reads = getenv("CAIRN_FAULT_READS");
    char spec[256] = "";
    char *save = NULL;
    char *item;
    size_t i;

    if ((env == NULL && reads == NULL) || (env != NULL && strlen(env) >= sizeof(spec)))
        return;
    if (env != NULL)
        memcpy(spec, env, strlen(env) + 1);
    crn_fs_faulty_init(&env_table, crn_fs_posix());
    if (reads != NULL)
        env_table.reads_fd = open(reads, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (item = strtok_r(spec, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        if (strncmp(item, "at=", 3) == 0)
            env_table.at = strtol(item + 3, NULL, 10);
        else if (strncmp(item, "errno=", 6) == 0)
            env_table.sys_errno = (int)strtol(item + 6, NULL, 10);
        else if (strncmp(item, "ms=", 3) == 0)
            env_table.delay_ms = strtol(item + 3, NULL, 10);
        else if (strncmp(item, "sticky=", 7) == 0)
            env_table.sticky = item[7] == '1';
        else if (strncmp(item, "ops=", 4) == 0)
            env_table.ops = parse_ops(item + 4);
        else if (strncmp(item, "action=", 7) == 0)
            for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
                if (strcmp(item + 7, actions[i]) == 0)
                    env_table.action = (enum crn_fault_action)i;
    }
    env_set = 1;
    (void)atexit(write_count);
}

const struct crn_fs *crn_fs_faulty_from_env(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, parse_env);
    return env_set ? &env_table.fs : NULL;
}
