/* SPDX-License-Identifier: BSD-3-Clause */
/* Files in the format of KVTree, as cairn import reads them: every node can be reached once. */
#include <stdlib.h>

#include "cli/kvtree.h"
#include "fuzz.h"

static uint32_t count(const struct crn_kvtree *t, const struct crn_kvnode *of)
{
    const struct crn_kvnode *child;
    uint32_t n = 1;

    for (child = crn_kvtree_first(t, of); child != NULL; child = crn_kvtree_next(t, child))
        n += strlen(child->key) < UINT32_MAX ? count(t, child) : 0;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct crn_errinfo info = {0};
    struct crn_kvtree t;

    if (crn_kvtree_parse(data, size, 0, &t, &info) != CAIRN_OK)
        return 0;
    if (count(&t, t.node) != t.n)
        abort();
    crn_kvtree_free(&t);
    return 0;
}
