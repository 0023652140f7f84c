/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps of repeated blocks: accepted ones have correct sums and encode again to the same map. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "encode/dedup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct crn_map *m)
{
    struct crn_buf buf = {0};
    struct crn_map again;
    struct crn_view v;
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < m->n; i++) {
        if (m->items[i].bytes == 0 || m->items[i].source + m->items[i].bytes > m->new_bytes)
            abort();
        sum += m->items[i].bytes;
    }
    crn_map_encode(m, &buf);
    v = crn_view_of(buf.data, buf.len);
    if (sum != m->bytes || crn_map_decode(&v, &again, NULL) != CAIRN_OK || again.n != m->n ||
        (m->n > 0 && memcmp(again.items, m->items, m->n * sizeof(*m->items)) != 0))
        abort();
    crn_map_free(&again);
    crn_buf_free(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct crn_view v = crn_view_of(data, size);
    struct crn_map m;

    if (crn_map_decode(&v, &m, NULL) == CAIRN_OK) {
        check(&m);
        crn_map_free(&m);
    }
    return 0;
}
