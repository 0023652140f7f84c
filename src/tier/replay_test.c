/* SPDX-License-Identifier: BSD-3-Clause */
/* Replays whose results can be computed by hand, and policies compared on random traces. */
#include "base/test.h"

#include <inttypes.h>

#include "base/rng.h"
#include "tier/replay.h"

#define MIB ((uint64_t)1 << 20)
#define MS  INT64_C(1000000)

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

static void add(struct crn_trace *t, int64_t at, enum crn_request_kind kind, uint64_t key,
                uint64_t bytes)
{
    struct crn_request r = {at, at, kind, key, bytes};

    assert_ok(crn_trace_add(t, &r, ei));
}

enum order { SEQUENTIAL, REVERSE, IRREGULAR };

/* Writes n checkpoints, then reads them, with gap_ns between requests. */
static void make_shot(struct crn_trace *t, uint64_t n, enum order order, int64_t gap_ns, int hints,
                      struct crn_rng *rng)
{
    int64_t at = 0;
    uint64_t i;

    memset(t, 0, sizeof(*t));
    for (i = 0; hints && i < n; i++)
        add(t, 0, CRN_REQUEST_HINT,
            order == SEQUENTIAL ? i
            : order == REVERSE  ? n - 1 - i
                                : (i * 7 + 3) % n,
            0);
    for (i = 0; i < n; i++)
        add(t, at += gap_ns, CRN_REQUEST_WRITE, i,
            rng != NULL ? MIB / 4 + crn_rng_below(rng, 2 * MIB) : MIB);
    add(t, at, CRN_REQUEST_START, 0, 0);
    for (i = 0; i < n; i++)
        add(t, at += gap_ns, CRN_REQUEST_READ,
            order == SEQUENTIAL ? i
            : order == REVERSE  ? n - 1 - i
                                : (i * 7 + 3) % n,
            0);
}

/* 1000 MiB/s within the first tier, 100 to the second, 10 to the third. */
static const struct crn_replay_options three = {
    .ntiers = 3,
    .tier = {{4 * MIB, 1000.0 * (double)MIB, 0},
             {8 * MIB, 100.0 * (double)MIB, 0},
             {UINT64_MAX, 10.0 * (double)MIB, 0}},
};

static void test_by_hand(void **state)
{
    struct crn_replay_result r;
    struct crn_trace t;

    (void)state;
    /* Four fit the first tier: no waits, all hits, each copy 1 ms (and 1 ns of rounding up). */
    make_shot(&t, 4, REVERSE, 100 * MS, 1, NULL);
    assert_ok(crn_replay(&three, &t, &r, ei));
    assert_int_equal(r.writes, 4);
    assert_int_equal(r.reads, 4);
    assert_int_equal(r.waits, 0);
    assert_int_equal(r.hits[0], 4);
    assert_int_equal(r.write_ns, 4 * (MS + 1));
    assert_int_equal(r.read_ns, 4 * (MS + 1));
    assert_int_equal(r.distance, 3 + 2 + 1);
    crn_trace_free(&t);
    /* Six with no compute time: the fifth waits for the flush of the first, 10 ms after its
     * capture, and so on. */
    make_shot(&t, 6, REVERSE, 0, 0, NULL);
    assert_ok(crn_replay(&three, &t, &r, ei));
    assert_int_equal(r.waits, 2);
    assert_int_equal(r.write_wait_ns, 2 * 10 * MS - 3 * MS - MS + 2 - 3 - 1);
    assert_int_equal(r.hits[0], 4);
    assert_int_equal(r.hits[1], 2);
    crn_trace_free(&t);
}

/* With all hints and time to prefetch, checkpoints on the host become hits of the first tier
 * too. */
static void test_hints_help(void **state)
{
    struct crn_replay_result with;
    struct crn_replay_result without;
    struct crn_trace t;
    int order;

    (void)state;
    for (order = SEQUENTIAL; order <= IRREGULAR; order++) {
        make_shot(&t, 10, (enum order)order, 1000 * MS, 1, NULL);
        assert_ok(crn_replay(&three, &t, &with, ei));
        crn_trace_free(&t);
        make_shot(&t, 10, (enum order)order, 1000 * MS, 0, NULL);
        assert_ok(crn_replay(&three, &t, &without, ei));
        crn_trace_free(&t);
        assert_int_equal(with.hits[0], 10);
        assert_int_equal(without.hits[0], 4);
        assert_true(with.read_ns < without.read_ns);
    }
}

