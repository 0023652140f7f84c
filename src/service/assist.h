/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that help the leader of a data file to write it: the messages around aggregate/assist.h.
 *
 *   root -> idle leader   REROUTE: the leader of another group lags
 *   assistant -> leader   HELP: this node is free
 *   leader -> assistant   FILE (generation, name) once it exists; no name: no help is wanted
 *   assistant -> leader   ASK, for each free block, once the file is open
 *   leader -> assistant   PIECE (id, owner, offset, extents), or: no more, or: none at the moment
 *   assistant -> leader   DONE (id, checksums); finally without an id: all is durable, or why not
 *   idle leader -> root   NODE_IDLE: that leader wants no more help
 *
 * All on the loop thread, except crn_assist_run. When a version ends, assistance ends on every
 * node. */
#ifndef CRN_SERVICE_ASSIST_H
#define CRN_SERVICE_ASSIST_H

#include "aggregate/assist.h"
#include "service/job.h"

/* A leader's record of an assistant. */
struct crn_helper {
    struct crn_helper *next;
    struct crn_assistant engine;
    uint32_t node;
    int has_left;
    int64_t deadline_ns; /* for its next message, while it has writes */
};

/* Assist state of an item. */
struct crn_aid {
    /* Leader. */
    struct crn_helper *helpers; /* owned */
    char file[CRN_FILE_NAME];   /* empty: not created yet */
    uint64_t generation;
    uint64_t current; /* generation of the current attempt; later ones get no help */
    /* Assistant. */
    char of_file[CRN_FILE_NAME]; /* the leader's file */
    uint64_t of_generation;
    void **asked; /* owned; blocks whose ASK is unanswered */
    uint64_t nasked;
    int64_t deadline_ns; /* for the next answer */
};

/* FILE has come: takes what to write. Returns 0 if this node cannot assist. */
int crn_assist_file(struct crn_job *job, struct crn_item *item, const struct crn_msg *n);
/* HELP, ASK, PIECE or DONE has come. */
void crn_assist_message(struct crn_job *job, const struct crn_msg *n);
/* Handles news from a worker: NOTE_OPENED, NOTE_ASK, NOTE_WRITTEN, or the end of ASSIST. */
void crn_assist_result(struct crn_job *job, struct crn_item *item, struct crn_work *w);
/* On the flusher: opens the file and writes what the leader assigns. */
CAIRN_CHECKED cairn_err crn_assist_run(struct crn_job *job, struct crn_work *w);
void crn_assist_tick(struct crn_job *job, struct crn_item *item, int64_t now_ns);
/* The version has ended or the service stops: answers all open requests. */
void crn_assist_end(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *why);
void crn_assist_free(struct crn_aid *aid);

#endif
