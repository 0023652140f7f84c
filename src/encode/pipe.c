/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs stages one after another, alternating between two scratch buffers. */
#include "encode/pipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "encode/lorenzo.h"
#include "encode/work.h"

static const struct crn_codec *codec_of(const struct crn_pipe *p, unsigned i)
{
    return crn_codec_by_id(p->stage[i].id);
}

/* One stage: "name" or "name:argument". */
static cairn_err parse_stage(const char *text, size_t len, struct crn_pipe *p,
                             struct crn_errinfo *ei)
{
    const char *colon = memchr(text, ':', len);
    size_t name_n = colon != NULL ? (size_t)(colon - text) : len;
    const struct crn_codec *c = crn_codec_by_name(text, name_n);
    long arg;
    char *end;

    if (c == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "there is no encoding stage '%.*s'", (int)name_n,
                        text);
    if (p->n == CRN_PIPE_STAGES)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a pipeline has at most %d stages", CRN_PIPE_STAGES);
    arg = c->arg_default;
    if (colon != NULL) {
        arg = strtol(colon + 1, &end, 10);
        if (end != text + len || end == colon + 1 || arg < c->arg_min || arg > c->arg_max)
            return crn_fail(ei, CAIRN_EINVAL, 0,
                            "stage %s takes an argument from %u to %u, not '%.*s'", c->name,
                            c->arg_min, c->arg_max, (int)(len - name_n - 1), colon + 1);
    }
    if (c->encode == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "stage %s needs a library that this build lacks",
                        c->name);
    p->stage[p->n].id = c->id;
    p->stage[p->n++].arg = (uint8_t)arg;
    return CAIRN_OK;
}

cairn_err crn_pipe_parse(const char *text, struct crn_pipe *ret, struct crn_errinfo *ei)
{
    struct crn_pipe p = {0};

    for (;;) {
        size_t len = strcspn(text, ",");
        cairn_err rc = parse_stage(text, len, &p, ei);

        if (rc != CAIRN_OK)
            return rc;
        if (text[len] == '\0')
            break;
        text += len + 1;
    }
    *ret = p;
    return CAIRN_OK;
}

const char *crn_pipe_paper(cairn_type type, int is_small)
{
    if (is_small)
        return "gzip:6";
    switch (type) {
    case CAIRN_F64:
    case CAIRN_C128:
        return "fpc:2,gzip:6";
    case CAIRN_F32:
    case CAIRN_C64:
        return "fpzip,gzip:6";
    default:
        return "lz4,gzip:6";
    }
}

void crn_pipe_text(const struct crn_pipe *p, char ret[CRN_PIPE_TEXT])
{
    size_t at = 0;
    unsigned i;

    (void)snprintf(ret, CRN_PIPE_TEXT, "raw");
    for (i = 0; i < p->n && at < CRN_PIPE_TEXT; i++) {
        const struct crn_codec *c = codec_of(p, i);
        int n = snprintf(ret + at, CRN_PIPE_TEXT - at, "%s%s", i > 0 ? "," : "",
                         c != NULL ? c->name : "?");

        at += n > 0 ? (size_t)n : 0;
        if (c != NULL && p->stage[i].arg != c->arg_default && at < CRN_PIPE_TEXT) {
            n = snprintf(ret + at, CRN_PIPE_TEXT - at, ":%u", p->stage[i].arg);
            at += n > 0 ? (size_t)n : 0;
        }
    }
}

int crn_pipe_equal(const struct crn_pipe *a, const struct crn_pipe *b)
{
    return a->n == b->n && memcmp(a->stage, b->stage, a->n * sizeof(a->stage[0])) == 0;
}

int crn_pipe_is_lossy(const struct crn_pipe *p)
{
    unsigned i;

    for (i = 0; i < p->n; i++)
        if (codec_of(p, i)->is_lossy)
            return 1;
    return 0;
}

static int stage_needs_previous(const struct crn_codec *c, uint8_t arg)
{
    if (c == &crn_filter_lorenzo)
        return (arg & CRN_LORENZO_PREVIOUS) != 0;
    return (c == &crn_filter_delta || c == &crn_filter_xor) && arg == 1;
}

int crn_pipe_needs_previous(const struct crn_pipe *p)
{
    unsigned i;

    for (i = 0; i < p->n; i++)
        if (stage_needs_previous(codec_of(p, i), p->stage[i].arg))
            return 1;
    return 0;
}

void crn_pipe_forget_previous(struct crn_pipe *p)
{
    unsigned i;

    for (i = 0; i < p->n; i++) {
        const struct crn_codec *c = codec_of(p, i);
        uint8_t *arg = &p->stage[i].arg;

        if (c == &crn_filter_delta || c == &crn_filter_xor)
            *arg = 0;
        else if (c == &crn_filter_lorenzo && *arg == CRN_LORENZO_PREVIOUS)
            *arg = CRN_LORENZO_ROW;
        else if (c == &crn_filter_lorenzo)
            *arg &= (uint8_t)~CRN_LORENZO_PREVIOUS;
    }
}

int crn_pipe_needs_runs(const struct crn_pipe *p)
{
    unsigned i;

    for (i = 0; i < p->n; i++)
        if (codec_of(p, i) == &crn_filter_lorenzo &&
            (p->stage[i].arg & (CRN_LORENZO_COLUMN | CRN_LORENZO_PLANE)) != 0)
            return 1;
    return 0;
}

