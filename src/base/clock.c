/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts); /* cannot fail for these two */
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t real_mono(const struct crn_clock *clock)
{
    (void)clock;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t real_wall(const struct crn_clock *clock)
{
    (void)clock;
    return read_clock(CLOCK_REALTIME);
}

const struct crn_clock *crn_clock_real(void)
{
    static const struct crn_clock real = {real_mono, real_wall};

    return &real;
}

static int64_t virtual_now(const struct crn_clock *clock)
{
    return ((const struct crn_clock_virtual *)clock)->now_ns;
}

void crn_clock_virtual_init(struct crn_clock_virtual *v, int64_t now_ns)
{
    v->clock.mono_ns = virtual_now;
    v->clock.wall_ns = virtual_now;
    v->now_ns = now_ns;
}
