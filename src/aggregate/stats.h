/* SPDX-License-Identifier: BSD-3-Clause */
/* What a flush measures of itself: how long each writer thread wrote data of its own node and received
 * data, how long blocks were on their way and waited, and when. Always on: two readings of the clock
 * for each block. Kept as text beside the data file (docs/format.md, section 10). */
#ifndef CRN_AGGREGATE_STATS_H
#define CRN_AGGREGATE_STATS_H

#include <stdint.h>

#include "base/buf.h"
#include "format/format.h"
#include "store/store.h"

#define CRN_SPANS 256 /* of a track, at most */

/* Something that took time. Times are since the flush began on this node. */
struct crn_span {
    int64_t start_ns, end_ns;
    uint64_t bytes;
};

struct crn_sums {
    uint64_t n, bytes;
    int64_t ns;     /* of all durations */
    int64_t max_ns; /* the longest */
};

/* Things of one kind, one after another or side by side: sums of all, and a timeline that stays
 * bounded: when it is full, neighbours are joined, and from then on twice as many make a span. */
struct crn_timeline {
    struct crn_sums sum;
    uint64_t join; /* so many make a span; 0 as 1 */
    uint64_t in_last;
    uint32_t nspans;
    struct crn_span span[CRN_SPANS];
};

struct crn_writer_stats {
    struct crn_timeline local, received; /* checksum and write of a piece */
    int64_t idle_ns;                     /* nothing to write yet */
};

/* A node whose data was received. */
struct crn_peer_stats {
    uint64_t n, bytes;
    int64_t ns; /* from the request to the last byte */
    /* As the node itself tells; what it told in time. */
    uint64_t sent, sent_bytes;
    int64_t send_ns;
    int64_t gather_ns; /* before it could send */
};

/* One leader's part of a flush. Each writer writes its own entry; all else is under the lock of the
 * engine that fills it. */
struct crn_flush_stats {
    struct crn_capture_id id;
    uint32_t node;       /* the leader; set by the caller, as is first_node */
    uint32_t first_node; /* peer[i] is node first_node + i */
    int64_t wall_ns;     /* when it began, since 1970 */
    int64_t mono_ns;     /* the same on the clock of the spans; not kept */
    uint64_t bytes, remote_bytes;
    uint64_t assisted_bytes; /* of bytes: written by other nodes */
    int64_t write_ns;        /* until the last piece was written */
    int64_t finish_ns;       /* index and fsync */
    int64_t total_ns;
    int64_t held_ns; /* writers held back by the gate (base/gate.h), on purpose */
    uint64_t blocks, block_bytes, most_blocks;
    uint64_t pool_waits; /* for a free block, to receive into */
    int64_t pool_ns;
    uint64_t queue_waits; /* of received blocks, for a writer */
    int64_t queue_ns;
    struct crn_timeline receive, send;
    uint32_t nwriters;
    struct crn_writer_stats *writer; /* owned */
    uint32_t npeers;
    struct crn_peer_stats *peer; /* owned */
    struct crn_buf helpers;      /* text of the assistants' own; owned */
};

void crn_track_add(struct crn_timeline *t, int64_t start_ns, int64_t end_ns, uint64_t bytes);
/* Over the writers. */
struct crn_sums crn_stats_local(const struct crn_flush_stats *s);
struct crn_sums crn_stats_received(const struct crn_flush_stats *s);

/* Begins now. */
CAIRN_CHECKED cairn_err crn_flush_stats_init(struct crn_flush_stats *s, uint32_t nwriters,
                                             uint32_t npeers, struct crn_errinfo *ei);
void crn_flush_stats_free(struct crn_flush_stats *s);
int64_t crn_stats_now(const struct crn_flush_stats *s);

/* stats_text.c: to text and back. What does not parse, or ends too early, is CAIRN_EDAMAGED. The text of
 * a leader is followed by those of its assistants, each whole in itself; decode takes one. */
CAIRN_CHECKED cairn_err crn_flush_stats_encode(const struct crn_flush_stats *s, struct crn_buf *ret,
                                               struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_flush_stats_decode(const char *text, size_t len,
                                               struct crn_flush_stats *ret, struct crn_errinfo *ei);
/* How long the first of several texts is; 0: there is none that ends. */
size_t crn_flush_stats_text_len(const char *text, size_t len);
/* Writes them beside the data file that head and file name. */
CAIRN_CHECKED cairn_err crn_flush_stats_keep(const struct crn_flush_stats *s,
                                             const struct crn_store *st,
                                             const struct crn_index *head, const char *file,
                                             struct crn_errinfo *ei);

#endif
