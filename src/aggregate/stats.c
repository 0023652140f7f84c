/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void add_sums(struct crn_sums *to, const struct crn_sums *s)
{
    to->n += s->n;
    to->bytes += s->bytes;
    to->ns += s->ns;
    if (s->max_ns > to->max_ns)
        to->max_ns = s->max_ns;
}

static void stats_widen(struct crn_span *s, const struct crn_span *by)
{
    if (by->start_ns < s->start_ns)
        s->start_ns = by->start_ns;
    if (by->end_ns > s->end_ns)
        s->end_ns = by->end_ns;
    s->bytes += by->bytes;
}

/* Frees half of the entries: joins each span with its neighbour. */
static void stats_halve(struct crn_timeline *t)
{
    uint32_t i;

    for (i = 0; i < CRN_SPANS / 2; i++) {
        t->span[i] = t->span[2 * i];
        stats_widen(&t->span[i], &t->span[2 * i + 1]);
    }
    t->nspans = CRN_SPANS / 2;
    t->join = 2 * (t->join != 0 ? t->join : 1);
}

void crn_stats_track_add(struct crn_timeline *t, int64_t start_ns, int64_t end_ns, uint64_t bytes)
{
    struct crn_span s = {start_ns, end_ns, bytes};

    add_sums(&t->sum, &(struct crn_sums){1, bytes, end_ns - start_ns, end_ns - start_ns});
    if (t->nspans > 0 && t->in_last < t->join) {
        stats_widen(&t->span[t->nspans - 1], &s);
        t->in_last++;
        return;
    }
    if (t->nspans == CRN_SPANS)
        stats_halve(t);
    t->span[t->nspans++] = s;
    t->in_last = 1;
}

struct crn_sums crn_stats_local(const struct crn_flush_stats *s)
{
    struct crn_sums sum = {0};
    uint32_t i;

    for (i = 0; i < s->nwriters; i++)
        add_sums(&sum, &s->writer[i].local.sum);
    return sum;
}

struct crn_sums crn_stats_received(const struct crn_flush_stats *s)
{
    struct crn_sums sum = {0};
    uint32_t i;

    for (i = 0; i < s->nwriters; i++)
        add_sums(&sum, &s->writer[i].received.sum);
    return sum;
}

cairn_err crn_flush_stats_init(struct crn_flush_stats *s, uint32_t nwriters, uint32_t npeers,
                               struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();

    memset(s, 0, sizeof(*s));
    s->wall_ns = clock->wall_ns(clock);
    s->mono_ns = clock->mono_ns(clock);
    s->writer = calloc(nwriters + (size_t)1, sizeof(*s->writer));
    s->peer = calloc(npeers + (size_t)1, sizeof(*s->peer));
    if (s->writer == NULL || s->peer == NULL) {
        crn_flush_stats_free(s);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the statistics of a flush");
    }
    s->nwriters = nwriters;
    s->npeers = npeers;
    return CAIRN_OK;
}

void crn_flush_stats_free(struct crn_flush_stats *s)
{
    free(s->writer);
    free(s->peer);
    crn_buf_free(&s->helpers);
    memset(s, 0, sizeof(*s));
}

int64_t crn_stats_now(const struct crn_flush_stats *s)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock) - s->mono_ns;
}
