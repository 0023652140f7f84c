/* SPDX-License-Identifier: BSD-3-Clause */
/* A sample preserves what compression depends on: whole rows of arrays, and the same section of
 * each rank. */
#include "cli/advise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"

#define SLAB_MIN ((uint64_t)64 << 10)
#define BLOCK    ((size_t)4 << 20)

/* A rank that may be sampled: its shard, the extents in its files, and how to read them. */
struct sampled_rank {
    struct crn_shard shard;         /* borrowed, or owned by the caller */
    struct crn_file_extents *files; /* owned; one per region */
    struct crn_parts parts;
    int *fd; /* owned; per file region, -1 otherwise */
};

static void rank_free(struct sampled_rank *r)
{
    uint32_t i;

    for (i = 0; i < r->shard.nregions; i++) {
        if (r->files != NULL)
            crn_extents_free(&r->files[i]);
        if (r->fd != NULL && r->fd[i] >= 0)
            (void)close(r->fd[i]);
    }
    free(r->files);
    free(r->fd);
    crn_parts_free(&r->parts);
}

/* rank_free accepts a rank whose initialisation failed. */
static cairn_err rank_init(struct sampled_rank *r, const struct crn_shard *shard,
                           struct crn_errinfo *ei)
{
    size_t n = shard->nregions;

    r->shard = *shard;
    r->files = calloc(n + 1, sizeof(*r->files));
    r->fd = malloc((n + 1) * sizeof(*r->fd));
    if (r->files == NULL || r->fd == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a sample");
    memset(r->fd, 0xff, (n + 1) * sizeof(*r->fd)); /* -1 */
    return CAIRN_OK;
}

void crn_advise_free(struct advise_sample *s)
{
    uint32_t i, k;

    for (i = 0; i < s->n; i++) {
        for (k = 0; s->bytes[i] != NULL && k < s->shards[i].nregions; k++)
            free(s->bytes[i][k]);
        free(s->bytes[i]);
        crn_shard_free(&s->shards[i]);
    }
    free(s->bytes);
    free(s->shards);
    memset(s, 0, sizeof(*s));
}

/* Cuts a region down to the middle rows, about share of it; returns their offset. */
static uint64_t advise_sample_slab(struct crn_region *r, double share)
{
    uint64_t bytes = r->bytes;
    uint64_t rows, row, start;
    unsigned d = 0;

    while (d + 1U < r->ndims && r->dims[d] == 1)
        d++;
    if (bytes <= SLAB_MIN || share >= 1)
        return 0;
    row = bytes / r->dims[d];
    rows = (uint64_t)(share * (double)r->dims[d]);
    if (rows * row < SLAB_MIN)
        rows = (SLAB_MIN + row - 1) / row;
    rows = rows < r->dims[d] ? rows : r->dims[d];
    start = (r->dims[d] - rows) / 2;
    r->dims[d] = rows;
    r->bytes = rows * row;
    r->is_global = 0;
    return start * row;
}

static cairn_err read_part(const struct sampled_rank *r, struct crn_version *v, uint32_t part,
                           uint64_t offset, uint64_t n, unsigned char *dst, struct crn_errinfo *ei)
{
    const struct crn_part_place *p = &r->parts.part[part];
    const struct crn_region *real = &r->shard.regions[p->region];

    if (r->fd[p->region] >= 0)
        return crn_fs_read_all(crn_fs_default(), r->fd[p->region], dst, n, p->offset + offset,
                               real->name, ei);
    return crn_version_read(v, r->shard.rank, p->region, p->offset + offset, n, dst, ei);
}

/* Adds a rank's slabs to the sample. */
static cairn_err advise_sample_take(struct advise_sample *s, const struct sampled_rank *r,
                                    struct crn_version *v, double share, struct crn_errinfo *ei)
{
    uint32_t n = r->parts.shard.nregions;
    struct crn_shard *to = &s->shards[s->n];
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    to->rank = r->shard.rank;
    to->regions = calloc((size_t)n + 1, sizeof(*to->regions));
    s->bytes[s->n] = calloc((size_t)n + 1, sizeof(**s->bytes));
    s->n++;
    if (to->regions == NULL || s->bytes[s->n - 1] == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a sample of %u variables", n);
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        struct crn_region *region = &to->regions[i];
        uint64_t at;

        *region = r->parts.shard.regions[i];
        at = advise_sample_slab(region, share);
        s->bytes[s->n - 1][i] = malloc(region->bytes + 1);
        to->nregions = i + 1;
        if (s->bytes[s->n - 1][i] == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a sample of '%s'", region->name);
        rc = read_part(r, v, i, at, region->bytes, s->bytes[s->n - 1][i], ei);
        s->sampled += region->bytes;
    }
    return rc;
}

static cairn_err take_all(struct advise_sample *s, const char *what, struct sampled_rank *ranks,
                          uint32_t n, uint64_t limit, struct crn_version *v, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i, k;

    s->shards = calloc(n + 1U, sizeof(*s->shards));
    s->bytes = calloc(n + 1U, sizeof(*s->bytes));
    if (s->shards == NULL || s->bytes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a sample of %u ranks", n);
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        rc = crn_parts_make(&ranks[i].shard, ranks[i].files, &ranks[i].parts, ei);
        for (k = 0; rc == CAIRN_OK && k < ranks[i].parts.shard.nregions; k++) {
            const struct crn_region *r = &ranks[i].parts.shard.regions[k];

            s->looked_at += r->bytes;
            s->variables += strcmp(r->name, CRN_PLAIN_KEY) != 0 ? r->bytes : 0;
        }
    }
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = advise_sample_take(s, &ranks[i], v, (double)limit / ((double)s->looked_at + 1), ei);
    if (rc == CAIRN_OK && s->sampled == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "'%s'%s: no data to try", what,
                      v == NULL && n > 1 ? " and the others" : "");
    return rc;
}

/* Files. --------------------------------------------------------------------------------------- */

static cairn_err open_file(const char *path, struct crn_region *region, int *ret_fd,
                           struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    int fd = fs->openat(fs, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    cairn_err rc = crn_fs_check(fd, ei, "open '%s'", path);
    struct stat st;

    if (rc != CAIRN_OK)
        return rc;
    *ret_fd = fd;
    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "look at '%s'", path);
    if (rc == CAIRN_OK && !S_ISREG(st.st_mode))
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a regular file", path);
    if (rc != CAIRN_OK)
        return rc;
    (void)snprintf(region->name, sizeof(region->name), "%.*s", CAIRN_MAX_NAME - 1, path);
    region->kind = CRN_REGION_FILE;
    region->type = CAIRN_BYTES;
    region->ndims = 1;
    region->dims[0] = region->bytes = (uint64_t)st.st_size;
    return CAIRN_OK;
}

/* The index of the i-th chosen rank. */
static size_t advise_sample_spread(size_t i, size_t chosen, size_t n)
{
    return i * n / chosen;
}

cairn_err crn_advise_files(char *const *path, size_t n, uint64_t limit, const char *hdf5,
                           struct advise_sample *ret, struct crn_errinfo *ei)
{
    size_t chosen = n < ADVISE_RANKS ? n : ADVISE_RANKS;
    struct crn_region regions[ADVISE_RANKS] = {0};
    struct sampled_rank ranks[ADVISE_RANKS] = {0};
    struct advise_sample s = {.ranks = n};
    cairn_err rc = CAIRN_OK;
    struct stat st;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < chosen; i++) {
        const struct crn_shard shard = {(uint32_t)i, 1, &regions[i]};

