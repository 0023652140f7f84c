/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a recorded trace of requests through the chain in virtual time. It uses the same code that
 * decides in a real run, so policies and sizes can be compared without the machine. Pure, except
 * that it reads a trace from a stream.
 *
 * A trace has one request per line, "start end what key bytes". Times are in ns on one clock; what
 * is write, read, hint, start, forget, flush or unhint. The time between the end of a request and
 * the start of the next is the application's compute time; the replay computes the duration of
 * requests itself. */
#ifndef CRN_TIER_REPLAY_H
#define CRN_TIER_REPLAY_H

#include <stdio.h>
#include "tier/chain.h"

enum crn_request_kind {
    CRN_REQUEST_WRITE = 0,
    CRN_REQUEST_READ,
    CRN_REQUEST_HINT,
    CRN_REQUEST_START,
    CRN_REQUEST_FORGET,
    CRN_REQUEST_FLUSH, /* waits until everything is on the last tier */
    CRN_REQUEST_UNHINT,
    CRN_REQUEST_KINDS,
};

struct crn_request {
    int64_t start_ns, end_ns;
    enum crn_request_kind kind;
    uint64_t key;
    uint64_t bytes;
};

struct crn_trace {
    struct crn_request *r; /* owned */
    size_t n, cap;
};

/* Prints one line in the format of crn_trace_read. */
void crn_trace_print(FILE *out, const struct crn_request *r);
CAIRN_CHECKED cairn_err crn_trace_read(FILE *in, const char *what, struct crn_trace *ret,
                                       struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_trace_add(struct crn_trace *t, const struct crn_request *r,
                                      struct crn_errinfo *ei);
void crn_trace_free(struct crn_trace *t);

struct crn_replay_tier {
    uint64_t capacity;
    double bps; /* of copies between this tier and the next faster one, or the application */
    int64_t latency_ns;
};

struct crn_replay_options {
    enum crn_evict policy;
    int discard_consumed;
    uint32_t ntiers;
    struct crn_replay_tier tier[CRN_TIERS_MAX];
};

struct crn_replay_result {
    uint64_t writes, reads, failed;
    uint64_t written_bytes, read_bytes;
    uint64_t hits[CRN_TIERS_MAX]; /* reads by tier */
    uint64_t waits;               /* requests that had to wait */
    int64_t write_wait_ns, read_wait_ns;
    int64_t write_ns, read_ns; /* blocked, waits included */
    int64_t flush_ns;          /* of the flush requests */
    int64_t total_ns;
    uint64_t distance;                        /* sum over the reads */
    uint64_t flushed_bytes[CRN_TIERS_MAX];    /* from each tier */
    uint64_t prefetched_bytes[CRN_TIERS_MAX]; /* into each tier */
    /* Share of the free bytes that lie outside the largest gap, mean over writes and reads. */
    double fragmentation[CRN_TIERS_MAX];
};

/* CAIRN_EINVAL for an impossible trace: a request that never ends. */
CAIRN_CHECKED cairn_err crn_replay(const struct crn_replay_options *options,
                                   const struct crn_trace *trace, struct crn_replay_result *ret,
                                   struct crn_errinfo *ei);

#endif
