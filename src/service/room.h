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
    int64_t until_ns;
    int told;
};

/* Waits until the store has room for the file. Running out later is an error; this is the check
 * before. */
CAIRN_CHECKED cairn_err crn_flush_room_wait(struct crn_flush_room *r, struct crn_errinfo *ei);
/* The room that was asked for beforehand was not given after all: 1 to try again. */
int crn_flush_room_retry(struct crn_flush_room *r, struct crn_errinfo *ei);

#endif
