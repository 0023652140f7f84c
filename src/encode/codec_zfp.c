/* SPDX-License-Identifier: BSD-3-Clause */
/* zfp with a bound on the error of each element: lossy, and never chosen by itself. Argument 0:
 * the tolerance is absolute; 1: it is relative to the range of the chunk's values (largest minus
 * smallest), which is at most that of the variable. Every chunk is decoded again and compared
 * before it is accepted; where the bound does not hold (or there are NaNs or infinities, which
 * zfp does not keep) the chunk must be kept by another pipeline.
 *
 *     f64 tolerance      absolute
 *     u32 nx, ny, nz     nz 0: two dimensions; ny 0: one
 *     zfp stream
 *     bytes beyond the last whole number */
#include "encode/codec.h"

#include "encode/work.h"

#define HEAD 20

static int codec_zfp_fits(const struct crn_data *data)
{
    return crn_word_of(data->type).is_float && data->tolerance > 0;
}

static size_t codec_zfp_bound(size_t n)
{
    return n + n / 2 + 4096;
}

#ifdef CRN_WITH_ZFP
#include <math.h>
#include <string.h>
#include <zfp.h>
#include "encode/simd.h"

#define RELATIVE 1

struct grid {
    size_t n[3]; /* x, y, z; 0: no such dimension */
    unsigned width;
};

/* zfp objects for one call. */
struct session {
    zfp_field *field;
    zfp_stream *zfp;
    bitstream *bits;
};

static void session_close(struct session *s)
{
    if (s->field != NULL)
        zfp_field_free(s->field);
    if (s->zfp != NULL)
        zfp_stream_close(s->zfp);
    if (s->bits != NULL)
        stream_close(s->bits);
}

static cairn_err session_open(struct session *s, const struct grid *g, void *values,
                              double tolerance, struct crn_errinfo *ei)
{
    zfp_type type = g->width == 8 ? zfp_type_double : zfp_type_float;

    memset(s, 0, sizeof(*s));
    s->zfp = zfp_stream_open(NULL);
    if (g->n[2] > 0)
        s->field = zfp_field_3d(values, type, g->n[0], g->n[1], g->n[2]);
    else if (g->n[1] > 0)
        s->field = zfp_field_2d(values, type, g->n[0], g->n[1]);
    else
        s->field = zfp_field_1d(values, type, g->n[0]);
    if (s->zfp == NULL || s->field == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "zfp cannot start");
    (void)zfp_stream_set_accuracy(s->zfp, tolerance);
    return CAIRN_OK;
}

static cairn_err session_use(struct session *s, void *buffer, size_t n, struct crn_errinfo *ei)
{
    s->bits = stream_open(buffer, n);
    if (s->bits == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "zfp cannot start");
    zfp_stream_set_bit_stream(s->zfp, s->bits);
    zfp_stream_rewind(s->zfp);
    return CAIRN_OK;
}

/* Rows and planes, if the chunk consists of whole ones of one array. */
static struct grid grid_of(const struct crn_data *data, size_t words)
{
    struct crn_word word = crn_word_of(data->type);
    struct grid g = {.n = {words, 0, 0}, .width = word.width};
    size_t row;
    size_t plane;

    if (data->nruns != 1 || data->runs[0].elements != words / word.count)
        return g;
    row = (size_t)data->runs[0].stride[1] * word.count;
    plane = (size_t)data->runs[0].stride[2] * word.count;
    if (row < 4 || words % row != 0)
        return g;
    g.n[0] = row;
    g.n[1] = words / row;
    if (plane > row && plane % row == 0 && words % plane == 0) {
        g.n[1] = plane / row;
        g.n[2] = words / plane;
    }
    return g;
}

static double value_at(const unsigned char *p, size_t i, unsigned width)
{
    double d;
    float f;

    if (width == 8) {
        memcpy(&d, p + 8 * i, 8);
        return d;
    }
    memcpy(&f, p + 4 * i, 4);
    return (double)f;
}

