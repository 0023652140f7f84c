/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/elect.h"

#include <stdlib.h>

cairn_err crn_elect_files(const char *text, uint32_t nodes, uint32_t *ret, struct crn_errinfo *ei)
{
    unsigned long long files, per = 1;
    char *end;

    files = strtoull(text, &end, 10);
    if (*end == ':') {
        per = strtoull(end + 1, &end, 10);
        if (per > 0) /* rounded up: 5 nodes at 1:4 make 2 files */
            files = (files * nodes + per - 1) / per;
    }
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || files == 0 || per == 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "files: '%s' is neither a number of files nor a ratio to nodes such as 1:4",
                        text);
    *ret = files < nodes ? (uint32_t)files : nodes;
    return CAIRN_OK;
}

uint32_t crn_elect_leaders(const struct crn_config *cfg, const struct crn_fs_type *type,
                           uint64_t bytes)
{
    uint64_t most = CRN_LEADERS_AUTO;
    /* smaller amounts are sent faster than they are negotiated */
    uint64_t worth = bytes / (2 * cfg->block_bytes);

    if (cfg->leaders_per_file != 0)
        return (uint32_t)cfg->leaders_per_file;
    if (type->magic == CRN_FS_LUSTRE && cfg->stripe_count < most)
        most = cfg->stripe_count; /* two nodes in one stripe compete for its lock */
    if (worth < most)
        most = worth;
    return !type->is_shared || cfg->align_bytes < 4096 || most == 0 ? 1 : (uint32_t)most;
}

uint32_t crn_elect_group_of(uint32_t node, uint32_t nodes, uint32_t groups)
{
    return (uint32_t)((((uint64_t)node + 1) * groups - 1) / nodes);
}

uint32_t crn_elect_group_first(uint32_t group, uint32_t nodes, uint32_t groups)
{
    return (uint32_t)((uint64_t)group * nodes / groups);
}

uint32_t crn_elect(const uint64_t *bytes, uint32_t n)
{
    uint32_t leader = 0;
    uint32_t i;

    for (i = 1; i < n; i++)
        if (bytes[i] > bytes[leader])
            leader = i;
    return leader;
}

int crn_elect_is_among(const uint64_t *bytes, uint32_t n, uint32_t member, uint32_t count)
{
    uint32_t before = 0;
    uint32_t i;

    for (i = 0; i < n; i++)
        before += bytes[i] > bytes[member] || (bytes[i] == bytes[member] && i < member);
    return before < count;
}

uint32_t crn_elect_behind(const struct crn_group_state *groups, uint32_t n)
{
    uint64_t most = 0;
    uint32_t behind = n;
    uint32_t i;

    for (i = 0; i < n; i++) {
        const struct crn_group_state *g = &groups[i];

        if (g->needs_no_help || g->helpers + 1 >= g->members || g->bytes / (g->helpers + 1) <= most)
            continue;
        most = g->bytes / (g->helpers + 1);
        behind = i;
    }
    return behind;
}
