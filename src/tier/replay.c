/* SPDX-License-Identifier: BSD-3-Clause */
/* Discrete-event simulation around the chain: at most one copy in flight for each tier and
 * direction, each with its end time. The application's requests come one after another and wait as
 * they would in a run. */
#include "tier/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOVES (2 * CRN_TIERS_MAX)

/* Traces. -------------------------------------------------------------------------------------- */

static const char *const request_names[CRN_REQUEST_KINDS] = {"write",  "read",  "hint",  "start",
                                                             "forget", "flush", "unhint"};

static const char *request_name(enum crn_request_kind kind)
{
    return (unsigned)kind < CRN_REQUEST_KINDS ? request_names[kind] : "unknown";
}

void crn_trace_print(FILE *out, const struct crn_request *r)
{
    (void)fprintf(out, "%" PRId64 " %" PRId64 " %s %" PRIu64 " %" PRIu64 "\n", r->start_ns,
                  r->end_ns, request_name(r->kind), r->key, r->bytes);
}

cairn_err crn_trace_add(struct crn_trace *t, const struct crn_request *r, struct crn_errinfo *ei)
{
    if (t->n == t->cap) {
        size_t cap = t->cap != 0 ? 2 * t->cap : 256;
        struct crn_request *grown = realloc(t->r, cap * sizeof(*grown));

        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a trace of %zu requests", cap);
        t->r = grown;
        t->cap = cap;
    }
    t->r[t->n++] = *r;
    return CAIRN_OK;
}

void crn_trace_free(struct crn_trace *t)
{
    free(t->r);
    memset(t, 0, sizeof(*t));
}

static int parse_line(const char *line, struct crn_request *ret)
{
    char kind[16];
    char rest;
    int i;

    if (sscanf(line, "%" SCNd64 " %" SCNd64 " %15s %" SCNu64 " %" SCNu64 " %c", &ret->start_ns,
               &ret->end_ns, kind, &ret->key, &ret->bytes, &rest) != 5)
        return 0;
    for (i = 0; i < CRN_REQUEST_KINDS && strcmp(kind, request_names[i]) != 0; i++)
        ;
    ret->kind = (enum crn_request_kind)i;
    return i < CRN_REQUEST_KINDS && ret->start_ns >= 0 && ret->end_ns >= ret->start_ns &&
           ret->bytes <= CRN_SPACE_MAX;
}

cairn_err crn_trace_read(FILE *in, const char *what, struct crn_trace *ret, struct crn_errinfo *ei)
{
    struct crn_trace t = {0};
    struct crn_request r;
    cairn_err rc = CAIRN_OK;
    size_t line_no = 0;
    size_t cap = 0;
    char *line = NULL;

    while (rc == CAIRN_OK && getline(&line, &cap, in) >= 0) {
        line_no++;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (!parse_line(line, &r))
            rc = crn_fail(ei, CAIRN_EFORMAT, 0, "%s, line %zu: not \"start end what key bytes\"",
                          what, line_no);
        else
            rc = crn_trace_add(&t, &r, ei);
    }
    free(line);
    if (rc == CAIRN_OK && ferror(in))
        rc = crn_fail(ei, CAIRN_EIO, errno, "read %s", what);
    if (rc != CAIRN_OK) {
        crn_trace_free(&t);
        return rc;
    }
    *ret = t;
    return CAIRN_OK;
}

/* Events. -------------------------------------------------------------------------------------- */

struct replay_event {
    struct crn_tier_transfer t;
    int64_t end_ns;
};

struct replay_world {
    const struct crn_replay_options *opt;
    struct crn_chain *chain;
    struct crn_replay_result *ret;
    int64_t now_ns;
    struct replay_event event[MOVES];
    int n;
    uint64_t samples;
};

static int64_t took_ns(const struct replay_world *w, int tier, uint64_t bytes)
{
    const struct crn_replay_tier *t = &w->opt->tier[tier];

    return t->latency_ns + (int64_t)((double)bytes * 1e9 / t->bps) + 1;
}

