/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel clears pages in the thread that touches them first, so several threads are several
 * times as fast. A thread that cannot be started costs speed only. Pages that are filled whole by
 * userfaultfd are not cleared at all. */
#include "base/touch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"

#define PAGE    4096U
#define THREADS 16
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1 /* Linux 5.11 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct part {
    unsigned char *start;
    size_t bytes;
    pthread_t thread;
    int is_started;
};

/* All pages at once, without an exception for each. */
int crn_populate(void *start, size_t bytes)
{
    uintptr_t first = (uintptr_t)start / PAGE * PAGE;

    return madvise((void *)first, (uintptr_t)start + bytes - first, MADV_POPULATE_WRITE);
}

/* Who is to handle the faults of a range may put whole pages there. */
static int handle_faults(void *start, size_t bytes)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {.start = (uintptr_t)start, .len = bytes},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

size_t crn_fill(void *start, const void *from, size_t bytes)
{
    unsigned char is_there = 1;
    size_t at = 0;
    int fd;

    if (bytes == 0 || mincore(start, PAGE, &is_there) != 0 || (is_there & 1) != 0)
        return 0;
    fd = handle_faults(start, bytes);
    while (fd >= 0 && at < bytes) {
        struct uffdio_copy c = {
            .dst = (uintptr_t)start + at, .src = (uintptr_t)from + at, .len = bytes - at};

        (void)ioctl(fd, UFFDIO_COPY, &c); /* what it did it tells in c.copy */
        if (c.copy <= 0)
            break;
        at += (size_t)c.copy;
    }
    if (fd >= 0)
        (void)close(fd);
    return at;
}

static void *touch(void *arg)
{
    struct part *p = arg;
    size_t i;

    if (crn_populate(p->start, p->bytes) == 0)
        return NULL;
    for (i = 0; i < p->bytes; i += PAGE)
        ((volatile unsigned char *)p->start)[i] = 0;
    return NULL;
}

void crn_touch(void *start, size_t bytes, int threads)
{
    struct part part[THREADS] = {0};
    struct crn_errinfo ei = {0};
    int n = threads < 1 ? 1 : threads > THREADS ? THREADS : threads;
    size_t step = (bytes / (size_t)n + PAGE) / PAGE * PAGE;
    int i;

    for (i = 0; i < n && (size_t)i * step < bytes; i++) {
        size_t left = bytes - (size_t)i * step;

        part[i].start = (unsigned char *)start + (size_t)i * step;
        part[i].bytes = left < step ? left : step;
        if (i > 0)
            part[i].is_started =
                crn_thread_start(&part[i].thread, "cairn-touch", touch, &part[i], &ei) == CAIRN_OK;
        if (i > 0 && !part[i].is_started)
            (void)touch(&part[i]);
    }
    (void)touch(&part[0]);
    for (i = 1; i < n; i++)
        if (part[i].is_started)
            (void)pthread_join(part[i].thread, NULL);
}
