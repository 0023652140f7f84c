/* SPDX-License-Identifier: BSD-3-Clause */
/* Assembles a block of a global array from the blocks that other ranks stored. The missing area is
 * a list of boxes. Each stored block fills its intersection with them, which is then cut out of the
 * list. So every element is read once even if stored blocks overlap, and the boxes left at the end
 * were stored by no rank. Ranks are visited in ascending order: where blocks overlap, the lowest
 * rank wins. */
#include "restart/version_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BOXES (1U << 20)

struct box {
    uint64_t lo[CAIRN_MAX_DIMS]; /* inclusive, in the global array */
    uint64_t hi[CAIRN_MAX_DIMS]; /* exclusive */
};

struct boxes {
    struct box *box;
    size_t n;
    size_t cap;
};

static cairn_err redistribute_add(struct boxes *list, const struct box *b, struct crn_errinfo *ei)
{
    struct box *grown;
    size_t cap;

    if (list->n == list->cap) {
        cap = list->cap > 0 ? 2 * list->cap : 16;
        grown = cap <= MAX_BOXES ? realloc(list->box, cap * sizeof(*grown)) : NULL;
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0,
                            "the stored blocks cut the array into more than "
                            "%zu pieces",
                            list->n);
        list->box = grown;
        list->cap = cap;
    }
    list->box[list->n++] = *b;
    return CAIRN_OK;
}

/* Returns 0 if they are disjoint. */
static int redistribute_intersect(const struct box *a, const struct box *b, unsigned ndims,
                                  struct box *ret)
{
    unsigned d;

    for (d = 0; d < ndims; d++) {
        ret->lo[d] = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        ret->hi[d] = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
        if (ret->lo[d] >= ret->hi[d])
            return 0;
    }
    return 1;
}

/* Adds box a minus cut, which lies inside it: at most two slabs in each dimension. */
static cairn_err add_rest(struct boxes *list, struct box a, const struct box *cut, unsigned ndims,
                          struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    unsigned d;

    for (d = 0; d < ndims && rc == CAIRN_OK; d++) {
        struct box slab = a;

        if (a.lo[d] < cut->lo[d]) {
            slab.hi[d] = cut->lo[d];
            rc = redistribute_add(list, &slab, ei);
            slab.hi[d] = a.hi[d];
        }
        if (rc == CAIRN_OK && cut->hi[d] < a.hi[d]) {
            slab.lo[d] = cut->hi[d];
            rc = redistribute_add(list, &slab, ei);
        }
        a.lo[d] = cut->lo[d];
        a.hi[d] = cut->hi[d];
    }
    return rc;
}

struct redistribute_job {
    struct crn_version *v;
    const struct crn_region *want;
    crn_slice_fn fn;
    void *arg;
    size_t element;
    struct boxes missing;
};

/* Bytes from the start of a block to the element at pos of the global array. */
static uint64_t redistribute_place(const struct crn_region *r, const uint64_t *pos, size_t element)
{
    uint64_t at = 0;
    unsigned d;

    for (d = 0; d < r->ndims; d++)
        at = at * r->dims[d] + (pos[d] - r->offset[d]);
    return at * element;
}

/* The outermost dimension from which inward the box is contiguous in both blocks. */
static unsigned run_from(const struct crn_region *a, const struct crn_region *b,
                         const struct box *part)
{
    unsigned d = a->ndims - 1U;

    while (d > 0 && part->hi[d] - part->lo[d] == a->dims[d] && a->dims[d] == b->dims[d])
        d--;
    return d;
}

/* Bytes from one element to the next one in dimension d. */
static uint64_t redistribute_stride(const struct crn_region *r, unsigned d, size_t element)
{
    uint64_t bytes = element;

    while (++d < r->ndims)
        bytes *= r->dims[d];
    return bytes;
}

/* Emits runs in the order of the stored block, so that each of its chunks is read once. */
static cairn_err tell_part(const struct redistribute_job *j, uint32_t rank, uint32_t region,
                           const struct crn_region *stored, const struct box *box,
                           struct crn_errinfo *ei)
{
    unsigned inner = run_from(stored, j->want, box);
    struct crn_slice p = {.rank = rank, .region = region, .run = j->element, .ndims = inner};
    unsigned d;

    for (d = inner; d < stored->ndims; d++)
        p.run *= box->hi[d] - box->lo[d];
    for (d = 0; d < inner; d++) {
        p.count[d] = box->hi[d] - box->lo[d];
        p.from_step[d] = redistribute_stride(stored, d, j->element);
        p.to_step[d] = redistribute_stride(j->want, d, j->element);
    }
    p.from = redistribute_place(stored, box->lo, j->element);
    p.to = redistribute_place(j->want, box->lo, j->element);
    return j->fn(j->arg, &p, ei);
}

