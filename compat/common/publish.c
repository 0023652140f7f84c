/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread copies one file after another: temporary file beside the target, fsync, rename. The
 * temporary file has the same name in every run, so the next run, which takes the same version
 * again, overwrites the leftover of a killed one. */
#include "common/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/queue.h"

#define BLOCK ((size_t)1 << 20)
#define ROOM  128 /* files in flight; with more, the checkpoint waits */

struct crn_publish_copy {
    int fd;
    char *path;
    struct crn_errinfo error; /* mu */
    int is_done;              /* mu */
};

struct crn_publisher {
    const struct crn_fs *fs;
    char tag[32];
    const struct crn_log *log;
    struct crn_queue todo;
    struct crn_mutex mu;
    struct crn_cond done;
    pthread_t thread;
};

static cairn_err copy_bytes(const struct crn_fs *fs, int from, int to, const char *path,
                            struct crn_errinfo *ei)
{
    unsigned char *block = malloc(BLOCK);
    cairn_err rc = CAIRN_OK;
    uint64_t at = 0;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copy to '%s'", path);
    while (rc == CAIRN_OK) {
        ssize_t n = fs->pread(fs, from, block, BLOCK, (off_t)at);

        if (n == 0)
            break;
        if (n == -EINTR)
            continue;
        if (n < 0)
            rc = crn_fail_errno(ei, (int)-n, "read the file for '%s'", path);
        else
            rc = crn_fs_write_all(fs, to, block, (size_t)n, at, path, ei);
        at += n > 0 ? (uint64_t)n : 0;
    }
    free(block);
    return rc;
}

/* Renames the temporary file, which is open at to, to dfd/base. */
static cairn_err put_in_place(const struct crn_fs *fs, int dfd, int to, const char *tmp,
                              const char *base, const char *path, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_fs_check(fs->fsync(fs, to), ei, "fsync the copy to '%s'", path);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->renameat(fs, dfd, tmp, dfd, base), ei, "rename to '%s'", path);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, dfd), ei, "fsync the directory of '%s'", path);
    return rc;
}

static cairn_err publish_publish(const struct crn_publisher *p, const struct crn_publish_copy *c,
                                 struct crn_errinfo *ei)
{
    const struct crn_fs *fs = p->fs;
    const char *base = strrchr(c->path, '/') + 1; /* the path is absolute */
    char tmp[NAME_MAX + 1];
    char dir[PATH_MAX];
    cairn_err rc;
    int dfd, to;

    (void)snprintf(dir, sizeof(dir), "%.*s", (int)(base - c->path), c->path);
    (void)snprintf(tmp, sizeof(tmp), ".%.200s.%s.tmp", base, p->tag);
    dfd = fs->openat(fs, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    rc = crn_fs_check(dfd, ei, "open the directory of '%s'", c->path);
    if (rc != CAIRN_OK)
        return rc;
    to = fs->openat(fs, dfd, tmp, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    rc = crn_fs_check(to, ei, "create '%s%s'", dir, tmp);
    if (rc == CAIRN_OK) {
        rc = copy_bytes(fs, c->fd, to, c->path, ei);
        if (rc == CAIRN_OK)
            rc = put_in_place(fs, dfd, to, tmp, base, c->path, ei);
        (void)fs->close(fs, to); /* synced already, or failed already */
        if (rc != CAIRN_OK)
            (void)fs->unlinkat(fs, dfd, tmp, 0);
    }
    (void)fs->close(fs, dfd);
    return rc;
}

static void *publish_run(void *arg)
{
    struct crn_publisher *p = arg;
    struct crn_publish_copy *c;

    crn_thread_background(10);
    while ((c = crn_queue_pop(&p->todo)) != NULL) {
        struct crn_errinfo ei = {0};

        ei.code = publish_publish(p, c, &ei);
        if (ei.code != CAIRN_OK && p->log != NULL)
            crn_log(p->log, CRN_ERROR,
                    "the checkpoint has its file, but '%s' could not be written: %s", c->path,
                    ei.msg);
        (void)p->fs->close(p->fs, c->fd);
        crn_lock(&p->mu);
        c->error = ei;
        c->is_done = 1;
        crn_cond_broadcast(&p->done);
        crn_unlock(&p->mu);
    }
    return NULL;
}

cairn_err crn_publisher_open(const struct crn_fs *fs, const char *tag, const struct crn_log *log,
                             struct crn_publisher **ret, struct crn_errinfo *ei)
{
    struct crn_publisher *p = calloc(1, sizeof(*p));
    cairn_err rc;

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the publisher of files");
    p->fs = fs;
    p->log = log;
    (void)snprintf(p->tag, sizeof(p->tag), "%s", tag);
    rc = crn_queue_init(&p->todo, ROOM, ei);
    if (rc != CAIRN_OK) {
        free(p);
        return rc;
    }
    crn_mutex_init(&p->mu, CRN_RANK_LEAF);
    crn_cond_init(&p->done);
    rc = crn_thread_start(&p->thread, "cairn-publish", publish_run, p, ei);
    if (rc != CAIRN_OK) {
        crn_cond_fini(&p->done);
        crn_mutex_fini(&p->mu);
        crn_queue_fini(&p->todo);
        free(p);
        return rc;
    }
    *ret = p;
    return CAIRN_OK;
}

void crn_publisher_close(struct crn_publisher *p)
{
    if (p == NULL)
        return;
    crn_queue_close(&p->todo);
    (void)pthread_join(p->thread, NULL);
    crn_cond_fini(&p->done);
    crn_mutex_fini(&p->mu);
    crn_queue_fini(&p->todo);
    free(p);
}

cairn_err crn_publish_file(struct crn_publisher *p, int fd, const char *path,
                           struct crn_publish_copy **ret, struct crn_errinfo *ei)
{
    struct crn_publish_copy *c = calloc(1, sizeof(*c));
    cairn_err rc;

    if (c != NULL)
        c->path = strdup(path);
    if (c == NULL || c->path == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copy to '%s'", path);
        (void)p->fs->close(p->fs, fd);
        free(c);
        return rc;
    }
    c->fd = fd;
    (void)crn_queue_push(&p->todo, c); /* only the calling thread closes the queue */
    *ret = c;
    return CAIRN_OK;
}

int crn_publish_is_done(struct crn_publisher *p, const struct crn_publish_copy *c)
{
    int is_done;

    crn_lock(&p->mu);
    is_done = c->is_done;
    crn_unlock(&p->mu);
    return is_done;
}

cairn_err crn_publish_wait(struct crn_publisher *p, struct crn_publish_copy *c,
                           struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&p->mu);
    while (!c->is_done)
        crn_cond_wait(&p->done, &p->mu);
    crn_unlock(&p->mu);
    rc = c->error.code;
    crn_err_keep(ei, &c->error);
    free(c->path);
    free(c);
    return rc;
}
