/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch memory of a thread. A slot grows and never shrinks: chunks of one stream have one
 * size. */
#include "encode/work.h"

#include <stdlib.h>

/* The most that a slot stores: a chunk that the worst codec has enlarged (FPC: by 1/16). */
#define SLOT_MAX (2 * CRN_CHUNK_MAX_BYTES)

struct crn_encode_work {
    struct {
        unsigned char *p;
        size_t n;
    } slot[CRN_SLOT_COUNT];
    struct {
        void *p;
        void (*destroy)(void *);
    } context[CRN_CONTEXT_COUNT];
};

cairn_err crn_work_new(struct crn_encode_work **ret, struct crn_errinfo *ei)
{
    struct crn_encode_work *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for an encoder");
    *ret = w;
    return CAIRN_OK;
}

void crn_work_free(struct crn_encode_work *w)
{
    int i;

    if (w == NULL)
        return;
    for (i = 0; i < CRN_SLOT_COUNT; i++)
        free(w->slot[i].p);
    for (i = 0; i < CRN_CONTEXT_COUNT; i++)
        if (w->context[i].p != NULL)
            w->context[i].destroy(w->context[i].p);
    free(w);
}

cairn_err crn_work_scratch(struct crn_encode_work *w, enum crn_slot slot, size_t n,
                           unsigned char **ret, struct crn_errinfo *ei)
{
    size_t rounded = (n + 4096) & ~(size_t)4095;

    if (n > SLOT_MAX)
        return CRN_DAMAGED(ei, "a chunk asks for %zu bytes of scratch memory", n);
    if (w->slot[slot].n < n || w->slot[slot].p == NULL) {
        free(w->slot[slot].p);
        w->slot[slot].n = 0;
        w->slot[slot].p = aligned_alloc(64, rounded);
        if (w->slot[slot].p == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "%zu bytes of scratch memory", n);
        w->slot[slot].n = rounded;
    }
    *ret = w->slot[slot].p;
    return CAIRN_OK;
}

size_t crn_work_bytes(const struct crn_encode_work *w)
{
    size_t sum = 0;
    int i;

    for (i = 0; i < CRN_SLOT_COUNT; i++)
        sum += w->slot[i].n;
    return sum;
}

void **crn_work_context(struct crn_encode_work *w, enum crn_context which, void (*destroy)(void *))
{
    w->context[which].destroy = destroy;
    return &w->context[which].p;
}