int crn_pipe_fits(const struct crn_pipe *p, const struct crn_data *data)
{
    unsigned i;

    for (i = 0; i < p->n; i++) {
        const struct crn_codec *c = codec_of(p, i);

        if (c->encode == NULL || (c->fits != NULL && !c->fits(data)))
            return 0;
    }
    return data->previous != NULL || !crn_pipe_needs_previous(p);
}

size_t crn_pipe_put(const struct crn_pipe *p, unsigned char *dst)
{
    size_t at = 0;
    unsigned i;

    dst[at++] = p->n;
    for (i = 0; i < p->n; i++) {
        dst[at++] = p->stage[i].id;
        dst[at++] = p->stage[i].arg;
    }
    return at;
}

cairn_err crn_pipe_get(struct crn_view *v, struct crn_pipe *ret, struct crn_errinfo *ei)
{
    struct crn_pipe p = {.n = crn_view_u8(v)};
    unsigned i;

    if (p.n > CRN_PIPE_STAGES)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "a chunk has %u encoding stages", p.n);
    for (i = 0; i < p.n; i++) {
        const struct crn_codec *c;

        p.stage[i].id = crn_view_u8(v);
        p.stage[i].arg = crn_view_u8(v);
        c = codec_of(&p, i);
        if (v->failed)
            return CRN_DAMAGED(ei, "the stages of a chunk are cut off");
        if (c == NULL)
            return crn_fail(ei, CAIRN_EFORMAT, 0, "unknown encoding stage %u", p.stage[i].id);
        if (p.stage[i].arg < c->arg_min || p.stage[i].arg > c->arg_max)
            return CRN_DAMAGED(ei, "stage %s has the argument %u", c->name, p.stage[i].arg);
    }
    *ret = p;
    return CAIRN_OK;
}

static enum crn_slot slot_of(unsigned i)
{
    return i % 2 == 0 ? CRN_SLOT_PIPE_A : CRN_SLOT_PIPE_B;
}

cairn_err crn_pipe_encode(const struct crn_pipe *p, struct crn_encode_work *w,
                          const struct crn_data *data, const void *src, size_t n,
                          const unsigned char **ret, size_t sizes[CRN_PIPE_STAGES],
                          struct crn_errinfo *ei)
{
    struct crn_stage_task t = {.work = w, .data = data, .src = src, .src_n = n};
    unsigned i;

    for (i = 0; i < p->n; i++) {
        const struct crn_codec *c = codec_of(p, i);
        cairn_err rc;

        if (c->encode == NULL)
            return crn_fail(ei, CAIRN_ENOTSUP, 0, "stage %s needs a library that this build lacks",
                            c->name);
        t.arg = p->stage[i].arg;
        if (stage_needs_previous(c, t.arg) && t.src_n > n)
            return crn_fail(ei, CAIRN_ENOTSUP, 0, "stage %s has more bytes than the older version",
                            c->name);
        t.dst_n = c->bound(t.src_n);
        rc = crn_work_scratch(w, slot_of(i), t.dst_n, &t.dst, ei);
        if (rc != CAIRN_OK)
            return rc;
        rc = c->encode(&t, &sizes[i], ei);
        if (rc != CAIRN_OK)
            return rc;
        t.src = t.dst;
        t.src_n = sizes[i];
    }
    *ret = t.src;
    return CAIRN_OK;
}

/* Checks that each size can result from the one before it. The older version has as many bytes
 * as the chunk, but a codec may have produced more: a filter after it must not read beyond them. */
static cairn_err check_sizes(const struct crn_pipe *p, const size_t sizes[CRN_PIPE_STAGES],
                             size_t chunk_n, struct crn_errinfo *ei)
{
    size_t n = chunk_n;
    unsigned i;

    for (i = 0; i < p->n; i++) {
        const struct crn_codec *c = codec_of(p, i);

        if (c->decode == NULL)
            return crn_fail(ei, CAIRN_ENOTSUP, 0, "stage %s needs a library that this build lacks",
                            c->name);
        if (c->kind == CRN_STAGE_FILTER ? sizes[i] != n : sizes[i] > c->bound(n))
            return CRN_DAMAGED(ei, "stage %s cannot produce %zu bytes from %zu", c->name, sizes[i],
                               n);
        if (stage_needs_previous(c, p->stage[i].arg) && sizes[i] > chunk_n)
            return CRN_DAMAGED(ei, "stage %s needs %zu bytes of an older version of %zu", c->name,
                               sizes[i], chunk_n);
        n = sizes[i];
    }
    return CAIRN_OK;
}

cairn_err crn_pipe_decode(const struct crn_pipe *p, struct crn_encode_work *w,
                          const struct crn_data *data, const void *src,
                          const size_t sizes[CRN_PIPE_STAGES], void *dst, size_t dst_n,
                          struct crn_errinfo *ei)
{
    struct crn_stage_task t = {.work = w, .data = data, .src = src};
    cairn_err rc = check_sizes(p, sizes, dst_n, ei);
    unsigned i;

    for (i = p->n; rc == CAIRN_OK && i > 0; i--) {
        t.arg = p->stage[i - 1].arg;
        t.src_n = sizes[i - 1];
        t.dst_n = i > 1 ? sizes[i - 2] : dst_n;
        t.dst = dst;
        if (i > 1)
            rc = crn_work_scratch(w, slot_of(i), t.dst_n, &t.dst, ei);
        if (rc != CAIRN_OK)
            return rc;
        rc = codec_of(p, i - 1)->decode(&t, ei);
        t.src = t.dst;
    }
    return rc;
}
