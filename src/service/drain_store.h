/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CRN_SERVICE_DRAIN_STORE_H
#define CRN_SERVICE_DRAIN_STORE_H

#include "service/drain.h"
#include "store/store.h"

/* Publishes the captures of a name whose data files are all in the store: their run died before the
 * manifest. Verifies every byte. Skips a name that a living run writes. held_fd: the writer's lock
 * of the name if the caller has it, or -1. */
CAIRN_CHECKED cairn_err crn_drain_store_name(const struct crn_store *st, const char *name,
                                             int held_fd, crn_drain_fn fn, void *arg,
                                             struct crn_errinfo *ei);
/* The same for all names of a store. Keeps the first failure in first, and continues. */
void crn_drain_store(const struct crn_fs *fs, const char *path, crn_drain_fn fn, void *arg,
                     struct crn_errinfo *first);

#endif
