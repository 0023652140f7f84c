/* SPDX-License-Identifier: BSD-3-Clause */
/* A region of more than 4 GiB is saved and restored whole. Needs about 9 GiB of memory and 4 GiB
 * of disk; skipped (77) without them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "require.h"

#define WORDS (((uint64_t)4 << 30) / 8 + 1000003) /* a little more than 4 GiB */

static uint64_t room(const char *path)
{
    struct statvfs sv;

    return statvfs(path, &sv) == 0 ? (uint64_t)sv.f_bavail * sv.f_frsize : 0;
}

static int there_and_back(const char *dir, const char *memory)
{
    char persistent[300], shm[300], arena[300];
    const char *settings[] = {persistent, shm, arena, "log_level=warn", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    uint64_t *a = malloc(WORDS * sizeof(*a));
    cairn_session *s;
    uint64_t i;
    int64_t v;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", memory);
    (void)snprintf(arena, sizeof(arena), "arena_bytes=%llu",
                   (unsigned long long)(WORDS * sizeof(*a) + (1 << 20)));
    REQUIRE(a != NULL);
    for (i = 0; i < WORDS; i++)
        a[i] = i * 0x9e3779b97f4a7c15U;
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_U64, WORDS) == CAIRN_OK);
    REQUIRE(cairn_checkpoint(s, "large", 1, NULL) == CAIRN_OK);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    memset(a, 0, WORDS * sizeof(*a));
    settings[2] = "arena_bytes=1M"; /* read straight from the file */
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_U64, WORDS) == CAIRN_OK);
    REQUIRE(cairn_restart(s, "large", NULL, &v) == CAIRN_OK && v == 1);
    for (i = 0; i < WORDS; i++)
        REQUIRE(a[i] == i * 0x9e3779b97f4a7c15U);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    free(a);
    return 0;
}

int main(void)
{
    const char *place = getenv("CAIRN_TEST_MEMORY"); /* emptied by tests/support/deadline.c */
    const char *memory = place != NULL ? place : "/dev/shm";
    char dir[] = "/tmp/cairn-large-XXXXXX";
    char cmd[128];
    int status = 77;

    if (mkdtemp(dir) == NULL)
        return 1;
    if (room(memory) > (uint64_t)10 << 30 && room(dir) > (uint64_t)6 << 30 &&
        (uint64_t)sysconf(_SC_AVPHYS_PAGES) * 4096 > (uint64_t)10 << 30)
        status = there_and_back(dir, memory);
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    return system(cmd) == 0 ? status : 1;
}
