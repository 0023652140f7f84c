/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain files: one for each rank, with fsync, as a program without a library writes them. */
#include <fcntl.h>
#include <unistd.h>

#include "dropin.h"

static char path[500], folder[500];
static unsigned char *data;
static size_t size;
static int fd = -1;

static void dropin_open(const char *dir, unsigned char *memory, size_t bytes)
{
    (void)snprintf(folder, sizeof(folder), "%s", dir);
    (void)snprintf(path, sizeof(path), "%s/rank.%d", dir, dropin_rank);
    data = memory;
    size = bytes;
}

static void dropin_take(void)
{
    size_t at = 0;
    ssize_t n;

    if (fd >= 0)
        (void)close(fd);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dropin_need(fd >= 0, "open");
    for (; at < size; at += (size_t)n) {
        n = write(fd, data + at, size - at);
        dropin_need(n > 0, "write");
    }
}

static void dropin_settle(void)
{
}

static void dropin_persistent(void)
{
    int dfd = open(folder, O_RDONLY | O_DIRECTORY);

    dropin_need(fsync(fd) == 0 && close(fd) == 0, "fsync");
    dropin_need(dfd >= 0 && fsync(dfd) == 0 && close(dfd) == 0, "fsync of the directory");
}

static void dropin_restart(void)
{
    FILE *f = fopen(path, "rb");

    dropin_need(f != NULL && fread(data, 1, size, f) == size && fclose(f) == 0, "read");
}

static void dropin_close(void)
{
}
