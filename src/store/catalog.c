/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists names, versions and their states. Trusts nothing: skips foreign entries, and reports a
 * version as OK only if its manifest is whole and every file has its size. */
#include "store/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/late.h"

const char *crn_version_state_name(enum crn_version_state state)
{
    switch (state) {
    case CRN_VERSION_OK:
        return "ok";
    case CRN_VERSION_DAMAGED:
        return "damaged";
    case CRN_VERSION_REJECTED:
        return "rejected";
    case CRN_VERSION_PARTIAL:
        return "partial";
    }
    return "?";
}

static int by_version(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

cairn_err crn_store_versions(const struct crn_store *st, int name_dfd, const char *name,
                             int64_t **ret, size_t *ret_n, struct crn_errinfo *ei)
{
    struct crn_names names;
    struct stat sb;
    int64_t *v;
    cairn_err rc;
    size_t n = 0;
    size_t i;
    int r;

    rc = crn_fs_names(st->fs, name_dfd, name, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    v = calloc(names.n + 1, sizeof(*v));
    if (v == NULL) {
        crn_names_free(&names);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "list the versions of '%s'", name);
    }
    for (i = 0; i < names.n && rc == CAIRN_OK; i++) {
        if (crn_version_parse(names.name[i], &v[n]) != 0)
            continue;
        r = st->fs->fstatat(st->fs, name_dfd, names.name[i], &sb);
        if (r < 0 && r != -ENOENT) /* never skip a version: it may need files */
            rc = crn_fail_errno(ei, -r, "stat '%s/%s/%s'", st->path, name, names.name[i]);
        n += r == 0 && S_ISDIR(sb.st_mode);
    }
    crn_names_free(&names);
    if (rc != CAIRN_OK) {
        free(v);
        return rc;
    }
    if (n > 1)
        qsort(v, n, sizeof(*v), by_version);
    *ret = v;
    *ret_n = n;
    return CAIRN_OK;
}

/* Does the directory belong to another user, so that EPERM is expected? */
static int is_foreign(const struct crn_store *st, const char *name)
{
    struct stat sb;

    return st->fs->fstatat(st->fs, st->dfd, name, &sb) == 0 && sb.st_uid != geteuid();
}

/* How many versions a name has; 0 if the entry is not a name, or another user's directory. */
static cairn_err count_versions(const struct crn_store *st, const char *name, size_t *ret,
                                struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    int64_t *v = NULL;
    cairn_err rc;
    int dfd;

    *ret = 0;
    if (!crn_name_is_valid(name))
        return CAIRN_OK;
    rc = crn_store_name_dir(st, name, &dfd, &why);
    if (rc == CAIRN_OK) {
        rc = crn_store_versions(st, dfd, name, &v, ret, &why);
        (void)st->fs->close(st->fs, dfd);
        free(v);
    }
    if (rc == CAIRN_OK || rc == CAIRN_ENOENT || (rc == CAIRN_EPERM && is_foreign(st, name)))
        return CAIRN_OK;
    crn_err_keep(ei, &why);
    return rc;
}

cairn_err crn_store_names(const struct crn_store *st, struct crn_names *ret, struct crn_errinfo *ei)
{
    struct crn_names names;
    cairn_err rc;
    size_t kept = 0;
    size_t i, n;

    rc = crn_fs_names(st->fs, st->dfd, st->path, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < names.n; i++) {
        n = 0;
        if (rc == CAIRN_OK)
            rc = count_versions(st, names.name[i], &n, ei);
        if (n > 0)
            names.name[kept++] = names.name[i];
        else
            free(names.name[i]);
    }
    names.n = kept;
    if (rc != CAIRN_OK) {
        crn_names_free(&names);
        return rc;
    }
    *ret = names;
    return CAIRN_OK;
}

cairn_err crn_store_read_head(const struct crn_store *st, int dfd, const char *file,
                              const char *name, int64_t version, struct crn_manifest *ret,
                              struct crn_errinfo *ei)
{
    struct crn_where where = crn_where(st, name, version, file);
    struct crn_manifest m;
    cairn_err rc;
    void *buf;
    size_t len;

    rc = crn_fs_read_file(st->fs, dfd, file, CRN_MANIFEST_MAX, &buf, &len, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "%s", crn_where(st, name, version, NULL).text);
    rc = crn_manifest_decode(buf, len, where.text, &m, ei);
    free(buf);
    if (rc != CAIRN_OK)
        return rc;
    if (strcmp(m.name, name) != 0 || m.version != version) {
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: is the manifest of %s@%lld", where.text, m.name,
                      (long long)m.version);
        crn_manifest_free(&m);
        return rc;
    }
    *ret = m;
    return CAIRN_OK;
}

