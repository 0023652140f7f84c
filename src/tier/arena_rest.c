/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares the memory in small steps, so that a caller that needs it now can take over at once
 * instead of waiting for a thread of the lowest priority. */
#include "tier/arena_rest.h"

#include <errno.h>
#include <fcntl.h>

#include "base/thread.h"
#include "base/touch.h"

#define PIECE ((uint64_t)1 << 20)
#define NICE  19

int crn_rest_reserve(int fd, uint64_t at, uint64_t bytes)
{
    int r;

    do
        r = posix_fallocate(fd, (off_t)at, (off_t)bytes);
    while (r == EINTR);
    return r;
}

static void arena_rest_make(struct crn_rest *r)
{
    while (r->done < r->bytes && r->failure == 0 && !atomic_load(&r->is_stopped)) {
        uint64_t n = r->bytes - r->done < PIECE ? r->bytes - r->done : PIECE;

        r->failure = crn_rest_reserve(r->fd, r->at + r->done, n);
        if (r->failure != 0)
            break;
        (void)crn_touch_populate(r->start + r->done, n);
        r->done += n;
    }
}

static void *arena_rest_run(void *arg)
{
    struct crn_rest *r = arg;

    crn_thread_background(NICE);
    arena_rest_make(r);
    atomic_store(&r->is_over, 1);
    return NULL;
}

void crn_rest_start(struct crn_rest *r)
{
    struct crn_errinfo ignored = {0};

    if (r->has_thread || crn_rest_is_over(r))
        return;
    r->has_thread =
        crn_thread_start(&r->thread, "cairn-touch", arena_rest_run, r, &ignored) == CAIRN_OK;
}

int crn_rest_is_over(struct crn_rest *r)
{
    return r->has_thread ? atomic_load(&r->is_over) : r->done == r->bytes || r->failure != 0;
}

void crn_rest_end(struct crn_rest *r, int is_given_up)
{
    if (r->has_thread) {
        atomic_store(&r->is_stopped, 1);
        (void)pthread_join(r->thread, NULL);
        r->has_thread = 0;
        atomic_store(&r->is_stopped, 0);
    }
    if (!is_given_up)
        arena_rest_make(r);
}
