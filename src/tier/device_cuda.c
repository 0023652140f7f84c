/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA through libcuda.so.1, loaded at run time. The few types, constants and prototypes that are
 * needed are declared here as the driver's ABI has them, so that no CUDA header is needed to build.
 *
 * Contexts: each device's primary context, the one that the CUDA runtime of the application uses;
 * retained while the device is open and pushed around each call, so that the thread's own context is
 * the same before and after. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/device.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum {
    SUCCESS = 0,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    STREAM_NON_BLOCKING = 1,
    EVENT_BLOCKING_SYNC = 1,
    EVENT_DISABLE_TIMING = 2,
    HOST_REGISTER_PORTABLE = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_IS_MANAGED = 8,
    POINTER_DEVICE_ORDINAL = 9,
    MEMORY_DEVICE = 2,
};
#define STREAM_LEGACY ((CUstream)(uintptr_t)1)

/* X(field, symbol, arguments) */
#define SYMBOLS(X)                                                                                 \
    X(init, cuInit, (unsigned flags))                                                              \
    X(error_string, cuGetErrorString, (CUresult r, const char **text))                             \
    X(device_count, cuDeviceGetCount, (int *n))                                                    \
    X(device_get, cuDeviceGet, (CUdevice * dev, int ordinal))                                      \
    X(ctx_retain, cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice dev))                       \
    X(ctx_release, cuDevicePrimaryCtxRelease_v2, (CUdevice dev))                                   \
    X(ctx_state, cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned *flags, int *active))         \
    X(ctx_push, cuCtxPushCurrent_v2, (CUcontext ctx))                                              \
    X(ctx_pop, cuCtxPopCurrent_v2, (CUcontext * ctx))                                              \
    X(mem_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                  \
    X(mem_alloc, cuMemAlloc_v2, (CUdeviceptr * p, size_t bytes))                                   \
    X(mem_free, cuMemFree_v2, (CUdeviceptr p))                                                     \
    X(host_register, cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags))                \
    X(host_unregister, cuMemHostUnregister, (void *p))                                             \
    X(pointer, cuPointerGetAttribute, (void *data, int attribute, CUdeviceptr p))                  \
    X(stream_create, cuStreamCreate, (CUstream * s, unsigned flags))                               \
    X(stream_destroy, cuStreamDestroy_v2, (CUstream s))                                            \
    X(stream_wait, cuStreamWaitEvent, (CUstream s, CUevent e, unsigned flags))                     \
    X(event_create, cuEventCreate, (CUevent * e, unsigned flags))                                  \
    X(event_destroy, cuEventDestroy_v2, (CUevent e))                                               \
    X(event_record, cuEventRecord, (CUevent e, CUstream s))                                        \
    X(event_wait, cuEventSynchronize, (CUevent e))                                                 \
    X(copy, cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s))

struct api {
/* Declarators cannot be put in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define FIELD(field, symbol, arguments) CUresult(*field) arguments;
    SYMBOLS(FIELD)
#undef FIELD
};

struct cuda_driver {
    struct crn_driver driver;
    struct api api;
    void *library;
};

struct cuda_device {
    struct crn_device dev;
    CUdevice id;
    CUcontext ctx;
    CUstream lane[CRN_LANES];
    CUevent done[CRN_LANES]; /* end of what the lane was given */
    CUevent mark[CRN_LANES]; /* the application's work that the lane waits for */
};

static const struct api *api_of(const struct crn_device *dev)
{
    return &((const struct cuda_driver *)dev->driver)->api;
}

/* Errors. -------------------------------------------------------------------------------------------- */