cairn_err crn_store_read_manifest(const struct crn_store *st, int dfd, const char *name,
                                  int64_t version, struct crn_manifest *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo info;
    cairn_err rc;

    do { /* the manifest's name may become visible before its bytes do */
        crn_err_clear(&info);
        rc = crn_store_read_head(st, dfd, CRN_MANIFEST, name, version, ret, &info);
    } while (rc == CAIRN_EDAMAGED &&
             crn_late_again(st->fs, dfd, crn_late_changed(st->fs, dfd, CRN_MANIFEST)));
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &info);
    return rc;
}

cairn_err crn_store_manifest(const struct crn_store *st, const char *name, int64_t version,
                             struct crn_manifest *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo info = {0};
    cairn_err rc;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_read_manifest(st, dfd, name, version, ret, &info);
    (void)st->fs->close(st->fs, dfd);
    if (rc == CAIRN_ENOENT)
        return crn_fail(ei, rc, 0, "%s@%lld in '%s' is not complete: it has no manifest", name,
                        (long long)version, st->path);
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &info);
    return rc;
}

static cairn_err check_files(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                             struct crn_errinfo *ei)
{
    struct stat sb;
    uint32_t i;
    int r;

    for (i = 0; i < m->nfiles; i++) {
        const struct crn_manifest_file *f = &m->files[i];

        r = crn_late_stat(st->fs, dfd, f->name, f->bytes, m->committed_ns, &sb);
        if (r == -ENOENT)
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "file %s is missing", f->name);
        if (r < 0)
            return crn_fail_errno(ei, -r, "stat '%s'", f->name);
        if (!S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != f->bytes)
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "file %s has %lld bytes instead of %llu",
                            f->name, (long long)sb.st_size, (unsigned long long)f->bytes);
    }
    return CAIRN_OK;
}

static void catalog_fill(struct crn_version_entry *e, const struct crn_manifest *m)
{
    uint32_t i;

    e->id = m->id;
    memcpy(e->job, m->job, sizeof(e->job));
    e->created_ns = m->created_ns;
    e->committed_ns = m->committed_ns;
    e->data_bytes = m->data_bytes;
    e->ranks = m->ranks;
    e->nodes = m->nodes;
    e->files = m->nfiles;
    for (i = 0; i < m->nfiles; i++)
        e->file_bytes += m->files[i].bytes;
    for (i = 0; i < m->nfiles; i++)
        if (m->files[i].nbases > e->chain) {
            e->chain = m->files[i].nbases;
            e->against = m->files[i].bases[0].version;
        }
}

static int has_need(const struct crn_version_entry *e, const struct crn_base *b)
{
    uint32_t i;

    for (i = 0; i < e->nneeds; i++)
        if (e->needs[i].version == b->version && crn_capture_id_equal(&e->needs[i].id, &b->id))
            return 1;
    return 0;
}

/* Collects the versions that a manifest needs, each once. */
static cairn_err list_needs(struct crn_version_entry *e, const struct crn_manifest *m,
                            struct crn_errinfo *ei)
{
    struct crn_version_need *grown;
    uint32_t i, k;

    for (i = 0; i < m->nfiles; i++)
        for (k = 0; k < m->files[i].nbases; k++) {
            const struct crn_base *b = &m->files[i].bases[k];

            if (has_need(e, b))
                continue;
            grown = realloc(e->needs, (e->nneeds + 1) * sizeof(*grown));
            if (grown == NULL)
                return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of versions");
            e->needs = grown;
            e->needs[e->nneeds++] = (struct crn_version_need){.version = b->version, .id = b->id};
        }
    return CAIRN_OK;
}

static cairn_err look_once(const struct crn_store *st, int dfd, const char *name,
                           const struct crn_known *known, struct crn_version_entry *e,
                           int *ret_is_bad, struct crn_errinfo *ei)
{
    struct crn_manifest m;
    cairn_err rc;

    free(e->needs);
    *e = (struct crn_version_entry){.version = e->version, .is_pinned = e->is_pinned};
    *ret_is_bad = 0;
    rc = crn_store_read_manifest(st, dfd, name, e->version, &m, ei);
    if (rc != CAIRN_OK)
        return rc;
    catalog_fill(e, &m);
    rc = list_needs(e, &m, ei);
    if (rc == CAIRN_OK && !crn_known_has(known, &m.id)) {
        rc = check_files(st, dfd, &m, ei);
        if (rc == CAIRN_OK)
            rc = crn_store_check_bases(st, dfd, &m, ei);
    }
    if (rc == CAIRN_OK)
        rc = crn_store_is_bad(st, dfd, &m.id, ret_is_bad, e->why, sizeof(e->why), ei);
    crn_manifest_free(&m);
    return rc;
}

