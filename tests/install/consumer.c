/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes a checkpoint and restarts from it, with only the installed headers and library. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, cairn_last_error());
    return 1;
}

int main(void)
{
    const char *const settings[] = {"persistent=checkpoints", "arena_bytes=1M", NULL};
    struct cairn_options options = {sizeof(options), NULL, settings};
    double t[100] = {0};
    int64_t version = -1;
    cairn_session *s;

    if (strcmp(cairn_version_string(), CAIRN_VERSION) != 0)
        return fail("header and library differ");
    if (cairn_open(&options, &s) != CAIRN_OK)
        return fail("open");
    if (cairn_protect(s, "t", t, CAIRN_F64, 100) != CAIRN_OK)
        return fail("protect");
    t[99] = 42;
    if (cairn_checkpoint(s, "consumer", 7, NULL) != CAIRN_OK ||
        cairn_wait(s, "consumer", 7, CAIRN_PERSISTENT, 30000) != CAIRN_OK)
        return fail("checkpoint");
    t[99] = 0;
    if (cairn_restart(s, "consumer", NULL, &version) != CAIRN_OK || version != 7 || t[99] != 42)
        return fail("restart");
    return cairn_close(s) != CAIRN_OK ? fail("close") : 0;
}