/* Codes after which no call on the context succeeds any more. */
static int is_lost(CUresult r)
{
    static const CUresult lost[] = {
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
    };
    size_t i;

    for (i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        if (r == lost[i])
            return 1;
    return 0;
}

static cairn_err check(const struct api *api, CUresult r, int ordinal, const char *what,
                       struct crn_errinfo *ei)
{
    const char *text = NULL;
    cairn_err code = r == OUT_OF_MEMORY ? CAIRN_ENOMEM : is_lost(r) ? CAIRN_EDEVICE : CAIRN_EIO;

    if (r == SUCCESS)
        return CAIRN_OK;
    if (api->error_string(r, &text) != SUCCESS || text == NULL)
        text = "unknown error";
    return crn_fail(ei, code, 0, "GPU %d: %s: %s (CUDA error %d)", ordinal, what, text, r);
}

static cairn_err enter(struct crn_device *dev, struct crn_errinfo *ei)
{
    const struct api *api = api_of(dev);

    return check(api, api->ctx_push(((struct cuda_device *)dev)->ctx), dev->ordinal,
                 "make its context current", ei);
}

static void leave(struct crn_device *dev)
{
    CUcontext ctx;

    (void)api_of(dev)->ctx_pop(&ctx);
}

/* Memory. -------------------------------------------------------------------------------------------- */

/* Under whatever context is current. */
static CUresult ask_owner(const struct api *api, const void *ptr, int *ret)
{
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)ptr;
    unsigned type = 0;
    int is_managed = 0; /* the driver writes one byte or four */
    int ordinal = 0;
    CUresult r = api->pointer(&type, POINTER_MEMORY_TYPE, p);

    *ret = -1;
    if (r != SUCCESS)
        return r;
    if (api->pointer(&is_managed, POINTER_IS_MANAGED, p) != SUCCESS)
        is_managed = 0;
    if ((type == MEMORY_DEVICE || is_managed) &&
        api->pointer(&ordinal, POINTER_DEVICE_ORDINAL, p) == SUCCESS)
        *ret = ordinal >= 0 ? ordinal : 0;
    return SUCCESS;
}

static int cuda_owner(struct crn_driver *driver, const void *ptr)
{
    const struct api *api = &((struct cuda_driver *)driver)->api;
    CUresult r;
    int device;
    int i;

    r = ask_owner(api, ptr, &device);
    /* No context in this thread: any that the application has made will do, but none is made. */
    for (i = 0; r == INVALID_CONTEXT && i < driver->ndevices; i++) {
        unsigned flags;
        CUcontext ctx;
        CUdevice id;
        int active = 0;

        if (api->device_get(&id, i) != SUCCESS || api->ctx_state(id, &flags, &active) != SUCCESS ||
            !active || api->ctx_retain(&ctx, id) != SUCCESS)
            continue;
        if (api->ctx_push(ctx) == SUCCESS) {
            r = ask_owner(api, ptr, &device);
            (void)api->ctx_pop(&ctx);
        }
        (void)api->ctx_release(id);
    }
    return r == SUCCESS ? device : -1;
}

static cairn_err cuda_memory(struct crn_device *dev, uint64_t *ret_free, uint64_t *ret_total,
                             struct crn_errinfo *ei)
{
    size_t left = 0;
    size_t total = 0;
    cairn_err rc = enter(dev, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api_of(dev), api_of(dev)->mem_info(&left, &total), dev->ordinal, "free memory", ei);
    leave(dev);
    *ret_free = left;
    *ret_total = total;
    return rc;
}

static cairn_err cuda_alloc(struct crn_device *dev, uint64_t bytes, void **ret,
                            struct crn_errinfo *ei)
{
    CUdeviceptr p = 0;
    cairn_err rc = enter(dev, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api_of(dev), api_of(dev)->mem_alloc(&p, bytes), dev->ordinal,
               "allocate device memory", ei);
    leave(dev);
    if (rc == CAIRN_OK)
        *ret = (void *)(uintptr_t)p;
    return rc;
}

static void cuda_free(struct crn_device *dev, void *ptr)
{
    struct crn_errinfo ignored = {0}; /* a lost device has no memory to give back */

    if (ptr == NULL || enter(dev, &ignored) != CAIRN_OK)
        return;
    (void)api_of(dev)->mem_free((CUdeviceptr)(uintptr_t)ptr);
    leave(dev);
}

