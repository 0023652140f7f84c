/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by mail.c and watch.c. For src/comm only. */
#ifndef CRN_COMM_MAIL_IMPL_H
#define CRN_COMM_MAIL_IMPL_H

#include "comm/mail.h"

#define CRN_MAIL_WIDTH 16         /* children of a rank in a tree */
#define CRN_MAIL_WATCH UINT32_MAX /* part id of heartbeats and failure notices */

/* The header of every message. */
struct crn_mail_head {
    uint32_t part;
    /* Number of the collective; 0: a posted message. With CRN_MAIL_WATCH: the kind of message. */
    uint32_t round;
};

/* The neighbours of this rank in the tree of all ranks, its parent and children: they exchange
 * heartbeats. */
struct crn_watch {
    int64_t silence_ns; /* 0: no watch */
    int64_t told_ns;
    int n;
    int who[CRN_MAIL_WIDTH + 1];
    int64_t heard_ns[CRN_MAIL_WIDTH + 1];
    struct crn_errinfo failure; /* permanent */
};

void crn_watch_init(struct crn_watch *w, const struct crn_comm *whole);
void crn_watch_begin(struct crn_watch *w, int64_t silence_ns); /* 0 ends the watch */
/* A message came from a rank. If its part is CRN_MAIL_WATCH, crn_watch_take gets its kind and
 * text. */
void crn_watch_heard(struct crn_watch *w, int from);
void crn_watch_take(struct crn_watch *w, uint32_t kind, const void *text, size_t bytes);
/* Call when a poll finds nothing: sends heartbeats that are due, and fails if a neighbour is
 * silent. */
CAIRN_CHECKED cairn_err crn_watch_look(struct crn_watch *w, struct crn_comm *whole,
                                       struct crn_errinfo *ei);
void crn_watch_tell(struct crn_watch *w, struct crn_comm *whole);

#endif
