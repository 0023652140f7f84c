/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct I/O takes whole pages that are page-aligned both in memory and in the file. Heads and
 * tails go through the page cache. No page is ever written both ways, because the two are not
 * coherent. */
#include "aggregate/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/late.h"

#define PAGE_MIN 4096

/* Preallocates the data where that helps: with O_DIRECT, writes that extend a file would
 * serialize. A file system that cannot preallocate is not an error. */
static cairn_err outfile_preallocate(struct crn_outfile *o, uint64_t bytes, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = o->st->fs;
    int r;

    if (bytes == 0 || o->direct_fd < 0)
        return CAIRN_OK;
    do
        r = fs->fallocate(fs, o->fd, 0, (off_t)bytes);
    while (r == -EINTR);
    o->lacks_room = r == -ENOSPC || r == -EDQUOT;
    if (o->lacks_room || r == -EIO)
        return crn_fail_errno(ei, -r, "allocate space for '%s' in '%s'", o->name, o->st->path);
    return CAIRN_OK;
}

/* Opens the file a second time with O_DIRECT, if configured; without it if the file system
 * refuses. is_ours: this node created the file, so it knows whether the file has old blocks. */
static void open_direct(struct crn_outfile *o, const struct crn_index *head, int is_ours)
{
    const struct crn_fs *fs = o->st->fs;
    char path[CAIRN_MAX_NAME + CRN_FILE_NAME + 32];
    long page = sysconf(_SC_PAGESIZE);

    if (!crn_outlet_is_direct(o->outlet, fs->type(fs, o->fd), is_ours && o->has_bytes))
        return;
    (void)snprintf(path, sizeof(path), "%s/%" PRId64 "/%s", head->name, head->version, o->name);
    o->page_bytes = page > PAGE_MIN ? (uint64_t)page : PAGE_MIN;
    if (o->align_bytes % o->page_bytes != 0) {
        crn_outlet_no_direct(o->outlet, "align_bytes is smaller than a page");
        return;
    }
    o->direct_fd = fs->openat(fs, o->st->dfd, path, O_WRONLY | O_DIRECT | O_NOFOLLOW, 0);
    if (o->direct_fd < 0)
        crn_outlet_no_direct(o->outlet, strerror(-o->direct_fd));
}

/* A file system without stripes is not reported: one configuration serves all file systems. */
static void outfile_stripe(const struct crn_outfile *o, const struct crn_index *head)
{
    const struct crn_outlet_options *opt = &o->outlet->opt;
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (opt->stripe_count == 0)
        return;
    rc = crn_store_stripe(o->st, head->name, head->version, opt->stripe_count, opt->stripe_bytes,
                          &ei);
    if (rc != CAIRN_OK && rc != CAIRN_ENOTSUP)
        crn_outlet_no_stripes(o->outlet, ei.msg);
}

static void outfile_init(struct crn_outfile *o, struct crn_outlet *outlet,
                         const struct crn_store *st, uint64_t align_bytes)
{
    o->st = st;
    o->outlet = outlet;
    o->align_bytes = align_bytes;
    o->direct_fd = -1;
    o->lacks_room = 0;
    o->is_behind = o->has_bytes = 0;
    crn_behind_init(&o->behind);
    atomic_init(&o->is_given_up, 0);
    atomic_init(&o->is_refused, 0);
    atomic_init(&o->end, 0);
}

/* Decides how to write the open file, from its old contents and its file system. */
static void outfile_look(struct crn_outfile *o)
{
    const struct crn_fs *fs = o->st->fs;
    const struct crn_fs_type *type = fs->type(fs, o->fd);
    struct stat sb;

    o->has_bytes = fs->fstat(fs, o->fd, &sb) < 0 || sb.st_blocks > 0;
    o->is_behind = crn_outlet_is_behind(o->outlet, type);
}

