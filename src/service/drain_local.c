/* SPDX-License-Identifier: BSD-3-Clause */
/* Drain of the local tier: after a reboot the arenas are gone, the files on the node's own disk are
 * not. A local data file is laid out as on the PFS, so it is verified chunk by chunk, copied as it is
 * and committed when the files of all nodes are there. What is told of a version is told when all its files here
 * have been looked at: those that are damaged first, for they are what the others will wait for. */
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
    int others_live;   /* runs that may be writing files here */
    struct said *said; /* of the version in hand; owned */
    size_t nsaid;
};

/* What is told. ------------------------------------------------------------------------------------- */

static void say(struct local_drain *d, enum crn_drain_what what, const char *run, uint32_t missing,
                const char *text)
{
    struct said *grown = realloc(d->said, (d->nsaid + 1) * sizeof(*grown));

    if (grown == NULL)
        return; /* without memory more than this goes wrong */
    d->said = grown;
    grown[d->nsaid] = (struct said){.what = what, .missing = missing};
    (void)snprintf(grown[d->nsaid].run, sizeof(grown->run), "%s", run);
    (void)snprintf(grown[d->nsaid].text, sizeof(grown->text), "%s", text);
    d->nsaid++;
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
            if (d->fn != NULL)
                d->fn(d->arg, &ev);
        }
    free(d->said);
    d->said = NULL;
    d->nsaid = 0;
}

/* One file. ----------------------------------------------------------------------------------------- */

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

static cairn_err lost(const char *path, const char *how, cairn_err rc, struct crn_errinfo *ei)
{
    return crn_err_context(
        ei, rc,
        "the local file '%s' is %s: this version cannot be saved without it, and "
        "an older one will be restarted from. Remove the file to hear no more "
        "of it",
        path, how);
}

static cairn_err drain_file(struct local_drain *d, const char *file, const char *path,
                            const struct crn_index *x, const struct crn_manifest_file *mf, int dfd,
                            uint32_t *ret_missing, struct crn_errinfo *ei)
{
    struct crn_data_file data = {.fs = d->fs, .dfd = dfd, .index = x, .what = path};
    cairn_err rc;
    int lock_fd = -1;
    int fd = -1;

    rc = crn_drain_lock(&d->pfs, x->name, (int64_t)d->cfg->commit_timeout_ns, &lock_fd, ei);
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
            rc = lost(path, "damaged", rc, ei);
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

/* A file whose index cannot be read: nobody knows whose it is. One that has no end may be half of what a run
 * is writing now, or was when it died. */
static void drain_unknown(struct local_drain *d, const char *name, int64_t version,
                          const char *file, const char *path, int dfd, struct crn_errinfo *why)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest m;
    struct crn_trailer t;
    uint64_t bytes;
    int has_end = 0;
    int fd;

    if (crn_store_manifest(&d->pfs, name, version, &m, &ignored) == CAIRN_OK) {
        crn_manifest_free(&m);
        return; /* nobody needs it */
    }
    crn_err_clear(&ignored);
    if (crn_data_open(d->fs, dfd, file, path, &fd, &bytes, &t, &ignored) == CAIRN_OK) {
        (void)d->fs->close(d->fs, fd);
        has_end = 1;
    }
    if (!has_end && d->others_live)
        return;
    if (why->code == CAIRN_EDAMAGED || why->code == CAIRN_EFORMAT)
        why->code =
            lost(path, has_end ? "damaged" : "damaged, or was never finished", why->code, why);
    else
        has_end = 1; /* not to be read now: that is no answer */
    say(d, has_end ? CRN_DRAIN_FAILED : CRN_DRAIN_INCOMPLETE, "", 0, why->msg);
    if (has_end)
        crn_err_keep(d->first, why);
}

static void drain_version(struct local_drain *d, const char *name, int64_t version,
                          const char *file, int dfd)
{
    struct crn_manifest_file mf = {0};
    struct crn_errinfo ei = {0};
    struct crn_index x = {0};
    char hex[CRN_RUN_HEX] = "";
    char path[CRN_PATH_MAX];
    uint32_t missing = 0;

    (void)snprintf(path, sizeof(path), "%.*s/%s/%" PRId64 "/%s", CRN_PATH_MAX / 2, d->local.path,
                   name, version, file);
    if (crn_store_describe_data(&d->local, name, version, file, &mf, &x, &ei) != CAIRN_OK) {
        drain_unknown(d, name, version, file, path, dfd, &ei);
        return;
    }
    crn_run_hex(x.id.run, hex);
    if (is_alive(d->cfg, &x) || crn_drain_is_known(&d->pfs, name, version, &x.id, x.created_ns))
        goto out;
    if (drain_file(d, file, path, &x, &mf, dfd, &missing, &ei) == CAIRN_OK) {
        say(d, missing == 0 ? CRN_DRAIN_COMMITTED : CRN_DRAIN_WAITING, hex, missing, "");
    } else {
        say(d, CRN_DRAIN_FAILED, hex, 0, ei.msg);
        crn_err_keep(d->first, &ei);
    }
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
        tell_version(d, name, catalog.v[i].version);
    }
    crn_catalog_free(&catalog);
}

cairn_err crn_drain_local(const struct crn_fs *fs, const struct crn_config *cfg, int others_live,
                          crn_drain_fn fn, void *arg, struct crn_errinfo *first)
{
    struct local_drain d = {
        .fs = fs, .cfg = cfg, .fn = fn, .arg = arg, .first = first, .others_live = others_live};
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
