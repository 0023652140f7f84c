/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeded generator: xoshiro256** by Blackman and Vigna, seeded with splitmix64, as published. */
#include "base/rng.h"

#include <sys/random.h>

void crn_random_bytes(void *buf, size_t n)
{
    char *p = buf;

    while (n > 0) {
        ssize_t r = getrandom(p, n < 256 ? n : 256, 0);

        if (r > 0) {
            p += r;
            n -= (size_t)r;
        }
    }
}

uint64_t crn_random_u64(void)
{
    uint64_t v;

    crn_random_bytes(&v, sizeof(v));
    return v;
}

static uint64_t rng_rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void crn_rng_seed(struct crn_rng *rng, uint64_t seed)
{
    int i;

    for (i = 0; i < 4; i++) {
        uint64_t z = (seed += 0x9e3779b97f4a7c15U);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        rng->s[i] = z ^ (z >> 31);
    }
}

uint64_t crn_rng_u64(struct crn_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rng_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rng_rotl(s[3], 45);
    return result;
}

uint64_t crn_rng_below(struct crn_rng *rng, uint64_t bound)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t v;

    do
        v = crn_rng_u64(rng);
    while (v >= limit);
    return v % bound;
}

double crn_rng_unit(struct crn_rng *rng)
{
    return (double)(crn_rng_u64(rng) >> 11) * 0x1.0p-53;
}
