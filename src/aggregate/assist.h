/* SPDX-License-Identifier: BSD-3-Clause */
/* Several nodes write one data file. Its leader owns plan, offsets and index; an assistant asks it for
 * a write of the plan at a time, gets the bytes from whoever has them, writes them to the place that it
 * was told, and returns the checksums. Places are handed out one behind another, so parts never
 * overlap and no lock is needed. Before the leader appends the index, every assistant that wrote has
 * made its part durable.
 *
 * An assistant opens the file before it asks for the first time, and the leader hands out only writes of
 * the file that it is at (its generation): so an assistant that comes late, when the file has failed and
 * its name is another file's, gets nothing to write. */
#ifndef CRN_AGGREGATE_ASSIST_H
#define CRN_AGGREGATE_ASSIST_H

#include "aggregate/engine.h"
#include "aggregate/piece.h"

/* Leader. Any thread. ------------------------------------------------------------------------------ */

/* What the leader keeps of an assistant. */
struct crn_assistant {
    uint32_t owner;   /* of writes that it should get first; 0: none */
    uint64_t cursor;  /* the engine's, as what follows: zero at first */
    uint32_t in_hand; /* writes that it has not finished */
    int has_writes;   /* it must make them durable */
};

/* A write that was handed out. */
struct crn_handout {
    uint64_t id;
    uint64_t offset; /* in the file */
    uint32_t owner;
};

/* Whether there is something to hand out, now. */
int crn_engine_wants_help(struct crn_engine *e, uint64_t generation);
enum crn_handing {
    CRN_HANDED,
    CRN_HAND_LATER, /* what is left others should write themselves; it asks again when one in hand is done */
    CRN_HAND_NONE, /* nothing is left, or the engine is at another file */
};

/* Hands out a write of other nodes that was not asked for yet: its own first, then what its owner does not
 * write. Its extents are added to ask; see crn_ask_encode. */
enum crn_handing crn_engine_hand_out(struct crn_engine *e, uint64_t generation,
                                     struct crn_assistant *a, struct crn_handout *ret,
                                     struct crn_buf *ask);
/* A write is in the file; hashes (little-endian, of its segments' chunks, in order) go to the index. */
void crn_engine_handed_back(struct crn_engine *e, uint64_t generation, struct crn_assistant *a,
                            uint64_t id, const unsigned char *hashes, size_t bytes);
/* The assistant has made everything durable, or failed. stats: the text of its statistics, kept with those
 * of the file. */
void crn_engine_assistant_left(struct crn_engine *e, uint64_t generation,
                               const struct crn_assistant *a, const struct crn_view *stats,
                               const struct crn_errinfo *error);
/* Ends the write in hand. Generation 0: whatever it is. */
void crn_engine_cancel(struct crn_engine *e, uint64_t generation, const struct crn_errinfo *error);

/* Assistant. --------------------------------------------------------------------------------------- */

/* A write for another node: a plan of its own. */
struct crn_errand {
    struct crn_pieces all;
    struct crn_plan plan; /* one write, extents in order */
    uint64_t id;          /* the leader's */
    uint64_t *hashes;     /* plan.nhashes */
};

struct crn_assist {
    /* Asks the leader for a write, on the thread of crn_engine_assist; returns at once.
     * crn_engine_errand, _errand_later or _no_errand is called then, exactly once, on any thread. */
    void (*ask)(void *arg, void *block);
    /* It is in the file. On a writer's thread. */
    cairn_err (*written)(void *arg, const struct crn_errand *x, struct crn_errinfo *ei);
    void *arg;
};

/* An errand of nextents extents; the caller fills plan.extents (shard, region, offset, bytes). */
CAIRN_CHECKED cairn_err crn_errand_new(uint32_t nextents, struct crn_errand **ret,
                                       struct crn_errinfo *ei);
void crn_errand_free(struct crn_errand *x); /* NULL is fine */

/* Writes what the leader of the file hands out, and makes it durable. head tells capture, name and
 * version. On success the caller frees ret_stats: their bytes are what was written. */
CAIRN_CHECKED cairn_err crn_engine_assist(struct crn_engine *e, const struct crn_store *st,
                                          const struct crn_index *head, const char *file,
                                          const struct crn_assist *assist,
                                          struct crn_flush_stats *ret_stats,
                                          struct crn_errinfo *ei);
/* Taken over. has_arrived: the block holds the bytes; otherwise they are read from sources. */
void crn_engine_errand(struct crn_engine *e, struct crn_errand *x, const struct crn_source *sources,
                       void *block, int has_arrived, const struct crn_errinfo *error);
/* The leader has nothing for it before it has finished something. */
void crn_engine_errand_later(struct crn_engine *e, void *block);
/* The leader has nothing more, or is not there (error). */
void crn_engine_no_errand(struct crn_engine *e, void *block, const struct crn_errinfo *error);

/* For the engine. */
CAIRN_CHECKED cairn_err crn_errand_write(const struct crn_assist *assist, const struct crn_piece *p,
                                         struct crn_errinfo *ei);

#endif
