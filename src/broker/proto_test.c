/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message survives the wire. Every truncated, corrupted or random frame is either refused
 * or decodes to something that encodes again. */
#include "base/test.h"

#include "base/rng.h"
#include "broker/proto.h"

static void fill(struct crn_bp_msg *msg, enum crn_bp_type type)
{
    size_t i;

    memset(msg, 0, sizeof(*msg));
    msg->type = type;
    switch (type) {
    case CRN_BP_HELLO:
        msg->u.hello = (struct crn_bp_hello){.major = 1, .minor = 2, .method = 3, .user = "alice"};
        memset(msg->u.hello.nonce, 7, CRN_BP_NONCE);
        return;
    case CRN_BP_CHALLENGE:
        msg->u.challenge = (struct crn_bp_challenge){.major = 1, .minor = 9};
        return;
    case CRN_BP_PROOF_MSG:
        msg->u.proof.len = CRN_BP_PROOF;
        memset(msg->u.proof.data, 0xfe, CRN_BP_PROOF);
        return;
    case CRN_BP_WELCOME:
        msg->u.welcome = (struct crn_bp_welcome){.epoch = UINT64_MAX,
                                                 .lease_ns = 5,
                                                 .report_ns = 1,
                                                 .is_admin = 1,
                                                 .user = "bob",
                                                 .proof = {.len = 2, .data = {1, 2}}};
        return;
    case CRN_BP_REPORT:
        msg->u.report = (struct crn_bp_report){
            .number = 9, .nodes = 4, .name = "42", .batch = "4711", .n = CRN_BP_MAX_ASKS};
        for (i = 0; i < CRN_BP_MAX_ASKS; i++)
            msg->u.report.ask[i] = (struct crn_bp_ask){
                .seq = (uint32_t)i, .token = "scratch", .kind = 3, .state = 4, .bytes = 1ull << 60};
        return;
    case CRN_BP_STATUS:
        msg->u.status = (struct crn_bp_status){.number = 1, .report = 2, .n = 1};
        msg->u.status.verdict[0] =
            (struct crn_bp_verdict){.seq = 5, .code = 1, .why = 1, .place = 3, .start_ns = 77};
        return;
    case CRN_BP_QUERY:
        msg->u.query = (struct crn_bp_query){.max_requests = 12, .token = "t"};
        return;
    case CRN_BP_TOKEN_ROW:
        msg->u.token_row =
            (struct crn_bp_token_row){.token = "a", .policy = "b", .is_dry = 1, .taken = 3};
        return;
    case CRN_BP_REQUEST_ROW:
        msg->u.request_row =
            (struct crn_bp_request_row){.id = 1, .job = "7", .kind = 2, .state = 1, .done = 8};
        return;
    case CRN_BP_CONTROL:
        msg->u.control = (struct crn_bp_control){.op = 3, .id = 4, .argument = "ordered"};
        return;
    case CRN_BP_PROBE:
        msg->u.probe = (struct crn_bp_probe){.major = 1, .minor = 3};
        return;
    case CRN_BP_SERVING:
        msg->u.serving.epoch = UINT64_MAX - 1;
        return;
    case CRN_BP_USER_ROW:
        msg->u.user_row = (struct crn_bp_user_row){
            .user = "@physics", .jobs = 3, .share = 499999, .weight = 4000};
        return;
    default:
        msg->u.done = (struct crn_bp_done){.code = -63, .text = "no"};
        return;
    }
}

static void all_messages_survive(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned type;

    (void)state;
    for (type = CRN_BP_HELLO; type <= CRN_BP_USER_ROW; type++) {
        struct crn_bp_msg in, out;
        struct crn_buf b = {0};
        size_t size;

        fill(&in, (enum crn_bp_type)type);
        crn_bp_encode(&in, &b);
        assert_ok(crn_bp_frame(b.data, b.len, CRN_BP_MAX_FRAME, &size, ei));
        assert_int_equal(size, b.len);
        assert_ok(crn_bp_decode(b.data, b.len, &out, ei));
        assert_memory_equal(&in, &out, sizeof(in));
        crn_buf_free(&b);
    }
}

