/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in as few bytes as they need: 7 bits per byte, lowest first; the top bit means "more". */
#ifndef CRN_VARINT_H
#define CRN_VARINT_H

#include "base/buf.h"

#define CRN_VARINT_MAX 10

static inline size_t crn_varint_put(unsigned char *dst, uint64_t v)
{
    size_t n = 0;

    for (; v > 127; v >>= 7)
        dst[n++] = (unsigned char)(v | 128);
    dst[n++] = (unsigned char)v;
    return n;
}

/* Sets v->failed if the number does not end or does not fit into 64 bits. */
static inline uint64_t crn_varint_get(struct crn_view *v)
{
    uint64_t x = 0;
    unsigned shift;

    for (shift = 0; shift < 64; shift += 7) {
        uint8_t b = crn_view_u8(v);

        if (shift == 63 && b > 1)
            break;
        x |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return v->failed ? 0 : x;
    }
    v->failed = 1;
    return 0;
}

#endif
