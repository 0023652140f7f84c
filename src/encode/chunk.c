/* SPDX-License-Identifier: BSD-3-Clause */
/* The head of a chunk:
 *
 *     u8 version         1
 *     u8 type            cairn_type of the elements
 *     u8 n, n * (u8 id, u8 argument)      the stages
 *     varint bytes       decoded
 *     varint size        after each stage that is a codec, but for the last stage
 *     varint nruns       only if a stage looks at them
 *     nruns times        varint elements << 1 | same strides; otherwise three varint strides
 *
 * then what the last stage gave. Raw chunks have no head. */
#include "encode/chunk.h"

#include <string.h>
#include "encode/varint.h"
#include "encode/work.h"

#define VERSION   1
#define HEAD_MAX  (3 + 2 * CRN_PIPE_STAGES + CRN_VARINT_MAX * (2 + CRN_PIPE_STAGES))
#define RUN_BYTES (4 * CRN_VARINT_MAX)

static size_t put_runs(const struct crn_data *data, unsigned char *dst)
{
    static const struct crn_run none;
    const struct crn_run *before = &none;
    size_t at = crn_varint_put(dst, data->nruns);
    uint32_t i;
    int k;

    for (i = 0; i < data->nruns; i++) {
        const struct crn_run *r = &data->runs[i];
        int same = memcmp(r->stride, before->stride, sizeof(r->stride)) == 0;

        at += crn_varint_put(dst + at, r->elements << 1 | (uint64_t)same);
        for (k = 0; !same && k < CRN_STRIDES; k++)
            at += crn_varint_put(dst + at, r->stride[k]);
        before = r;
    }
    return at;
}

static size_t put_head(const struct crn_pipe *p, const struct crn_data *data, size_t n,
                       const size_t sizes[CRN_PIPE_STAGES], unsigned char *dst)
{
    size_t at = 0;
    unsigned i;

    dst[at++] = VERSION;
    dst[at++] = (unsigned char)data->type;
    at += crn_pipe_put(p, dst + at);
    at += crn_varint_put(dst + at, n);
    for (i = 0; i + 1 < p->n; i++)
        if (crn_codec_by_id(p->stage[i].id)->kind == CRN_STAGE_CODEC)
            at += crn_varint_put(dst + at, sizes[i]);
    if (crn_pipe_needs_runs(p))
        at += put_runs(data, dst + at);
    return at;
}

/* The fallback when a pipeline cannot represent the bytes; none of its stages can fail. */
static struct crn_pipe simple_pipe(const struct crn_data *data)
{
    struct crn_pipe p = {.n = 2};

    if (!crn_word_of(data->type).is_float)
        return (struct crn_pipe){0};
    p.stage[0].id = crn_filter_lorenzo.id;
    p.stage[0].arg = crn_filter_lorenzo.arg_default;
    p.stage[1].id = crn_codec_magnitude.id;
    p.stage[1].arg = crn_codec_magnitude.arg_default;
    return p;
}

static cairn_err put_chunk(struct crn_encode_work *w, const struct crn_pipe *p,
                           struct crn_data data, const void *src, size_t n, void *dst,
                           size_t *ret_n, struct crn_errinfo *ei)
{
    size_t sizes[CRN_PIPE_STAGES] = {0};
    const unsigned char *body;
    unsigned char *head;
    size_t head_n;
    size_t body_n;
    cairn_err rc;

    /* The decoder knows only what the head contains. Lossy stages store what they need
     * themselves. */
    if (data.nruns > CRN_RUNS_MAX || !(crn_pipe_needs_runs(p) || crn_pipe_is_lossy(p)))
        data.nruns = 0;
    rc = crn_work_scratch(w, CRN_SLOT_HEAD, HEAD_MAX + data.nruns * RUN_BYTES, &head, ei);
    if (rc == CAIRN_OK)
        rc = crn_pipe_encode(p, w, &data, src, n, &body, sizes, ei);
    if (rc != CAIRN_OK)
        return rc;
    body_n = sizes[p->n - 1];
    head_n = put_head(p, &data, n, sizes, head);
    if (head_n + body_n >= n)
        return CAIRN_ENOTSUP; /* not smaller; no message, since the caller falls back */
    memcpy(dst, head, head_n);
    memcpy((unsigned char *)dst + head_n, body, body_n);
    *ret_n = head_n + body_n;
    return CAIRN_OK;
}

cairn_err crn_chunk_encode(struct crn_encode_work *w, const struct crn_pipe *pipe,
                           const struct crn_data *data, const void *src, size_t n, void *dst,
                           size_t *ret_n, struct crn_pipe *ret_pipe, struct crn_errinfo *ei)
{
    struct crn_pipe tries[2] = {*pipe, simple_pipe(data)};
    /* If a lossless pipeline does not pay, the simple one would not either. */
    int ntries = crn_pipe_is_lossy(pipe) ? 2 : 1;
    struct crn_pipe used = {0};
    struct crn_errinfo info;
    cairn_err rc = CAIRN_ENOTSUP;
    int i;

    if (n > CRN_CHUNK_MAX_BYTES)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a chunk of %zu bytes is too large", n);
    for (i = 0; rc == CAIRN_ENOTSUP && n > 0 && i < ntries; i++) {
        crn_err_clear(&info);
        if (tries[i].n > 0)
            rc = put_chunk(w, &tries[i], *data, src, n, dst, ret_n, &info);
        used = tries[i];
    }
    if (rc == CAIRN_ENOTSUP) {
        if (n > 0)
            memcpy(dst, src, n);
        *ret_n = n;
        used.n = 0;
    } else if (rc != CAIRN_OK) {
        crn_err_keep(ei, &info);
        return rc;
    }
    if (ret_pipe != NULL)
        *ret_pipe = used;
    return CAIRN_OK;
}

