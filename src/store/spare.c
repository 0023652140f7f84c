/* SPDX-License-Identifier: BSD-3-Clause */
/* Spares: data files that a removed version leaves for the next one. Their blocks or pages are
 * already allocated, so writing into them costs a half to a third of writing a new file.
 *
 *     retention     <name>/<version>/data-0003  ->  <name>/.spare-0003     manifest durably gone
 *     create_data   <name>/.spare-0003  ->  <name>/<new>/data-0003         replaces our empty file
 *
 * The rename is atomic, so one process gets the file. A spare is used only if no other process can
 * read it: see is_sole in base/fs.h. Spares need not be durable: no manifest names any file that a
 * power loss brings back. */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PREFIX ".spare-"

static void spare_name(uint32_t file_no, char ret[CRN_FILE_NAME])
{
    (void)snprintf(ret, CRN_FILE_NAME, PREFIX "%04u", (unsigned)file_no);
}

static int is_spare_name(const char *name)
{
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
           strspn(name + strlen(PREFIX), "0123456789") == strlen(name + strlen(PREFIX));
}

/* Checked before the rename too: where the file system cannot tell, keeping spares would be
 * useless. */
static int is_ours(const struct crn_fs *fs, int dfd, const char *file)
{
    int fd = fs->openat(fs, dfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    int r = fd >= 0 && fs->is_sole(fs, fd);

    if (fd >= 0)
        (void)fs->close(fs, fd);
    return r;
}

void crn_spare_keep(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                    const struct crn_named *named)
{
    const struct crn_fs *fs = st->fs;
    struct crn_errinfo ignored = {0};
    char spare[CRN_FILE_NAME];
    uint32_t file_no, attempt, i;
    int name_dfd;

    if (crn_store_name_dir(st, m->name, &name_dfd, &ignored) != CAIRN_OK)
        return;
    for (i = 0; i < m->nfiles; i++) {
        if (crn_named_has(named, m->version, m->files[i].name) ||
            crn_data_name_parse(m->files[i].name, &file_no, &attempt) != 0 ||
            !is_ours(fs, dfd, m->files[i].name))
            continue;
        spare_name(file_no, spare);
        /* on failure the caller unlinks the file */
        (void)fs->renameat(fs, dfd, m->files[i].name, name_dfd, spare);
    }
    (void)fs->close(fs, name_dfd);
}

/* Cuts off the old trailer: an unfinished file must not look whole. */
static int is_fit(const struct crn_fs *fs, int fd)
{
    struct stat sb;

    return fs->fstat(fs, fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_size > CRN_TRAILER_SIZE &&
           fs->is_sole(fs, fd) && fs->ftruncate(fs, fd, sb.st_size - CRN_TRAILER_SIZE) == 0;
}

int crn_spare_take(const struct crn_store *st, const char *name, int dfd, uint32_t file_no,
                   const char *file)
{
    const struct crn_fs *fs = st->fs;
    struct crn_errinfo ignored = {0};
    char spare[CRN_FILE_NAME];
    struct stat sb;
    int name_dfd;
    int fd;
    int r;

    if (crn_store_name_dir(st, name, &name_dfd, &ignored) != CAIRN_OK)
        return -ENOENT;
    spare_name(file_no, spare);
    r = fs->fstatat(fs, name_dfd, spare, &sb);
    if (r == 0)
        r = fs->renameat(fs, name_dfd, spare, dfd, file);
    (void)fs->close(fs, name_dfd);
    if (r < 0)
        return -ENOENT;
    fd = fs->openat(fs, dfd, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd >= 0 && is_fit(fs, fd))
        return fd;
    if (fd >= 0)
        (void)fs->close(fs, fd);
    r = fs->unlinkat(fs, dfd, file, 0);
    return r < 0 ? r : -ESTALE;
}

uint64_t crn_store_spare_bytes(const struct crn_store *st, const char *name, uint32_t file_no)
{
    struct crn_errinfo ignored = {0};
    char spare[CRN_FILE_NAME];
    struct stat sb = {0};
    int dfd;
    int r;

    if (crn_store_name_dir(st, name, &dfd, &ignored) != CAIRN_OK)
        return 0;
    spare_name(file_no, spare);
    r = st->fs->fstatat(st->fs, dfd, spare, &sb);
    (void)st->fs->close(st->fs, dfd);
    return r == 0 && S_ISREG(sb.st_mode) ? (uint64_t)sb.st_blocks * 512 : 0;
}

cairn_err crn_spares_remove(const struct crn_store *st, const char *name, int dfd, int dry_run,
                            struct crn_sweep_result *res, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    struct crn_names names = {0};
    struct stat sb;
    cairn_err rc;
    size_t i;
    int r;

    rc = crn_fs_names(fs, dfd, name, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
        if (!is_spare_name(names.name[i]) || fs->fstatat(fs, dfd, names.name[i], &sb) < 0 ||
            !S_ISREG(sb.st_mode))
            continue;
        r = dry_run ? 0 : fs->unlinkat(fs, dfd, names.name[i], 0);
        if (r < 0 && r != -ENOENT)
            rc = crn_fail_errno(ei, -r, "remove '%s/%s/%s'", st->path, name, names.name[i]);
        res->files++;
        res->bytes += (uint64_t)sb.st_size;
    }
    crn_names_free(&names);
    return rc;
}

cairn_err crn_store_drop_spares(const struct crn_store *st, const char *name,
                                struct crn_errinfo *ei)
{
    struct crn_sweep_result ignored = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_spares_remove(st, name, dfd, 0, &ignored, ei);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}
