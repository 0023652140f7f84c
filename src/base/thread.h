/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes with ranks (taken upwards only, asserted in debug builds), conditions with monotonic
 * deadlines, named threads. */
#ifndef CRN_THREAD_H
#define CRN_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include "base/err.h"

enum crn_rank {
    CRN_RANK_SERVICE = 10,
    CRN_RANK_SESSION = 20,
    CRN_RANK_TIER = 30,
    CRN_RANK_QUEUE = 40,
    CRN_RANK_ENGINE = 50,
    CRN_RANK_POOL = 60,
    CRN_RANK_LEAF = 90,
};

#if defined(__clang__)
#define CRN_CAPABILITY(x) __attribute__((capability(x)))
#define CRN_ACQUIRE(x)    __attribute__((acquire_capability(x)))
#define CRN_RELEASE(x)    __attribute__((release_capability(x)))
#define CRN_REQUIRES(x)   __attribute__((requires_capability(x)))
#else
#define CRN_CAPABILITY(x)
#define CRN_ACQUIRE(x)
#define CRN_RELEASE(x)
#define CRN_REQUIRES(x)
#endif
#define CRN_GUARDED_BY(x) /* documentation; clang cannot check struct members in C */

struct CRN_CAPABILITY("mutex") crn_mutex {
    pthread_mutex_t m;
    enum crn_rank rank;
};

void crn_mutex_init(struct crn_mutex *m, enum crn_rank rank);
void crn_mutex_fini(struct crn_mutex *m);
void crn_lock(struct crn_mutex *m) CRN_ACQUIRE(*m);
void crn_unlock(struct crn_mutex *m) CRN_RELEASE(*m);

struct crn_cond {
    pthread_cond_t c;
};
void crn_cond_init(struct crn_cond *c);
void crn_cond_fini(struct crn_cond *c);
void crn_cond_signal(struct crn_cond *c);
void crn_cond_broadcast(struct crn_cond *c);
void crn_cond_wait(struct crn_cond *c, struct crn_mutex *m) CRN_REQUIRES(*m);
/* Until the monotonic clock shows deadline_ns; 0 if it was signalled before, 1 on the deadline. */
int crn_cond_wait_until(struct crn_cond *c, struct crn_mutex *m, int64_t deadline_ns)
    CRN_REQUIRES(*m);

/* A thread with all signals blocked but those of its own faults, so that handlers run on the application's threads. */
CAIRN_CHECKED cairn_err crn_thread_start(pthread_t *ret, const char *name, void *(*fn)(void *),
                                         void *arg, struct crn_errinfo *ei);
/* The same on whatever core of the host the process may use, also if the caller is bound to one. */
CAIRN_CHECKED cairn_err crn_thread_start_anywhere(pthread_t *ret, const char *name,
                                                  void *(*fn)(void *), void *arg,
                                                  struct crn_errinfo *ei);
/* The same where the caller may run and on every core that is as near to memory as the one it runs on: what the
 * thread touches first lies where the caller's memory does. */
CAIRN_CHECKED cairn_err crn_thread_start_near(pthread_t *ret, const char *name, void *(*fn)(void *),
                                              void *arg, struct crn_errinfo *ei);
/* Low CPU and I/O priority for the calling thread; nice 0 leaves the CPU one alone. Best effort. */
void crn_thread_background(int nice);
/* Short sleeps of the calling thread end when they should, not up to 50 us later. Best effort. */
void crn_thread_precise(void);
/* Cores that this process may run on. */
int crn_cores(void);
/* Cores of the host. */
int crn_host_cores(void);
/* Cores of the host that nobody runs on at this moment; -1 if the kernel does not tell. */
int crn_idle_cores(void);
/* Whether everybody who wants to run now has a core, the caller too. */
int crn_has_own_core(void);

#endif
