/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table that says which scheme of Cairn survives what a scheme of another library survives. */
#include "common/levels.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct crn_face_level levels[] = {
    /* SCR: SCR_COPY_TYPE, TYPE of a CKPT line. */
    {"SINGLE", CAIRN_CAPTURED, "none"},
    {"PARTNER", CAIRN_PROTECTED, "partner"},
    {"XOR", CAIRN_PROTECTED, "xor"},
    {"RS", CAIRN_PROTECTED, "rs"},
    /* FTI. */
    {"L1", CAIRN_CAPTURED, "none"},
    {"L2", CAIRN_PROTECTED, "partner"},
    {"L3", CAIRN_PROTECTED, "rs"},
    {"L4", CAIRN_PERSISTENT, "none"},
};

const struct crn_face_level *crn_face_level(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (strcasecmp(levels[i].name, name) == 0)
            return &levels[i];
    return NULL;
}

void crn_face_scheme(const struct crn_face_level *level, uint32_t failures,
                     char ret[CRN_FACE_SCHEME])
{
    if (strcmp(level->protect, "rs") == 0)
        (void)snprintf(ret, CRN_FACE_SCHEME, "rs:%u|none", failures > 0 ? failures : 1);
    else
        (void)snprintf(ret, CRN_FACE_SCHEME, "%s%s", level->protect,
                       strcmp(level->protect, "none") == 0 ? "" : "|none");
}
