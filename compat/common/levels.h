/* SPDX-License-Identifier: BSD-3-Clause */
/* The redundancy schemes of other libraries, and what keeps their promise here. */
#ifndef CRN_COMPAT_LEVELS_H
#define CRN_COMPAT_LEVELS_H

#include <stdint.h>

#include "cairn/cairn.h"

struct crn_face_level {
    const char *name;    /* SCR's copy type or FTI's level */
    cairn_level level;   /* what the checkpoint reaches before the call returns: the call waits for
                            it, since only then all nodes know what all ranks have captured */
    const char *protect; /* of cairn_checkpoint_options; "rs" needs a number */
};

/* NULL: there is no such scheme. */
const struct crn_face_level *crn_face_level(const char *name);

/* The text for cairn_checkpoint_options. failures: nodes of a set that may be lost with "rs". Where the
 * nodes cannot carry the scheme the checkpoint has none, and reaches its level on the file system. */
#define CRN_FACE_SCHEME  32
#define CRN_FACE_SET_MAX 32 /* protect_set */
void crn_face_scheme(const struct crn_face_level *level, uint32_t failures,
                     char ret[CRN_FACE_SCHEME]);

#endif
