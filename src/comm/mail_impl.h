/* SPDX-License-Identifier: BSD-3-Clause */
/* What mail.c and watch.c share. Inside src/comm only. */
#ifndef CRN_COMM_MAIL_IMPL_H
#define CRN_COMM_MAIL_IMPL_H

#include "comm/mail.h"

#define CRN_MAIL_WIDTH 16         /* children of a rank in a tree */
#define CRN_MAIL_WATCH UINT32_MAX /* the part of beats and cries */

/* In front of every message. */
struct crn_mail_head {
    uint32_t part;
    uint32_t round; /* of a collective; 0: a message of post; of CRN_MAIL_WATCH: what it is */
};

/* Those that this rank hears, and that hear it: above and below it in the tree of all ranks. */
struct crn_watch {
    int64_t silence_ns; /* 0: nobody is watched */
    int64_t told_ns;
    int n;
    int who[CRN_MAIL_WIDTH + 1];
    int64_t heard_ns[CRN_MAIL_WIDTH + 1];
    struct crn_errinfo failure; /* for ever */
};

void crn_watch_init(struct crn_watch *w, const struct crn_comm *whole);
void crn_watch_begin(struct crn_watch *w, int64_t silence_ns); /* or ends it */
/* Something came from a rank; of CRN_MAIL_WATCH: which kind, and its text. */
void crn_watch_heard(struct crn_watch *w, int from);
void crn_watch_take(struct crn_watch *w, uint32_t kind, const void *text, size_t bytes);
/* Of a rank that has looked and found nothing: tells that it is there, and fails if another is not. */
CAIRN_CHECKED cairn_err crn_watch_look(struct crn_watch *w, struct crn_comm *whole,
                                       struct crn_errinfo *ei);
void crn_watch_tell(struct crn_watch *w, struct crn_comm *whole);

#endif
