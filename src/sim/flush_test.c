/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of the flush: closed forms by hand, then the figures of the two papers. Each of
 * those tests accepts a band that shows how close the model comes. */
#include "base/test.h"

#include <math.h>
#include "sim/flush.h"

#define GiB 0x1p30
#define MiB 0x1p20

static void between(const char *what, double got, double low, double high)
{
    if (!(got >= low && got <= high))
        fail_msg("%s: %.5g is not in %.5g .. %.5g", what, got, low, high);
}

static struct crn_flush_result predict(const struct crn_machine *m, const struct crn_flush *f)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_result r;

    assert_ok(crn_flush_predict(m, f, &r, ei));
    return r;
}

static struct crn_machine load(const char *name)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_machine m;

    assert_ok(crn_machine_load(name, &m, ei));
    return m;
}

/* By hand. ------------------------------------------------------------------------------------- */

static struct crn_machine toy(void)
{
    return (struct crn_machine){.nodes = 8,
                                .ranks_per_node = 4,
                                .rank_bytes = GiB,
                                .nic_out = 2 * GiB,
                                .nic_in = 2 * GiB,
                                .writer = GiB,
                                .best_writers = 4,
                                .crowding = 0.5,
                                .bandwidth = 400 * GiB};
}

static void limited(struct crn_machine *m, struct crn_flush *f, double seconds,
                    enum crn_flush_limit limit)
{
    struct crn_flush_result r = predict(m, f);

    between(crn_flush_limit_name(limit), r.seconds, seconds * (1 - 1e-9), seconds * (1 + 1e-9));
    assert_string_equal(crn_flush_limit_name(r.limit), crn_flush_limit_name(limit));
    between("bytes", r.bytes, 32 * GiB, 32 * GiB);
}

/* 8 nodes of 4 GiB: each limit in turn, with the computed time. */
static void test_limits(void **state)
{
    struct crn_machine m = toy();
    struct crn_flush f = crn_flush_defaults(&m);

    (void)state;
    limited(&m, &f, 2, CRN_LIMIT_NODE); /* 4 GiB out at 2 GiB/s */
    f.writers = 1;
    limited(&m, &f, 4, CRN_LIMIT_WRITERS); /* at 1 GiB/s */
    f.writers = 8;
    limited(&m, &f, 4, CRN_LIMIT_WRITERS); /* crowded: half the throughput remains */
    f.writers = 4;
    m.write_latency_s = 0.1875; /* 16 writes per GiB: 4 s instead of 1 in each of 4 threads */
    limited(&m, &f, 4, CRN_LIMIT_WRITERS);
    m.write_latency_s = 0;
    m.osts = 4;
    m.ost = 2 * GiB; /* for two nodes */
    limited(&m, &f, 4, CRN_LIMIT_OSTS);
    m.bandwidth = 4 * GiB;
    limited(&m, &f, 8, CRN_LIMIT_PFS);
    m.osts = 0;
    limited(&m, &f, 8, CRN_LIMIT_PFS);
    m = toy();
    f.files = 2; /* each leader writes 16 GiB and receives 12 of them */
    limited(&m, &f, 8, CRN_LIMIT_NODE);
    m.nic_in = GiB;
    limited(&m, &f, 12, CRN_LIMIT_RECEIVE);
    m.nic_in = 2 * GiB;
    f.blocks = 1; /* 1/32 s to fill and 1/16 s to write 64 MiB: 2/3 GiB/s */
    limited(&m, &f, 18, CRN_LIMIT_RECEIVE);
}

/* OSTs with unequal numbers of leaders, and the file system above them. */
static void test_whole(void **state)
{
    struct crn_machine m = toy();
    struct crn_flush f = crn_flush_defaults(&m);
    struct crn_flush_result r;

    (void)state;
    m.osts = 3; /* 3, 3 and 2 leaders */
    m.ost = 2 * GiB;
    r = predict(&m, &f);
    between("three on an OST", r.seconds, 6 - 1e-6, 6 + 1e-6);
    between("the mean", r.mean_leader_s, (6 * 6 + 2 * 4) / 8.0 - 1e-6,
            (6 * 6 + 2 * 4) / 8.0 + 1e-6);
    m.bandwidth = 5 * GiB; /* fair share: 5/8 GiB/s each, less than any OST would give */
    r = predict(&m, &f);
    between("all together", r.seconds, 6.4 - 1e-6, 6.4 + 1e-6);
    between("none is idle", r.throughput, 5 * GiB * (1 - 1e-6), 5 * GiB * (1 + 1e-6));
}

