/* SPDX-License-Identifier: BSD-3-Clause */
/* The repaired file has the bytes of the old one, index and trailer included, so no manifest changes. It is
 * written under a new name, as any data file, and renamed over the damaged one: a crash leaves the damaged
 * file and debris, and readers that have the old file open keep it. Encoded files are not repaired: their
 * bytes cannot be made again from decoded copies. */
#include "service/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "restart/version.h"
#include "service/drain_local.h"
#include "service/rundir.h"
#include "store/data.h"
#include "store/journal.h"

/* A version with copies. */
struct scrub_repair {
    const struct crn_scrub *s;
    struct crn_version *v;
    const char *name;
    int64_t version;
    uint32_t file_no;
    const struct crn_index *index;
    struct crn_trailer trailer;
    uint64_t bytes; /* of the file */
    int dfd, old_fd, new_fd;
    const char *file;
    char made[CRN_FILE_NAME];
    unsigned char *chunk;
};

/* Copies of another capture are none; an error is no proof that there are none. */
static cairn_err scrub_add_from(const struct scrub_repair *r, const struct crn_store *local,
                                struct crn_errinfo *ei)
{
    const struct crn_fs *fs = local->fs;
    struct crn_names names = {0};
    cairn_err rc;
    int dfd = -1;
    size_t i;