static cairn_err cuda_pin(struct crn_device *dev, void *host, uint64_t bytes,
                          struct crn_errinfo *ei)
{
    cairn_err rc = enter(dev, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api_of(dev), api_of(dev)->host_register(host, bytes, HOST_REGISTER_PORTABLE),
               dev->ordinal, "pin host memory", ei);
    leave(dev);
    return rc;
}

static void cuda_unpin(struct crn_device *dev, void *host)
{
    struct crn_errinfo ignored = {0};

    if (enter(dev, &ignored) != CAIRN_OK)
        return;
    (void)api_of(dev)->host_unregister(host);
    leave(dev);
}

/* Lanes. --------------------------------------------------------------------------------------------- */

static cairn_err cuda_after(struct crn_device *dev, enum crn_lane lane, void *stream,
                            struct crn_errinfo *ei)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    const struct api *api = api_of(dev);
    CUstream app = stream != NULL ? (CUstream)stream : STREAM_LEGACY;
    cairn_err rc = enter(dev, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api, api->event_record(d->mark[lane], app), dev->ordinal,
               "record an event on the application's stream", ei);
    if (rc == CAIRN_OK)
        rc = check(api, api->stream_wait(d->lane[lane], d->mark[lane], 0), dev->ordinal,
                   "wait for the application's stream", ei);
    leave(dev);
    return rc;
}

static cairn_err cuda_copy(struct crn_device *dev, enum crn_lane lane, void *dst, const void *src,
                           uint64_t bytes, struct crn_errinfo *ei)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    const struct api *api = api_of(dev);
    cairn_err rc = enter(dev, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(
        api,
        api->copy((CUdeviceptr)(uintptr_t)dst, (CUdeviceptr)(uintptr_t)src, bytes, d->lane[lane]),
        dev->ordinal, "copy", ei);
    leave(dev);
    return rc;
}

static cairn_err cuda_wait(struct crn_device *dev, enum crn_lane lane, struct crn_errinfo *ei)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    const struct api *api = api_of(dev);
    cairn_err rc = enter(dev, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api, api->event_record(d->done[lane], d->lane[lane]), dev->ordinal,
               "record an event", ei);
    if (rc == CAIRN_OK)
        rc = check(api, api->event_wait(d->done[lane]), dev->ordinal, "wait for a copy", ei);
    leave(dev);
    return rc;
}

/* Life. ---------------------------------------------------------------------------------------------- */

static void cuda_device_close(struct crn_device *dev)
{
    struct cuda_device *d = (struct cuda_device *)dev;
    struct crn_errinfo ignored = {0};
    const struct api *api;
    int i;

    if (d == NULL)
        return;
    api = api_of(dev);
    if (d->ctx != NULL && enter(dev, &ignored) == CAIRN_OK) {
        for (i = 0; i < CRN_LANES; i++) {
            if (d->lane[i] != NULL)
                (void)api->stream_destroy(d->lane[i]);
            if (d->done[i] != NULL)
                (void)api->event_destroy(d->done[i]);
            if (d->mark[i] != NULL)
                (void)api->event_destroy(d->mark[i]);
        }
        leave(dev);
    }
    if (d->ctx != NULL)
        (void)api->ctx_release(d->id);
    free(d);
}

/* Who waits in the background sleeps; the application's thread spins, which is faster to wake. */
static CUresult make_lanes(struct cuda_device *d, const struct api *api)
{
    CUresult r = SUCCESS;
    int i;

    for (i = 0; r == SUCCESS && i < CRN_LANES; i++) {
        unsigned sync = i >= CRN_LANE_DOWN ? EVENT_BLOCKING_SYNC : 0;

        r = api->stream_create(&d->lane[i], STREAM_NON_BLOCKING);
        if (r == SUCCESS)
            r = api->event_create(&d->done[i], EVENT_DISABLE_TIMING | sync);
        if (r == SUCCESS)
            r = api->event_create(&d->mark[i], EVENT_DISABLE_TIMING);
    }
    return r;
}