static cairn_err fill_from(struct redistribute_job *j, uint32_t rank, uint32_t region,
                           const struct crn_region *stored, struct crn_errinfo *ei)
{
    struct boxes rest = {0};
    struct box block = {0};
    struct box part = {0};
    cairn_err rc = CAIRN_OK;
    unsigned d;
    size_t i;

    for (d = 0; d < stored->ndims; d++) {
        block.lo[d] = stored->offset[d];
        block.hi[d] = stored->offset[d] + stored->dims[d];
    }
    for (i = 0; i < j->missing.n && rc == CAIRN_OK; i++) {
        if (!redistribute_intersect(&j->missing.box[i], &block, stored->ndims, &part)) {
            rc = redistribute_add(&rest, &j->missing.box[i], ei);
            continue;
        }
        rc = tell_part(j, rank, region, stored, &part, ei);
        if (rc == CAIRN_OK)
            rc = add_rest(&rest, j->missing.box[i], &part, stored->ndims, ei);
    }
    free(j->missing.box);
    j->missing = rest;
    return rc;
}

static cairn_err check_shape(const struct crn_version *v, const struct crn_region *want,
                             const struct crn_region *stored, uint32_t rank, struct crn_errinfo *ei)
{
    const char *fault = NULL;

    if (!stored->is_global)
        fault = "it was not declared as a block of a global array and cannot be split";
    else if (stored->type != want->type)
        fault = "it has another type";
    else if (stored->ndims != want->ndims ||
             memcmp(stored->global_dims, want->global_dims,
                    want->ndims * sizeof(want->global_dims[0])) != 0)
        fault = "its global array has another shape";
    if (fault != NULL)
        return crn_fail(ei, CAIRN_EMISMATCH, 0, "region '%s' of %s@%lld, rank %u: %s", want->name,
                        v->m.name, (long long)v->m.version, (unsigned)rank, fault);
    return CAIRN_OK;
}

static cairn_err redistribute_start(struct redistribute_job *j, const struct crn_region *want,
                                    struct crn_errinfo *ei)
{
    struct crn_region checked = *want;
    struct box all = {0};
    cairn_err rc;
    unsigned d;

    rc = crn_region_check(&checked, ei);
    if (rc == CAIRN_OK && !want->is_global)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "region '%s' is not a block of a global array",
                      want->name);
    if (rc != CAIRN_OK || checked.bytes == 0)
        return rc;
    for (d = 0; d < want->ndims; d++) {
        all.lo[d] = want->offset[d];
        all.hi[d] = want->offset[d] + want->dims[d];
    }
    return redistribute_add(&j->missing, &all, ei);
}

cairn_err crn_version_plan_block(struct crn_version *v, const struct crn_region *want,
                                 crn_slice_fn fn, void *arg, struct crn_errinfo *ei)
{
    struct redistribute_job j = {.v = v, .want = want, .fn = fn, .arg = arg};
    const struct crn_shard *shard;
    int is_known = 0;
    cairn_err rc;
    uint32_t rank;
    int64_t at;

    j.element = cairn_type_size((cairn_type)want->type);
    rc = redistribute_start(&j, want, ei);
    /* Look at one stored block at least: the shape must match even if the wanted block is empty. */
    for (rank = 0; rc == CAIRN_OK && (j.missing.n > 0 || !is_known) && rank < v->m.ranks; rank++) {
        rc = crn_version_shard(v, rank, &shard, ei);
        at = rc == CAIRN_OK ? crn_shard_find(shard, CRN_REGION_MEMORY, want->name) : -1;
        if (at < 0)
            continue;
        is_known = 1;
        rc = check_shape(v, want, &shard->regions[at], rank, ei);
        if (rc == CAIRN_OK)
            rc = fill_from(&j, rank, (uint32_t)at, &shard->regions[at], ei);
    }
    if (rc == CAIRN_OK && (j.missing.n > 0 || !is_known))
        rc = crn_fail(ei, CAIRN_EMISMATCH, 0,
                      is_known ? "region '%s': no rank of %s@%lld stored all of the wanted block"
                               : "region '%s' is not in %s@%lld",
                      want->name, v->m.name, (long long)v->m.version);
    free(j.missing.box);
    return rc;
}

struct redistribute_block {
    struct crn_version *v;
    unsigned char *dst;
};

static cairn_err read_part(void *arg, const struct crn_slice *p, struct crn_errinfo *ei)
{
    struct crn_slice_at at = crn_slice_seek(p, 0, UINT64_MAX);
    const struct redistribute_block *b = arg;
    cairn_err rc = CAIRN_OK;
    struct crn_slice_run r;

    while (rc == CAIRN_OK && crn_slice_next(&at, &r))
        rc = crn_version_read(b->v, p->rank, p->region, r.from, r.bytes, b->dst + r.to, ei);
    return rc;
}

cairn_err crn_version_read_block(struct crn_version *v, const struct crn_region *want, void *dst,
                                 struct crn_errinfo *ei)
{
    struct redistribute_block b = {.v = v, .dst = dst};

    return crn_version_plan_block(v, want, read_part, &b, ei);
}
