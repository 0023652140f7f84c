/* SPDX-License-Identifier: BSD-3-Clause */
/* How the writers of an engine get bytes into files: through pwrite or io_uring, past the page cache or
 * not, with room allocated beforehand or not. What the system refuses is said once and done without. */
#ifndef CRN_AGGREGATE_OUTLET_H
#define CRN_AGGREGATE_OUTLET_H

#include <stdatomic.h>

#include "base/config.h"
#include "base/fs.h"
#include "base/gate.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/thread.h"

#define CRN_MAX_WRITERS 64

struct crn_outlet_options {
    enum crn_io io;
    enum crn_preallocate preallocate;
    uint64_t stripe_count,
        stripe_bytes;          /* of new files, where there are stripes; 0: as they come */
    const struct crn_log *log; /* what was refused; may be NULL */
    struct crn_gate *gate;     /* every write passes it; may be NULL */
};

struct crn_outlet {
    struct crn_outlet_options opt;
    struct crn_mutex mu;
    struct crn_ring *ring[CRN_MAX_WRITERS]; /* lock: the first nfree are free */
    int nrings, nfree;
    atomic_int is_told; /* that there is no O_DIRECT */
    atomic_int is_told_stripes;
};

/* A ring for each writer where that was asked for and the kernel has it. */
CAIRN_CHECKED cairn_err crn_outlet_open(struct crn_outlet *o, const struct crn_outlet_options *opt,
                                        int writers, struct crn_errinfo *ei);
void crn_outlet_close(struct crn_outlet *o);
/* A ring for the piece in hand, to be given back; NULL: pwrite. */
struct crn_ring *crn_outlet_get(struct crn_outlet *o);
void crn_outlet_put(struct crn_outlet *o, struct crn_ring *r);
/* Whether a file shall be written past the page cache, where its blocks are there already or not; whether what is not
 * shall be written behind. */
int crn_outlet_is_direct(const struct crn_outlet *o, const struct crn_fs_type *type,
                         int has_blocks);
int crn_outlet_is_behind(const struct crn_outlet *o, const struct crn_fs_type *type);
/* Says, once, that files are not striped, and why. */
void crn_outlet_no_stripes(struct crn_outlet *o, const char *why);
/* Says, once, that files go through the page cache, and why. */
void crn_outlet_no_direct(struct crn_outlet *o, const char *why);

#endif
