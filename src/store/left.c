/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds whole data files that no manifest names, and groups them by capture. If all files of a
 * capture exist, they are acknowledged data: the run died between the last data file and the
 * manifest. Otherwise they are remains of a version that was replaced or removed. A removal renames
 * the manifest to CRN_REMOVED before it unlinks data files, so the two cases cannot be confused.
 *
 * A version directory with a manifest and one data file per number contains nothing else and is not
 * examined further. The cost per committed version is one readdir. */
#include "store/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int crn_store_capture_is_later(const struct crn_capture_id *a, uint64_t a_created_ns,
                               const struct crn_capture_id *b, uint64_t b_created_ns)
{
    if (memcmp(a->run, b->run, sizeof(a->run)) == 0)
        return a->seq > b->seq;
    if (a->generation != 0 && b->generation != 0 && a->generation != b->generation)
        return a->generation > b->generation;
    return a_created_ns > b_created_ns;
}

/* The scan, and the version being examined. */
struct look {
    const struct crn_store *st;
    const char *name;
    int64_t version;
    int dfd;
    struct crn_manifest m, removed; /* nfiles is 0 if there is none */
    int is_removed_unreadable;      /* an unreadable CRN_REMOVED: it applies to every capture */
    struct crn_named named;         /* loaded on first use */
    int has_named;
    int has_parity; /* the version has parity files */
    struct crn_lefts *out;
};

/* Can the directory contain a data file that its manifest does not name? */
static int may_hold_more(const struct crn_names *names)
{
    uint32_t last = UINT32_MAX;
    int has_manifest = 0;
    uint32_t no, attempt;
    int has_data = 0;
    int twice = 0;
    size_t i;

    for (i = 0; i < names->n; i++) {
        has_manifest |= strcmp(names->name[i], CRN_MANIFEST) == 0;
        if (crn_data_name_parse(names->name[i], &no, &attempt) != 0)
            continue;
        has_data = 1;
        twice |= no == last; /* names are sorted, so attempts of one number are adjacent */
        last = no;
    }
    return has_data && (!has_manifest || twice);
}

/* Reads the manifest or the removal mark; sets *ret_is_unreadable if it exists but is damaged. */
static cairn_err read_head(const struct look *k, const char *file, struct crn_manifest *ret,
                           int *ret_is_unreadable, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    memset(ret, 0, sizeof(*ret));
    rc = crn_store_read_head(k->st, k->dfd, file, k->name, k->version, ret, &why);
    *ret_is_unreadable = rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT;
    if (rc == CAIRN_OK || rc == CAIRN_ENOENT || *ret_is_unreadable)
        return CAIRN_OK;
    crn_err_keep(ei, &why);
    return rc;
}

/* Was the capture removed, or replaced by a later one? */
static cairn_err is_superseded(const struct look *k, const struct crn_index *x, int *ret,
                               struct crn_errinfo *ei)
{
    *ret =
        k->is_removed_unreadable ||
        (k->removed.nfiles > 0 && !crn_store_capture_is_later(&x->id, x->created_ns, &k->removed.id,
                                                              k->removed.created_ns)) ||
        (k->m.nfiles > 0 &&
         !crn_store_capture_is_later(&x->id, x->created_ns, &k->m.id, k->m.created_ns));
    return *ret ? CAIRN_OK : crn_store_was_removed(k->st, k->name, k->version, &x->id, ret, ei);
}

static cairn_err left_add(struct look *k, const struct crn_index *x, struct crn_errinfo *ei)
{
    struct crn_lefts *out = k->out;
    struct crn_left *l = NULL;
    cairn_err rc;
    size_t i;

    for (i = 0; i < out->n; i++)
        if (out->v[i].version == k->version && crn_capture_id_equal(&out->v[i].id, &x->id) &&
            out->v[i].files == x->files)
            l = &out->v[i];
    if (l == NULL) {
        struct crn_left *grown = realloc(out->v, (out->n + 1) * sizeof(*grown));

        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of data files");
        out->v = grown;
        l = &grown[out->n];
        *l = (struct crn_left){.version = k->version,
                               .id = x->id,
                               .created_ns = x->created_ns,
                               .files = x->files,
                               .has_parity = k->has_parity,
                               .last = UINT32_MAX};
        rc = is_superseded(k, x, &l->is_superseded, ei);
        if (rc != CAIRN_OK)
            return rc;
        out->n++;
    }
    l->have += l->last != x->file_no; /* several attempts of one number are adjacent */
    l->last = x->file_no;
    l->is_promised |= !x->is_unpromised;
    return CAIRN_OK;
}

