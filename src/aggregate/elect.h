/* SPDX-License-Identifier: BSD-3-Clause */
/* Which node writes what: nodes form K groups of neighbours, each group writes one file, and for
 * each checkpoint the node with the most local bytes leads its group. Pure: every node that
 * knows the same sizes elects the same leader. */
#ifndef CRN_AGGREGATE_ELECT_H
#define CRN_AGGREGATE_ELECT_H

#include "base/config.h"
#include "base/fs_type.h"

#define CRN_LEADERS_AUTO 4 /* leaders_per_file = auto: at most */

/* Number of files for this many nodes, from "8" (a number) or "1:4" (files to nodes); 1 ..
 * nodes. */
CAIRN_CHECKED cairn_err crn_elect_files(const char *text, uint32_t nodes, uint32_t *ret,
                                        struct crn_errinfo *ei);
/* The most nodes of a group that write a file of this size together on this file system. */
uint32_t crn_elect_leaders(const struct crn_config *cfg, const struct crn_fs_type *type,
                           uint64_t bytes);
/* Groups are contiguous and differ by at most one node. */
uint32_t crn_elect_group_of(uint32_t node, uint32_t nodes, uint32_t groups);
uint32_t crn_elect_group_first(uint32_t group, uint32_t nodes, uint32_t groups);
/* Index of the leader among the n members of a group: most bytes, then the lowest index. */
uint32_t crn_elect(const uint64_t *bytes, uint32_t n);
/* Is the member one of the count members with the most bytes (ties: the lowest index)? The first
 * of them leads, the others assist. */
int crn_elect_is_among(const uint64_t *bytes, uint32_t n, uint32_t member, uint32_t count);

/* A group whose file is being written, as the first node sees it. */
struct crn_group_state {
    uint64_t bytes;
    uint32_t members;
    uint32_t helpers;  /* leaders of other groups that assist it */
    int needs_no_help; /* its file is complete, or all its data is being written */
};
/* The group that an idle leader of another group should help: the one with the most bytes per
 * writing node; n if none. A group gets at most as many helpers as it has followers to fetch
 * from. */
uint32_t crn_elect_behind(const struct crn_group_state *groups, uint32_t n);

#endif
