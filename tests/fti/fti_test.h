/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs against FTI's header: its configuration file. */
#ifndef FTI_TEST_H
#define FTI_TEST_H

#include "fti.h"

#include "../veloc/compat_test.h"

#define OK(call)    REQUIRE((call) == FTI_SCES)
#define DONE(call)  REQUIRE((call) == FTI_DONE)
#define FAILS(call) REQUIRE((call) < 0)

static char conf[96];

/* Writes the configuration file, on rank 0. */
static inline void configure(const char *basic, const char *more)
{
    FILE *f;

    (void)snprintf(conf, sizeof(conf), "%s/config.fti", dir);
    barrier();
    if (rank == 0) {
        f = fopen(conf, "w");
        REQUIRE(f != NULL);
        (void)fprintf(
            f,
            "[basic]\nnode_size = 2\nckpt_dir = %s/local\nglbl_dir = %s/global\n"
            "meta_dir = %s/meta\nckpt_l1 = 1\ngroup_size = 2\n%s\n[restart]\n"
            "failure = 0\nexec_id = none\n[injection]\nrank = 0\nnumber = 1\nposition = 3\n"
            "index = 2\nfrequency = 0\n[advanced]\nlocal_test = 1\nfinal_tag = 3107\n%s\n",
            dir, dir, dir, basic, more);
        REQUIRE(fclose(f) == 0);
    }
    barrier();
}

/* What the library wrote into it. */
static inline int failure(void)
{
    char line[300];
    int value = -1;
    FILE *f;

    barrier();
    f = fopen(conf, "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL)
        (void)sscanf(line, "failure = %d", &value);
    (void)fclose(f);
    barrier();
    return value;
}

#endif