/* Was the version removed or replaced since its manifest was read? Then a missing file is no
 * damage. */
static int has_changed(const struct crn_store *st, int dfd, const char *name,
                       const struct crn_version_entry *e)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest now;
    cairn_err rc;
    int is_same;

    if (e->ranks == 0) /* no manifest was read */
        return 0;
    rc = crn_store_read_manifest(st, dfd, name, e->version, &now, &ignored);
    if (rc != CAIRN_OK)
        return rc == CAIRN_ENOENT;
    is_same = crn_capture_id_equal(&now.id, &e->id);
    crn_manifest_free(&now);
    return !is_same;
}

#define LOOKS 3 /* at a version that changes meanwhile */

/* Determines the state of a version from its directory; a failure to find out counts as a state. */
static void catalog_look(const struct crn_store *st, int dfd, const char *name,
                         const struct crn_known *known, struct crn_version_entry *e)
{
    struct crn_errinfo info;
    struct stat sb;
    int looks = 0;
    int is_bad;
    cairn_err rc;

    /* If stat fails, assume a pin. */
    e->is_pinned = st->fs->fstatat(st->fs, dfd, CRN_PIN, &sb) != -ENOENT;
    do {
        crn_err_clear(&info);
        rc = look_once(st, dfd, name, known, e, &is_bad, &info);
    } while (rc != CAIRN_OK && ++looks < LOOKS && has_changed(st, dfd, name, e));
    if (rc == CAIRN_OK && !is_bad) {
        e->state = CRN_VERSION_OK;
    } else if (rc == CAIRN_OK) {
        e->state = CRN_VERSION_REJECTED;
        e->code = CAIRN_EREJECTED;
    } else {
        e->state = rc == CAIRN_ENOENT ? CRN_VERSION_PARTIAL : CRN_VERSION_DAMAGED;
        e->code = rc;
        (void)snprintf(e->why, sizeof(e->why), "%s",
                       rc == CAIRN_ENOENT ? "it has no manifest: being written, or never finished"
                                          : info.msg);
    }
}

/* A removed version may have left data files that other versions need. */
static void explain_kept(struct crn_catalog *c)
{
    size_t i, k;
    uint32_t j;

    for (i = 0; i < c->n; i++)
        for (k = 0; c->v[i].state == CRN_VERSION_PARTIAL && k < c->n; k++)
            for (j = 0; j < c->v[k].nneeds; j++)
                if (c->v[k].needs[j].version == c->v[i].version)
                    (void)snprintf(c->v[i].why, sizeof(c->v[i].why),
                                   "it has no manifest: its data is kept for version %lld",
                                   (long long)c->v[k].version);
}

cairn_err crn_store_catalog(const struct crn_store *st, const char *name, struct crn_catalog *ret,
                            struct crn_errinfo *ei)
{
    return crn_store_catalog_known(st, name, NULL, ret, ei);
}

cairn_err crn_store_catalog_known(const struct crn_store *st, const char *name,
                                  const struct crn_known *known, struct crn_catalog *ret,
                                  struct crn_errinfo *ei)
{
    struct crn_catalog c = {0};
    int64_t *versions = NULL;
    cairn_err rc;
    size_t n = 0;
    size_t i;
    int name_dfd;

    rc = crn_store_name_dir(st, name, &name_dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_versions(st, name_dfd, name, &versions, &n, ei);
    (void)st->fs->close(st->fs, name_dfd);
    if (rc != CAIRN_OK)
        return rc;
    c.v = calloc(n + 1, sizeof(*c.v));
    if (c.v == NULL) {
        free(versions);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "list the versions of '%s'", name);
    }
    for (i = 0; i < n; i++) {
        struct crn_version_entry *e = &c.v[c.n];
        struct crn_errinfo info = {0};
        int dfd;

        e->version = versions[i];
        rc = crn_store_version_dir(st, name, versions[i], &dfd, &info);
        if (rc == CAIRN_ENOENT)
            continue; /* removed in the meantime */
        c.n++;
        if (rc == CAIRN_OK) {
            catalog_look(st, dfd, name, known, e);
            (void)st->fs->close(st->fs, dfd);
        } else {
            e->state = CRN_VERSION_DAMAGED;
            e->code = rc;
            (void)snprintf(e->why, sizeof(e->why), "%s", info.msg);
        }
    }
    free(versions);
    explain_kept(&c);
    *ret = c;
    return CAIRN_OK;
}

void crn_catalog_free(struct crn_catalog *c)
{
    size_t i;

    for (i = 0; i < c->n; i++)
        free(c->v[i].needs);
    free(c->v);
    memset(c, 0, sizeof(*c));
}
