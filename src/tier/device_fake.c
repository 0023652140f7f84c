/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for libcuda.so.1 and libamdhip64.so in tests: two devices of host memory, work done at
 * once. It is strict where the real libraries are: a context must be current, handles must be alive,
 * and what was made must be given back. $FAKE_GPU_FAIL="symbol code" makes one function fail;
 * $FAKE_GPU_SLOW is how often an event is asked for before its work is done. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES   2
#define THINGS    256
#define MEMORY    ((size_t)64 << 20)
#define API       __attribute__((visibility("default")))
#define INVALID   1
#define NO_MEM    2
#define NO_CTX    201
#define BAD_HAND  400
#define NOT_READY 600

enum kind { NOTHING, MEMORY_OF, HOST, STREAM, EVENT };

struct thing {
    enum kind kind;
    int device;
    char *start;
    size_t bytes;
    void *recorded_on; /* events */
    int left;          /* events: not ready so many times more */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct thing things[THINGS]; /* lock */
static int retained[DEVICES];       /* lock */
static int contexts[DEVICES];       /* their addresses are the contexts */
static _Thread_local int stack[16]; /* of devices */
static _Thread_local int depth;
static _Thread_local int hip_device;
static int uses_hip; /* the current device counts, not the stack */

/* For the tests: what is alive. */
API int fake_gpu_live(void);
API int fake_gpu_depth(void);

static int fails(const char *symbol)
{
    const char *spec = getenv("FAKE_GPU_FAIL");
    char name[64];
    int code;

    if (spec == NULL || sscanf(spec, "%63s %d", name, &code) != 2 || strcmp(name, symbol) != 0)
        return 0;
    return code;
}

#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        int fail_code = fails(__func__);                                                           \
        if (fail_code != 0)                                                                        \
            return fail_code;                                                                      \
    } while (0)

static int current(void)
{
    return uses_hip ? hip_device : depth > 0 ? stack[depth - 1] : -1;
}

static struct thing *make(enum kind kind, char *start, size_t bytes)
{
    int i;

    for (i = 0; i < THINGS; i++) {
        if (things[i].kind != NOTHING)
            continue;
        things[i] = (struct thing){kind, current(), start, bytes, NULL, 0};
        return &things[i];
    }
    return NULL;
}

static struct thing *containing(enum kind kind, const void *p)
{
    int i;

    for (i = 0; i < THINGS; i++)
        if (things[i].kind == kind && (const char *)p >= things[i].start &&
            (size_t)((const char *)p - things[i].start) < things[i].bytes)
            return &things[i];
    return NULL;
}

static int is_alive(const void *handle, enum kind kind)
{
    const struct thing *t = handle;

    return t >= things && t < things + THINGS && t->kind == kind;
}

int fake_gpu_live(void)
{
    int n = 0;
    int i;

    (void)pthread_mutex_lock(&mu);
    for (i = 0; i < THINGS; i++)
        n += things[i].kind != NOTHING;
    for (i = 0; i < DEVICES; i++)
        n += retained[i];
    (void)pthread_mutex_unlock(&mu);
    return n;
}

int fake_gpu_depth(void)
{
    return depth + hip_device;
}

/* What both APIs do. ---------------------------------------------------------------------------------- */

