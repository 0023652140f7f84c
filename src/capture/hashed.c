/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksums equal those of the XXH3 library. XXH3 consumes long inputs in stripes of 64 bytes,
 * 16 to a block, into eight accumulators. The loops here process whole blocks; the library starts
 * and finishes each sum through its state struct. That struct is internal to the library, so a
 * self-test compares the results once per process. If they differ, or without wide vectors, bytes
 * are copied first and hashed afterwards. */
#include "capture/hashed.h"

#include <pthread.h>
#include <string.h>

#include "base/buf.h"

/* Hashes the destination: the source may have changed since. */
static void copy_then_sum(const struct crn_hashed_copy *copies, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
        *copies[i].hash = crn_hash(copies[i].dst, copies[i].bytes);
    }
}

#if defined(__x86_64__)
#define XXH_STATIC_LINKING_ONLY
#include <immintrin.h>
#ifdef CRN_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#define STRIPE    64U
#define STRIPES   16U /* in a block; each has its own key in the secret */
#define BLOCK     (STRIPE * STRIPES)
#define KEY_STEP  8U
#define LAST_KEY  (STRIPES * KEY_STEP)
#define PRIME32_1 0x9E3779B1U
#define AHEAD     1024 /* bytes to prefetch ahead; measured */

/* A copy in progress. */
struct hashed_progress {
    unsigned char *dst;
    const unsigned char *src;
    void *acc;
};

/* 64 bytes in two vectors. --------------------------------------------------------------------- */

#define WIDE    __attribute__((target("avx2")))
#define NAME(x) x##_avx2

struct stripe_avx2 {
    __m256i v[2];
};

WIDE static inline struct stripe_avx2 load_avx2(const void *p)
{
    const __m256i *v = p;

    return (struct stripe_avx2){{_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)}};
}

WIDE static inline void keep_avx2(void *p, struct stripe_avx2 s)
{
    _mm256_storeu_si256((__m256i *)p, s.v[0]);
    _mm256_storeu_si256((__m256i *)p + 1, s.v[1]);
}

WIDE static inline void stream_avx2(unsigned char *p, struct stripe_avx2 s)
{
    _mm256_stream_si256((__m256i *)(void *)p, s.v[0]);
    _mm256_stream_si256((__m256i *)(void *)p + 1, s.v[1]);
}

/* Adds to each accumulator the neighbour's word, and the product of the two halves of its own word
 * XOR key. */
WIDE static inline __m256i add_half(__m256i acc, __m256i x, __m256i key)
{
    __m256i mixed = _mm256_xor_si256(x, key);
    __m256i product = _mm256_mul_epu32(mixed, _mm256_shuffle_epi32(mixed, _MM_SHUFFLE(3, 3, 1, 1)));
    __m256i neighbour = _mm256_shuffle_epi32(x, _MM_SHUFFLE(1, 0, 3, 2));

    return _mm256_add_epi64(product, _mm256_add_epi64(acc, neighbour));
}

WIDE static inline struct stripe_avx2 add_avx2(struct stripe_avx2 acc, struct stripe_avx2 x,
                                               const unsigned char *key)
{
    struct stripe_avx2 k = load_avx2(key);

    return (struct stripe_avx2){
        {add_half(acc.v[0], x.v[0], k.v[0]), add_half(acc.v[1], x.v[1], k.v[1])}};
}

WIDE static inline __m256i scramble_half(__m256i acc, __m256i key)
{
    __m256i prime = _mm256_set1_epi32((int)PRIME32_1);
    __m256i x = _mm256_xor_si256(_mm256_xor_si256(acc, _mm256_srli_epi64(acc, 47)), key);
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), prime);

    return _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64(high, 32));
}

WIDE static inline struct stripe_avx2 scramble_avx2(struct stripe_avx2 acc,
                                                    const unsigned char *key)
{
    struct stripe_avx2 k = load_avx2(key);

    return (struct stripe_avx2){{scramble_half(acc.v[0], k.v[0]), scramble_half(acc.v[1], k.v[1])}};
}

#include "capture/hashed_loops.h"
#undef WIDE
#undef NAME

/* 64 bytes in one vector. ---------------------------------------------------------------------- */

#define WIDE    __attribute__((target("avx512f")))
#define NAME(x) x##_avx512

struct stripe_avx512 {
    __m512i v;
};

WIDE static inline struct stripe_avx512 load_avx512(const void *p)
{
    return (struct stripe_avx512){_mm512_loadu_si512(p)};
}

WIDE static inline void keep_avx512(void *p, struct stripe_avx512 s)
{
    _mm512_storeu_si512(p, s.v);
}

WIDE static inline void stream_avx512(unsigned char *p, struct stripe_avx512 s)
{
    _mm512_stream_si512((__m512i *)(void *)p, s.v);
}

WIDE static inline struct stripe_avx512 add_avx512(struct stripe_avx512 acc, struct stripe_avx512 x,
                                                   const unsigned char *key)
{
    __m512i mixed = _mm512_xor_si512(x.v, _mm512_loadu_si512(key));
    __m512i product = _mm512_mul_epu32(
        mixed, _mm512_shuffle_epi32(mixed, (_MM_PERM_ENUM)_MM_SHUFFLE(3, 3, 1, 1)));
    __m512i neighbour = _mm512_shuffle_epi32(x.v, (_MM_PERM_ENUM)_MM_SHUFFLE(1, 0, 3, 2));

    return (struct stripe_avx512){_mm512_add_epi64(product, _mm512_add_epi64(acc.v, neighbour))};
}

