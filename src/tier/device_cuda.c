/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA through libcuda.so.1.
 *
 * Contexts: uses each device's primary context, as the application's CUDA runtime does. It is
 * retained while the device is open and pushed around each call, so that the thread's own context
 * is the same before and after. */
#include "tier/device_driver.h"

#define INVALID_CONTEXT 201
#define MEMORY_DEVICE   2

enum own {
    ERROR_TEXT,
    DEVICE_GET,
    CTX_RETAIN,
    CTX_RELEASE,
    CTX_STATE,
    CTX_CURRENT,
    CTX_PUSH,
    CTX_POP,
    STREAM_CTX,
    COPY,
    BUS
};

static int device_cuda_start(struct crn_vendor_driver *d)
{
    d->memory_device = MEMORY_DEVICE;
    return 0;
}

static const char *device_cuda_text(const struct crn_vendor_driver *d, int r)
{
    int (*error_text)(int r, const char **ret);
    const char *ret = NULL;

    CRN_VENDOR_CALL(d, ERROR_TEXT, error_text);
    return error_text(r, &ret) == 0 ? ret : NULL;
}

/* Contexts. ------------------------------------------------------------------------------------ */

static int device_cuda_push(const struct crn_vendor_driver *d, void *ctx)
{
    int (*ctx_push)(void *ctx);

    CRN_VENDOR_CALL(d, CTX_PUSH, ctx_push);
    return ctx_push(ctx);
}

static void cuda_pop(const struct crn_vendor_driver *d)
{
    int (*ctx_pop)(void **ctx);
    void *ctx;

    CRN_VENDOR_CALL(d, CTX_POP, ctx_pop);
    (void)ctx_pop(&ctx);
}

/* The primary context of a device; with only_active, fails if it is not in use yet. */
static int retain_context(const struct crn_vendor_driver *d, int ordinal, int only_active,
                          void **ret)
{
    int (*device_get)(int *id, int ordinal);
    int (*ctx_state)(int id, unsigned *flags, int *active);
    int (*ctx_retain)(void **ctx, int id);
    unsigned flags;
    int active = 1;
    int id;
    int r;

    CRN_VENDOR_CALL(d, DEVICE_GET, device_get);
    CRN_VENDOR_CALL(d, CTX_STATE, ctx_state);
    CRN_VENDOR_CALL(d, CTX_RETAIN, ctx_retain);
    r = device_get(&id, ordinal);
    if (r == 0 && only_active)
        r = ctx_state(id, &flags, &active);
    if (r == 0 && !active)
        r = INVALID_CONTEXT;
    return r == 0 ? ctx_retain(ret, id) : r;
}

static void release_context(const struct crn_vendor_driver *d, int ordinal)
{
    int (*device_get)(int *id, int ordinal);
    int (*ctx_release)(int id);
    int id;

    CRN_VENDOR_CALL(d, DEVICE_GET, device_get);
    CRN_VENDOR_CALL(d, CTX_RELEASE, ctx_release);
    if (device_get(&id, ordinal) == 0)
        (void)ctx_release(id);
}

static int device_cuda_retain(struct crn_vendor_device *dev)
{
    return retain_context(crn_vendor_of(dev), dev->dev.ordinal, 0, &dev->ctx);
}

static void device_cuda_release(struct crn_vendor_device *dev)
{
    if (dev->ctx != NULL)
        release_context(crn_vendor_of(dev), dev->dev.ordinal);
}

/* before: was it current already? In a thread of the application it usually is, and checking is
 * cheaper than switching. */
static int device_cuda_enter(struct crn_vendor_device *dev, int *ret_before)
{
    int (*ctx_current)(void **ctx);
    void *ctx = NULL;

    CRN_VENDOR_CALL(crn_vendor_of(dev), CTX_CURRENT, ctx_current);
    *ret_before = ctx_current(&ctx) == 0 && ctx == dev->ctx;
    return *ret_before ? 0 : device_cuda_push(crn_vendor_of(dev), dev->ctx);
}

static void device_cuda_leave(struct crn_vendor_device *dev, int before)
{
    if (!before)
        cuda_pop(crn_vendor_of(dev));
}

/* Memory. -------------------------------------------------------------------------------------- */

static int device_cuda_owner(struct crn_driver *driver, const void *ptr)
{
    const struct crn_vendor_driver *d = (struct crn_vendor_driver *)driver;
    int device;
    int r = crn_vendor_ask(d, ptr, &device);
    int i;

    /* No context in this thread: use any that the application has created, but create none. */
    for (i = 0; r == INVALID_CONTEXT && i < driver->ndevices; i++) {
        void *ctx;

        if (retain_context(d, i, 1, &ctx) != 0)
            continue;
        if (device_cuda_push(d, ctx) == 0) {
            r = crn_vendor_ask(d, ptr, &device);
            cuda_pop(d);
        }
        release_context(d, i);
    }
    return r == 0 ? device : -1;
}

/* Rejects contexts that are not a device's primary one: Cairn's events cannot be recorded there. A
 * default stream belongs to the current device, or to the only device in use. */
