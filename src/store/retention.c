/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which versions go, and removes them: first the manifest, durably, then the files that
 * only it named. A version that others are encoded against goes after them. */
#include "store/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The version committed last; c->n if there is none. If a run went back to lower numbers, its last
 * commit has a lower number than older versions; that commit was acknowledged and must stay. */
static size_t last_committed(const struct crn_catalog *c)
{
    size_t last = c->n;
    size_t i;

    for (i = 0; i < c->n; i++)
        if (c->v[i].state == CRN_VERSION_OK &&
            (last == c->n || !crn_store_capture_is_later(&c->v[last].id, c->v[last].committed_ns,
                                                         &c->v[i].id, c->v[i].committed_ns)))
            last = i;
    return last;
}

/* Keeps the versions that a kept version needs. Returns whether that changed anything. */
static int keep_needs(const struct crn_catalog *c, const struct crn_version_entry *e,
                      unsigned char *retire)
{
    int changed = 0;
    uint32_t k;
    size_t i;

    for (k = 0; k < e->nneeds; k++)
        for (i = 0; i < c->n; i++)
            if (retire[i] && c->v[i].version == e->needs[k].version &&
                crn_capture_id_equal(&c->v[i].id, &e->needs[k].id)) {
                retire[i] = 0;
                changed = 1;
            }
    return changed;
}

static void close_over_needs(const struct crn_catalog *c, unsigned char *retire)
{
    int changed;
    size_t i;

    do {
        changed = 0;
        for (i = 0; i < c->n; i++)
            if (!retire[i])
                changed |= keep_needs(c, &c->v[i], retire);
    } while (changed);
}

static int is_spared(const struct crn_retention *policy, const struct crn_version_entry *e)
{
    size_t i;

    for (i = 0; i < policy->nspared; i++)
        if (policy->spared[i] == e->version)
            return 1;
    return e->is_pinned;
}

void crn_retention_plan(const struct crn_catalog *c, const struct crn_retention *policy,
                        unsigned char *retire)
{
    uint64_t keep_every = policy->keep_every;
    size_t last = last_committed(c);
    uint64_t newer_ok = 0;
    size_t i;

    memset(retire, 0, c->n);
    if (policy->keep_last == 0)
        return;
    for (i = c->n; i-- > 0;) {
        const struct crn_version_entry *e = &c->v[i];
        int has_enough = newer_ok >= policy->keep_last;
        int is_kept = keep_every > 0 && (uint64_t)e->version % keep_every == 0;

        if (e->state == CRN_VERSION_OK) {
            retire[i] = has_enough && !is_kept && !is_spared(policy, e) && i != last;
            newer_ok++;
        } else if (e->state == CRN_VERSION_REJECTED ||
                   (e->state == CRN_VERSION_DAMAGED && e->code == CAIRN_EDAMAGED)) {
            retire[i] = has_enough && !is_spared(policy, e);
        }
    }
    close_over_needs(c, retire);
}

/* The removal mark goes with the last data file: until then it identifies the data files as
 * debris. */
static cairn_err drop_mark(const struct crn_store *st, int dfd, const char *name, int64_t version,
                           struct crn_errinfo *ei)
{
    struct crn_where where = crn_where(st, name, version, CRN_REMOVED);
    struct crn_names names = {0};
    uint32_t file_no, attempt;
    int has_data = 0;
    cairn_err rc;
    size_t i;
    int r;

    rc = crn_fs_names(st->fs, dfd, where.text, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        has_data |= crn_data_name_parse(names.name[i], &file_no, &attempt) == 0;
    crn_names_free(&names);
    if (rc != CAIRN_OK || has_data)
        return rc;
    r = st->fs->unlinkat(st->fs, dfd, CRN_REMOVED, 0);
    return r == -ENOENT ? CAIRN_OK : crn_fs_check(r, ei, "remove '%s'", where.text);
}

/* Removes the remains of a version whose manifest is durably gone. */
static cairn_err remove_rest(const struct crn_store *st, int dfd, const struct crn_manifest *m,
                             const char *name, int64_t version, int reuse, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    struct crn_named named = {0};
    cairn_err rc = CAIRN_OK;
    int r;

    if (m != NULL) {
        rc = crn_named_load(st, name, version, &named, ei);
        if (rc == CAIRN_OK)
            rc = crn_store_settle(st, name, &named, ei);
        if (rc == CAIRN_OK && reuse)
            crn_spare_keep(st, dfd, m, &named);
        if (rc == CAIRN_OK)
            rc = crn_store_unlink_files(st, dfd, m, &named, ei);
        crn_named_free(&named);
    }
    r = fs->unlinkat(fs, dfd, CRN_BAD, 0);
    if (rc == CAIRN_OK && r < 0 && r != -ENOENT)
        rc = crn_fail_errno(ei, -r, "remove '%s'", crn_where(st, name, version, CRN_BAD).text);
    if (rc == CAIRN_OK)
        rc = drop_mark(st, dfd, name, version, ei);
    return rc == CAIRN_OK ? crn_store_remove_empty(st, name, version, ei) : rc;
}

/* Once this returns, the version is gone. Its manifest keeps another name while data files remain,
 * so that a drain does not mistake them for an unpublished capture. */
static cairn_err unname_manifest(const struct crn_store *st, int dfd, const char *name,
                                 int64_t version, struct crn_errinfo *ei)
{
    cairn_err rc = crn_store_refuse_pinned(st, dfd, name, version, NULL, ei);
    int r;

    if (rc != CAIRN_OK)
        return rc;
    r = st->fs->renameat(st->fs, dfd, CRN_MANIFEST, dfd, CRN_REMOVED);
    if (r < 0)
        return crn_fail_errno(ei, -r, "remove '%s'",
                              crn_where(st, name, version, CRN_MANIFEST).text);
    return crn_fs_check(st->fs->fsync(st->fs, dfd), ei, "fsync '%s'",
                        crn_where(st, name, version, NULL).text);
}

/* CAIRN_EBUSY if another version is encoded against this one. */
static cairn_err refuse_needed(const struct crn_store *st, const struct crn_manifest *m,
                               struct crn_errinfo *ei)
{
    const struct crn_named_file *user = NULL;
    struct crn_named named;
    cairn_err rc;
    uint32_t i;