static cairn_err is_named(struct look *k, const char *file, int *ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (!k->has_named)
        rc = crn_named_load(k->st, k->name, -1, &k->named, ei);
    k->has_named = rc == CAIRN_OK;
    *ret = rc == CAIRN_OK && crn_named_has(&k->named, k->version, file);
    return rc;
}

static cairn_err look_at_file(struct look *k, const char *file, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_manifest_file mf;
    struct crn_index x;
    int named = 0;
    cairn_err rc;

    rc = is_named(k, file, &named, ei);
    if (rc != CAIRN_OK || named)
        return rc;
    rc = crn_store_describe_data(k->st, k->name, k->version, file, &mf, &x, &why);
    if (rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT)
        return CAIRN_OK; /* unfinished, from a newer Cairn, or removed in the meantime */
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    rc = left_add(k, &x, ei);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    return rc;
}

static cairn_err look_inside(struct look *k, const struct crn_names *names, struct crn_errinfo *ei)
{
    uint32_t no, attempt;
    int is_unreadable = 0;
    cairn_err rc;
    size_t i;

    rc = read_head(k, CRN_MANIFEST, &k->m, &is_unreadable, ei);
    if (rc == CAIRN_OK)
        rc = read_head(k, CRN_REMOVED, &k->removed, &k->is_removed_unreadable, ei);
    k->has_parity = 0;
    for (i = 0; i < names->n; i++)
        k->has_parity |= crn_parity_name_parse(names->name[i], &no, &attempt) == 0;
    /* An unreadable manifest may name any file here. */
    for (i = 0; rc == CAIRN_OK && !is_unreadable && i < names->n; i++)
        if (crn_data_name_parse(names->name[i], &no, &attempt) == 0)
            rc = look_at_file(k, names->name[i], ei);
    crn_manifest_free(&k->removed);
    crn_manifest_free(&k->m);
    return rc;
}

static cairn_err look_at_version(struct look *k, struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    struct crn_errinfo why = {0};
    cairn_err rc;

    rc = crn_store_version_dir(k->st, k->name, k->version, &k->dfd, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK; /* removed in the meantime */
    if (rc == CAIRN_OK) {
        rc = crn_fs_names(k->st->fs, k->dfd, crn_where(k->st, k->name, k->version, NULL).text,
                          &names, &why);
        if (rc == CAIRN_OK && may_hold_more(&names))
            rc = look_inside(k, &names, &why);
        crn_names_free(&names);
        (void)k->st->fs->close(k->st->fs, k->dfd);
    }
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &why);
    return rc;
}

cairn_err crn_store_left(const struct crn_store *st, const char *name, struct crn_lefts *ret,
                         struct crn_errinfo *ei)
{
    struct crn_lefts out = {0};
    struct look k = {.st = st, .name = name, .out = &out};
    int64_t *versions = NULL;
    size_t n = 0;
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_versions(st, dfd, name, &versions, &n, ei);
    (void)st->fs->close(st->fs, dfd);
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        k.version = versions[i];
        rc = look_at_version(&k, ei);
    }
    crn_named_free(&k.named);
    free(versions);
    if (rc != CAIRN_OK) {
        crn_lefts_free(&out);
        return rc;
    }
    *ret = out;
    return CAIRN_OK;
}

void crn_lefts_free(struct crn_lefts *l)
{
    free(l->v);
    memset(l, 0, sizeof(*l));
}

int crn_left_is_complete(const struct crn_left *l)
{
    return !l->is_superseded && l->have == l->files;
}

int crn_left_may_be_rebuilt(const struct crn_left *l)
{
    return !l->is_superseded && l->have < l->files && l->has_parity;
}

const struct crn_left *crn_left_find(const struct crn_lefts *l, int64_t version,
                                     const struct crn_capture_id *id, uint32_t files)
{
    size_t i;

    for (i = 0; i < l->n; i++)
        if (l->v[i].version == version && l->v[i].files == files &&
            crn_capture_id_equal(&l->v[i].id, id))
            return &l->v[i];
    return NULL;
}
