/* SPDX-License-Identifier: BSD-3-Clause */
/* The commit: the only place that says "durable". Relies on finish_data having fsynced every file
 * that the manifest names. The order is law (docs/format.md, section 8):
 *
 *     fsync root, name, version      the way to the data files is durable, and to their bases
 *     manifest: write new, fsync, rename, fsync of the directory
 *     remove what only the replaced manifest named
 *
 * A crash at any point leaves the old manifest or the new one, and all the files it names.
 *
 * A version may be removed while another is encoded against it. Who removes one looks for its users
 * after its manifest is gone; we look for the manifests of our bases after ours is there. So one of the
 * two sees the other. */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/chain.h"
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
        (void)st->fs->unlinkat(st->fs, dfd, stats, 0); /* there may be none; a sweep looks again */
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

/* The directories of a file's bases: a version that is seen may not be durable yet. */
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

/* Whoever made the directories may have died before their entries were durable. */
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
        last = m->files[i].nbases > 0 ? &m->files[i] : last; /* most have the same */
    }
    return rc;
}

/* Every file is there and has its size: a manifest never names what is not. */
static cairn_err files_there(const struct crn_store *st, const struct crn_manifest *m, int dfd,
                             struct crn_errinfo *ei)
{
    uint32_t i;

    for (i = 0; i < m->nfiles; i++) {
        const struct crn_manifest_file *f = &m->files[i];
        struct stat sb;
        int r = crn_late_stat(st->fs, dfd, f->name, f->bytes, m->committed_ns, &sb);

        if (r == 0 && (!S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != f->bytes))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' has not the size that it was written with",
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

            crn_base_path(b, path);
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

static cairn_err commit(const struct crn_store *st, const struct crn_manifest *m, int dfd,
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
        rc = crn_file_replace(st->fs, dfd, CRN_MANIFEST, buf.data, buf.len, ei);
    crn_buf_free(&buf);
    return rc;
}

/* Every base is named by another manifest: then it stays, now that ours is there. */
static cairn_err bases_stay(const struct crn_store *st, const struct crn_manifest *m,
                            const struct crn_named *named, struct crn_errinfo *ei)
{
    uint32_t i, k;

    for (i = 0; i < m->nfiles; i++)
        for (k = 0; k < m->files[i].nbases; k++) {
            const struct crn_base *b = &m->files[i].bases[k];

            if (b->version != m->version && !crn_named_has(named, b->version, b->file))
                return crn_fail(ei, CAIRN_ESTATE, 0,
                                "'%s', which it was encoded against, was removed meanwhile",
                                crn_where(st, m->name, b->version, b->file).text);
        }
    return CAIRN_OK;
}

/* The version as it was before the commit: old, or not there. */
static cairn_err take_back(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                           const struct crn_manifest *old, struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};
    cairn_err rc;

    if (old->nfiles > 0 && !crn_capture_id_equal(&old->id, &m->id)) {
        rc = crn_manifest_encode(old, &buf, ei);
        if (rc == CAIRN_OK)
            rc = crn_file_replace(st->fs, dfd, CRN_MANIFEST, buf.data, buf.len, ei);
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

/* After the commit: takes it back if a base has been removed since it was looked for. */
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
        return rc; /* restarts find it out and take another version */
    return rc;
}

/* What only the old manifest named may go. A failure leaves debris, no more. */
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

cairn_err crn_store_publish(const struct crn_store *st, const struct crn_manifest *m,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest old = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_late_dir(st, m->name, m->version, m->committed_ns, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    /* If it cannot be read there is nothing to remove after it; a sweep will see to the rest. */
    if (crn_store_read_manifest(st, dfd, m->name, m->version, &old, &ignored) == CAIRN_OK &&
        memcmp(old.id.run, m->id.run, sizeof(m->id.run)) == 0 && old.id.seq > m->id.seq)
        rc = crn_fail(ei, CAIRN_ECANCELED, 0,
                      "%s@%lld was taken again and is committed with later data", m->name,
                      (long long)m->version);
    if (rc == CAIRN_OK)
        rc = crn_store_refuse_pinned(st, dfd, m->name, m->version, &m->id, ei);
    if (rc == CAIRN_OK)
        rc = commit(st, m, dfd, ei);
    if (rc == CAIRN_OK)
        rc = keep_bases(st, dfd, m, &old, ei);
    if (rc == CAIRN_OK)
        drop_old(st, dfd, m, &old);
    crn_manifest_free(&old);
    (void)st->fs->close(st->fs, dfd);
    return crn_err_context(ei, rc, "commit of %s@%lld", m->name, (long long)m->version);
}

/* Composing a manifest from the data files that are there. ---------------------------------------- */

struct found {
    struct crn_manifest m; /* its head is that of the first index found */
    uint32_t files;        /* of the version that is looked for */
    uint32_t missing;
    uint64_t began_ns; /* wall clock */
};

/* Its writer may have died between write and fsync: make it durable, then read every byte back. */
static cairn_err prove_durable(const struct crn_store *st, int dfd, const char *file,
                               const struct crn_index *x, const char *what, struct crn_errinfo *ei)
{
    struct crn_data_file data = {.fs = st->fs, .dfd = dfd, .index = x, .what = what};
    const struct crn_fs *fs = st->fs;
    struct crn_chain *chain = NULL;
    cairn_err rc;
    int fd;

    fd = fs->openat(fs, dfd, file, O_RDWR | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", what);
    rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s'", what);
    if (rc == CAIRN_OK)
        rc = crn_chain_load(fs, dfd, x, what, &chain, ei);
    data.fd = fd;
    data.chain = chain;
    if (rc == CAIRN_OK)
        rc = crn_data_verify(&data, NULL, NULL, ei);
    crn_chain_free(chain);
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

/* After a moment: another host may have finished it before we looked, though it is not seen. Who is still at it
 * looks himself when he has. */
static int may_be_finished(const struct crn_store *st, int dfd, const char *file,
                           const struct found *f)
{
    uint64_t changed_ns = crn_late_changed(st->fs, dfd, file);

    return crn_late_again(st->fs, dfd, changed_ns < f->began_ns ? changed_ns : f->began_ns);
}

/* Takes a data file into the manifest if it is a whole one of this capture. Failure to read one is
 * "missing", which is what it is for this purpose; the first reason is kept in why. */
static cairn_err consider(const struct crn_store *st, int dfd, const char *name, int64_t version,
                          const char *file, const struct crn_capture_id *id, const char *job,
                          struct found *f, struct crn_errinfo *why)
{
    struct crn_where where = crn_where(st, name, version, file);
    struct crn_manifest_file mf = {0};
    struct crn_index x = {0};
    cairn_err rc;

    do {
        struct crn_errinfo info = {0};

        rc = crn_store_describe_data(st, name, version, file, &mf, &x, &info);
        crn_err_keep(why, &info);
    } while (rc == CAIRN_EDAMAGED && may_be_finished(st, dfd, file, f));
    if (rc != CAIRN_OK || !crn_capture_id_equal(&x.id, id) || x.files != f->files)
        goto out;
    if (f->m.files == NULL) {
        f->m.files = calloc(x.files, sizeof(*f->m.files));
        if (f->m.files == NULL) {
            rc = crn_fail(why, CAIRN_ENOMEM, ENOMEM, "compose a manifest of %u files",
                          (unsigned)x.files);
            goto out;
        }
        take_head(&f->m, &x, job);
    }
    if (x.ranks != f->m.ranks || f->m.files[x.file_no].name[0] != '\0')
        goto out;
    rc = prove_durable(st, dfd, file, &x, where.text, why);
    if (rc != CAIRN_OK)
        goto out;
    f->m.files[x.file_no] = mf;
    memset(&mf, 0, sizeof(mf));
    f->m.data_bytes += region_bytes(&x);
    f->missing--;
out:
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    return rc == CAIRN_ENOMEM ? rc : CAIRN_OK;
}

static int is_published(const struct crn_store *st, int dfd, const char *name, int64_t version,
                        const struct crn_capture_id *id)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest m;
    int same;

    if (crn_store_read_manifest(st, dfd, name, version, &m, &ignored) != CAIRN_OK)
        return 0;
    same = crn_capture_id_equal(&m.id, id);
    crn_manifest_free(&m);
    return same;
}

cairn_err crn_store_try_publish(const struct crn_store *st, const char *name, int64_t version,
                                const struct crn_capture_id *id, uint32_t files, const char *job,
                                uint32_t *ret_missing, struct crn_errinfo *ei)
{
    struct found f = {.files = files, .missing = files, .began_ns = crn_late_now()};
    struct crn_errinfo why = {0};
    struct crn_names names = {0};
    uint32_t file_no, attempt;
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (is_published(st, dfd, name, version, id)) {
        /* Seen, but perhaps not durable yet: its publisher may have died before the last fsync. */
        rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'",
                          crn_where(st, name, version, NULL).text);
        f.missing = 0;
    } else {
        rc = crn_fs_names(st->fs, dfd, crn_where(st, name, version, NULL).text, &names, ei);
        for (i = 0; rc == CAIRN_OK && i < names.n; i++)
            if (crn_data_name_parse(names.name[i], &file_no, &attempt) == 0)
                rc = consider(st, dfd, name, version, names.name[i], id, job, &f, &why);
        if (rc == CAIRN_ENOMEM)
            crn_err_keep(ei, &why);
        if (rc == CAIRN_OK && f.missing == 0) {
            f.m.committed_ns = (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
            rc = crn_store_publish(st, &f.m, ei);
        }
    }
    crn_names_free(&names);
    crn_manifest_free(&f.m);
    (void)st->fs->close(st->fs, dfd);
    if (rc == CAIRN_OK)
        *ret_missing = f.missing;
    return rc;
}
