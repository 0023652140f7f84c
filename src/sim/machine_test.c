/* SPDX-License-Identifier: BSD-3-Clause */
/* Machine texts: the shipped ones, and an error for every mistake that names its source. */
#include "base/test.h"

#include "sim/machine.h"

static const char good[] = "[machine]\n"
                           "name = toy\n"
                           "nodes = 8\n"
                           "ranks_per_node = 2\n"
                           "rank_bytes = 1 GB\n"
                           "nic_out = 2 GB/s\n"
                           "nic_in = 3 GB/s\n"
                           "writer = 500 MB/s\n"
                           "crowding = 50 %\n"
                           "bandwidth = 10 GB/s\n";

static void test_parse(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_machine m;

    (void)state;
    assert_ok(crn_machine_parse(good, "good", &m, ei));
    assert_string_equal(m.name, "toy");
    assert_true(m.nodes == 8 && m.ranks_per_node == 2);
    assert_true(m.rank_bytes == 1e9 && m.nic_out == 2e9 && m.nic_in == 3e9);
    assert_true(m.writer == 5e8 && m.crowding == 0.5 && m.bandwidth == 1e10);
    assert_true(m.osts == 0 && m.best_writers == 8 && m.creates == 0 && m.speed_spread == 0);
}

static void test_shipped(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const struct crn_text *t;
    struct crn_machine m;

    (void)state;
    for (t = crn_machine_texts; t->name != NULL; t++) {
        char path[512];

        assert_ok(crn_machine_load(t->name, &m, ei));
        assert_string_equal(m.name, t->name);
        (void)snprintf(path, sizeof(path), "%s/share/machines/%s.ini", CRN_SOURCE_DIR, t->name);
        assert_ok(crn_machine_load(path, &m, ei));
        assert_string_equal(m.name, t->name);
    }
    assert_int_equal(crn_machine_load("/no/such.ini", &m, ei), CAIRN_ENOENT);
    assert_non_null(strstr(ei->msg, "/no/such.ini"));
}

/* Replaces one line; the message must name the mistake. */
static void refused(const char *line, const char *instead, const char *word)
{
    struct crn_errinfo ei = {0};
    struct crn_machine m;
    char text[1024];
    const char *at = strstr(good, line);

    assert_non_null(at);
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, instead,
                   at + strlen(line));
    assert_int_not_equal(crn_machine_parse(text, "bad.ini", &m, &ei), CAIRN_OK);
    if (strstr(ei.msg, word) == NULL || strstr(ei.msg, "bad.ini") == NULL)
        fail_msg("'%s' does not name '%s' and the file", ei.msg, word);
}

static void test_mistakes(void **state)
{
    (void)state;
    refused("[machine]\n", "[computer]\n", "[computer]");
    refused("name = toy\n", "", "needs name");
    refused("nodes = 8\n", "", "needs nodes");
    refused("nodes = 8\n", "nodes = -8\n", "-8");
    refused("nodes = 8\n", "nodes = 65537\n", "65536");
    refused("nodes = 8\n", "knots = 8\n", "knots");
    refused("nic_in = 3 GB/s\n", "nic_in = 3\n", "'3'");
    refused("nic_in = 3 GB/s\n", "nic_in = 0 GB/s\n", "nic_in");
    refused("crowding = 50 %\n", "crowding = 0 %\n", "crowding");
    refused("crowding = 50 %\n", "crowding = 0.5\n", "percentage");
    refused("crowding = 50 %\n", "osts = 0.5\n", "osts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
