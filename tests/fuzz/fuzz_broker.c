/* SPDX-License-Identifier: BSD-3-Clause */
/* The input of a broker: a stream of frames. Every frame that decodes must encode to a frame
 * that decodes to the same; reports, queries and controls go into a core, whose invariants must
 * hold. */
#include "fuzz.h"

#include "broker/turns.h"

#define CONNS 4

static void no_row(void *arg, const struct crn_bp_msg *row)
{
    (void)arg;
    (void)row;
}

static void round_trip(const struct crn_bp_msg *msg)
{
    struct crn_buf first = {0}, second = {0};
    struct crn_bp_msg again;

    crn_bp_encode(msg, &first);
    if (first.failed || crn_bp_decode(first.data, first.len, &again, NULL) != CAIRN_OK)
        abort();
    crn_bp_encode(&again, &second);
    if (second.len != first.len || memcmp(first.data, second.data, first.len) != 0)
        abort();
    crn_buf_free(&first);
    crn_buf_free(&second);
}

static void act(struct crn_turns *t, int64_t now, uint32_t conn, const struct crn_bp_msg *msg)
{
    struct crn_bp_status status;
    uint32_t to;

    if (msg->type == CRN_BP_REPORT)
        (void)!crn_turns_report(t, now, conn, &msg->u.report, NULL);
    else if (msg->type == CRN_BP_CONTROL)
        (void)!crn_turns_control(t, now, conn, &msg->u.control, NULL);
    else if (msg->type == CRN_BP_QUERY)
        (void)crn_turns_query(t, now, conn, &msg->u.query, no_row, NULL);
    crn_turns_tick(t, now);
    while (crn_turns_next(t, now, &to, &status))
        if (to >= CONNS)
            abort();
    if (crn_turns_check(t) != NULL)
        abort();
}

static struct crn_turns *new_turns(void)
{
    static const struct crn_turns_token token = {
        .name = "t", .slots = 1, .bandwidth = 10, .policy = &crn_policy_least_waste};
    const struct crn_turns_config cfg = {.token = &token,
                                         .ntokens = 1,
                                         .epoch = 1,
                                         .lease_ns = 5,
                                         .grace_ns = 5,
                                         .starve_ns = 3,
                                         .max_conns = CONNS,
                                         .max_jobs = 3,
                                         .max_user_jobs = 3};
    struct crn_turns *t = NULL;
    uint32_t i;

    if (crn_turns_new(&cfg, 1, &t, NULL) != CAIRN_OK)
        return NULL;
    for (i = 0; i < CONNS; i++)
        crn_turns_opened(t, i, i % 2 == 0 ? "a" : "b", i == 0);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct crn_turns *t = new_turns();
    int64_t now = 1;
    size_t at = 0;

    while (t != NULL && at < size) {
        struct crn_bp_msg msg;
        size_t frame;

        if (crn_bp_frame(data + at, size - at, CRN_BP_MAX_FRAME, &frame, NULL) != CAIRN_OK ||
            frame == 0 || frame > size - at)
            break;
        if (crn_bp_decode(data + at, frame, &msg, NULL) == CAIRN_OK) {
            round_trip(&msg);
            now++;
            act(t, now, (uint32_t)(now % CONNS), &msg);
        }
        at += frame;
    }
    crn_turns_free(t);
    return 0;
}
