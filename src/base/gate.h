/* SPDX-License-Identifier: BSD-3-Clause */
/* Throttles background I/O in three ways: a bandwidth cap (a token bucket), a lower "calm" rate
 * while nobody waits for a flush, and a pause while the application needs network and disks. The
 * pause is bounded for each flush, so an application that forgets to end its phase cannot stall a
 * flush forever. Any thread. */
#ifndef CRN_GATE_H
#define CRN_GATE_H

#include "base/thread.h"

struct crn_gate {
    struct crn_mutex mu;
    struct crn_cond changed;
    uint64_t rate;             /* bytes a second; 0: no cap */
    int (*is_busy)(void *arg); /* is the application busy? NULL: never. Called under the lock */
    void *arg;
    int64_t patience_ns;
    /* Under the lock. */
    uint64_t calm_rate; /* bytes a second; 0: only the cap applies */
    int64_t next_ns;    /* when the bucket has tokens again */
    int64_t refused_ns; /* when a thread was last paused; 0: none is paused */
    int64_t held_ns;    /* total pause of the current flush */
    int64_t since_ns;   /* when the current wait began; 0: no thread waits */
    int64_t waited_ns;  /* total since init; counts once, however many threads wait */
    int is_open;
};

void crn_gate_init(struct crn_gate *g, uint64_t rate, int64_t patience_ns,
                   int (*is_busy)(void *arg), void *arg);
void crn_gate_fini(struct crn_gate *g);
/* A flush begins: it may be paused for patience_ns in total. */
void crn_gate_begin(struct crn_gate *g);
/* Sets the calm rate, below the cap; 0: only the cap applies. Waiting threads re-evaluate. Called
 * by one thread only. */
void crn_gate_calm(struct crn_gate *g, uint64_t rate, int64_t now_ns);
/* Total time that threads have waited. 0 if g is NULL. */
int64_t crn_gate_waited_ns(struct crn_gate *g);
/* May this many bytes be sent now? 0: yes, and they are charged. Otherwise: ask again after this
 * many ns. */
int64_t crn_gate_ask(struct crn_gate *g, uint64_t bytes, int64_t now_ns);
/* Waits until the bytes may be sent. */
void crn_gate_pass(struct crn_gate *g, uint64_t bytes);
/* How many bytes should be sent at a time: a multiple of 64 KiB; UINT64_MAX if nothing is
 * limited. */
uint64_t crn_gate_step(struct crn_gate *g);
/* Opens the gate for good: no thread waits any more. */
void crn_gate_open(struct crn_gate *g);

#endif
