/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines that a thread writes for callers that must not wait. open() of the log hangs while `gate` is
 * closed, as on a dead mount: this program's own open() is called instead of that of the C library. */
#include "base/log_writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/test.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static char dir[200], path[256];

int open(const char *file, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(args, mode_t);
    va_end(args);
    if (strcmp(file, path) == 0) {
        (void)pthread_mutex_lock(&gate);
        (void)pthread_mutex_unlock(&gate);
    }
    return openat(AT_FDCWD, file, flags, mode);
}

static int writer_setup(void **state)
{
    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%.200s/log", dir);
    return 0;
}

static int writer_teardown(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

/* Lines of the log, in order of their numbers; *ret_lost: how many it says are missing. */
static unsigned written(unsigned *ret_lost)
{
    char line[1500];
    FILE *f = fopen(path, "r");
    unsigned n = 0;
    long last = -1;

    *ret_lost = 0;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *text = strstr(line, "line ");
        const char *lost = strstr(line, " lines are lost");

        if (lost != NULL) {
            while (lost[-1] >= '0' && lost[-1] <= '9')
                lost--;
            *ret_lost += (unsigned)strtoul(lost, NULL, 10);
        } else {
            assert_non_null(text);
            assert_true(strtol(text + 5, NULL, 10) > last);
            last = strtol(text + 5, NULL, 10);
            n++;
        }
    }
    (void)fclose(f);
    return n;
}

static struct crn_log_writer *writer_use(struct crn_log *log)
{
    struct crn_log_writer *w = NULL;
    struct crn_errinfo info = {0}, *ei = &info;

    *log = (struct crn_log){.level = CRN_INFO, .file = path, .who = "test"};
    assert_ok(crn_log_writer_open(&w, ei));
    crn_log_writer_use(w, log);
    return w;
}

static void lines_stay_in_order(void **state)
{
    struct crn_log log;
    struct crn_log_writer *w = writer_use(&log);
    unsigned i, lost;

    (void)state;
    for (i = 0; i < 300; i++) {
        char name[300];

        (void)snprintf(name, sizeof(name), "%s", path);
        log.file = name; /* copied: a job's configuration may be gone when its lines are written */
        crn_log(&log, CRN_INFO, "line %u", i);
        crn_log(&log, CRN_DEBUG, "nobody wants to know");
        name[0] = '\0';
    }
    crn_log_writer_close(w);
    assert_int_equal(written(&lost), 300);
    assert_int_equal(lost, 0);
}

/* The caller continues; what does not fit is dropped and counted. */
static void a_file_that_hangs_delays_nobody(void **state)
{
    struct crn_log log;
    struct crn_log_writer *w;
    unsigned i, lost;

    (void)state;
    (void)pthread_mutex_lock(&gate);
    w = writer_use(&log);
    for (i = 0; i < 5 * CRN_LOG_WAITING; i++)
        crn_log(&log, CRN_INFO, "line %u", i);
    (void)pthread_mutex_unlock(&gate);
    crn_log_writer_close(w);
    i = written(&lost);
    assert_in_range(i, CRN_LOG_WAITING, 2 * CRN_LOG_WAITING); /* some were taken before it hung */
    assert_int_equal(i + lost, 5 * CRN_LOG_WAITING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_stay_in_order, writer_setup, writer_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_hangs_delays_nobody, writer_setup,
                                        writer_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
