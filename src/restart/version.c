/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a version: manifest, indexes, copies. Decides which files belong together: an index is
 * valid only if the manifest names it and both describe the same capture and the same ranks. */
#include "restart/version_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/late.h"

static void source_fini(const struct crn_fs *fs, struct crn_version_file *s)
{
    if (s->fd >= 0)
        (void)fs->close(fs, s->fd); /* was only read */
    crn_base_chain_free(s->chain);
    if (s->is_loaded)
        crn_index_free(&s->index);
    free(s->what);
}

cairn_err crn_version_keep(struct crn_version *v, size_t bytes, struct crn_errinfo *ei)
{
    return v->decoder == NULL ? crn_decoder_open(bytes, &v->decoder, ei) : CAIRN_OK;
}

void crn_version_close(struct crn_version *v)
{
    uint32_t i;

    if (v == NULL)
        return;
    for (i = 0; v->files != NULL && i < v->m.nfiles; i++)
        source_fini(v->fs, &v->files[i]);
    for (i = 0; i < v->ncopies; i++)
        source_fini(v->fs, &v->copies[i]);
    if (v->dfd >= 0)
        (void)v->fs->close(v->fs, v->dfd);
    crn_manifest_free(&v->m);
    free(v->files);
    free(v->copies);
    free(v->file_of_rank);
    free(v->chunk);
    crn_decoder_free(v->decoder);
    free(v->root);
    free(v);
}

static cairn_err version_prepare(struct crn_version *v, struct crn_errinfo *ei)
{
    uint32_t i, j, k;

    v->files = calloc(v->m.nfiles, sizeof(*v->files));
    v->file_of_rank = calloc(v->m.ranks, sizeof(*v->file_of_rank));
    if (v->files == NULL || v->file_of_rank == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "open a version of %u files",
                        (unsigned)v->m.nfiles);
    for (i = 0; i < v->m.nfiles; i++)
        v->files[i].fd = -1;
    for (i = 0; i < v->m.nfiles; i++) {
        const struct crn_manifest_file *f = &v->m.files[i];

        if (asprintf(&v->files[i].what, "%s/%s/%lld/%s", v->root, v->m.name,
                     (long long)v->m.version, f->name) < 0) {
            v->files[i].what = NULL;
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "open a version of %u files",
                            (unsigned)v->m.nfiles);
        }
        for (j = 0; j < f->nranges; j++)
            for (k = 0; k < f->ranges[j].count; k++)
                v->file_of_rank[f->ranges[j].first + k] = i;
    }
    return CAIRN_OK;
}

static struct crn_version *version_make(const struct crn_fs *fs, const char *root)
{
    struct crn_version *v = calloc(1, sizeof(*v));

    if (v == NULL)
        return NULL;
    v->fs = fs;
    v->dfd = -1;
    v->root = strdup(root);
    if (v->root == NULL) {
        free(v);
        return NULL;
    }
    return v;
}

cairn_err crn_version_open(const struct crn_store *st, const char *name, int64_t version,
                           struct crn_version **ret, struct crn_errinfo *ei)
{
    struct crn_version *v = version_make(st->fs, st->path);
    cairn_err rc;

    if (v == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "open %s@%lld", name, (long long)version);
    rc = crn_store_version_dir(st, name, version, &v->dfd, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_manifest(st, name, version, &v->m, ei);
    if (rc == CAIRN_OK)
        rc = version_prepare(v, ei);
    if (rc != CAIRN_OK) {
        crn_version_close(v);
        return rc;
    }
    *ret = v;
    return CAIRN_OK;
}

int crn_version_is_current(const struct crn_version *v)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest now;
    struct crn_store st;
    int is_current = 1;
    cairn_err rc;

