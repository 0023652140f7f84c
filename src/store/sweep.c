/* SPDX-License-Identifier: BSD-3-Clause */
/* Removes debris: files that no manifest of the name names. Decides what is provably Cairn's and
 * provably useless:
 *
 *     temporary file                 its name has the form that crn_fs_replace uses
 *     data file, not whole           its name and path, below a directory with a .writer file
 *     data file, whole, not named    its index says that it belongs here; it stays while a drain
 *                                    may still complete its capture. It always stays if the
 *                                    capture is complete: that is acknowledged data, which a
 *                                    drain publishes
 *     removal mark                   with the last data file, or when the version exists again
 *     statistics                     with their data file, or if it does not exist
 *     marks without a manifest       their names and path
 *     spare                          its name and path; its version is gone
 *
 * Everything else stays, also if the manifest is unreadable or a read fails. Before a data file
 * goes, the proof that it is useless is made durable: the newest version, and that no replaced
 * manifest reappears after a power loss (crn_store_settle). */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"

struct sweep {
    const struct crn_store *st;
    const char *name;
    const struct crn_clock *clock;
    int64_t min_age_ns;
    int64_t newest_ok; /* version; -1: none */
    int has_lock;
    int has_writer; /* the name's directory has a .writer file */
    int force;
    int dry_run;
    struct crn_named named; /* files named by any manifest of the name */
    struct crn_lefts left;  /* captures that no manifest names; valid if has_left */
    int has_left;
    int is_settled;
    struct crn_sweep_result res;

    /* The version being swept. */
    int64_t version;
    int dfd;
    int has_manifest; /* exists, whole or damaged */
    int is_readable;
    struct crn_manifest m; /* if is_readable */
    uint32_t ndata;        /* data files that stay */
};

static int is_old(const struct sweep *s, int64_t since_ns)
{
    int64_t now = s->clock->wall_ns(s->clock);

    return now > since_ns && now - since_ns > s->min_age_ns;
}

static int64_t changed_ns(const struct stat *sb)
{
    return (int64_t)sb->st_mtim.tv_sec * 1000000000 + sb->st_mtim.tv_nsec;
}

/* Another host may have just finished the file or its manifest: does this host perhaps see an old
 * state? */
static int may_be_late(const struct sweep *s, const struct stat *sb)
{
    int64_t late_ns = s->st->fs->type(s->st->fs, s->dfd)->late_s * 1000000000LL;

    return !s->force && late_ns > 0 && s->clock->wall_ns(s->clock) - changed_ns(sb) < late_ns;
}

/* Is a whole data file that no manifest names useless to a drain? */
static cairn_err is_useless(struct sweep *s, const struct crn_index *x, int *ret,
                            struct crn_errinfo *ei)
{
    const struct crn_left *left;
    cairn_err rc;

    *ret = 1;
    if (s->force)
        return CAIRN_OK;
    if (!s->has_left) {
        rc = crn_store_left(s->st, s->name, &s->left, ei);
        if (rc != CAIRN_OK)
            return rc;
        s->has_left = 1;
    }
    left = crn_left_find(&s->left, s->version, &x->id, x->files);
    if (left != NULL && left->is_superseded)
        return CAIRN_OK;
    if (left != NULL && crn_left_is_complete(left)) {
        *ret = 0;
        s->res.complete += x->file_no == 0;
        return CAIRN_OK;
    }
    *ret = s->newest_ok > s->version ||
           is_old(s, x->created_ns > INT64_MAX ? INT64_MAX : (int64_t)x->created_ns);
    return CAIRN_OK;
}

static cairn_err settle_once(struct sweep *s, struct crn_errinfo *ei)
{
    cairn_err rc;

    if (s->is_settled)
        return CAIRN_OK;
    rc = crn_store_settle(s->st, s->name, &s->named, ei);
    if (rc == CAIRN_OK && s->newest_ok >= 0)
        rc = crn_store_sync_version(s->st, s->name, s->newest_ok, ei);
    s->is_settled = rc == CAIRN_OK;
    return rc;
}

static cairn_err sweep_drop(struct sweep *s, const char *file, uint64_t bytes,
                            struct crn_errinfo *ei)
{
    int r = 0;

    if (!s->dry_run)
        r = s->st->fs->unlinkat(s->st->fs, s->dfd, file, 0);
    if (r < 0 && r != -ENOENT)
        return crn_fail_errno(ei, -r, "remove '%s'",
                              crn_where(s->st, s->name, s->version, file).text);
    s->res.files++;
    s->res.bytes += bytes;
    return CAIRN_OK;
}

