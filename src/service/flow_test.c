/* SPDX-License-Identifier: BSD-3-Clause */
/* How a node answers a request for data that it no longer has. Transfers: tests/mpi/share.c;
 * unreadable data: tests/crash/assist_test.py. */
#include "base/test.h"
#include "service/flow.h"

enum { ASKER = 2, TAG = 41, SEQ = 7 };

static struct crn_msg answer; /* the last message posted */
static int answers, to;

static cairn_err post(struct crn_comm *c, int address, const void *data, size_t len,
                      struct crn_errinfo *ei)
{
    (void)c;
    answers++;
    to = address;
    return crn_msg_decode(data, len, &answer, ei);
}

static void what_is_not_there_is_refused(void **state)
{
    static const struct crn_comm_ops ops = {.post = post};
    struct crn_comm comm = {.ops = &ops, .rank = 0, .size = 3};
    struct crn_service svc = {.comm = &comm};
    uint32_t peers[] = {0, 1, 5}; /* service addresses differ from node numbers */
    struct crn_job job = {.svc = &svc, .run = "this run", .nodes = 3, .peers = peers};
    struct crn_item_data data = {0};
    struct crn_item item = {.seq = SEQ, .shell = &data}; /* not served yet, or no longer */
    unsigned char extents[4] = {1};
    struct crn_msg ask = {.type = CRN_MSG_FETCH,
                          .seq = SEQ,
                          .node = ASKER,
                          .fetch = {.tag = TAG, .extents = {extents, sizeof(extents)}}};
    int i;

    (void)state;
    for (i = 0; i < 4; i++) {
        ask.type = i % 2 == 0 ? CRN_MSG_FETCH : CRN_MSG_FETCH_OLDER;
        crn_flow_asked(&job, i < 2 ? NULL : &item, &ask);
        assert_int_equal(answers, i + 1);
        assert_int_equal(to, 5);
        assert_int_equal(answer.type, CRN_MSG_NOT_SENT);
        assert_int_equal(answer.not_sent.tag, TAG);
        assert_int_equal(answer.seq, SEQ);
        assert_memory_equal(answer.run, job.run, sizeof(job.run));
    }
    ask.node = 3; /* no such node */
    crn_flow_asked(&job, NULL, &ask);
    assert_int_equal(answers, 4);
}

/* The data came after all, or the receive was given up: nothing waits for it. */
static void a_refusal_of_nothing_is_passed_over(void **state)
{
    struct crn_service svc = {0};
    struct crn_job job = {.svc = &svc};
    struct crn_msg n = {.type = CRN_MSG_NOT_SENT, .seq = SEQ, .not_sent.tag = TAG};

    (void)state;
    crn_flow_not_sent(&job, &n);
    assert_null(svc.flows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_not_there_is_refused),
                                       cmocka_unit_test(a_refusal_of_nothing_is_passed_over)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
