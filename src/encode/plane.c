/* SPDX-License-Identifier: BSD-3-Clause */
/* How a plane is stored. Samples of it are tried in two ways: entropy from counts, and zstd,
 * which finds repeats that counting cannot see. If the two are close, both are run in full. A
 * plane is
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

#define PIECES       ((size_t)4)
#define PIECE_MIN    ((size_t)1 << 10)
#define PIECE_MAX    ((size_t)4 << 10)
#define SAMPLE_BYTES (PIECES * PIECE_MAX)
#define SAMPLE_PART  16 /* of the plane, at least PIECES * PIECE_MIN */
#define HEADER_MAX   (1 + CRN_VARINT_MAX)

/* Saving less than this does not justify the decoding time. */
#define WORTH 0.985
/* zstd is slower in both directions, so it must win by this much. */
#define ZSTD_MARGIN 0.98
/* Samples show fewer repeats than the whole plane. zstd is run if it does not lose on them, and
 * alone if it wins by this much. */
#define CLEARLY 0.9

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

/* The relative sizes that the two ways give. */
struct plane_trial {
    double coded;
    double zstd;
};

static struct plane_trial try_pieces(struct crn_encode_work *w, int level, const unsigned char *src,
                                     size_t n, unsigned char *room, size_t room_n)
{
    unsigned char pieces[SAMPLE_BYTES];
    const unsigned char *sample = src;
    struct plane_trial t = {1, 1};
    uint32_t count[256];
    size_t piece = n / SAMPLE_PART / PIECES;
    size_t size;
    size_t k;

    piece = piece < PIECE_MIN ? PIECE_MIN : piece > PIECE_MAX ? PIECE_MAX : piece;
    if (n > PIECES * piece) {
        for (k = 0; k < PIECES; k++)
            memcpy(pieces + k * piece, src + (n - piece) / (PIECES - 1) * k, piece);
        sample = pieces;
        n = PIECES * piece;
    }
    crn_entropy_histogram(sample, n, count);
    t.coded = crn_huffman_bits(count) / (8.0 * (double)n);
    if (level > 0 && crn_zstd_is_there()) {
        size = crn_zstd_compress(w, level, sample, n, room, room_n);
        t.zstd = size > 0 ? (double)size / (double)n : 1;
    }
    return t;
}

/* Encodes into `room` and copies the result to dst if it is smaller. */
static void plane_run(struct crn_encode_work *w, int mode, int level, const unsigned char *src,
                      size_t n, unsigned char *room, size_t room_n, unsigned char *dst,
                      size_t *ret_n)
{
    size_t size = mode == CODED ? crn_huffman_encode(src, n, room)
                                : crn_zstd_compress(w, level, src, n, room, room_n);
    double least = (double)*ret_n * (mode == ZSTD ? ZSTD_MARGIN : 1);
    size_t head;

    if (size == 0 || (double)size > WORTH * (double)n || (double)size >= least)
        return;
    dst[0] = (unsigned char)mode;
    head = 1 + crn_varint_put(dst + 1, size);
    memcpy(dst + head, room, size);
    *ret_n = head + size;
}

cairn_err crn_plane_encode(struct crn_encode_work *w, int level, const unsigned char *src, size_t n,
                           unsigned char *dst, size_t *ret_n, struct crn_errinfo *ei)
{
    size_t room_n = crn_plane_bound(n > SAMPLE_BYTES ? n : SAMPLE_BYTES);
    unsigned char *room;
    cairn_err rc = crn_work_scratch(w, CRN_SLOT_PLANE, room_n, &room, ei);
    size_t best = SIZE_MAX;
    struct plane_trial t;

    if (rc != CAIRN_OK)
        return rc;
    if (is_one_value(src, n)) {
        dst[0] = ONE_VALUE;
        dst[1] = n > 0 ? src[0] : 0;
        *ret_n = 2;
        return CAIRN_OK;
    }
    t = try_pieces(w, level, src, n, room, room_n);
    if (t.coded < WORTH && CLEARLY * t.coded < t.zstd)
        plane_run(w, CODED, level, src, n, room, room_n, dst, &best);
    if (t.zstd < WORTH && t.zstd < t.coded)
        plane_run(w, ZSTD, level, src, n, room, room_n, dst, &best);
    if (best == SIZE_MAX) {
        dst[0] = RAW;
        best = 1 + crn_varint_put(dst + 1, n);
        memcpy(dst + best, src, n);
        best += n;
    }
    *ret_n = best;
    return CAIRN_OK;
}

#define ZSTD_HEAD 12 /* approximate size of a frame's header */

cairn_err crn_plane_estimate(struct crn_encode_work *w, int level, const unsigned char *src,
                             size_t n, double *ret_bytes, struct crn_errinfo *ei)
{
    size_t room_n = crn_plane_bound(SAMPLE_BYTES);
    unsigned char *room;
    cairn_err rc = crn_work_scratch(w, CRN_SLOT_PLANE, room_n, &room, ei);
    double head = (double)ZSTD_HEAD / (double)(n < PIECES * PIECE_MIN ? n + 1 : PIECES * PIECE_MIN);
    struct plane_trial t;

    if (rc != CAIRN_OK)
        return rc;
    *ret_bytes = 2;
    if (is_one_value(src, n))
        return CAIRN_OK;
    t = try_pieces(w, level, src, n, room, room_n);
    t.zstd = t.zstd > head ? t.zstd - head : 0;
    if (t.zstd < ZSTD_MARGIN * t.coded)
        t.coded = t.zstd;
    *ret_bytes += (double)n * (t.coded < WORTH ? t.coded : 1);
    return CAIRN_OK;
}

cairn_err crn_plane_decode(struct crn_encode_work *w, const unsigned char *src, size_t src_n,
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