static cairn_err cuda_device_open(struct crn_driver *driver, int ordinal, struct crn_device **ret,
                                  struct crn_errinfo *ei)
{
    const struct api *api = &((struct cuda_driver *)driver)->api;
    struct cuda_device *d;
    cairn_err rc;

    if (ordinal < 0 || ordinal >= driver->ndevices)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "there is no GPU %d; CUDA shows %d", ordinal,
                        driver->ndevices);
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "GPU %d", ordinal);
    d->dev.driver = driver;
    d->dev.ordinal = ordinal;
    rc = check(api, api->device_get(&d->id, ordinal), ordinal, "open", ei);
    if (rc == CAIRN_OK)
        rc = check(api, api->ctx_retain(&d->ctx, d->id), ordinal, "retain its primary context", ei);
    if (rc == CAIRN_OK)
        rc = enter(&d->dev, ei);
    if (rc == CAIRN_OK) {
        rc = check(api, make_lanes(d, api), ordinal, "make streams and events", ei);
        leave(&d->dev);
    }
    if (rc != CAIRN_OK) {
        cuda_device_close(&d->dev);
        return rc;
    }
    *ret = &d->dev;
    return CAIRN_OK;
}

static void cuda_close(struct crn_driver *driver)
{
    struct cuda_driver *d = (struct cuda_driver *)driver;

    (void)dlclose(d->library);
    free(d);
}

static const struct crn_driver_ops cuda_ops = {
    .name = "cuda",
    .close = cuda_close,
    .owner = cuda_owner,
    .device_open = cuda_device_open,
    .device_close = cuda_device_close,
    .memory = cuda_memory,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .after = cuda_after,
    .copy = cuda_copy,
    .wait = cuda_wait,
};

static cairn_err find_symbols(struct cuda_driver *d, struct crn_errinfo *ei)
{
    const char *missing = NULL;

/* A data pointer becomes a function pointer the way POSIX shows it. */
#define FIND(field, symbol, arguments)                                                             \
    *(void **)&d->api.field = dlsym(d->library, #symbol);                                          \
    if (d->api.field == NULL)                                                                      \
        missing = #symbol;
    SYMBOLS(FIND)
#undef FIND
    if (missing != NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "libcuda.so.1 has no %s: the driver is too old",
                        missing);
    return CAIRN_OK;
}

static cairn_err start(struct cuda_driver *d, struct crn_errinfo *ei)
{
    CUresult r;
    cairn_err rc = find_symbols(d, ei);

    if (rc != CAIRN_OK)
        return rc;
    r = d->api.init(0);
    if (r == SUCCESS)
        r = d->api.device_count(&d->driver.ndevices);
    if (r == NO_DEVICE || (r == SUCCESS && d->driver.ndevices == 0))
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "CUDA shows no GPU");
    if (r != SUCCESS)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "CUDA cannot be used (error %d of cuInit)", r);
    return CAIRN_OK;
}

cairn_err crn_driver_cuda(int is_loaded, struct crn_driver **ret, struct crn_errinfo *ei)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | (is_loaded ? RTLD_NOLOAD : 0));
    struct cuda_driver *d;
    cairn_err rc;

    if (library == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "no CUDA driver: %s",
                        is_loaded ? "libcuda.so.1 is not loaded" : dlerror());
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        (void)dlclose(library);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the CUDA driver");
    }
    d->library = library;
    d->driver.ops = &cuda_ops;
    rc = start(d, ei);
    if (rc != CAIRN_OK) {
        cuda_close(&d->driver);
        return rc;
    }
    *ret = &d->driver;
    return CAIRN_OK;
}
