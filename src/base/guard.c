/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler may run in any thread, between any two instructions. So it walks a list whose nodes
 * are never freed, and changes only a flag and the mapping. A node with end 0 is free for reuse. */
#include "base/guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/thread.h"

#define PAGE ((uintptr_t)4096)

struct crn_guard {
    struct crn_guard *next; /* constant once the node is in the list */
    atomic_uintptr_t start;
    atomic_uintptr_t end; /* 0: unused */
    atomic_int is_hit;
};

static _Atomic(struct crn_guard *) guards;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_installed;
static struct sigaction before;

/* Maps zeros from the faulting page to the end of the mapping: one fault per truncation, not per
 * page. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    struct crn_guard *g;

    (void)context;
    for (g = atomic_load(&guards); g != NULL; g = g->next) {
        uintptr_t end = atomic_load(&g->end);
        uintptr_t page = at & ~(PAGE - 1);

        if (at < atomic_load(&g->start) || at >= end)
            continue;
        atomic_store(&g->is_hit, 1);
        if (mmap((void *)page, end - page,
                 PROT_READ | PROT_WRITE, // NOLINT(performance-no-int-to-ptr)
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
            return;
    }
    (void)sigaction(number, &before,
                    NULL); /* not ours: restore the old handler, and let the access fault again */
}

void crn_guard_install(void)
{
    struct sigaction sa = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    (void)sigemptyset(&sa.sa_mask);
    if (sigaction(SIGBUS, &sa, &before) == 0)
        atomic_store(&is_installed, 1);
}

static struct crn_guard *unused_locked(void)
{
    struct crn_guard *g = atomic_load(&guards);

    while (g != NULL && atomic_load(&g->end) != 0)
        g = g->next;
    if (g != NULL)
        return g;
    g = calloc(1, sizeof(*g));
    if (g != NULL) {
        g->next = atomic_load(&guards);
        atomic_store(&guards, g);
    }
    return g;
}

struct crn_guard *crn_guard_add(void *start, size_t bytes)
{
    struct crn_guard *g;

    if (!atomic_load(&is_installed))
        return NULL;
    (void)pthread_mutex_lock(&adding);
    g = unused_locked();
    if (g != NULL) {
        atomic_store(&g->is_hit, 0);
        atomic_store(&g->start, (uintptr_t)start);
        atomic_store(&g->end, (uintptr_t)start + bytes);
    }
    (void)pthread_mutex_unlock(&adding);
    return g;
}

void crn_guard_remove(struct crn_guard *g)
{
    if (g != NULL)
        atomic_store(&g->end, 0);
}

int crn_guard_was_hit(const struct crn_guard *g)
{
    return g != NULL && atomic_load(&((struct crn_guard *)(uintptr_t)g)->is_hit);
}
