/* SPDX-License-Identifier: BSD-3-Clause */
/* A forked child keeps none of its parent's locks and sockets, at whatever moment it is forked. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fork.h"

/* Forks a child that exits with the result of check, or lives until killed if check is NULL. The
 * child has left fork() when this returns. */
static pid_t child(int (*check)(int fd), int fd)
{
    int up[2];
    pid_t pid;
    char c;

    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(up[0]);
        (void)close(up[1]);
        if (check != NULL)
            _exit(check(fd));
        for (;;)
            (void)pause();
    }
    (void)close(up[1]);
    assert_true(pid > 0);
    assert_int_equal(read(up[0], &c, 1), 0);
    (void)close(up[0]);
    return pid;
}

static int status_of(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)status_of(pid);
}

static int is_closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

static int child_of_child_has_closed(int fd)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0)
        _exit(is_closed(fd) && crn_fork_process() >= 2);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void a_child_drops_locks(void **state)
{
    const struct crn_fs *fs = crn_fs_posix();
    char dir[256], path[300];
    pid_t sleeper;
    int fd, other;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/lock", dir);
    fd = crn_fork_openat(fs, AT_FDCWD, path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fs->lock(fs, fd), 0);
    assert_int_equal(status_of(child(is_closed, fd)), 1);
    assert_int_equal(status_of(child(child_of_child_has_closed, fd)), 1);
    other = fs->openat(fs, AT_FDCWD, path, O_RDWR, 0);
    assert_int_equal(fs->lock(fs, other), -EAGAIN); /* the children did not release it */
    sleeper = child(NULL, -1);
    assert_int_equal(fs->close(fs, fd), 0);
    assert_int_equal(fs->lock(fs, other), 0); /* nor do they keep it */
    end(sleeper);
    assert_int_equal(fs->close(fs, other), 0);
    test_dir_remove(dir);
}

/* A registered number that has been closed and reused for another file stays open in the child. */
static void a_child_keeps_the_rest(void **state)
{
    int fd, again;

    (void)state;
    fd = crn_fork_socket(AF_UNIX, SOCK_STREAM);
    assert_true(fd >= 0);
    crn_fork_close(fd);
    again = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(again, fd);
    assert_int_equal(status_of(child(is_closed, fd)), 0);
    (void)close(again);
    fd = crn_fork_socket(AF_UNIX, SOCK_STREAM);
    assert_int_equal(close(fd), 0); /* bypasses the registry */
    again = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(again, fd);
    assert_int_equal(status_of(child(is_closed, fd)), 0);
    (void)close(again);
}

static void a_child_drops_sockets(void **state)
{
    struct sockaddr_storage at = {.ss_family = AF_INET};
    struct pollfd p = {.events = POLLIN};
    socklen_t len = sizeof(at);
    pid_t sleeper;
    int listener, a, b;
    char c;

    (void)state;
    listener = crn_fork_socket(AF_INET, SOCK_STREAM);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    a = crn_fork_socket(AF_INET, SOCK_STREAM);
    assert_true(connect(a, (struct sockaddr *)&at, len) == 0 || errno == EINPROGRESS);
    p.fd = listener;
    assert_int_equal(poll(&p, 1, -1), 1);
    b = crn_fork_accept(listener);
    assert_true(b >= 0);
    sleeper = child(NULL, -1);
    crn_fork_close(b);
    p.fd = a;
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(read(a, &c, 1), 0); /* end of the connection, although the child lives */
    end(sleeper);
    crn_fork_close(a);
    crn_fork_close(listener);
}

/* Children that are forked while another thread opens and locks. ------------------------------- */

#define ROUNDS 200

struct locker {
    char path[300];
    int fd;
    pthread_barrier_t begin, ended;
};

static void *lock_and_unlock(void *arg)
{
    const struct crn_fs *fs = crn_fs_posix();
    struct locker *l = arg;
    int i;

    for (i = 0; i < ROUNDS; i++) {
        (void)pthread_barrier_wait(&l->begin);
        l->fd = crn_fork_openat(fs, AT_FDCWD, l->path, O_RDWR | O_CREAT, 0600);
        if (l->fd >= 0 && fs->lock(fs, l->fd) < 0) {
            (void)fs->close(fs, l->fd);
            l->fd = -1;
        }
        (void)pthread_barrier_wait(&l->ended);
    }
    return NULL;
}

static void no_moment_is_wrong(void **state)
{
    const struct crn_fs *fs = crn_fs_posix();
    struct locker l;
    char dir[256];
    pthread_t thread;
    int failed = 0;
    int i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(l.path, sizeof(l.path), "%s/lock", dir);
    assert_int_equal(pthread_barrier_init(&l.begin, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&l.ended, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, lock_and_unlock, &l), 0);
    for (i = 0; i < ROUNDS; i++) {
        pid_t pid;
        int fd;

        (void)pthread_barrier_wait(&l.begin);
        pid = child(NULL, -1);
        (void)pthread_barrier_wait(&l.ended);
        failed += l.fd < 0;
        if (l.fd >= 0)
            (void)fs->close(fs, l.fd);
        fd = fs->openat(fs, AT_FDCWD, l.path, O_RDWR, 0);
        failed += fs->lock(fs, fd) != 0; /* the child keeps the lock */
        (void)fs->close(fs, fd);
        end(pid);
    }
    (void)pthread_join(thread, NULL);
    (void)pthread_barrier_destroy(&l.begin);
    (void)pthread_barrier_destroy(&l.ended);
    assert_int_equal(failed, 0);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_drops_locks),
        cmocka_unit_test(a_child_keeps_the_rest),
        cmocka_unit_test(a_child_drops_sockets),
        cmocka_unit_test(no_moment_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
