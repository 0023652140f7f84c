/* SPDX-License-Identifier: BSD-3-Clause */
/* A turn for a caller that only waits until its turn comes, and is then busy with the transfer.
 * A separate thread owns the broker's client and keeps the lease alive. */
#ifndef CRN_BROKER_KEPT_H
#define CRN_BROKER_KEPT_H

#include "broker/client.h"

struct crn_kept_turn;

struct crn_kept_options {
    const struct crn_config *cfg;
    const char *job; /* shown to people */
    uint32_t nodes;
    enum crn_io_kind kind;
    uint64_t bytes;
    const struct crn_log *log;
    /* Called periodically while waiting; true: the turn is no longer wanted. NULL: never. */
    int (*is_over)(void);
};

/* Returns when the transfer may begin. A missing broker is not an error: without one, or after
 * broker_max_wait, the transfer begins, and *ret may be NULL. Returns CAIRN_ECANCELED only if
 * is_over says so, or a person canceled the transfer. */
CAIRN_CHECKED cairn_err crn_kept_turn_begin(const struct crn_kept_options *options,
                                            struct crn_kept_turn **ret, struct crn_errinfo *ei);
void crn_kept_turn_end(struct crn_kept_turn *t); /* NULL is fine */

#endif
