/* SPDX-License-Identifier: BSD-3-Clause */
/* FPC for doubles, from M. Burtscher and P. Ratanaworabhan, "FPC: A High-Speed Compressor for
 * Double-Precision Floating-Point Data", IEEE Transactions on Computers 58(1), 2009. Two
 * predictors with hash tables (the value that followed this context, the difference that
 * followed it); the XOR with the better one has leading zero bytes, which are counted and left
 * out. Four bits a value (one for the predictor, three for the count) go in pairs before the
 * residual bytes.
 *
 *     nibbles            predictor << 3 | count code, low nibble first
 *     residuals          without their leading zero bytes, lowest byte first
 *     bytes beyond the last whole double
 *
 * Argument: the binary logarithm of the size of the tables. */
#include "encode/codec.h"

#include <stdlib.h>
#include <string.h>
#include "encode/simd.h"

struct tables {
    uint64_t mask;
    uint64_t fcm_hash;
    uint64_t dfcm_hash;
    uint64_t last;
    uint64_t *fcm;
    uint64_t *dfcm;
};

static int codec_fpc_fits(const struct crn_data *data)
{
    return data->type == CAIRN_F64 || data->type == CAIRN_C128;
}

static size_t codec_fpc_bound(size_t n)
{
    return n + n / 16 + 16;
}

static cairn_err tables_init(struct tables *h, unsigned logarithm, struct crn_errinfo *ei)
{
    size_t entries = (size_t)1 << logarithm;

    memset(h, 0, sizeof(*h));
    h->mask = entries - 1;
    h->fcm = calloc(2 * entries, sizeof(*h->fcm));
    if (h->fcm == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "FPC tables of 2^%u entries", logarithm);
    h->dfcm = h->fcm + entries;
    return CAIRN_OK;
}

CRN_INLINE uint64_t predict_fcm(const struct tables *h)
{
    return h->fcm[h->fcm_hash];
}

CRN_INLINE uint64_t predict_dfcm(const struct tables *h)
{
    return h->dfcm[h->dfcm_hash] + h->last;
}

CRN_INLINE void fpc_learn(struct tables *h, uint64_t value)
{
    uint64_t difference = value - h->last;

    h->fcm[h->fcm_hash] = value;
    h->fcm_hash = ((h->fcm_hash << 6) ^ (value >> 48)) & h->mask;
    h->dfcm[h->dfcm_hash] = difference;
    h->dfcm_hash = ((h->dfcm_hash << 2) ^ (difference >> 40)) & h->mask;
    h->last = value;
}

/* Leading zero bytes, 0 to 8. Four count as three, so that three bits suffice. */
CRN_INLINE unsigned zero_bytes(uint64_t x)
{
    unsigned n = x == 0 ? 8 : (unsigned)__builtin_clzll(x) / 8;

    return n == 4 ? 3 : n;
}

CRN_WIDE static size_t encode_values(struct tables *h, const unsigned char *src, size_t n,
                                     unsigned char *dst)
{
    unsigned char *out = dst + (n + 1) / 2;
    size_t i;

    memset(dst, 0, (n + 1) / 2);
    for (i = 0; i < n; i++) {
        uint64_t value = crn_load64(src + 8 * i);
        uint64_t a = value ^ predict_fcm(h);
        uint64_t b = value ^ predict_dfcm(h);
        unsigned second = b < a;
        uint64_t rest = second ? b : a;
        unsigned zeros = zero_bytes(rest);
        unsigned code = second << 3 | (zeros > 4 ? zeros - 1 : zeros);

        dst[i / 2] |= (unsigned char)(code << (i % 2 * 4));
        crn_store64(out, rest);
        out += 8 - zeros;
        fpc_learn(h, value);
    }
    return (size_t)(out - dst);
}

/* The number of residual bytes that the nibbles announce. */
static size_t residual_bytes(const unsigned char *nibbles, size_t n)
{
    size_t sum = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        unsigned count = nibbles[i / 2] >> (i % 2 * 4) & 7;

        sum += 8 - (count > 3 ? count + 1 : count);
    }
    return sum;
}

/* The caller has checked that all residuals are present. */
CRN_WIDE static void decode_values(struct tables *h, const unsigned char *nibbles,
                                   const unsigned char *in, const unsigned char *end,
                                   unsigned char *dst, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        unsigned code = nibbles[i / 2] >> (i % 2 * 4) & 15;
        unsigned zeros = (code & 7) > 3 ? (code & 7) + 1 : code & 7;
        size_t size = 8 - zeros;
        uint64_t rest = 0;
        uint64_t value;

        if (end - in >= 8)
            rest = size > 0 ? crn_load64(in) & (UINT64_MAX >> (8 * zeros)) : 0;
        else
            memcpy(&rest, in, size);
        in += size;
        value = rest ^ (code & 8 ? predict_dfcm(h) : predict_fcm(h));
        crn_store64(dst + 8 * i, value);
        fpc_learn(h, value);
    }
}

static cairn_err codec_fpc_encode(const struct crn_stage_task *t, size_t *ret_n,
                                  struct crn_errinfo *ei)
{
    size_t values = t->src_n / 8;
    size_t tail = t->src_n % 8;
    struct tables h;
    cairn_err rc = tables_init(&h, t->arg, ei);

    if (rc != CAIRN_OK)
        return rc;
    *ret_n = encode_values(&h, t->src, values, t->dst);
    memcpy(t->dst + *ret_n, t->src + values * 8, tail);
    *ret_n += tail;
    free(h.fcm);
    return CAIRN_OK;
}

static cairn_err codec_fpc_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    size_t values = t->dst_n / 8;
    size_t tail = t->dst_n % 8;
    size_t head = (values + 1) / 2;
    struct tables h;
    cairn_err rc;

    if (t->src_n < head || t->src_n - head != residual_bytes(t->src, values) + tail)
        return CRN_DAMAGED(ei, "FPC data of %zu bytes is damaged", t->dst_n);
    rc = tables_init(&h, t->arg, ei);
    if (rc != CAIRN_OK)
        return rc;
    decode_values(&h, t->src, t->src + head, t->src + t->src_n, t->dst, values);
    memcpy(t->dst + values * 8, t->src + t->src_n - tail, tail);
    free(h.fcm);
    return CAIRN_OK;
}

const struct crn_codec crn_codec_fpc = {
    .id = 4,
    .name = "fpc",
    .kind = CRN_STAGE_CODEC,
    .arg_min = 1,
    .arg_max = 20,
    .arg_default = 2,
    .fits = codec_fpc_fits,
    .bound = codec_fpc_bound,
    .encode = codec_fpc_encode,
    .decode = codec_fpc_decode,
};
