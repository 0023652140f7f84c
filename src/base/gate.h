/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the background waits for its turn: a cap on its bandwidth (a token bucket), a lower one while
 * nobody waits for what it does, and a pause while the application wants network and disks for itself. The
 * pause is bounded for each flush, so that an application that forgets to say when it is done stalls
 * nothing for ever. Any thread. */
#ifndef CRN_GATE_H
#define CRN_GATE_H

#include "base/thread.h"

struct crn_gate {
    struct crn_mutex mu;
    struct crn_cond changed;
    uint64_t rate;             /* bytes a second; 0: no cap */
    int (*is_busy)(void *arg); /* the application; NULL: never. Called under the lock */
    void *arg;
    int64_t patience_ns;
    /* Lock. */
    uint64_t calm_rate; /* bytes a second, for now; 0: only the cap counts */
    int64_t next_ns;    /* when the bucket has tokens again */
    int64_t refused_ns; /* when somebody was last held back; 0: not now */
    int64_t held_ns;    /* of this flush, so far */
    int64_t since_ns;   /* when who waits now began to; 0: nobody does */
    int64_t waited_ns;  /* ever, in all; time counts once, however many wait */
    int is_open;
};

void crn_gate_init(struct crn_gate *g, uint64_t rate, int64_t patience_ns,
                   int (*is_busy)(void *arg), void *arg);
void crn_gate_fini(struct crn_gate *g);
/* A flush begins: it may be held back for patience_ns in all. */
void crn_gate_begin(struct crn_gate *g);
/* From now on no more than this, and than the cap; 0: the cap alone. Who waits looks again. One thread. */
void crn_gate_calm(struct crn_gate *g, uint64_t rate, int64_t now_ns);
/* How long somebody was held back, ever. NULL: nobody was. */
int64_t crn_gate_waited_ns(struct crn_gate *g);
/* May so many bytes be sent off now? 0: yes, and they are counted; otherwise ask again in so many ns. */
int64_t crn_gate_ask(struct crn_gate *g, uint64_t bytes, int64_t now_ns);
/* Waits until they may. */
void crn_gate_pass(struct crn_gate *g, uint64_t bytes);
/* As much as should pass at a time, a multiple of 64 KiB; UINT64_MAX where nothing is limited. */
uint64_t crn_gate_step(struct crn_gate *g);
/* Nobody waits any more. */
void crn_gate_open(struct crn_gate *g);

#endif
