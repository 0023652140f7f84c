/* SPDX-License-Identifier: BSD-3-Clause */
/* A list in the order of use. It has as many entries as chunks fit, tens or hundreds, so that searching
 * it costs nothing beside decoding one. */
#include "encode/chunk_cache.h"

#include <stdlib.h>

struct cache_entry {
    struct cache_entry *next;
    struct crn_chunk_cache_key key;
    unsigned char bytes[];
};

struct crn_chunk_cache {
    size_t most;
    size_t used;
    struct cache_entry *first; /* used last */
};

struct crn_chunk_cache *crn_chunk_cache_new(size_t most_bytes)
{
    struct crn_chunk_cache *c = calloc(1, sizeof(*c));

    if (c != NULL)
        c->most = most_bytes;
    return c;
}

/* Removes what *at points to. */
static void cache_remove(struct crn_chunk_cache *c, struct cache_entry **at)
{
    struct cache_entry *e = *at;

    *at = e->next;
    c->used -= e->key.bytes;
    free(e);
}

void crn_chunk_cache_free(struct crn_chunk_cache *c)
{
    if (c == NULL)
        return;
    while (c->first != NULL)
        cache_remove(c, &c->first);
    free(c);
}

const unsigned char *crn_chunk_cache_find(struct crn_chunk_cache *c, struct crn_chunk_cache_key key)
{
    struct cache_entry **at;
    struct cache_entry *e;

    for (at = &c->first; (e = *at) != NULL; at = &e->next) {
        if (e->key.hash != key.hash || e->key.domain != key.domain || e->key.offset != key.offset ||
            e->key.bytes != key.bytes)
            continue;
        *at = e->next;
        e->next = c->first;
        c->first = e;
        return e->bytes;
    }
    return NULL;
}

unsigned char *crn_chunk_cache_room(struct crn_chunk_cache *c, struct crn_chunk_cache_key key)
{
    struct cache_entry **last;
    struct cache_entry *e;

    if (key.bytes > c->most)
        return NULL;
    while (c->first != NULL && c->used + key.bytes > c->most) {
        for (last = &c->first; (*last)->next != NULL; last = &(*last)->next)
            ;
        cache_remove(c, last);
    }
    e = malloc(sizeof(*e) + key.bytes);
    if (e == NULL)
        return NULL;
    e->key = key;
    e->next = c->first;
    c->first = e;
    c->used += key.bytes;
    return e->bytes;
}

void crn_chunk_cache_drop(struct crn_chunk_cache *c)
{
    cache_remove(c, &c->first);
}
