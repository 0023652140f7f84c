/* SPDX-License-Identifier: BSD-3-Clause */
/* Timelines stay bounded and lose no sums. The text restores what was measured, and any other
 * text is refused. */
#include "aggregate/stats.h"
#include "base/test.h"

static void a_track_is_bounded(void **state)
{
    static const uint64_t counts[] = {1, CRN_SPANS, CRN_SPANS + 1, 10 * CRN_SPANS + 7, 100000};
    size_t c;

    (void)state;
    for (c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct crn_timeline t = {0};
        uint64_t bytes = 0;
        int64_t last = 0;
        uint64_t i;

        for (i = 0; i < counts[c]; i++)
            crn_stats_track_add(&t, (int64_t)(10 * i), (int64_t)(10 * i + i % 7 + 1), i);
        assert_int_equal(t.sum.n, counts[c]);
        assert_true(t.nspans <= CRN_SPANS);
        assert_true(t.nspans >= (counts[c] < CRN_SPANS / 2 ? counts[c] : CRN_SPANS / 2));
        for (i = 0; i < t.nspans; i++) {
            assert_true(t.span[i].start_ns >= last && t.span[i].end_ns > t.span[i].start_ns);
            last = t.span[i].end_ns;
            bytes += t.span[i].bytes;
        }
        assert_int_equal(bytes, counts[c] * (counts[c] - 1) / 2);
        assert_int_equal(bytes, t.sum.bytes);
        assert_int_equal(t.span[0].start_ns, 0);
        assert_int_equal(last, 10 * (counts[c] - 1) + (counts[c] - 1) % 7 + 1);
    }
}

/* Every field gets a distinct number. */
static void fill(struct crn_flush_stats *s)
{
    struct crn_errinfo ei = {0};
    uint32_t i;

    assert_int_equal(crn_flush_stats_init(s, 5, 5, &ei), CAIRN_OK);
    s->writer[3].idle_ns = s->writer[4].idle_ns = 71; /* never joined: omitted */
    for (i = 0; i < 16; i++)
        s->id.run[i] = (uint8_t)(200 + i);
    s->id.seq = UINT64_MAX - 1;
    s->node = 7;
    s->first_node = 4;
    s->bytes = (uint64_t)1 << 50;
    s->remote_bytes = 12345;
    s->assisted_bytes = 23456;
    s->write_ns = 1001;
    s->finish_ns = 1002;
    s->total_ns = 1003;
    s->held_ns = 1004;
    s->copy_ns = 1005;
    s->captured_ns = 1006;
    s->local_ns = 1007;
    s->protected_ns = 1008;
    s->blocks = 4;
    s->block_bytes = 65536;
    s->most_blocks = 3;
    s->pool_waits = 21;
    s->pool_ns = 22;
    s->queue_waits = 23;
    s->queue_ns = 24;
    for (i = 0; i < 3; i++) {
        crn_stats_track_add(&s->writer[i].local, 100 * i, 100 * i + 31, 41 + i);
        crn_stats_track_add(&s->writer[i].received, 200 * i, 200 * i + 32, 51 + i);
        s->writer[i].idle_ns = 61 + i;
    }
    for (i = 0; i < 1000; i++)
        crn_stats_track_add(&s->receive, 5 * i, 5 * i + 4, i);
    crn_stats_track_add(&s->send, -3, 5, 9);
    s->peer[0] = (struct crn_peer_stats){1, 2, 3, 4, 5, 6, 7};
    s->peer[4] = (struct crn_peer_stats){11, 12, 13, 14, 15, 16, 17};
}

static void assert_same_track(const struct crn_timeline *a, const struct crn_timeline *b)
{
    assert_memory_equal(&a->sum, &b->sum, sizeof(a->sum));
    assert_int_equal(a->nspans, b->nspans);
    assert_memory_equal(a->span, b->span, a->nspans * sizeof(a->span[0]));
}