static int do_alloc(void **ret, size_t bytes)
{
    size_t used = bytes;
    int r = 0;
    int i;

    if (current() < 0)
        return NO_CTX;
    (void)pthread_mutex_lock(&mu);
    for (i = 0; i < THINGS; i++)
        if (things[i].kind == MEMORY_OF && things[i].device == current())
            used += things[i].bytes;
    if (used > MEMORY) {
        r = NO_MEM;
    } else {
        *ret = malloc(bytes);
        (void)make(MEMORY_OF, *ret, bytes);
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

static int do_free(void *p, enum kind kind)
{
    struct thing *t;
    int r = INVALID;

    (void)pthread_mutex_lock(&mu);
    t = containing(kind, p);
    if (t != NULL && t->start == p) {
        t->kind = NOTHING;
        r = 0;
    }
    (void)pthread_mutex_unlock(&mu);
    if (r == 0 && kind == MEMORY_OF)
        free(p);
    return r;
}

static int do_register(void *p, size_t bytes)
{
    if (current() < 0)
        return NO_CTX;
    (void)pthread_mutex_lock(&mu);
    (void)make(HOST, p, bytes);
    (void)pthread_mutex_unlock(&mu);
    return 0;
}

static int do_make(void **ret, enum kind kind)
{
    if (current() < 0)
        return NO_CTX;
    (void)pthread_mutex_lock(&mu);
    *ret = make(kind, NULL, 0);
    (void)pthread_mutex_unlock(&mu);
    return 0;
}

static int do_destroy(void *handle, enum kind kind)
{
    if (!is_alive(handle, kind))
        return BAD_HAND;
    ((struct thing *)handle)->kind = NOTHING;
    return 0;
}

static int do_record(void *event, void *stream, const void *legacy)
{
    const char *slow = getenv("FAKE_GPU_SLOW");

    if (current() < 0)
        return NO_CTX;
    if (!is_alive(event, EVENT) || (stream != legacy && !is_alive(stream, STREAM)))
        return BAD_HAND;
    ((struct thing *)event)->recorded_on = stream != NULL ? stream : event;
    ((struct thing *)event)->left = slow != NULL ? atoi(slow) : 0;
    return 0;
}

static int do_wait(const void *event)
{
    return is_alive(event, EVENT) && ((const struct thing *)event)->recorded_on != NULL ? 0
                                                                                        : BAD_HAND;
}

static int do_query(void *event)
{
    int r = do_wait(event);

    return r == 0 && ((struct thing *)event)->left-- > 0 ? NOT_READY : r;
}

static int do_copy(void *dst, const void *src, size_t bytes, const void *stream)
{
    if (current() < 0)
        return NO_CTX;
    if (!is_alive(stream, STREAM))
        return BAD_HAND;
    memcpy(dst, src, bytes);
    return 0;
}

static int do_pointer(void *data, int attribute, const void *p, unsigned device_type,
                      unsigned host_type)
{
    const struct thing *t;
    const struct thing *host;

    if (current() < 0)
        return NO_CTX;
    (void)pthread_mutex_lock(&mu);
    t = containing(MEMORY_OF, p);
    host = containing(HOST, p);
    (void)pthread_mutex_unlock(&mu);
    if (t == NULL && host == NULL)
        return INVALID;
    if (attribute == 2)
        *(unsigned *)data = t != NULL ? device_type : host_type;
    else if (attribute == 8)
        *(char *)data = 0;
    else if (attribute == 9)
        *(int *)data = (t != NULL ? t : host)->device;
    else
        return INVALID;
    return 0;
}

/* CUDA. ----------------------------------------------------------------------------------------------- */

typedef unsigned long long ptr;

API int cuInit(unsigned flags);
API int cuGetErrorString(int r, const char **text);
API int cuDeviceGetCount(int *n);
API int cuDeviceGet(int *dev, int ordinal);
API int cuDevicePrimaryCtxRetain(void **ctx, int dev);
API int cuDevicePrimaryCtxRelease_v2(int dev);
API int cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active);
API int cuCtxGetCurrent(void **ctx);
API int cuCtxPushCurrent_v2(void *ctx);
API int cuCtxPopCurrent_v2(void **ctx);
API int cuMemGetInfo_v2(size_t *left, size_t *total);
API int cuMemAlloc_v2(ptr *p, size_t bytes);
API int cuMemFree_v2(ptr p);
API int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
API int cuMemHostUnregister(void *p);
API int cuPointerGetAttribute(void *data, int attribute, ptr p);
API int cuStreamCreate(void **s, unsigned flags);
API int cuStreamDestroy_v2(void *s);
API int cuStreamWaitEvent(void *s, void *e, unsigned flags);
API int cuEventCreate(void **e, unsigned flags);
API int cuEventDestroy_v2(void *e);
API int cuEventRecord(void *e, void *s);
API int cuEventSynchronize(void *e);
API int cuEventQuery(void *e);
API int cuMemcpyAsync(ptr dst, ptr src, size_t bytes, void *s);

int cuInit(unsigned flags)
{
    MAY_FAIL();
    uses_hip = 0;
    return flags != 0 ? INVALID : 0;
}

int cuGetErrorString(int r, const char **text)
{
    *text = r == NO_MEM ? "out of memory" : "fake error";
    return 0;
}

int cuDeviceGetCount(int *n)
{
    MAY_FAIL();
    *n = DEVICES;
    return 0;
}

int cuDeviceGet(int *dev, int ordinal)
{
    MAY_FAIL();
    *dev = ordinal + 10; /* a handle is not an ordinal */
    return 0;
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
    MAY_FAIL();
    (void)pthread_mutex_lock(&mu);
    retained[dev - 10]++;
    (void)pthread_mutex_unlock(&mu);
    *ctx = &contexts[dev - 10];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int dev)
{
    (void)pthread_mutex_lock(&mu);
    retained[dev - 10]--;
    (void)pthread_mutex_unlock(&mu);
    return 0;
}

int cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active)
{
    *flags = 0;
    (void)pthread_mutex_lock(&mu);
    *active = retained[dev - 10] > 0;
    (void)pthread_mutex_unlock(&mu);
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
        return NO_CTX;
    *ctx = &contexts[stack[--depth]];
    return 0;
}

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    MAY_FAIL();
    *left = *total = MEMORY;
    return current() < 0 ? NO_CTX : 0;
}

int cuMemAlloc_v2(ptr *p, size_t bytes)
{
    void *mem = NULL;
    int r;

    MAY_FAIL();
    r = do_alloc(&mem, bytes);
    *p = (ptr)(uintptr_t)mem;
    return r;
}

int cuMemFree_v2(ptr p)
{
    return current() < 0 ? NO_CTX : do_free((void *)(uintptr_t)p, MEMORY_OF);
}

int cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    MAY_FAIL();
    return flags == 1 ? do_register(p, bytes) : INVALID;
}

int cuMemHostUnregister(void *p)
{
    return do_free(p, HOST);
}

