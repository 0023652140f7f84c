/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a set as sources of the flush engine: all are open at once, none is being
 * written, and none changes until it has been read. */
#include "cli/ingest_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "encode/parts.h"

/* Does a process of this host have the file open for writing? Leases cannot tell for other
 * hosts, some file systems and files of other users; the final check for changes covers those. */
static int is_being_written(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}

static cairn_err open_file(const struct cli_ingest *g, struct cli_file *f, struct crn_region *r,
                           int *ret_fd, struct crn_errinfo *ei)
{
    int fd =
        g->fs->openat(g->fs, AT_FDCWD, f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    cairn_err rc = crn_fs_check(fd, ei, "open '%s'", f->path);

    if (rc != CAIRN_OK)
        return rc;
    *ret_fd = fd;
    rc = crn_fs_check(g->fs->fstat(g->fs, fd, &f->st), ei, "look at '%s'", f->path);
    if (rc != CAIRN_OK)
        return rc;
    if (!S_ISREG(f->st.st_mode))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a regular file", f->path);
    if (is_being_written(fd))
        return crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is open for writing: wait until it is finished",
                        f->path);
    if (strlen(f->name) >= sizeof(r->name))
        return crn_fail(ei, CAIRN_EINVAL, 0, "the name of '%s' is longer than %zu bytes", f->path,
                        sizeof(r->name) - 1);
    memcpy(r->name, f->name, strlen(f->name) + 1);
    r->kind = CRN_REGION_FILE;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = (uint64_t)f->st.st_size;
    return crn_region_check(r, ei);
}

static uint64_t mtime_ns(const struct cli_file *f)
{
    return (uint64_t)f->st.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)f->st.st_mtim.tv_nsec;
}

