/* SPDX-License-Identifier: BSD-3-Clause */
/* Managed memory with all the advice that CUDA takes, as the paper compares it: each checkpoint is a
 * managed allocation. After a capture it is advised to the host and migrated there in the background;
 * hints migrate the next ones to the device, as many as the device tier of the other methods holds.
 * All of it stays in memory: there is no file tier, which favours this method. */
#include <dlfcn.h>
#include <stdlib.h>

#include "common.h"
#include "shot.h"

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUctx_st *CUcontext;
struct location { /* CUmemLocation */
    int type;     /* 1: device, 2: host */
    int id;
};

enum { AT_DEVICE = 1, AT_HOST = 2, ATTACH_GLOBAL = 1, PREFERRED = 3, ACCESSED_BY = 5 };

/* X(field, symbol, arguments) */
#define SYMBOLS(X)                                                                                 \
    X(init, cuInit, (unsigned flags))                                                              \
    X(device_get, cuDeviceGet, (int *dev, int ordinal))                                            \
    X(ctx_retain, cuDevicePrimaryCtxRetain, (CUcontext * ctx, int dev))                            \
    X(ctx_set, cuCtxSetCurrent, (CUcontext ctx))                                                   \
    X(memset32, cuMemsetD32_v2, (CUdeviceptr p, unsigned word, size_t n))                          \
    X(sync, cuCtxSynchronize, (void))                                                              \
    X(alloc, cuMemAllocManaged, (CUdeviceptr * p, size_t bytes, unsigned flags))                   \
    X(free, cuMemFree_v2, (CUdeviceptr p))                                                         \
    X(advise, cuMemAdvise_v2, (CUdeviceptr p, size_t bytes, int advice, struct location where))    \
    X(migrate, cuMemPrefetchAsync_v2,                                                              \
      (CUdeviceptr p, size_t bytes, struct location where, unsigned flags, CUstream s))            \
    X(stream_create, cuStreamCreate, (CUstream * s, unsigned flags))                               \
    X(stream_destroy, cuStreamDestroy_v2, (CUstream s))                                            \
    X(stream_sync, cuStreamSynchronize, (CUstream s))                                              \
    X(event_create, cuEventCreate, (CUevent * e, unsigned flags))                                  \
    X(event_destroy, cuEventDestroy_v2, (CUevent e))                                               \
    X(event_record, cuEventRecord, (CUevent e, CUstream s))                                        \
    X(event_sync, cuEventSynchronize, (CUevent e))                                                 \
    X(copy, cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s))

