/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables inside the files of a shard, as another node describes them. Whatever the input says, the
 * parts cover each region of the shard once, in order. */
#include "encode/parts.h"
#include "fuzz.h"

static struct crn_region regions[] = {
    {.name = "a.h5", .kind = CRN_REGION_FILE, .ndims = 1, .dims = {5000}, .bytes = 5000},
    {.name = "x", .type = CAIRN_F64, .ndims = 1, .dims = {10}, .bytes = 80},
    {.name = "b.nc", .kind = CRN_REGION_FILE, .ndims = 1, .dims = {300}, .bytes = 300},
};
static const struct crn_shard shard = {.nregions = 3, .regions = regions};

static void check(const struct crn_parts *p)
{
    uint64_t at[3] = {0};
    uint32_t i;

    for (i = 0; i < p->shard.nregions; i++) {
        uint32_t region = p->part[i].region;

        if (region >= 3 || p->part[i].offset != at[region])
            abort();
        at[region] += p->shard.regions[i].bytes;
        if (crn_parts_find(p, region, p->part[i].offset) != i)
            abort();
    }
    for (i = 0; i < 3; i++)
        if (at[i] != regions[i].bytes)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1); /* so that an access one byte beyond is detected */
    struct crn_parts *p = NULL;

    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    if (crn_parts_decode(copy, size, &shard, &p, NULL) == CAIRN_OK)
        check(p);
    crn_parts_close(p);
    free(copy);
    return 0;
}
