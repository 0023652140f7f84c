/* SPDX-License-Identifier: BSD-3-Clause */
#include "restart/mate.h"

#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#define RUNS 64 /* of one call */

void crn_mate_open(struct crn_mate_gate *gate, const void *memory, struct crn_mate *ret)
{
    /* Process ids are those of a namespace, and are reused: the word proves which process it is. */
    memset(ret, 0, sizeof(*ret));
    if (getrandom(gate->word, sizeof(gate->word), 0) != (ssize_t)sizeof(gate->word)) {
        memset(gate->word, 0, sizeof(gate->word));
        return; /* pid 0: unreachable */
    }
    ret->pid = getpid();
    ret->gate = (uint64_t)(uintptr_t)gate;
    memcpy(ret->word, gate->word, sizeof(ret->word));
    ret->memory = (uint64_t)(uintptr_t)memory;
}

void crn_mate_shut(struct crn_mate_gate *gate)
{
    volatile unsigned char *word = gate->word;
    size_t i;

    for (i = 0; i < sizeof(gate->word); i++)
        word[i] = 0;
}

int crn_mate_is_reachable(const struct crn_mate *m)
{
    unsigned char word[CRN_MATE_WORD];
    struct iovec here = {word, sizeof(word)};
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process */
    struct iovec there = {(void *)(uintptr_t)m->gate, sizeof(word)};

    return m->pid > 0 &&
           process_vm_readv((pid_t)m->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof(word) &&
           memcmp(word, m->word, sizeof(word)) == 0;
}

static int write_runs(const struct crn_mate *m, struct iovec *here, struct iovec *there,
                      unsigned long n)
{
    size_t bytes = 0;
    unsigned long i;

    for (i = 0; i < n; i++)
        bytes += here[i].iov_len;
    return n == 0 || process_vm_writev((pid_t)m->pid, here, n, there, n, 0) == (ssize_t)bytes;
}

int crn_mate_write(const struct crn_mate *m, const struct crn_slice *p, uint64_t begin,
                   uint64_t end, const void *data)
{
    struct crn_slice_at at = crn_slice_seek(p, begin, end);
    struct iovec here[RUNS], there[RUNS];
    struct crn_slice_run run;
    unsigned long n = 0;

    if (!crn_mate_is_reachable(m))
        return 0;
    while (crn_slice_next(&at, &run)) {
        here[n].iov_base = (char *)(uintptr_t)data + (run.from - begin);
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process */
        there[n].iov_base = (void *)(uintptr_t)(m->memory + run.to);
        here[n].iov_len = there[n].iov_len = (size_t)run.bytes;
        if (++n < RUNS)
            continue;
        if (!write_runs(m, here, there, n))
            return 0;
        n = 0;
    }
    return write_runs(m, here, there, n);
}