struct chunk_head {
    struct crn_chunk_info info;
    size_t sizes[CRN_PIPE_STAGES];
};

static cairn_err get_runs(struct crn_view *v, const struct chunk_head *h, struct crn_run *runs,
                          struct crn_errinfo *ei)
{
    size_t most = h->info.bytes / cairn_type_size(h->info.type);
    uint64_t sum = 0;
    uint32_t i;
    int k;

    for (i = 0; i < h->info.nruns; i++) {
        uint64_t x = crn_varint_get(v);

        memset(&runs[i], 0, sizeof(runs[i]));
        runs[i].elements = x >> 1;
        if ((x & 1) != 0 && i > 0)
            memcpy(runs[i].stride, runs[i - 1].stride, sizeof(runs[i].stride));
        for (k = 0; (x & 1) == 0 && k < CRN_STRIDES; k++) {
            uint64_t stride = crn_varint_get(v);

            runs[i].stride[k] = stride > UINT32_MAX ? UINT32_MAX : (uint32_t)stride;
        }
        sum += runs[i].elements;
        if (v->failed || x >> 1 == 0 || x >> 1 > most || sum > most)
            return CRN_DAMAGED(ei, "the runs of a chunk are damaged");
    }
    return CAIRN_OK;
}

/* Everything up to the runs. */
static cairn_err get_head(struct crn_view *v, struct chunk_head *h, struct crn_errinfo *ei)
{
    uint8_t version = crn_view_u8(v);
    uint8_t type = crn_view_u8(v);
    uint64_t n;
    cairn_err rc;
    unsigned i;

    if (v->failed || cairn_type_size(type) == 0)
        return CRN_DAMAGED(ei, "the head of a chunk is damaged");
    if (version != VERSION)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "a chunk has the version %u", version);
    h->info.type = type;
    rc = crn_pipe_get(v, &h->info.pipe, ei);
    if (rc != CAIRN_OK)
        return rc;
    n = crn_varint_get(v);
    h->info.bytes = (size_t)n;
    for (i = 0; i + 1 < h->info.pipe.n; i++) {
        int is_codec = crn_codec_by_id(h->info.pipe.stage[i].id)->kind == CRN_STAGE_CODEC;

        h->sizes[i] = is_codec ? (size_t)crn_varint_get(v) : i > 0 ? h->sizes[i - 1] : (size_t)n;
    }
    n = crn_pipe_needs_runs(&h->info.pipe) ? crn_varint_get(v) : 0;
    h->info.nruns = (uint32_t)n;
    if (v->failed || h->info.bytes > CRN_CHUNK_MAX_BYTES || n > CRN_RUNS_MAX)
        return CRN_DAMAGED(ei, "the head of a chunk is damaged");
    return CAIRN_OK;
}

cairn_err crn_chunk_inspect(const void *src, size_t src_n, struct crn_chunk_info *ret,
                            struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(src, src_n);
    struct chunk_head h = {0};
    cairn_err rc = get_head(&v, &h, ei);

    if (rc == CAIRN_OK)
        *ret = h.info;
    return rc;
}

cairn_err crn_chunk_decode(struct crn_encode_work *w, const void *src, size_t src_n,
                           const void *previous, void *dst, size_t dst_n, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(src, src_n);
    struct chunk_head h = {0};
    struct crn_data data = {.previous = previous};
    struct crn_run *runs = NULL;
    unsigned char *room;
    cairn_err rc;

    if (src_n == dst_n) {
        if (dst_n > 0)
            memcpy(dst, src, dst_n);
        return CAIRN_OK;
    }
    rc = get_head(&v, &h, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (h.info.bytes != dst_n || dst_n <= src_n || h.info.pipe.n == 0)
        return CRN_DAMAGED(ei, "a chunk of %zu bytes holds %zu instead of %zu", src_n, h.info.bytes,
                           dst_n);
    if (h.info.nruns > 0) {
        rc = crn_work_scratch(w, CRN_SLOT_HEAD, h.info.nruns * sizeof(*runs), &room, ei);
        runs = rc == CAIRN_OK ? (struct crn_run *)(void *)room : NULL;
        rc = rc == CAIRN_OK ? get_runs(&v, &h, runs, ei) : rc;
    }
    if (rc != CAIRN_OK)
        return rc;
    data.type = h.info.type;
    data.nruns = h.info.nruns;
    data.runs = runs;
    h.sizes[h.info.pipe.n - 1] = crn_view_left(&v);
    return crn_pipe_decode(&h.info.pipe, w, &data, v.data + v.at, h.sizes, dst, dst_n, ei);
}