static int stream_device(struct crn_driver *driver, void *stream)
{
    const struct crn_vendor_driver *d = (struct crn_vendor_driver *)driver;
    int is_named = stream == CRN_STREAM_LEGACY || stream == CRN_STREAM_PER_THREAD;
    int (*ctx_current)(void **ctx);
    int (*stream_ctx)(void *stream, void **ctx);
    void *ctx = NULL;
    int nactive = 0;
    int only = -1;
    int i;

    CRN_VENDOR_CALL(d, CTX_CURRENT, ctx_current);
    CRN_VENDOR_CALL(d, STREAM_CTX, stream_ctx);
    if ((is_named ? ctx_current(&ctx) : stream_ctx(stream, &ctx)) != 0)
        return -1;
    for (i = 0; i < driver->ndevices; i++) {
        void *primary;

        if (retain_context(d, i, 1, &primary) != 0)
            continue;
        release_context(d, i);
        if (ctx != NULL && primary == ctx)
            return i;
        nactive++;
        only = i;
    }
    return ctx == NULL && nactive == 1 ? only : -1;
}

static int device_cuda_bus(struct crn_device *dev, char *ret, size_t size)
{
    const struct crn_vendor_driver *d = (struct crn_vendor_driver *)dev->driver;
    int (*device_get)(int *id, int ordinal);
    int (*bus_id)(char *ret, int size, int id);
    int id;
    int r;

    CRN_VENDOR_CALL(d, DEVICE_GET, device_get);
    CRN_VENDOR_CALL(d, BUS, bus_id);
    r = device_get(&id, dev->ordinal);
    return r == 0 ? bus_id(ret, (int)size, id) : r;
}

static int device_cuda_copy(const struct crn_vendor_driver *d, void *dst, const void *src,
                            size_t bytes, void *stream)
{
    int (*copy_async)(void *dst, const void *src, size_t bytes, void *stream);

    CRN_VENDOR_CALL(d, COPY, copy_async);
    return copy_async(dst, src, bytes, stream);
}

static const char *const libraries[] = {"libcuda.so.1", NULL};

static const int lost[] = {
    4 /* deinitialized */,
    46 /* device unavailable */,
    214 /* ECC */,
    220 /* NVLink */,
    700 /* illegal address */,
    702 /* launch timeout */,
    709 /* ctx destroyed */,
    710 /* device assert */,
    714 /* hardware stack */,
    715 /* instruction */,
    716 /* misaligned */,
    717 /* address space */,
    718 /* pc */,
    719 /* launch failed */,
    999 /* unknown */,
    0,
};

static const struct crn_vendor cuda = {
    .name = "cuda",
    .title = "CUDA",
    .libraries = libraries,
    .symbols = {.init = "cuInit",
                .device_count = "cuDeviceGetCount",
                .mem_info = "cuMemGetInfo_v2",
                .mem_alloc = "cuMemAlloc_v2",
                .mem_free = "cuMemFree_v2",
                .host_register = "cuMemHostRegister_v2",
                .host_unregister = "cuMemHostUnregister",
                .pointer = "cuPointerGetAttribute",
                .stream_create = "cuStreamCreate",
                .stream_destroy = "cuStreamDestroy_v2",
                .stream_wait = "cuStreamWaitEvent",
                .stream_sync = "cuStreamSynchronize",
                .event_create = "cuEventCreate",
                .event_destroy = "cuEventDestroy_v2",
                .event_record = "cuEventRecord",
                .event_wait = "cuEventSynchronize",
                .event_query = "cuEventQuery",
                .capture_mode = "cuThreadExchangeStreamCaptureMode",
                .is_capturing = "cuStreamIsCapturing",
                .own = {[ERROR_TEXT] = "cuGetErrorString",
                        [DEVICE_GET] = "cuDeviceGet",
                        [CTX_RETAIN] = "cuDevicePrimaryCtxRetain",
                        [CTX_RELEASE] = "cuDevicePrimaryCtxRelease_v2",
                        [CTX_STATE] = "cuDevicePrimaryCtxGetState",
                        [CTX_CURRENT] = "cuCtxGetCurrent",
                        [CTX_PUSH] = "cuCtxPushCurrent_v2",
                        [CTX_POP] = "cuCtxPopCurrent_v2",
                        [STREAM_CTX] = "cuStreamGetCtx",
                        [COPY] = "cuMemcpyAsync",
                        [BUS] = "cuDeviceGetPCIBusId"}},
    .lost = lost,
    .legacy_stream = CRN_STREAM_LEGACY,
    .start = device_cuda_start,
    .text = device_cuda_text,
    .owner = device_cuda_owner,
    .stream_device = stream_device,
    .bus = device_cuda_bus,
    .retain = device_cuda_retain,
    .release = device_cuda_release,
    .enter = device_cuda_enter,
    .leave = device_cuda_leave,
    .copy = device_cuda_copy,
};

cairn_err crn_driver_cuda(int is_loaded, struct crn_driver **ret, struct crn_errinfo *ei)
{
    return crn_vendor_open(&cuda, is_loaded, ret, ei);
}
