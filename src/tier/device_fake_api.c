/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of the CUDA driver and of HIP that Cairn and its tests call, implemented over
 * device_fake.c. They are as strict as the real ones: a context must be current, handles must be
 * alive and of the same context, flags must be known. */
#include "tier/device_fake.h"

#include <stdio.h>
#include <stdlib.h>

#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        int fail_code = fake_fails(__func__);                                                      \
        if (fail_code != 0)                                                                        \
            return fail_code;                                                                      \
    } while (0)

static int contexts[FAKE_DEVICES];  /* their addresses are the contexts */
static _Thread_local int stack[16]; /* of devices */
static _Thread_local int depth;
static _Thread_local int hip_device;
static int uses_hip; /* the current device counts, not the stack */

int fake_current(void)
{
    return uses_hip ? hip_device : depth > 0 ? stack[depth - 1] : -1;
}

int fake_gpu_depth(void)
{
    return depth + hip_device;
}

/* CUDA. ---------------------------------------------------------------------------------------- */

typedef unsigned long long ptr;

static void *pointer_of(ptr p)
{
    return (void *)(uintptr_t)p; // NOLINT(performance-no-int-to-ptr)
}

static void *fake_api_named(int i)
{
    return (void *)(uintptr_t)i; // NOLINT(performance-no-int-to-ptr)
}

FAKE_API int cuInit(unsigned flags);
FAKE_API int cuGetErrorString(int r, const char **text);
FAKE_API int cuDeviceGetCount(int *n);
FAKE_API int cuDeviceGet(int *dev, int ordinal);
FAKE_API int cuDeviceGetPCIBusId(char *ret, int size, int dev);
FAKE_API int cuDevicePrimaryCtxRetain(void **ctx, int dev);
FAKE_API int cuDevicePrimaryCtxRelease_v2(int dev);
FAKE_API int cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active);
FAKE_API int cuCtxGetCurrent(void **ctx);
FAKE_API int cuCtxPushCurrent_v2(void *ctx);
FAKE_API int cuCtxPopCurrent_v2(void **ctx);
FAKE_API int cuCtxSynchronize(void);
FAKE_API int cuMemGetInfo_v2(size_t *left, size_t *total);
FAKE_API int cuMemAlloc_v2(ptr *p, size_t bytes);
FAKE_API int cuMemFree_v2(ptr p);
FAKE_API int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
FAKE_API int cuMemHostUnregister(void *p);
FAKE_API int cuPointerGetAttribute(void *data, int attribute, ptr p);
FAKE_API int cuStreamCreate(void **s, unsigned flags);
FAKE_API int cuStreamDestroy_v2(void *s);
FAKE_API int cuStreamWaitEvent(void *s, void *e, unsigned flags);
FAKE_API int cuStreamSynchronize(void *s);
FAKE_API int cuStreamGetCtx(void *s, void **ctx);
FAKE_API int cuStreamIsCapturing(void *s, int *state);
FAKE_API int cuStreamBeginCapture_v2(void *s, int mode);
FAKE_API int cuStreamEndCapture(void *s, void **graph);
FAKE_API int cuThreadExchangeStreamCaptureMode(int *mode);
FAKE_API int cuEventCreate(void **e, unsigned flags);
FAKE_API int cuEventDestroy_v2(void *e);
FAKE_API int cuEventRecord(void *e, void *s);
FAKE_API int cuEventSynchronize(void *e);
FAKE_API int cuEventQuery(void *e);
FAKE_API int cuMemcpyAsync(ptr dst, ptr src, size_t bytes, void *s);
FAKE_API int cuMemsetD32Async(ptr dst, unsigned word, size_t n, void *s);

int cuInit(unsigned flags)
{
    MAY_FAIL();
    uses_hip = 0;
    fake_names = (struct fake_names){fake_api_named(1), fake_api_named(2)};
    return flags != 0 ? FAKE_INVALID : 0;
}

int cuGetErrorString(int r, const char **text)
{
    *text = r == FAKE_NO_MEMORY ? "out of memory" : "fake error";
    return 0;
}

int cuDeviceGetCount(int *n)
{
    MAY_FAIL();
    *n = FAKE_DEVICES;
    return 0;
}

int cuDeviceGet(int *dev, int ordinal)
{
    MAY_FAIL();
    *dev = ordinal + 10; /* a handle is not an ordinal */
    return 0;
}

int cuDeviceGetPCIBusId(char *ret, int size, int dev)
{
    MAY_FAIL();
    return snprintf(ret, (size_t)size, "0000:%02x:00.0", dev) >= size ? FAKE_INVALID : 0;
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
    MAY_FAIL();
    *ctx = &contexts[dev - 10];
    return fake_retain(dev - 10, 1);
}

int cuDevicePrimaryCtxRelease_v2(int dev)
{
    return fake_retain(dev - 10, -1);
}

int cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active)
{
    *flags = 0;
    *active = fake_is_retained(dev - 10);
    return 0;
}

int cuCtxGetCurrent(void **ctx)
{
    *ctx = depth > 0 ? &contexts[stack[depth - 1]] : NULL;
    return 0;
}

int cuCtxPushCurrent_v2(void *ctx)
{
    MAY_FAIL();
    stack[depth++] = (int)((int *)ctx - contexts);
    return 0;
}

int cuCtxPopCurrent_v2(void **ctx)
{
    if (depth == 0)
        return FAKE_NO_CONTEXT;
    *ctx = &contexts[stack[--depth]];
    return 0;
}

int cuCtxSynchronize(void)
{
    MAY_FAIL();
    return fake_context_sync();
}

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    MAY_FAIL();
    *total = fake_memory();
    *left = fake_memory_left();
    return depth == 0 ? FAKE_NO_CONTEXT : 0;
}

int cuMemAlloc_v2(ptr *p, size_t bytes)
{
    void *mem = NULL;
    int r;

    MAY_FAIL();
    r = fake_alloc(&mem, bytes);
    *p = (ptr)(uintptr_t)mem;
    return r;
}

int cuMemFree_v2(ptr p)
{
    MAY_FAIL();
    return depth == 0 ? FAKE_NO_CONTEXT : fake_free(pointer_of(p));
}

int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    MAY_FAIL();
    return flags == 1 ? fake_register(p, bytes) : FAKE_INVALID;
}

int cuMemHostUnregister(void *p)
{
    return fake_unregister(p);
}

int cuPointerGetAttribute(void *data, int attribute, ptr p)
{
    MAY_FAIL();
    return fake_pointer(data, attribute, pointer_of(p), 2, 1);
}

int cuStreamCreate(void **s, unsigned flags)
{
    MAY_FAIL();
    return fake_stream_create(s, flags);
}

int cuStreamDestroy_v2(void *s)
{
    return fake_destroy(s, FAKE_STREAM);
}

int cuStreamWaitEvent(void *s, void *e, unsigned flags)
{
    MAY_FAIL();
    return flags == 0 ? fake_stream_wait(s, e) : FAKE_INVALID;
}

int cuStreamSynchronize(void *s)
{
    MAY_FAIL();
    return fake_stream_sync(s);
}

int cuStreamGetCtx(void *s, void **ctx)
{
    int device = fake_stream_device(s);

    MAY_FAIL();
    *ctx = device >= 0 ? &contexts[device] : NULL;
    return device >= 0 ? 0 : FAKE_BAD_HANDLE;
}

int cuStreamIsCapturing(void *s, int *state)
{
    MAY_FAIL();
    return fake_capture_state(s, state);
}

int cuStreamBeginCapture_v2(void *s, int mode)
{
    return fake_capture_begin(s, mode);
}

int cuStreamEndCapture(void *s, void **graph)
{
    *graph = NULL;
    return fake_capture_end(s);
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    MAY_FAIL();
    return fake_mode_exchange(mode);
}

int cuEventCreate(void **e, unsigned flags)
{
    MAY_FAIL();
    return (flags & 2) != 0 ? fake_event_create(e) : FAKE_INVALID;
}

int cuEventDestroy_v2(void *e)
{
    return fake_destroy(e, FAKE_EVENT);
}

int cuEventRecord(void *e, void *s)
{
    MAY_FAIL();
    return fake_record(e, s);
}

int cuEventSynchronize(void *e)
{
    MAY_FAIL();
    return fake_event_wait(e);
}

int cuEventQuery(void *e)
{
    MAY_FAIL();
    return fake_event_query(e);
}

int cuMemcpyAsync(ptr dst, ptr src, size_t bytes, void *s)
{
    MAY_FAIL();
    return fake_copy(pointer_of(dst), pointer_of(src), bytes, s);
}

int cuMemsetD32Async(ptr dst, unsigned word, size_t n, void *s)
{
    MAY_FAIL();
    return fake_set(pointer_of(dst), word, n, s);
}

/* HIP. ----------------------------------------------------------------------------------------- */

