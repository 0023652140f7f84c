/* SPDX-License-Identifier: BSD-3-Clause */
/* Several nodes write one data file. Its leader owns the plan, the offsets and the index. An
 * assistant asks the leader for one write of the plan at a time, obtains the bytes from the node
 * that has them, writes them at the offset it was given, and returns the checksums. The leader
 * hands out consecutive offsets, so writes never overlap and need no lock. Every assistant that
 * wrote makes its writes durable before the leader appends the index.
 *
 * An assistant opens the file before it first asks, and the leader hands out only writes of its
 * current file (the generation). If the file failed and its name was reused meanwhile, a late
 * assistant therefore gets nothing to write. */
#ifndef CRN_AGGREGATE_ASSIST_H
#define CRN_AGGREGATE_ASSIST_H

#include "aggregate/engine.h"
#include "aggregate/piece.h"

/* Leader. Any thread. -------------------------------------------------------------------------- */

/* What the leader knows about an assistant. */
struct crn_assistant {
    uint32_t owner;   /* the owner whose writes this assistant gets first; 0: none */
    uint64_t cursor;  /* the engine's, like the fields below; initially zero */
    uint32_t in_hand; /* writes not finished yet */
    int has_writes;   /* it has writes to make durable */
};

/* A write that was handed out. */
struct crn_handout {
    uint64_t id;
    uint64_t offset; /* in the data file */
    uint32_t owner;
};

/* Does the current file have writes to hand out now? */
int crn_assist_is_wanted(struct crn_engine *e, uint64_t generation);
enum crn_handing {
    CRN_HANDED,
    CRN_HAND_LATER, /* the rest belongs to other assistants; ask again after finishing a write */
    CRN_HAND_NONE,  /* nothing is left, or the engine writes another file */
};

/* Hands out a remote write that has not been requested yet: first the assistant's own data, then
 * data whose owner does not assist. Appends the extents of the write to ask; see crn_source_ask_encode. */
enum crn_handing crn_assist_hand_out(struct crn_engine *e, uint64_t generation,
                                     struct crn_assistant *a, struct crn_handout *ret,
                                     struct crn_buf *ask);
/* A write is in the file. hashes (little-endian, one per chunk of its segments, in order) go
 * into the index. */
void crn_assist_handed_back(struct crn_engine *e, uint64_t generation, struct crn_assistant *a,
                            uint64_t id, const unsigned char *hashes, size_t bytes);
/* The assistant has made its writes durable, or has failed. stats is the text of its statistics,
 * stored with those of the file. */
void crn_assist_left(struct crn_engine *e, uint64_t generation, const struct crn_assistant *a,
                     const struct crn_view *stats, const struct crn_errinfo *error);
/* Cancels the current write. Generation 0 matches any. */
void crn_assist_cancel(struct crn_engine *e, uint64_t generation, const struct crn_errinfo *error);

/* Assistant. ----------------------------------------------------------------------------------- */

/* A write for another node, with a plan of its own. */
struct crn_errand {
    struct crn_pieces all;
    struct crn_plan plan; /* one write, extents in order */
    uint64_t id;          /* assigned by the leader */
    uint64_t *hashes;     /* plan.nhashes */
};

struct crn_assist {
    /* Asks the leader for a write, on the thread of crn_assist_write, and returns at once.
     * Exactly one of crn_assist_errand, _errand_later and _no_errand answers it, on any thread. */
    void (*ask)(void *arg, void *block);
    /* The errand is in the file. Called on a writer thread. */
    cairn_err (*written)(void *arg, const struct crn_errand *x, struct crn_errinfo *ei);
    void *arg;
};

/* An errand of nextents extents; the caller fills plan.extents (shard, region, offset, bytes). */
CAIRN_CHECKED cairn_err crn_errand_new(uint32_t nextents, struct crn_errand **ret,
                                       struct crn_errinfo *ei);
void crn_errand_free(struct crn_errand *x); /* NULL is fine */

/* Writes what the leader of the file hands out, and makes it durable. head gives capture, name
 * and version. On success the caller frees ret_stats, whose bytes are those written here. */
CAIRN_CHECKED cairn_err crn_assist_write(struct crn_engine *e, const struct crn_store *st,
                                         const struct crn_index *head, const char *file,
                                         const struct crn_assist *assist,
                                         struct crn_flush_stats *ret_stats, struct crn_errinfo *ei);
/* Takes ownership of x. has_arrived: the block holds the bytes; otherwise the writer reads them
 * from sources. */
void crn_assist_errand(struct crn_engine *e, struct crn_errand *x, const struct crn_source *sources,
                       void *block, int has_arrived, const struct crn_errinfo *error);
/* The leader has nothing for this node until it finishes an errand. */
void crn_assist_errand_later(struct crn_engine *e, void *block);
/* The leader has nothing more, or cannot be reached (error). */
void crn_assist_no_errand(struct crn_engine *e, void *block, const struct crn_errinfo *error);

/* For the engine. */
CAIRN_CHECKED cairn_err crn_errand_write(const struct crn_assist *assist, const struct crn_piece *p,
                                         struct crn_errinfo *ei);

#endif
