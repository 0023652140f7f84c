/* SPDX-License-Identifier: BSD-3-Clause */
/* Room on the file system for a file that is about to be written. A flusher's thread. */
#ifndef CRN_SERVICE_ROOM_H
#define CRN_SERVICE_ROOM_H

#include "service/job.h"

/* A flush that waits for room. */
struct crn_flush_room {
    struct crn_job *job;
    struct crn_item *item;
    const struct crn_store *st;
    uint32_t file_no;
    uint64_t need;
    int64_t until_ns;   /* monotonic: then it fails */
    int64_t warn_at_ns; /* monotonic: when the warning is due again; 0: it was not given yet */
    int64_t warn_every_ns;
};

/* Waits until the store has room for the file. Running out later is an error; this is the check
 * before. */
CAIRN_CHECKED cairn_err crn_flush_room_wait(struct crn_flush_room *r, struct crn_errinfo *ei);
/* The room that was asked for beforehand was not given after all: 1 to try again. */
int crn_flush_room_retry(struct crn_flush_room *r, struct crn_errinfo *ei);
/* 1 if the warning is due now: at once, after a minute, then after twice as long each time, up to an hour. */
int crn_flush_room_warns(struct crn_flush_room *r, int64_t now_ns);
/* "it needs 4.1 GiB ... and 1.2 GiB are free; ...". */
void crn_flush_room_text(const struct crn_flush_room *r, const struct crn_room *room, char *ret,
                         size_t size);

#endif
