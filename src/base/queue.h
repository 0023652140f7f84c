/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded queue of pointers between threads. A full one makes the producer wait; a closed one
 * takes nothing more and hands out what it still holds. */
#ifndef CRN_QUEUE_H
#define CRN_QUEUE_H

#include "base/thread.h"

struct crn_queue {
    struct crn_mutex mu;
    struct crn_cond changed;
    void **slot; /* ring */
    size_t cap;
    size_t head;
    size_t len;
    int closed;
};

CAIRN_CHECKED cairn_err crn_queue_init(struct crn_queue *q, size_t cap, struct crn_errinfo *ei);
void crn_queue_fini(struct crn_queue *q); /* the items left are the caller's business */
/* 0, or -1 if the queue is closed. */
int crn_queue_push(struct crn_queue *q, void *item);
/* The oldest item; NULL when closed and empty. */
void *crn_queue_pop(struct crn_queue *q);
void *crn_queue_try_pop(struct crn_queue *q); /* NULL when there is none now */
void crn_queue_close(struct crn_queue *q);

#endif