    if (crn_store_open(v->fs, v->root, 0, &st, &ignored) != CAIRN_OK)
        return 1;
    rc = crn_store_manifest(&st, v->m.name, v->m.version, &now, &ignored);
    if (rc == CAIRN_OK) {
        is_current = crn_capture_id_equal(&now.id, &v->m.id);
        crn_manifest_free(&now);
    } else if (rc == CAIRN_ENOENT) {
        is_current = 0;
    }
    crn_store_close(&st);
    return is_current;
}

cairn_err crn_version_adopt(const struct crn_fs *fs, const char *root, struct crn_manifest *m,
                            struct crn_version **ret, struct crn_errinfo *ei)
{
    struct crn_version *v = version_make(fs, root);
    cairn_err rc;

    if (v == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "open %s@%lld", m->name, (long long)m->version);
        crn_manifest_free(m);
        return rc;
    }
    v->m = *m;
    memset(m, 0, sizeof(*m));
    rc = version_prepare(v, ei);
    if (rc != CAIRN_OK) {
        crn_version_close(v);
        return rc;
    }
    *ret = v;
    return CAIRN_OK;
}

/* Takes ownership of index and chain. */
static void set_index(struct crn_version_file *s, struct crn_index *x, struct crn_base_chain *chain)
{
    s->index = *x;
    s->chain = chain;
    memset(x, 0, sizeof(*x));
    s->is_loaded = 1;
}

void crn_version_tell(struct crn_version *v, uint32_t file_no, struct crn_index *x,
                      struct crn_base_chain *chain)
{
    struct crn_version_file *s = &v->files[file_no];

    if (s->is_loaded) {
        crn_base_chain_free(chain);
        crn_index_free(x);
        return;
    }
    s->is_told = 1;
    set_index(s, x, chain);
}

void crn_version_tell_failure(struct crn_version *v, uint32_t file_no,
                              const struct crn_errinfo *failure)
{
    struct crn_version_file *s = &v->files[file_no];

    if (s->is_loaded)
        return;
    s->is_told = 1;
    s->failure = *failure;
}

struct crn_data_file crn_version_source_data(const struct crn_version *v,
                                             const struct crn_version_file *s, int fd)
{
    return (struct crn_data_file){.fs = v->fs,
                                  .fd = fd,
                                  .dfd = v->dfd,
                                  .index = &s->index,
                                  .chain = s->chain,
                                  .what = s->what};
}

cairn_err crn_version_dir(struct crn_version *v, struct crn_errinfo *ei)
{
    struct crn_store st;
    cairn_err rc;

    if (v->dfd >= 0)
        return CAIRN_OK;
    rc = crn_store_open(v->fs, v->root, 0, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_late_dir(&st, v->m.name, v->m.version, v->m.committed_ns, &v->dfd, ei);
    crn_store_close(&st);
    return rc;
}

int crn_version_is_encoded(const struct crn_version *v, uint32_t file_no)
{
    return v->files[file_no].is_loaded && v->files[file_no].index.nstreams > 0;
}

uint32_t crn_version_copies(const struct crn_version *v)
{
    return v->ncopies;
}

int crn_version_has_copy(const struct crn_version *v, uint32_t rank)
{
    uint32_t i;

    for (i = 0; i < v->ncopies; i++)
        if (crn_version_source_shard(&v->copies[i], rank) >= 0)
            return 1;
    return 0;
}

uint32_t crn_version_file_of(const struct crn_version *v, uint32_t rank)
{
    return v->file_of_rank[rank];
}

const struct crn_manifest *crn_version_manifest(const struct crn_version *v)
{
    return &v->m;
}

const struct crn_errinfo *crn_version_repaired(const struct crn_version *v)
{
    return v->repaired.code != CAIRN_OK ? &v->repaired : NULL;
}

static int same_trailer(const struct crn_trailer *a, const struct crn_trailer *b)
{
    return a->index_offset == b->index_offset && a->index_bytes == b->index_bytes &&
           a->index_hash == b->index_hash;
}

static int same_capture(const struct crn_manifest *m, const struct crn_index *x)
{
    return crn_capture_id_equal(&m->id, &x->id) && strcmp(m->name, x->name) == 0 &&
           m->version == x->version && m->ranks == x->ranks;
}

/* Checks the index of a file of the store against the manifest. */
static cairn_err check_index(const struct crn_version *v, uint32_t file_no,
                             const struct crn_index *x, const char *what, struct crn_errinfo *ei)
{
    const struct crn_manifest_file *f = &v->m.files[file_no];
    struct crn_rank_range *ranges;
    uint32_t n;
    cairn_err rc;
    int same;

    if (!same_capture(&v->m, x) || x->file_no != file_no || x->files != v->m.nfiles ||
        !crn_bases_equal(x->bases, x->nbases, f->bases, f->nbases))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: belongs to another checkpoint", what);
    rc = crn_data_ranges(x, &ranges, &n, ei);
    if (rc != CAIRN_OK)
        return rc;
    same = n == f->nranges && memcmp(ranges, f->ranges, n * sizeof(*ranges)) == 0;
    free(ranges);
    if (!same)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: its ranks differ from those in the manifest",
                        what);
    return CAIRN_OK;
}