FAKE_API int hipInit(unsigned flags);
FAKE_API const char *hipGetErrorString(int r);
FAKE_API int hipRuntimeGetVersion(int *version);
FAKE_API int hipGetDeviceCount(int *n);
FAKE_API int hipGetDevice(int *ordinal);
FAKE_API int hipSetDevice(int ordinal);
FAKE_API int hipDeviceGetPCIBusId(char *ret, int size, int ordinal);
FAKE_API int hipMemGetInfo(size_t *left, size_t *total);
FAKE_API int hipMalloc(void **p, size_t bytes);
FAKE_API int hipFree(void *p);
FAKE_API int hipHostRegister(void *p, size_t bytes, unsigned flags);
FAKE_API int hipHostUnregister(void *p);
FAKE_API int hipPointerGetAttribute(void *data, int attribute, void *p);
FAKE_API int hipStreamCreateWithFlags(void **s, unsigned flags);
FAKE_API int hipStreamDestroy(void *s);
FAKE_API int hipStreamWaitEvent(void *s, void *e, unsigned flags);
FAKE_API int hipStreamSynchronize(void *s);
FAKE_API int hipStreamGetDevice(void *s, int *ordinal);
FAKE_API int hipStreamIsCapturing(void *s, int *state);
FAKE_API int hipThreadExchangeStreamCaptureMode(int *mode);
FAKE_API int hipEventCreateWithFlags(void **e, unsigned flags);
FAKE_API int hipEventDestroy(void *e);
FAKE_API int hipEventRecord(void *e, void *s);
FAKE_API int hipEventSynchronize(void *e);
FAKE_API int hipEventQuery(void *e);
FAKE_API int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *s);

int hipInit(unsigned flags)
{
    MAY_FAIL();
    uses_hip = 1;
    fake_names = (struct fake_names){NULL, fake_api_named(2)};
    return flags != 0 ? FAKE_INVALID : 0;
}

const char *hipGetErrorString(int r)
{
    return r == FAKE_NO_MEMORY ? "out of memory" : "fake error";
}

int hipRuntimeGetVersion(int *version)
{
    *version = getenv("FAKE_GPU_OLD") != NULL ? 50631062 : 60032830;
    return 0;
}

int hipGetDeviceCount(int *n)
{
    MAY_FAIL();
    *n = FAKE_DEVICES;
    return 0;
}

int hipGetDevice(int *ordinal)
{
    *ordinal = hip_device;
    return 0;
}

int hipSetDevice(int ordinal)
{
    MAY_FAIL();
    hip_device = ordinal;
    return 0;
}

int hipDeviceGetPCIBusId(char *ret, int size, int ordinal)
{
    MAY_FAIL();
    return snprintf(ret, (size_t)size, "0000:%02x:00.0", ordinal) >= size ? FAKE_INVALID : 0;
}

int hipMemGetInfo(size_t *left, size_t *total)
{
    MAY_FAIL();
    *total = fake_memory();
    *left = fake_memory_left();
    return 0;
}

int hipMalloc(void **p, size_t bytes)
{
    MAY_FAIL();
    return fake_alloc(p, bytes);
}

int hipFree(void *p)
{
    MAY_FAIL();
    return fake_free(p);
}

int hipHostRegister(void *p, size_t bytes, unsigned flags)
{
    MAY_FAIL();
    return flags == 1 ? fake_register(p, bytes) : FAKE_INVALID;
}

int hipHostUnregister(void *p)
{
    return fake_unregister(p);
}

int hipPointerGetAttribute(void *data, int attribute, void *p)
{
    MAY_FAIL();
    return getenv("FAKE_GPU_OLD") != NULL ? fake_pointer(data, attribute, p, 1, 0)
                                          : fake_pointer(data, attribute, p, 2, 1);
}

int hipStreamCreateWithFlags(void **s, unsigned flags)
{
    MAY_FAIL();
    return fake_stream_create(s, flags);
}

int hipStreamDestroy(void *s)
{
    return fake_destroy(s, FAKE_STREAM);
}

int hipStreamWaitEvent(void *s, void *e, unsigned flags)
{
    MAY_FAIL();
    return flags == 0 ? fake_stream_wait(s, e) : FAKE_INVALID;
}

int hipStreamSynchronize(void *s)
{
    MAY_FAIL();
    return fake_stream_sync(s);
}

int hipStreamGetDevice(void *s, int *ordinal)
{
    *ordinal = fake_stream_device(s);
    return *ordinal >= 0 ? 0 : FAKE_BAD_HANDLE;
}

int hipStreamIsCapturing(void *s, int *state)
{
    MAY_FAIL();
    return fake_capture_state(s, state);
}

int hipThreadExchangeStreamCaptureMode(int *mode)
{
    MAY_FAIL();
    return fake_mode_exchange(mode);
}

int hipEventCreateWithFlags(void **e, unsigned flags)
{
    MAY_FAIL();
    return (flags & 2) != 0 ? fake_event_create(e) : FAKE_INVALID;
}

int hipEventDestroy(void *e)
{
    return fake_destroy(e, FAKE_EVENT);
}

int hipEventRecord(void *e, void *s)
{
    MAY_FAIL();
    return fake_record(e, s);
}

int hipEventSynchronize(void *e)
{
    MAY_FAIL();
    return fake_event_wait(e);
}

int hipEventQuery(void *e)
{
    MAY_FAIL();
    return fake_event_query(e);
}

int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *s)
{
    MAY_FAIL();
    return kind == 4 ? fake_copy(dst, src, bytes, s) : FAKE_INVALID;
}
