/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUZZ_CONFIG_H
#define FUZZ_CONFIG_H

#include "base/config.h"

/* The defaults, made once: they take longer than most inputs. */
static inline struct crn_config fuzz_defaults(void)
{
    static struct crn_config defaults;

    if (defaults.block_bytes == 0)
        crn_config_defaults(&defaults);
    return defaults;
}

#endif