/* Another host may have written the end of the file a moment ago. A read before this host sees it
 * would look like damage, so wait. */
static void await_file(const struct crn_version *v, uint32_t file_no)
{
    const struct crn_manifest_file *f = &v->m.files[file_no];
    struct stat sb;

    (void)crn_late_stat(v->fs, v->dfd, f->name, f->bytes, v->m.committed_ns, &sb);
}

cairn_err crn_version_open_file(const struct crn_version *v, uint32_t file_no, int *ret_fd,
                                struct crn_errinfo *ei)
{
    int fd;

    await_file(v, file_no);
    fd = v->fs->openat(v->fs, v->dfd, v->m.files[file_no].name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
                       0);
    if (fd == -ENOENT) /* its index was readable before, so the file has vanished */
        return crn_fail(ei, CAIRN_EDAMAGED, ENOENT, "open '%s'", v->files[file_no].what);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", v->files[file_no].what);
    *ret_fd = fd;
    return CAIRN_OK;
}

static cairn_err version_load(struct crn_version *v, uint32_t file_no, struct crn_errinfo *ei)
{
    const struct crn_manifest_file *f = &v->m.files[file_no];
    struct crn_version_file *s = &v->files[file_no];
    struct crn_base_chain *chain = NULL;
    struct crn_trailer t;
    struct crn_index x = {0};
    uint64_t bytes;
    cairn_err rc;
    int fd;

    rc = crn_version_dir(v, ei);
    if (rc != CAIRN_OK)
        return rc;
    await_file(v, file_no);
    rc = crn_data_open(v->fs, v->dfd, f->name, s->what, &fd, &bytes, &t, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (bytes != f->bytes || !same_trailer(&t, &f->trailer))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: not the file that the manifest names", s->what);
    if (rc == CAIRN_OK)
        rc = crn_data_index(v->fs, fd, &t, s->what, &x, ei);
    (void)v->fs->close(v->fs, fd);
    if (rc == CAIRN_OK)
        rc = check_index(v, file_no, &x, s->what, ei);
    if (rc == CAIRN_OK)
        rc = crn_base_chain_load(v->fs, v->dfd, &x, s->what, &chain, ei);
    if (rc != CAIRN_OK) {
        crn_index_free(&x);
        return rc;
    }
    set_index(s, &x, chain);
    return CAIRN_OK;
}

cairn_err crn_version_load(struct crn_version *v, uint32_t file_no, struct crn_errinfo *ei)
{
    struct crn_version_file *s = &v->files[file_no];
    cairn_err rc;

    if (s->is_loaded)
        return CAIRN_OK;
    if (s->is_told) {
        crn_err_keep(ei, &s->failure);
        return s->failure.code;
    }
    crn_err_clear(&s->failure);
    rc = version_load(v, file_no, &s->failure);
    if (rc == CAIRN_ENOENT) /* the manifest exists, so a missing file is damage */
        s->failure.code = rc = CAIRN_EDAMAGED;
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &s->failure);
    return rc;
}

