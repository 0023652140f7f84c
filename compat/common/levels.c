/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table that says what survives what: partner copies and parity are not there yet, so what
 * promises to survive a lost node goes to the parallel file system. */
#include "common/levels.h"

#include <strings.h>

static const struct crn_face_level levels[] = {
    /* SCR: SCR_COPY_TYPE, TYPE of a CKPT line. */
    {"SINGLE", CAIRN_CAPTURED, 0},
    {"PARTNER", CAIRN_PERSISTENT, 1},
    {"XOR", CAIRN_PERSISTENT, 1},
    {"RS", CAIRN_PERSISTENT, 1},
    /* FTI. */
    {"L1", CAIRN_CAPTURED, 0},
    {"L2", CAIRN_PERSISTENT, 1},
    {"L3", CAIRN_PERSISTENT, 1},
    {"L4", CAIRN_PERSISTENT, 0},
};

const struct crn_face_level *crn_face_level(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (strcasecmp(levels[i].name, name) == 0)
            return &levels[i];
    return NULL;
}
