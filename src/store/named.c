/* SPDX-License-Identifier: BSD-3-Clause */
/* Which data files are in use: those that a manifest of the name refers to, as its own or in a
 * chain. Everything else is debris. A damaged manifest names nothing, because nothing can be read
 * through it any more; a manifest of a newer Cairn may name any file. */
#include "store/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static cairn_err named_add(struct crn_named *n, int64_t by, int64_t version, const char *file,
                           struct crn_errinfo *ei)
{
    struct crn_named_file *grown;

    if (n->n == n->room) {
        n->room = n->room > 0 ? 2 * n->room : 64;
        grown = realloc(n->v, n->room * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu data files", n->n);
        n->v = grown;
    }
    n->v[n->n].version = version;
    n->v[n->n].by = by;
    memcpy(n->v[n->n].file, file, sizeof(n->v[n->n].file));
    n->n++;
    return CAIRN_OK;
}

static cairn_err add_manifest(struct crn_named *n, const struct crn_manifest *m,
                              struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i, k;

    for (i = 0; rc == CAIRN_OK && i < m->nfiles; i++) {
        const struct crn_manifest_file *f = &m->files[i];

        rc = named_add(n, m->version, m->version, f->name, ei);
        for (k = 0; rc == CAIRN_OK && k < f->nbases; k++)
            rc = named_add(n, m->version, f->bases[k].version, f->bases[k].file, ei);
    }
    return rc;
}

static int by_file(const void *a, const void *b)
{
    const struct crn_named_file *x = a;
    const struct crn_named_file *y = b;

    if (x->version != y->version)
        return x->version < y->version ? -1 : 1;
    return strcmp(x->file, y->file);
}

static cairn_err named_look(const struct crn_store *st, const char *name, int64_t version,
                            struct crn_named *n, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_manifest m = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, &why);
    if (rc == CAIRN_OK) {
        rc = crn_store_read_manifest(st, dfd, name, version, &m, &why);
        (void)st->fs->close(st->fs, dfd);
    }
    if (rc == CAIRN_OK)
        rc = add_manifest(n, &m, &why);
    crn_manifest_free(&m);
    n->is_unknown |= rc == CAIRN_EFORMAT;
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT)
        return CAIRN_OK;
    crn_err_keep(ei, &why);
    return rc;
}

cairn_err crn_named_load(const struct crn_store *st, const char *name, int64_t except,
                         struct crn_named *ret, struct crn_errinfo *ei)
{
    struct crn_named n = {0};
    int64_t *versions = NULL;
    size_t count = 0;
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_versions(st, dfd, name, &versions, &count, ei);
    (void)st->fs->close(st->fs, dfd);
    for (i = 0; rc == CAIRN_OK && i < count; i++)
        if (versions[i] != except)
            rc = named_look(st, name, versions[i], &n, ei);
    free(versions);
    if (rc != CAIRN_OK) {
        crn_named_free(&n);
        return rc;
    }
    if (n.n > 1)
        qsort(n.v, n.n, sizeof(*n.v), by_file);
    *ret = n;
    return CAIRN_OK;
}

void crn_named_free(struct crn_named *n)
{
    free(n->v);
    memset(n, 0, sizeof(*n));
}

const struct crn_named_file *crn_named_find(const struct crn_named *n, int64_t version,
                                            const char *file)
{
    struct crn_named_file key = {.version = version};
    size_t len = strnlen(file, sizeof(key.file));

    if (len == sizeof(key.file) || n->n == 0)
        return NULL;
    memcpy(key.file, file, len);
    return bsearch(&key, n->v, n->n, sizeof(*n->v), by_file);
}

int crn_named_has(const struct crn_named *n, int64_t version, const char *file)
{
    return n->is_unknown || crn_named_find(n, version, file) != NULL;
}

cairn_err crn_store_sync_version(const struct crn_store *st, const char *name, int64_t version,
                                 struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK; /* removed in the meantime */
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'",
                      crn_where(st, name, version, NULL).text);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

/* fsyncs the directory of a version if it contains a data file that no manifest names. */
static cairn_err settle_version(const struct crn_store *st, const char *name, int64_t version,
                                const struct crn_named *named, struct crn_errinfo *ei)
{
    const char *where = crn_where(st, name, version, NULL).text;
    struct crn_errinfo why = {0};
    struct crn_names files = {0};
    uint32_t file_no, attempt;
    int is_left = 0;
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK; /* removed in the meantime */
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    rc = crn_fs_names(st->fs, dfd, where, &files, ei);
    for (i = 0; rc == CAIRN_OK && i < files.n; i++)
        is_left |= crn_data_name_parse(files.name[i], &file_no, &attempt) == 0 &&
                   !crn_named_has(named, version, files.name[i]);
    if (rc == CAIRN_OK && is_left)
        rc = crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'", where);
    crn_names_free(&files);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

/* A manifest that was replaced or removed reappears after a power loss if its directory was not
 * fsynced since. In that case its data files still exist, because they are unlinked only after that
 * fsync. No visible manifest names them: one that did would also name their chains. So only
 * directories with such a file can hide a manifest. */
cairn_err crn_store_settle(const struct crn_store *st, const char *name,
                           const struct crn_named *named, struct crn_errinfo *ei)
{
    int64_t *versions = NULL;
    size_t n = 0;
    cairn_err rc;
    size_t i;
    int name_dfd;

    rc = crn_store_name_dir(st, name, &name_dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_versions(st, name_dfd, name, &versions, &n, ei);
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = settle_version(st, name, versions[i], named, ei);
    free(versions);
    (void)st->fs->close(st->fs, name_dfd);
    return rc;
}
