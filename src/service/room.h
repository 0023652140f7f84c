/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for free space on the file system before a file is written. On the flusher's thread. */
#ifndef CRN_SERVICE_ROOM_H
#define CRN_SERVICE_ROOM_H

#include "service/job.h"

/* A flush that waits for free space. */
struct crn_flush_room {
    struct crn_job *job;
    struct crn_item *item;
    const struct crn_store *st;
    uint32_t file_no;
    uint64_t need;
    int64_t until_ns;   /* monotonic: the flush fails then */
    int64_t warn_at_ns; /* monotonic: time of the next warning; 0: none given yet */
    int64_t warn_every_ns;
};

/* Waits until the store has enough free space for the file. This is the check beforehand; running
 * out of space later is an error. */
CAIRN_CHECKED cairn_err crn_room_wait(struct crn_flush_room *r, struct crn_errinfo *ei);
/* The preallocation failed despite the check: returns 1 to retry. */
int crn_room_retry(struct crn_flush_room *r, struct crn_errinfo *ei);
/* Returns 1 if a warning is due: at once, after a minute, then at doubling intervals of up to an
 * hour. */
int crn_room_warns(struct crn_flush_room *r, int64_t now_ns);
/* "it needs 4.1 GiB ... and 1.2 GiB are free; ...". */
void crn_room_text(const struct crn_flush_room *r, const struct crn_room *room, char *ret,
                   size_t size);

#endif
