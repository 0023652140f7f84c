/* SPDX-License-Identifier: BSD-3-Clause */
/* Time as a test seam: the real clock, or a virtual one that tests and simulations advance. */
#ifndef CRN_CLOCK_H
#define CRN_CLOCK_H

#include <stdint.h>

struct crn_clock {
    int64_t (*mono_ns)(const struct crn_clock *clock); /* never goes back */
    int64_t (*wall_ns)(const struct crn_clock *clock); /* since 1970 */
};
const struct crn_clock *crn_clock_real(void);

/* A virtual clock: both times are now_ns. Set by its owner, read by any thread under its lock. */
struct crn_clock_virtual {
    struct crn_clock clock;
    int64_t now_ns;
};
void crn_clock_virtual_init(struct crn_clock_virtual *v, int64_t now_ns);

#endif
