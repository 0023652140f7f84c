/* SPDX-License-Identifier: BSD-3-Clause */
/* How a plane is kept. Decided from a few pieces of it: counting is cheap, a trial of zstd on a
 * piece says whether the plane repeats itself in a way that counting cannot see. A plane is
 *
 *     u8 mode        0 raw, 1 one value, 2 entropy coded, 3 zstd
 *     varint size    of what follows; not for mode 1, where one byte follows */
#include "encode/plane.h"

#include "encode/entropy.h"
#include "encode/simd.h"
#include "encode/varint.h"
#include "encode/work.h"
#include "encode/zstd.h"

enum { RAW = 0, ONE_VALUE = 1, CODED = 2, ZSTD = 3 };

#define PIECES      4
#define PIECE_BYTES ((size_t)4 << 10)
#define TRIAL_BYTES ((size_t)16 << 10)
#define HEADER_MAX  (1 + CRN_VARINT_MAX)

/* zstd is slower both ways: it must win by this much. */
#define ZSTD_MARGIN 0.97
/* What is saved by less than this is not worth the time of decoding. */
#define WORTH 0.985

size_t crn_plane_bound(size_t n)
{
    size_t a = crn_huffman_bound(n);
    size_t b = crn_zstd_bound(n);

    return HEADER_MAX + (a > b ? a : b);
}

static int is_one_value(const unsigned char *src, size_t n)
{
    return n == 0 || memcmp(src, src + 1, n - 1) == 0;
}

/* Entropy of a few pieces, as a share of 8 bits. */
static double sampled_entropy(const unsigned char *src, size_t n)
{
    uint32_t sum[256] = {0};
    uint32_t count[256];
    size_t piece = n / PIECES < PIECE_BYTES ? n / PIECES : PIECE_BYTES;
    size_t i;
    int k;

    if (piece == 0)
        return 1;
    for (k = 0; k < PIECES; k++) {
        crn_histogram(src + (n - piece) / (PIECES - 1) * (size_t)k, piece, count);
        for (i = 0; i < 256; i++)
            sum[i] += count[i];
    }
    return crn_entropy_bits(sum, piece * PIECES) / (8.0 * (double)(piece * PIECES));
}

/* Share that zstd leaves of a piece from the middle. */
static double zstd_trial(struct crn_work *w, int level, const unsigned char *src, size_t n,
                         unsigned char *room, size_t room_n)
{
    size_t piece = n < TRIAL_BYTES ? n : TRIAL_BYTES;
    size_t r = crn_zstd_compress(w, level, src + (n - piece) / 2, piece, room, room_n);

    return r == 0 ? 1 : (double)r / (double)piece;
}

static int choose(struct crn_work *w, int level, const unsigned char *src, size_t n,
                  unsigned char *room, size_t room_n)
{
    double entropy;
    double best;

    if (is_one_value(src, n))
        return ONE_VALUE;
    entropy = sampled_entropy(src, n);
    best = entropy;
    if (level > 0 && crn_zstd_is_there() && entropy < WORTH) {
        double share = zstd_trial(w, level, src, n, room, room_n);

        if (share < ZSTD_MARGIN * entropy)
            return ZSTD;
    }
    return best < WORTH ? CODED : RAW;
}

cairn_err crn_plane_encode(struct crn_work *w, int level, const unsigned char *src, size_t n,
                           unsigned char *dst, size_t *ret_n, struct crn_errinfo *ei)
{
    size_t room_n = crn_plane_bound(n);
    unsigned char *room;
    cairn_err rc = crn_work_scratch(w, CRN_SLOT_PLANE, room_n, &room, ei);
    size_t size = 0;
    size_t head;
    int mode;

    if (rc != CAIRN_OK)
        return rc;
    mode = choose(w, level, src, n, room, room_n);
    if (mode == ONE_VALUE) {
        dst[0] = ONE_VALUE;
        dst[1] = n > 0 ? src[0] : 0;
        *ret_n = 2;
        return CAIRN_OK;
    }
    if (mode == CODED)
        size = crn_huffman_encode(src, n, room);
    else if (mode == ZSTD)
        size = crn_zstd_compress(w, level, src, n, room, room_n);
    if (size == 0 || (double)size > WORTH * (double)n) {
        mode = RAW;
        size = n;
    }
    dst[0] = (unsigned char)mode;
    head = 1 + crn_varint_put(dst + 1, size);
    memcpy(dst + head, mode == RAW ? src : room, size);
    *ret_n = head + size;
    return CAIRN_OK;
}

cairn_err crn_plane_decode(struct crn_work *w, const unsigned char *src, size_t src_n,
                           unsigned char *dst, size_t n, size_t *ret_used, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(src, src_n);
    uint8_t mode = crn_view_u8(&v);
    uint64_t size = mode == ONE_VALUE ? 1 : crn_varint_get(&v);
    const unsigned char *body = size <= src_n ? crn_view_take(&v, (size_t)size) : NULL;
    int bad = v.failed || body == NULL;

    if (bad)
        return CRN_DAMAGED(ei, "a plane of %zu bytes is cut off", n);
    switch (mode) {
    case RAW:
        bad = size != n;
        if (!bad && n > 0)
            memcpy(dst, body, n);
        break;
    case ONE_VALUE:
        memset(dst, body[0], n);
        break;
    case CODED:
        bad = crn_huffman_decode(body, (size_t)size, dst, n) != 0;
        break;
    case ZSTD:
        bad = crn_zstd_decompress(w, body, (size_t)size, dst, n) != 0;
        break;
    default:
        bad = 1;
    }
    if (bad)
        return CRN_DAMAGED(ei, "a plane of %zu bytes is damaged", n);
    *ret_used = v.at;
    return CAIRN_OK;
}
