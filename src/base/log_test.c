/* SPDX-License-Identifier: BSD-3-Clause */
/* The format of a log line, and where it goes. */
#include "base/log.h"

#include <fcntl.h>
#include <regex.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/config.h"
#include "base/test.h"

static const uint8_t run[16] = {0x1a, 0x2b, 0x3c, 0x4d};

/* The content of a file, or "" if it does not exist. */
static char *text_of(const char *path)
{
    static char text[200000];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0)
        (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t re;
    int r;

    assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
    r = regexec(&re, text, 0, NULL, 0);
    regfree(&re);
    if (r != 0)
        fail_msg("'%s' does not match '%s'", text, pattern);
}

#define TIME "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z"

static void lines_carry_time_job_and_rank(void **state)
{
    struct crn_config cfg;
    struct crn_log log;
    char dir[200];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    crn_config_defaults(&cfg);
    (void)snprintf(cfg.log_file, sizeof(cfg.log_file), "%.190s/%%r", dir);
    cfg.log_level = CRN_INFO;

    (void)snprintf(cfg.job, sizeof(cfg.job), "4711");
    crn_log_init(&log, &cfg, run, "rank", 12);
    crn_log(&log, CRN_WARN, "text %d\nof\ttwo lines", 5);
    crn_log(&log, CRN_DEBUG, "nobody wants to know");
    crn_log(NULL, CRN_ERROR, "no log");
    (void)strcat(dir, "/rank12");
    assert_matches(text_of(dir), "^" TIME " cairn warn job 4711 rank 12: text 5 of two lines\n$");
    dir[strlen(dir) - strlen("/rank12")] = '\0';

    cfg.job[0] = '\0';
    crn_log_init(&log, &cfg, run, "node", 3);
    crn_log(&log, CRN_INFO, "a");
    crn_log(&log, CRN_ERROR, "%2000s", "long");
    (void)strcat(dir, "/node3");
    assert_matches(text_of(dir), "^" TIME " cairn info run 1a2b3c4d node 3: a\n" TIME
                                 " cairn error run 1a2b3c4d node 3: +\n$");
    dir[strlen(dir) - strlen("/node3")] = '\0';
    crn_config_fini(&cfg);
    test_dir_remove(dir);
}

static void a_log_file_is_named_after_job_writer_and_host(void **state)
{
    struct crn_log log = {.file = "/a/%j-%r.%h%%%x", .job = "job 7/b c", .who = "rank 0"};
    char expect[200], path[200], host[65] = "";

    (void)state;
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    (void)snprintf(expect, sizeof(expect), "/a/7_bc-rank0.%s%%%%x", host);
    assert_int_equal(crn_log_path(&log, path, sizeof(path)), 0);
    assert_string_equal(path, expect);
    assert_int_equal(crn_log_path(&log, path, strlen(expect)), -1);
    assert_int_equal(crn_log_path(&log, path, strlen(expect) + 1), 0);
}

/* Logs two lines in a child whose stderr is fd. */
static void child_logs(const char *file, int fd)
{
    struct crn_log log = {.level = CRN_INFO, .file = file, .job = "job 1", .who = "rank 0"};
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fd, STDERR_FILENO);
        crn_log(&log, CRN_INFO, "first");
        crn_log(&log, CRN_INFO, "second");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void what_cannot_be_written_goes_to_stderr(void **state)
{
    char dir[200], path[256], file[256];
    struct stat st;
    int fd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%.200s/stderr", dir);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    child_logs(NULL, fd);
    child_logs("", fd);
    assert_matches(text_of(path), "^(" TIME " cairn info job 1 rank 0: (first|second)\n){4}$");
    assert_int_equal(ftruncate(fd, 0), 0);

    /* The error is reported once; no line is lost. */
    child_logs("/nowhere/log", fd);
    assert_matches(text_of(path),
                   "^" TIME " cairn error job 1 rank 0: log_file '/nowhere/log' cannot be "
                   "written, logging to standard error: No such file or directory\n"
                   "(" TIME " cairn info job 1 rank 0: (first|second)\n){2}$");
    assert_int_equal(ftruncate(fd, 0), 0);
    child_logs("/dev/full", fd);
    assert_matches(text_of(path), "No space left on device\n.*first\n.*second\n$");
    assert_int_equal(ftruncate(fd, 0), 0);

    /* Appended, readable by the owner only; nothing goes to stderr. */
    (void)snprintf(file, sizeof(file), "%.200s/log-%%j", dir);
    child_logs(file, fd);
    child_logs(file, fd);
    assert_string_equal(text_of(path), "");
    (void)snprintf(file, sizeof(file), "%.200s/log-1", dir);
    assert_matches(text_of(file), "^([^\n]*first\n[^\n]*second\n){2}$");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)close(fd);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_carry_time_job_and_rank),
        cmocka_unit_test(a_log_file_is_named_after_job_writer_and_host),
        cmocka_unit_test(what_cannot_be_written_goes_to_stderr),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
