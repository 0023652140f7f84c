/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/outfile.h"

#include <fcntl.h>
#include <stdio.h>

cairn_err crn_outfile_create(struct crn_outfile *o, const struct crn_store *st,
                             const struct crn_index *head, uint64_t align_bytes,
                             struct crn_errinfo *ei)
{
    o->st = st;
    o->align_bytes = align_bytes;
    atomic_init(&o->end, 0);
    return crn_store_create_data(st, head->name, head->version, head->file_no, o->name, &o->fd, ei);
}

cairn_err crn_outfile_open(struct crn_outfile *o, const struct crn_store *st,
                           const struct crn_index *head, const char *file, struct crn_errinfo *ei)
{
    cairn_err rc;
    int dfd;

    o->st = st;
    (void)snprintf(o->name, sizeof(o->name), "%s", file);
    rc = crn_store_version_dir(st, head->name, head->version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    o->fd = st->fs->openat(st->fs, dfd, file, O_WRONLY | O_NOFOLLOW, 0);
    (void)st->fs->close(st->fs, dfd);
    return o->fd >= 0 ? CAIRN_OK : crn_fail_errno(ei, -o->fd, "open '%s' of another node", file);
}

uint64_t crn_outfile_reserve(struct crn_outfile *o, uint64_t bytes)
{
    uint64_t align = o->align_bytes;

    return atomic_fetch_add(&o->end, (bytes + align - 1) / align * align);
}

cairn_err crn_outfile_write(struct crn_outfile *o, const void *p, uint64_t bytes, uint64_t offset,
                            struct crn_errinfo *ei)
{
    cairn_err rc = crn_fs_write_all(o->st->fs, o->fd, p, bytes, offset, o->name, ei);

    if (rc == CAIRN_OK && o->written != NULL)
        (void)atomic_fetch_add(o->written, bytes);
    return rc;
}

cairn_err crn_outfile_finish(struct crn_outfile *o, const struct crn_index *index,
                             struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    return crn_store_finish_data(o->st, o->fd, o->name, atomic_load(&o->end), index, ret, ei);
}

cairn_err crn_outfile_sync(struct crn_outfile *o, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = o->st->fs;
    cairn_err rc = crn_fs_check(fs->fsync(fs, o->fd), ei, "fsync '%s'", o->name);
    int r = fs->close(fs, o->fd);

    return rc != CAIRN_OK ? rc : crn_fs_check(r, ei, "close '%s'", o->name);
}

void crn_outfile_abandon(struct crn_outfile *o)
{
    (void)o->st->fs->close(o->st->fs, o->fd); /* failed already */
}

void crn_outfile_remove(const struct crn_outfile *o, const struct crn_index *head)
{
    struct crn_errinfo ei = {0};

    if (crn_store_discard_data(o->st, head->name, head->version, o->name, &ei) != CAIRN_OK)
        crn_err_clear(&ei); /* a sweep removes it */
}
