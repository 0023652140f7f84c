/* SPDX-License-Identifier: BSD-3-Clause */
/* A real file system that is full: the flush pauses and logs it, older versions stay, and it
 * continues when there is space; or it fails, if configured so. A full local disk stops nothing.
 * The space of removed versions is reused. Runs in a mount namespace of its own; skipped (77) if
 * that is not permitted. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "require.h"

enum { DATA = 4 << 20 };

static unsigned char a[DATA];

static int fill_disk(const char *path)
{
    static char zeros[1 << 16];
    int fd = open(path, O_WRONLY | O_CREAT, 0600);

    if (fd < 0)
        return -1;
    while (write(fd, zeros, sizeof(zeros)) > 0)
        ;
    return close(fd);
}

/* Does the journal of the name have a record of this kind and version, with these words in its
 * text? */
static int is_recorded(const char *disk, const char *record, const char *words)
{
    char path[300], line[2000];
    int found = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/p/full/.journal", disk);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        found |= strstr(line, record) != NULL && strstr(line, words) != NULL;
    if (f != NULL)
        (void)fclose(f);
    return found;
}

static int pauses_and_goes_on(const char *disk, const char *shm)
{
    char persistent[300], shm_dir[300], filler[300];
    const char *settings[] = {
        persistent,       shm_dir, "log_level=error", "free_reserve_bytes=64K", "blocks=2",
        "block_bytes=1M", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int64_t v;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", disk);
    (void)snprintf(shm_dir, sizeof(shm_dir), "shm_dir=%s", shm);
    (void)snprintf(filler, sizeof(filler), "%s/filler", disk);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, DATA) == CAIRN_OK);
    memset(a, 1, DATA);
    REQUIRE(cairn_checkpoint(s, "full", 1, NULL) == CAIRN_OK);
    REQUIRE(cairn_wait(s, "full", 1, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
    REQUIRE(fill_disk(filler) == 0);
    memset(a, 2, DATA);
    REQUIRE(cairn_checkpoint(s, "full", 2, NULL) == CAIRN_OK); /* the application continues */
    do
        REQUIRE(cairn_wait(s, "full", 2, CAIRN_PERSISTENT, 100) == CAIRN_ETIMEDOUT);
    while (strstr(cairn_last_error(), "pauses") == NULL);
    REQUIRE(strstr(cairn_last_error(), disk) != NULL);
    REQUIRE(strstr(cairn_last_error(), "a reserve of 64.0 KiB (free_reserve_bytes)") != NULL);
    REQUIRE(strstr(cairn_last_error(), "fails after 1h (space_wait)") != NULL);
    REQUIRE(unlink(filler) == 0);
    REQUIRE(cairn_wait(s, "full", 2, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
    memset(a, 0, DATA);
    REQUIRE(cairn_restart(s, "full", NULL, &v) == CAIRN_OK);
    REQUIRE(v == 2 && a[0] == 2 && a[DATA - 1] == 2);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    REQUIRE(is_recorded(disk, " paused 2 ", "free_reserve_bytes"));
    return 0;
}

/* With space_wait=0; the local directory is on the full disk, too. */
static int fails_at_once(const char *disk, const char *shm)
{
    char persistent[300], shm_dir[300], local[300], filler[300];
    const char *settings[] = {persistent,
                              shm_dir,
                              local,
                              "log_level=error",
                              "space_wait=0",
                              "blocks=2",
                              "block_bytes=1M",
                              "free_reserve_bytes=64K",
                              "on_failure=continue",
                              "fresh=on",
                              NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int64_t v;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", disk);
    (void)snprintf(shm_dir, sizeof(shm_dir), "shm_dir=%s", shm);
    (void)snprintf(local, sizeof(local), "local=%s/l", disk);
    (void)snprintf(filler, sizeof(filler), "%s/filler", disk);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(fill_disk(filler) == 0);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, DATA) == CAIRN_OK);
    memset(a, 3, DATA);
    REQUIRE(cairn_checkpoint(s, "full", 3, NULL) == CAIRN_OK);
    REQUIRE(cairn_wait(s, "full", 3, CAIRN_PERSISTENT, 60000) == CAIRN_ENOSPC);
    REQUIRE(strstr(cairn_last_error(), disk) != NULL);
    REQUIRE(cairn_restart(s, "full", NULL, &v) == CAIRN_OK);
    REQUIRE(v == 2 && a[0] == 2 && a[DATA - 1] == 2);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    REQUIRE(is_recorded(disk, " failed 3 ", "waited 0 (space_wait)"));

    /* Space for persistent files only. */
    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", shm);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, DATA) == CAIRN_OK);
    REQUIRE(cairn_checkpoint(s, "full", 4, NULL) == CAIRN_OK);
    REQUIRE(cairn_wait(s, "full", 4, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    return unlink(filler);
}

/* A version has 10 MiB; two of them need 8 MiB of the disk, and other files take all but one MiB
 * of the rest. */
static int finds_room_in_old_files(const char *disk, const char *shm)
{
    char persistent[300], shm_dir[300], spare[300], filler[300];
    const char *settings[] = {persistent,       shm_dir,       "log_level=error",
                              "space_wait=0",   "blocks=2",    "free_reserve_bytes=64K",
                              "block_bytes=1M", "keep_last=1", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    struct stat st;
    int64_t v;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", disk);
    (void)snprintf(shm_dir, sizeof(shm_dir), "shm_dir=%s", shm);
    (void)snprintf(spare, sizeof(spare), "%s/p/again/.spare-0000", disk);
    (void)snprintf(filler, sizeof(filler), "%s/filler", disk);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, DATA) == CAIRN_OK);
    for (v = 1; v <= 5; v++) {
        memset(a, (int)v, DATA);
        REQUIRE(cairn_checkpoint(s, "again", v, NULL) == CAIRN_OK);
        REQUIRE(cairn_wait(s, "again", v, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
        while (v > 1 && access(spare, F_OK) != 0) /* it goes after it was told */
            (void)usleep(1000);
        if (v == 2) {
            REQUIRE(fill_disk(filler) == 0 && stat(filler, &st) == 0);
            REQUIRE(truncate(filler, st.st_size - (1 << 20)) == 0);
        }
    }
    memset(a, 0, DATA);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, DATA) == CAIRN_OK);
    REQUIRE(cairn_restart(s, "again", NULL, &v) == CAIRN_OK);
    REQUIRE(v == 5 && a[0] == 5 && a[DATA - 1] == 5);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    return unlink(filler);
}

int main(void)
{
    char base[] = "/tmp/cairn-space-XXXXXX";
    char disk[64], shm[64], cmd[256];
    int status;

    if (mkdtemp(base) == NULL)
        return 1;
    (void)snprintf(disk, sizeof(disk), "%s/disk", base);
    (void)snprintf(shm, sizeof(shm), "%s/shm", base);
    (void)snprintf(cmd, sizeof(cmd), "mkdir '%s' '%s'", disk, shm);
    if (system(cmd) != 0)
        return 1;
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", disk, "tmpfs", 0, "size=10m") < 0) {
        (void)fprintf(stderr, "skipped: no mounts here: %s\n", strerror(errno));
        status = 77;
    } else {
        status = pauses_and_goes_on(disk, shm);
        if (status == 0)
            status = fails_at_once(disk, shm);
        (void)umount2(disk, MNT_DETACH);
        if (status == 0)
            status = mount("none", disk, "tmpfs", 0, "size=10m") == 0
                         ? finds_room_in_old_files(disk, shm)
                         : 1;
        (void)umount2(disk, MNT_DETACH);
    }
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", base);
    return system(cmd) == 0 ? status : 1;
}
