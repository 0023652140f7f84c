/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/elect.h"
#include "base/test.h"

/* For every number of nodes and files: groups are contiguous, cover all nodes, are never empty,
 * and differ by at most one node. */
static void groups(void **state)
{
    uint32_t nodes, k, g, n;

    (void)state;
    for (nodes = 1; nodes <= 70; nodes++) {
        for (k = 1; k <= nodes; k++) {
            uint32_t least = nodes, most = 0;

            assert_int_equal(crn_elect_group_first(0, nodes, k), 0);
            assert_int_equal(crn_elect_group_first(k, nodes, k), nodes);
            for (g = 0; g < k; g++) {
                uint32_t first = crn_elect_group_first(g, nodes, k);
                uint32_t size = crn_elect_group_first(g + 1, nodes, k) - first;

                least = size < least ? size : least;
                most = size > most ? size : most;
                for (n = first; n < first + size; n++)
                    assert_int_equal(crn_elect_group_of(n, nodes, k), g);
            }
            assert_true(least > 0 && most - least <= 1);
        }
    }
    assert_int_equal(crn_elect_group_of(99999, 100000, 4096), 4095);
}

static void leaders(void **state)
{
    static const uint64_t bytes[] = {5, 9, 9, 1};

    (void)state;
    assert_int_equal(crn_elect(bytes, 4), 1);
    assert_int_equal(crn_elect(bytes, 1), 0);
    assert_int_equal(crn_elect(bytes + 2, 2), 0);
}

/* How many nodes write a file: as many as configured. With auto, several only where they do not
 * contend and have enough data. */
static void leaders_count(void **state)
{
    enum { EXT4 = 0xEF53, GPFS = 0x47504653, NFS = 0x6969, FUSE = 0x65735546, OTHER = 0xDEAD };
    static const struct {
        uint32_t magic;
        uint64_t leaders, stripes, align, blocks;
        uint32_t want;
    } cases[] = {
        {EXT4, 0, 0, 4096, 100, 4},        {GPFS, 0, 0, 4096, 100, 4},
        {NFS, 0, 0, 4096, 100, 1},         {FUSE, 0, 0, 4096, 100, 1},
        {OTHER, 0, 0, 4096, 100, 1},       {EXT4, 0, 2, 4096, 100, 4},
        {CRN_FS_LUSTRE, 0, 0, 4096, 9, 1}, {CRN_FS_LUSTRE, 0, 2, 4096, 100, 2},
        {CRN_FS_LUSTRE, 0, 9, 4096, 9, 4}, {EXT4, 0, 0, 4096, 0, 1},
        {EXT4, 0, 0, 4096, 3, 1},          {EXT4, 0, 0, 4096, 4, 2},
        {EXT4, 0, 0, 4096, 8, 4},          {EXT4, 0, 0, 512, 100, 1}, /* two nodes in one page */
        {NFS, 7, 0, 4096, 100, 7},         {NFS, 7, 0, 512, 0, 7},
    };
    struct crn_config cfg;
    size_t i;

    (void)state;
    crn_config_defaults(&cfg);
    assert_int_equal(cfg.leaders_per_file, 0);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cfg.leaders_per_file = cases[i].leaders;
        cfg.stripe_count = cases[i].stripes;
        cfg.align_bytes = cases[i].align;
        assert_int_equal(crn_elect_leaders(&cfg, crn_fs_type_find(cases[i].magic),
                                           cases[i].blocks * cfg.block_bytes),
                         cases[i].want);
    }
    crn_config_fini(&cfg);
}

/* The leader and its assistants, in every number, also with ties. */
static void assistants(void **state)
{
    static const uint64_t bytes[] = {5, 9, 0, 9, 7, 5, 0};
    static const uint32_t order[] = {1, 3, 4, 0, 5, 2, 6};
    uint32_t n = sizeof(order) / sizeof(order[0]);
    uint32_t count, i;

    (void)state;
    for (count = 0; count < n + 3; count++)
        for (i = 0; i < n; i++)
            assert_int_equal(crn_elect_is_among(bytes, n, order[i], count), i < count);
    for (i = 1; i <= n; i++)
        assert_true(crn_elect_is_among(bytes, i, crn_elect(bytes, i), 1));
}

/* The group with the most bytes per writing node gets help, as long as it has followers to fetch
 * from. */
static void behind(void **state)
{
    struct crn_group_state g[] = {{.bytes = 100, .members = 3},
                                  {.bytes = 190, .members = 4},
                                  {.bytes = 500, .members = 1},
                                  {.bytes = 900, .members = 9, .needs_no_help = 1},
                                  {.bytes = 0, .members = 9}};
    static const uint32_t order[] = {1, 0, 1, 1, 0, 5, 5};
    uint32_t i;

    (void)state;
    for (i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        uint32_t who = crn_elect_behind(g, 5);

        assert_int_equal(who, order[i]);
        if (who < 5)
            g[who].helpers++;
    }
    assert_int_equal(crn_elect_behind(g, 0), 0);
}

static void counts(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    static const char *const wrong[] = {"", "0", "x", "1:", "1:0", ":4", "0:4", "4x", "-1"};
    uint32_t n;
    size_t i;

    (void)state;
    assert_ok(crn_elect_files("1:1", 7, &n, ei));
    assert_int_equal(n, 7);
    assert_ok(crn_elect_files("1:4", 5, &n, ei));
    assert_int_equal(n, 2);
    assert_ok(crn_elect_files("3", 5, &n, ei));
    assert_int_equal(n, 3);
    assert_ok(crn_elect_files("100", 5, &n, ei));
    assert_int_equal(n, 5);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        crn_err_clear(ei);
        assert_int_equal(crn_elect_files(wrong[i], 5, &n, ei), CAIRN_ECONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups),     cmocka_unit_test(leaders), cmocka_unit_test(leaders_count),
        cmocka_unit_test(assistants), cmocka_unit_test(behind),  cmocka_unit_test(counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
