/* SPDX-License-Identifier: BSD-3-Clause */
/* Levels are a set, not a ladder: what a checkpoint has reached is a set of bits CAIRN_LEVEL_BIT.
 * All comparisons of levels go through these functions. */
#ifndef CRN_BASE_LEVEL_H
#define CRN_BASE_LEVEL_H

#include "cairn/cairn.h"

/* The level and all that it includes; 0 for a number that is no level. */
uint64_t crn_level_set(cairn_level level);
static inline int crn_level_is_known(cairn_level level)
{
    return crn_level_set(level) != 0;
}
/* Does a set contain the level? Every set contains CAIRN_LEVEL_NONE. */
int crn_level_has(uint64_t levels, cairn_level level);
/* The level with the highest number in a set. */
cairn_level crn_level_highest(uint64_t levels);
/* "captured"; NULL for a number that is no level. */
const char *crn_level_name(cairn_level level);

#endif
