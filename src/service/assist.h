/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that assist the leader of a data file in writing it: the messages around aggregate/assist.h.
 *
 *   root -> idle leader   REROUTE: the leader of another group is behind
 *   assistant -> leader   HELP: I am free
 *   leader -> assistant   FILE (generation, name), when it is there; no name: no help is wanted
 *   assistant -> leader   ASK, for each block that it has free, once it has opened the file
 *   leader -> assistant   PIECE (id, owner, offset, extents), or that there is none, or none now
 *   assistant -> leader   DONE (id, checksums); at last, without an id: all of mine is durable, or why not
 *   idle leader -> root   NODE_IDLE: that one wants no more help
 *
 * All on the loop thread, except crn_assist_run. A version that has ended ends this on every node. */
#ifndef CRN_SERVICE_ASSIST_H
#define CRN_SERVICE_ASSIST_H

#include "aggregate/assist.h"
#include "service/job.h"

/* What a leader keeps of an assistant. */
struct crn_helper {
    struct crn_helper *next;
    struct crn_assistant engine;
    uint32_t node;
    int has_left;
    int64_t deadline_ns; /* for the next sign of it, where it has writes */
};

/* What an item keeps for it. */
struct crn_aid {
    /* Leader. */
    struct crn_helper *helpers; /* owned */
    char file[CRN_FILE_NAME];   /* empty: not there yet */
    uint64_t generation;
    uint64_t current; /* generation of the attempt in hand; later ones are made alone */
    /* Assistant. */
    uint32_t leader;
    char of_file[CRN_FILE_NAME]; /* the leader's */
    uint64_t of_generation;
    int is_busy;  /* with this file */
    void **asked; /* owned; blocks for which there is no answer yet */
    uint64_t nasked;
    int64_t deadline_ns; /* for the next answer */
};

/* Offers help to the leader of a group. */
void crn_assist_offer(struct crn_job *job, struct crn_item *item, uint32_t leader);
/* REROUTE, HELP, FILE, ASK, PIECE or DONE has come. */
void crn_assist_message(struct crn_job *job, const struct crn_msg *n);
/* A worker has news: NOTE_OPENED, NOTE_ASK, NOTE_WRITTEN, or that ASSIST is over. */
void crn_assist_result(struct crn_job *job, struct crn_item *item, struct crn_work *w);
/* The flusher's part: opens the file and writes what it gets. */
CAIRN_CHECKED cairn_err crn_assist_run(struct crn_job *job, struct crn_work *w);
void crn_assist_tick(struct crn_job *job, struct crn_item *item, int64_t now_ns);
/* The version has ended, or the service stops: nothing is waited for any more. */
void crn_assist_end(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *why);
void crn_assist_free(struct crn_aid *aid);

#endif
