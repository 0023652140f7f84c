/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/heap.h"

#include <stdlib.h>

int crn_heap_init(struct crn_heap *h, uint32_t capacity)
{
    uint32_t i;

    h->n = 0;
    h->key = calloc(capacity, sizeof(*h->key));
    h->where = calloc(capacity, sizeof(*h->where));
    h->at = calloc(capacity, sizeof(*h->at));
    if (h->key == NULL || h->where == NULL || h->at == NULL) {
        crn_heap_fini(h);
        return -1;
    }
    for (i = 0; i < capacity; i++)
        h->where[i] = CRN_HEAP_OUT;
    return 0;
}

void crn_heap_fini(struct crn_heap *h)
{
    free(h->key);
    free(h->where);
    free(h->at);
    *h = (struct crn_heap){0};
}

static int heap_before(const struct crn_heap *h, uint32_t a, uint32_t b)
{
    return h->key[a] < h->key[b] || (h->key[a] <= h->key[b] && a < b);
}

static void heap_put(struct crn_heap *h, uint32_t place, uint32_t item)
{
    h->at[place] = item;
    h->where[item] = place;
}

static void heap_rise(struct crn_heap *h, uint32_t place, uint32_t item)
{
    while (place > 0 && heap_before(h, item, h->at[(place - 1) / 2])) {
        heap_put(h, place, h->at[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(h, place, item);
}

static void heap_sink(struct crn_heap *h, uint32_t place, uint32_t item)
{
    for (;;) {
        uint32_t child = 2 * place + 1;

        if (child + 1 < h->n && heap_before(h, h->at[child + 1], h->at[child]))
            child++;
        if (child >= h->n || !heap_before(h, h->at[child], item))
            break;
        heap_put(h, place, h->at[child]);
        place = child;
    }
    heap_put(h, place, item);
}

void crn_heap_set(struct crn_heap *h, uint32_t item, double key)
{
    uint32_t place = h->where[item];
    int up = place == CRN_HEAP_OUT || key < h->key[item];

    h->key[item] = key;
    if (place == CRN_HEAP_OUT)
        place = h->n++;
    if (up)
        heap_rise(h, place, item);
    else
        heap_sink(h, place, item);
}

void crn_heap_remove(struct crn_heap *h, uint32_t item)
{
    uint32_t place = h->where[item];
    uint32_t last;

    if (place == CRN_HEAP_OUT)
        return;
    h->where[item] = CRN_HEAP_OUT;
    last = h->at[--h->n];
    if (last == item)
        return;
    if (place > 0 && heap_before(h, last, h->at[(place - 1) / 2]))
        heap_rise(h, place, last);
    else
        heap_sink(h, place, last);
}
