/* SPDX-License-Identifier: BSD-3-Clause */
/* HIP through libamdhip64.so, loaded at run time; declared here as its ABI has it. HIP has a current
 * device in each thread instead of a stack of contexts; it is put back after each call. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/device.h"

typedef int hipError_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;

enum {
    SUCCESS = 0,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    STREAM_NON_BLOCKING = 1,
    EVENT_BLOCKING_SYNC = 1,
    EVENT_DISABLE_TIMING = 2,
    HOST_REGISTER_PORTABLE = 1,
    MEMCPY_DEFAULT = 4,
    POINTER_MEMORY_TYPE = 2,
    POINTER_IS_MANAGED = 8,
    POINTER_DEVICE_ORDINAL = 9,
    MEMORY_DEVICE_5 = 1, /* the enumeration changed with release 6 */
    MEMORY_DEVICE_6 = 2,
    RELEASE_6 = 60000000,
};

/* X(field, symbol, arguments) */
#define SYMBOLS(X)                                                                                 \
    X(init, hipInit, (unsigned flags))                                                             \
    X(version, hipRuntimeGetVersion, (int *version))                                               \
    X(device_count, hipGetDeviceCount, (int *n))                                                   \
    X(get_device, hipGetDevice, (int *ordinal))                                                    \
    X(set_device, hipSetDevice, (int ordinal))                                                     \
    X(mem_info, hipMemGetInfo, (size_t * free, size_t * total))                                    \
    X(mem_alloc, hipMalloc, (void **p, size_t bytes))                                              \
    X(mem_free, hipFree, (void *p))                                                                \
    X(host_register, hipHostRegister, (void *p, size_t bytes, unsigned flags))                     \
    X(host_unregister, hipHostUnregister, (void *p))                                               \
    X(pointer, hipPointerGetAttribute, (void *data, int attribute, void *p))                       \
    X(stream_create, hipStreamCreateWithFlags, (hipStream_t * s, unsigned flags))                  \
    X(stream_destroy, hipStreamDestroy, (hipStream_t s))                                           \
    X(stream_wait, hipStreamWaitEvent, (hipStream_t s, hipEvent_t e, unsigned flags))              \
    X(event_create, hipEventCreateWithFlags, (hipEvent_t * e, unsigned flags))                     \
    X(event_destroy, hipEventDestroy, (hipEvent_t e))                                              \
    X(event_record, hipEventRecord, (hipEvent_t e, hipStream_t s))                                 \
    X(event_wait, hipEventSynchronize, (hipEvent_t e))                                             \
    X(copy, hipMemcpyAsync, (void *dst, const void *src, size_t bytes, int kind, hipStream_t s))

struct api {
/* Declarators cannot be put in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define FIELD(field, symbol, arguments) hipError_t(*field) arguments;
    SYMBOLS(FIELD)
#undef FIELD
    const char *(*error_string)(hipError_t r);
};

struct hip_driver {
    struct crn_driver driver;
    struct api api;
    void *library;
    unsigned memory_device; /* what this release calls device memory */
};

struct hip_device {
    struct crn_device dev;
    hipStream_t lane[CRN_LANES];
    hipEvent_t done[CRN_LANES]; /* end of what the lane was given */
    hipEvent_t mark[CRN_LANES]; /* the application's work that the lane waits for */
};

static const struct api *api_of(const struct crn_device *dev)
{
    return &((const struct hip_driver *)dev->driver)->api;
}

/* Errors. -------------------------------------------------------------------------------------------- */

