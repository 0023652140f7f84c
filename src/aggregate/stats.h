/* SPDX-License-Identifier: BSD-3-Clause */
/* What a flush measures about itself: how long each writer thread wrote local and received data,
 * how long blocks were in flight and queued, and when. Always on; it costs two clock readings
 * per block. Stored as text beside the data file (docs/format.md, section 10). */
#ifndef CRN_AGGREGATE_STATS_H
#define CRN_AGGREGATE_STATS_H

#include <stdint.h>

#include "base/buf.h"
#include "format/format.h"
#include "store/store.h"

#define CRN_SPANS 256 /* per timeline, at most */

/* An interval. Times are relative to the start of the flush on this node. */
struct crn_span {
    int64_t start_ns, end_ns;
    uint64_t bytes;
};

struct crn_sums {
    uint64_t n, bytes;
    int64_t ns;     /* sum of all durations */
    int64_t max_ns; /* the longest */
};

/* Intervals of one kind, consecutive or overlapping: their sums, and a timeline of bounded
 * length. When the timeline is full, neighbours are joined, and from then on each span covers
 * twice as many intervals. */
struct crn_timeline {
    struct crn_sums sum;
    uint64_t join; /* intervals per span; 0 counts as 1 */
    uint64_t in_last;
    uint32_t nspans;
    struct crn_span span[CRN_SPANS];
};

struct crn_writer_stats {
    struct crn_timeline local, received; /* checksum and write */
    int64_t idle_ns;                     /* had nothing to write */
};

/* A node whose data was received. */
struct crn_peer_stats {
    uint64_t n, bytes;
    int64_t ns; /* from the request to the last byte */
    /* As reported by the node itself, if the report came in time. */
    uint64_t sent, sent_bytes;
    int64_t send_ns;
    int64_t gather_ns; /* before it could send */
};

/* The statistics of one leader's file. Each writer thread fills its own entry; the engine's lock
 * protects all other fields. */
struct crn_flush_stats {
    struct crn_capture_id id;
    uint32_t node;       /* the leader; set by the caller, like first_node */
    uint32_t first_node; /* peer[i] is node first_node + i */
    int64_t wall_ns;     /* start time, since 1970 */
    int64_t mono_ns;     /* the same on the monotonic clock; not stored */
    uint64_t bytes, remote_bytes;
    uint64_t assisted_bytes; /* of bytes: those written by assistants */
    int64_t write_ns;        /* until the last write ended */
    int64_t finish_ns;       /* index and fsync */
    int64_t total_ns;
    int64_t held_ns; /* writers throttled by the gate (base/gate.h) */
    /* Levels before this file, on the leader's node; 0: not measured. Set by the caller. */
    int64_t copy_ns;     /* the longest copy of a rank, while the application waited */
    int64_t captured_ns; /* since the capture: all ranks had captured */
    int64_t local_ns;    /* since the capture: the local copy was durable */
    int64_t
        protected_ns; /* since the capture: all sets were protected, if before this file was whole */
    uint64_t blocks, block_bytes, most_blocks;
    uint64_t pool_waits; /* waits for a free block to receive into */
    int64_t pool_ns;
    uint64_t queue_waits; /* waits of received blocks for a writer */
    int64_t queue_ns;
    struct crn_timeline receive, send;
    uint32_t nwriters;
    struct crn_writer_stats *writer; /* owned */
    uint32_t npeers;
    struct crn_peer_stats *peer; /* owned */
    struct crn_buf helpers;      /* statistics texts of the assistants; owned */
};

void crn_stats_track_add(struct crn_timeline *t, int64_t start_ns, int64_t end_ns, uint64_t bytes);
/* Sums over the writers. */
struct crn_sums crn_stats_local(const struct crn_flush_stats *s);
struct crn_sums crn_stats_received(const struct crn_flush_stats *s);

/* The flush starts now. */
CAIRN_CHECKED cairn_err crn_flush_stats_init(struct crn_flush_stats *s, uint32_t nwriters,
                                             uint32_t npeers, struct crn_errinfo *ei);
void crn_flush_stats_free(struct crn_flush_stats *s);
int64_t crn_stats_now(const struct crn_flush_stats *s);

/* stats_text.c: to text and back. Malformed or truncated text is CAIRN_EDAMAGED. A leader's text
 * is followed by those of its assistants, each complete in itself; decode takes one. */
CAIRN_CHECKED cairn_err crn_flush_stats_encode(const struct crn_flush_stats *s, struct crn_buf *ret,
                                               struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_flush_stats_decode(const char *text, size_t len,
                                               struct crn_flush_stats *ret, struct crn_errinfo *ei);
/* The length of the first of several texts; 0 if it is incomplete. */
size_t crn_flush_stats_text_len(const char *text, size_t len);
/* Writes the statistics beside the data file that head and file name. */
CAIRN_CHECKED cairn_err crn_flush_stats_keep(const struct crn_flush_stats *s,
                                             const struct crn_store *st,
                                             const struct crn_index *head, const char *file,
                                             struct crn_errinfo *ei);

#endif
