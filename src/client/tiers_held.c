/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoints that a session's tiers know: a list of all, an index by name and version, and one
 * by capture number. An entry lives from the capture or the first hint until no memory has it and
 * no hint asks for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/tiers_impl.h"

static struct crn_tiered **tiers_held_bucket(struct crn_tiers *x, const char *name, int64_t version)
{
    uint64_t hash = (uint64_t)version;

    for (; *name != '\0'; name++)
        hash = hash * 31 + (unsigned char)*name;
    return &x->index[hash & (x->nindex - 1)];
}

struct crn_tiered *crn_held_find(struct crn_tiers *x, const char *name, int64_t version)
{
    struct crn_tiered *h = x->nindex > 0 ? *tiers_held_bucket(x, name, version) : NULL;

    while (h != NULL && (h->info.version != version || strcmp(h->info.name, name) != 0))
        h = h->index_next;
    return h;
}

void crn_held_index(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_tiered **first = tiers_held_bucket(x, h->info.name, h->info.version);

    h->index_next = *first;
    *first = h;
}

void crn_held_unindex(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_tiered **link = tiers_held_bucket(x, h->info.name, h->info.version);

    while (*link != NULL && *link != h)
        link = &(*link)->index_next;
    if (*link != NULL)
        *link = h->index_next;
}

static struct crn_tiered **seq_bucket(struct crn_tiers *x, uint64_t seq)
{
    return &x->by_seq[seq & (x->nindex - 1)];
}

static void index_seq(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_tiered **first = seq_bucket(x, h->info.id.seq);

    h->seq_key = h->info.id.seq;
    h->seq_next = *first;
    *first = h;
}

static void unindex_seq(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_tiered **link = seq_bucket(x, h->seq_key);

    while (*link != NULL && *link != h)
        link = &(*link)->seq_next;
    if (*link != NULL)
        *link = h->seq_next;
}

/* Doubles the buckets. Within a bucket the newest of a name and version stays first. */
static cairn_err grow_index(struct crn_tiers *x, struct crn_errinfo *ei)
{
    size_t n = x->nindex != 0 ? 2 * x->nindex : HELD_INDEX;
    struct crn_tiered **index = calloc(n, sizeof(struct crn_tiered *));
    struct crn_tiered **by_seq = calloc(n, sizeof(struct crn_tiered *));
    struct crn_tiered **old = x->index;
    size_t nold = x->nindex;
    struct crn_tiered *h;
    size_t i;

    if (index == NULL || by_seq == NULL) {
        free(index);
        free(by_seq);
        return x->nindex != 0 ? CAIRN_OK : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the tiers");
    }
    free(x->by_seq);
    x->index = index;
    x->by_seq = by_seq;
    x->nindex = n;
    for (i = 0; i < nold; i++) {
        struct crn_tiered *reversed = NULL;

        while ((h = old[i]) != NULL) {
            old[i] = h->index_next;
            h->index_next = reversed;
            reversed = h;
        }
        while ((h = reversed) != NULL) {
            reversed = h->index_next;
            crn_held_index(x, h);
        }
    }
    for (h = x->all; h != NULL; h = h->next)
        index_seq(x, h);
    free(old);
    return CAIRN_OK;
}

cairn_err crn_held_add(struct crn_tiers *x, const struct crn_slot_info *info,
                       struct crn_tiered **ret, struct crn_errinfo *ei)
{
    cairn_err rc = x->nheld >= x->nindex ? grow_index(x, ei) : CAIRN_OK;
    struct crn_tiered *h = rc == CAIRN_OK ? calloc(1, sizeof(*h)) : NULL;

    if (rc != CAIRN_OK)
        return rc;
    if (h == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a checkpoint in the tiers");
    h->info = *info;
    crn_held_index(x, h);
    index_seq(x, h);
    crn_lock(&x->mu);
    h->next = x->all;
    x->all = h;
    crn_unlock(&x->mu);
    x->nheld++;
    *ret = h;
    return CAIRN_OK;
}

void crn_held_capture(struct crn_tiers *x, struct crn_tiered *h, const struct crn_slot_info *info)
{
    unindex_seq(x, h);
    h->info = *info;
    index_seq(x, h);
}

void crn_held_told_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu)
{
    h->is_told = h->is_in_told = 1;
    h->told_prev = x->told_last;
    h->told_next = NULL;
    *(x->told_last != NULL ? &x->told_last->told_next : &x->told) = h;
    x->told_last = h;
}

void crn_held_untold_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu)
{
    if (!h->is_in_told)
        return;
    h->is_in_told = 0;
    if (x->told_at == h)
        x->told_at = h->told_next;
    *(h->told_prev != NULL ? &h->told_prev->told_next : &x->told) = h->told_next;
    *(h->told_next != NULL ? &h->told_next->told_prev : &x->told_last) = h->told_prev;
}

void crn_held_free(struct crn_tiered *h)
{
    crn_image_free(&h->image);
    crn_buf_free(&h->descriptor);
    crn_shard_free(&h->shard);
    free(h);
}

int crn_held_free_if_gone(struct crn_tiers *x, struct crn_tiered **link)
{
    struct crn_tiered *h = *link;
    int t;

    for (t = 0; t + 1 < x->ntiers; t++)
        if (crn_cache_state(x->cache, crn_held_key(h), t) != CRN_LIFE_INIT)
            return 0;
    crn_cache_forget(x->cache, crn_held_key(h));
    crn_held_unindex(x, h);
    unindex_seq(x, h);
    crn_lock(&x->mu);
    crn_held_untold_locked(x, h);
    *link = h->next;
    crn_unlock(&x->mu);
    x->nheld--;
    crn_held_free(h);
    return 1;
}

void crn_held_prune(struct crn_tiers *x)
{
    struct crn_tiered **link = &x->all;

    if (x->nheld < x->prune_at)
        return;
    while (*link != NULL) {
        struct crn_tiered *h = *link;
        int is_done;

        crn_lock(&x->mu);
        is_done = h->is_flushed || h->is_dropped || h->is_lost ||
                  (!h->is_known && h->info.id.seq == 0); /* only hinted */
        crn_unlock(&x->mu);
        if (is_done && h->is_replaced)
            crn_cache_forget(x->cache, crn_held_key(h));
        if (!is_done || h->nhints > 0 || !crn_held_free_if_gone(x, link))
            link = &h->next;
    }
    x->prune_at = 2 * x->nheld > HELD_PRUNE_AT ? 2 * x->nheld : HELD_PRUNE_AT;
}

struct crn_tiered *crn_held_find_seq(struct crn_tiers *x, uint64_t seq)
{
    struct crn_tiered *h = x->nindex > 0 ? *seq_bucket(x, seq) : NULL;

    while (h != NULL &&
           (h->info.id.seq != seq || memcmp(h->info.id.run, x->s->run, sizeof(x->s->run)) != 0))
        h = h->seq_next;
    return h;
}

const struct crn_shard *crn_held_shard(const struct crn_tiered *h)
{
    return &h->shard;
}

const struct crn_image *crn_held_image(const struct crn_tiered *h)
{
    return &h->image;
}
