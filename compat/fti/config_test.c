/* SPDX-License-Identifier: BSD-3-Clause */
/* FTI's configuration file: what is read, and what is written back. */
#include "config.h"

#include <stdlib.h>

#include "base/test.h"

static struct crn_errinfo info, *ei = &info;

static const char file[] = "; a comment\n"
                           "[basic]\n"
                           "head = 1\n"
                           "node_size = 4\n"
                           "ckpt_dir = /l\n"
                           "glbl_dir = /g\n"
                           "meta_dir = /m\n"
                           "ckpt_l1 = 3\n"
                           "inline_l4 = 0\n"
                           "keep_last_ckpt = 1\n"
                           "failure = 9\n"
                           "[restart]\n"
                           "failure=1\n"
                           "exec_id                        = 2026-11-18_10-00-00\n"
                           "[advanced]\n"
                           "final_tag = 77\n"
                           "local_test = 1\n";

static void what_it_means(void **state)
{
    struct crn_fti_config cfg;

    (void)state;
    assert_ok(crn_fti_config_parse(file, &cfg, ei));
    assert_int_equal(cfg.has_heads, 1);
    assert_int_equal(cfg.failure, 1);
    assert_string_equal(cfg.all.execution.id, "2026-11-18_10-00-00");
    assert_int_equal(cfg.all.topology.nodeSize, 4);
    assert_int_equal(cfg.all.ckpt[1].ckptIntv, 3);
    assert_int_equal(cfg.all.ckpt[4].isInline, 0);
    assert_int_equal(cfg.all.ckpt[3].isInline, 1);
    assert_int_equal(cfg.all.configuration.finalTag, 77);
    assert_string_equal(cfg.ignored, "failure");
    assert_int_equal(crn_fti_config_parse("[basic]\nckpt_dir=/l\n", &cfg, ei), CAIRN_ECONFIG);
    assert_int_equal(crn_fti_config_parse("[basic]\nckpt_dir=/l\nglbl_dir=/g\nhead=x\n", &cfg, ei),
                     CAIRN_ECONFIG);
}

/* Reads back what is written. */
static void expect(const char *text, int failure, const char *id)
{
    struct crn_fti_config cfg;
    char *edited;

    assert_ok(crn_fti_config_edit(text, failure, id, &edited, ei));
    assert_ok(crn_fti_config_parse(edited, &cfg, ei));
    assert_int_equal(cfg.failure, failure);
    assert_string_equal(cfg.all.execution.id, id);
    assert_string_equal(cfg.all.configuration.glbalDir, "/g");
    free(edited);
}

static void two_keys_change_and_nothing_else(void **state)
{
    char *edited;

    (void)state;
    assert_ok(crn_fti_config_edit(file, 2, "x", &edited, ei));
    assert_non_null(strstr(edited, "; a comment\n[basic]\nhead = 1\n"));
    assert_non_null(
        strstr(edited, "failure = 9\n[restart]\nfailure = 2\nexec_id = x\n[advanced]\n"));
    assert_non_null(strstr(edited, "final_tag = 77\nlocal_test = 1\n"));
    free(edited);
    expect(file, 0, "y");
    expect("[restart]\n[basic]\nckpt_dir=/l\nglbl_dir=/g\n", 1, "y");
    expect("[basic]\nckpt_dir=/l\nglbl_dir=/g", 3, "y");
    expect("[basic]\nckpt_dir=/l\nglbl_dir=/g\n[restart]\nexec_id=1", 2, "y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_it_means),
                                       cmocka_unit_test(two_keys_change_and_nothing_else)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
