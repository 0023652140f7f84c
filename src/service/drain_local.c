/* SPDX-License-Identifier: BSD-3-Clause */
/* Drains the local tier: after a reboot the arenas are gone, but the files on the node's disk are
 * not. A local data file has the layout of the PFS, so it is verified chunk by chunk, copied
 * unchanged, and committed once the files of all nodes are there. Events of a version are reported
 * after all its files were examined, damaged files first: they explain why other nodes would wait
 * in vain. */
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

struct said {
    enum crn_drain_what what;
    char run[CRN_RUN_HEX];
    uint32_t missing;
    char text[CRN_ERR_TEXT];
};

struct local_drain {
    const struct crn_fs *fs;
    const struct crn_config *cfg;
    struct crn_store local, pfs;
    crn_drain_fn fn;
    void *arg;
    struct crn_errinfo *first;
    int others_live;   /* living runs may be writing files here */
    struct said *said; /* events of the current version; owned */
    size_t nsaid;
};

/* Events. -------------------------------------------------------------------------------------- */

static void drain_local_say(struct local_drain *d, enum crn_drain_what what, const char *run,
                            uint32_t missing, const char *text)
{
    struct said *grown = realloc(d->said, (d->nsaid + 1) * sizeof(*grown));

    if (grown == NULL)
        return; /* out of memory: worse errors will follow */
    d->said = grown;
    grown[d->nsaid] = (struct said){.what = what, .missing = missing};
    (void)snprintf(grown[d->nsaid].run, sizeof(grown->run), "%s", run);
    (void)snprintf(grown[d->nsaid].text, sizeof(grown->text), "%s", text);
    d->nsaid++;
}

static void drain_local_fail(struct local_drain *d, const char *run, const struct crn_errinfo *why)
{
    drain_local_say(d, CRN_DRAIN_FAILED, run, 0, why->msg);
    crn_err_keep(d->first, why);
}

static int is_bad(const struct said *s)
{
    return s->what == CRN_DRAIN_FAILED || s->what == CRN_DRAIN_INCOMPLETE;
}

static void tell_version(struct local_drain *d, const char *name, int64_t version)
{
    int has_bad = 0;
    int pass;
    size_t i;

    for (pass = 1; pass >= 0; pass--)
        for (i = 0; i < d->nsaid; i++) {
            const struct said *s = &d->said[i];
            struct crn_drain_event ev = {s->what, s->run, name, version, s->missing, s->text};

            if (is_bad(s) != pass)
                continue;
            has_bad |= pass;
            if (s->what == CRN_DRAIN_WAITING && has_bad)
                ev.text = "not whole on this node, see above: this version cannot be saved";
            crn_drain_report(d->fs, d->cfg, &ev);
            if (d->fn != NULL)
                d->fn(d->arg, &ev);
        }
    free(d->said);
    d->said = NULL;
    d->nsaid = 0;
}

/* One file. ------------------------------------------------------------------------------------ */

/* Is the service of the file's run alive? It then flushes its files itself. An error if that cannot
 * be determined. */
static cairn_err look_for_run(const struct local_drain *d, const struct crn_index *x,
                              int *ret_is_alive, struct crn_errinfo *ei)
{
    struct crn_config plain = *d->cfg;
    struct crn_errinfo why = {0};
    struct crn_rundir rd;
    int fd = -1;
    cairn_err rc;

    *ret_is_alive = 0;
    plain.local[0] = '\0'; /* only the run's own directory matters */
    rc = crn_rundir_open(d->fs, &plain, x->id.run, x->file_no, 0, &rd, &why);
    if (rc == CAIRN_OK) {
        rc = crn_rundir_lock(&rd, &fd, &why);
        if (rc == CAIRN_OK)
            (void)d->fs->close(d->fs, fd);
        crn_rundir_close(&rd);
    }
    *ret_is_alive = rc == CAIRN_EBUSY;
    if (rc == CAIRN_OK || rc == CAIRN_EBUSY || rc == CAIRN_ENOENT)
        return CAIRN_OK;
    crn_err_keep(ei, &why);
    return rc;
}

static cairn_err drain_local_copy(const struct crn_fs *fs, int from, int to, uint64_t bytes,
                                  const char *file, struct crn_errinfo *ei)
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

