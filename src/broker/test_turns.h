/* SPDX-License-Identifier: BSD-3-Clause */
/* A core with its own clock and CONNS connections, for its tests. The odd ones belong to bob,
 * the even ones to alice, the last to an administrator. */
#ifndef CRN_TEST_TURNS_H
#define CRN_TEST_TURNS_H

#include "base/test.h"

#include "broker/turns.h"

#define S     1000000000LL
#define EPOCH 77
#define CONNS 16

struct turns_world {
    struct crn_turns *turns;
    int64_t now;
    uint64_t number;
    struct crn_bp_status last[CONNS]; /* newest status of each connection */
    struct crn_turns_decision told[64];
    char told_job[64][CRN_BP_NAME];
    uint32_t ntold;
};

void turns_open_world(struct turns_world *w, const struct crn_turns_token *token, size_t ntokens);

static const struct crn_turns_token one = {
    .name = "scratch", .slots = 1, .bandwidth = 1000, .policy = &crn_policy_ordered_nb};

void pump(struct turns_world *w);

void turns_close_world(struct turns_world *w);

void pass(struct turns_world *w, int64_t ns);

struct crn_bp_ask waiting(uint32_t seq, uint64_t bytes);

struct crn_bp_ask in_state(uint32_t seq, enum crn_bp_state state, uint64_t epoch);

/* Connection c reports for job c. */
void say(struct turns_world *w, uint32_t c, const struct crn_bp_ask *ask, uint16_t n);

void ask_one(struct turns_world *w, uint32_t c, uint32_t seq);

void keep(struct turns_world *w, uint32_t c, uint32_t seq, uint64_t done);

#define assert_verdict(w, c, wanted)                                                               \
    do {                                                                                           \
        assert_int_equal((w)->last[c].n, 1);                                                       \
        assert_int_equal((w)->last[c].verdict[0].code, wanted);                                    \
    } while (0)

#endif
