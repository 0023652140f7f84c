/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/compare.h"

#include <math.h>
#include <string.h>

#include "cairn/cairn.h"

/* The distance of two elements, and the larger magnitude. */
struct distance {
    double difference, magnitude;
};

static struct distance of_floats(double a, double b)
{
    struct distance r = {fabs(a - b), fmax(fabs(a), fabs(b))};

    if (isnan(r.difference)) /* a NaN, or infinities: infinitely far apart, unless both are NaN */
        r.difference = isnan(a) && isnan(b) ? 0 : INFINITY;
    return r;
}

static struct distance of_complex(double ar, double ai, double br, double bi)
{
    struct distance re = of_floats(ar, br), im = of_floats(ai, bi);
    struct distance r = {hypot(re.difference, im.difference), fmax(hypot(ar, ai), hypot(br, bi))};

    return r;
}

/* Exact also for neighbours near 2^64, where doubles are not. */
static struct distance of_signed(int64_t a, int64_t b)
{
    uint64_t gap = a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    struct distance r = {(double)gap, fmax(fabs((double)a), fabs((double)b))};

    return r;
}

static struct distance of_unsigned(uint64_t a, uint64_t b)
{
    struct distance r = {(double)(a > b ? a - b : b - a), (double)(a > b ? a : b)};

    return r;
}

static double of_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

double crn_compare_from_bf16(uint16_t bits)
{
    return of_bits((uint32_t)bits << 16);
}

double crn_compare_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits >> 15) << 31;
    uint32_t exponent = (bits >> 10) & 31;
    uint32_t mantissa = bits & 1023;

    if (exponent == 0)
        return ldexp(mantissa, -24) * (sign != 0 ? -1 : 1);
    return of_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

static struct distance of_halves(uint16_t a, uint16_t b)
{
    return of_floats(crn_compare_from_f16(a), crn_compare_from_f16(b));
}

static struct distance of_brains(uint16_t a, uint16_t b)
{
    return of_floats(crn_compare_from_bf16(a), crn_compare_from_bf16(b));
}

#define CASE(type_id, c_type, make)                                                                \
    case type_id: {                                                                                \
        c_type x, y;                                                                               \
        memcpy(&x, a, sizeof(x));                                                                  \
        memcpy(&y, b, sizeof(y));                                                                  \
        return make(x, y);                                                                         \
    }
#define COMPLEX_CASE(type_id, c_type)                                                              \
    case type_id: {                                                                                \
        c_type x[2], y[2];                                                                         \
        memcpy(x, a, sizeof(x));                                                                   \
        memcpy(y, b, sizeof(y));                                                                   \
        return of_complex(x[0], x[1], y[0], y[1]);                                                 \
    }

static struct distance compare_distance(uint8_t type, const void *a, const void *b)
{
    switch (type) {
        CASE(CAIRN_I8, int8_t, of_signed)
        CASE(CAIRN_I16, int16_t, of_signed)
        CASE(CAIRN_U16, uint16_t, of_unsigned)
        CASE(CAIRN_I32, int32_t, of_signed)
        CASE(CAIRN_U32, uint32_t, of_unsigned)
        CASE(CAIRN_I64, int64_t, of_signed)
        CASE(CAIRN_U64, uint64_t, of_unsigned)
        CASE(CAIRN_F32, float, of_floats)
        CASE(CAIRN_F64, double, of_floats)
        CASE(CAIRN_F16, uint16_t, of_halves)
        CASE(CAIRN_BF16, uint16_t, of_brains)
        COMPLEX_CASE(CAIRN_C64, float)
        COMPLEX_CASE(CAIRN_C128, double)
    default:
        return of_unsigned(*(const unsigned char *)a, *(const unsigned char *)b);
    }
}

static void compare_add(struct cli_difference *d, uint64_t index, const struct distance *x)
{
    double relative = x->magnitude > 0 ? x->difference / x->magnitude : 0;

    if (isnan(relative))
        relative = INFINITY;
    if (d->differing++ == 0)
        d->first = index;
    d->max_absolute = fmax(d->max_absolute, x->difference);
    d->max_relative = fmax(d->max_relative, relative);
}

void crn_compare(uint8_t type, const void *a, const void *b, uint64_t n, uint64_t base,
                 const struct cli_tolerance *tolerance, struct cli_difference *d)
{
    size_t size = cairn_type_size((cairn_type)type);
    const char *p = a, *q = b;
    int bitwise = !(tolerance->absolute > 0 || tolerance->relative > 0);
    uint64_t i;

    d->elements += n;
    if (memcmp(a, b, n * size) == 0)
        return;
    for (i = 0; i < n; i++, p += size, q += size) {
        struct distance x;

        if (memcmp(p, q, size) == 0)
            continue;
        x = compare_distance(type, p, q);
        if (bitwise || isinf(x.difference) ||
            x.difference > tolerance->absolute + tolerance->relative * x.magnitude)
            compare_add(d, base + i, &x);
    }
}
