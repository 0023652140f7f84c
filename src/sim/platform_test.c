/* SPDX-License-Identifier: BSD-3-Clause */
/* Platform texts: the shipped ones, units, and an error for every mistake that names its line. */
#include "base/test.h"

#include <math.h>
#include "sim/platform.h"

static const char good[] = "[platform]\n"
                           "name = toy\n"
                           "nodes = 100\n"
                           "memory_per_node = 10 GB\n"
                           "bandwidth = 2 GB/s\n"
                           "system_mtbf = 1 h\n"
                           "[class a]\n"
                           "share = 100 %\n"
                           "work = 2 d\n"
                           "nodes = 10\n"
                           "input = 0 B\n"
                           "output = 1 TB\n"
                           "checkpoint = 50 %\n";

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want)))
        fail_msg("got %.12g, want %.12g", got, want);
}

static void test_parse(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_platform p;

    (void)state;
    assert_ok(crn_platform_parse(good, "good", &p, ei));
    assert_string_equal(p.name, "toy");
    assert_near(p.node_mtbf_s, 360000);
    assert_near(p.spread, 0.2);
    assert_int_equal(p.nclasses, 1);
    assert_near(p.cls[0].work_s, 172800);
    assert_near(p.cls[0].output_bytes, 1e12);
    assert_near(p.cls[0].checkpoint_bytes, 50e9);
    assert_near(p.cls[0].input_bytes + 1, 1);
}

/* Replaces one line; the message must name the mistake. */
static void refused(const char *line, const char *instead, const char *word)
{
    struct crn_errinfo ei = {0};
    struct crn_platform p;
    char text[1024];
    const char *at = strstr(good, line);

    assert_non_null(at);
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, instead,
                   at + strlen(line));
    assert_int_not_equal(crn_platform_parse(text, "bad.ini", &p, &ei), CAIRN_OK);
    if (strstr(ei.msg, word) == NULL || strstr(ei.msg, "bad.ini") == NULL)
        fail_msg("'%s' does not name '%s' and the file", ei.msg, word);
}

static void test_mistakes(void **state)
{
    (void)state;
    refused("nodes = 100", "nodes = many", "many");
    refused("nodes = 100", "nodes = -3", "-3");
    refused("nodes = 100", "nodes = nan", "nan");
    refused("nodes = 100", "noodles = 100", "noodles");
    refused("2 GB/s", "2", "'2'");
    refused("2 GB/s", "2 GB/h", "2 GB/h");
    refused("[class a]", "[clas a]", "clas a");
    refused("share = 100 %", "share = 90 %", "90 %");
    refused("share = 100 %", "share = 1", "'1'");
    refused("work = 2 d\n", "", "work");
    refused("nodes = 10\n", "nodes = 101\n", "101");
    refused("nodes = 10\n", "cores = 160\n", "cores_per_node");
    refused("system_mtbf = 1 h", "system_mtbf = 1 h\nnode_mtbf = 1 y", "not both");
    refused("checkpoint = 50 %", "checkpoint = 50", "50");
    refused("name = toy", "name toy", "bad.ini:2");
}

static void test_shipped(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_platform p;

    (void)state;
    assert_ok(crn_platform_load("cielo", &p, ei));
    assert_near(p.nodes, 8944);
    assert_near(p.node_mtbf_s, 2 * 365.25 * 86400);
    assert_ok(crn_platform_load("cielo-paper", &p, ei));
    assert_near(p.nodes, 17784);
    assert_near(p.node_mtbf_s / p.nodes, 3600);
    assert_int_equal(p.nclasses, 4);
    assert_string_equal(p.cls[2].name, "Silverton");
    assert_near(p.cls[2].nodes, 2048);
    assert_near(p.cls[2].checkpoint_bytes, 3.5 * 2048 * 32e9);
    assert_near(p.cls[3].nodes, 1875);
    assert_ok(crn_platform_load("prospective", &p, ei));
    assert_near(p.nodes * 140e9, 7e15);
    assert_int_equal(crn_platform_load("no-such", &p, ei), CAIRN_ENOENT);
    assert_non_null(strstr(ei->msg, "no-such"));
}

static void test_file(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_platform p;
    char dir[256], path[300];
    FILE *f;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/toy.ini", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(good, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_ok(crn_platform_load(path, &p, ei));
    assert_string_equal(p.name, "toy");
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
