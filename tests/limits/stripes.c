/* SPDX-License-Identifier: BSD-3-Clause */
/* A session on a file system that claims to be Lustre: the keys reach the fake liblustreapi
 * (LD_LIBRARY_PATH), once for each version, and nothing else changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "require.h"

static unsigned char a[300000];

/* Intercepts libcairn's calls. */
__attribute__((visibility("default"))) int fstatfs(int fd, struct statfs *sf)
{
    (void)fd;
    memset(sf, 0, sizeof(*sf));
    sf->f_type = 0x0BD00BD0;
    return 0;
}

static int stripes(const char *base)
{
    char persistent[300], shm_dir[300], run_dir[300], layout[300], text[64] = "";
    const char *settings[] = {persistent,       shm_dir,          run_dir,
                              "stripe_count=3", "block_bytes=2M", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int64_t v;
    FILE *f;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", base);
    (void)snprintf(shm_dir, sizeof(shm_dir), "shm_dir=%s", base);
    (void)snprintf(run_dir, sizeof(run_dir), "run_dir=%s/run", base);
    (void)snprintf(layout, sizeof(layout), "%s/p/striped/layout", base);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, sizeof(a)) == CAIRN_OK);
    memset(a, 7, sizeof(a));
    REQUIRE(cairn_checkpoint(s, "striped", 1, NULL) == CAIRN_OK);
    REQUIRE(cairn_wait(s, "striped", 1, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
    memset(a, 0, sizeof(a));
    REQUIRE(cairn_restart(s, "striped", NULL, &v) == CAIRN_OK);
    REQUIRE(v == 1 && a[0] == 7 && a[sizeof(a) - 1] == 7);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    f = fopen(layout, "r");
    REQUIRE(f != NULL && fgets(text, sizeof(text), f) != NULL);
    (void)fclose(f);
    REQUIRE(strcmp(text, "2097152 -1 3 0\n") == 0);
    return 0;
}

int main(void)
{
    char base[] = "/tmp/cairn-stripes-XXXXXX";
    char cmd[64];
    int status;

    if (mkdtemp(base) == NULL)
        return 1;
    status = stripes(base);
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", base);
    return system(cmd) == 0 ? status : 1;
}