static void text_gives_it_back(void **state)
{
    struct crn_flush_stats s, got;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf text = {0}, again = {0};
    uint32_t i;

    (void)state;
    fill(&s);
    assert_ok(crn_flush_stats_encode(&s, &text, ei));
    assert_ok(crn_flush_stats_decode((const char *)text.data, text.len, &got, ei));
    assert_memory_equal(&got.id, &s.id, sizeof(s.id));
    assert_int_equal(got.node, 7);
    assert_int_equal(got.nwriters, 3);
    assert_int_equal(got.wall_ns, s.wall_ns);
    for (i = 0; i < 3; i++) {
        assert_same_track(&got.writer[i].local, &s.writer[i].local);
        assert_same_track(&got.writer[i].received, &s.writer[i].received);
        assert_int_equal(got.writer[i].idle_ns, 61 + i);
    }
    assert_same_track(&got.receive, &s.receive);
    assert_same_track(&got.send, &s.send);
    assert_memory_equal(got.peer, s.peer, 5 * sizeof(*s.peer));
    assert_ok(crn_flush_stats_encode(&got, &again, ei)); /* covers all other fields, too */
    assert_int_equal(again.len, text.len);
    assert_memory_equal(again.data, text.data, text.len);
    crn_buf_free(&text);
    crn_buf_free(&again);
    crn_flush_stats_free(&s);
    crn_flush_stats_free(&got);
}

static void damaged_text_is_refused(void **state)
{
    struct crn_flush_stats s, got;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf text = {0};
    size_t i;

    (void)state;
    fill(&s);
    assert_ok(crn_flush_stats_encode(&s, &text, ei));
    for (i = 0; i < text.len; i += i < 300 || i + 300 > text.len ? 1 : 97) {
        crn_err_clear(ei);
        assert_int_equal(crn_flush_stats_decode((const char *)text.data, i, &got, ei),
                         CAIRN_EDAMAGED);
        text.data[i] ^= 1;
        crn_err_clear(ei);
        assert_int_equal(crn_flush_stats_decode((const char *)text.data, text.len, &got, ei),
                         CAIRN_EDAMAGED);
        text.data[i] ^= 1;
    }
    crn_buf_free(&text);
    crn_flush_stats_free(&s);
}

/* Anyone who can write the file can compute a matching hash. */
static void hostile_numbers_are_refused(void **state)
{
    static const char *const lines[] = {
        "counts 65 0\n",
        "counts -1 0\n",
        "counts 1 1048577\n",
        "local 0 1 1 1 1\n",
        "counts 1 0\nlocal 1 1 1 1 1\n",
        "counts 1 0\nspan-received -1 1 1 1\n",
        "counts 1 1\npeer 1 1 1 1 1 1 1 1\n",
        "counts 1 0\ncounts 1 0\n",
        "counts 1 0\nlocal 0 x\n",
        "counts 1 0\nlocal 0 1 9223372036854775807 1 1\n", /* sums of such would wrap */
        "counts 1 0\nlocal 0 1 9223372036854775808 1 1\n",
        "counts 1 0\nlocal 0 1 -1 1 1\n",
        "counts 1 0\ncapture 00",
        "counts 1 0\ncapture 00 7\n",
        "\n",
    };
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats got;
    char text[400];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        int n = snprintf(text, sizeof(text), "cairn-stats 1\n%s", lines[i]);

        n += snprintf(text + n, sizeof(text) - (size_t)n, "%016llx\n",
                      (unsigned long long)crn_hash(text, (size_t)n));
        crn_err_clear(ei);
        assert_int_equal(crn_flush_stats_decode(text, (size_t)n, &got, ei), CAIRN_EDAMAGED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_track_is_bounded),
        cmocka_unit_test(text_gives_it_back),
        cmocka_unit_test(damaged_text_is_refused),
        cmocka_unit_test(hostile_numbers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
