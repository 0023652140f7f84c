/* SPDX-License-Identifier: BSD-3-Clause */
/* SCR with the parameters of the environment: by default the program writes in the prefix. */
#include <scr.h>

#include "dropin.h"

static char folder[500];
static unsigned char *data;
static size_t size;

static void dropin_open(const char *dir, unsigned char *memory, size_t bytes)
{
    (void)snprintf(folder, sizeof(folder), "%s", dir);
    (void)SCR_Configf("SCR_PREFIX=%s", dir);
    data = memory;
    size = bytes;
    dropin_need(SCR_Init() == SCR_SUCCESS, "SCR_Init");
}

static FILE *routed(const char *mode)
{
    char name[600], path[SCR_MAX_FILENAME];

    (void)snprintf(name, sizeof(name), "%s/bench/rank.%d", folder, dropin_rank);
    dropin_need(SCR_Route_file(name, path) == SCR_SUCCESS, "SCR_Route_file");
    return fopen(path, mode);
}

static void dropin_take(void)
{
    FILE *f;

    dropin_need(SCR_Start_output("bench", SCR_FLAG_CHECKPOINT | SCR_FLAG_OUTPUT) == SCR_SUCCESS,
                "SCR_Start_output");
    f = routed("wb");
    dropin_need(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0, "write");
    dropin_need(SCR_Complete_output(1) == SCR_SUCCESS, "SCR_Complete_output");
}

static void dropin_settle(void)
{
}

static void dropin_persistent(void)
{
    dropin_need(SCR_Finalize() == SCR_SUCCESS, "SCR_Finalize");
}

static void dropin_restart(void)
{
    FILE *f;

    dropin_need(SCR_Start_restart(NULL) == SCR_SUCCESS, "SCR_Start_restart");
    f = routed("rb");
    dropin_need(f != NULL && fread(data, 1, size, f) == size && fclose(f) == 0, "read");
    dropin_need(SCR_Complete_restart(1) == SCR_SUCCESS && SCR_Finalize() == SCR_SUCCESS,
                "SCR_Complete_restart");
}

static void dropin_close(void)
{
}
