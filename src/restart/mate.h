/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of another process of this host, written by the kernel (process_vm_writev): one copy, and
 * the owner has nothing to do. Where the kernel refuses it (Yama, seccomp, other namespaces), data
 * travels in messages. */
#ifndef CRN_RESTART_MATE_H
#define CRN_RESTART_MATE_H

#include <stdint.h>
#include "restart/slice.h"

#define CRN_MATE_WORD 16

/* In the owner's memory. A writer looks at the word before each write and stops if it has changed. */
struct crn_mate_gate {
    unsigned char word[CRN_MATE_WORD];
};

/* What the owner tells the writers. */
struct crn_mate {
    int64_t pid;
    uint64_t gate; /* address of its struct crn_mate_gate */
    unsigned char word[CRN_MATE_WORD];
    uint64_t memory; /* address from which the offsets of its slices count */
};

/* Opens a gate of this process. */
void crn_mate_open(struct crn_mate_gate *gate, const void *memory, struct crn_mate *ret);
/* From now on no write begins. A stopped process may still end one that it had begun: a
 * caller that cannot wait for the writers must not use the memory again. */
void crn_mate_shut(struct crn_mate_gate *gate);

/* Can this process write there? Also tells whether it is that very process. */
int crn_mate_is_reachable(const struct crn_mate *m);
/* Writes the runs of the slice in [begin, end) to their places; data starts with the byte at begin.
 * 0: the kernel refused, or the gate is shut; some runs may be written. */
int crn_mate_write(const struct crn_mate *m, const struct crn_slice *p, uint64_t begin,
                   uint64_t end, const void *data);

#endif
