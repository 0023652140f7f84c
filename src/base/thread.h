/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes with ranks (locked in ascending order only; asserted in debug builds), conditions with
 * monotonic deadlines, and named threads. */
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
    CRN_RANK_LOG = 100,
};

#if defined(__clang__)
#define CRN_CAPABILITY(x) __attribute__((capability(x)))
#define CRN_ACQUIRE(x)    __attribute__((acquire_capability(x)))
#define CRN_RELEASE(x)    __attribute__((release_capability(x)))
#define CRN_REQUIRES(x)   __attribute__((requires_capability(x)))
#define CRN_NOT_ANALYSED  __attribute__((no_thread_safety_analysis))
#else
#define CRN_CAPABILITY(x)
#define CRN_ACQUIRE(x)
#define CRN_RELEASE(x)
#define CRN_REQUIRES(x)
#define CRN_NOT_ANALYSED
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
/* Waits until deadline_ns on the monotonic clock. 0 if woken before, 1 at the deadline. */
int crn_cond_wait_until(struct crn_cond *c, struct crn_mutex *m, int64_t deadline_ns)
    CRN_REQUIRES(*m);

/* Starts a thread with all signals blocked, except those of its own faults, so that signal handlers
 * run on the application's threads. */
CAIRN_CHECKED cairn_err crn_thread_start(pthread_t *ret, const char *name, void *(*fn)(void *),
                                         void *arg, struct crn_errinfo *ei);
/* Same, but on any core of the host that the process may use, even if the caller is bound to
 * one. */
CAIRN_CHECKED cairn_err crn_thread_start_anywhere(pthread_t *ret, const char *name,
                                                  void *(*fn)(void *), void *arg,
                                                  struct crn_errinfo *ei);
/* Same, but on the caller's cores and all others of its NUMA node, so that memory which the thread
 * touches first lies near the caller's. */
CAIRN_CHECKED cairn_err crn_thread_start_near(pthread_t *ret, const char *name, void *(*fn)(void *),
                                              void *arg, struct crn_errinfo *ei);
#define CRN_BACKGROUND_NICE 10 /* of threads that flush: they get CPU time on a busy node, too */
/* Sets low CPU and I/O priority for the calling thread; nice 0 changes neither. Best effort. */
void crn_thread_background(int nice);
/* Reduces the timer slack of the calling thread from 50 us to 1 us. Best effort. */
void crn_thread_precise(void);
/* Cores that this process may use. */
int crn_cores(void);
/* Cores of the host. */
int crn_host_cores(void);
/* Cores of the host that are idle at this moment; -1 if unknown. */
int crn_idle_cores(void);
/* True if there is a core for every runnable task of the host, including the caller. */
int crn_has_own_core(void);

#endif
