/* SPDX-License-Identifier: BSD-3-Clause */
/* A world for tests of the chain, without threads. Tiers are byte arrays. A copy moves its first
 * half when it begins and its second half when it ends, so anything evicted or overwritten too
 * early shows in the bytes of the next read. Also checks the invariants at every moment. */
#ifndef CRN_TIER_TEST_WORLD_H
#define CRN_TIER_TEST_WORLD_H

#include "base/test.h"
#include "base/rng.h"
#include "tier/chain_impl.h"

#define KEYS    40
#define PAGE    64U
#define MAXB    (12 * PAGE)
#define LASTB   (KEYS * MAXB * 4)
#define MOVES   16
#define NTIERS  4 /* at most */
#define TICK_NS 1000

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct world_world {
    struct crn_chain *c;
    struct crn_rng rng;
    int64_t now;
    int ntiers;
    unsigned char *mem[NTIERS];
    uint64_t bytes[KEYS]; /* 0: not written */
    int is_gone[KEYS];    /* read with discard, or forgotten */
    struct crn_tier_transfer move[MOVES];
    unsigned char *half[MOVES]; /* the first half, read at the beginning */
    int nmoves;
    enum crn_life seen[KEYS][NTIERS];
    unsigned fail_in_16; /* so many of 16 background copies fail */
    int lost;            /* tier that died; -1 */
    int may_lose;        /* checkpoints with a single copy may be gone */
};

/* Invariants. ---------------------------------------------------------------------------------- */

void check_chain(const struct crn_chain *c);

/* A checkpoint held for a read stays until it is consumed, whatever happens. */
void check_holds(struct world_world *w);

/* Copies. -------------------------------------------------------------------------------------- */

void begin(struct world_world *w, const struct crn_tier_transfer *t);

void finish(struct world_world *w, int m, cairn_err rc);

void finish_random(struct world_world *w);

/* Starts all copies that the links can start now. */
int poll_links(struct world_world *w);

void run_dry(struct world_world *w);

/* Acts as the service: flushes one checkpoint from host memory or the tier below it; 0 if there is
 * none. */
int flush_external(struct world_world *w);

/* ntiers: 3, the last has space for all; or 4 as in a session, with an is_behind tier below memory
 * and one that a service fills (flush_external). */
void open_tiers(struct world_world *w, int ntiers, uint64_t seed, enum crn_evict policy,
                int discard);

void open_world(struct world_world *w, uint64_t seed, enum crn_evict policy, int discard);

void close_world(struct world_world *w);

/* Blocks as an application does: other copies continue until there is space. */
void write_now(struct world_world *w, uint64_t key, uint64_t bytes);

cairn_err read_now(struct world_world *w, uint64_t key, int *ret_tier);

#endif
