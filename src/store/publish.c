/* SPDX-License-Identifier: BSD-3-Clause */
/* The commit: the only place that says "durable". finish_data must have fsynced every file that the
 * manifest names. The order is mandatory (docs/format.md, section 8):
 *
 *     fsync root, name, version      the path to the data files and to their bases is durable
 *     manifest: write new, fsync, rename, fsync of the directory
 *     remove what only the replaced manifest named
 *
 * A crash at any point leaves the old manifest or the new one, and all the files it names.
 *
 * A version may be removed while another is encoded against it. The remover looks for users of the
 * version after its manifest is gone; the publisher looks for the manifests of its bases after its
 * own manifest exists. So at least one of the two sees the other. */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base_chain.h"
#include "base/late.h"

cairn_err crn_store_unlink_files(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                                 const struct crn_named *named, struct crn_errinfo *ei)
{
    char stats[CRN_FILE_NAME];
    cairn_err rc = CAIRN_OK;
    uint32_t i;
    int r;

    for (i = 0; i < m->nfiles; i++) {
        if (crn_named_has(named, m->version, m->files[i].name))
            continue;
        crn_stats_name(m->files[i].name, stats);
        (void)st->fs->unlinkat(st->fs, dfd, stats, 0); /* may not exist; a sweep retries */
        r = st->fs->unlinkat(st->fs, dfd, m->files[i].name, 0);
        if (r < 0 && r != -ENOENT)
            rc = crn_fail_errno(ei, -r, "remove '%s'",
                                crn_where(st, m->name, m->version, m->files[i].name).text);
    }
    return rc;
}

static int same_versions(const struct crn_manifest_file *a, const struct crn_manifest_file *b)
{
    uint32_t i;

    for (i = 0; i < b->nbases; i++)
        if (i >= a->nbases || a->bases[i].version != b->bases[i].version)
            return 0;
    return 1;
}

/* fsyncs the directories of a file's bases: a visible version may not be durable yet. */
static cairn_err sync_bases(const struct crn_store *st, const char *name,
                            const struct crn_manifest_file *f, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;
    int dfd;

    for (i = 0; rc == CAIRN_OK && i < f->nbases; i++) {
        rc = crn_store_version_dir(st, name, f->bases[i].version, &dfd, ei);
        if (rc != CAIRN_OK)
            break;
        rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'",
                          crn_where(st, name, f->bases[i].version, NULL).text);
        (void)st->fs->close(st->fs, dfd);
    }
    return rc;
}

/* fsyncs the directories on the path: their creator may have died before their entries were
 * durable. */
static cairn_err sync_way(const struct crn_store *st, const struct crn_manifest *m, int dfd,
                          struct crn_errinfo *ei)
{
    const struct crn_manifest_file *last = NULL;
    const char *name = m->name;
    uint32_t i;
    cairn_err rc;
    int name_dfd;

    rc = crn_fs_check(st->fs->fsync(st->fs, st->dfd), ei, "fsync '%s'", st->path);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_name_dir(st, name, &name_dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_check(st->fs->fsync(st->fs, name_dfd), ei, "fsync '%s/%s'", st->path, name);
    (void)st->fs->close(st->fs, name_dfd);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync the version in '%s/%s'", st->path,
                          name);
    for (i = 0; rc == CAIRN_OK && i < m->nfiles; i++) {
        if (m->files[i].nbases > 0 && (last == NULL || !same_versions(last, &m->files[i])))
            rc = sync_bases(st, name, &m->files[i], ei);
        last = m->files[i].nbases > 0 ? &m->files[i] : last; /* most have the same bases */
    }
    return rc;
}

/* Checks that every file exists and has its size: a manifest never names anything else. */
static cairn_err files_there(const struct crn_store *st, const struct crn_manifest *m, int dfd,
                             struct crn_errinfo *ei)
{
    uint32_t i;

    for (i = 0; i < m->nfiles; i++) {
        const struct crn_manifest_file *f = &m->files[i];
        struct stat sb;
        int r = crn_late_stat(st->fs, dfd, f->name, f->bytes, m->committed_ns, &sb);

        if (r == 0 && (!S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != f->bytes))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' has the wrong size",
                            crn_where(st, m->name, m->version, f->name).text);
        if (r < 0)
            return crn_fail_errno(ei, -r, "stat '%s'",
                                  crn_where(st, m->name, m->version, f->name).text);
    }
    return CAIRN_OK;
}

