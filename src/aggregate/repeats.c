/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/repeats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/thread.h"

struct repeats_entry {
    struct crn_print print;
    const struct crn_stream *stream; /* NULL: empty */
};

struct crn_repeats {
    uint64_t seed;
    struct crn_mutex mu;
    struct repeats_entry *table; /* mu; open addressing, at most half full */
    size_t size;                 /* a power of two, or 0 */
    size_t used;
};

cairn_err crn_repeats_open(struct crn_repeats **ret, struct crn_errinfo *ei)
{
    struct crn_repeats *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of repeated streams");
    crn_random_bytes(&r->seed, sizeof(r->seed));
    crn_mutex_init(&r->mu, CRN_RANK_LEAF);
    *ret = r;
    return CAIRN_OK;
}

void crn_repeats_close(struct crn_repeats *r)
{
    if (r == NULL)
        return;
    crn_mutex_fini(&r->mu);
    free(r->table);
    free(r);
}

/* Fingerprints. -------------------------------------------------------------------------------- */

struct crn_print crn_repeats_print(const struct crn_repeats *r)
{
    return (struct crn_print){.seed = r->seed};
}

void crn_print_add(struct crn_print *p, const void *bytes, size_t n)
{
    uint64_t all[5] = {p->hash[0], p->hash[1], 0, 0, n};

    crn_hash128(bytes, n, p->seed, all + 2);
    crn_hash128(all, sizeof(all), p->seed, p->hash);
}

/* The table. ----------------------------------------------------------------------------------- */

static int is_equal(const struct crn_print *a, const struct crn_print *b)
{
    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1];
}

/* The entry of a fingerprint, or the free one where it belongs. */
static struct repeats_entry *find_in(struct repeats_entry *table, size_t size,
                                     const struct crn_print *print)
{
    size_t i = print->hash[0] & (size - 1);

    while (table[i].stream != NULL && !is_equal(&table[i].print, print))
        i = (i + 1) & (size - 1);
    return &table[i];
}

static int grow_locked(struct crn_repeats *r) CRN_REQUIRES(r->mu)
{
    size_t size = r->size > 0 ? 2 * r->size : 64;
    struct repeats_entry *table = calloc(size, sizeof(*table));
    size_t i;

    if (table == NULL)
        return -1;
    for (i = 0; i < r->size; i++)
        if (r->table[i].stream != NULL)
            *find_in(table, size, &r->table[i].print) = r->table[i];
    free(r->table);
    r->table = table;
    r->size = size;
    return 0;
}

const struct crn_stream *crn_repeats_find(struct crn_repeats *r, const struct crn_print *print)
{
    const struct crn_stream *s;

    crn_lock(&r->mu);
    s = r->size > 0 ? find_in(r->table, r->size, print)->stream : NULL;
    crn_unlock(&r->mu);
    return s;
}

void crn_repeats_enter(struct crn_repeats *r, const struct crn_print *print,
                       const struct crn_stream *s)
{
    struct repeats_entry *at;

    crn_lock(&r->mu);
    if (2 * (r->used + 1) <= r->size || grow_locked(r) == 0) {
        at = find_in(r->table, r->size, print);
        r->used += at->stream == NULL;
        if (at->stream == NULL)
            *at = (struct repeats_entry){*print, s};
    }
    crn_unlock(&r->mu);
}
