/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps the arenas of the node's other ranks while this rank reads for them. A rank lends a slot in
 * state READING; the node's reader writes into its image. The owner moves the slot on after all
 * readers have finished (together.c). If either process dies meanwhile, the slot stays READING and
 * so counts as never read. */
#ifndef CRN_CLIENT_MATES_H
#define CRN_CLIENT_MATES_H

#include "client/session.h"
#include "restart/scatter.h"

struct crn_mates {
    cairn_session *s;
    struct crn_version *v; /* with the indexes loaded of the files being read */
    struct crn_lent *first;
};

/* crn_scatter.reach: finds the memory of a lent slot; arg is a struct crn_mates. */
int crn_mates_reach(void *arg, uint32_t rank, uint32_t where, struct crn_mate *ret);
void crn_mates_close(struct crn_mates *m);

#endif