/* The text of the region that describes n files. */
static cairn_err ingest_load_describe(const struct cli_file *f, size_t n, char **ret,
                                      size_t *ret_bytes, struct crn_errinfo *ei)
{
    FILE *out = open_memstream(ret, ret_bytes);
    size_t i;

    for (i = 0; out != NULL && i < n; i++)
        (void)fprintf(out, "%04o %lld %lld.%09ld %s\n", (unsigned)f[i].st.st_mode & 07777U,
                      (long long)f[i].st.st_size, (long long)f[i].st.st_mtim.tv_sec,
                      f[i].st.st_mtim.tv_nsec, f[i].name);
    if (out == NULL || fclose(out) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the description of %zu files", n);
    return CAIRN_OK;
}

cairn_err crn_load_variables(const struct cli_ingest *g, struct crn_source *sources, uint32_t n,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t r;

    for (r = 0; rc == CAIRN_OK && r < n; r++) {
        struct crn_parts *parts = NULL;

        rc = crn_parts_open(g->fs, &sources[r].shard, sources[r].region_fd, g->hdf5, &parts, ei);
        sources[r].parts = parts;
    }
    return rc;
}

/* The shard of a rank: its n files, then their description. */
cairn_err crn_load_open_rank(const struct cli_ingest *g, struct cli_file *f, size_t n,
                             struct crn_source *s, struct crn_errinfo *ei)
{
    struct crn_region *regions = calloc(n + 1, sizeof(*regions));
    uint64_t *at = calloc(n + 1, sizeof(*at));
    int *fds = malloc((n + 1) * sizeof(*fds));
    cairn_err rc = CAIRN_OK;
    char *text = NULL;
    size_t bytes = 0;
    size_t i;

    for (i = 0; fds != NULL && i <= n; i++)
        fds[i] = -1;
    s->shard.regions = regions;
    s->at = at;
    s->region_fd = fds;
    s->image_fd = -1;
    if (regions == NULL || at == NULL || fds == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a shard of %zu files", n);
    s->shard.nregions = (uint32_t)n + 1;
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = open_file(g, &f[i], &regions[i], &fds[i], ei);
    if (rc == CAIRN_OK)
        rc = ingest_load_describe(f, n, &text, &bytes, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->memory = (const unsigned char *)text;
    memcpy(regions[n].name, CLI_FILES_REGION, sizeof(CLI_FILES_REGION));
    regions[n].type = CAIRN_BYTES;
    regions[n].ndims = 1;
    regions[n].dims[0] = bytes;
    return crn_region_check(&regions[n], ei);
}

void crn_load_close_rank(const struct cli_ingest *g, struct crn_source *s)
{
    uint32_t k;

    for (k = 0; s->region_fd != NULL && k < s->shard.nregions; k++)
        if (s->region_fd[k] >= 0)
            (void)g->fs->close(g->fs, s->region_fd[k]);
    if (s->image_fd >= 0)
        (void)g->fs->close(g->fs, s->image_fd);
    crn_parts_close((struct crn_parts *)s->parts);
    free((int *)s->region_fd);
    free((uint64_t *)s->at);
    free((unsigned char *)s->memory);
    crn_shard_free(&s->shard);
}

void crn_load_close(const struct cli_ingest *g, struct cli_load *l)
{
    uint32_t i;

    for (i = 0; l->sources != NULL && i < l->ranks; i++)
        crn_load_close_rank(g, &l->sources[i]);
    free(l->sources);
}

cairn_err crn_load_open(const struct cli_ingest *g, struct cli_set *set, struct cli_load *l,
                        struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t at = 0, n, i;
    uint32_t r;

    l->sources = calloc(set->ranks, sizeof(*l->sources));
    if (l->sources == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a set of %" PRIu32 " ranks", set->ranks);
    l->ranks = set->ranks;
    for (r = 0; r < set->ranks; r++)
        l->sources[r].image_fd = -1;
    for (r = 0; rc == CAIRN_OK && r < set->ranks; r++, at += n) {
        for (n = 0; at + n < set->n && set->file[at + n].rank == r;)
            n++;
        l->sources[r].shard.rank = r;
        rc = (g->open_rank != NULL ? g->open_rank : crn_load_open_rank)(g, set->file + at, n,
                                                                        &l->sources[r], ei);
        for (i = 0; rc == CAIRN_OK && i < l->sources[r].shard.nregions; i++)
            l->bytes += l->sources[r].shard.regions[i].bytes;
    }
    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        if (mtime_ns(&set->file[i]) > l->newest_ns)
            l->newest_ns = mtime_ns(&set->file[i]);
    return rc;
}

static int is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int crn_load_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           is_same_time(&a->st_mtim, &b->st_mtim) && is_same_time(&a->st_ctim, &b->st_ctim);
}

cairn_err crn_load_check_file(const struct cli_ingest *g, const struct cli_file *f,
                              struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc =
        crn_fs_check(g->fs->fstatat(g->fs, AT_FDCWD, f->path, &st), ei, "'%s' is gone", f->path);

    if (rc == CAIRN_OK && !crn_load_is_same(&st, &f->st))
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' has changed since it was read", f->path);
    return rc;
}

cairn_err crn_load_check(const struct cli_ingest *g, const struct cli_set *set,
                         const struct cli_load *l, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;
    uint32_t r, k;

    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        rc = crn_load_check_file(g, &set->file[i], ei);
    for (r = 0; rc == CAIRN_OK && r < l->ranks; r++)
        for (k = 0; rc == CAIRN_OK && k + 1 < l->sources[r].shard.nregions; k++)
            if (is_being_written(l->sources[r].region_fd[k]))
                rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' was opened for writing while it was read",
                              l->sources[r].shard.regions[k].name);
    for (r = 0; rc == CAIRN_OK && r < l->ranks; r++)
        if (is_being_written(l->sources[r].image_fd))
            rc = crn_fail(ei, CAIRN_EBUSY, 0,
                          "the file of rank %" PRIu32 " was opened for writing while it was read",
                          r);
    return rc;
}