static void test_pool_and_writes(void **state)
{
    struct crn_machine m = toy();
    struct crn_flush f = crn_flush_defaults(&m);
    struct crn_flush_result r;

    (void)state;
    f.files = 4;
    r = predict(&m, &f);
    between("half crosses the network", r.received, 0.5, 0.5);
    between("pool", r.pool_bytes, f.blocks * f.block_bytes, f.blocks * f.block_bytes);
    assert_int_equal(r.leaders, 4);
    assert_int_equal(r.writes, 32 * 16);
    f.rank_bytes = 1024; /* small shards share blocks, or take one each */
    assert_int_equal(predict(&m, &f).writes, 8);
    f.own_tails = 1;
    assert_int_equal(predict(&m, &f).writes, 32);
}

/* Scales to any number of nodes, any K is valid, and seeds reproduce. */
static void test_any_k(void **state)
{
    struct crn_machine m = toy();
    struct crn_flush f = crn_flush_defaults(&m);
    double before = INFINITY;

    (void)state;
    f.imbalance = 0.5;
    m.speed_spread = 0.1;
    for (f.nodes = 1; f.nodes < 40; f.nodes += 3)
        for (f.files = 1; f.files <= f.nodes; f.files++) {
            struct crn_flush_result r = predict(&m, &f);

            assert_int_equal(r.leaders, f.files);
            assert_true(r.seconds > 0 && isfinite(r.seconds) && r.throughput <= r.peak * 1.0001);
            assert_true(r.mean_leader_s <= r.slowest_leader_s * 1.0001);
            between("again", predict(&m, &f).seconds, r.seconds, r.seconds);
        }
    m.speed_spread = 0;
    f.imbalance = 0;
    f.nodes = 32;
    for (f.files = 1; f.files <= 32; f.files *= 2) {
        double s = predict(&m, &f).seconds;

        assert_true(s <= before);
        before = s;
    }
    f.files = 3;
    f.leaders_per_file = 100; /* at most every node */
    assert_int_equal(predict(&m, &f).leaders, 32);
}

static void test_refused(void **state)
{
    struct crn_machine m = toy();
    struct crn_flush good = crn_flush_defaults(&m);
    struct crn_flush f;
    struct crn_flush_result r;

    (void)state;
#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        f = good;                                                                                  \
        f.field = (value);                                                                         \
        assert_int_equal(crn_flush_predict(&m, &f, &r, NULL), CAIRN_EINVAL);                       \
    } while (0)
    REFUSED(nodes, 0);
    REFUSED(nodes, 65537);
    REFUSED(files, 0);
    REFUSED(files, 9);
    REFUSED(leaders_per_file, 0);
    REFUSED(writers, 0);
    REFUSED(blocks, 0);
    REFUSED(block_bytes, 0);
    REFUSED(rank_bytes, NAN);
    REFUSED(imbalance, 1);
    REFUSED(imbalance, -0.1);
#undef REFUSED
}

/* Scalable I/O aggregation (Frontier). --------------------------------------------------------- */

/* The paper's flush: 8 ranks per node with 1 GiB +- imbalance, 8 threads, tails as separate
 * writes. */
static struct crn_flush paper(uint32_t nodes, uint32_t files, double imbalance)
{
    struct crn_machine m = load("frontier-paper");
    struct crn_flush f = crn_flush_defaults(&m);

    f.nodes = nodes;
    f.files = files;
    f.imbalance = imbalance;
    f.own_tails = 1;
    return f;
}

static double paper_seconds(uint32_t nodes, uint32_t files, double imbalance)
{
    struct crn_machine m = load("frontier-paper");
    struct crn_flush f = paper(nodes, files, imbalance);
    double sum = 0;

    for (f.seed = 1; f.seed <= 3; f.seed++) /* as in the paper: the average of three runs */
        sum += predict(&m, &f).seconds;
    return sum / 3;
}

