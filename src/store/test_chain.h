/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a store of versions encoded against older ones, compared byte by byte. */
#ifndef CRN_STORE_TEST_CHAIN_H
#define CRN_STORE_TEST_CHAIN_H

#include <fcntl.h>
#include <unistd.h>

#include "store/data.h"
#include "store/test_store.h"

enum { RANKS = 4, FILES = 2 };

/* Takes number i as a version; older: the number it is encoded against, -1: none. */
void take(struct store_env *e, int i, int64_t version, int older);

/* Compares the whole contents of a data file of number i with what was written. */
cairn_err compare_file(struct store_env *e, int i, const char *file);

void expect_whole(struct store_env *e, int i);

#endif
