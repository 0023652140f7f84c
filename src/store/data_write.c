/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates, finishes and discards data files. Never writes to an existing name, so a file that a
 * manifest names never changes. A file that no manifest names any more may be reused under a new
 * name (spare.c). */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode/pack.h"
#include "store/data.h"

#define MAX_ATTEMPTS 10000
#define MAX_RACES    8
#define PACK_MIN     4096 /* bytes of an index */

/* Opens the directory of a version, creating it if necessary; its entry is durable on return. */
static cairn_err make_version(const struct crn_store *st, const char *name, int64_t version,
                              int *ret_dfd, struct crn_errinfo *ei)
{
    char text[CRN_VERSION_TEXT];
    cairn_err rc;
    int name_dfd;

    if (version < 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "version %lld of '%s' is negative", (long long)version,
                        name);
    rc = crn_store_make_name(st, name, &name_dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_version_text(version, text);
    rc = crn_fs_make_dirs(st->fs, name_dfd, text, 0700, ret_dfd, ei);
    (void)st->fs->close(st->fs, name_dfd);
    return crn_err_context(ei, rc, "'%s/%s'", st->path, name);
}

cairn_err crn_store_stripe(const struct crn_store *st, const char *name, int64_t version,
                           uint64_t count, uint64_t bytes, struct crn_errinfo *ei)
{
    cairn_err rc;
    int dfd;
    int r;

    rc = make_version(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    r = st->fs->stripe(st->fs, dfd, count, bytes);
    (void)st->fs->close(st->fs, dfd);
    if (r == -ENOTSUP)
        return crn_fail(ei, CAIRN_ENOTSUP, ENOTSUP, "'%s' has no stripes", st->path);
    if (r == -ELIBACC)
        return crn_fail(ei, CAIRN_EIO, ELIBACC,
                        "liblustreapi cannot be loaded; run `lfs setstripe` on "
                        "'%s' once instead",
                        st->path);
    return crn_fs_check(r, ei, "stripe '%s'", crn_where(st, name, version, NULL).text);
}

/* crn_data_name, crn_parity_name */
typedef void data_write_name(uint32_t number, uint32_t attempt, char ret[CRN_FILE_NAME]);

/* Creates a file under the first unused name. Returns a descriptor or -errno. */
static int create_named(const struct crn_fs *fs, int dfd, uint32_t number, data_write_name *name,
                        char ret_file[CRN_FILE_NAME])
{
    uint32_t attempt;
    int fd = -EEXIST;

    for (attempt = 0; attempt < MAX_ATTEMPTS && fd == -EEXIST; attempt++) {
        name(number, attempt, ret_file);
        fd = fs->openat(fs, dfd, ret_file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    return fd;
}

static int create_new(const struct crn_fs *fs, int dfd, uint32_t file_no,
                      char ret_file[CRN_FILE_NAME])
{
    return create_named(fs, dfd, file_no, crn_data_name, ret_file);
}

/* The same, but replaces the new file with one that a removed version left, if there is one. */
static int create_or_reuse(const struct crn_store *st, const char *name, int dfd, uint32_t file_no,
                           char ret_file[CRN_FILE_NAME])
{
    int fd = create_new(st->fs, dfd, file_no, ret_file);
    int spare;

    if (fd < 0)
        return fd;
    spare = crn_spare_take(st, name, dfd, file_no, ret_file);
    if (spare == -ENOENT)
        return fd;
    (void)st->fs->close(st->fs, fd); /* the rename replaced it: empty and unlinked */
    return spare >= 0 ? spare : create_new(st->fs, dfd, file_no, ret_file);
}

cairn_err crn_store_create_data(const struct crn_store *st, const char *name, int64_t version,
                                uint32_t file_no, char ret_file[CRN_FILE_NAME], int *ret_fd,
                                struct crn_errinfo *ei)
{
    int races = 0;
    cairn_err rc;
    int dfd;
    int fd;

    if (file_no >= CRN_MAX_FILES)
        return crn_fail(ei, CAIRN_EINVAL, 0, "data file %u: at most %u are allowed",
                        (unsigned)file_no, CRN_MAX_FILES);
    do {
        rc = make_version(st, name, version, &dfd, ei);
        if (rc != CAIRN_OK)
            return rc;
        fd = create_or_reuse(st, name, dfd, file_no, ret_file);
        (void)st->fs->close(st->fs, dfd);
        /* ENOENT: another node discarded its file and removed the directory, which was empty
         * then. */
    } while (fd == -ENOENT && races++ < MAX_RACES);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "create '%s'", crn_where(st, name, version, ret_file).text);
    *ret_fd = fd;
    return CAIRN_OK;
}

cairn_err crn_store_create_parity(const struct crn_store *st, const char *name, int64_t version,
                                  uint32_t node, char ret_file[CRN_FILE_NAME], int *ret_fd,
                                  struct crn_errinfo *ei)
{
    cairn_err rc;
    int dfd;
    int fd;

    rc = make_version(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = create_named(st->fs, dfd, node, crn_parity_name, ret_file);
    (void)st->fs->close(st->fs, dfd);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "create '%s'", crn_where(st, name, version, ret_file).text);
    *ret_fd = fd;
    return CAIRN_OK;
}

/* Fills in the lists that the manifest copies from an index. */
static cairn_err fill_lists(const struct crn_index *index, struct crn_manifest_file *ret,
                            struct crn_errinfo *ei)
{
    cairn_err rc = crn_data_ranges(index, &ret->ranges, &ret->nranges, ei);

    if (rc == CAIRN_OK)
        rc = crn_bases_copy(index->bases, index->nbases, &ret->bases, ei);
    if (rc == CAIRN_OK)
        ret->nbases = index->nbases;
    return rc;
}

/* Packs the index of an encoded file, if that makes it smaller. One that is too small to matter stays
 * as it is, so that people can read it. */
static cairn_err pack_index(const char *pipe_text, struct crn_buf *index, struct crn_errinfo *ei)
{
    struct crn_buf packed = {0};
    struct crn_buf wrapped = {0};
    struct crn_pipe pipe;
    cairn_err rc = CAIRN_OK;

    if (pipe_text == NULL && index->len < PACK_MIN)
        return CAIRN_OK;
    if (pipe_text != NULL)
        rc = crn_pipe_parse(pipe_text, &pipe, ei);
    if (rc == CAIRN_OK)
        rc = crn_pack(index->data, index->len, pipe_text != NULL ? &pipe : NULL, &packed, ei);
    if (rc == CAIRN_OK && packed.len < index->len && index->len / CRN_INDEX_GAIN <= packed.len)
        rc = crn_index_wrap(index->len, packed.data, packed.len, &wrapped, ei);
    crn_buf_free(&packed);
    if (rc != CAIRN_OK || wrapped.len == 0) {
        crn_buf_free(&wrapped);
        return rc;
    }
    crn_buf_free(index);
    *index = wrapped;
    return CAIRN_OK;
}

/* Encodes index and trailer, and describes the file for the manifest. */
static cairn_err data_write_compose(const char *pack, const char *file, uint64_t data_end,
                                    const struct crn_index *index, struct crn_buf *buf,
                                    struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    cairn_err rc;
    uint64_t i;

    for (i = 0; i < index->nstreams; i++)
        if (crn_stream_end(&index->streams[i]) > data_end)
            return crn_fail(ei, CAIRN_EINVAL, 0, "'%s': a stream ends past the data", file);
    for (i = 0; index->nstreams == 0 && i < index->nextents; i++)
        if (index->extents[i].bytes > data_end ||
            index->extents[i].file_offset > data_end - index->extents[i].bytes)
            return crn_fail(ei, CAIRN_EINVAL, 0, "'%s': an extent ends past the data", file);
    rc = crn_index_encode(index, buf, ei);
    if (rc == CAIRN_OK && index->nstreams > 0)
        rc = pack_index(pack, buf, ei);
    if (rc != CAIRN_OK)
        return rc;
    memset(ret, 0, sizeof(*ret));
    (void)snprintf(ret->name, sizeof(ret->name), "%s", file);
    ret->trailer.index_offset = data_end;
    ret->trailer.index_bytes = buf->len;
    ret->trailer.index_hash = crn_hash(buf->data, buf->len);
    ret->bytes = data_end + buf->len + CRN_TRAILER_SIZE;
    rc = crn_trailer_encode(&ret->trailer, buf, ei);
    if (rc != CAIRN_OK)
        return rc;
    return fill_lists(index, ret, ei);
}

cairn_err crn_store_finish_data(const struct crn_store *st, int fd, const char *file,
                                uint64_t data_end, const struct crn_index *index,
                                struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    struct crn_manifest_file mf = {0};
    struct crn_buf buf = {0};
    cairn_err rc;
    int r;

    rc = data_write_compose(st->index_pipe, file, data_end, index, &buf, &mf, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_write_all(fs, fd, buf.data, buf.len, data_end, file, ei);
    /* Preallocated space or a padded last block may extend past the end. */
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->ftruncate(fs, fd, (off_t)mf.bytes), ei, "truncate '%s'", file);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s'", file);
    /* After a failed fsync the file may look whole in the page cache but be torn on disk. Truncate
     * it, so that no drain publishes it. */
    if (rc != CAIRN_OK)
        (void)fs->ftruncate(fs, fd, 0);
    r = fs->close(fs, fd);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(r, ei, "close '%s'", file);
    crn_buf_free(&buf);
    if (rc != CAIRN_OK) {
        crn_manifest_file_free(&mf);
        return rc;
    }
    *ret = mf;
    return CAIRN_OK;
}

cairn_err crn_store_describe_data(const struct crn_store *st, const char *name, int64_t version,
                                  const char *file, struct crn_manifest_file *ret,
                                  struct crn_index *ret_index, struct crn_errinfo *ei)
{
    struct crn_where where = crn_where(st, name, version, file);
    struct crn_manifest_file mf = {0};
    struct crn_index x = {0};
    uint32_t file_no, attempt;
    cairn_err rc;
    int dfd;
    int fd;

    if (crn_data_name_parse(file, &file_no, &attempt) != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not the name of a data file", file);
    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_data_open(st->fs, dfd, file, where.text, &fd, &mf.bytes, &mf.trailer, ei);
    (void)st->fs->close(st->fs, dfd);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_data_index(st->fs, fd, &mf.trailer, where.text, &x, ei);
    (void)st->fs->close(st->fs, fd);
    if (rc == CAIRN_OK &&
        (strcmp(x.name, name) != 0 || x.version != version || x.file_no != file_no))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: belongs to %s@%lld, file %u", where.text, x.name,
                      (long long)x.version, (unsigned)x.file_no);
    if (rc == CAIRN_OK)
        rc = fill_lists(&x, &mf, ei);
    if (rc != CAIRN_OK) {
        crn_manifest_file_free(&mf);
        crn_index_free(&x);
        return rc;
    }
    (void)snprintf(mf.name, sizeof(mf.name), "%s", file);
    *ret = mf;
    *ret_index = x;
    return CAIRN_OK;
}

/* A publish that failed after its rename may have committed: files that a manifest names must
 * stay. */
static cairn_err refuse_committed(const struct crn_store *st, int dfd, const char *name,
                                  int64_t version, const char *file, struct crn_errinfo *ei)
{
    struct crn_errinfo none = {0};
    struct crn_manifest m;
    cairn_err rc;
    uint32_t i;

    rc = crn_store_read_manifest(st, dfd, name, version, &m, &none);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &none);
        return rc;
    }
    for (i = 0; i < m.nfiles && rc == CAIRN_OK; i++)
        if (strcmp(m.files[i].name, file) == 0)
            rc = crn_fail(ei, CAIRN_ESTATE, 0, "'%s' is part of a committed version",
                          crn_where(st, name, version, file).text);
    crn_manifest_free(&m);
    return rc;
}

cairn_err crn_store_discard_data(const struct crn_store *st, const char *name, int64_t version,
                                 const char *file, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    char stats[CRN_FILE_NAME];
    uint32_t file_no, attempt;
    cairn_err rc;
    int dfd;
    int r;

    if (crn_data_name_parse(file, &file_no, &attempt) != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not the name of a data file", file);
    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = refuse_committed(st, dfd, name, version, file, ei);
    r = rc == CAIRN_OK ? fs->unlinkat(fs, dfd, file, 0) : 0;
    if (rc == CAIRN_OK) {
        crn_stats_name(file, stats);
        (void)fs->unlinkat(fs, dfd, stats, 0); /* may not exist; a sweep retries */
    }
    (void)fs->close(fs, dfd);
    if (rc != CAIRN_OK)
        return rc;
    if (r < 0 && r != -ENOENT)
        return crn_fail_errno(ei, -r, "remove '%s'", crn_where(st, name, version, file).text);
    return crn_store_remove_empty(st, name, version, ei);
}
