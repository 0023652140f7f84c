/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SQUEUE_TIMEOUT_MS 30000

extern char **environ;

const char *crn_slurm_job(void)
{
    const char *job = getenv("SLURM_JOB_ID");

    return job != NULL && job[0] != '\0' ? job : NULL;
}

int64_t crn_slurm_parse_time(const char *text)
{
    const char *dash = strchr(text, '-');
    const char *clock = dash != NULL ? dash + 1 : text;
    int64_t days = dash != NULL ? atoll(text) : 0;
    unsigned h, m, s;
    char rest;

    if (sscanf(clock, "%u:%u:%u%c", &h, &m, &s, &rest) == 3)
        return days * 86400 + (int64_t)h * 3600 + m * 60 + s;
    if (dash == NULL && sscanf(clock, "%u:%u%c", &m, &s, &rest) == 2)
        return (int64_t)m * 60 + s;
    return -1;
}

static int64_t mono_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads until the end, or until the deadline (-1). Returns the number of bytes. */
static ssize_t read_until(int fd, int64_t until_ms, char *text, size_t size)
{
    size_t used = 0;
    char more[256];

    for (;;) {
        struct pollfd in = {.fd = fd, .events = POLLIN};
        int64_t left = until_ms - mono_ms();
        size_t take;
        ssize_t n;

        if (left <= 0)
            return -1;
        if (poll(&in, 1, (int)left) <= 0)
            continue;
        n = read(fd, more, sizeof(more));
        if (n <= 0)
            return (ssize_t)used;
        take = (size_t)n < size - 1 - used ? (size_t)n : size - 1 - used;
        memcpy(text + used, more, take);
        used += take;
    }
}

static int slurm_start(const char *const *argv, int out, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int r;

    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    r = posix_spawnp(ret, argv[0], &actions, &attributes, (char *const *)argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r;
}

cairn_err crn_slurm_run_for_text(const char *const *argv, int timeout_ms, char *text, size_t size,
                                 struct crn_errinfo *ei)
{
    int ends[2];
    int status = 0;
    ssize_t n;
    pid_t pid;
    int r;

    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return crn_fail_errno(ei, errno, "a pipe for %s", argv[0]);
    r = slurm_start(argv, ends[1], &pid);
    (void)close(ends[1]);
    if (r != 0) {
        (void)close(ends[0]);
        return crn_fail_errno(ei, r, "start %s", argv[0]);
    }
    n = read_until(ends[0], mono_ms() + timeout_ms, text, size);
    (void)close(ends[0]);
    if (n < 0)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (n < 0)
        return crn_fail(ei, CAIRN_ETIMEDOUT, 0, "%s did not answer within %d s", argv[0],
                        timeout_ms / 1000);
    text[n] = '\0';
    if (n > 0 && text[n - 1] == '\n')
        text[n - 1] = '\0';
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return crn_fail(ei, CAIRN_ESTATE, 0, "%s failed (status %d)", argv[0], status);
    return CAIRN_OK;
}

cairn_err crn_slurm_time_left(const char *job, int64_t *ret_seconds, struct crn_errinfo *ei)
{
    const char *argv[] = {"squeue", "-h", "-o", "%L", "-j", job, NULL};
    char text[64];
    cairn_err rc;

    rc = crn_slurm_run_for_text(argv, SQUEUE_TIMEOUT_MS, text, sizeof(text), ei);
    if (rc != CAIRN_OK)
        return rc;
    if (strcmp(text, "UNLIMITED") == 0 || strcmp(text, "NOT_SET") == 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "job %s has no time limit", job);
    *ret_seconds = crn_slurm_parse_time(text);
    if (*ret_seconds < 0)
        return crn_fail(ei, CAIRN_ESTATE, 0, "squeue says '%s' of job %s", text, job);
    return CAIRN_OK;
}
