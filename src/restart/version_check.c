/* SPDX-License-Identifier: BSD-3-Clause */
/* Verification: reads every chunk of a file or of a rank's shard and compares it with its checksum.
 * Continues after a bad chunk, so that the caller learns of all of them. */
#include "restart/version_impl.h"

#include <stdlib.h>

static void check_tell(const struct crn_check_events *ev, uint32_t rank, const char *region,
                       const char *text)
{
    if (ev != NULL && ev->bad != NULL)
        ev->bad(ev->arg, rank, region, text);
}

/* Reports a file whose index cannot be read: all its ranks are lost. */
static cairn_err file_lost(const struct crn_version *v, uint32_t file_no,
                           const struct crn_check_events *ev, struct crn_errinfo *ei)
{
    const struct crn_manifest_file *f = &v->m.files[file_no];
    const struct crn_errinfo *failure = &v->files[file_no].failure;
    uint32_t i, k;

    for (i = 0; i < f->nranges; i++)
        for (k = 0; k < f->ranges[i].count; k++)
            check_tell(ev, f->ranges[i].first + k, "", failure->msg);
    crn_err_keep(ei, failure);
    return failure->code;
}

/* What the check of a file has found so far. */
struct check_finding {
    const struct crn_index *x;
    const struct crn_check_events *ev;
    uint64_t checked;
};

static void check_found_bad(void *arg, const struct crn_extent *e, uint64_t chunk,
                            const struct crn_errinfo *why)
{
    struct check_finding *f = arg;
    const struct crn_shard *shard = &f->x->shards[e->shard];

    if (why != NULL)
        check_tell(f->ev, shard->rank, shard->regions[e->region].name, why->msg);
    f->checked += crn_data_chunk_bytes(f->x, e, chunk);
    if (f->ev != NULL && f->ev->progress != NULL)
        f->ev->progress(f->ev->arg, f->checked);
}

cairn_err crn_version_check_file(struct crn_version *v, uint32_t file_no,
                                 const struct crn_check_events *ev, struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_errinfo bad = {0};
    struct check_finding f = {.ev = ev};
    struct crn_data_file data;
    struct crn_version_file *s;
    cairn_err rc;
    int fd;

    if (file_no >= v->m.nfiles)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%s@%lld has no data file %u", v->m.name,
                        (long long)v->m.version, (unsigned)file_no);
    s = &v->files[file_no];
    /* After load_all each file has an index or a failure, so nothing below changes the version. */
    if (!s->is_loaded &&
        (s->failure.code != CAIRN_OK || crn_version_load(v, file_no, &ignored) != CAIRN_OK))
        return file_lost(v, file_no, ev, ei);
    /* The descriptor and the decoder are private to this call: any number of threads may run it. */
    rc = crn_version_open_file(v, file_no, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    f.x = &s->index;
    data = crn_version_source_data(v, s, fd);
    if (crn_data_verify(&data, check_found_bad, &f, &bad) != CAIRN_OK) {
        if (!crn_err_is_shortage(bad.code))
            bad.code = CAIRN_EDAMAGED;
        crn_err_keep(ei, &bad);
    }
    (void)v->fs->close(v->fs, fd);
    return bad.code;
}

cairn_err crn_version_check_rank(struct crn_version *v, uint32_t rank,
                                 const struct crn_check_events *ev, struct crn_errinfo *ei)
{
    const struct crn_shard *shard;
    cairn_err result = CAIRN_OK;
    uint64_t checked = 0;
    cairn_err rc;
    uint32_t r;

    rc = crn_version_shard(v, rank, &shard, ei);
    if (rc == CAIRN_EDAMAGED)
        check_tell(ev, rank, "", ei != NULL ? ei->msg : "the index is damaged");
    if (rc != CAIRN_OK)
        return rc;
    for (r = 0; r < shard->nregions; r++) {
        struct crn_want w = {.rank = rank, .region = r, .ev = ev, .checked = checked};
        struct crn_errinfo info = {0};

        w.end = shard->regions[r].bytes;
        if (w.end == 0)
            continue;
        rc = crn_version_fetch(v, &w, &info);
        checked = w.checked;
        if (rc == CAIRN_OK)
            continue;
        check_tell(ev, rank, shard->regions[r].name, info.msg);
        crn_err_keep(ei, &info);
        if (result == CAIRN_OK)
            result = rc;
    }
    return result;
}
