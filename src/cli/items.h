/* SPDX-License-Identifier: BSD-3-Clause */
/* The regions of all ranks of a version, as one list. */
#ifndef CRN_CLI_ITEMS_H
#define CRN_CLI_ITEMS_H

#include "restart/version.h"

struct cli_item {
    const struct crn_region *region; /* owned by the version */
    uint32_t rank;
    uint32_t index; /* of the region in its shard */
    uint32_t file_no;
    int is_encoded;
    uint64_t file_offset; /* of its first byte; 0 for an empty region. Encoded: in the streams */
};
struct cli_items {
    struct cli_item *item; /* by name, regions before files, then by rank */
    size_t n;
};

/* Loads all indexes. The items live as long as the version. */
CAIRN_CHECKED cairn_err crn_items_load(struct crn_version *v, struct cli_items *ret,
                                       struct crn_errinfo *ei);
void crn_items_free(struct cli_items *items);
/* Orders by name and kind: a region and a file may have the same name. */
int crn_items_compare(const struct cli_item *a, const struct cli_item *b);
/* The number of items from first on with its name and kind. */
size_t crn_items_group(const struct cli_items *items, size_t first);
/* First item of a region or file of this name; n if there is none. */
size_t crn_items_find(const struct cli_items *items, const char *name, int is_file);

#endif