cairn_err crn_store_check_bases(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                                struct crn_errinfo *ei)
{
    char path[CRN_BASE_PATH];
    struct stat sb;
    uint32_t i, k;
    int r;

    for (i = 0; i < m->nfiles; i++)
        for (k = 0; k < m->files[i].nbases; k++) {
            const struct crn_base *b = &m->files[i].bases[k];

            crn_base_chain_path(b, path);
            r = crn_late_stat(st->fs, dfd, path, b->bytes, m->committed_ns, &sb);
            if (r == -ENOENT || r == -ENOTDIR)
                return crn_fail(ei, CAIRN_EDAMAGED, 0,
                                "file %s of version %lld, which it was encoded against, is missing",
                                b->file, (long long)b->version);
            if (r < 0)
                return crn_fail_errno(ei, -r, "stat '%s'",
                                      crn_where(st, m->name, b->version, b->file).text);
            if (!S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != b->bytes)
                return crn_fail(ei, CAIRN_EDAMAGED, 0,
                                "file %s of version %lld, which it was encoded against, has %lld "
                                "bytes instead of %llu",
                                b->file, (long long)b->version, (long long)sb.st_size,
                                (unsigned long long)b->bytes);
        }
    return CAIRN_OK;
}

static cairn_err publish_commit(const struct crn_store *st, const struct crn_manifest *m, int dfd,
                                struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};
    cairn_err rc;

    rc = crn_manifest_encode(m, &buf, ei);
    if (rc == CAIRN_OK)
        rc = files_there(st, m, dfd, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_check_bases(st, dfd, m, ei);
    if (rc == CAIRN_OK)
        rc = sync_way(st, m, dfd, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_replace(st->fs, dfd, CRN_MANIFEST, buf.data, buf.len, ei);
    crn_buf_free(&buf);
    return rc;
}

/* Checks that another manifest names every base. Since this version's manifest is visible now,
 * those bases stay. */
static cairn_err bases_stay(const struct crn_store *st, const struct crn_manifest *m,
                            const struct crn_named *named, struct crn_errinfo *ei)
{
    uint32_t i, k;

    for (i = 0; i < m->nfiles; i++)
        for (k = 0; k < m->files[i].nbases; k++) {
            const struct crn_base *b = &m->files[i].bases[k];

            if (b->version != m->version && !crn_named_has(named, b->version, b->file))
                return crn_fail(ei, CAIRN_ESTATE, 0,
                                "'%s', which it is encoded against, was removed in the meantime",
                                crn_where(st, m->name, b->version, b->file).text);
        }
    return CAIRN_OK;
}

/* Restores the state before the commit: the old manifest, or none. */
static cairn_err take_back(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                           const struct crn_manifest *old, struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};
    cairn_err rc;

    if (old->nfiles > 0 && !crn_capture_id_equal(&old->id, &m->id)) {
        rc = crn_manifest_encode(old, &buf, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_replace(st->fs, dfd, CRN_MANIFEST, buf.data, buf.len, ei);
        crn_buf_free(&buf);
        return rc;
    }
    rc = crn_fs_check(st->fs->unlinkat(st->fs, dfd, CRN_MANIFEST, 0), ei, "remove '%s'",
                      crn_where(st, m->name, m->version, CRN_MANIFEST).text);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'",
                          crn_where(st, m->name, m->version, NULL).text);
    return rc;
}

static int has_bases(const struct crn_manifest *m)
{
    uint32_t i;

    for (i = 0; i < m->nfiles; i++)
        if (m->files[i].nbases > 0)
            return 1;
    return 0;
}

/* After the commit: rolls it back if a base was removed since it was checked. */
static cairn_err keep_bases(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                            const struct crn_manifest *old, struct crn_errinfo *ei)
{
    struct crn_named named;
    cairn_err rc;

    if (!has_bases(m))
        return CAIRN_OK;
    rc = crn_named_load(st, m->name, m->version, &named, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = bases_stay(st, m, &named, ei);
    crn_named_free(&named);
    if (rc != CAIRN_OK && take_back(st, dfd, m, old, ei) != CAIRN_OK)
        return rc; /* restarts notice the missing base and choose another version */
    return rc;
}

/* Removes files that only the old manifest named. A failure only leaves debris. */
static void drop_old(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                     const struct crn_manifest *old)
{
    struct crn_errinfo ignored = {0};
    struct crn_named named = {0};

    if (old->nfiles > 0 && crn_named_load(st, m->name, -1, &named, &ignored) == CAIRN_OK &&
        crn_store_settle(st, m->name, &named, &ignored) == CAIRN_OK &&
        crn_store_unlink_files(st, dfd, old, &named, &ignored) != CAIRN_OK)
        crn_err_clear(&ignored);
    crn_named_free(&named);
}

/* Reads the manifest that the commit replaces; nfiles is 0 if there is none or it is unreadable. A
 * system error is an error: the manifest may name a later capture. */
static cairn_err read_replaced(const struct crn_store *st, int dfd, const char *name,
                               int64_t version, struct crn_manifest *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    rc = crn_store_read_manifest(st, dfd, name, version, ret, &why);
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT) {
        memset(ret, 0, sizeof(*ret));
        return CAIRN_OK;
    }
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &why);
    return rc;
}

