/* SPDX-License-Identifier: BSD-3-Clause */
/* HIP through libamdhip64.so. HIP has a current device per thread instead of a stack of contexts;
 * each call restores it. */
#include "tier/device_driver.h"

#include <dlfcn.h>

#define MEMCPY_DEFAULT  4
#define MEMORY_DEVICE_5 1 /* the enumeration changed with release 6 */
#define MEMORY_DEVICE_6 2
#define RELEASE_6       60000000

enum own { ERROR_TEXT, VERSION, GET_DEVICE, SET_DEVICE, COPY, BUS };

static int device_hip_start(struct crn_vendor_driver *d)
{
    int (*get_version)(int *version);
    int version = 0;
    int r;

    CRN_VENDOR_CALL(d, VERSION, get_version);
    r = get_version(&version);
    d->memory_device = version >= RELEASE_6 ? MEMORY_DEVICE_6 : MEMORY_DEVICE_5;
    return r;
}

static const char *device_hip_text(const struct crn_vendor_driver *d, int r)
{
    const char *(*error_text)(int r);

    CRN_VENDOR_CALL(d, ERROR_TEXT, error_text);
    return error_text(r);
}

static int device_hip_owner(struct crn_driver *driver, const void *ptr)
{
    int device;

    return crn_vendor_ask((struct crn_vendor_driver *)driver, ptr, &device) == 0 ? device : -1;
}

/* Old releases lack the call; there every stream counts as one of the current device. */
static int stream_device(struct crn_driver *driver, void *stream)
{
    const struct crn_vendor_driver *d = (struct crn_vendor_driver *)driver;
    int is_named = stream == CRN_STREAM_LEGACY || stream == CRN_STREAM_PER_THREAD;
    int (*of_stream)(void *stream, int *ordinal) = NULL;
    int (*get_device)(int *ordinal);
    int ordinal = -1;
    int r;

    CRN_VENDOR_CALL(d, GET_DEVICE, get_device);
    *(void **)&of_stream = dlsym(d->library, "hipStreamGetDevice");
    r = is_named || of_stream == NULL ? get_device(&ordinal) : of_stream(stream, &ordinal);
    return r == 0 ? ordinal : -1;
}

static int device_hip_retain(struct crn_vendor_device *dev)
{
    (void)dev;
    return 0;
}

static void device_hip_release(struct crn_vendor_device *dev)
{
    (void)dev;
}

static int device_hip_enter(struct crn_vendor_device *dev, int *ret_before)
{
    int (*get_device)(int *ordinal);
    int (*set_device)(int ordinal);
    int r;

    CRN_VENDOR_CALL(crn_vendor_of(dev), GET_DEVICE, get_device);
    CRN_VENDOR_CALL(crn_vendor_of(dev), SET_DEVICE, set_device);
    r = get_device(ret_before);
    return r == 0 && *ret_before != dev->dev.ordinal ? set_device(dev->dev.ordinal) : r;
}

static void device_hip_leave(struct crn_vendor_device *dev, int before)
{
    int (*set_device)(int ordinal);

    CRN_VENDOR_CALL(crn_vendor_of(dev), SET_DEVICE, set_device);
    if (before != dev->dev.ordinal)
        (void)set_device(before);
}

static int device_hip_bus(struct crn_device *dev, char *ret, size_t size)
{
    int (*bus_id)(char *ret, int size, int ordinal);

    CRN_VENDOR_CALL((struct crn_vendor_driver *)dev->driver, BUS, bus_id);
    return bus_id(ret, (int)size, dev->ordinal);
}

static int device_hip_copy(const struct crn_vendor_driver *d, void *dst, const void *src,
                           size_t bytes, void *stream)
{
    int (*copy_async)(void *dst, const void *src, size_t bytes, int kind, void *stream);

    CRN_VENDOR_CALL(d, COPY, copy_async);
    return copy_async(dst, src, bytes, MEMCPY_DEFAULT, stream);
}

static const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        "libamdhip64.so", NULL};

static const int lost[] = {
    4 /* deinitialized */,    214 /* ECC */,           700 /* illegal address */,
    702 /* launch timeout */, 709 /* ctx destroyed */, 710 /* device assert */,
    719 /* launch failed */,  999 /* unknown */,       0,
};

static const struct crn_vendor hip = {
    .name = "hip",
    .title = "HIP",
    .libraries = libraries,
    .symbols = {.init = "hipInit",
                .device_count = "hipGetDeviceCount",
                .mem_info = "hipMemGetInfo",
                .mem_alloc = "hipMalloc",
                .mem_free = "hipFree",
                .host_register = "hipHostRegister",
                .host_unregister = "hipHostUnregister",
                .pointer = "hipPointerGetAttribute",
                .stream_create = "hipStreamCreateWithFlags",
                .stream_destroy = "hipStreamDestroy",
                .stream_wait = "hipStreamWaitEvent",
                .stream_sync = "hipStreamSynchronize",
                .event_create = "hipEventCreateWithFlags",
                .event_destroy = "hipEventDestroy",
                .event_record = "hipEventRecord",
                .event_wait = "hipEventSynchronize",
                .event_query = "hipEventQuery",
                .capture_mode = "hipThreadExchangeStreamCaptureMode",
                .is_capturing = "hipStreamIsCapturing",
                .own = {[ERROR_TEXT] = "hipGetErrorString",
                        [VERSION] = "hipRuntimeGetVersion",
                        [GET_DEVICE] = "hipGetDevice",
                        [SET_DEVICE] = "hipSetDevice",
                        [COPY] = "hipMemcpyAsync",
                        [BUS] = "hipDeviceGetPCIBusId"}},
    .lost = lost,
    .start = device_hip_start,
    .text = device_hip_text,
    .owner = device_hip_owner,
    .stream_device = stream_device,
    .bus = device_hip_bus,
    .retain = device_hip_retain,
    .release = device_hip_release,
    .enter = device_hip_enter,
    .leave = device_hip_leave,
    .copy = device_hip_copy,
};

cairn_err crn_driver_hip(int is_loaded, struct crn_driver **ret, struct crn_errinfo *ei)
{
    return crn_vendor_open(&hip, is_loaded, ret, ei);
}