/* 0 if a value is not finite or all are equal. */
static double absolute_tolerance(const struct crn_stage_task *t, size_t words, unsigned width)
{
    double least = INFINITY;
    double most = -INFINITY;
    size_t i;

    for (i = 0; i < words; i++) {
        double v = value_at(t->src, i, width);

        if (!isfinite(v))
            return 0;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    return t->arg == RELATIVE ? t->data->tolerance * (most - least) : t->data->tolerance;
}

static cairn_err zfp_unpack(const struct grid *g, double tolerance, struct crn_encode_work *work,
                            const unsigned char *src, size_t n, unsigned char *dst,
                            struct crn_errinfo *ei)
{
    struct session s;
    cairn_err rc = session_open(&s, g, dst, tolerance, ei);
    unsigned char *padded = NULL;
    size_t most = 0;

    if (rc == CAIRN_OK) {
        /* zfp does not check where its input ends, but it reads no more than this. */
        most = zfp_stream_maximum_size(s.zfp, s.field) + 64;
        rc = n > most ? CRN_DAMAGED(ei, "zfp data of %zu bytes is too long", n) : CAIRN_OK;
    }
    if (rc == CAIRN_OK) {
        rc = rc == CAIRN_OK ? crn_work_scratch(work, CRN_SLOT_STAGE, most, &padded, ei) : rc;
    }
    if (rc == CAIRN_OK) {
        memcpy(padded, src, n);
        memset(padded + n, 0, most - n);
        rc = session_use(&s, padded, most, ei);
    }
    if (rc == CAIRN_OK && zfp_decompress(s.zfp, s.field) == 0)
        rc = CRN_DAMAGED(ei, "zfp data of %zu bytes is damaged", n);
    session_close(&s);
    return rc;
}

static cairn_err zfp_pack(const struct crn_stage_task *t, const struct grid *g, double tolerance,
                          size_t *ret_n, struct crn_errinfo *ei)
{
    struct session s;
    cairn_err rc = session_open(&s, g, (void *)(uintptr_t)t->src, tolerance, ei);
    unsigned char *room = NULL;
    size_t most = 0;
    size_t n = 0;

    if (rc == CAIRN_OK) {
        most = zfp_stream_maximum_size(s.zfp, s.field);
        rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, most, &room, ei);
        rc = rc == CAIRN_OK ? session_use(&s, room, most, ei) : rc;
    }
    if (rc == CAIRN_OK) {
        n = zfp_compress(s.zfp, s.field);
        if (n == 0 || n > t->dst_n - HEAD - 8)
            rc = crn_fail(ei, CAIRN_ENOTSUP, 0, "zfp cannot compress %zu bytes", t->src_n);
    }
    session_close(&s);
    if (rc == CAIRN_OK) {
        memcpy(t->dst + HEAD, room, n);
        *ret_n = n;
    }
    return rc;
}

static int codec_zfp_within(const struct crn_stage_task *t, const unsigned char *back, size_t words,
                            unsigned width, double tolerance)
{
    size_t i;

    for (i = 0; i < words; i++)
        if (!(fabs(value_at(t->src, i, width) - value_at(back, i, width)) <= tolerance))
            return 0;
    return 1;
}

static cairn_err codec_zfp_encode(const struct crn_stage_task *t, size_t *ret_n,
                                  struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;
    size_t tail = t->src_n % width;
    struct grid g = grid_of(t->data, words);
    double tolerance = absolute_tolerance(t, words, width);
    unsigned char *back;
    uint32_t n[3];
    size_t size;
    cairn_err rc;
    int i;

    if (words == 0 || !(tolerance > 0) || !isfinite(tolerance))
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "zfp has no tolerance or values that are not finite");
    rc = zfp_pack(t, &g, tolerance, &size, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_work_scratch(t->work, CRN_SLOT_PLANE, words * width, &back, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = zfp_unpack(&g, tolerance, t->work, t->dst + HEAD, size, back, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (!codec_zfp_within(t, back, words, width, tolerance))
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "zfp exceeds the tolerance %g", tolerance);
    for (i = 0; i < 3; i++)
        n[i] = (uint32_t)g.n[i];
    memcpy(t->dst, &tolerance, 8);
    memcpy(t->dst + 8, n, sizeof(n));
    memcpy(t->dst + HEAD + size, t->src + words * width, tail);
    *ret_n = HEAD + size + tail;
    return CAIRN_OK;
}

static cairn_err codec_zfp_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->dst_n / width;
    size_t tail = t->dst_n % width;
    struct grid g = {.width = width};
    double tolerance;
    uint64_t product;
    uint32_t n[3];
    cairn_err rc;
    int i;

    if (width < 4 || t->src_n < HEAD + tail)
        return CRN_DAMAGED(ei, "zfp data of %zu bytes is cut off", t->src_n);
    memcpy(&tolerance, t->src, 8);
    memcpy(n, t->src + 8, sizeof(n));
    for (i = 0; i < 3; i++)
        g.n[i] = n[i];
    product = (uint64_t)n[0] * (n[1] > 0 ? n[1] : 1); /* cannot overflow */
    if (n[0] == 0 || (n[1] == 0 && n[2] != 0) || product > words ||
        product * (n[2] > 0 ? n[2] : 1) != words || !(tolerance > 0) || !isfinite(tolerance))
        return CRN_DAMAGED(ei, "zfp data of %zu bytes has a wrong head", t->src_n);
    rc = zfp_unpack(&g, tolerance, t->work, t->src + HEAD, t->src_n - HEAD - tail, t->dst, ei);
    if (rc == CAIRN_OK)
        memcpy(t->dst + words * width, t->src + t->src_n - tail, tail);
    return rc;
}

#define ENCODE codec_zfp_encode
#define DECODE codec_zfp_decode
#else
#define ENCODE NULL
#define DECODE NULL
#endif

const struct crn_codec crn_codec_zfp = {
    .id = 9,
    .name = "zfp",
    .kind = CRN_STAGE_CODEC,
    .is_lossy = 1,
    .arg_max = 1,
    .fits = codec_zfp_fits,
    .bound = codec_zfp_bound,
    .encode = ENCODE,
    .decode = DECODE,
};