static int is_lost(hipError_t r)
{
    static const hipError_t lost[] = {
        4 /* deinitialized */,    214 /* ECC */,           700 /* illegal address */,
        702 /* launch timeout */, 709 /* ctx destroyed */, 710 /* device assert */,
        719 /* launch failed */,  999 /* unknown */,
    };
    size_t i;

    for (i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        if (r == lost[i])
            return 1;
    return 0;
}

static cairn_err check(const struct api *api, hipError_t r, int ordinal, const char *what,
                       struct crn_errinfo *ei)
{
    const char *text;

    if (r == SUCCESS)
        return CAIRN_OK;
    text = api->error_string(r);
    return crn_fail(ei,
                    r == OUT_OF_MEMORY ? CAIRN_ENOMEM
                    : is_lost(r)       ? CAIRN_EDEVICE
                                       : CAIRN_EIO,
                    0, "GPU %d: %s: %s (HIP error %d)", ordinal, what,
                    text != NULL ? text : "unknown error", r);
}

static cairn_err enter(struct crn_device *dev, int *ret_before, struct crn_errinfo *ei)
{
    const struct api *api = api_of(dev);
    hipError_t r = api->get_device(ret_before);

    if (r == SUCCESS && *ret_before != dev->ordinal)
        r = api->set_device(dev->ordinal);
    return check(api, r, dev->ordinal, "make it current", ei);
}

static void leave(struct crn_device *dev, int before)
{
    if (before != dev->ordinal)
        (void)api_of(dev)->set_device(before);
}

/* Memory. -------------------------------------------------------------------------------------------- */

static int hip_owner(struct crn_driver *driver, const void *ptr)
{
    const struct hip_driver *d = (struct hip_driver *)driver;
    void *p = (void *)(uintptr_t)ptr;
    unsigned type = 0;
    int is_managed = 0; /* the runtime writes one byte or four */
    int ordinal = 0;

    if (d->api.pointer(&type, POINTER_MEMORY_TYPE, p) != SUCCESS)
        return -1;
    if (d->api.pointer(&is_managed, POINTER_IS_MANAGED, p) != SUCCESS)
        is_managed = 0;
    if (type != d->memory_device && !is_managed)
        return -1;
    if (d->api.pointer(&ordinal, POINTER_DEVICE_ORDINAL, p) != SUCCESS)
        return -1;
    return ordinal >= 0 ? ordinal : 0;
}

static cairn_err hip_memory(struct crn_device *dev, uint64_t *ret_free, uint64_t *ret_total,
                            struct crn_errinfo *ei)
{
    size_t left = 0;
    size_t total = 0;
    int before;
    cairn_err rc = enter(dev, &before, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api_of(dev), api_of(dev)->mem_info(&left, &total), dev->ordinal, "free memory", ei);
    leave(dev, before);
    *ret_free = left;
    *ret_total = total;
    return rc;
}

static cairn_err hip_alloc(struct crn_device *dev, uint64_t bytes, void **ret,
                           struct crn_errinfo *ei)
{
    void *p = NULL;
    int before;
    cairn_err rc = enter(dev, &before, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api_of(dev), api_of(dev)->mem_alloc(&p, bytes), dev->ordinal,
               "allocate device memory", ei);
    leave(dev, before);
    if (rc == CAIRN_OK)
        *ret = p;
    return rc;
}

static void hip_free(struct crn_device *dev, void *ptr)
{
    struct crn_errinfo ignored = {0}; /* a lost device has no memory to give back */
    int before;

    if (ptr == NULL || enter(dev, &before, &ignored) != CAIRN_OK)
        return;
    (void)api_of(dev)->mem_free(ptr);
    leave(dev, before);
}

static cairn_err hip_pin(struct crn_device *dev, void *host, uint64_t bytes, struct crn_errinfo *ei)
{
    int before;
    cairn_err rc = enter(dev, &before, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api_of(dev), api_of(dev)->host_register(host, bytes, HOST_REGISTER_PORTABLE),
               dev->ordinal, "pin host memory", ei);
    leave(dev, before);
    return rc;
}

static void hip_unpin(struct crn_device *dev, void *host)
{
    struct crn_errinfo ignored = {0};
    int before;

    if (enter(dev, &before, &ignored) != CAIRN_OK)
        return;
    (void)api_of(dev)->host_unregister(host);
    leave(dev, before);
}

/* Lanes. --------------------------------------------------------------------------------------------- */

static cairn_err hip_after(struct crn_device *dev, enum crn_lane lane, void *stream,
                           struct crn_errinfo *ei)
{
    struct hip_device *d = (struct hip_device *)dev;
    const struct api *api = api_of(dev);
    int before;
    cairn_err rc = enter(dev, &before, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api, api->event_record(d->mark[lane], stream), dev->ordinal,
               "record an event on the application's stream", ei);
    if (rc == CAIRN_OK)
        rc = check(api, api->stream_wait(d->lane[lane], d->mark[lane], 0), dev->ordinal,
                   "wait for the application's stream", ei);
    leave(dev, before);
    return rc;
}

static cairn_err hip_copy(struct crn_device *dev, enum crn_lane lane, void *dst, const void *src,
                          uint64_t bytes, struct crn_errinfo *ei)
{
    struct hip_device *d = (struct hip_device *)dev;
    const struct api *api = api_of(dev);
    int before;
    cairn_err rc = enter(dev, &before, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api, api->copy(dst, src, bytes, MEMCPY_DEFAULT, d->lane[lane]), dev->ordinal, "copy",
               ei);
    leave(dev, before);
    return rc;
}

static cairn_err hip_wait(struct crn_device *dev, enum crn_lane lane, struct crn_errinfo *ei)
{
    struct hip_device *d = (struct hip_device *)dev;
    const struct api *api = api_of(dev);
    int before;
    cairn_err rc = enter(dev, &before, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = check(api, api->event_record(d->done[lane], d->lane[lane]), dev->ordinal,
               "record an event", ei);
    if (rc == CAIRN_OK)
        rc = check(api, api->event_wait(d->done[lane]), dev->ordinal, "wait for a copy", ei);
    leave(dev, before);
    return rc;
}

/* Life. ---------------------------------------------------------------------------------------------- */

static void hip_device_close(struct crn_device *dev)
{
    struct hip_device *d = (struct hip_device *)dev;
    struct crn_errinfo ignored = {0};
    const struct api *api;
    int before;
    int i;

    if (d == NULL)
        return;
    api = api_of(dev);
    if (enter(dev, &before, &ignored) == CAIRN_OK) {
        for (i = 0; i < CRN_LANES; i++) {
            if (d->lane[i] != NULL)
                (void)api->stream_destroy(d->lane[i]);
            if (d->done[i] != NULL)
                (void)api->event_destroy(d->done[i]);
            if (d->mark[i] != NULL)
                (void)api->event_destroy(d->mark[i]);
        }
        leave(dev, before);
    }
    free(d);
}

static hipError_t make_lanes(struct hip_device *d, const struct api *api)
{
    hipError_t r = SUCCESS;
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

static cairn_err hip_device_open(struct crn_driver *driver, int ordinal, struct crn_device **ret,
                                 struct crn_errinfo *ei)
{
    const struct api *api = &((struct hip_driver *)driver)->api;
    struct hip_device *d;
    cairn_err rc;
    int before;

    if (ordinal < 0 || ordinal >= driver->ndevices)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "there is no GPU %d; HIP shows %d", ordinal,
                        driver->ndevices);
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "GPU %d", ordinal);
    d->dev.driver = driver;
    d->dev.ordinal = ordinal;
    rc = enter(&d->dev, &before, ei);
    if (rc == CAIRN_OK) {
        rc = check(api, make_lanes(d, api), ordinal, "make streams and events", ei);
        leave(&d->dev, before);
    }
    if (rc != CAIRN_OK) {
        hip_device_close(&d->dev);
        return rc;
    }
    *ret = &d->dev;
    return CAIRN_OK;
}

static void hip_close(struct crn_driver *driver)
{
    struct hip_driver *d = (struct hip_driver *)driver;

    (void)dlclose(d->library);
    free(d);
}

static const struct crn_driver_ops hip_ops = {
    .name = "hip",
    .close = hip_close,
    .owner = hip_owner,
    .device_open = hip_device_open,
    .device_close = hip_device_close,
    .memory = hip_memory,
    .alloc = hip_alloc,
    .free = hip_free,
    .pin = hip_pin,
    .unpin = hip_unpin,
    .after = hip_after,
    .copy = hip_copy,
    .wait = hip_wait,
};

static cairn_err find_symbols(struct hip_driver *d, struct crn_errinfo *ei)
{
    const char *missing = NULL;

/* A data pointer becomes a function pointer the way POSIX shows it. */
#define FIND(field, symbol, arguments)                                                             \
    *(void **)&d->api.field = dlsym(d->library, #symbol);                                          \
    if (d->api.field == NULL)                                                                      \
        missing = #symbol;
    SYMBOLS(FIND)
    FIND(error_string, hipGetErrorString, )
#undef FIND
    if (missing != NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "libamdhip64.so has no %s: ROCm is too old", missing);
    return CAIRN_OK;
}

static cairn_err start(struct hip_driver *d, struct crn_errinfo *ei)
{
    int version = 0;
    hipError_t r;
    cairn_err rc = find_symbols(d, ei);

    if (rc != CAIRN_OK)
        return rc;
    r = d->api.init(0);
    if (r == SUCCESS)
        r = d->api.device_count(&d->driver.ndevices);
    if (r == NO_DEVICE || (r == SUCCESS && d->driver.ndevices == 0))
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "HIP shows no GPU");
    if (r == SUCCESS)
        r = d->api.version(&version);
    if (r != SUCCESS)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "HIP cannot be used (error %d of hipInit)", r);
    d->memory_device = version >= RELEASE_6 ? MEMORY_DEVICE_6 : MEMORY_DEVICE_5;
    return CAIRN_OK;
}

cairn_err crn_driver_hip(int is_loaded, struct crn_driver **ret, struct crn_errinfo *ei)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        "libamdhip64.so"};
    void *library = NULL;
    struct hip_driver *d;
    cairn_err rc;
    size_t i;

    for (i = 0; library == NULL && i < sizeof(names) / sizeof(names[0]); i++)
        library = dlopen(names[i], RTLD_NOW | (is_loaded ? RTLD_NOLOAD : 0));
    if (library == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "no HIP: %s",
                        is_loaded ? "libamdhip64.so is not loaded" : dlerror());
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        (void)dlclose(library);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "HIP");
    }
    d->library = library;
    d->driver.ops = &hip_ops;
    rc = start(d, ei);
    if (rc != CAIRN_OK) {
        hip_close(&d->driver);
        return rc;
    }
    *ret = &d->driver;
    return CAIRN_OK;
}
