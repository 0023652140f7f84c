/* SPDX-License-Identifier: BSD-3-Clause */
/* What each level includes. */
#include "base/level.h"

#define NONE     CAIRN_LEVEL_BIT(CAIRN_LEVEL_NONE)
#define CAPTURED (NONE | CAIRN_LEVEL_BIT(CAIRN_CAPTURED))

static const struct {
    cairn_level level;
    const char *name;
    uint64_t set;
} levels_table[] = {
    {CAIRN_LEVEL_NONE, "none", NONE},
    {CAIRN_CAPTURED, "captured", CAPTURED},
    {CAIRN_LOCAL, "local", CAPTURED | CAIRN_LEVEL_BIT(CAIRN_LOCAL)},
    {CAIRN_PROTECTED, "protected", CAPTURED | CAIRN_LEVEL_BIT(CAIRN_PROTECTED)},
    {CAIRN_PERSISTENT, "persistent",
     CAPTURED | CAIRN_LEVEL_BIT(CAIRN_LOCAL) | CAIRN_LEVEL_BIT(CAIRN_PROTECTED) |
         CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)},
};

#define LEVELS (sizeof(levels_table) / sizeof(levels_table[0]))

uint64_t crn_level_set(cairn_level level)
{
    size_t i;

    for (i = 0; i < LEVELS; i++)
        if (levels_table[i].level == level)
            return levels_table[i].set;
    return 0;
}

int crn_level_has(uint64_t levels, cairn_level level)
{
    return level == CAIRN_LEVEL_NONE ||
           (crn_level_is_known(level) && (levels & CAIRN_LEVEL_BIT(level)) != 0);
}

cairn_level crn_level_highest(uint64_t levels)
{
    size_t i = LEVELS;

    while (--i > 0 && !crn_level_has(levels, levels_table[i].level))
        ;
    return levels_table[i].level;
}

const char *crn_level_name(cairn_level level)
{
    size_t i;

    for (i = 0; i < LEVELS; i++)
        if (levels_table[i].level == level)
            return levels_table[i].name;
    return NULL;
}