static void replay_begin(struct replay_world *w, const struct crn_tier_transfer *t)
{
    int slower = t->from > t->to ? t->from : t->to;

    w->event[w->n++] = (struct replay_event){*t, w->now_ns + took_ns(w, slower, t->bytes)};
}

/* Starts all copies that can begin now. */
static void poll_links(struct replay_world *w)
{
    struct crn_tier_transfer t;
    int i;

    for (i = 0; i < (int)w->opt->ntiers - 1; i++) {
        if (crn_chain_down(w->chain, i, w->now_ns, &t)) {
            w->ret->flushed_bytes[i] += t.bytes;
            replay_begin(w, &t);
        }
        if (crn_chain_up(w->chain, i, w->now_ns, &t)) {
            w->ret->prefetched_bytes[i] += t.bytes;
            replay_begin(w, &t);
        }
    }
}

/* Advances to the end of the next copy, but not beyond until_ns. 1 if there was one. */
static int replay_step(struct replay_world *w, int64_t until_ns)
{
    struct replay_event e;
    int first = -1;
    int i;

    for (i = 0; i < w->n; i++)
        if (first < 0 || w->event[i].end_ns < w->event[first].end_ns)
            first = i;
    if (first < 0 || w->event[first].end_ns > until_ns)
        return 0;
    e = w->event[first];
    w->event[first] = w->event[--w->n];
    w->now_ns = e.end_ns;
    (void)crn_chain_done(w->chain, &e.t, CAIRN_OK, w->now_ns);
    poll_links(w);
    return 1;
}

static void replay_advance(struct replay_world *w, int64_t until_ns)
{
    poll_links(w);
    while (replay_step(w, until_ns))
        ;
    w->now_ns = until_ns;
}

/* Requests. ------------------------------------------------------------------------------------ */

static void replay_sample(struct replay_world *w)
{
    uint32_t i;

    w->samples++;
    for (i = 0; i < w->opt->ntiers; i++) {
        const struct crn_space *s = crn_chain_space(w->chain, (int)i);
        uint64_t left = s->capacity - s->used;

        if (left > 0)
            w->ret->fragmentation[i] += 1.0 - (double)crn_space_largest_gap(s) / (double)left;
    }
}

/* Waits until the chain gives a move for a write or read. */
static cairn_err replay_ask(struct replay_world *w, const struct crn_request *r,
                            struct crn_tier_transfer *ret, struct crn_errinfo *ei)
{
    int has_waited = 0;

    for (;;) {
        struct crn_errinfo why = {0};
        cairn_err rc = r->kind == CRN_REQUEST_WRITE
                           ? crn_chain_write(w->chain, r->key, r->bytes, 0, w->now_ns, ret, &why)
                           : crn_chain_read(w->chain, r->key, w->now_ns, ret, &why);

        if (rc != CAIRN_EBUSY) {
            crn_err_keep(ei, &why);
            return rc;
        }
        w->ret->waits += !has_waited;
        has_waited = 1;
        poll_links(w);
        if (!replay_step(w, INT64_MAX))
            return crn_fail(ei, CAIRN_EINVAL, 0, "%s of %" PRIu64 " waits forever: %.200s",
                            request_name(r->kind), r->key, why.msg);
    }
}

static cairn_err run_copy(struct replay_world *w, const struct crn_request *r,
                          struct crn_errinfo *ei)
{
    struct crn_replay_result *ret = w->ret;
    int64_t start = w->now_ns;
    struct crn_errinfo why = {0};
    struct crn_tier_transfer t;
    cairn_err rc = replay_ask(w, r, &t, &why);
    int64_t begun = w->now_ns;
    int is_write = r->kind == CRN_REQUEST_WRITE;