WIDE static inline struct stripe_avx512 scramble_avx512(struct stripe_avx512 acc,
                                                        const unsigned char *key)
{
    __m512i prime = _mm512_set1_epi32((int)PRIME32_1);
    __m512i x = _mm512_xor_si512(_mm512_xor_si512(acc.v, _mm512_srli_epi64(acc.v, 47)),
                                 _mm512_loadu_si512(key));
    __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), prime);

    return (struct stripe_avx512){
        _mm512_add_epi64(_mm512_mul_epu32(x, prime), _mm512_slli_epi64(high, 32))};
}

#include "capture/hashed_loops.h"
#undef WIDE
#undef NAME

/* Chunks. -------------------------------------------------------------------------------------- */

/* Loops over whole blocks. */
struct loops {
    void (*copy_all)(const struct hashed_progress *l, uint64_t bytes, const unsigned char *secret);
    void (*copy_one)(const struct hashed_progress *l, uint64_t bytes, const unsigned char *secret);
};

static const struct loops avx512 = {copy_all_avx512, copy_one_avx512};
static const struct loops avx2 = {copy_all_avx2, copy_one_avx2};

/* Bytes that the loops may process. The last two blocks are left to the library: it must finish the
 * sum itself, and its state needs the 64 bytes before the end. */
static uint64_t whole_blocks(const struct crn_hashed_copy *c)
{
    if (c->bytes <= 2 * (uint64_t)BLOCK || (uintptr_t)c->dst % STRIPE != 0)
        return 0;
    return (c->bytes - 1) / BLOCK * BLOCK - BLOCK;
}

/* Hands the sum over to the library. After whole blocks the accumulators and the length are its
 * whole state. */
static void end_sum(const struct crn_hashed_copy *c, uint64_t done, XXH3_state_t *state)
{
    unsigned char *dst = (unsigned char *)c->dst + done;

    memcpy(dst, (const unsigned char *)c->src + done, c->bytes - done);
    state->totalLen = done;
    (void)XXH3_64bits_update(state, dst, c->bytes - done); /* fails only for NULL */
    *c->hash = XXH3_64bits_digest(state);
}

static void copy_by(const struct loops *loops, const struct crn_hashed_copy *c, int n)
{
    XXH3_state_t state[CRN_HASHED_COPIES];
    struct hashed_progress copy[CRN_HASHED_COPIES];
    uint64_t common = n == CRN_HASHED_COPIES ? UINT64_MAX : 0; /* bytes done side by side */
    int i;

    for (i = 0; i < n; i++) {
        (void)XXH3_64bits_reset(&state[i]);
        copy[i] = (struct hashed_progress){c[i].dst, c[i].src, state[i].acc};
        if (whole_blocks(&c[i]) < common)
            common = whole_blocks(&c[i]);
    }
    if (common > 0)
        loops->copy_all(copy, common, state[0].extSecret);
    for (i = 0; i < n; i++) {
        uint64_t whole = whole_blocks(&c[i]);

        copy[i].dst += common;
        copy[i].src += common;
        if (whole > common)
            loops->copy_one(&copy[i], whole - common, state[0].extSecret);
        end_sum(&c[i], whole, &state[i]);
    }
}

/* Self-test: do the loops and this build of the library agree? */
static int is_right(const struct loops *loops)
{
    enum { EACH = 5 * BLOCK };
    static unsigned char from[CRN_HASHED_COPIES * EACH];
    static unsigned char to[sizeof(from)] __attribute__((aligned(64)));
    struct crn_hashed_copy c[CRN_HASHED_COPIES];
    uint64_t hash[CRN_HASHED_COPIES];
    XXH3_state_t state;
    int same = 1;
    size_t i;

    (void)XXH3_64bits_reset(&state);
    if (state.extSecret == NULL)
        return 0;
    for (i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 2654435761U >> 9);
    for (i = 0; i < CRN_HASHED_COPIES; i++)
        c[i] = (struct crn_hashed_copy){to + i * EACH, from + i * EACH, EACH - i, &hash[i]};
    copy_by(loops, c, CRN_HASHED_COPIES);
    for (i = 0; i < CRN_HASHED_COPIES; i++)
        same &= hash[i] == crn_hash(c[i].src, c[i].bytes) &&
                memcmp(c[i].dst, c[i].src, c[i].bytes) == 0;
    return same;
}

static int is_here[CRN_HASHED_WAYS];

static void hashed_look(void)
{
    is_here[CRN_HASHED_AVX512] = __builtin_cpu_supports("avx512f") && is_right(&avx512);
    is_here[CRN_HASHED_AVX2] = __builtin_cpu_supports("avx2") && is_right(&avx2);
    is_here[CRN_HASHED_PLAIN] = 1;
}

int crn_hashed_has(enum crn_hashed_way way)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, hashed_look);
    return is_here[way];
}

void crn_hashed_copy_by(enum crn_hashed_way way, const struct crn_hashed_copy *copies, int n)
{
    if (way == CRN_HASHED_PLAIN)
        copy_then_sum(copies, n);
    else
        copy_by(way == CRN_HASHED_AVX512 ? &avx512 : &avx2, copies, n);
}

#else

int crn_hashed_has(enum crn_hashed_way way)
{
    return way == CRN_HASHED_PLAIN;
}

void crn_hashed_copy_by(enum crn_hashed_way way, const struct crn_hashed_copy *copies, int n)
{
    (void)way;
    copy_then_sum(copies, n);
}

#endif

enum crn_hashed_way crn_hashed_way(void)
{
    enum crn_hashed_way way = 0;

    while (!crn_hashed_has(way))
        way++;
    return way;
}