cairn_err crn_outfile_create(struct crn_outfile *o, struct crn_outlet *outlet,
                             const struct crn_store *st, const struct crn_index *head,
                             uint64_t align_bytes, uint64_t expected, struct crn_errinfo *ei)
{
    cairn_err rc;

    outfile_init(o, outlet, st, align_bytes);
    outfile_stripe(o, head);
    rc = crn_store_create_data(st, head->name, head->version, head->file_no, o->name, &o->fd, ei);
    if (rc != CAIRN_OK) {
        crn_behind_fini(&o->behind);
        return rc;
    }
    outfile_look(o);
    open_direct(o, head, 1);
    rc = outfile_preallocate(o, expected, ei);
    if (rc != CAIRN_OK) {
        crn_outfile_abandon(o);
        crn_outfile_remove(o, head);
    }
    return rc;
}

cairn_err crn_outfile_open(struct crn_outfile *o, struct crn_outlet *outlet,
                           const struct crn_store *st, const struct crn_index *head,
                           const char *file, uint64_t align_bytes, struct crn_errinfo *ei)
{
    uint64_t began_ns = crn_late_now();
    cairn_err rc;
    int dfd;

    outfile_init(o, outlet, st, align_bytes);
    (void)snprintf(o->name, sizeof(o->name), "%s", file);
    rc = crn_store_late_dir(st, head->name, head->version, began_ns, &dfd, ei);
    if (rc == CAIRN_OK) {
        do /* another host created it a moment ago */
            o->fd = st->fs->openat(st->fs, dfd, file, O_RDWR | O_NOFOLLOW, 0);
        while (o->fd == -ENOENT && crn_late_again(st->fs, dfd, began_ns));
        (void)st->fs->close(st->fs, dfd);
        rc = crn_fs_check(o->fd, ei, "open '%s' of another node", file);
    }
    if (rc != CAIRN_OK) {
        crn_behind_fini(&o->behind);
        return rc;
    }
    outfile_look(o);
    open_direct(o, head, 0);
    return CAIRN_OK;
}

uint64_t crn_outfile_reserve(struct crn_outfile *o, uint64_t bytes)
{
    uint64_t align = o->align_bytes;

    return atomic_fetch_add(&o->end, (bytes + align - 1) / align * align);
}

int crn_outfile_takes(const struct crn_outfile *o, const void *p)
{
    return o->direct_fd < 0 || (uintptr_t)p % o->page_bytes == 0;
}

/* Writes all of it through the page cache, or all of it with O_DIRECT. */
static cairn_err outfile_put(struct crn_outfile *o, int is_direct, const unsigned char *p,
                             uint64_t bytes, uint64_t offset, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = o->st->fs;
    struct crn_errinfo refused = {0};
    cairn_err rc;

    if (bytes == 0)
        return CAIRN_OK;
    if (!is_direct) {
        rc = crn_fs_write_all(fs, o->fd, p, bytes, offset, o->name, ei);
        if (rc == CAIRN_OK && o->is_behind)
            rc = crn_behind_wrote(&o->behind, fs, o->fd, offset, bytes, o->name, ei);
        return rc;
    }
    rc = crn_fs_write_all(fs, o->direct_fd, p, bytes, offset, o->name, &refused);
    if (rc != CAIRN_OK && refused.sys_errno == EINVAL) { /* some file systems refuse only here */
        atomic_store(&o->is_refused, 1);
        crn_outlet_no_direct(o->outlet, strerror(EINVAL));
        return crn_fs_write_all(fs, o->fd, p, bytes, offset, o->name, ei);
    }
    if (ei != NULL)
        crn_err_keep(ei, &refused);
    return rc;
}