struct shot_cuda {
/* Declarators cannot be put in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define FIELD(field, symbol, arguments) CUresult(*field) arguments;
    SYMBOLS(FIELD)
#undef FIELD
};

static void check(CUresult r, const char *what)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "CUDA error %d", r);
    if (r != 0)
        shot_die(what, text);
}

struct shot_cuda *shot_cuda_open(void)
{
    static struct shot_cuda cuda;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext ctx;
    int dev;

    if (lib == NULL)
        return NULL;
#define FIND(field, symbol, arguments)                                                             \
    *(void **)&cuda.field = dlsym(lib, #symbol);                                                   \
    if (cuda.field == NULL)                                                                        \
        shot_die("libcuda.so.1 has no", #symbol);
    SYMBOLS(FIND)
#undef FIND
    check(cuda.init(0), "cuInit");
    check(cuda.device_get(&dev, 0), "device 0");
    check(cuda.ctx_retain(&ctx, dev), "primary context");
    check(cuda.ctx_set(ctx), "primary context");
    return &cuda;
}

void shot_cuda_fill(struct shot_cuda *cuda, void *ptr, uint32_t word, uint64_t bytes)
{
    check(cuda->memset32((CUdeviceptr)(uintptr_t)ptr, word, bytes / 4), "fill");
    check(cuda->sync(), "fill");
}

/* The method. ----------------------------------------------------------------------------------------- */

struct uvm {
    struct shot_cuda *cuda;
    const struct shot_case *c;
    CUdeviceptr *p;
    CUevent *moved; /* end of the last migration of each */
    int *is_up;     /* on the device, or on its way */
    CUstream down, up, copy;
    uint64_t on_device; /* bytes */
    uint32_t oldest;    /* next to be waited for when the device's share is full, while writing */
    uint32_t next_hint; /* reads: next to be brought */
};

static void go(struct uvm *u, uint32_t i, int where, CUstream s)
{
    struct location l = {where, 0};

    check(u->cuda->advise(u->p[i], u->c->bytes[i], PREFERRED, l), "advise");
    check(u->cuda->migrate(u->p[i], u->c->bytes[i], l, 0, s), "migrate");
    check(u->cuda->event_record(u->moved[i], s), "event");
}

static void uvm_open(struct uvm *u, struct shot_env *env, const struct shot_case *c)
{
    struct location device = {AT_DEVICE, 0};
    uint32_t i;

    u->cuda = env->cuda;
    u->c = c;
    u->p = calloc(c->n, sizeof(*u->p));
    u->moved = calloc(c->n, sizeof(*u->moved));
    u->is_up = calloc(c->n, sizeof(*u->is_up));
    if (u->p == NULL || u->moved == NULL || u->is_up == NULL)
        shot_die("uvm", "out of memory");
    check(u->cuda->stream_create(&u->down, 1), "stream");
    check(u->cuda->stream_create(&u->up, 1), "stream");
    check(u->cuda->stream_create(&u->copy, 1), "stream");
    for (i = 0; i < c->n; i++) {
        check(u->cuda->alloc(&u->p[i], c->bytes[i], ATTACH_GLOBAL), "managed memory");
        check(u->cuda->advise(u->p[i], c->bytes[i], ACCESSED_BY, device), "advise");
        check(u->cuda->event_create(&u->moved[i], 2), "event");
    }
}

static void uvm_close(struct uvm *u)
{
    uint32_t i;

    check(u->cuda->sync(), "uvm");
    for (i = 0; i < u->c->n; i++) {
        check(u->cuda->free(u->p[i]), "free");
        check(u->cuda->event_destroy(u->moved[i]), "event");
    }
    check(u->cuda->stream_destroy(u->down), "stream");
    check(u->cuda->stream_destroy(u->up), "stream");
    check(u->cuda->stream_destroy(u->copy), "stream");
    free(u->p);
    free(u->moved);
    free(u->is_up);
}

/* Its pages are made on the device, then leave for the host; the share of the device is not passed. */
static void uvm_write(struct uvm *u, struct shot_env *env, uint32_t i)
{
    struct location device = {AT_DEVICE, 0};
    uint64_t bytes = u->c->bytes[i];

    while (u->on_device + bytes > u->c->device_bytes) {
        check(u->cuda->event_sync(u->moved[u->oldest]), "migrate");
        u->is_up[u->oldest] = 0;
        u->on_device -= u->c->bytes[u->oldest++];
    }
    u->on_device += bytes;
    u->is_up[i] = 1;
    check(u->cuda->advise(u->p[i], bytes, PREFERRED, device), "advise");
    check(u->cuda->migrate(u->p[i], bytes, device, 0, u->copy), "migrate");
    check(u->cuda->copy(u->p[i], (CUdeviceptr)(uintptr_t)env->buffer, bytes, u->copy), "copy");
    check(u->cuda->stream_sync(u->copy), "copy");
}

/* As many of the next hints as the device's share holds. */
static void uvm_prefetch(struct uvm *u, uint32_t upto)
{
    while (u->next_hint < upto) {
        uint32_t i = u->c->order[u->next_hint];

        if (!u->is_up[i]) {
            if (u->on_device + u->c->bytes[i] > u->c->device_bytes)
                return;
            u->on_device += u->c->bytes[i];
            u->is_up[i] = 1;
            go(u, i, AT_DEVICE, u->up);
        }
        u->next_hint++;
    }
}

static void uvm_read(struct uvm *u, struct shot_env *env, uint32_t i)
{
    uint64_t bytes = u->c->bytes[i];

    if (u->is_up[i])
        check(u->cuda->event_sync(u->moved[i]), "migrate");
    check(u->cuda->copy((CUdeviceptr)(uintptr_t)env->buffer, u->p[i], bytes, u->copy), "copy");
    check(u->cuda->stream_sync(u->copy), "copy");
}

static void uvm_consume(struct uvm *u, uint32_t i)
{
    if (u->is_up[i])
        u->on_device -= u->c->bytes[i];
    u->is_up[i] = 0;
    go(u, i, AT_HOST, u->down);
}

static void run_uvm(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    struct uvm u = {0};
    double start;
    uint32_t i;

    uvm_open(&u, env, c);
    for (i = 0; i < c->n; i++) {
        shot_fill(env, c, i);
        shot_compute(c);
        start = bench_now();
        uvm_write(&u, env, i);
        go(&u, i, AT_HOST, u.down);
        ret->write_s += bench_now() - start;
    }
    start = bench_now();
    check(u.cuda->stream_sync(u.down), "migrate");
    if (c->wait)
        ret->flush_s = bench_now() - start;
    u.on_device = 0;
    for (i = 0; i < c->n; i++)
        u.is_up[i] = 0;
    for (i = 0; i < c->n; i++) {
        uint32_t key = c->order[i];

        start = bench_now();
        if (c->hints == SHOT_ALL)
            uvm_prefetch(&u, c->n);
        uvm_read(&u, env, key);
        uvm_consume(&u, key);
        if (c->hints == SHOT_ONE) {
            u.next_hint = i + 1;
            uvm_prefetch(&u, i + 2 < c->n ? i + 2 : c->n);
        } else if (c->hints == SHOT_ALL) {
            uvm_prefetch(&u, c->n);
        }
        ret->read_s += bench_now() - start;
        shot_compare(env, c, key, "uvm");
        shot_compute(c);
    }
    uvm_close(&u);
}

const struct shot_method shot_uvm = {"uvm", NULL, 1, run_uvm};
