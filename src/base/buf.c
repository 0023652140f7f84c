/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#ifdef CRN_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* same names, dispatched to the widest vectors of the CPU */
#else
#include <xxhash.h>
#endif

void crn_buf_put(struct crn_buf *b, const void *p, size_t n)
{
    unsigned char *grown;
    size_t cap;

    if (b->failed || n == 0)
        return;
    if (n > b->cap - b->len) {
        cap = b->cap < 256 ? 256 : b->cap;
        while (cap - b->len < n && cap <= SIZE_MAX / 2)
            cap *= 2;
        grown = cap - b->len >= n ? realloc(b->data, cap) : NULL;
        if (grown == NULL) {
            b->failed = 1;
            return;
        }
        b->data = grown;
        b->cap = cap;
    }
    memcpy(b->data + b->len, p, n);
    b->len += n;
}

static void put_le(struct crn_buf *b, uint64_t v, size_t n)
{
    unsigned char raw[8];
    size_t i;

    for (i = 0; i < n; i++)
        raw[i] = (unsigned char)(v >> (8 * i));
    crn_buf_put(b, raw, n);
}

void crn_buf_u8(struct crn_buf *b, uint8_t v)
{
    put_le(b, v, 1);
}

void crn_buf_u16(struct crn_buf *b, uint16_t v)
{
    put_le(b, v, 2);
}

void crn_buf_u32(struct crn_buf *b, uint32_t v)
{
    put_le(b, v, 4);
}

void crn_buf_u64(struct crn_buf *b, uint64_t v)
{
    put_le(b, v, 8);
}

void crn_buf_str(struct crn_buf *b, const char *s)
{
    size_t n = strlen(s);

    if (n > UINT16_MAX) {
        b->failed = 1;
        return;
    }
    crn_buf_u16(b, (uint16_t)n);
    crn_buf_put(b, s, n);
}

void crn_buf_zero(struct crn_buf *b, size_t n)
{
    static const unsigned char zeros[64];

    for (; n > sizeof(zeros); n -= sizeof(zeros))
        crn_buf_put(b, zeros, sizeof(zeros));
    crn_buf_put(b, zeros, n);
}

static void set_le(struct crn_buf *b, size_t at, uint64_t v, size_t n)
{
    size_t i;

    if (b->failed || at > b->len || n > b->len - at)
        return;
    for (i = 0; i < n; i++)
        b->data[at + i] = (unsigned char)(v >> (8 * i));
}

void crn_buf_set_u32(struct crn_buf *b, size_t at, uint32_t v)
{
    set_le(b, at, v, 4);
}

void crn_buf_set_u64(struct crn_buf *b, size_t at, uint64_t v)
{
    set_le(b, at, v, 8);
}

void crn_buf_free(struct crn_buf *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}

struct crn_view crn_view_of(const void *data, size_t len)
{
    struct crn_view v = {.data = data, .len = len};

    return v;
}

const void *crn_view_take(struct crn_view *v, size_t n)
{
    const unsigned char *p;

    if (v->failed || n > v->len - v->at) {
        v->failed = 1;
        return NULL;
    }
    p = v->data + v->at;
    v->at += n;
    return p;
}

static uint64_t take_le(struct crn_view *v, size_t n)
{
    const unsigned char *p = crn_view_take(v, n);
    uint64_t x = 0;
    size_t i;

    for (i = 0; p != NULL && i < n; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

uint8_t crn_view_u8(struct crn_view *v)
{
    return (uint8_t)take_le(v, 1);
}

uint16_t crn_view_u16(struct crn_view *v)
{
    return (uint16_t)take_le(v, 2);
}

uint32_t crn_view_u32(struct crn_view *v)
{
    return (uint32_t)take_le(v, 4);
}

uint64_t crn_view_u64(struct crn_view *v)
{
    return take_le(v, 8);
}

void crn_view_str(struct crn_view *v, char *dst, size_t size)
{
    size_t n = crn_view_u16(v);
    const void *p;

    dst[0] = '\0';
    if (n >= size) {
        v->failed = 1;
        return;
    }
    p = crn_view_take(v, n);
    if (p == NULL)
        return;
    if (memchr(p, 0, n) != NULL) {
        v->failed = 1;
        return;
    }
    memcpy(dst, p, n);
    dst[n] = '\0';
}

size_t crn_view_left(const struct crn_view *v)
{
    return v->failed ? 0 : v->len - v->at;
}

uint64_t crn_hash(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

void crn_hash128(const void *data, size_t n, uint64_t seed, uint64_t ret[2])
{
    XXH128_hash_t h = XXH3_128bits_withSeed(data, n, seed);

    ret[0] = h.low64;
    ret[1] = h.high64;
}
