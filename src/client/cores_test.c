/* SPDX-License-Identifier: BSD-3-Clause */
/* A session of a thread that is bound to a core, as MPI launchers bind ranks. Its background
 * threads run on all cores, or where the thread may run, as configured. */
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/test.h"
#include "base/thread.h"
#include "cairn/cairn.h"

/* Counts the threads named cairn-*, and those of them that are bound to one core. */
static void count_threads(int *ret_all, int *ret_bound)
{
    DIR *d = opendir("/proc/self/task");
    const struct dirent *e;

    *ret_all = *ret_bound = 0;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        char path[300], name[32] = "";
        cpu_set_t set;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        f = fopen(path, "r");
        if (f == NULL)
            continue; /* "..", or the thread has ended */
        if (fscanf(f, "%31s", name) != 1)
            name[0] = '\0';
        (void)fclose(f);
        if (strncmp(name, "cairn-", 6) != 0 || strcmp(name, "cairn-touch") == 0 ||
            sched_getaffinity((pid_t)strtol(e->d_name, NULL, 10), sizeof(set), &set) != 0)
            continue;
        ++*ret_all;
        *ret_bound += CPU_COUNT(&set) == 1;
    }
    (void)closedir(d);
}

static void take_one(const char *dir, const char *setting, int is_bound)
{
    char persistent[300], shm[300], run[300], data[1000] = "data";
    const char *settings[] = {persistent, shm, run, "log_level=error", "fresh=on", setting, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int all, bound;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s", dir);
    assert_int_equal(cairn_open(&opt, &s), CAIRN_OK);
    assert_int_equal(cairn_protect(s, "data", data, CAIRN_BYTES, sizeof(data)), CAIRN_OK);
    assert_int_equal(cairn_checkpoint(s, "bound", is_bound, NULL), CAIRN_OK);
    assert_int_equal(cairn_wait(s, "bound", is_bound, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG),
                     CAIRN_OK);
    count_threads(&all, &bound);
    assert_true(all >= 4); /* node, flush, keep, writers */
    assert_int_equal(bound, is_bound ? all : 0);
    assert_int_equal(crn_cores(), 1); /* the application's thread stays bound */
    assert_int_equal(cairn_close(s), CAIRN_OK);
}

static void background_threads_are_not_bound(void **state)
{
    char dir[256];
    cpu_set_t before;

    (void)state;
    test_bind(&before);
    test_dir_make(dir, sizeof(dir));
    take_one(dir, "background_cores=own", 1);
    take_one(dir, "background_cores=all", 0);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(background_threads_are_not_bound)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
