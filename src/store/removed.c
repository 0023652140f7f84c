/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures that a person removed. Copies may exist in the memory or on the disks of nodes that the
 * tool cannot reach; a drain that finds one must not restore it. <name>/.removed has one record per
 * capture, appended with one write. A torn record fails its hash and is skipped; the next one
 * starts at the next multiple of the record size. When the file is full, the older half is
 * dropped. */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define RECORD   40
#define FULL     ((size_t)1 << 20)
#define READ_MAX (4 * FULL)

static void put_u64(uint64_t v, unsigned char *ret)
{
    size_t i;

    for (i = 0; i < 8; i++)
        ret[i] = (unsigned char)(v >> 8 * i);
}

/* Needs no memory: a removal without a record could be undone by a drain. */
static void put_record(const struct crn_capture_id *id, int64_t version, unsigned char ret[RECORD])
{
    memcpy(ret, id->run, sizeof(id->run));
    put_u64(id->seq, ret + 16);
    put_u64((uint64_t)version, ret + 24);
    put_u64(crn_hash(ret, 32), ret + 32);
}

static cairn_err read_list(const struct crn_store *st, int dfd, const char *name,
                           unsigned char **ret, size_t *ret_len, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    void *data = NULL;
    cairn_err rc;

    *ret = NULL;
    *ret_len = 0;
    rc = crn_fs_read_file(st->fs, dfd, CRN_REMOVED_LIST, READ_MAX, &data, ret_len, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return crn_err_context(ei, rc, "'%s/%s'", st->path, name);
    }
    *ret = data;
    return CAIRN_OK;
}

/* Drops the older half of a full list. */
static cairn_err removed_shrink(const struct crn_store *st, int dfd, const char *name,
                                struct crn_errinfo *ei)
{
    unsigned char *data;
    size_t len, skip;
    cairn_err rc;

    rc = read_list(st, dfd, name, &data, &len, ei);
    if (rc != CAIRN_OK)
        return rc;
    skip = len / 2 / RECORD * RECORD;
    rc = crn_fs_replace(st->fs, dfd, CRN_REMOVED_LIST, data + skip, len - skip, ei);
    free(data);
    return rc;
}

static cairn_err removed_append(const struct crn_store *st, int dfd, const char *name,
                                const unsigned char record[RECORD], struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    unsigned char line[2 * RECORD] = {0};
    struct stat sb;
    size_t pad;
    cairn_err rc;
    int fd;

    fd = fs->openat(fs, dfd, CRN_REMOVED_LIST, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s/%s'", st->path, name, CRN_REMOVED_LIST);
    rc = crn_fs_check(fs->fstat(fs, fd, &sb), ei, "stat '%s/%s/%s'", st->path, name,
                      CRN_REMOVED_LIST);
    if (rc == CAIRN_OK) {
        pad = (RECORD - (size_t)sb.st_size % RECORD) % RECORD; /* realign after a torn record */
        memcpy(line + pad, record, RECORD);
        rc = crn_fs_write_all(fs, fd, line, pad + RECORD, (uint64_t)sb.st_size, CRN_REMOVED_LIST,
                              ei);
    }
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s/%s/%s'", st->path, name,
                          CRN_REMOVED_LIST);
    if (rc == CAIRN_OK && sb.st_size == 0)
        rc = crn_fs_check(fs->fsync(fs, dfd), ei, "fsync '%s/%s'", st->path, name);
    (void)fs->close(fs, fd);
    if (rc == CAIRN_OK && (size_t)sb.st_size >= FULL)
        rc = removed_shrink(st, dfd, name, ei);
    return rc;
}

cairn_err crn_store_note_removed(const struct crn_store *st, const char *name, int64_t version,
                                 const struct crn_capture_id *id, struct crn_errinfo *ei)
{
    unsigned char record[RECORD];
    cairn_err rc;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    put_record(id, version, record);
    rc = removed_append(st, dfd, name, record, ei);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

cairn_err crn_store_was_removed(const struct crn_store *st, const char *name, int64_t version,
                                const struct crn_capture_id *id, int *ret, struct crn_errinfo *ei)
{
    unsigned char record[RECORD];
    struct crn_errinfo why = {0};
    unsigned char *data;
    size_t len, at;
    cairn_err rc;
    int dfd;

    *ret = 0;
    rc = crn_store_name_dir(st, name, &dfd, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    rc = read_list(st, dfd, name, &data, &len, ei);
    (void)st->fs->close(st->fs, dfd);
    if (rc != CAIRN_OK)
        return rc;
    put_record(id, version, record);
    for (at = 0; data != NULL && at + RECORD <= len && !*ret; at += RECORD)
        *ret = memcmp(data + at, record, RECORD) == 0;
    free(data);
    return CAIRN_OK;
}