/* Copies a verified local file to a new file on the PFS, durably. */
static cairn_err raise_file(struct local_drain *d, int from, const struct crn_index *x,
                            uint64_t data_end, char file[CRN_FILE_NAME], struct crn_errinfo *ei)
{
    struct crn_manifest_file made = {0};
    cairn_err rc;
    int to;

    rc = crn_store_create_data(&d->pfs, x->name, x->version, x->file_no, file, &to, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = drain_local_copy(d->fs, from, to, data_end, file, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_finish_data(&d->pfs, to, file, data_end, x, &made, ei);
    else
        (void)d->fs->close(d->fs, to);
    if (rc != CAIRN_OK) {
        struct crn_errinfo ignored = {0};

        if (crn_store_discard_data(&d->pfs, x->name, x->version, file, &ignored) != CAIRN_OK)
            crn_err_clear(&ignored); /* a sweep will remove it */
    }
    crn_manifest_file_free(&made);
    return rc;
}

static cairn_err drain_local_lost(const char *path, const char *how, cairn_err rc,
                                  struct crn_errinfo *ei)
{
    return crn_err_context(
        ei, rc,
        "the local file '%s' is %s: this version cannot be saved without it, and "
        "a restart will use an older one. Remove the file to stop this message",
        path, how);
}

static cairn_err drain_file(struct local_drain *d, const char *file, const char *path,
                            const struct crn_index *x, const struct crn_manifest_file *mf, int dfd,
                            uint32_t *ret_missing, struct crn_errinfo *ei)
{
    struct crn_data_file data = {.fs = d->fs, .dfd = dfd, .index = x, .what = path};
    char made[CRN_FILE_NAME];
    struct crn_unpublished u = {x->name, x->version, &x->id, x->files, d->cfg->job, made};
    cairn_err rc;
    int lock_fd = -1;
    int fd = -1;

    rc = crn_drain_lock(&d->pfs, x->name, CRN_DRAIN_WHO, (int64_t)d->cfg->commit_timeout_ns,
                        &lock_fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_check_pin(&d->pfs, x->name, x->version, &x->id, ei);
    if (rc == CAIRN_OK) {
        fd = d->fs->openat(d->fs, dfd, file, O_RDONLY | O_NOFOLLOW, 0);
        rc = crn_fs_check(fd, ei, "open the local copy '%s'", path);
    }
    if (rc == CAIRN_OK) {
        data.fd = fd;
        rc = crn_data_verify(&data, NULL, NULL, ei);
        if (rc == CAIRN_EDAMAGED)
            rc = drain_local_lost(path, "damaged", rc, ei);
        if (rc == CAIRN_OK)
            rc = raise_file(d, fd, x, mf->trailer.index_offset, made, ei);
        (void)d->fs->close(d->fs, fd);
    }
    if (rc == CAIRN_OK)
        rc = crn_store_try_publish(&d->pfs, &u, ret_missing, ei);
    if (lock_fd >= 0)
        (void)d->fs->close(d->fs, lock_fd);
    return rc;
}

/* Handles a file with an unreadable index, so its run is unknown. If it has no trailer, a run may
 * be writing it now, or may have died while it did. */
static void drain_unknown(struct local_drain *d, const char *name, int64_t version,
                          const char *file, const char *path, int dfd, struct crn_errinfo *why)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest m;
    struct crn_trailer t;
    uint64_t bytes;
    int has_end = 0;
    int fd;

    if (why->code != CAIRN_EDAMAGED && why->code != CAIRN_EFORMAT) {
        drain_local_fail(d, "", why); /* a read error says nothing about the file */
        return;
    }
    if (crn_store_manifest(&d->pfs, name, version, &m, &ignored) == CAIRN_OK) {
        crn_manifest_free(&m);
        return; /* the version is committed: the file is not needed */
    }
    crn_err_clear(&ignored);
    if (crn_data_open(d->fs, dfd, file, path, &fd, &bytes, &t, &ignored) == CAIRN_OK) {
        (void)d->fs->close(d->fs, fd);
        has_end = 1;
    }
    if (!has_end && d->others_live)
        return;
    why->code = drain_local_lost(path, has_end ? "damaged" : "damaged, or was never finished",
                                 why->code, why);
    if (has_end)
        drain_local_fail(d, "", why);
    else
        drain_local_say(d, CRN_DRAIN_INCOMPLETE, "", 0, why->msg);
}

static cairn_err drain_readable(struct local_drain *d, const char *file, const char *path,
                                const struct crn_index *x, const struct crn_manifest_file *mf,
                                int dfd, struct crn_errinfo *ei)
{
    struct crn_drain_capture c = {x->name, x->version, &x->id, x->created_ns,
                                  crn_config_name(d->cfg, x->name)};
    char hex[CRN_RUN_HEX] = "";
    uint32_t missing = 0;
    int is_done = 0;
    cairn_err rc;

    rc = look_for_run(d, x, &is_done, ei);
    if (rc == CAIRN_OK && !is_done)
        rc = crn_drain_is_known(&d->pfs, &c, &is_done, ei);
    if (rc != CAIRN_OK || is_done)
        return rc;
    rc = drain_file(d, file, path, x, mf, dfd, &missing, ei);
    crn_run_hex(x->id.run, hex);
    if (rc == CAIRN_OK)
        drain_local_say(d, missing == 0 ? CRN_DRAIN_COMMITTED : CRN_DRAIN_WAITING, hex, missing,
                        "");
    return rc;
}

static void drain_data(struct local_drain *d, const char *name, int64_t version, const char *file,
                       int dfd)
{
    struct crn_manifest_file mf = {0};
    struct crn_errinfo ei = {0};
    struct crn_index x = {0};
    char hex[CRN_RUN_HEX] = "";
    char path[CRN_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%.*s/%s/%" PRId64 "/%s", CRN_PATH_MAX / 2, d->local.path,
                   name, version, file);
    if (crn_store_describe_data(&d->local, name, version, file, &mf, &x, &ei) != CAIRN_OK) {
        drain_unknown(d, name, version, file, path, dfd, &ei);
        return;
    }
    crn_run_hex(x.id.run, hex);
    if (drain_readable(d, file, path, &x, &mf, dfd, &ei) != CAIRN_OK)
        drain_local_fail(d, hex, &ei);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

static cairn_err drain_version(struct local_drain *d, const char *name, int64_t version,
                               struct crn_errinfo *ei)
{
    struct crn_names files = {0};
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_store_version_dir(&d->local, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_names(d->fs, dfd, name, &files, ei);
    for (i = 0; rc == CAIRN_OK && i < files.n; i++)
        if (strncmp(files.name[i], "data-", 5) == 0)
            drain_data(d, name, version, files.name[i], dfd);
    crn_names_free(&files);
    (void)d->fs->close(d->fs, dfd);
    return rc;
}

static void drain_name(struct local_drain *d, const char *name)
{
    struct crn_catalog catalog = {0};
    struct crn_errinfo ei = {0};
    cairn_err rc;
    size_t i;

    rc = crn_store_catalog(&d->local, name, &catalog, &ei);
    if (rc != CAIRN_OK && rc != CAIRN_ENOENT) { /* ENOENT: removed in the meantime */
        drain_local_fail(d, "", &ei);
        tell_version(d, name, -1);
    }
    for (i = catalog.n; i-- > 0;) { /* newest first, as in drain.c */
        crn_err_clear(&ei);
        rc = drain_version(d, name, catalog.v[i].version, &ei);
        if (rc != CAIRN_OK && rc != CAIRN_ENOENT)
            drain_local_fail(d, "", &ei);
        tell_version(d, name, catalog.v[i].version);
    }
    crn_catalog_free(&catalog);
}

void crn_drain_local(const struct crn_fs *fs, const struct crn_config *cfg, int others_live,
                     crn_drain_fn fn, void *arg, struct crn_errinfo *first)
{
    struct local_drain d = {
        .fs = fs, .cfg = cfg, .fn = fn, .arg = arg, .first = first, .others_live = others_live};
    struct crn_names names = {0};
    struct crn_errinfo why = {0};
    char root[CRN_PATH_MAX];
    cairn_err rc;
    size_t i;

    rc = crn_rundir_local_root(fs, cfg, root, sizeof(root), &why);
    if (rc == CAIRN_OK)
        rc = crn_store_open(fs, root, 0, &d.local, &why);
    if (rc == CAIRN_OK) {
        rc = crn_store_open(fs, cfg->persistent, 1, &d.pfs, &why);
        if (rc == CAIRN_OK) {
            rc = crn_store_names(&d.local, &names, &why);
            for (i = 0; rc == CAIRN_OK && i < names.n; i++)
                drain_name(&d, names.name[i]);
            crn_names_free(&names);
            crn_store_close(&d.pfs);
        }
        crn_store_close(&d.local);
    }
    if (rc != CAIRN_OK)
        crn_err_keep(first, &why);
}
