/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel clears a page in the thread that touches it first, so several threads are several
 * times as fast as one. If a thread cannot be started, the caller touches its share. */
#include "base/touch.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/thread.h"

#define PAGE    4096U
#define THREADS 16
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct touch_part {
    unsigned char *start;
    size_t bytes;
    pthread_t thread;
    int is_started;
};

/* Faults in all pages with one call, not one exception each. */
int crn_touch_populate(void *start, size_t bytes)
{
    uintptr_t first = (uintptr_t)start / PAGE * PAGE;

    return madvise((void *)first, (uintptr_t)start + bytes - first, MADV_POPULATE_WRITE);
}

static void *touch_main(void *arg)
{
    struct touch_part *p = arg;
    size_t i;

    if (crn_touch_populate(p->start, p->bytes) == 0)
        return NULL;
    for (i = 0; i < p->bytes; i += PAGE)
        ((volatile unsigned char *)p->start)[i] = 0;
    return NULL;
}

void crn_touch(void *start, size_t bytes, int threads)
{
    struct touch_part part[THREADS] = {0};
    struct crn_errinfo ei = {0};
    int n = threads < 1 ? 1 : threads > THREADS ? THREADS : threads;
    size_t step = (bytes / (size_t)n + PAGE) / PAGE * PAGE;
    int i;

    for (i = 0; i < n && (size_t)i * step < bytes; i++) {
        size_t left = bytes - (size_t)i * step;

        part[i].start = (unsigned char *)start + (size_t)i * step;
        part[i].bytes = left < step ? left : step;
        if (i > 0)
            part[i].is_started = crn_thread_start(&part[i].thread, "cairn-touch", touch_main,
                                                  &part[i], &ei) == CAIRN_OK;
        if (i > 0 && !part[i].is_started)
            (void)touch_main(&part[i]);
    }
    (void)touch_main(&part[0]);
    for (i = 1; i < n; i++)
        if (part[i].is_started)
            (void)pthread_join(part[i].thread, NULL);
}
