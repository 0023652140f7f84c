/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of an arena that is not needed yet. A low-priority thread reserves and touches it in
 * the background, or a caller that needs it does so at once. Inside src/tier only. */
#ifndef CRN_TIER_ARENA_REST_H
#define CRN_TIER_ARENA_REST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct crn_rest {
    int fd;
    uint64_t at;          /* in the file */
    unsigned char *start; /* its address in memory */
    uint64_t bytes;
    /* Owned by the thread, if there is one, until is_over; then by the arena. */
    uint64_t done;
    int failure; /* errno: only `done` bytes are available */
    atomic_int is_over;
    atomic_int is_stopped; /* set by the arena, which does the rest itself */
    pthread_t thread;
    int has_thread;
};

/* The caller has set fd, at, start and bytes. If the thread cannot be started, the caller that
 * needs the memory waits longer. */
void crn_rest_start(struct crn_rest *r);
/* Is everything done, or has it failed? Does not wait. */
int crn_rest_is_over(struct crn_rest *r);
/* Stops the thread and, unless is_given_up, does the rest itself. Afterwards r->done bytes are
 * usable. */
void crn_rest_end(struct crn_rest *r, int is_given_up);

/* Reserves bytes of a file: 0 or errno. */
int crn_rest_reserve(int fd, uint64_t at, uint64_t bytes);

#endif