int cuPointerGetAttribute(void *data, int attribute, ptr p)
{
    MAY_FAIL();
    return do_pointer(data, attribute, (void *)(uintptr_t)p, 2, 1);
}

int cuStreamCreate(void **s, unsigned flags)
{
    MAY_FAIL();
    return flags == 1 ? do_make(s, STREAM) : INVALID;
}

int cuStreamDestroy_v2(void *s)
{
    return do_destroy(s, STREAM);
}

int cuStreamWaitEvent(void *s, void *e, unsigned flags)
{
    MAY_FAIL();
    return flags == 0 && is_alive(s, STREAM) ? do_wait(e) : BAD_HAND;
}

int cuEventCreate(void **e, unsigned flags)
{
    MAY_FAIL();
    return (flags & 2) != 0 ? do_make(e, EVENT) : INVALID;
}

int cuEventDestroy_v2(void *e)
{
    return do_destroy(e, EVENT);
}

int cuEventRecord(void *e, void *s)
{
    MAY_FAIL();
    return do_record(e, s, (void *)(uintptr_t)1);
}

int cuEventSynchronize(void *e)
{
    MAY_FAIL();
    return do_wait(e);
}

int cuEventQuery(void *e)
{
    MAY_FAIL();
    return do_query(e);
}

int cuMemcpyAsync(ptr dst, ptr src, size_t bytes, void *s)
{
    MAY_FAIL();
    return do_copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes, s);
}

/* HIP. ------------------------------------------------------------------------------------------------- */

API int hipInit(unsigned flags);
API const char *hipGetErrorString(int r);
API int hipRuntimeGetVersion(int *version);
API int hipGetDeviceCount(int *n);
API int hipGetDevice(int *ordinal);
API int hipSetDevice(int ordinal);
API int hipMemGetInfo(size_t *left, size_t *total);
API int hipMalloc(void **p, size_t bytes);
API int hipFree(void *p);
API int hipHostRegister(void *p, size_t bytes, unsigned flags);
API int hipHostUnregister(void *p);
API int hipPointerGetAttribute(void *data, int attribute, void *p);
API int hipStreamCreateWithFlags(void **s, unsigned flags);
API int hipStreamDestroy(void *s);
API int hipStreamWaitEvent(void *s, void *e, unsigned flags);
API int hipEventCreateWithFlags(void **e, unsigned flags);
API int hipEventDestroy(void *e);
API int hipEventRecord(void *e, void *s);
API int hipEventSynchronize(void *e);
API int hipEventQuery(void *e);
API int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *s);

int hipInit(unsigned flags)
{
    MAY_FAIL();
    uses_hip = 1;
    return flags != 0 ? INVALID : 0;
}

const char *hipGetErrorString(int r)
{
    return r == NO_MEM ? "out of memory" : "fake error";
}

int hipRuntimeGetVersion(int *version)
{
    *version = getenv("FAKE_GPU_OLD") != NULL ? 50631062 : 60032830;
    return 0;
}

int hipGetDeviceCount(int *n)
{
    MAY_FAIL();
    *n = DEVICES;
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

int hipMemGetInfo(size_t *left, size_t *total)
{
    MAY_FAIL();
    *left = *total = MEMORY;
    return 0;
}

int hipMalloc(void **p, size_t bytes)
{
    MAY_FAIL();
    return do_alloc(p, bytes);
}

int hipFree(void *p)
{
    return do_free(p, MEMORY_OF);
}

int hipHostRegister(void *p, size_t bytes, unsigned flags)
{
    MAY_FAIL();
    return flags == 1 ? do_register(p, bytes) : INVALID;
}

int hipHostUnregister(void *p)
{
    return do_free(p, HOST);
}

int hipPointerGetAttribute(void *data, int attribute, void *p)
{
    MAY_FAIL();
    return getenv("FAKE_GPU_OLD") != NULL ? do_pointer(data, attribute, p, 1, 0)
                                          : do_pointer(data, attribute, p, 2, 1);
}

int hipStreamCreateWithFlags(void **s, unsigned flags)
{
    MAY_FAIL();
    return flags == 1 ? do_make(s, STREAM) : INVALID;
}

int hipStreamDestroy(void *s)
{
    return do_destroy(s, STREAM);
}

int hipStreamWaitEvent(void *s, void *e, unsigned flags)
{
    MAY_FAIL();
    return flags == 0 && is_alive(s, STREAM) ? do_wait(e) : BAD_HAND;
}

int hipEventCreateWithFlags(void **e, unsigned flags)
{
    MAY_FAIL();
    return (flags & 2) != 0 ? do_make(e, EVENT) : INVALID;
}

int hipEventDestroy(void *e)
{
    return do_destroy(e, EVENT);
}

int hipEventRecord(void *e, void *s)
{
    MAY_FAIL();
    return do_record(e, s, NULL);
}

int hipEventSynchronize(void *e)
{
    MAY_FAIL();
    return do_wait(e);
}

int hipEventQuery(void *e)
{
    MAY_FAIL();
    return do_query(e);
}

int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *s)
{
    MAY_FAIL();
    return kind == 4 ? do_copy(dst, src, bytes, s) : INVALID;
}
