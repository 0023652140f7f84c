/* SPDX-License-Identifier: BSD-3-Clause */
/* Which nodes form a set: as many as possible of different failure domains, whatever their order. */
#ifndef CRN_PROTECT_SETS_H
#define CRN_PROTECT_SETS_H

#include "protect/scheme.h"

/* Forms the sets. domain[i] is the failure domain of node i, any number; nodes of one domain are
 * lost together. size: wanted nodes of a set, 0 for the scheme's default; leftover nodes make some
 * sets larger, and fewer nodes form one set. ret_set[i] is the number of node i's set; sets are
 * numbered from 0, without gaps.
 *
 * CAIRN_ECONFIG if the loss of one domain could take more nodes of a set than the scheme survives; the
 * text names the strongest scheme that these nodes can carry. */
CAIRN_CHECKED cairn_err crn_sets_form(const uint64_t *domain, uint32_t nodes,
                                      struct crn_protection s, uint32_t size, uint32_t *ret_set,
                                      struct crn_errinfo *ei);
/* The members of a node's set, ascending; at most CRN_SET_MAX. Returns how many. */
uint32_t crn_sets_members(const uint32_t *set, uint32_t nodes, uint32_t node,
                          uint32_t ret[CRN_SET_MAX]);

#endif
