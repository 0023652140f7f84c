/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures read device memory on Cairn's own streams, ordered after the application's. The first
 * capture or restore pins the arena, so that copies run at link speed. Memory that cannot be pinned
 * is copied anyway, more slowly. File I/O goes through a staging buffer. */
#include "client/gpu.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define STAGING ((uint64_t)8 << 20)

struct crn_gpu {
    struct crn_driver *driver;
    struct crn_device *dev[CRN_GPUS]; /* NULL: not seen yet */
    int is_given[CRN_GPUS][2];        /* lanes with unawaited copies: write, read */
    struct crn_device *pinned_by;     /* pinned the arena; NULL: not pinned */
    int has_tried_pin;
    unsigned char *staging; /* pinned where possible */
    struct crn_device *staging_by;
    void *stream[CRN_GPUS]; /* named by the application; NULL: none */
};

static int gpu_count_loads(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    *(uint64_t *)arg = info->dlpi_adds;
    return 1; /* the first object tells */
}

/* A search for the libraries of drivers takes 0.2 ms where there are none, so it is repeated only
 * after the process has loaded something. */
static int gpu_has_news(cairn_session *s)
{
    uint64_t loads = 0;

    (void)dl_iterate_phdr(gpu_count_loads, &loads);
    if (loads == s->gpu_loads)
        return 0;
    s->gpu_loads = loads;
    return 1;
}

static cairn_err open_driver(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_errinfo none = {0};
    struct crn_driver *driver;
    struct crn_gpu *g;

    if (s->gpu != NULL || !gpu_has_news(s) || crn_driver_any(1, &driver, &none) != CAIRN_OK)
        return CAIRN_OK; /* an application that uses a GPU has loaded its driver */
    g = calloc(1, sizeof(*g));
    if (g == NULL) {
        driver->ops->close(driver);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "GPU regions");
    }
    g->driver = driver;
    s->gpu = g;
    return CAIRN_OK;
}

cairn_err crn_gpu_owner(cairn_session *s, const void *ptr, struct crn_device **ret,
                        struct crn_errinfo *ei)
{
    cairn_err rc;
    int i;

    *ret = NULL;
    if (!s->cfg.gpu)
        return CAIRN_OK;
    rc = open_driver(s, ei);
    if (rc != CAIRN_OK || s->gpu == NULL)
        return rc;
    i = s->gpu->driver->ops->owner(s->gpu->driver, ptr);
    if (i < 0)
        return CAIRN_OK;
    if (i >= CRN_GPUS)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "memory of GPU %d: a session knows GPUs 0 to %d", i,
                        CRN_GPUS - 1);
    if (s->gpu->dev[i] == NULL) {
        rc = s->gpu->driver->ops->device_open(s->gpu->driver, i, &s->gpu->dev[i], ei);
        if (rc == CAIRN_OK)
            crn_gpu_mark(s, s->gpu->dev[i]);
    }
    *ret = s->gpu->dev[i];
    return rc;
}

/* Copies. -------------------------------------------------------------------------------------- */

/* Runs once, when the first capture or restore needs it; takes a tenth of a second per gigabyte. */
static void pin_arena(cairn_session *s, struct crn_device *dev)
{
    struct crn_errinfo why = {0};
    uint64_t bytes = 0;
    void *start;

    if (s->gpu->has_tried_pin || s->arena == NULL)
        return;
    s->gpu->has_tried_pin = 1;
    start = crn_arena_memory(s->arena, &bytes);
    if (dev->driver->ops->pin(dev, start, bytes, &why) == CAIRN_OK)
        s->gpu->pinned_by = dev;
    else
        crn_told_warn_once(s, "copies from the GPU are slow, continuing: %s", why.msg);
}

static cairn_err gpu_give(cairn_session *s, struct crn_device *dev, enum crn_lane lane, void *dst,
                          const void *src, uint64_t bytes, struct crn_errinfo *ei)
{
    const struct crn_driver_ops *ops = dev->driver->ops;
    int *is_given = &s->gpu->is_given[dev->ordinal][lane];
    cairn_err rc = CAIRN_OK;

    if (bytes == 0)
        return CAIRN_OK;
    pin_arena(s, dev);
    if (!*is_given)
        rc = ops->after(dev, lane, s->gpu->stream[dev->ordinal], ei);
    if (rc == CAIRN_OK) {
        *is_given = 1;
        rc = ops->copy(dev, lane, dst, src, bytes, ei);
    }
    return rc;
}

cairn_err crn_gpu_capture(cairn_session *s, const struct crn_place *from, void *to, uint64_t bytes,
                          struct crn_errinfo *ei)
{
    return gpu_give(s, from->device, CRN_LANE_WRITE, to, from->ptr, bytes, ei);
}

