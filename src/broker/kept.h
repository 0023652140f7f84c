/* SPDX-License-Identifier: BSD-3-Clause */
/* A turn on the file system for who has nothing else to do until it comes, and is busy then: a thread of
 * its own has the broker's client, which keeps the turn alive. */
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
    /* Asked now and then while it waits; true: it is no longer wanted. NULL: it is. */
    int (*is_over)(void);
};

/* Returns when the transfer may begin. Never a reason to fail: without a broker, or when the wait gets
 * longer than broker_max_wait, it begins, and *ret may be NULL. Only if is_over says so, or a person
 * has canceled it, the answer is CAIRN_ECANCELED. */
CAIRN_CHECKED cairn_err crn_kept_turn_begin(const struct crn_kept_options *options,
                                            struct crn_kept_turn **ret, struct crn_errinfo *ei);
void crn_kept_turn_end(struct crn_kept_turn *t); /* NULL is fine */

#endif
