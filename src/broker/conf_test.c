/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's configuration: defaults that work, a dump that reads back, errors that name the
 * location. */
#include "base/test.h"

#include "broker/conf.h"

static struct crn_broker_conf conf;

static void load(const char *text)
{
    struct crn_errinfo info = {0}, *ei = &info;

    crn_broker_conf_defaults(&conf);
    assert_ok(crn_broker_conf_text(&conf, text, "b.conf", ei));
    assert_ok(crn_broker_conf_check(&conf, ei));
}

static void expect_error(const char *text, const char *wanted)
{
    struct crn_errinfo ei = {0};
    cairn_err rc;

    crn_broker_conf_defaults(&conf);
    rc = crn_broker_conf_text(&conf, text, "b.conf", &ei);
    if (rc == CAIRN_OK)
        rc = crn_broker_conf_check(&conf, &ei);
    assert_int_equal(rc, CAIRN_ECONFIG);
    assert_string_equal(ei.msg, wanted);
}

static void defaults_work(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;

    (void)state;
    assert_ok(crn_broker_conf_load(&conf, NULL, ei));
    assert_string_equal(conf.listen, "0.0.0.0:7735");
    assert_int_equal(conf.ntokens, 1);
    assert_string_equal(conf.token[0].name, "default");
    assert_string_equal(conf.token[0].policy, "delay-cost");
    assert_true(conf.grace_ns <= conf.lease_ns);
}

static void tokens_have_sections(void **state)
{
    struct crn_turns_token token[CRN_BROKER_TOKENS];
    struct crn_turns_config turns;

    (void)state;
    load("[token a]\n[token b]\nslots = 4\nbandwidth = 2K\nbudget = 3K\ndry_run = on\npaths = /a, "
         "/b\npolicy = "
         "ordered\nnode_mtbf = 10s\n"
         "[broker]\nlease = 90s\nauth = peer, munge\n[token a]\nslots = 2\n");
    assert_int_equal(conf.ntokens, 2);
    assert_int_equal(conf.token[0].slots, 2);
    crn_broker_conf_turns(&conf, 5, token, &turns);
    assert_int_equal(turns.lease_ns, 90000000000);
    assert_string_equal(token[1].name, "b");
    assert_int_equal(token[1].slots, 4);
    assert_int_equal(token[1].bandwidth, 2048);
    assert_int_equal(token[1].budget, 3072);
    assert_true(token[1].is_dry && !token[0].is_dry);
    assert_string_equal(token[1].paths, "/a, /b");
    assert_ptr_equal(token[1].policy, &crn_policy_ordered);
    assert_true(token[1].node_mtbf_s > 9.99 && token[1].node_mtbf_s < 10.01);
}

static void errors_name_the_place(void **state)
{
    (void)state;
    expect_error("leese = 3s", "b.conf:1: unknown key 'leese'");
    expect_error("[tokens]\n", "b.conf:1: unknown section; known are [broker], [token NAME]");
    expect_error("[token a]\nslots = 0",
                 "b.conf:2: slots: '0' is out of range; allowed is 1 .. 65536");
    expect_error("[token a]\npolicy = loudest", "token a: no policy 'loudest'");
    expect_error("[token a]\nbudget = 4G",
                 "token a: with slots = 1 a budget says nothing; set slots to the most jobs that "
                 "may write at a time");
    expect_error("[token a]\npaths = /a, b", "token a: paths: 'b' is not absolute");
    expect_error("auth = pigeon", "auth: 'pigeon' is not one of munge, key, peer");
    expect_error("auth = key", "auth = key needs a key_file");
    expect_error("auth = ,", "auth: no user could log in");
    expect_error("listen = host:http", "listen: address 'host:http' is not host:port");
    expect_error("share_by = account", "share_by = account needs slurm = on");
    expect_error("peers = a:1, b:c", "peers: address 'b:c' is not host:port");
    expect_error("peers = a:1, b:2\nsettle = 1s", "with peers, settle must be at least takeover");
}

static void lists(void **state)
{
    (void)state;
    assert_true(crn_broker_list_has("root, alice,bob", "alice"));
    assert_true(crn_broker_list_has("root, alice,bob", "bob"));
    assert_false(crn_broker_list_has("root, alice,bob", "ali"));
    assert_false(crn_broker_list_has("", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_work),
        cmocka_unit_test(tokens_have_sections),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