cairn_err crn_gpu_restore(cairn_session *s, const struct crn_place *to, const void *from,
                          uint64_t bytes, struct crn_errinfo *ei)
{
    return gpu_give(s, to->device, CRN_LANE_READ, to->ptr, from, bytes, ei);
}

cairn_err crn_gpu_wait(cairn_session *s, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int i;
    int lane;

    for (i = 0; s->gpu != NULL && i < CRN_GPUS; i++) {
        for (lane = CRN_LANE_WRITE; lane <= CRN_LANE_READ; lane++) {
            cairn_err r = CAIRN_OK;

            if (s->gpu->is_given[i][lane])
                r = s->gpu->driver->ops->wait(s->gpu->dev[i], (enum crn_lane)lane, ei);
            s->gpu->is_given[i][lane] = 0;
            rc = rc == CAIRN_OK ? r : rc;
        }
    }
    return rc;
}

cairn_err crn_gpu_order(cairn_session *s, const struct crn_place *places, uint32_t n,
                        struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        struct crn_device *dev = places[i].device;
        void *stream = dev != NULL ? s->gpu->stream[dev->ordinal] : NULL;

        if (stream == NULL || s->gpu->is_given[dev->ordinal][CRN_LANE_WRITE])
            continue;
        rc = dev->driver->ops->after(dev, CRN_LANE_WRITE, stream, ei);
        s->gpu->is_given[dev->ordinal][CRN_LANE_WRITE] = rc == CAIRN_OK;
    }
    return rc;
}

cairn_err crn_gpu_need_streams(const cairn_session *s, const struct crn_place *places, uint32_t n,
                               struct crn_errinfo *ei)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        if (places[i].device != NULL && s->gpu->stream[places[i].device->ordinal] == NULL)
            return crn_fail(ei, CAIRN_ESTATE, 0,
                            "CAIRN_STREAM_ORDERED needs the stream that computes the data on GPU "
                            "%d: name it with cairn_gpu_stream first",
                            places[i].device->ordinal);
    return CAIRN_OK;
}

cairn_err crn_gpu_release(cairn_session *s, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int i;

    for (i = 0; rc == CAIRN_OK && s->gpu != NULL && i < CRN_GPUS; i++)
        if (s->gpu->is_given[i][CRN_LANE_WRITE] && s->gpu->stream[i] != NULL)
            rc = s->gpu->driver->ops->before(s->gpu->dev[i], CRN_LANE_WRITE, s->gpu->stream[i], ei);
    return rc;
}

/* Makes one copy and waits. The lane is drained on return, even after an error. */
static cairn_err give_and_wait(cairn_session *s, struct crn_device *dev, enum crn_lane lane,
                               void *dst, const void *src, uint64_t bytes, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err rc = gpu_give(s, dev, lane, dst, src, bytes, ei);
    cairn_err waited = crn_gpu_wait(s, &late);

    crn_err_keep(ei, &late);
    return rc != CAIRN_OK ? rc : waited;
}

/* Through the staging buffer. ------------------------------------------------------------------ */

