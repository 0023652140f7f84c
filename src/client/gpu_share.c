/* SPDX-License-Identifier: BSD-3-Clause */
/* device_cache = auto. Each rank that protects memory of a GPU leaves a mark in the run's directory,
 * which the ranks of the host share. Half of the free memory, divided by the marks, is a rank's
 * share: the ranks need no message for it, and the application keeps the other half. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"

#define BUS_SIZE     32
#define SLACK        ((uint64_t)64 << 10) /* of an image, for its descriptor */
#define REGION_SLACK ((uint64_t)4 << 10)  /* for alignment */

/* "gpu-<bus>-": what the marks of a device begin with. */
static int mark_prefix(struct crn_device *dev, char *ret, size_t size)
{
    char bus[BUS_SIZE] = "";

    return dev->driver->ops->bus(dev, bus, sizeof(bus)) == 0 && bus[0] != '\0' &&
           strchr(bus, '/') == NULL && snprintf(ret, size, "gpu-%s-", bus) < (int)size;
}

void crn_gpu_mark(const cairn_session *s, struct crn_device *dev)
{
    char prefix[BUS_SIZE + 8];
    char name[BUS_SIZE + 24];
    int fd;

    if (s->cfg.device_cache != CRN_SIZE_AUTO || !mark_prefix(dev, prefix, sizeof(prefix)))
        return;
    (void)snprintf(name, sizeof(name), "%s%u", prefix, s->rank);
    fd = openat(s->dir.dfd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        (void)close(fd); /* without it the others take more than their share */
}

/* Ranks that have memory of the device, at least this one. */
static uint64_t count_marks(const cairn_session *s, struct crn_device *dev)
{
    char prefix[BUS_SIZE + 8];
    struct crn_names names = {0};
    struct crn_errinfo none = {0};
    uint64_t n = 0;
    size_t i;

    if (!mark_prefix(dev, prefix, sizeof(prefix)))
        return s->nlocal;
    if (crn_fs_names(s->fs, s->dir.dfd, s->dir.path, &names, &none) != CAIRN_OK)
        crn_err_clear(&none);
    for (i = 0; i < names.n; i++)
        n += strncmp(names.name[i], prefix, strlen(prefix)) == 0;
    crn_names_free(&names);
    return n > 0 ? n : s->nlocal;
}

/* At least as large as an image of all regions. */
static cairn_err image_bytes(const cairn_session *s, uint64_t *ret, struct crn_errinfo *ei)
{
    struct crn_shard shard;
    struct crn_place *places;
    cairn_err rc = crn_regions_select(s, NULL, 1, &shard, &places, ei);
    uint32_t i;

    if (rc != CAIRN_OK)
        return rc;
    *ret = SLACK;
    for (i = 0; i < shard.nregions; i++)
        *ret += shard.regions[i].bytes + REGION_SLACK;
    crn_shard_free(&shard);
    free(places);
    return CAIRN_OK;
}

cairn_err crn_gpu_share(const cairn_session *s, struct crn_device *dev, uint64_t *ret_bytes,
                        struct crn_errinfo *ei)
{
    uint64_t n = crn_take_images(&s->cfg);
    uint64_t left = 0;
    uint64_t image, total, sharers;
    cairn_err rc = dev->driver->ops->memory(dev, &left, &total, ei);

    if (rc == CAIRN_OK)
        rc = image_bytes(s, &image, ei);
    if (rc != CAIRN_OK)
        return rc;
    sharers = count_marks(s, dev);
    while (n > 0 && n * image > left / 2 / sharers)
        n--;
    if (n == 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0,
                        "a checkpoint needs %llu bytes of GPU %d, but half of the free memory, "
                        "divided by the ranks that use it, is %llu; free memory, or set "
                        "device_cache to a size",
                        (unsigned long long)image, dev->ordinal,
                        (unsigned long long)(left / 2 / sharers));
    *ret_bytes = n * image;
    return CAIRN_OK;
}