/* "no more than 2.5 GiB/s per node", "the theoretical peak is K * 2.5 GiB/s". The model reaches
 * 93 to 94 % of it: the slowest of thousands of leaders ends later than the average. */
static void test_paper_peak(void **state)
{
    struct crn_machine m = load("frontier-paper");
    uint32_t k;

    (void)state;
    for (k = 1024; k <= 4096; k *= 2) {
        struct crn_flush f = paper(4096, k, 0);
        struct crn_flush_result r = predict(&m, &f);

        between("of K x 2.5 GiB/s", r.throughput / (k * 2.5 * GiB), 0.92, 0.95);
    }
}

/* "drops by about half" from K = 4096 to 2048. Model: a factor of 1.99. */
static void test_paper_half(void **state)
{
    (void)state;
    between("K = 2048 against 4096, equal sizes",
            paper_seconds(4096, 2048, 0) / paper_seconds(4096, 4096, 0), 1.97, 2.01);
}

/* "no more than 2.2x longer" for 4096 nodes than for 2048, at K = 2048, for all imbalances.
 * Model: 2.00, 1.97 and 1.92. Pairs of nodes even out, and precomputed offsets cost the model
 * nothing, where the paper measured up to 10 % more than 2. */
static void test_paper_double(void **state)
{
    (void)state;
    between("+-0 %", paper_seconds(4096, 2048, 0) / paper_seconds(2048, 2048, 0), 1.99, 2.01);
    between("+-10 %", paper_seconds(4096, 2048, 0.1) / paper_seconds(2048, 2048, 0.1), 1.95, 2.0);
    between("+-20 %", paper_seconds(4096, 2048, 0.2) / paper_seconds(2048, 2048, 0.2), 1.89, 1.95);
}

/* "marginal increase (< 10 %)" for +-20 %. Model: 7.4 % with 1024 nodes and
 * 8.3 % with 2048; 2.8 % for +-10 %. */
static void test_paper_imbalance(void **state)
{
    (void)state;
    between("1024 nodes", paper_seconds(1024, 1024, 0.2) / paper_seconds(1024, 1024, 0), 1.05, 1.1);
    between("2048 nodes", paper_seconds(2048, 2048, 0.2) / paper_seconds(2048, 2048, 0), 1.05, 1.1);
    between("2048 nodes, +-10 %", paper_seconds(2048, 2048, 0.1) / paper_seconds(2048, 2048, 0),
            1.01, 1.05);
}

/* The agreement depends on speed_spread. With leaders of equal speed the largest of 2048 nodes
 * alone gives 12 to 15 %, more than the paper measured. */
static void test_paper_imbalance_alone(void **state)
{
    struct crn_machine m = load("frontier-paper");
    struct crn_flush even = paper(2048, 2048, 0), uneven = paper(2048, 2048, 0.2);

    (void)state;
    m.speed_spread = 0;
    for (uneven.seed = 1; uneven.seed <= 3; uneven.seed++)
        between("sizes alone", predict(&m, &uneven).seconds / predict(&m, &even).seconds, 1.12,
                1.15);
}

/* "the slow I/O leader no more than 12 % slower than the average", figure 7: speed_spread is
 * calibrated to it. Model: 10.8 to 11.9 %. */
static void test_paper_slowest(void **state)
{
    struct crn_machine m = load("frontier-paper");
    struct crn_flush f = paper(4096, 2048, 0.2);

    (void)state;
    for (f.seed = 1; f.seed <= 3; f.seed++) {
        struct crn_flush_result r = predict(&m, &f);

        between("slowest over mean", r.slowest_leader_s / r.mean_leader_s, 1.10, 1.125);
    }
}

/* At 4:1 other approaches had 1.5 times the throughput; several leaders per file more than close
 * that gap. */
static void test_paper_ratio_four(void **state)
{
    struct crn_machine m = load("frontier-paper");
    struct crn_flush f = paper(4096, 1024, 0);
    double one = predict(&m, &f).throughput;

    (void)state;
    f.leaders_per_file = 2;
    between("two leaders", predict(&m, &f).throughput / one, 1.9, 2.1);
    f.leaders_per_file = 4;
    between("four leaders", predict(&m, &f).throughput / one, 3.7, 4.1);
}

