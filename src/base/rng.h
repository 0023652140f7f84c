/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers: unpredictable ones from the kernel for names and ids, and reproducible ones from
 * a seed for tests and simulations. */
#ifndef CRN_RNG_H
#define CRN_RNG_H

#include <stddef.h>
#include <stdint.h>

void crn_random_bytes(void *buf, size_t n); /* from getrandom(2) */
uint64_t crn_random_u64(void);

/* xoshiro256**: the same seed gives the same numbers everywhere. */
struct crn_rng {
    uint64_t s[4];
};
void crn_rng_seed(struct crn_rng *rng, uint64_t seed);
uint64_t crn_rng_u64(struct crn_rng *rng);
uint64_t crn_rng_below(struct crn_rng *rng, uint64_t bound); /* 0 .. bound-1; bound > 0 */
double crn_rng_unit(struct crn_rng *rng);                    /* [0, 1) */

#endif
