/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of an arena that nobody needs yet, made beside the application: reserved and touched by a thread of
 * low priority, or by who waits for it. Inside src/tier only. */
#ifndef CRN_TIER_ARENA_REST_H
#define CRN_TIER_ARENA_REST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct crn_rest {
    int fd;
    uint64_t at;          /* in the file */
    unsigned char *start; /* of the same in memory */
    uint64_t bytes;
    /* The thread's, if there is one, until is_over; then the arena's. */
    uint64_t done;
    int failure; /* errno: no more than done can be had */
    atomic_int is_over;
    atomic_int is_stopped; /* by the arena: leave the rest to me */
    pthread_t thread;
    int has_thread;
};

/* fd, at, start and bytes are set. A thread that cannot be started costs the time of who waits. */
void crn_rest_start(struct crn_rest *r);
/* Has all been done, or failed? Does not wait. */
int crn_rest_is_over(struct crn_rest *r);
/* Ends the thread and, unless it is given up, does what it has not done. r->done bytes are there then. */
void crn_rest_end(struct crn_rest *r, int is_given_up);

/* Reserves bytes of a file: 0 or errno. */
int crn_reserve(int fd, uint64_t at, uint64_t bytes);

#endif
