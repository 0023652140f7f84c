/* SPDX-License-Identifier: BSD-3-Clause */
/* Drain of the local tier: after a reboot the arenas are gone, the files on the node's own disk are
 * not. A local data file is laid out as on the PFS, so it is verified chunk by chunk, copied as it is
 * and committed when the files of all nodes are there. */
#include "service/drain_local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/rundir.h"
#include "store/data.h"

#define COPY_BLOCK ((size_t)4 << 20)

struct local_drain {
    const struct crn_fs *fs;
    const struct crn_config *cfg;
    struct crn_store local, pfs;
    crn_drain_fn fn;
    void *arg;
    struct crn_errinfo *first;
};

/* A run whose service lives flushes its files itself. */
static int is_alive(const struct crn_config *cfg, const struct crn_index *x)
{
    struct crn_errinfo why = {0};
    struct crn_rundir rd;
    struct crn_config plain = *cfg;
    int fd = -1;

    plain.local[0] = '\0'; /* the run's own directory is enough */
    if (crn_rundir_open(&plain, x->id.run, x->file_no, 0, &rd, &why) != CAIRN_OK)
        return 0;
    if (crn_rundir_lock(rd.dfd, 0, &fd, &why) == CAIRN_OK)
        (void)close(fd);
    crn_rundir_close(&rd);
    return why.code == CAIRN_EBUSY;
}

static cairn_err copy(const struct crn_fs *fs, int from, int to, uint64_t bytes, const char *file,
                      struct crn_errinfo *ei)
{
    unsigned char *block = malloc(COPY_BLOCK);
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "copy '%s'", file);
    for (at = 0; rc == CAIRN_OK && at < bytes; at += COPY_BLOCK) {
        size_t n = bytes - at < COPY_BLOCK ? (size_t)(bytes - at) : COPY_BLOCK;

        rc = crn_fs_read_all(fs, from, block, n, at, file, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(fs, to, block, n, at, file, ei);
    }
    free(block);
    return rc;
}

/* Copies a verified local file; it is durable when this returns. */
static cairn_err raise_file(struct local_drain *d, int from, const struct crn_index *x,
                            uint64_t data_end, struct crn_errinfo *ei)
{
    struct crn_manifest_file made = {0};
    char file[CRN_FILE_NAME];
    cairn_err rc;
    int to;

    rc = crn_store_create_data(&d->pfs, x->name, x->version, x->file_no, file, &to, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = copy(d->fs, from, to, data_end, file, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_finish_data(&d->pfs, to, file, data_end, x, &made, ei);
    else
        (void)d->fs->close(d->fs, to);
    if (rc != CAIRN_OK) {
        struct crn_errinfo ignored = {0};

        if (crn_store_discard_data(&d->pfs, x->name, x->version, file, &ignored) != CAIRN_OK)
            crn_err_clear(&ignored); /* a sweep removes it */
    }
    crn_manifest_file_free(&made);
    return rc;
}

static cairn_err drain_file(struct local_drain *d, const char *file, const struct crn_index *x,
                            const struct crn_manifest_file *mf, int dfd, uint32_t *ret_missing,
                            struct crn_errinfo *ei)
{
    struct crn_data_file data = {.fs = d->fs, .dfd = dfd, .index = x, .what = file};
    cairn_err rc;
    int lock_fd = -1;
    int fd;

    rc = crn_drain_lock(&d->pfs, x->name, (int64_t)d->cfg->commit_timeout_ns, &lock_fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = d->fs->openat(d->fs, dfd, file, O_RDONLY | O_NOFOLLOW, 0);
    rc = crn_fs_check(fd, ei, "open the local copy '%s'", file);
    if (rc == CAIRN_OK) {
        data.fd = fd;
        rc = crn_data_verify(&data, NULL, NULL, ei);
        if (rc == CAIRN_OK)
            rc = raise_file(d, fd, x, mf->trailer.index_offset, ei);
        (void)d->fs->close(d->fs, fd);
    }
    if (rc == CAIRN_OK)
        rc = crn_store_try_publish(&d->pfs, x->name, x->version, &x->id, x->files, d->cfg->job,
                                   ret_missing, ei);
    if (lock_fd >= 0)
        (void)close(lock_fd);
    return rc;
}

static void drain_version(struct local_drain *d, const char *name, int64_t version,
                          const char *file, int dfd)
{
    struct crn_drain_event ev = {.name = name, .version = version, .text = ""};
    struct crn_manifest_file mf = {0};
    struct crn_errinfo ei = {0};
    struct crn_index x = {0};
    char hex[CRN_RUN_HEX] = "";

    if (crn_store_describe_data(&d->local, name, version, file, &mf, &x, &ei) != CAIRN_OK)
        return; /* half a file: the next start of the name sweeps it */
    crn_run_hex(x.id.run, hex);
    ev.run = hex;
    if (is_alive(d->cfg, &x) || crn_drain_is_known(&d->pfs, name, version, &x.id, x.created_ns))
        goto out;
    if (drain_file(d, file, &x, &mf, dfd, &ev.missing, &ei) == CAIRN_OK) {
        ev.what = ev.missing == 0 ? CRN_DRAIN_COMMITTED : CRN_DRAIN_WAITING;
    } else {
        ev.what = CRN_DRAIN_FAILED;
        ev.text = ei.msg;
        crn_err_keep(d->first, &ei);
    }
    if (d->fn != NULL)
        d->fn(d->arg, &ev);
out:
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

static void drain_name(struct local_drain *d, const char *name)
{
    struct crn_catalog catalog = {0};
    struct crn_errinfo ei = {0};
    size_t i, k;

    if (crn_store_catalog(&d->local, name, &catalog, &ei) != CAIRN_OK)
        return;
    for (i = 0; i < catalog.n; i++) {
        struct crn_names files = {0};
        int dfd;

        if (crn_store_version_dir(&d->local, name, catalog.v[i].version, &dfd, &ei) != CAIRN_OK)
            continue;
        if (crn_fs_names(d->fs, dfd, name, &files, &ei) == CAIRN_OK)
            for (k = 0; k < files.n; k++)
                if (strncmp(files.name[k], "data-", 5) == 0)
                    drain_version(d, name, catalog.v[i].version, files.name[k], dfd);
        crn_names_free(&files);
        (void)d->fs->close(d->fs, dfd);
    }
    crn_catalog_free(&catalog);
}

cairn_err crn_drain_local(const struct crn_fs *fs, const struct crn_config *cfg, crn_drain_fn fn,
                          void *arg, struct crn_errinfo *first)
{
    struct local_drain d = {.fs = fs, .cfg = cfg, .fn = fn, .arg = arg, .first = first};
    struct crn_names names = {0};
    char root[CRN_PATH_MAX];
    cairn_err rc;
    size_t i;

    rc = crn_local_root(cfg, root, sizeof(root), first);
    if (rc == CAIRN_OK)
        rc = crn_store_open(fs, root, 0, &d.local, first);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_open(fs, cfg->persistent, 1, &d.pfs, first);
    if (rc == CAIRN_OK) {
        rc = crn_store_names(&d.local, &names, first);
        for (i = 0; rc == CAIRN_OK && i < names.n; i++)
            drain_name(&d, names.name[i]);
        crn_names_free(&names);
        crn_store_close(&d.pfs);
    }
    crn_store_close(&d.local);
    return rc;
}