/* Multi-threaded aggregated I/O (Theta): one leader, as in figures 1 to 3. --------------------- */

static double one_leader(uint32_t writers, uint32_t files)
{
    struct crn_machine m = load("theta-paper");
    struct crn_flush f = crn_flush_defaults(&m);

    f.nodes = 8;
    f.files = 1;
    f.writers = writers;
    f.blocks = 2 * writers;
    f.stripes = files; /* unstriped files of one leader, one OST each */
    return predict(&m, &f).throughput / GiB;
}

/* One thread: a few hundred MiB/s. Eight threads: over 1 GiB/s to one file, about 2.5 GiB/s to
 * four or eight; sixteen slightly over 1.5 GiB/s. */
static void test_paper_threads(void **state)
{
    (void)state;
    between("1 thread, 1 file", one_leader(1, 1), 0.3, 0.4);
    between("8 threads, 1 file", one_leader(8, 1), 1.0, 1.5);
    between("8 threads, 4 files", one_leader(8, 4), 2.45, 2.55);
    between("8 threads, 8 files", one_leader(8, 8), 2.45, 2.55);
    between("16 threads, 4 files", one_leader(16, 4), 1.45, 1.6);
}

/* Scale and recommendations. ------------------------------------------------------------------- */

static void test_large(void **state)
{
    struct crn_machine m = load("frontier-paper");
    struct crn_flush f = crn_flush_defaults(&m);
    struct crn_flush_result r;

    (void)state;
    f.nodes = f.files = 65536;
    f.imbalance = 0.2;
    r = predict(&m, &f);
    assert_int_equal(r.leaders, 65536);
    between("the file system is the limit", r.throughput, 0.9 * m.bandwidth, m.bandwidth);
}

static void test_recommend(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_machine m = toy();
    struct crn_flush f = crn_flush_defaults(&m);
    struct crn_recommend opt = {.max_leaders_per_file = 1, .slack = 0.05};
    struct crn_flush got;
    struct crn_flush_result r, same;

    (void)state;
    /* Only nodes limit the flush: all of them must write. */
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_int_equal(got.files, 8);
    opt.max_leaders_per_file = 4;
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_int_equal(got.files, 2);
    assert_int_equal(got.leaders_per_file, 4);
    opt.max_files = 3;
    opt.max_leaders_per_file = 2;
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_int_equal(got.files, 2); /* 3 files of 3, 3 and 2 nodes are no faster */
    assert_int_equal(got.leaders_per_file, 2);
    /* Two nodes saturate the file system: two leaders are enough. */
    m.bandwidth = 4 * GiB;
    opt = (struct crn_recommend){.max_leaders_per_file = 1, .slack = 0.05};
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_int_equal(got.files, 2);
    opt.max_leaders_per_file = 16;
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_int_equal(got.files, 1);
    assert_int_equal(r.leaders, 2);
    /* With targets, the prediction holds only with as many stripes. */
    m.osts = 16;
    m.ost = GiB;
    f.nodes = 8;
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_true(crn_flush_stripes(&m, &got) > 1);
    got.stripes = crn_flush_stripes(&m, &got);
    assert_ok(crn_flush_predict(&m, &got, &same, ei));
    assert_true(same.seconds == r.seconds);
    got.stripes = 1;
    assert_ok(crn_flush_predict(&m, &got, &same, ei));
    assert_true(same.seconds > 1.5 * r.seconds);
    m.osts = 0;
    /* A single node. */
    f.nodes = f.files = 1;
    assert_ok(crn_flush_recommend(&m, &f, &opt, &got, &r, ei));
    assert_int_equal(got.files, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_whole),
        cmocka_unit_test(test_pool_and_writes), cmocka_unit_test(test_any_k),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_paper_peak),
        cmocka_unit_test(test_paper_half),      cmocka_unit_test(test_paper_double),
        cmocka_unit_test(test_paper_imbalance), cmocka_unit_test(test_paper_imbalance_alone),
        cmocka_unit_test(test_paper_slowest),   cmocka_unit_test(test_paper_ratio_four),
        cmocka_unit_test(test_paper_threads),   cmocka_unit_test(test_large),
        cmocka_unit_test(test_recommend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
