/* SPDX-License-Identifier: BSD-3-Clause */
/* How the writers of an engine write files: through the page cache, with writeback started at
 * once, or with O_DIRECT; striped or not. A method that the file system
 * refuses is logged once and replaced by a plain buffered write. */
#ifndef CRN_AGGREGATE_OUTLET_H
#define CRN_AGGREGATE_OUTLET_H

#include <stdatomic.h>

#include "base/config.h"
#include "base/fs.h"
#include "base/gate.h"
#include "base/log.h"

#define CRN_MAX_WRITERS 64

struct crn_outlet_options {
    enum crn_io io;
    uint64_t stripe_count, stripe_bytes; /* of new files, on striped file systems; 0: the default */
    const struct crn_log *log;           /* for refused methods; may be NULL */
    struct crn_gate *gate;               /* every write passes it; may be NULL */
};

struct crn_outlet {
    struct crn_outlet_options opt;
    atomic_int is_told; /* the lack of O_DIRECT has been logged */
    atomic_int is_told_stripes;
};

void crn_outlet_init(struct crn_outlet *o, const struct crn_outlet_options *opt);
/* Open the file with O_DIRECT too? has_blocks: its blocks are allocated already. */
int crn_outlet_is_direct(const struct crn_outlet *o, const struct crn_fs_type *type,
                         int has_blocks);
/* Start writeback after each buffered write? */
int crn_outlet_is_behind(const struct crn_outlet *o, const struct crn_fs_type *type);
/* Logs once that files are not striped, and why. */
void crn_outlet_no_stripes(struct crn_outlet *o, const char *why);
/* Logs once that files go through the page cache, and why. */
void crn_outlet_no_direct(struct crn_outlet *o, const char *why);

#endif
