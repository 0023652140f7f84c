/* SPDX-License-Identifier: BSD-3-Clause */
/* The arenas of the other ranks of the node, while this rank reads for them. A rank lends a slot that is
 * READING: its readers write into the image, the rank itself moves the slot on when all have ended
 * (together.c). Whoever dies meanwhile leaves a slot that says it was never read. */
#ifndef CRN_CLIENT_MATES_H
#define CRN_CLIENT_MATES_H

#include "client/session.h"
#include "restart/scatter.h"

struct crn_mates {
    cairn_session *s;
    struct crn_version *v; /* indexes of what is read are loaded */
    struct crn_lent *first;
};

/* crn_scatter.reach: where is the slot; arg is a struct crn_mates. */
int crn_mates_reach(void *arg, uint32_t rank, uint32_t where, struct crn_mate *ret);
void crn_mates_close(struct crn_mates *m);

#endif
