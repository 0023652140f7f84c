/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/items.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int crn_items_compare(const struct cli_item *a, const struct cli_item *b)
{
    int c = strcmp(a->region->name, b->region->name);

    return c != 0 ? c : (int)a->region->kind - (int)b->region->kind;
}

static int by_name_and_rank(const void *a, const void *b)
{
    const struct cli_item *x = a, *y = b;
    int c = crn_items_compare(x, y);

    return c != 0 ? c : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Extents are sorted by shard and region, so one pass finds the first of each. */
static void add_index(struct cli_items *items, const struct crn_index *x)
{
    uint64_t e = 0;
    uint32_t s, r;

    for (s = 0; s < x->nshards; s++)
        for (r = 0; r < x->shards[s].nregions; r++) {
            struct cli_item *item = &items->item[items->n++];

            item->region = &x->shards[s].regions[r];
            item->rank = x->shards[s].rank;
            item->index = r;
            item->file_no = x->file_no;
            item->is_encoded = x->nstreams > 0;
            while (e < x->nextents && (x->extents[e].shard < s ||
                                       (x->extents[e].shard == s && x->extents[e].region < r)))
                e++;
            if (e < x->nextents && x->extents[e].shard == s && x->extents[e].region == r)
                item->file_offset = x->extents[e].file_offset;
        }
}

static cairn_err items_count(struct crn_version *v, size_t *ret, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    const struct crn_index *x;
    cairn_err rc = CAIRN_OK;
    size_t n = 0;
    uint32_t f, s;

    for (f = 0; f < m->nfiles; f++) {
        rc = crn_version_index(v, f, &x, ei);
        if (rc != CAIRN_OK)
            return rc;
        for (s = 0; s < x->nshards; s++)
            n += x->shards[s].nregions;
    }
    *ret = n;
    return CAIRN_OK;
}

cairn_err crn_items_load(struct crn_version *v, struct cli_items *ret, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    struct cli_items items = {0};
    const struct crn_index *x;
    cairn_err rc;
    uint32_t f;
    size_t n;

    rc = items_count(v, &n, ei);
    if (rc != CAIRN_OK)
        return rc;
    items.item = calloc(n > 0 ? n : 1, sizeof(*items.item));
    if (items.item == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the list of %zu regions", n);
    for (f = 0; rc == CAIRN_OK && f < m->nfiles; f++) {
        rc = crn_version_index(v, f, &x, ei);
        if (rc == CAIRN_OK)
            add_index(&items, x);
    }
    if (rc != CAIRN_OK) {
        crn_items_free(&items);
        return rc;
    }
    qsort(items.item, items.n, sizeof(*items.item), by_name_and_rank);
    *ret = items;
    return CAIRN_OK;
}

void crn_items_free(struct cli_items *items)
{
    free(items->item);
    memset(items, 0, sizeof(*items));
}

size_t crn_items_group(const struct cli_items *items, size_t first)
{
    size_t i = first;

    while (i < items->n && crn_items_compare(&items->item[i], &items->item[first]) == 0)
        i++;
    return i - first;
}

size_t crn_items_find(const struct cli_items *items, const char *name, int is_file)
{
    size_t i;

    for (i = 0; i < items->n; i += crn_items_group(items, i))
        if (strcmp(items->item[i].region->name, name) == 0 &&
            is_file == (items->item[i].region->kind == CRN_REGION_FILE))
            return i;
    return items->n;
}
