/* SPDX-License-Identifier: BSD-3-Clause */
/* A separate program, cairn-hdf5-extents, reads HDF5 files: libhdf5 may crash or hang on damaged
 * files, and an application may load another version of it than Cairn was built with. */
#include "encode/extents.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MOST ((size_t)256 << 20)

extern char **environ;

static pid_t extents_hdf5_start(const char *program, int fd, int out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char *argv[] = {(char *)program, NULL};
    sigset_t none;
    pid_t pid = -1;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawnattr_init(&attr) != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return -1;
    }
    (void)sigemptyset(&none); /* its alarm must not be blocked */
    if (posix_spawnattr_setsigmask(&attr, &none) != 0 ||
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawnp(&pid, program, &actions, &attr, argv, environ) != 0)
        pid = -1;
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* Reads the whole answer; 0, or -1 if it is too long. */
static int read_answer(int fd, struct crn_buf *answer)
{
    unsigned char part[16384];
    ssize_t got;

    while ((got = read(fd, part, sizeof(part))) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || answer->len + (size_t)got > ANSWER_MOST)
            return -1;
        crn_buf_put(answer, part, (size_t)got);
    }
    return answer->failed ? -1 : 0;
}

void crn_extents_hdf5(const char *program, int fd, struct crn_file_extents *ret)
{
    struct crn_buf answer = {0};
    int status = -1;
    int ends[2];
    int is_read;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid = extents_hdf5_start(program, fd, ends[1]);
    (void)close(ends[1]);
    if (pid > 0) {
        is_read = read_answer(ends[0], &answer) == 0; /* the program limits its own run time */
        if (!is_read)
            (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0)
            if (errno != EINTR) { /* the application may have reaped the child already; */
                status = 0;       /* then the end mark tells whether the answer is complete */
                break;
            }
        if (is_read && status == 0)
            (void)crn_extents_decode(answer.data, answer.len, ret); /* on failure ret stays empty */
    }
    (void)close(ends[0]);
    crn_buf_free(&answer);
}