/* All sizes, little time, every policy: everything is read. With hints, the score policy makes
 * reads shorter than LRU, summed over the seeds. */
static void test_policies(void **state)
{
    struct crn_replay_options opt = three;
    int64_t hinted_ns[CRN_EVICT_POLICIES] = {0};
    struct crn_replay_result r;
    struct crn_trace t;
    struct crn_rng rng;
    uint64_t seed;
    int p;

    (void)state;
    for (seed = 1; seed <= 12; seed++) {
        crn_rng_seed(&rng, seed);
        make_shot(&t, 60, (enum order)(seed % 3), 30 * MS, seed % 2 == 0, &rng);
        for (p = 0; p < CRN_EVICT_POLICIES; p++) {
            opt.policy = (enum crn_evict)p;
            opt.discard_consumed = seed % 4 < 2;
            assert_ok(crn_replay(&opt, &t, &r, ei));
            assert_int_equal(r.reads, 60);
            assert_int_equal(r.failed, 0);
            assert_int_equal(r.hits[0] + r.hits[1] + r.hits[2], 60);
            assert_true(r.fragmentation[0] >= 0 && r.fragmentation[0] < 1);
            hinted_ns[p] += seed % 2 == 0 ? r.read_ns : 0;
        }
        crn_trace_free(&t);
    }
    assert_true(hinted_ns[CRN_EVICT_SCORE] < hinted_ns[CRN_EVICT_LRU]);
}

static void test_flush_and_forget(void **state)
{
    struct crn_replay_result r;
    struct crn_trace t = {0};

    (void)state;
    add(&t, 0, CRN_REQUEST_WRITE, 1, MIB);
    add(&t, 0, CRN_REQUEST_FLUSH, 0, 0);
    add(&t, 0, CRN_REQUEST_FORGET, 1, 0);
    add(&t, 0, CRN_REQUEST_READ, 1, 0);
    assert_ok(crn_replay(&three, &t, &r, ei));
    assert_int_equal(r.flush_ns, 110 * MS + 2);
    assert_int_equal(r.failed, 1);
    crn_trace_free(&t);
}

static void test_text(void **state)
{
    static const char *const bad[] = {
        "1 2 write 3\n",
        "1 2 eat 3 4\n",
        "2 1 write 3 4\n",
        "-1 2 write 3 4\n",
        "1 2 write 3 4 5\n",
        "x\n",
        "1 2 write 3 18446744073709551615\n",
        "# fine\n\n1 2 w 3 4\n",
    };
    struct crn_trace t;
    struct crn_trace back;
    char text[4096];
    size_t i;
    FILE *f;

    (void)state;
    make_shot(&t, 3, REVERSE, 5, 1, NULL);
    f = fmemopen(text, sizeof(text), "w");
    assert_non_null(f);
    for (i = 0; i < t.n; i++)
        crn_trace_print(f, &t.r[i]);
    (void)fclose(f);
    f = fmemopen(text, strlen(text), "r");
    assert_ok(crn_trace_read(f, "text", &back, ei));
    (void)fclose(f);
    assert_int_equal(back.n, t.n);
    for (i = 0; i < t.n; i++)
        assert_true(back.r[i].start_ns == t.r[i].start_ns && back.r[i].end_ns == t.r[i].end_ns &&
                    back.r[i].kind == t.r[i].kind && back.r[i].key == t.r[i].key &&
                    back.r[i].bytes == t.r[i].bytes);
    crn_trace_free(&back);
    crn_trace_free(&t);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct crn_errinfo why = {0};

        (void)snprintf(text, sizeof(text), "%s", bad[i]);
        f = fmemopen(text, strlen(text), "r");
        assert_int_equal(crn_trace_read(f, "text", &t, &why), CAIRN_EFORMAT);
        assert_non_null(strstr(why.msg, "text, line"));
        (void)fclose(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),  cmocka_unit_test(test_hints_help),
        cmocka_unit_test(test_policies), cmocka_unit_test(test_flush_and_forget),
        cmocka_unit_test(test_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
