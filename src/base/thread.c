/* SPDX-License-Identifier: BSD-3-Clause */
/* Thin layer over pthreads. For the rank check each thread counts the mutexes it has locked, by
 * rank. */
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NDEBUG
static _Thread_local unsigned held[16]; /* indexed by rank / 10 */
#endif

void crn_mutex_init(struct crn_mutex *m, enum crn_rank rank)
{
    (void)pthread_mutex_init(&m->m, NULL);
    m->rank = rank;
}

void crn_mutex_fini(struct crn_mutex *m)
{
    (void)pthread_mutex_destroy(&m->m);
}

void crn_lock(struct crn_mutex *m) CRN_NOT_ANALYSED
{
#ifndef NDEBUG
    unsigned i;

    for (i = (unsigned)m->rank / 10; i < 16; i++)
        assert(held[i] == 0 && "locks are taken upwards only");
    held[(unsigned)m->rank / 10]++;
#endif
    (void)pthread_mutex_lock(&m->m);
}

void crn_unlock(struct crn_mutex *m) CRN_NOT_ANALYSED
{
    (void)pthread_mutex_unlock(&m->m);
#ifndef NDEBUG
    held[(unsigned)m->rank / 10]--;
#endif
}

void crn_cond_init(struct crn_cond *c)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&c->c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void crn_cond_fini(struct crn_cond *c)
{
    (void)pthread_cond_destroy(&c->c);
}

void crn_cond_signal(struct crn_cond *c)
{
    (void)pthread_cond_signal(&c->c);
}

void crn_cond_broadcast(struct crn_cond *c)
{
    (void)pthread_cond_broadcast(&c->c);
}

void crn_cond_wait(struct crn_cond *c, struct crn_mutex *m)
{
    (void)pthread_cond_wait(&c->c, &m->m);
}

int crn_cond_wait_until(struct crn_cond *c, struct crn_mutex *m, int64_t deadline_ns)
{
    struct timespec ts = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};

    return pthread_cond_timedwait(&c->c, &m->m, &ts) == ETIMEDOUT;
}

static cairn_err thread_start(const pthread_attr_t *attr, pthread_t *ret, const char *name,
                              void *(*fn)(void *), void *arg, struct crn_errinfo *ei)
{
    sigset_t all;
    sigset_t old;
    int r;

    (void)sigfillset(&all);
    /* If a thread faults while the signal is blocked, the kernel kills the process without calling
     * a handler. */
    (void)sigdelset(&all, SIGBUS);
    (void)sigdelset(&all, SIGFPE);
    (void)sigdelset(&all, SIGILL);
    (void)sigdelset(&all, SIGSEGV);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    r = pthread_create(ret, attr, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0)
        return crn_fail(ei, CAIRN_ELIMIT, r, "start the thread '%s'", name);
    (void)pthread_setname_np(*ret, name);
    return CAIRN_OK;
}

cairn_err crn_thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg,
                           struct crn_errinfo *ei)
{
    return thread_start(NULL, ret, name, fn, arg, ei);
}

/* The kernel ignores cores that the process may not use. If the affinity is refused, the thread
 * inherits that of the caller. */
static cairn_err start_on(const cpu_set_t *cores, pthread_t *ret, const char *name,
                          void *(*fn)(void *), void *arg, struct crn_errinfo *ei)
{
    struct crn_errinfo refused = {0};
    cairn_err rc = CAIRN_ELIMIT;
    pthread_attr_t attr;

    if (pthread_attr_init(&attr) == 0) {
        if (pthread_attr_setaffinity_np(&attr, sizeof(*cores), cores) == 0)
            rc = thread_start(&attr, ret, name, fn, arg, &refused);
        (void)pthread_attr_destroy(&attr);
    }
    return rc == CAIRN_OK ? rc : thread_start(NULL, ret, name, fn, arg, ei);
}

cairn_err crn_thread_start_anywhere(pthread_t *ret, const char *name, void *(*fn)(void *),
                                    void *arg, struct crn_errinfo *ei)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    return start_on(&all, ret, name, fn, arg, ei);
}

/* Adds the cores of a NUMA node, from a list such as "0-15,32-47". */
static void add_node(unsigned node, cpu_set_t *cores)
{
    unsigned first, last;
    char path[64];
    int sep = ',';
    FILE *f;

    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
    f = fopen(path, "re");
    while (f != NULL && sep == ',' && fscanf(f, "%u", &first) == 1) {
        last = first;
        sep = fgetc(f);
        if (sep == '-' && fscanf(f, "%u", &last) == 1)
            sep = fgetc(f);
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET(first, cores);
    }
    if (f != NULL)
        (void)fclose(f);
}

cairn_err crn_thread_start_near(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg,
                                struct crn_errinfo *ei)
{
    unsigned core, node;
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof(cores), &cores) != 0 || getcpu(&core, &node) != 0)
        return thread_start(NULL, ret, name, fn, arg, ei);
    add_node(node, &cores);
    return start_on(&cores, ret, name, fn, arg, ei);
}

void crn_thread_background(int nice)
{
    enum { WHO_PROCESS = 1, CLASS_BEST_EFFORT = 2, CLASS_SHIFT = 13, LOWEST = 7 };
    id_t tid = (id_t)syscall(SYS_gettid);

    if (nice == 0)
        return;
    (void)setpriority(PRIO_PROCESS, tid, nice);
    (void)syscall(SYS_ioprio_set, WHO_PROCESS, tid, (CLASS_BEST_EFFORT << CLASS_SHIFT) | LOWEST);
}

void crn_thread_precise(void)
{
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
}

int crn_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The fourth field of /proc/loadavg is "runnable/all": tasks that run or wait for a core, including
 * the caller. */
static int runnable_tasks(void)
{
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    char text[128];
    ssize_t n;
    int runnable;

    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    if (sscanf(text, "%*f %*f %*f %d/", &runnable) != 1)
        return -1;
    return runnable;
}

/* Cached, because the C library reads a file for it. */
int crn_host_cores(void)
{
    static atomic_int cores;
    int n = atomic_load(&cores);

    if (n == 0) {
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
        atomic_store(&cores, n);
    }
    return n;
}

int crn_idle_cores(void)
{
    int runnable = runnable_tasks();
    int idle = crn_host_cores() - runnable;

    if (runnable < 0)
        return -1;
    return idle > 0 ? idle : 0;
}

int crn_has_own_core(void)
{
    return runnable_tasks() <= crn_host_cores();
}
