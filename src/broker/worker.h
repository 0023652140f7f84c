/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that answers questions which may block, because the event loop must not: MUNGE and the
 * user database (login), squeue (batch). Questions and answers are the same struct. */
#ifndef CRN_BROKER_WORKER_H
#define CRN_BROKER_WORKER_H

#include "base/err.h"

struct crn_worker;

struct crn_worker_work {
    const char *name; /* of the thread */
    size_t size;      /* of an item */
    size_t max;       /* items under way */
    void (*answer)(const void *arg, void *item);
    const void *arg; /* constant */
};

CAIRN_CHECKED cairn_err crn_worker_start(const struct crn_worker_work *work,
                                         struct crn_worker **ret, struct crn_errinfo *ei);
void crn_worker_stop(struct crn_worker *w); /* waits for the current item; NULL is allowed */
/* Readable when there are answers. */
int crn_worker_fd(const struct crn_worker *w);
/* Copies the item. Never blocks; 0, or -1 if max are under way. */
int crn_worker_submit(struct crn_worker *w, const void *item);
/* 1 and an answered item, or 0. */
int crn_worker_result(struct crn_worker *w, void *ret);

#endif