    rc = crn_named_load(st, m->name, m->version, &named, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; user == NULL && i < m->nfiles; i++)
        user = crn_named_find(&named, m->version, m->files[i].name);
    if (user != NULL)
        rc = crn_fail(ei, CAIRN_EBUSY, 0,
                      "%s@%lld is needed by %s@%lld, which was encoded against it: remove all "
                      "versions that need it as well ('cairn ls' lists them)",
                      m->name, (long long)m->version, m->name, (long long)user->by);
    crn_named_free(&named);
    return rc;
}

/* RETIRED_REUSED: keep data files as spares. FOR_GOOD: no drain may restore the version. */
enum removal { RETIRED, RETIRED_REUSED, FOR_GOOD };

/* Removes a version. The versions that justify its removal are durable. */
static cairn_err remove_durably(const struct crn_store *st, const char *name, int64_t version,
                                enum removal kind, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_manifest m = {0};
    int is_readable;
    cairn_err rc;
    int dfd;

    rc = crn_store_version_dir(st, name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_read_manifest(st, dfd, name, version, &m, &why);
    is_readable = rc == CAIRN_OK;
    if (is_readable)
        rc = refuse_needed(st, &m, ei);
    else if (rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT)
        rc = CAIRN_OK; /* its data files stay: other versions may be encoded against them */
    else
        crn_err_keep(ei, &why);
    if (rc == CAIRN_OK && is_readable && kind == FOR_GOOD)
        rc = crn_store_refuse_pinned(st, dfd, name, version, NULL, ei);
    if (rc == CAIRN_OK && is_readable && kind == FOR_GOOD)
        rc = crn_store_note_removed(st, name, version, &m.id, ei);
    if (rc == CAIRN_OK)
        rc = unname_manifest(st, dfd, name, version, ei);
    if (rc == CAIRN_OK)
        rc = remove_rest(st, dfd, is_readable ? &m : NULL, name, version, kind == RETIRED_REUSED,
                         ei);
    crn_manifest_free(&m);
    (void)st->fs->close(st->fs, dfd);
    return rc;
}

/* Makes the newest version that remains after `version` is removed durable: a restart will use
 * it. */
static cairn_err sync_newest(const struct crn_store *st, const char *name, int64_t version,
                             struct crn_errinfo *ei)
{
    char path[CRN_VERSION_TEXT + sizeof(CRN_MANIFEST) + 1];
    int64_t *versions = NULL;
    struct stat sb;
    size_t n = 0;
    cairn_err rc;
    int dfd;
    int r;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_versions(st, dfd, name, &versions, &n, ei);
    for (; rc == CAIRN_OK && n > 0; n--) {
        (void)snprintf(path, sizeof(path), "%lld/%s", (long long)versions[n - 1], CRN_MANIFEST);
        r = versions[n - 1] != version ? st->fs->fstatat(st->fs, dfd, path, &sb) : -ENOENT;
        if (r == 0)
            break;
        if (r != -ENOENT)
            rc = crn_fail_errno(ei, -r, "stat '%s/%s/%s'", st->path, name, path);
    }
    (void)st->fs->close(st->fs, dfd);
    if (rc == CAIRN_OK && n > 0)
        rc = crn_store_sync_version(st, name, versions[n - 1], ei);
    free(versions);
    return rc;
}

cairn_err crn_store_remove(const struct crn_store *st, const char *name, int64_t version,
                           struct crn_errinfo *ei)
{
    cairn_err rc = sync_newest(st, name, version, ei);

    return rc != CAIRN_OK ? rc : remove_durably(st, name, version, FOR_GOOD, ei);
}

/* Removes marked versions that no other version needs; counts them in *ret. */
static cairn_err remove_marked(const struct crn_store *st, const char *name,
                               const struct crn_catalog *c, int reuse, unsigned char *retire,
                               uint32_t *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo why;
    cairn_err rc;
    size_t i;

    *ret = 0;
    for (i = c->n; i-- > 0;) {
        if (!retire[i])
            continue;
        crn_err_clear(&why);
        rc = remove_durably(st, name, c->v[i].version, reuse ? RETIRED_REUSED : RETIRED, &why);
        if (rc == CAIRN_EBUSY || rc == CAIRN_EPINNED)
            continue; /* needed: retry once its user is gone; pinned in the meantime: keep */
        if (rc != CAIRN_OK) {
            crn_err_keep(ei, &why);
            return rc;
        }
        retire[i] = 0;
        ++*ret;
    }
    return CAIRN_OK;
}

/* Makes the versions durable that justify retiring others: the newest keep_last. If the caller
 * remembers durability, all remaining versions are made durable, since each may justify a removal
 * later. */
static cairn_err sync_reasons(const struct crn_store *st, const char *name,
                              const struct crn_catalog *c, const unsigned char *retire,
                              const struct crn_retention *policy, struct crn_errinfo *ei)
{
    uint64_t left = policy->is_durable != NULL ? c->n : policy->keep_last;
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (policy->is_durable != NULL && *policy->is_durable)
        return CAIRN_OK;
    for (i = c->n; rc == CAIRN_OK && left > 0 && i-- > 0;)
        if (c->v[i].state == CRN_VERSION_OK && !retire[i]) {
            rc = crn_store_sync_version(st, name, c->v[i].version, ei);
            left--;
        }
    if (rc == CAIRN_OK && policy->is_durable != NULL)
        *policy->is_durable = 1;
    return rc;
}

void crn_known_free(struct crn_known *k)
{
    free(k->v);
    *k = (struct crn_known){0};
}

int crn_known_has(const struct crn_known *k, const struct crn_capture_id *id)
{
    size_t i;

    for (i = 0; k != NULL && i < k->n; i++)
        if (crn_capture_id_equal(&k->v[i], id))
            return 1;
    return 0;
}

void crn_known_add(struct crn_known *k, const struct crn_capture_id *id)
{
    struct crn_capture_id *grown =
        crn_known_has(k, id) ? NULL : realloc(k->v, (k->n + 1) * sizeof(*grown));

    if (grown == NULL)
        return;
    k->v = grown;
    k->v[k->n++] = *id;
}

/* Remembers the versions that stay, and no others. */
static void know(struct crn_known *k, const struct crn_catalog *c, const unsigned char *retire)
{
    size_t i;

    if (k == NULL)
        return;
    crn_known_free(k);
    for (i = 0; i < c->n; i++)
        if (c->v[i].state == CRN_VERSION_OK && !retire[i])
            crn_known_add(k, &c->v[i].id);
}

cairn_err crn_store_retain(const struct crn_store *st, const char *name,
                           const struct crn_retention *policy, uint32_t *ret_removed,
                           struct crn_errinfo *ei)
{
    struct crn_catalog c;
    unsigned char *retire;
    uint32_t removed = 0;
    uint32_t now = 0;
    cairn_err rc;

    rc = crn_store_catalog_known(st, name, policy->known, &c, ei);
    if (rc != CAIRN_OK)
        return rc;
    retire = calloc(c.n + 1, 1);
    if (retire == NULL) {
        crn_catalog_free(&c);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "retention of '%s'", name);
    }
    crn_retention_plan(&c, policy, retire);
    know(policy->known, &c, retire);
    if (memchr(retire, 1, c.n) != NULL)
        rc = sync_reasons(st, name, &c, retire, policy, ei);
    do {
        if (rc == CAIRN_OK && memchr(retire, 1, c.n) != NULL)
            rc = remove_marked(st, name, &c, policy->reuse, retire, &now, ei);
        else
            now = 0;
        removed += now;
    } while (rc == CAIRN_OK && now > 0);
    free(retire);
    crn_catalog_free(&c);
    if (rc == CAIRN_OK)
        *ret_removed = removed;
    return rc;
}

cairn_err crn_store_would_retire(const struct crn_store *st, const char *name,
                                 const struct crn_retention *policy, int64_t version,
                                 const struct crn_capture_id *id, uint64_t created_ns, int *ret,
                                 struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_catalog c = {0};
    uint64_t newer = 0;
    cairn_err rc;
    size_t i;

    *ret = 0;
    if (policy->keep_last == 0 ||
        (policy->keep_every > 0 && (uint64_t)version % policy->keep_every == 0))
        return CAIRN_OK;
    rc = crn_store_catalog(st, name, &c, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &why);
    for (i = c.n; rc == CAIRN_OK && i > 0 && newer < policy->keep_last; i--) {
        const struct crn_version_entry *e = &c.v[i - 1];

        if (e->state != CRN_VERSION_OK || e->version <= version ||
            !crn_store_capture_is_later(&e->id, e->created_ns, id, created_ns))
            continue;
        rc = crn_store_sync_version(st, name, e->version, ei); /* it may not be durable yet */
        newer++;
    }
    crn_catalog_free(&c);
    *ret = rc == CAIRN_OK && newer >= policy->keep_last;
    return rc;
}
