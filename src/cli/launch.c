/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/launch.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

void crn_launch_init(struct crn_launch *l)
{
    static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
    size_t i;

    memset(l, 0, sizeof(*l));
    (void)sigemptyset(&l->signals);
    for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        (void)sigaddset(&l->signals, passed[i]);
    (void)sigprocmask(SIG_BLOCK, &l->signals, NULL);
}

static void note_signal(struct crn_launch *l, const siginfo_t *info, pid_t child)
{
    if (info->si_signo == SIGCHLD)
        return;
    if (info->si_signo != SIGUSR1 && info->si_signo != SIGUSR2)
        l->stop = info->si_signo;
    if (child > 0 && info->si_code != SI_KERNEL)
        (void)kill(child, info->si_signo);
}

static int launch_start(char *const *argv, int to_stderr, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    int r;

    (void)sigemptyset(&none);
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE); /* main() ignores it */
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawn_file_actions_init(&actions);
    if (to_stderr)
        (void)posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    r = posix_spawnp(ret, argv[0], &actions, &attributes, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return r;
}

cairn_err crn_launch_run(struct crn_launch *l, char *const *argv, int to_stderr, int *ret_status,
                         struct crn_errinfo *ei)
{
    int status = 0;
    pid_t child;
    int r = launch_start(argv, to_stderr, &child);

    if (r != 0)
        return crn_fail_errno(ei, r, "start '%s'", argv[0]);
    while (waitpid(child, &status, WNOHANG) != child) {
        siginfo_t info;

        if (sigwaitinfo(&l->signals, &info) > 0)
            note_signal(l, &info, child);
    }
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return CAIRN_OK;
}

void crn_launch_pause(struct crn_launch *l, int64_t ns)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t until = clock->mono_ns(clock) + ns;
    int64_t left;

    while (l->stop == 0 && (left = until - clock->mono_ns(clock)) > 0) {
        struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        siginfo_t info;

        if (sigtimedwait(&l->signals, &info, &wait) > 0)
            note_signal(l, &info, 0);
    }
}
