/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares what the store has under the number of a set with the files of the set. */
#include "cli/ingest_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COMPARE_BYTES ((size_t)1 << 20)

/* Are the stored bytes of a file, a region of the version, equal to those of the open file of s? */
static cairn_err compare_file(const struct cli_ingest *g, struct crn_version *v, uint32_t region,
                              const struct crn_source *s, uint32_t of_source, int *ret_is_same,
                              struct crn_errinfo *ei)
{
    const struct crn_region *r = &s->shard.regions[of_source];
    unsigned char *a = malloc(2 * COMPARE_BYTES);
    cairn_err rc = CAIRN_OK;
    uint64_t at;
    size_t n;

    if (a == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a comparison of '%s'", r->name);
    for (at = 0; rc == CAIRN_OK && *ret_is_same && at < r->bytes; at += n) {
        n = r->bytes - at < COMPARE_BYTES ? (size_t)(r->bytes - at) : COMPARE_BYTES;
        rc = crn_version_read(v, s->shard.rank, region, at, n, a, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_read_all(g->fs, s->region_fd[of_source], a + COMPARE_BYTES, n, at, r->name,
                                 ei);
        if (rc == CAIRN_OK)
            *ret_is_same = memcmp(a, a + COMPARE_BYTES, n) == 0;
    }
    free(a);
    return rc;
}

/* Compares the shard of a rank: its description, and the bytes if requested. */
static cairn_err compare_rank(const struct cli_ingest *g, struct crn_version *v,
                              const struct crn_source *s, int bytes_too, enum cli_there *ret,
                              struct crn_errinfo *ei)
{
    uint32_t last = s->shard.nregions - 1; /* the description */
    uint64_t bytes = s->shard.regions[last].bytes;
    const struct crn_shard *old;
    unsigned char *text;
    cairn_err rc;
    int64_t at;
    int is_same;
    uint32_t i;

    rc = crn_version_shard(v, s->shard.rank, &old, ei);
    if (rc != CAIRN_OK)
        return rc;
    at = crn_shard_find(old, CRN_REGION_MEMORY, CLI_FILES_REGION);
    *ret = at < 0 ? THERE_FOREIGN : THERE_OTHER;
    if (at < 0 || old->nregions != s->shard.nregions || at != last ||
        old->regions[at].bytes != bytes)
        return CAIRN_OK;
    text = malloc(bytes + 1);
    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a description of %" PRIu64 " bytes", bytes);
    rc = crn_version_read(v, s->shard.rank, last, 0, bytes, text, ei);
    is_same = rc == CAIRN_OK && memcmp(text, s->memory, bytes) == 0;
    free(text);
    for (i = 0; rc == CAIRN_OK && is_same && bytes_too && i < last; i++)
        rc = compare_file(g, v, i, s, i, &is_same, ei);
    *ret = is_same ? THERE_SAME : THERE_OTHER;
    return rc;
}

/* What the store has under this number. An unreadable version counts as none. */
enum cli_there crn_ingest_look(const struct cli_ingest *g, int64_t version,
                               const struct cli_load *l, int bytes_too)
{
    struct crn_version *v;
    enum cli_there there = THERE_SAME;
    cairn_err rc = CAIRN_OK;
    uint32_t r;

    if (crn_version_open(&g->store, g->name, version, &v, NULL) != CAIRN_OK)
        return THERE_NOT;
    if (crn_version_manifest(v)->ranks != l->ranks) {
        const struct crn_shard *first;

        rc = crn_version_shard(v, 0, &first, NULL);
        there = rc == CAIRN_OK && crn_shard_find(first, CRN_REGION_MEMORY, CLI_FILES_REGION) < 0
                    ? THERE_FOREIGN
                    : THERE_OTHER;
    }
    for (r = 0; rc == CAIRN_OK && there == THERE_SAME && r < l->ranks; r++)
        rc = compare_rank(g, v, &l->sources[r], bytes_too, &there, NULL);
    crn_version_close(v);
    return rc == CAIRN_OK ? there : THERE_NOT;
}

cairn_err crn_ingest_holds(const struct cli_ingest *g, struct crn_version *v, struct cli_file *f,
                           int *ret, struct crn_errinfo *ei)
{
    struct crn_source s = {.image_fd = -1};
    const struct crn_shard *old;
    cairn_err rc;
    int64_t at;

    *ret = 0;
    if (f->rank >= crn_version_manifest(v)->ranks)
        return CAIRN_OK;
    rc = crn_version_shard(v, f->rank, &old, ei);
    at = rc == CAIRN_OK ? crn_shard_find(old, CRN_REGION_FILE, f->name) : -1;
    if (at < 0)
        return rc;
    s.shard.rank = f->rank;
    rc = crn_load_open_rank(g, f, 1, &s, ei);
    if (rc == CAIRN_OK && s.shard.regions[0].bytes == old->regions[at].bytes) {
        *ret = 1;
        rc = compare_file(g, v, (uint32_t)at, &s, 0, ret, ei);
    }
    crn_load_close_rank(g, &s);
    return rc;
}
