/* SPDX-License-Identifier: BSD-3-Clause */
/* A decoder of fpzip streams for hostile input. The method is that of P. Lindstrom and M. Isenburg,
 * "Fast and Efficient Compression of Floating-Point Data", IEEE TVCG 12(5), 2006. Numbers are
 * mapped to integers in their order. The difference to the prediction (here the previous number) is
 * a symbol for its sign and length, coded with adaptive frequencies by a range coder, and the bits
 * below its highest one, which the range coder passes through in groups of 16.
 *
 * Decoding stops at a code value outside the interval that an encoder can produce, and at the
 * end of the input. The table look-up therefore stays in bounds, and the range is never 0. */
#include "encode/fpzip.h"

#include <stdint.h>
#include <string.h>
#include "encode/simd.h"

#define FREQUENCY_BITS 16
#define TOTAL          (1U << FREQUENCY_BITS)
#define PERIOD         1024U /* symbols between two adaptations, in the steady state */
#define SYMBOLS_MAX    129   /* a sign and 64 lengths each, and zero */

struct fpzip_decode_range {
    const unsigned char *at;
    const unsigned char *end;
    uint32_t low, size, code;
    int is_bad;
};

/* Frequencies are counted while a frozen copy of them is in use. From time to time the counts
 * are halved and become the copy. What halving loses is handed out in equal steps until the next
 * time. */
struct fpzip_decode_model {
    unsigned symbols;
    uint32_t count[SYMBOLS_MAX];
    uint32_t below[SYMBOLS_MAX + 1]; /* cumulative sums of the frozen copy */
    uint32_t step;
    uint32_t steps_left;
    uint32_t larger_steps; /* of step + 1, once steps_left are done */
    uint32_t period;
};

static void take_bytes(struct fpzip_decode_range *r, int n)
{
    for (; n > 0; n--) {
        r->is_bad |= r->at == r->end;
        r->code = r->code << 8 | (r->at < r->end ? *r->at++ : 0);
        r->low <<= 8;
    }
}

static void fpzip_decode_renew(struct fpzip_decode_range *r)
{
    while ((r->low ^ (r->low + r->size)) >> 24 == 0 && !r->is_bad) {
        take_bytes(r, 1);
        r->size <<= 8;
    }
    /* the carry is unresolved and the range is exhausted: truncate the range */
    if (r->size >> 16 == 0) {
        take_bytes(r, 2);
        r->size = 0U - r->low;
    }
}

/* The index of the code among 2^bits equal subranges; the range shrinks to that subrange. */
static uint32_t fpzip_decode_part(struct fpzip_decode_range *r, unsigned bits)
{
    uint32_t n;

    r->size >>= bits;
    if (r->size == 0) {
        r->is_bad = 1;
        r->size = 1;
    }
    n = (r->code - r->low) / r->size;
    if (n >> bits != 0) {
        r->is_bad = 1;
        n = 0;
    }
    return n;
}

static uint64_t take_bits(struct fpzip_decode_range *r, unsigned n)
{
    uint64_t x = 0;
    unsigned at = 0;

    for (;;) {
        unsigned m = n - at > 16 ? 16 : n - at;
        uint32_t v = fpzip_decode_part(r, m);

        r->low += r->size * v;
        fpzip_decode_renew(r);
        x |= (uint64_t)v << at;
        at += m;
        if (at == n)
            return x;
    }
}

static void fpzip_decode_freeze(struct fpzip_decode_model *m)
{
    uint32_t sum = TOTAL;
    uint32_t lost = TOTAL;
    unsigned i;

    if (m->larger_steps > 0) {
        m->steps_left = m->larger_steps;
        m->larger_steps = 0;
        m->step++;
        return;
    }
    m->period = m->period * 2 > PERIOD ? PERIOD : m->period * 2;
    for (i = m->symbols; i-- > 0;) {
        sum -= m->count[i];
        m->below[i] = sum;
        m->count[i] = m->count[i] >> 1 | 1;
        lost -= m->count[i];
    }
    m->step = lost / m->period;
    m->larger_steps = lost % m->period;
    m->steps_left = m->period - m->larger_steps;
}

static void model_init(struct fpzip_decode_model *m, unsigned symbols)
{
    unsigned i;

    memset(m, 0, sizeof(*m));
    m->symbols = symbols;
    m->below[symbols] = TOTAL;
    for (i = 0; i < symbols; i++)
        m->count[i] = TOTAL / symbols + (i < TOTAL % symbols);
    m->period = symbols >> 4 | 2;
    fpzip_decode_freeze(m);
}

static unsigned take_symbol(struct fpzip_decode_range *r, struct fpzip_decode_model *m)
{
    uint32_t n = fpzip_decode_part(r, FREQUENCY_BITS);
    unsigned s = 0;
    unsigned above = m->symbols;

    while (s + 1 < above) {
        unsigned middle = (s + above) / 2;

        if (n < m->below[middle])
            above = middle;
        else
            s = middle;
    }
    r->low += r->size * m->below[s];
    r->size *= m->below[s + 1] - m->below[s];
    if (m->steps_left == 0)
        fpzip_decode_freeze(m);
    m->steps_left--;
    m->count[s] += m->step;
    fpzip_decode_renew(r);
    return s;
}

/* The prediction from the previous number, as bits. fpzip computes it as a sum with zeros, which
 * turns -0 into 0 and makes NaNs quiet. */
static uint64_t fpzip_decode_predict(uint64_t before, unsigned width)
{
    uint64_t sign = (uint64_t)1 << (8 * width - 1);
    uint64_t infinity = width == 8 ? UINT64_C(0x7ff) << 52 : UINT64_C(0xff) << 23;

    if (before == sign)
        return 0;
    if ((before & ~sign) > infinity)
        return before | (uint64_t)1 << (width == 8 ? 51 : 22);
    return before;
}

/* Floating-point bits <-> integers in the same order, from 0 up. */
static uint64_t to_order(uint64_t bits, uint64_t sign, uint64_t all)
{
    return bits & sign ? ~bits & all : bits | sign;
}

static uint64_t from_order(uint64_t order, uint64_t sign, uint64_t all)
{
    return order & sign ? order & ~sign : ~order & all;
}

int crn_fpzip_decode(const unsigned char *src, size_t src_n, unsigned char *dst, size_t n,
                     unsigned width)
{
    struct fpzip_decode_range r = {.at = src, .end = src + src_n, .size = UINT32_MAX};
    unsigned bits = 8 * width;
    uint64_t sign = (uint64_t)1 << (bits - 1);
    uint64_t all = sign | (sign - 1);
    uint64_t value = 0;
    struct fpzip_decode_model m;
    size_t i;

    if (n == 0 || (width != 4 && width != 8))
        return n == 0 && src_n == 0 ? 0 : -1;
    model_init(&m, 2 * bits + 1);
    take_bytes(&r, 4);
    for (i = 0; i < n && !r.is_bad; i++) {
        unsigned s = take_symbol(&r, &m);
        uint64_t distance;

        value = fpzip_decode_predict(value, width);
        if (s != bits) {
            unsigned length = s > bits ? s - bits - 1 : bits - 1 - s;

            distance = ((uint64_t)1 << length) + take_bits(&r, length);
            value = to_order(value, sign, all);
            value = (s > bits ? value + distance : value - distance) & all;
            value = from_order(value, sign, all);
        }
        memcpy(dst + i * width, &value, width);
    }
    return r.is_bad || r.at != r.end ? -1 : 0;
}