/* Is this data file debris? Sets *ret. A system error is an error. */
static cairn_err judge_data(struct sweep *s, const char *file, const struct stat *sb, int *ret,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo info = {0};
    struct crn_manifest_file mf;
    struct crn_index x;
    cairn_err rc;

    *ret = 0;
    if ((s->has_manifest && !s->is_readable) || crn_named_has(&s->named, s->version, file) ||
        may_be_late(s, sb))
        return CAIRN_OK; /* a damaged manifest may name it */
    rc = crn_store_describe_data(s->st, s->name, s->version, file, &mf, &x, &info);
    if (rc == CAIRN_OK) {
        rc = is_useless(s, &x, ret, ei);
        s->res.kept += rc == CAIRN_OK && !*ret;
        crn_manifest_file_free(&mf);
        crn_index_free(&x);
        return rc;
    }
    if (rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT)
        return CAIRN_OK; /* from a newer Cairn, or removed in the meantime */
    if (rc != CAIRN_EDAMAGED) {
        crn_err_keep(ei, &info);
        return rc;
    }
    /* Never finished. Without locks its writer may be alive, so only age decides. */
    *ret = s->has_writer && (s->has_lock || s->force || is_old(s, changed_ns(sb)));
    return CAIRN_OK;
}

/* Removes the statistics of a data file. */
static cairn_err drop_stats_of(struct sweep *s, const char *data_file, struct crn_errinfo *ei)
{
    char stats[CRN_FILE_NAME];
    struct stat sb;

    crn_stats_name(data_file, stats);
    if (s->st->fs->fstatat(s->st->fs, s->dfd, stats, &sb) < 0 || !S_ISREG(sb.st_mode))
        return CAIRN_OK; /* most have none; if stat fails, a later sweep retries */
    return sweep_drop(s, stats, (uint64_t)sb.st_size, ei);
}

static int is_missing(const struct sweep *s, const char *file)
{
    struct stat sb;

    return s->st->fs->fstatat(s->st->fs, s->dfd, file, &sb) == -ENOENT;
}

static cairn_err sweep_file(struct sweep *s, const char *file, struct crn_errinfo *ei)
{
    char data_file[CRN_FILE_NAME];
    uint32_t file_no, attempt;
    struct stat sb;
    cairn_err rc;
    int is_debris = 0;
    int r;

    r = s->st->fs->fstatat(s->st->fs, s->dfd, file, &sb);
    if (r == -ENOENT || (r == 0 && !S_ISREG(sb.st_mode)))
        return CAIRN_OK;
    rc = crn_fs_check(r, ei, "stat '%s'", crn_where(s->st, s->name, s->version, file).text);
    if (rc != CAIRN_OK)
        return rc;
    if (crn_store_is_temp_name(file)) {
        is_debris = s->has_lock || s->force || is_old(s, changed_ns(&sb));
    } else if (strcmp(file, CRN_PIN) == 0 || strcmp(file, CRN_BAD) == 0) {
        is_debris = s->has_writer && !s->has_manifest;
    } else if (strcmp(file, CRN_REMOVED) == 0) { /* sorted after the data files */
        is_debris = s->has_writer && (s->ndata == 0 || s->is_readable);
    } else if (crn_data_name_parse(file, &file_no, &attempt) == 0) {
        rc = judge_data(s, file, &sb, &is_debris, ei);
        s->ndata += !is_debris;
        if (rc == CAIRN_OK && is_debris && !s->dry_run)
            rc = settle_once(s, ei);
        if (rc == CAIRN_OK && is_debris)
            rc = drop_stats_of(s, file, ei);
    } else if (crn_parity_name_parse(file, &file_no, &attempt) == 0) {
        is_debris =
            s->has_writer && !may_be_late(s, &sb) &&
            (s->is_readable || s->newest_ok > s->version || s->force || is_old(s, changed_ns(&sb)));
    } else if (crn_stats_name_parse(file, data_file) == 0) {
        is_debris = s->has_writer && is_missing(s, data_file);
    }
    if (rc == CAIRN_OK && is_debris)
        rc = sweep_drop(s, file, (uint64_t)sb.st_size, ei);
    return rc;
}

static cairn_err look_at_manifest(struct sweep *s, struct crn_errinfo *ei)
{
    struct crn_errinfo info = {0};
    cairn_err rc;

    memset(&s->m, 0, sizeof(s->m));
    rc = crn_store_read_manifest(s->st, s->dfd, s->name, s->version, &s->m, &info);
    s->is_readable = rc == CAIRN_OK;
    s->has_manifest = rc != CAIRN_ENOENT;
    if (rc == CAIRN_OK || rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT)
        return CAIRN_OK;
    crn_err_keep(ei, &info);
    return rc;
}

/* Removes the directory of a version if it is empty. */
static cairn_err drop_dir(struct sweep *s, int name_dfd, struct crn_errinfo *ei)
{
    char text[CRN_VERSION_TEXT];
    int r;

    if (s->has_manifest || !s->has_writer || s->dry_run)
        return CAIRN_OK;
    crn_version_text(s->version, text);
    r = s->st->fs->unlinkat(s->st->fs, name_dfd, text, AT_REMOVEDIR);
    if (r == -ENOTEMPTY || r == -EEXIST || r == -ENOENT)
        return CAIRN_OK;
    if (r < 0)
        return crn_fail_errno(ei, -r, "remove '%s'",
                              crn_where(s->st, s->name, s->version, NULL).text);
    s->res.dirs++;
    return CAIRN_OK;
}

