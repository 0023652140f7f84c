/* SPDX-License-Identifier: BSD-3-Clause */
/* Datasets whose files the program writes in the prefix itself (SCR_CACHE_BYPASS, SCR's default).
 * The version in Cairn's store then holds only a table of them: it is committed when all files are
 * durable, and says how to recognise them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "scr_impl.h"

#define BLOCK ((size_t)1 << 20)

/* Files of several ranks. ---------------------------------------------------------------------- */

struct claim {
    uint64_t hash; /* of the path */
    uint64_t at;   /* position in the list of all ranks: the first one owns the file */
};

static int by_hash(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Rank 0: replaces each hash by 1 (owner) or 0. */
static cairn_err direct_decide(uint64_t *hash, int n, int *ret_shared, struct crn_errinfo *ei)
{
    struct claim *c = calloc((size_t)n + 1, sizeof(*c));
    int i;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the names of %d files", n);
    for (i = 0; i < n; i++)
        c[i] = (struct claim){hash[i], (uint64_t)i};
    qsort(c, (size_t)n, sizeof(*c), by_hash);
    for (i = 0; i < n; i++) {
        int is_first = i == 0 || c[i].hash != c[i - 1].hash;

        *ret_shared |= !is_first;
        hash[c[i].at] = (uint64_t)is_first;
    }
    free(c);
    return CAIRN_OK;
}

/* Numbers and positions of the ranks' files on rank 0. */
static cairn_err count_all(const struct crn_scr *s, int n, int **ret_counts, int **ret_offsets,
                           uint64_t **ret_all, int *ret_total, struct crn_errinfo *ei)
{
    int *counts = s->rank == 0 ? calloc((size_t)s->ranks, sizeof(int)) : NULL;
    int *offsets = s->rank == 0 ? calloc((size_t)s->ranks, sizeof(int)) : NULL;
    cairn_err rc = CAIRN_OK;
    int64_t total = 0;
    int i;

    *ret_counts = counts;
    *ret_offsets = offsets;
    if (s->rank == 0 && (counts == NULL || offsets == NULL))
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the files of %d ranks", s->ranks);
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)MPI_Gather(&n, 1, MPI_INT, counts, 1, MPI_INT, 0, s->comm);
    for (i = 0; s->rank == 0 && counts != NULL && offsets != NULL && i < s->ranks; i++) {
        offsets[i] = (int)total;
        total += counts[i];
    }
    if (total > INT32_MAX)
        rc = crn_fail(ei, CAIRN_ELIMIT, 0, "a dataset of %" PRId64 " files", total);
    *ret_total = (int)total;
    *ret_all = s->rank == 0 && rc == CAIRN_OK ? calloc((size_t)total + 1, sizeof(uint64_t)) : NULL;
    if (s->rank == 0 && rc == CAIRN_OK && *ret_all == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%" PRId64 " files", total);
    return crn_face_agree(s->comm, rc, ei);
}

cairn_err crn_scr_owners(struct crn_scr *s, struct crn_scr_dataset *d, int *ret_shared,
                         struct crn_errinfo *ei)
{
    uint64_t *mine = calloc(d->n + 1, sizeof(*mine));
    uint64_t *all = NULL;
    int *counts = NULL, *offsets = NULL;
    int total = 0;
    cairn_err rc = mine == NULL ? CAIRN_ENOMEM : CAIRN_OK;
    size_t i;

    *ret_shared = 0;
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK)
        rc = count_all(s, (int)d->n, &counts, &offsets, &all, &total, ei);
    for (i = 0; rc == CAIRN_OK && mine != NULL && i < d->n; i++)
        mine[i] = XXH3_64bits(d->file[i].path, strlen(d->file[i].path));
    if (rc == CAIRN_OK && mine != NULL) {
        (void)MPI_Gatherv(mine, (int)d->n, MPI_UINT64_T, all, counts, offsets, MPI_UINT64_T, 0,
                          s->comm);
        if (s->rank == 0)
            rc = direct_decide(all, total, ret_shared, ei);
        rc = crn_face_agree(s->comm, rc, ei);
    }
    if (rc == CAIRN_OK && mine != NULL) {
        (void)MPI_Bcast(ret_shared, 1, MPI_INT, 0, s->comm);
        (void)MPI_Scatterv(all, counts, offsets, MPI_UINT64_T, mine, (int)d->n, MPI_UINT64_T, 0,
                           s->comm);
        for (i = 0; i < d->n; i++)
            d->file[i].is_owned = mine[i] == 1;
    }
    free(mine);
    free(all);
    free(counts);
    free(offsets);
    return rc;
}

