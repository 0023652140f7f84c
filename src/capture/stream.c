/* SPDX-License-Identifier: BSD-3-Clause */
/* On x86-64, non-temporal stores. Four pages are copied side by side, a line of each in turn: more
 * banks of the memory are open at once, and loads of one page do not alias stores to another (as
 * glibc's memcpy does for sizes far above those of a piece here). Elsewhere memcpy: other processors
 * recognize streams by themselves. */
#include "capture/stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define PAGE   4096
#define PAGES  4 /* side by side */
#define STRIDE 128

__attribute__((target("avx"))) static inline void copy_stride(unsigned char *dst,
                                                              const unsigned char *src)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)src);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32));
    __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(src + 64));
    __m256i d = _mm256_loadu_si256((const __m256i *)(const void *)(src + 96));

    _mm256_stream_si256((__m256i *)(void *)dst, a);
    _mm256_stream_si256((__m256i *)(void *)(dst + 32), b);
    _mm256_stream_si256((__m256i *)(void *)(dst + 64), c);
    _mm256_stream_si256((__m256i *)(void *)(dst + 96), d);
}

/* dst is aligned to a line; bytes is a multiple of PAGES pages. */
__attribute__((target("avx"))) static void copy_pages(unsigned char *dst, const unsigned char *src,
                                                      size_t bytes)
{
    size_t group, at, i;

    for (group = 0; group < bytes; group += (size_t)PAGES * PAGE)
        for (at = group; at < group + PAGE; at += STRIDE) {
            for (i = at; i < at + (size_t)PAGES * PAGE; i += PAGE) {
                _mm_prefetch(src + i + STRIDE, _MM_HINT_T0);
                _mm_prefetch(src + i + STRIDE + 64, _MM_HINT_T0);
            }
            for (i = at; i < at + (size_t)PAGES * PAGE; i += PAGE)
                copy_stride(dst + i, src + i);
        }
    _mm_sfence(); /* these stores are not ordered by a later release */
}

void crn_stream_copy(void *dst, const void *src, size_t bytes)
{
    unsigned char *to = dst;
    const unsigned char *from = src;
    size_t head = (64 - (uintptr_t)to % 64) % 64;
    size_t body;

    if (bytes < head + (size_t)PAGES * PAGE || !__builtin_cpu_supports("avx")) {
        memcpy(dst, src, bytes);
        return;
    }
    body = (bytes - head) / ((size_t)PAGES * PAGE) * ((size_t)PAGES * PAGE);
    memcpy(to, from, head);
    copy_pages(to + head, from + head, body);
    memcpy(to + head + body, from + head + body, bytes - head - body);
}

#else

void crn_stream_copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

#endif
