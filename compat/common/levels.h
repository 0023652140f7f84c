/* SPDX-License-Identifier: BSD-3-Clause */
/* The redundancy schemes of other libraries, and the level of Cairn that keeps their promise. */
#ifndef CRN_COMPAT_LEVELS_H
#define CRN_COMPAT_LEVELS_H

#include "cairn/cairn.h"

struct crn_face_level {
    const char *name;  /* SCR's copy type or FTI's level */
    cairn_level level; /* what the checkpoint reaches before the call returns: the call waits for
                          it, since only then all nodes know what all ranks have captured */
    int is_raised;     /* Cairn has no equal level yet and takes the next safer one */
};

/* NULL: there is no such scheme. */
const struct crn_face_level *crn_face_level(const char *name);

#endif
