/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of VELOC: one file for each rank and version. Memory: the number of regions, for each
 * its id and size, then their bytes; numbers as the machine has them. Or a file that the program
 * wrote. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/import.h"

#define MAX_REGIONS (1 << 20)

struct veloc_head {
    uint64_t n;
    int32_t *id;
    uint64_t *bytes;
};

static void head_free(struct veloc_head *h)
{
    free(h->id);
    free(h->bytes);
}

/* Reads the table of regions. *ret_is_memory: the file is as long as the table says. */
static cairn_err veloc_head(const struct cli_ingest *g, int fd, const struct cli_file *f,
                            struct veloc_head *h, int *ret_is_memory, struct crn_errinfo *ei)
{
    uint64_t size = (uint64_t)f->st.st_size;
    uint64_t want = sizeof(h->n);
    unsigned char row[12];
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    *ret_is_memory = 0;
    if (size < want)
        return CAIRN_OK;
    rc = crn_fs_read_all(g->fs, fd, (unsigned char *)&h->n, sizeof(h->n), 0, f->path, ei);
    if (rc != CAIRN_OK || h->n == 0 || h->n > MAX_REGIONS || h->n > (size - want) / sizeof(row))
        return rc;
    h->id = calloc(h->n, sizeof(*h->id));
    h->bytes = calloc(h->n, sizeof(*h->bytes));
    if (h->id == NULL || h->bytes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%" PRIu64 " regions of '%s'", h->n, f->path);
    for (i = 0; rc == CAIRN_OK && i < h->n; i++, want += sizeof(row)) {
        rc = crn_fs_read_all(g->fs, fd, row, sizeof(row), want, f->path, ei);
        memcpy(&h->id[i], row, 4);
        memcpy(&h->bytes[i], row + 4, 8);
    }
    for (i = 0; rc == CAIRN_OK && i < h->n; i++)
        if (__builtin_add_overflow(want, h->bytes[i], &want) || want > size)
            return CAIRN_OK;
    *ret_is_memory = rc == CAIRN_OK && want == size;
    return rc;
}

static cairn_err veloc_memory(const struct cli_file *f, const struct veloc_head *h,
                              struct crn_source *s, int fd, struct crn_errinfo *ei)
{
    uint64_t offset = sizeof(h->n) + 12 * h->n;
    cairn_err rc = crn_import_shard(s, h->n, ei);
    uint64_t i;

    s->image_fd = fd;
    for (i = 0; rc == CAIRN_OK && i < h->n; i++) {
        struct crn_region *r = &s->shard.regions[i];

        (void)snprintf(r->name, sizeof(r->name), "%" PRId32, h->id[i]);
        if (i > 0 && h->id[i] <= h->id[i - 1]) /* VELOC writes them in this order */
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s': region %s is not in its place", f->path,
                            r->name);
        r->kind = CRN_REGION_MEMORY;
        r->type = CAIRN_BYTES;
        r->ndims = 1;
        r->dims[0] = h->bytes[i];
        ((uint64_t *)s->at)[i] = offset;
        offset += h->bytes[i];
        rc = crn_region_check(r, ei);
    }
    return rc;
}

static cairn_err veloc_file(const struct cli_file *f, struct crn_source *s, int fd,
                            struct crn_errinfo *ei)
{
    cairn_err rc = crn_import_shard(s, 1, ei);
    struct crn_region *r = s->shard.regions;

    if (rc != CAIRN_OK) {
        s->image_fd = fd; /* closed with it */
        return rc;
    }
    ((int *)s->region_fd)[0] = fd;
    (void)snprintf(r->name, sizeof(r->name), "routed.dat"); /* compat/veloc: CRN_VLC_FILE */
    r->kind = CRN_REGION_FILE;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = (uint64_t)f->st.st_size;
    return crn_region_check(r, ei);
}

static cairn_err veloc_rank(const struct cli_ingest *g, struct cli_file *f, size_t n,
                            struct crn_source *s, struct crn_errinfo *ei)
{
    struct veloc_head h = {0};
    int is_memory = 0;
    cairn_err rc;
    int fd;

    if (n != 1)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a rank has %zu files", n);
    rc = crn_import_open(g, f, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = veloc_head(g, fd, f, &h, &is_memory, ei);
    if (rc != CAIRN_OK)
        s->image_fd = fd; /* closed with it */
    else
        rc = is_memory ? veloc_memory(f, &h, s, fd, ei) : veloc_file(f, s, fd, ei);
    head_free(&h);
    return rc;
}

cairn_err crn_import_veloc(struct cli_import *im, struct crn_errinfo *ei)
{
    struct cli_patterns patterns = {0};
    char pattern[CAIRN_MAX_NAME + 32];
    struct crn_names files = {0};
    struct cli_sets sets = {0};
    char why[CRN_ERR_TEXT];
    struct cli_ingest g;
    cairn_err rc;
    size_t i;

    (void)snprintf(pattern, sizeof(pattern), "%s-{rank}-{step}.dat", im->name);
    rc = crn_sets_add_pattern(&patterns, pattern, ei);
    if (rc == CAIRN_OK)
        rc = crn_import_list(im->from, &files, ei);
    if (rc == CAIRN_OK)
        rc = crn_sets_sort(&patterns, files.name, files.n, im->ranks, &sets, ei);
    if (rc == CAIRN_OK && sets.n == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "'%s' has no files %s", im->from, pattern);
    if (rc == CAIRN_OK)
        rc = crn_ingest_open(&im->cli->cfg, im->name, NULL, &g, ei);
    if (rc == CAIRN_OK) {
        g.open_rank = veloc_rank;
        for (i = 0; i < sets.n; i++)
            if (crn_set_is_complete(&sets.set[i], &patterns, why, sizeof(why)))
                crn_import_set(im, &g, &sets.set[i]);
            else
                crn_import_skip(im, im->name, sets.set[i].step, why);
        crn_ingest_close(&g);
    }
    crn_sets_free(&sets);
    crn_names_free(&files);
    return rc;
}