/* Writes whole aligned pages with O_DIRECT and the rest through the page cache. */
static cairn_err put_parts(struct crn_outfile *o, const unsigned char *p, uint64_t bytes,
                           uint64_t offset, struct crn_errinfo *ei)
{
    uint64_t page = o->page_bytes;
    uint64_t head, whole;
    cairn_err rc;

    if (o->direct_fd < 0 || atomic_load(&o->is_refused))
        return outfile_put(o, 0, p, bytes, offset, ei);
    head = (page - offset % page) % page;
    whole = bytes > head ? (bytes - head) / page * page : 0;
    if (whole == 0 || ((uintptr_t)p + head) % page != 0)
        return outfile_put(o, 0, p, bytes, offset, ei);
    rc = outfile_put(o, 0, p, head, offset, ei);
    if (rc == CAIRN_OK)
        rc = outfile_put(o, 1, p + head, whole, offset + head, ei);
    if (rc == CAIRN_OK)
        rc = outfile_put(o, 0, p + head + whole, bytes - head - whole, offset + head + whole, ei);
    return rc;
}

cairn_err crn_outfile_write(struct crn_outfile *o, const void *p, uint64_t bytes, uint64_t offset,
                            struct crn_errinfo *ei)
{
    struct crn_gate *gate = o->outlet->opt.gate;
    uint64_t step = gate != NULL ? crn_gate_step(gate) : UINT64_MAX;
    cairn_err rc = CAIRN_OK;
    uint64_t at, n;

    for (at = 0; rc == CAIRN_OK && at < bytes; at += n) {
        n = bytes - at < step ? bytes - at : step;
        if (gate != NULL)
            crn_gate_pass(gate, n);
        if (atomic_load(&o->is_given_up))
            return crn_fail(ei, CAIRN_ECANCELED, 0, "write '%s': given up", o->name);
        rc = put_parts(o, (const unsigned char *)p + at, n, offset + at, ei);
        if (rc == CAIRN_OK && o->written != NULL)
            (void)atomic_fetch_add(o->written, n);
    }
    return rc;
}

cairn_err crn_outfile_pad(struct crn_outfile *o, uint64_t bytes, uint64_t offset,
                          struct crn_errinfo *ei)
{
    static unsigned char zeros[1 << 16]; /* not const, so that no file holds them */
    uint64_t at = offset + bytes;
    uint64_t end = (at + o->align_bytes - 1) / o->align_bytes * o->align_bytes;
    cairn_err rc = CAIRN_OK;
    uint64_t n;

    for (; o->has_bytes && rc == CAIRN_OK && at < end; at += n) {
        n = end - at < sizeof(zeros) ? end - at : sizeof(zeros);
        rc = outfile_put(o, 0, zeros, n, at, ei);
    }
    return rc;
}

/* Releases everything but the file itself. */
static int let_go(struct crn_outfile *o)
{
    crn_behind_fini(&o->behind);
    return o->direct_fd < 0 ? 0 : o->st->fs->close(o->st->fs, o->direct_fd);
}

cairn_err crn_outfile_finish(struct crn_outfile *o, const struct crn_index *index,
                             struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    cairn_err rc = crn_fs_check(let_go(o), ei, "close '%s'", o->name);

    if (rc != CAIRN_OK) {
        (void)o->st->fs->close(o->st->fs, o->fd);
        return rc;
    }
    return crn_store_finish_data(o->st, o->fd, o->name, atomic_load(&o->end), index, ret, ei);
}

cairn_err crn_outfile_sync(struct crn_outfile *o, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = o->st->fs;
    cairn_err rc = crn_fs_check(let_go(o), ei, "close '%s'", o->name);
    int r;

    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, o->fd), ei, "fsync '%s'", o->name);
    r = fs->close(fs, o->fd);
    return rc != CAIRN_OK ? rc : crn_fs_check(r, ei, "close '%s'", o->name);
}

void crn_outfile_abandon(struct crn_outfile *o)
{
    (void)let_go(o);
    (void)o->st->fs->close(o->st->fs, o->fd); /* it failed already */
}

void crn_outfile_remove(const struct crn_outfile *o, const struct crn_index *head)
{
    struct crn_errinfo ei = {0};

    if (crn_store_discard_data(o->st, head->name, head->version, o->name, &ei) != CAIRN_OK)
        crn_err_clear(&ei); /* a sweep removes it */
}
