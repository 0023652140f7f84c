/* SPDX-License-Identifier: BSD-3-Clause */
/* run.ini reads back as written; a place that no service can have written is refused, and the
 * result is unchanged. */
#include <fcntl.h>
#include <unistd.h>

#include "base/test.h"
#include "service/runfile.h"

#define NAMES 500

static cairn_err parse(const char *text, size_t len, struct crn_run_place *ret)
{
    struct crn_errinfo ignored = {0};
    struct crn_config cfg;
    cairn_err rc;

    crn_config_defaults(&cfg);
    rc = crn_runfile_parse(text, len, ret, &cfg, &ignored);
    crn_config_fini(&cfg);
    return rc;
}

static void what_is_written_reads_back(void **state)
{
    const struct crn_run_place place = {12, 2,        3, 4, "/run/user/7/cairn/cairnd-1.sock",
                                        3,  {0, 1, 2}};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_run_place back = {0};
    struct crn_config cfg, cfg_back;
    char dir[256];
    char text[400];
    int dfd;
    int i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    dfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dfd >= 0);
    crn_config_defaults(&cfg);
    crn_config_defaults(&cfg_back);
    assert_ok(crn_config_set(&cfg, "persistent", "/pfs/a b", "test", ei));
    for (i = 0; i < NAMES; i++) { /* far more than 64 KiB of text */
        (void)snprintf(text, sizeof(text), "[checkpoint name-%d]\nencode_match = %0240d\n", i, 7);
        assert_ok(crn_config_text(&cfg, text, "test", ei));
    }
    assert_ok(crn_runfile_write(dfd, &place, &cfg, ei));
    assert_ok(crn_runfile_read(crn_fs_posix(), dfd, &back, &cfg_back, ei));
    assert_memory_equal(&back, &place, sizeof(back));
    assert_string_equal(cfg_back.persistent, "/pfs/a b");
    assert_int_equal(cfg_back.noverrides, NAMES);
    assert_int_equal(strlen(crn_config_name(&cfg_back, "name-499")->encode_match), 240);
    crn_config_fini(&cfg);
    crn_config_fini(&cfg_back);
    (void)close(dfd);
    test_dir_remove(dir);
}

static void what_no_service_wrote_is_refused(void **state)
{
    static const char *const places[] = {
        "",
        "[cairn]",
        "# ranks 4 node 0 nodes 1",
        "# ranks 4 node 1 nodes 1 local 4",          /* no such node */
        "# ranks 4 node 0 nodes 1 local 0",          /* no rank */
        "# ranks 4 node 0 nodes 1 local 5",          /* more than the job has */
        "# ranks -1 node 0 nodes 1 local 4",         /* a sign */
        "# ranks 4 node 4294967296 nodes 1 local 4", /* wraps to 0 in 32 bits */
        "# ranks 18446744073709551620 node 0 nodes 1 local 4",
        "# ranks 16777217 node 0 nodes 1 local 1",
        "# ranks 4 node 0 nodes 1048577 local 1",
        "# ranks 4 node 0 nodes 1 local 4x",
        "# ranks 4 node 0 nodes 1 local 4\n# socket \n", /* no path */
    };
    static const char good[] = "# ranks 4 node 0 nodes 1 local 4\npersistent = /pfs\n";
    static const char config[] =
        "# ranks 4 node 0 nodes 1 local 4\npersistent = /pfs\nblocks = x\n";
    static const char together[] =
        "# ranks 4 node 0 nodes 1 local 4\npersistent = /pfs\nalign_bytes = 4097\n";
    struct crn_run_place place = {7, 7, 7, 7, "/here", 0, {0}};
    char text[200];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s\npersistent = /pfs\n", places[i]);
        if (parse(text, strlen(text), &place) != CAIRN_EDAMAGED)
            fail_msg("accepted: %s", places[i]);
    }
    assert_int_equal(parse(config, strlen(config), &place), CAIRN_ECONFIG);
    assert_int_equal(parse(together, strlen(together), &place), CAIRN_ECONFIG);
    assert_int_equal(parse(good, sizeof(good), &place), CAIRN_EDAMAGED); /* contains a NUL */
    assert_int_equal(place.ranks, 7);
    assert_int_equal(parse(good, strlen(good), &place), CAIRN_OK);
    assert_int_equal(place.ranks, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(what_no_service_wrote_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
