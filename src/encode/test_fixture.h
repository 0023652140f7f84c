/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the tests of codecs, chunks and streams. */
#ifndef CRN_TEST_FIXTURE_H
#define CRN_TEST_FIXTURE_H

#include "base/test.h"
#include "encode/test_data.h"
#include "encode/work.h"

/* Scratch memory, and random numbers seeded per file. */
struct fixture_fixture {
    struct crn_encode_work *work;
    struct crn_rng rng;
    struct crn_errinfo info;
};

static inline int test_setup(void **state, uint64_t seed)
{
    struct fixture_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    assert_int_equal(crn_work_new(&f->work, &f->info), CAIRN_OK);
    crn_rng_seed(&f->rng, seed);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture_fixture *f = *state;

    crn_work_free(f->work);
    free(f);
    return 0;
}

#endif