    rc = crn_store_version_dir(local, r->name, r->version, &dfd, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_names(fs, dfd, local->path, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
        if (strncmp(names.name[i], "data-", 5) == 0)
            rc = crn_version_add_copy(r->v, dfd, names.name[i], ei);
        if (rc == CAIRN_EMISMATCH || rc == CAIRN_ENOENT) {
            crn_err_clear(ei);
            rc = CAIRN_OK;
        }
    }
    crn_names_free(&names);
    if (dfd >= 0)
        (void)fs->close(fs, dfd);
    return rc;
}

/* Adds the local copies of this host. */
static cairn_err scrub_add_copies(const struct scrub_repair *r, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = r->s->st->fs;
    struct crn_errinfo why = {0};
    char root[CRN_PATH_MAX];
    struct crn_store local;
    cairn_err rc;

    if (r->s->cfg->local[0] == '\0')
        return crn_fail(ei, CAIRN_ENOENT, 0, "there is no local directory (local)");
    if (crn_rundir_local_root(fs, r->s->cfg, root, sizeof(root), ei) != CAIRN_OK ||
        crn_store_open(fs, root, 0, &local, ei) != CAIRN_OK)
        return ei->code;
    rc = scrub_add_from(r, &local, &why);
    crn_store_close(&local);
    if (crn_version_copies(r->v) > 0)
        return CAIRN_OK;
    if (rc != CAIRN_OK && rc != CAIRN_ENOENT) {
        crn_err_keep(ei, &why);
        return rc;
    }
    return crn_fail(ei, CAIRN_ENOENT, 0, "the local directory of this host has no copy");
}

static cairn_err scrub_extent(const struct scrub_repair *r, const struct crn_extent *e,
                              struct crn_errinfo *ei)
{
    const struct crn_index *x = r->index;
    const struct crn_fs *fs = r->s->st->fs;
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    for (at = 0; rc == CAIRN_OK && at < e->bytes; at += x->chunk_bytes) {
        uint64_t n = e->bytes - at < x->chunk_bytes ? e->bytes - at : x->chunk_bytes;

        rc = crn_version_read(r->v, x->shards[e->shard].rank, e->region, e->offset + at, n,
                              r->chunk, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(fs, r->new_fd, r->chunk, n, e->file_offset + at, r->made, ei);
    }
    return rc;
}

/* Index and trailer, which crn_version_index has verified. */
static cairn_err scrub_tail(const struct scrub_repair *r, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = r->s->st->fs;
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    for (at = r->trailer.index_offset; rc == CAIRN_OK && at < r->bytes;
         at += r->index->chunk_bytes) {
        uint64_t n = r->bytes - at < r->index->chunk_bytes ? r->bytes - at : r->index->chunk_bytes;

        rc = crn_fs_read_all(fs, r->old_fd, r->chunk, n, at, r->file, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(fs, r->new_fd, r->chunk, n, at, r->made, ei);
    }
    return rc;
}

static cairn_err scrub_write(struct scrub_repair *r, struct crn_errinfo *ei)
{
    struct crn_data_file data = {.fs = r->s->st->fs, .dfd = r->dfd, .index = r->index};
    const struct crn_fs *fs = data.fs;
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    for (i = 0; rc == CAIRN_OK && i < r->index->nextents; i++)
        rc = scrub_extent(r, &r->index->extents[i], ei);
    if (rc == CAIRN_OK)
        rc = scrub_tail(r, ei);
    if (rc == CAIRN_OK) /* it may be a reused file */
        rc = crn_fs_check(fs->ftruncate(fs, r->new_fd, (off_t)r->bytes), ei, "truncate '%s'",
                          r->made);
    data.fd = r->new_fd;
    data.what = r->made;
    if (rc == CAIRN_OK)
        rc = crn_data_verify(&data, NULL, NULL, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, r->new_fd), ei, "fsync '%s'", r->made);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->renameat(fs, r->dfd, r->made, r->dfd, r->file), ei, "rename '%s'",
                          r->made);
    return rc == CAIRN_OK ? crn_fs_check(fs->fsync(fs, r->dfd), ei, "fsync the version") : rc;
}

static cairn_err scrub_replace(struct scrub_repair *r, struct crn_errinfo *ei)
{
    const struct crn_store *st = r->s->st;
    struct crn_errinfo ignored = {0};
    cairn_err rc;

    rc = crn_data_open(st->fs, r->dfd, r->file, r->file, &r->old_fd, &r->bytes, &r->trailer, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_create_data(st, r->name, r->version, r->file_no, r->made, &r->new_fd, ei);
    if (rc == CAIRN_OK) {
        rc = scrub_write(r, ei);
        (void)st->fs->close(st->fs, r->new_fd);
        if (rc != CAIRN_OK &&
            crn_store_discard_data(st, r->name, r->version, r->made, &ignored) != CAIRN_OK)
            crn_err_clear(&ignored); /* a sweep removes it */
    }
    (void)st->fs->close(st->fs, r->old_fd);
    return rc;
}

/* Under the writer's lock, so that neither retention nor a sweep removes files in between. */
static cairn_err scrub_repair_file(struct scrub_repair *r, struct crn_errinfo *ei)
{
    const struct crn_store *st = r->s->st;
    int lock_fd = -1;
    cairn_err rc;

    rc = crn_version_index(r->v, r->file_no, &r->index, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (r->index->nstreams > 0)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "it is encoded; take a new version");
    rc = scrub_add_copies(r, ei);
    if (rc == CAIRN_OK)
        rc = crn_drain_lock(st, r->name, "cairn scrub", 0, &lock_fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    r->chunk = malloc(r->index->chunk_bytes);
    if (r->chunk == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chunk");
    else if (!crn_version_is_current(r->v)) /* before there was the lock */
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "the version was removed or replaced meanwhile");
    else
        rc = crn_store_version_dir(st, r->name, r->version, &r->dfd, ei);
    if (rc == CAIRN_OK) {
        rc = scrub_replace(r, ei);
        (void)st->fs->close(st->fs, r->dfd);
    }
    free(r->chunk);
    if (lock_fd >= 0)
        (void)st->fs->close(st->fs, lock_fd);
    return rc;
}

static void scrub_report(const struct crn_scrub *s, const struct scrub_repair *r,
                         enum crn_scrub_what what, const struct crn_errinfo *damage,
                         const struct crn_errinfo *why)
{
    struct crn_reporter reporter = {.fs = s->st->fs, .root = s->st->path, .job = s->cfg->job};
    char head[CRN_FILE_NAME + 120], tail[CRN_ERR_TEXT / 3] = "";
    char text[CRN_ERR_TEXT];
    char host[65] = "";

    (void)gethostname(host, sizeof(host) - 1);
    if (what == CRN_SCRUB_REPAIRED)
        (void)snprintf(head, sizeof(head), "%s was damaged and was repaired from the copies of %s",
                       r->file, host);
    else
        (void)snprintf(head, sizeof(head), "%s is damaged", r->file);
    if (what == CRN_SCRUB_DAMAGED && !s->is_dry)
        (void)snprintf(tail, sizeof(tail), "; not repaired: %.*s", (int)sizeof(tail) - 20,
                       why->msg);
    (void)snprintf(text, sizeof(text), "%s: %.*s%s", head,
                   (int)(sizeof(text) - strlen(head) - strlen(tail)) - 4, damage->msg, tail);
    (void)crn_journal_report(&reporter, r->name, r->version, 0,
                             what == CRN_SCRUB_REPAIRED ? CRN_EVENT_REPAIRED : CRN_EVENT_DAMAGED,
                             text);
    s->fn(s->arg, what, r->file, text);
}

/* Repairs a data file of v, if possible. Returns whether the damage stays; 0 with *ret_is_stale if
 * the version was removed or replaced meanwhile. */
static int scrub_damaged(const struct crn_scrub *s, const struct crn_version *v, uint32_t file_no,
                         const struct crn_errinfo *damage, int *ret_is_stale)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    struct scrub_repair r = {.s = s,
                             .name = m->name,
                             .version = m->version,
                             .file_no = file_no,
                             .file = m->files[file_no].name};
    struct crn_errinfo why = {0};
    cairn_err rc = CAIRN_EDAMAGED;

    if (!s->is_dry) {
        rc = crn_version_open(s->st, r.name, r.version, &r.v, &why);
        if (rc == CAIRN_OK)
            rc = scrub_repair_file(&r, &why);
        crn_version_close(r.v);
    }
    *ret_is_stale = rc != CAIRN_OK && !crn_version_is_current(v);
    if (*ret_is_stale)
        return 0;
    scrub_report(s, &r, rc == CAIRN_OK ? CRN_SCRUB_REPAIRED : CRN_SCRUB_DAMAGED, damage, &why);
    return rc != CAIRN_OK;
}

static int is_damage(cairn_err rc)
{
    return rc == CAIRN_EDAMAGED || rc == CAIRN_ENOENT || rc == CAIRN_EFORMAT;
}

static cairn_err scrub_look(const struct crn_scrub *s, const char *name, int64_t version,
                            int *ret_is_stale, struct crn_errinfo *ei)
{
    const struct crn_manifest *m;
    struct crn_version *v;
    uint32_t damaged = 0;
    uint32_t f;
    cairn_err rc;

    *ret_is_stale = 0;
    rc = crn_version_open(s->st, name, version, &v, ei);
    if (rc != CAIRN_OK)
        return rc;
    m = crn_version_manifest(v);
    for (f = 0; rc == CAIRN_OK && !*ret_is_stale && f < m->nfiles; f++) {
        struct crn_errinfo why = {0};

        rc = crn_version_check_file(v, f, NULL, &why);
        *ret_is_stale = rc != CAIRN_OK && !crn_version_is_current(v);
        if (rc != CAIRN_OK && !*ret_is_stale && is_damage(rc)) {
            damaged += (uint32_t)scrub_damaged(s, v, f, &why, ret_is_stale);
            rc = CAIRN_OK;
        } else if (*ret_is_stale) {
            rc = CAIRN_OK;
        } else if (rc != CAIRN_OK) {
            crn_err_keep(ei, &why);
        }
    }
    if (rc == CAIRN_OK && damaged > 0)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%u of %u data files are damaged", damaged, m->nfiles);
    crn_version_close(v);
    return rc;
}

#define LOOKS 3 /* at a version that its job replaces meanwhile */

cairn_err crn_scrub_version(const struct crn_scrub *s, const char *name, int64_t version,
                            struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int is_stale = 1;
    int looks;

    for (looks = 0; rc == CAIRN_OK && is_stale && looks < LOOKS; looks++)
        rc = scrub_look(s, name, version, &is_stale, ei);
    return rc;
}