static cairn_err sweep_version(struct sweep *s, int name_dfd, int64_t version,
                               struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;

    s->version = version;
    s->ndata = 0;
    rc = crn_store_version_dir(s->st, s->name, version, &s->dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = look_at_manifest(s, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_names(s->st->fs, s->dfd, crn_where(s->st, s->name, version, NULL).text, &names,
                          ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        rc = sweep_file(s, names.name[i], ei);
    if (rc == CAIRN_OK)
        rc = drop_dir(s, name_dfd, ei);
    crn_names_free(&names);
    crn_manifest_free(&s->m);
    (void)s->st->fs->close(s->st->fs, s->dfd);
    return rc;
}

/* Half-written replacements of the name's own files. */
static cairn_err sweep_name_dir(struct sweep *s, int name_dfd, struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;

    s->dfd = name_dfd;
    rc = crn_fs_names(s->st->fs, name_dfd, s->name, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        if (crn_store_is_temp_name(names.name[i]))
            rc = sweep_file(s, names.name[i], ei);
    crn_names_free(&names);
    return rc;
}

/* Finds the newest committed version: it makes whole files of older captures useless. */
static cairn_err find_newest(struct sweep *s, struct crn_errinfo *ei)
{
    struct crn_catalog c;
    cairn_err rc;
    size_t i;

    rc = crn_store_catalog(s->st, s->name, &c, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->newest_ok = -1;
    for (i = 0; i < c.n; i++)
        if (c.v[i].state == CRN_VERSION_OK)
            s->newest_ok = c.v[i].version;
    crn_catalog_free(&c);
    return crn_named_load(s->st, s->name, -1, &s->named, ei);
}

/* Is a writer alive? Otherwise *ret_fd has the lock, or is -1. */
static cairn_err look_at_writer(struct sweep *s, int name_dfd, int held_fd, int *ret_fd,
                                struct crn_errinfo *ei)
{
    const struct crn_fs *fs = s->st->fs;
    int fd;
    int r;

    *ret_fd = -1;
    fd = crn_fork_openat(fs, name_dfd, CRN_WRITER, O_RDWR | O_NOFOLLOW, 0);
    s->has_writer = fd >= 0;
    s->has_lock = held_fd >= 0;
    if (fd == -ENOENT || fd == -ELOOP)
        return CAIRN_OK;
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s/%s'", s->st->path, s->name, CRN_WRITER);
    r = s->has_lock ? -ENOTSUP : fs->lock(fs, fd);
    if (r == 0) {
        s->has_lock = 1;
        *ret_fd = fd;
        return CAIRN_OK;
    }
    s->res.busy = r == -EAGAIN;
    (void)fs->close(fs, fd);
    if (r == -EAGAIN || r == -ENOTSUP)
        return CAIRN_OK;
    return crn_fail_errno(ei, -r, "lock '%s/%s/%s'", s->st->path, s->name, CRN_WRITER);
}

cairn_err crn_store_sweep(const struct crn_store *st, const char *name, int held_fd,
                          int64_t min_age_ns, int force, int dry_run, const struct crn_clock *clock,
                          struct crn_sweep_result *ret, struct crn_errinfo *ei)
{
    struct sweep s = {.st = st,
                      .name = name,
                      .clock = clock,
                      .min_age_ns = min_age_ns,
                      .force = force,
                      .dry_run = dry_run};
    int64_t *versions = NULL;
    int lock_fd = -1;
    cairn_err rc;
    size_t n = 0;
    size_t i;
    int name_dfd;

    rc = crn_store_name_dir(st, name, &name_dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = look_at_writer(&s, name_dfd, held_fd, &lock_fd, ei);
    if (rc == CAIRN_OK && !s.res.busy)
        rc = find_newest(&s, ei);
    if (rc == CAIRN_OK && !s.res.busy)
        rc = crn_store_versions(st, name_dfd, name, &versions, &n, ei);
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = sweep_version(&s, name_dfd, versions[i], ei);
    if (rc == CAIRN_OK && !s.res.busy)
        rc = sweep_name_dir(&s, name_dfd, ei);
    /* Spares of a dead run. A file system that supports spares supports locks. */
    if (rc == CAIRN_OK && !s.res.busy && s.has_writer && (s.has_lock || force))
        rc = crn_spares_remove(st, name, name_dfd, dry_run, &s.res, ei);
    free(versions);
    crn_named_free(&s.named);
    crn_lefts_free(&s.left);
    if (lock_fd >= 0)
        (void)st->fs->close(st->fs, lock_fd);
    (void)st->fs->close(st->fs, name_dfd);
    if (rc == CAIRN_OK)
        *ret = s.res;
    return rc;
}