cairn_err crn_version_load_all(struct crn_version *v, struct crn_errinfo *ei)
{
    cairn_err first = CAIRN_OK;
    cairn_err rc;
    uint32_t i;

    for (i = 0; i < v->m.nfiles; i++) {
        rc = crn_version_load(v, i, ei);
        if (first == CAIRN_OK)
            first = rc;
    }
    return first;
}

cairn_err crn_version_index(struct crn_version *v, uint32_t file_no, const struct crn_index **ret,
                            struct crn_errinfo *ei)
{
    cairn_err rc;

    if (file_no >= v->m.nfiles)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s@%lld has %u data files, not number %u", v->m.name,
                        (long long)v->m.version, (unsigned)v->m.nfiles, (unsigned)file_no);
    rc = crn_version_load(v, file_no, ei);
    if (rc == CAIRN_OK)
        *ret = &v->files[file_no].index;
    return rc;
}

cairn_err crn_version_add_copy(struct crn_version *v, int dfd, const char *file,
                               struct crn_errinfo *ei)
{
    struct crn_version_file s = {.fd = -1};
    struct crn_version_file *grown;
    struct crn_trailer t;
    uint64_t bytes;
    cairn_err rc;

    rc = crn_data_open(v->fs, dfd, file, file, &s.fd, &bytes, &t, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_data_index(v->fs, s.fd, &t, file, &s.index, ei);
    if (rc == CAIRN_OK) {
        s.is_loaded = 1;
        if (!same_capture(&v->m, &s.index) || s.index.nbases > 0) /* copies never have bases */
            rc = crn_fail(ei, CAIRN_EMISMATCH, 0, "'%s' is not a copy of %s@%lld", file, v->m.name,
                          (long long)v->m.version);
    }
    if (rc == CAIRN_OK) {
        s.what = strdup(file);
        grown = realloc(v->copies, (v->ncopies + 1) * sizeof(*v->copies));
        if (grown != NULL)
            v->copies = grown;
        if (s.what == NULL || grown == NULL)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "add the copy '%s'", file);
    }
    if (rc != CAIRN_OK) {
        source_fini(v->fs, &s);
        return rc;
    }
    v->copies[v->ncopies++] = s;
    v->chunk_of = NULL;
    return CAIRN_OK;
}

int64_t crn_version_source_shard(const struct crn_version_file *s, uint32_t rank)
{
    uint32_t lo = 0;
    uint32_t hi = s->is_loaded ? s->index.nshards : 0;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (s->index.shards[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (s->is_loaded && lo < s->index.nshards && s->index.shards[lo].rank == rank)
        return lo;
    return -1;
}

cairn_err crn_version_shard(struct crn_version *v, uint32_t rank, const struct crn_shard **ret,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo info = {0};
    struct crn_version_file *file;
    cairn_err rc;
    int64_t at;
    uint32_t i;

    if (rank >= v->m.ranks)
        return crn_fail(ei, CAIRN_EMISMATCH, 0,
                        "%s@%lld was taken by %u ranks: there is no rank %u", v->m.name,
                        (long long)v->m.version, (unsigned)v->m.ranks, (unsigned)rank);
    file = &v->files[v->file_of_rank[rank]];
    rc = crn_version_load(v, v->file_of_rank[rank], &info);
    if (rc == CAIRN_OK) {
        at = crn_version_source_shard(file, rank); /* exists: see check_index */
        *ret = &file->index.shards[at];
        return CAIRN_OK;
    }
    for (i = 0; i < v->ncopies; i++) {
        at = crn_version_source_shard(&v->copies[i], rank);
        if (at >= 0) {
            crn_err_keep(&v->repaired, &info);
            *ret = &v->copies[i].index.shards[at];
            return CAIRN_OK;
        }
    }
    crn_err_keep(ei, &info);
    return rc;
}