        rc = rank_init(&ranks[i], &shard, ei);
        if (rc == CAIRN_OK)
            rc = open_file(path[advise_sample_spread(i, chosen, n)], &regions[i], &ranks[i].fd[0],
                           ei);
        if (rc == CAIRN_OK)
            crn_extents_read(crn_fs_default(), ranks[i].fd[0], hdf5, &ranks[i].files[0]);
    }
    if (rc == CAIRN_OK)
        rc = take_all(&s, path[0], ranks, (uint32_t)chosen, limit, NULL, ei);
    for (i = 0; i < n; i++)
        s.all += stat(path[i], &st) == 0 ? (uint64_t)st.st_size : 0;
    for (i = 0; i < chosen; i++)
        rank_free(&ranks[i]);
    if (rc == CAIRN_OK)
        *ret = s;
    else
        crn_advise_free(&s);
    return rc;
}

/* Versions. ------------------------------------------------------------------------------------ */

/* Copies a file region to a temporary file, for the readers of its format. */
static cairn_err advise_sample_bring(struct crn_version *v, uint32_t rank, uint32_t region,
                                     uint64_t bytes, int fd, struct crn_errinfo *ei)
{
    unsigned char *block = malloc(BLOCK);
    cairn_err rc = CAIRN_OK;
    uint64_t at;
    size_t n;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copy");
    for (at = 0; rc == CAIRN_OK && at < bytes; at += n) {
        n = bytes - at < BLOCK ? (size_t)(bytes - at) : BLOCK;
        rc = crn_version_read(v, rank, region, at, n, block, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(crn_fs_default(), fd, block, n, at, "a temporary file", ei);
    }
    free(block);
    return rc;
}

static cairn_err look_inside(struct crn_version *v, struct sampled_rank *r, const char *hdf5,
                             struct crn_errinfo *ei)
{
    const char *dir = getenv("TMPDIR");
    cairn_err rc = CAIRN_OK;
    char path[CRN_PATH_MAX];
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < r->shard.nregions; i++) {
        if (r->shard.regions[i].kind != CRN_REGION_FILE)
            continue;
        (void)snprintf(path, sizeof(path), "%s/cairn-advise-XXXXXX", dir != NULL ? dir : "/tmp");
        r->fd[i] = mkostemp(path, O_CLOEXEC);
        if (r->fd[i] < 0)
            return crn_fail_errno(ei, errno, "create '%s'", path);
        rc = advise_sample_bring(v, r->shard.rank, i, r->shard.regions[i].bytes, r->fd[i], ei);
        if (rc == CAIRN_OK)
            crn_extents_read(crn_fs_default(), r->fd[i], hdf5, &r->files[i]);
        (void)unlink(path);
    }
    return rc;
}

cairn_err crn_advise_version(struct crn_version *v, uint64_t limit, const char *hdf5,
                             struct advise_sample *ret, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    uint32_t chosen = m->ranks < ADVISE_RANKS ? m->ranks : ADVISE_RANKS;
    struct advise_sample s = {.ranks = m->ranks, .all = m->data_bytes};
    struct sampled_rank ranks[ADVISE_RANKS] = {0};
    const struct crn_shard *shard;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < chosen; i++) {
        rc = crn_version_shard(v, (uint32_t)advise_sample_spread(i, chosen, m->ranks), &shard, ei);
        if (rc == CAIRN_OK)
            rc = rank_init(&ranks[i], shard, ei);
        if (rc == CAIRN_OK)
            rc = look_inside(v, &ranks[i], hdf5, ei);
    }
    if (rc == CAIRN_OK)
        rc = take_all(&s, m->name, ranks, chosen, limit, v, ei);
    for (i = 0; i < chosen; i++)
        rank_free(&ranks[i]);
    if (rc == CAIRN_OK)
        *ret = s;
    else
        crn_advise_free(&s);
    return rc;
}