    if (rc == CAIRN_EINVAL && !is_write) {
        crn_err_keep(ei, &why);
        return rc;
    }
    if (rc != CAIRN_OK) {
        ret->failed++; /* a key that is gone or was written twice */
        return CAIRN_OK;
    }
    replay_advance(w, begun + took_ns(w, is_write ? t.to : t.from, t.bytes));
    (void)crn_chain_done(w->chain, &t, CAIRN_OK, w->now_ns);
    poll_links(w);
    replay_sample(w);
    *(is_write ? &ret->writes : &ret->reads) += 1;
    *(is_write ? &ret->written_bytes : &ret->read_bytes) += t.bytes;
    *(is_write ? &ret->write_wait_ns : &ret->read_wait_ns) += begun - start;
    *(is_write ? &ret->write_ns : &ret->read_ns) += w->now_ns - start;
    ret->distance += t.distance;
    if (!is_write)
        ret->hits[t.from]++;
    return CAIRN_OK;
}

static cairn_err run_flush(struct replay_world *w, struct crn_errinfo *ei)
{
    int64_t start = w->now_ns;

    crn_chain_drain(w->chain, 1);
    poll_links(w);
    while (!crn_chain_is_idle(w->chain))
        if (!replay_step(w, INT64_MAX))
            return crn_fail(ei, CAIRN_EINVAL, 0, "a flush never ends");
    crn_chain_drain(w->chain, 0);
    w->ret->flush_ns += w->now_ns - start;
    return CAIRN_OK;
}

static cairn_err run_request(struct replay_world *w, const struct crn_request *r,
                             struct crn_errinfo *ei)
{
    switch (r->kind) {
    case CRN_REQUEST_WRITE:
    case CRN_REQUEST_READ:
        return run_copy(w, r, ei);
    case CRN_REQUEST_HINT:
        return crn_chain_hint(w->chain, r->key, ei);
    case CRN_REQUEST_START:
        crn_chain_start(w->chain);
        return CAIRN_OK;
    case CRN_REQUEST_FORGET:
        crn_chain_forget(w->chain, r->key);
        return CAIRN_OK;
    case CRN_REQUEST_UNHINT:
        crn_chain_unhint(w->chain, r->key);
        return CAIRN_OK;
    case CRN_REQUEST_FLUSH:
        return run_flush(w, ei);
    case CRN_REQUEST_KINDS:
        break;
    }
    return crn_fail(ei, CAIRN_EBUG, 0, "request of kind %d", (int)r->kind);
}

static cairn_err run_all(struct replay_world *w, const struct crn_trace *trace,
                         struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int64_t before = 0;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < trace->n; i++) {
        const struct crn_request *r = &trace->r[i];

        if (i > 0 && r->start_ns > before)
            replay_advance(w, w->now_ns + (r->start_ns - before));
        before = r->end_ns;
        rc = run_request(w, r, ei);
    }
    return rc;
}

cairn_err crn_replay(const struct crn_replay_options *options, const struct crn_trace *trace,
                     struct crn_replay_result *ret, struct crn_errinfo *ei)
{
    struct crn_chain_options opt = {.policy = options->policy,
                                    .discard_consumed = options->discard_consumed,
                                    .ntiers = options->ntiers};
    struct replay_world w = {.opt = options, .ret = ret};
    cairn_err rc;
    uint32_t i;

    memset(ret, 0, sizeof(*ret));
    for (i = 0; i < options->ntiers; i++) {
        opt.tier[i].capacity = options->tier[i].capacity;
        if (i + 1 < options->ntiers)
            opt.tier[i].down_bps = opt.tier[i].up_bps = options->tier[i + 1].bps;
    }
    rc = crn_chain_open(&opt, &w.chain, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = run_all(&w, trace, ei);
    crn_chain_close(w.chain);
    ret->total_ns = w.now_ns;
    for (i = 0; w.samples > 0 && i < options->ntiers; i++)
        ret->fragmentation[i] /= (double)w.samples;
    return rc;
}