cairn_err crn_store_publish(const struct crn_store *st, const struct crn_manifest *m,
                            struct crn_errinfo *ei)
{
    struct crn_manifest old = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_late_dir(st, m->name, m->version, m->committed_ns, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = read_replaced(st, dfd, m->name, m->version, &old, ei);
    if (rc == CAIRN_OK && old.nfiles > 0 && memcmp(old.id.run, m->id.run, sizeof(m->id.run)) == 0 &&
        old.id.seq > m->id.seq)
        rc = crn_fail(ei, CAIRN_ECANCELED, 0,
                      "%s@%lld was taken again and is committed with later data", m->name,
                      (long long)m->version);
    if (rc == CAIRN_OK)
        rc = crn_store_refuse_pinned(st, dfd, m->name, m->version, &m->id, ei);
    if (rc == CAIRN_OK)
        rc = publish_commit(st, m, dfd, ei);
    if (rc == CAIRN_OK)
        rc = keep_bases(st, dfd, m, &old, ei);
    if (rc == CAIRN_OK)
        drop_old(st, dfd, m, &old);
    crn_manifest_free(&old);
    (void)st->fs->close(st->fs, dfd);
    return crn_err_context(ei, rc, "commit of %s@%lld", m->name, (long long)m->version);
}

/* Composing a manifest from the data files that are there. ------------------------------------- */

struct publish_found {
    const struct crn_store *st;
    const struct crn_unpublished *u;
    int dfd;               /* the version's directory */
    struct crn_manifest m; /* its head comes from the first index found */
    uint32_t missing;
    int has_own;       /* the caller's file, or another attempt at it, was found */
    uint64_t began_ns; /* wall clock */
};

/* The writer may have died between write and fsync: make the file durable, then read every byte
 * back. */
static cairn_err prove_durable(const struct crn_store *st, int dfd, const char *file,
                               const struct crn_index *x, const char *what, struct crn_errinfo *ei)
{
    struct crn_data_file data = {.fs = st->fs, .dfd = dfd, .index = x, .what = what};
    const struct crn_fs *fs = st->fs;
    struct crn_base_chain *chain = NULL;
    cairn_err rc;
    int fd;

    fd = fs->openat(fs, dfd, file, O_RDWR | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", what);
    rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s'", what);
    if (rc == CAIRN_OK)
        rc = crn_base_chain_load(fs, dfd, x, what, &chain, ei);
    data.fd = fd;
    data.chain = chain;
    if (rc == CAIRN_OK)
        rc = crn_data_verify(&data, NULL, NULL, ei);
    crn_base_chain_free(chain);
    (void)fs->close(fs, fd); /* fsynced above */
    return rc;
}

static void take_head(struct crn_manifest *m, const struct crn_index *x, const char *job)
{
    m->id = x->id;
    memcpy(m->name, x->name, sizeof(m->name));
    (void)snprintf(m->job, sizeof(m->job), "%s", job != NULL ? job : "");
    m->version = x->version;
    m->created_ns = x->created_ns;
    m->ranks = x->ranks;
    m->nodes = x->nodes;
    m->nfiles = x->files;
}

static uint64_t region_bytes(const struct crn_index *x)
{
    uint64_t sum = 0;
    uint32_t s, r;

    for (s = 0; s < x->nshards; s++)
        for (r = 0; r < x->shards[s].nregions; r++)
            sum += x->shards[s].regions[r].bytes;
    return sum;
}

/* Another host may have finished the file although this host does not see it yet, so wait a moment.
 * If it is still being written, its writer will publish it. */
static int may_be_finished(const struct publish_found *f, const char *file)
{
    uint64_t changed_ns = crn_late_changed(f->st->fs, f->dfd, file);

    return crn_late_again(f->st->fs, f->dfd, changed_ns < f->began_ns ? changed_ns : f->began_ns);
}

static cairn_err publish_describe(const struct publish_found *f, const char *file,
                                  struct crn_manifest_file *ret, struct crn_index *ret_index,
                                  struct crn_errinfo *ei)
{
    cairn_err rc;

    do {
        crn_err_clear(ei);
        rc = crn_store_describe_data(f->st, f->u->name, f->u->version, file, ret, ret_index, ei);
    } while (rc == CAIRN_EDAMAGED && may_be_finished(f, file));
    return rc;
}

/* Adds a data file to the manifest if it is a whole file of this capture. CAIRN_EDAMAGED,
 * CAIRN_EFORMAT or CAIRN_ENOENT: it is not whole. Any other error says nothing about the file. */
static cairn_err publish_consider(struct publish_found *f, const char *file, struct crn_errinfo *ei)
{
    const struct crn_unpublished *u = f->u;
    struct crn_where where = crn_where(f->st, u->name, u->version, file);
    struct crn_manifest_file mf = {0};
    struct crn_index x = {0};
    cairn_err rc;

    rc = publish_describe(f, file, &mf, &x, ei);
    if (rc != CAIRN_OK || !crn_capture_id_equal(&x.id, u->id) || x.files != u->files)
        goto out;
    if (f->m.files == NULL) {
        f->m.files = calloc(x.files, sizeof(*f->m.files));
        if (f->m.files == NULL) {
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "compose a manifest of %u files",
                          (unsigned)x.files);
            goto out;
        }
        take_head(&f->m, &x, u->job);
    }
    if (x.ranks != f->m.ranks)
        goto out;
    if (f->m.files[x.file_no].name[0] == '\0') {
        rc = prove_durable(f->st, f->dfd, file, &x, where.text, ei);
        if (rc != CAIRN_OK)
            goto out;
        f->m.files[x.file_no] = mf;
        memset(&mf, 0, sizeof(mf));
        f->m.data_bytes += region_bytes(&x);
        f->missing--;
    }
    f->has_own |= u->own != NULL && strcmp(file, u->own) == 0;
out:
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    return rc;
}

/* Looks at all data files of the version. Unfinished files of other nodes count as missing. */
static cairn_err consider_all(struct publish_found *f, struct crn_errinfo *ei)
{
    const struct crn_unpublished *u = f->u;
    const char *where = crn_where(f->st, u->name, u->version, NULL).text;
    struct crn_names names = {0};
    struct crn_errinfo why = {0};
    uint32_t file_no, attempt;
    cairn_err rc;
    size_t i;

    rc = crn_fs_names(f->st->fs, f->dfd, where, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
        if (crn_data_name_parse(names.name[i], &file_no, &attempt) != 0)
            continue;
        crn_err_clear(&why);
        rc = publish_consider(f, names.name[i], &why);
        if ((rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT) &&
            (u->own == NULL || strcmp(names.name[i], u->own) != 0))
            rc = CAIRN_OK;
        if (rc != CAIRN_OK)
            crn_err_keep(ei, &why);
    }
    crn_names_free(&names);
    if (rc == CAIRN_OK && u->own != NULL && !f->has_own)
        rc = crn_fail(ei, CAIRN_EIO, 0, "'%s/%s' was written but has vanished", where, u->own);
    return rc;
}

static cairn_err is_published(const struct publish_found *f, int *ret, struct crn_errinfo *ei)
{
    struct crn_manifest m = {0};
    cairn_err rc;

    rc = read_replaced(f->st, f->dfd, f->u->name, f->u->version, &m, ei);
    *ret = rc == CAIRN_OK && m.nfiles > 0 && crn_capture_id_equal(&m.id, f->u->id);
    crn_manifest_free(&m);
    return rc;
}

cairn_err crn_store_try_publish(const struct crn_store *st, const struct crn_unpublished *u,
                                uint32_t *ret_missing, struct crn_errinfo *ei)
{
    struct publish_found f = {.st = st, .u = u, .missing = u->files, .began_ns = crn_late_now()};
    int is_there = 0;
    cairn_err rc;

    rc = crn_store_version_dir(st, u->name, u->version, &f.dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = is_published(&f, &is_there, ei);
    if (rc == CAIRN_OK && is_there) {
        /* Visible, but perhaps not durable: its publisher may have died before the last fsync. */
        rc = crn_fs_check(st->fs->fsync(st->fs, f.dfd), ei, "fsync '%s'",
                          crn_where(st, u->name, u->version, NULL).text);
        f.missing = 0;
    } else if (rc == CAIRN_OK) {
        rc = consider_all(&f, ei);
        if (rc == CAIRN_OK && f.missing == 0) {
            f.m.committed_ns = (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
            rc = crn_store_publish(st, &f.m, ei);
        }
    }
    crn_manifest_free(&f.m);
    (void)st->fs->close(st->fs, f.dfd);
    if (rc == CAIRN_OK)
        *ret_missing = f.missing;
    return rc;
}
