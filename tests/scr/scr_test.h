/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs against SCR's header: files whose bytes tell who wrote them. */
#ifndef SCR_TEST_H
#define SCR_TEST_H

#include "scr.h"

#include "../veloc/compat_test.h"

#define OK(call)    REQUIRE((call) == SCR_SUCCESS)
#define FAILS(call) REQUIRE((call) != SCR_SUCCESS)

#define BYTES       (((size_t)1 << 20) + 77)

/* Name of a file as the program has it: "step/<version>/<what>.<who>" inside of the prefix. */
static inline const char *file_name(int version, const char *what, int who)
{
    static char name[200];

    (void)snprintf(name, sizeof(name), "%s/prefix/step/%d/%s.%d", dir, version, what, who);
    return name;
}

static inline void write_file(const char *path, int version, int who, int id)
{
    unsigned char *data = (unsigned char *)malloc(BYTES);
    FILE *f = fopen(path, "wb");

    REQUIRE(data != NULL && f != NULL);
    fill(data, BYTES, version, who, id);
    REQUIRE(fwrite(data, 1, BYTES, f) == BYTES && fclose(f) == 0);
    free(data);
}

static inline int file_holds(const char *path, int version, int who, int id)
{
    unsigned char *data = (unsigned char *)malloc(BYTES + 1);
    FILE *f = fopen(path, "rb");
    int yes;

    REQUIRE(data != NULL);
    yes =
        f != NULL && fread(data, 1, BYTES + 1, f) == BYTES && holds(data, BYTES, version, who, id);
    if (f != NULL)
        (void)fclose(f);
    free(data);
    return yes;
}

static inline void scr_start(int *argc, char ***argv)
{
    start(argc, argv);
    if (rank == 0)
        REQUIRE(shell("mkdir %s/prefix", dir) == 0);
    barrier();
    (void)SCR_Configf("SCR_PREFIX=%s/prefix", dir);
}

#endif
