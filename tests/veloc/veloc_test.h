/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs against VELOC's header: its configuration file, with scratch and persistent. */
#ifndef VELOC_TEST_H
#define VELOC_TEST_H

#include "veloc.h"

#include "compat_test.h"

#define OK(call)    REQUIRE((call) == VELOC_SUCCESS)
#define FAILS(call) REQUIRE((call) == VELOC_FAILURE)

static char conf[96]; /* the configuration file, in dir */

/* Writes the configuration file, on rank 0, with more lines behind the directories. */
static inline void configure(const char *lines)
{
    FILE *f;

    (void)snprintf(conf, sizeof(conf), "%s/veloc.cfg", dir);
    barrier();
    if (rank == 0) {
        f = fopen(conf, "w");
        REQUIRE(f != NULL);
        (void)fprintf(f, "scratch = %s/s\npersistent = %s/p\n%s\n", dir, dir, lines);
        REQUIRE(fclose(f) == 0);
    }
    barrier();
}

#endif
