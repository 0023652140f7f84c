/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded queue of pointers between threads. A full queue blocks the producer. A closed queue
 * takes no more items and hands out those it still has. */
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
void crn_queue_fini(struct crn_queue *q); /* remaining items stay the caller's */
/* 0, or -1 if the queue is closed. */
int crn_queue_push(struct crn_queue *q, void *item);
/* Removes the oldest item; NULL if the queue is closed and empty. */
void *crn_queue_pop(struct crn_queue *q);
void *crn_queue_try_pop(struct crn_queue *q); /* NULL if the queue is empty */
void crn_queue_close(struct crn_queue *q);

#endif
