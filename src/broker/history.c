/* SPDX-License-Identifier: BSD-3-Clause */
/* Integrates holders and waiting requests over time, bucket by bucket. Notes come with every tick
 * of the server; a gap between two notes, however long, has the state of the first. */
#include "broker/history.h"

#include <stdlib.h>
#include <string.h>

struct history_sum {
    double holder_ns, waiting_ns; /* integrals over the bucket */
    double ns;                    /* its part that has passed */
    double oldest_s;
    uint64_t granted, taken;
};

struct history_token {
    struct history_sum bucket[CRN_HISTORY_BUCKETS];
    int64_t last_ns; /* the sums are complete until then */
    uint64_t index;  /* of the current bucket, since the start */
    uint32_t holders, waiting;
    uint64_t granted, taken; /* counters as of the last note */
};

struct crn_history {
    int64_t bucket_ns, start_ns;
    size_t ntokens;
    struct history_token token[];
};

cairn_err crn_history_new(size_t ntokens, int64_t span_ns, int64_t now_ns, struct crn_history **ret,
                          struct crn_errinfo *ei)
{
    struct crn_history *h = calloc(1, sizeof(*h) + ntokens * sizeof(h->token[0]));
    size_t i;

    if (h == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the history of %zu tokens", ntokens);
    h->bucket_ns = span_ns / CRN_HISTORY_BUCKETS > 0 ? span_ns / CRN_HISTORY_BUCKETS : 1;
    h->start_ns = now_ns;
    h->ntokens = ntokens;
    for (i = 0; i < ntokens; i++)
        h->token[i].last_ns = now_ns;
    *ret = h;
    return CAIRN_OK;
}

void crn_history_free(struct crn_history *h)
{
    free(h);
}

static struct history_sum *bucket_of(struct history_token *k, uint64_t index)
{
    return &k->bucket[index % CRN_HISTORY_BUCKETS];
}

/* Carries the noted state forward to now. */
static void history_advance(const struct crn_history *h, struct history_token *k, int64_t now_ns)
{
    while (k->last_ns < now_ns) {
        int64_t end = h->start_ns + (int64_t)(k->index + 1) * h->bucket_ns;
        int64_t until = end < now_ns ? end : now_ns;
        struct history_sum *b = bucket_of(k, k->index);
        double ns = (double)(until - k->last_ns);

        b->ns += ns;
        b->holder_ns += ns * k->holders;
        b->waiting_ns += ns * k->waiting;
        k->last_ns = until;
        if (until == end)
            *bucket_of(k, ++k->index) = (struct history_sum){0};
    }
}

void crn_history_note(struct crn_history *h, int64_t now_ns, size_t token,
                      const struct crn_bp_token_row *row)
{
    struct history_token *k = &h->token[token];
    struct history_sum *b;
    double oldest_s = row->waiting > 0 ? (double)row->oldest_ns * 1e-9 : 0;

    history_advance(h, k, now_ns);
    b = bucket_of(k, k->index);
    b->oldest_s = oldest_s > b->oldest_s ? oldest_s : b->oldest_s;
    b->granted += row->granted >= k->granted ? row->granted - k->granted : 0;
    b->taken += row->taken >= k->taken ? row->taken - k->taken : 0;
    k->granted = row->granted;
    k->taken = row->taken;
    k->holders = row->holders;
    k->waiting = row->waiting;
}

size_t crn_history_read(const struct crn_history *h, size_t token,
                        struct crn_history_bucket ret[CRN_HISTORY_BUCKETS])
{
    const struct history_token *k = &h->token[token];
    uint64_t n = k->index + 1 < CRN_HISTORY_BUCKETS ? k->index + 1 : CRN_HISTORY_BUCKETS;
    uint64_t i;

    for (i = 0; i < n; i++) {
        const struct history_sum *b = &k->bucket[(k->index + 1 - n + i) % CRN_HISTORY_BUCKETS];

        ret[i] = (struct crn_history_bucket){.oldest_s = b->oldest_s,
                                             .holders = b->ns > 0 ? b->holder_ns / b->ns : 0,
                                             .waiting = b->ns > 0 ? b->waiting_ns / b->ns : 0,
                                             .granted = b->granted,
                                             .taken = b->taken};
    }
    return (size_t)n;
}