static cairn_err need_staging(cairn_session *s, struct crn_device *dev, struct crn_errinfo *ei)
{
    struct crn_gpu *g = s->gpu;
    struct crn_errinfo slower = {0};

    if (g->staging != NULL)
        return CAIRN_OK;
    g->staging = aligned_alloc(4096, STAGING);
    if (g->staging == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a staging buffer for GPU memory");
    if (dev->driver->ops->pin(dev, g->staging, STAGING, &slower) == CAIRN_OK)
        g->staging_by = dev;
    return CAIRN_OK;
}

cairn_err crn_gpu_write(cairn_session *s, const struct crn_place *from, uint64_t bytes, int fd,
                        uint64_t at, const char *file, struct crn_errinfo *ei)
{
    cairn_err rc = need_staging(s, from->device, ei);
    uint64_t done;

    for (done = 0; rc == CAIRN_OK && done < bytes; done += STAGING) {
        uint64_t n = bytes - done < STAGING ? bytes - done : STAGING;

        rc = give_and_wait(s, from->device, CRN_LANE_WRITE, s->gpu->staging,
                           (unsigned char *)from->ptr + done, n, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(s->fs, fd, s->gpu->staging, n, at + done, file, ei);
    }
    return rc;
}

cairn_err crn_gpu_read(cairn_session *s, const struct crn_place *to, struct crn_version *v,
                       uint32_t rank, uint32_t region, uint64_t bytes, struct crn_errinfo *ei)
{
    cairn_err rc = need_staging(s, to->device, ei);
    uint64_t done;

    for (done = 0; rc == CAIRN_OK && done < bytes; done += STAGING) {
        uint64_t n = bytes - done < STAGING ? bytes - done : STAGING;

        rc = crn_version_read(v, rank, region, done, n, s->gpu->staging, ei);
        if (rc == CAIRN_OK)
            rc = give_and_wait(s, to->device, CRN_LANE_READ, (unsigned char *)to->ptr + done,
                               s->gpu->staging, n, ei);
    }
    return rc;
}

cairn_err crn_gpu_read_block(cairn_session *s, const struct crn_place *to, struct crn_version *v,
                             const struct crn_region *want, struct crn_errinfo *ei)
{
    void *block = malloc(want->bytes != 0 ? want->bytes : 1);
    cairn_err rc;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "region '%s' on its way to a GPU", want->name);
    rc = crn_version_read_block(v, want, block, ei);
    if (rc == CAIRN_OK)
        rc = give_and_wait(s, to->device, CRN_LANE_READ, to->ptr, block, want->bytes, ei);
    free(block);
    return rc;
}

struct crn_device *crn_gpu_main(const cairn_session *s)
{
    uint64_t bytes[CRN_GPUS] = {0};
    uint64_t host = 0;
    int most = 0;
    uint32_t i;

    for (i = 0; i < s->nregions; i++) {
        const struct crn_device *dev = s->regions[i].place.device;

        if (dev == NULL)
            host += s->regions[i].region.bytes;
        else if ((bytes[dev->ordinal] += s->regions[i].region.bytes) > bytes[most])
            most = dev->ordinal;
    }
    return bytes[most] > host ? s->gpu->dev[most] : NULL;
}

int crn_gpu_claim_pin(cairn_session *s)
{
    if (s->gpu == NULL || s->gpu->has_tried_pin)
        return 0;
    s->gpu->has_tried_pin = 1;
    return 1;
}

void *const *crn_gpu_streams(const cairn_session *s)
{
    return s->gpu != NULL ? s->gpu->stream : NULL;
}

cairn_err crn_gpu_check(cairn_session *s, struct crn_errinfo *ei)
{
    int i;

    for (i = 0; s->gpu != NULL && i < CRN_GPUS; i++)
        if (s->gpu->dev[i] != NULL && s->gpu->stream[i] != NULL &&
            s->gpu->driver->ops->is_capturing(s->gpu->dev[i], s->gpu->stream[i]))
            return crn_fail(ei, CAIRN_EBUSY, 0,
                            "a graph is being captured from the stream that cairn_gpu_stream named "
                            "for GPU %d; call again when the capture has ended",
                            i);
    return CAIRN_OK;
}

static cairn_err name_stream(struct crn_gpu *g, void *stream, struct crn_errinfo *ei)
{
    int i;

    if (stream == NULL) {
        memset(g->stream, 0, sizeof(g->stream));
        return CAIRN_OK;
    }
    i = g->driver->ops->stream_device(g->driver, stream);
    if (i < 0 || i >= CRN_GPUS)
        return crn_fail(
            ei, CAIRN_EINVAL, 0,
            "the stream belongs to no GPU's primary context; a default stream needs its "
            "GPU to be current in the calling thread");
    g->stream[i] = stream;
    return CAIRN_OK;
}

cairn_err cairn_gpu_stream(cairn_session *s, void *stream)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_session(s, &ei);

    if (rc == CAIRN_OK)
        crn_deferred_wait(s); /* a lazy capture reads the names */
    if (rc == CAIRN_OK && s->cfg.gpu)
        rc = open_driver(s, &ei);
    if (rc == CAIRN_OK && s->gpu == NULL)
        rc = crn_fail(&ei, CAIRN_ENOTSUP, 0, "the application has loaded no GPU driver");
    if (rc == CAIRN_OK)
        rc = name_stream(s->gpu, stream, &ei);
    return crn_api_end(&ei, rc);
}

void crn_gpu_close(cairn_session *s)
{
    struct crn_gpu *g = s->gpu;
    uint64_t bytes;
    int i;

    if (g == NULL)
        return;
    if (g->pinned_by != NULL)
        g->driver->ops->unpin(g->pinned_by, crn_arena_memory(s->arena, &bytes));
    if (g->staging_by != NULL)
        g->driver->ops->unpin(g->staging_by, g->staging);
    free(g->staging);
    for (i = 0; i < CRN_GPUS; i++)
        if (g->dev[i] != NULL)
            g->driver->ops->device_close(g->dev[i]);
    g->driver->ops->close(g->driver);
    free(g);
    s->gpu = NULL;
}