/* Taking and checking. ------------------------------------------------------------------------- */

static cairn_err hash_file(int fd, const char *path, uint64_t *ret_bytes, uint64_t *ret_hash,
                           struct crn_errinfo *ei)
{
    XXH3_state_t *state = XXH3_createState();
    unsigned char *block = malloc(BLOCK);
    cairn_err rc = CAIRN_OK;
    off_t at = 0;
    ssize_t n = 0;

    if (state == NULL || block == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the checksum of '%s'", path);
    else
        (void)XXH3_64bits_reset(state);
    while (rc == CAIRN_OK && ((n = pread(fd, block, BLOCK, at)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0) {
            (void)XXH3_64bits_update(state, block, (size_t)n);
            at += n;
        }
    if (rc == CAIRN_OK && n < 0)
        rc = crn_fail_errno(ei, errno, "read '%s'", path);
    if (rc == CAIRN_OK) {
        *ret_bytes = (uint64_t)at;
        *ret_hash = XXH3_64bits_digest(state);
    }
    (void)XXH3_freeState(state);
    free(block);
    return rc;
}

static void full_path(const struct crn_scr *s, const struct crn_scr_file *f, char ret[PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/%s", s->cfg.prefix, f->path);
}

static cairn_err sync_dir(const char *path, struct crn_errinfo *ei)
{
    char dir[PATH_MAX];
    cairn_err rc = CAIRN_OK;
    int fd;

    (void)snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    fd = open(dir[0] != '\0' ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        rc = crn_fail_errno(ei, errno, "make the directory '%s' durable", dir);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static cairn_err take_file(const struct crn_scr *s, struct crn_scr_file *f, struct crn_errinfo *ei)
{
    char path[PATH_MAX];
    struct stat st;
    cairn_err rc;
    int fd;

    full_path(s, f, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return crn_fail_errno(ei, errno, "the file '%s' of dataset '%s' was not written", path,
                              s->out.name);
    if (fsync(fd) != 0 || fstat(fd, &st) != 0)
        rc = crn_fail_errno(ei, errno, "make '%s' durable", path);
    else
        rc = sync_dir(path, ei);
    if (rc == CAIRN_OK) {
        f->bytes = (uint64_t)st.st_size;
        if (f->is_owned)
            rc = hash_file(fd, path, &f->bytes, &f->hash, ei);
    }
    (void)close(fd);
    return rc;
}

cairn_err crn_scr_direct_take(const struct crn_scr *s, struct crn_scr_dataset *d,
                              struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < d->n; i++)
        rc = take_file(s, &d->file[i], ei);
    return rc;
}

static cairn_err check_file(const struct crn_scr *s, const struct crn_scr_file *f,
                            struct crn_errinfo *ei)
{
    uint64_t bytes = 0, hash = 0;
    char path[PATH_MAX];
    cairn_err rc;
    int fd;

    full_path(s, f, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return crn_fail(ei, errno == ENOENT ? CAIRN_EDAMAGED : CAIRN_EIO, errno, "open '%s'", path);
    rc = hash_file(fd, path, &bytes, &hash, ei);
    (void)close(fd);
    if (rc == CAIRN_OK && bytes != f->bytes)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' has %" PRIu64 " bytes instead of %" PRIu64,
                        path, bytes, f->bytes);
    if (rc == CAIRN_OK && hash != f->hash)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' has other bytes than were written", path);
    return rc;
}

cairn_err crn_scr_direct_check(const struct crn_scr *s, const struct crn_scr_dataset *d,
                               struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; d->is_direct && rc == CAIRN_OK && i < d->n; i++)
        if (d->file[i].is_owned)
            rc = check_file(s, &d->file[i], ei);
    return rc;
}
