/* SPDX-License-Identifier: BSD-3-Clause */
/* Which checkpoints a session's tiers know, from the capture or the first hint until no memory has them
 * and nobody asks for them: a list of all, and an index by name and version. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/tiers_impl.h"

static struct crn_held **bucket(struct crn_tiers *x, const char *name, int64_t version)
{
    uint64_t hash = (uint64_t)version;

    for (; *name != '\0'; name++)
        hash = hash * 31 + (unsigned char)*name;
    return &x->index[hash % HELD_INDEX];
}

struct crn_held *crn_held_find(struct crn_tiers *x, const char *name, int64_t version)
{
    struct crn_held *h = *bucket(x, name, version);

    while (h != NULL && (h->info.version != version || strcmp(h->info.name, name) != 0))
        h = h->index_next;
    return h;
}

void crn_held_index(struct crn_tiers *x, struct crn_held *h)
{
    struct crn_held **first = bucket(x, h->info.name, h->info.version);

    h->index_next = *first;
    *first = h;
}

void crn_held_unindex(struct crn_tiers *x, struct crn_held *h)
{
    struct crn_held **link = bucket(x, h->info.name, h->info.version);

    while (*link != NULL && *link != h)
        link = &(*link)->index_next;
    if (*link != NULL)
        *link = h->index_next;
}

cairn_err crn_held_add(struct crn_tiers *x, const struct crn_slot_info *info, struct crn_held **ret,
                       struct crn_errinfo *ei)
{
    struct crn_held *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a checkpoint in the tiers");
    h->info = *info;
    crn_held_index(x, h);
    crn_lock(&x->mu);
    h->next = x->all;
    x->all = h;
    crn_unlock(&x->mu);
    x->nheld++;
    *ret = h;
    return CAIRN_OK;
}

void crn_held_free(struct crn_held *h)
{
    crn_image_free(&h->image);
    crn_buf_free(&h->descriptor);
    crn_shard_free(&h->shard);
    free(h);
}

int crn_held_free_if_gone(struct crn_tiers *x, struct crn_held **link)
{
    struct crn_held *h = *link;
    int t;

    for (t = 0; t + 1 < x->ntiers; t++)
        if (crn_cache_state(x->cache, crn_held_key(h), t) != CRN_LIFE_INIT)
            return 0;
    crn_cache_forget(x->cache, crn_held_key(h));
    crn_held_unindex(x, h);
    crn_lock(&x->mu);
    *link = h->next;
    crn_unlock(&x->mu);
    x->nheld--;
    crn_held_free(h);
    return 1;
}

void crn_held_prune(struct crn_tiers *x)
{
    struct crn_held **link = &x->all;

    if (x->nheld < x->prune_at)
        return;
    while (*link != NULL) {
        struct crn_held *h = *link;
        int is_done;

        crn_lock(&x->mu);
        is_done = h->is_flushed || h->is_dropped || h->is_lost ||
                  (!h->is_known && h->info.id.seq == 0); /* only ever announced */
        crn_unlock(&x->mu);
        if (is_done && h->is_replaced)
            crn_cache_forget(x->cache, crn_held_key(h));
        if (!is_done || h->nhints > 0 || !crn_held_free_if_gone(x, link))
            link = &h->next;
    }
    x->prune_at = 2 * x->nheld > HELD_PRUNE_AT ? 2 * x->nheld : HELD_PRUNE_AT;
}

struct crn_held *crn_held_find_seq(const struct crn_tiers *x, uint64_t seq)
{
    struct crn_held *h = x->all;

    while (h != NULL &&
           (h->info.id.seq != seq || memcmp(h->info.id.run, x->s->run, sizeof(x->s->run)) != 0))
        h = h->next;
    return h;
}

const struct crn_shard *crn_held_shard(const struct crn_held *h)
{
    return &h->shard;
}

const struct crn_image *crn_held_image(const struct crn_held *h)
{
    return &h->image;
}
