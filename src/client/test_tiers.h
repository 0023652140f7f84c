/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture for tests of a session's tiers: data on the host or on a device, twelve versions, read
 * orders, and sessions whose flushes never end. */
#ifndef CRN_CLIENT_TEST_TIERS_H
#define CRN_CLIENT_TEST_TIERS_H

#include "client/test_bed.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "client/tiers_impl.h"

#define NEVER "free_reserve_bytes=1000T" /* no flush ends */

extern uint64_t data[N];

void set(uint64_t version);

int is_set(uint64_t version);

int is_persistent(cairn_session *s, int64_t version);

/* Runs body in a child and kills it: the only way to leave a session whose flushes never end. */
void killed_child(struct bed_bed *b, void (*body)(struct bed_bed *b));

void in_child(void (*body)(struct bed_bed *b));

enum order { SEQUENTIAL, REVERSE, IRREGULAR, ORDERS };

#define VERSIONS 12

void make_order(enum order order, int64_t *ret);

/* Is the application's data on the host or on the device of the bed? */
struct tiers_world {
    struct bed_bed b;
    int is_gpu;
};

void world_open(struct tiers_world *w, int is_gpu);

void world_close(struct tiers_world *w);

void world_protect(struct tiers_world *w, cairn_session *s);

void world_set(struct tiers_world *w, int64_t version);

int world_is_set(struct tiers_world *w, int64_t version);

void take_all(struct tiers_world *w, cairn_session *s);

void read_all(struct tiers_world *w, cairn_session *s, const int64_t *order);

void enqueue_all(cairn_session *s, const int64_t *order);

uint64_t prefetched(const cairn_session *s);

#endif
