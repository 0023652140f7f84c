/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a store in a scratch directory, and assertions about its contents. */
#ifndef CRN_STORE_TEST_STORE_H
#define CRN_STORE_TEST_STORE_H

#include <unistd.h>

#include "base/test.h"
#include "store/test_version.h"

enum { LONG = 40 };

struct store_env {
    char dir[256];
    struct crn_store st;
    struct crn_errinfo info;
    struct tv t[LONG]; /* the versions written */
};

int setup(void **state);

int teardown(void **state);

int has(const struct store_env *e, const char *rel);

/* States of all versions as text: "1:ok 2:damaged". */
void expect(struct store_env *e, const char *states);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
