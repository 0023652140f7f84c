/* SPDX-License-Identifier: BSD-3-Clause */
/* On x86-64, uses streaming stores, which bypass the caches. Copies four pages in parallel, a strip
 * of each in turn, with all loads before the stores: this keeps more memory banks open, and the
 * stores leave as whole lines. Elsewhere it is memcpy: other processors detect streams by
 * themselves. */
#include "capture/stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define PAGE  4096
#define GROUP (4 * (size_t)PAGE)

#define AVX   __attribute__((target("avx")))

struct strip {
    __m256i a, b, c, d;
};

AVX static inline struct strip stream_load(const unsigned char *p)
{
    const __m256i *v = (const __m256i *)(const void *)p;

    return (struct strip){_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1),
                          _mm256_loadu_si256(v + 2), _mm256_loadu_si256(v + 3)};
}

AVX static inline void stream_store(unsigned char *p, struct strip s)
{
    __m256i *v = (__m256i *)(void *)p;

    _mm256_stream_si256(v, s.a);
    _mm256_stream_si256(v + 1, s.b);
    _mm256_stream_si256(v + 2, s.c);
    _mm256_stream_si256(v + 3, s.d);
}

AVX static inline void stream_prefetch(const unsigned char *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
    _mm_prefetch((const char *)p + 64, _MM_HINT_T0);
}

/* Copies four pages; dst is aligned to a vector. The prefetch runs one strip ahead, also past the
 * end: it never faults. */
AVX static void copy_group(unsigned char *dst, const unsigned char *src)
{
    size_t at, step = sizeof(struct strip);

    for (at = 0; at < PAGE; at += step) {
        struct strip s0, s1, s2, s3;

        stream_prefetch(src + at + step);
        stream_prefetch(src + at + step + PAGE);
        stream_prefetch(src + at + step + 2 * (size_t)PAGE);
        stream_prefetch(src + at + step + 3 * (size_t)PAGE);
        s0 = stream_load(src + at);
        s1 = stream_load(src + at + PAGE);
        s2 = stream_load(src + at + 2 * (size_t)PAGE);
        s3 = stream_load(src + at + 3 * (size_t)PAGE);
        __asm__ volatile("" ::: "memory"); /* keeps the compiler from mixing loads and stores */
        stream_store(dst + at, s0);
        stream_store(dst + at + PAGE, s1);
        stream_store(dst + at + 2 * (size_t)PAGE, s2);
        stream_store(dst + at + 3 * (size_t)PAGE, s3);
    }
}

AVX static void copy_groups(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    size_t at;

    for (at = 0; at < bytes; at += GROUP)
        copy_group(dst + at, src + at);
    _mm_sfence(); /* streaming stores are not ordered by a later release */
}

void crn_stream_copy(void *dst, const void *src, size_t bytes)
{
    unsigned char *to = dst;
    const unsigned char *from = src;
    size_t head = (64 - (uintptr_t)to % 64) % 64;
    size_t body;

    if (bytes < head + GROUP || !__builtin_cpu_supports("avx")) {
        memcpy(dst, src, bytes);
        return;
    }
    body = (bytes - head) / GROUP * GROUP;
    memcpy(to, from, head);
    copy_groups(to + head, from + head, body);
    memcpy(to + head + body, from + head + body, bytes - head - body);
}

#else

void crn_stream_copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

#endif
