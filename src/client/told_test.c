/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank reports a message. For restarts with several ranks see tests/crash/told_test.py. */
#include "client/session.h"

#include <fcntl.h>

#include "base/test.h"

/* How often a file holds this text. */
static int count(const char *path, const char *text)
{
    static char all[10000];
    int fd = open(path, O_RDONLY);
    ssize_t len = fd >= 0 ? read(fd, all, sizeof(all) - 1) : 0;
    const char *p;
    int n = 0;

    all[len > 0 ? len : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
    for (p = all; (p = strstr(p, text)) != NULL; p++)
        n++;
    return n;
}

static void ranks_of_a_node_warn_once(void **state)
{
    cairn_session *s = calloc(1, sizeof(*s));
    char dir[200], path[256];
    uint32_t rank;
    int nodes[2];

    (void)state;
    assert_non_null(s);
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%.200s/log", dir);
    s->log = (struct crn_log){.level = CRN_WARN, .file = path, .who = "rank"};
    s->dir.dfd = -1; /* no directory yet: every rank warns */
    crn_told_warn_once(s, "early %d", 1);
    crn_told_warn_once(s, "early %d", 1);
    assert_int_equal(count(path, "early 1"), 2);
    for (rank = 0; rank < 8; rank++) { /* two nodes, each with its own run directory */
        char name[256];

        (void)snprintf(name, sizeof(name), "%.200s/n%u", dir, rank / 4);
        if (rank % 4 == 0) {
            assert_int_equal(mkdir(name, 0700), 0);
            nodes[rank / 4] = open(name, O_RDONLY | O_DIRECTORY);
        }
        s->rank = rank;
        s->dir.dfd = nodes[rank / 4];
        crn_told_warn_once(s, "the GPU of rank %u is broken", rank);
        crn_told_warn_once(s, "the disk of rank %u is broken", rank);
        crn_log(&s->log, crn_told_level(s), "all agree");
    }
    assert_int_equal(count(path, "the GPU of rank"), 2);
    assert_int_equal(count(path, "the GPU of rank 0 is broken"), 1);
    assert_int_equal(count(path, "the GPU of rank 4 is broken"), 1);
    assert_int_equal(count(path, "the disk of rank"), 2);
    assert_int_equal(count(path, "all agree"), 1);
    (void)close(nodes[0]);
    (void)close(nodes[1]);
    free(s);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_node_warn_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
