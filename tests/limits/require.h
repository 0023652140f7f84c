/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs whose main is the test: a false condition ends the program, with the last error
 * of the library. */
#ifndef CRN_TEST_REQUIRE_H
#define CRN_TEST_REQUIRE_H

#include <errno.h>
#include <stdio.h>
#include "cairn/cairn.h"

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "line %d: %s is false; errno %d; last error: %s\n", __LINE__,    \
                          #cond, errno, cairn_last_error());                                       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

#endif