static void later_minor_versions_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_bp_msg in, out;
    struct crn_buf b = {0};

    (void)state;
    fill(&in, CRN_BP_STATUS);
    crn_bp_encode(&in, &b);
    crn_buf_u64(&b, 123); /* a field unknown to this version */
    crn_buf_set_u32(&b, 0, (uint32_t)(b.len - 4));
    assert_ok(crn_bp_decode(b.data, b.len, &out, ei));
    assert_memory_equal(&in, &out, sizeof(in));
    crn_buf_free(&b);
}

static void every_cut_is_refused(void **state)
{
    unsigned type;

    (void)state;
    for (type = CRN_BP_HELLO; type <= CRN_BP_USER_ROW; type++) {
        struct crn_bp_msg in, out;
        struct crn_buf b = {0};
        size_t cut;

        fill(&in, (enum crn_bp_type)type);
        crn_bp_encode(&in, &b);
        for (cut = 0; cut < b.len; cut++) {
            /* exact size, so that sanitizers detect a read beyond it */
            unsigned char *copy = malloc(cut + 1);

            memcpy(copy, b.data, cut);
            if (cut >= 4)
                copy[0] = (unsigned char)(cut - 4), copy[1] = (unsigned char)((cut - 4) >> 8);
            if (type == CRN_BP_REPORT && cut == b.len - 2 - strlen(in.u.report.batch)) {
                /* a client of version 1.0 */
                assert_int_equal(crn_bp_decode(copy, cut, &out, NULL), CAIRN_OK);
                assert_string_equal(out.u.report.batch, "");
            } else {
                assert_int_equal(crn_bp_decode(copy, cut, &out, NULL), CAIRN_EFORMAT);
            }
            free(copy);
        }
        crn_buf_free(&b);
    }
}

static void lengths_are_capped(void **state)
{
    unsigned char frame[CRN_BP_HEAD] = {0xff, 0xff, 0xff, 0x7f, 1, 0};
    size_t size;

    (void)state;
    assert_int_equal(crn_bp_frame(frame, 6, CRN_BP_MAX_FRAME, &size, NULL), CAIRN_EFORMAT);
    memset(frame, 0, 4);
    assert_int_equal(crn_bp_frame(frame, 6, CRN_BP_MAX_FRAME, &size, NULL), CAIRN_EFORMAT);
    frame[0] = 1;
    assert_int_equal(crn_bp_frame(frame, 6, CRN_BP_MAX_FRAME, &size, NULL), CAIRN_EFORMAT);
    assert_int_equal(crn_bp_frame(frame, 5, CRN_BP_MAX_FRAME, &size, NULL), CAIRN_OK);
    assert_int_equal(size, 0);
}

static void control_characters_are_refused(void **state)
{
    struct crn_bp_msg in, out;
    struct crn_buf b = {0};

    (void)state;
    fill(&in, CRN_BP_REPORT);
    (void)snprintf(in.u.report.name, sizeof(in.u.report.name), "\033[2J");
    crn_bp_encode(&in, &b);
    assert_int_equal(crn_bp_decode(b.data, b.len, &out, NULL), CAIRN_EFORMAT);
    crn_buf_free(&b);
}

/* A message decoded from damaged bytes must encode to the same message again. */
static void damaged_bytes_do_no_harm(void **state)
{
    struct crn_rng rng;
    unsigned round;

    (void)state;
    crn_rng_seed(&rng, 5);
    for (round = 0; round < 20000; round++) {
        struct crn_bp_msg in, out, again;
        struct crn_buf b = {0};
        unsigned flips = 1 + (unsigned)crn_rng_below(&rng, 4);

        fill(&in, (enum crn_bp_type)(1 + crn_rng_below(&rng, CRN_BP_USER_ROW)));
        crn_bp_encode(&in, &b);
        for (; flips > 0; flips--)
            b.data[4 + crn_rng_below(&rng, b.len - 4)] ^=
                (unsigned char)(1u << crn_rng_below(&rng, 8));
        if (crn_bp_decode(b.data, b.len, &out, NULL) == CAIRN_OK) {
            b.len = 0;
            crn_bp_encode(&out, &b);
            assert_int_equal(crn_bp_decode(b.data, b.len, &again, NULL), CAIRN_OK);
            assert_memory_equal(&out, &again, sizeof(out));
        }
        crn_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_messages_survive),
        cmocka_unit_test(later_minor_versions_are_read),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(lengths_are_capped),
        cmocka_unit_test(control_characters_are_refused),
        cmocka_unit_test(damaged_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
