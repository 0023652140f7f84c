/* SPDX-License-Identifier: BSD-3-Clause */
/* Applications that fork, for fork_test.py.
 *
 *     fork calls DIR                 children call every function; the parent's checkpoints are right
 *     fork dies DIR PIDFILE DEPTH    takes a version and one that is not flushed, leaves a sleeping child
 *                                    (DEPTH 1) or grandchild (2), and dies
 *     fork restarts DIR              finds the newest version, whole, and takes the next */
#include <signal.h>
#include <sys/wait.h>

#include "calls_setup.h"

#define VERSIONS 20

/* In a child: every call on the parent's session fails and says why. Returns the number of calls
 * that do not. */
static int call_all(void)
{
    int bad = 0;
    size_t i;

    for (i = 0; i < COUNT(right_calls); i++) {
        const struct right_call *r = &right_calls[i];
        long got;

        if (!r->has_session)
            continue;
        got = r->call();
        if (got != (r->is_int ? -1 : CAIRN_ESTATE) || strstr(cairn_last_error(), "fork") == NULL) {
            (void)fprintf(stderr, "%s in a child: %ld: %s\n", r->function, got, cairn_last_error());
            bad++;
        }
    }
    memset(memory, 0xcc, sizeof(memory)); /* its own copy */
    return bad;
}

/* A child opens its own session in the same directories. */
static int open_own(void)
{
    uint64_t own[64] = {1, 2, 3};
    uint64_t sum = 0;

    must(cairn_open(&options, &another), "open in a child");
    must(cairn_protect(another, "own", own, CAIRN_U64, 64), "protect in a child");
    must(cairn_checkpoint(another, "child", 1, NULL), "checkpoint in a child");
    memset(own, 0, sizeof(own));
    must(cairn_restart(another, "child", NULL, &found), "restart in a child");
    must(cairn_close(another), "close in a child");
    sum = own[0] + own[1] + own[2];
    return sum != 6;
}

/* Forks at each stage of a version: calls, calls in a grandchild, a session of its own. */
static int in_child(int64_t version)
{
    int status = 1;
    pid_t pid;

    if (version == 7)
        return open_own();
    if (version % 3 != 0)
        return call_all();
    pid = fork();
    if (pid == 0)
        exit(call_all());
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

static void calls(void)
{
    int64_t version;
    int status;

    for (version = 1; version <= VERSIONS; version++) {
        pid_t pid;

        fill_memory(version);
        must(cairn_checkpoint(session, "heat", version, NULL), "checkpoint");
        pid = fork(); /* the service flushes at this moment */
        if (pid == 0) {
            int bad = in_child(version);

            if (version % 2 != 0)
                exit(bad); /* runs exit handlers and destructors */
            _exit(bad);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            (void)fprintf(stderr, "the child of version %lld failed\n", (long long)version);
            exit(1);
        }
        check_memory(version, "beside a child");
    }
    must(cairn_wait_all(session, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "wait for all");
    for (version = VERSIONS; version >= 1; version--) {
        memset(memory, 0, sizeof(memory));
        must(cairn_restore(session, "heat", version, NULL), "restore");
        check_memory(version, "restored");
    }
    must(cairn_close(session), "close");
}

static void sleep_on(const char *pid_file)
{
    char part[300];
    FILE *f;

    (void)snprintf(part, sizeof(part), "%.280s.part", pid_file);
    f = fopen(part, "w");
    if (f == NULL || fprintf(f, "%d", (int)getpid()) < 0 || fclose(f) != 0 ||
        rename(part, pid_file) != 0)
        _exit(1);
    for (;;)
        (void)pause();
}

static void die(const char *pid_file, int depth)
{
    fill_memory(1);
    must(cairn_checkpoint(session, "heat", 1, NULL), "checkpoint");
    must(cairn_wait(session, "heat", 1, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "wait");
    must(cairn_phase(session, CAIRN_PHASE_IO), "phase"); /* the next flush waits for us */
    fill_memory(2);
    must(cairn_checkpoint(session, "heat", 2, NULL), "checkpoint");
    must(cairn_wait(session, "heat", 2, CAIRN_CAPTURED, CAIRN_WAIT_CONFIG), "wait for the capture");
    if (fork() == 0 && (depth == 1 || fork() == 0))
        sleep_on(pid_file);
    while (access(pid_file, F_OK) != 0)
        (void)usleep(1000);
    (void)kill(getpid(), SIGKILL);
}

static void restart(void)
{
    must(cairn_restart(session, "heat", NULL, &found), "restart");
    check_memory(found, "restarted");
    fill_memory(found + 1);
    must(cairn_checkpoint(session, "heat", found + 1, NULL), "checkpoint");
    must(cairn_wait_all(session, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "wait");
    (void)printf("restarted at %lld\n", (long long)found);
    must(cairn_close(session), "close");
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    set_up(argv[2]);
    settings[4] = "phase_patience=1h";
    settings[5] = getenv("FORK_TEST_SERVICE");
    must(cairn_open(&options, &session), "open");
    must(cairn_protect(session, "t", memory, CAIRN_U64, N), "protect");
    if (strcmp(argv[1], "calls") == 0)
        calls();
    else if (strcmp(argv[1], "dies") == 0 && argc == 5)
        die(argv[3], atoi(argv[4]));
    else
        restart();
    return 0;
}
