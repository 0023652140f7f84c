/* SPDX-License-Identifier: BSD-3-Clause */
/* Managed memory with all the advice that CUDA takes, as in the paper's comparison: each
 * checkpoint is a managed allocation. After a capture a thread advises it to the host and
 * migrates it there; another thread migrates the next hints to the device, as many as the device
 * tier of the other methods holds. After a read, an image is only advised away. With uvm all of
 * it stays in memory, without the limit on the host tier of the other methods. With uvm-files
 * that limit holds: one of two threads writes images beyond it to files, returns their memory to
 * the system, and reads them again when their hint or read comes; from files in the page cache,
 * without checksums. */
#include <dlfcn.h>
#include <stdlib.h>

#include "common.h"
#include "shot.h"

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st *CUstream;
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
    X(copy, cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream s))

struct shot_cuda {
/* Declarators cannot be put in parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define FIELD(field, symbol, arguments) CUresult(*field) arguments;
    SYMBOLS(FIELD)
#undef FIELD
    CUcontext ctx;
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
    check(cuda.ctx_retain(&cuda.ctx, dev), "primary context");
    check(cuda.ctx_set(cuda.ctx), "primary context");
    return &cuda;
}

void shot_cuda_fill(struct shot_cuda *cuda, void *ptr, uint32_t word, uint64_t bytes)
{
    check(cuda->memset32((CUdeviceptr)(uintptr_t)ptr, word, bytes / 4), "fill");
    check(cuda->sync(), "fill");
}

/* The method. ------------------------------------------------------------------------------------ */

enum where { NOWHERE, ON_DEVICE, GOING_DOWN, ON_HOST, GOING_UP, GOING_OUT, IN_FILE };

#define SAVERS 2

struct uvm {
    struct shot_cuda *cuda;
    const struct shot_case *c;
    struct shot_env *env;
    CUstream down, up, copy;
    struct crn_mutex mu;
    struct crn_cond changed;
    CUdeviceptr *p;
    enum where *where;   /* lock */
    int *is_read;        /* lock */
    uint64_t on_device;  /* lock: bytes there, or on their way up */
    uint64_t on_host;    /* lock: bytes there, or on their way down; those on their way up still */
    uint64_t host_bytes; /* UINT64_MAX: no limit */
    int wants_host;      /* lock: a thread waits for space there */
    uint32_t written;    /* lock */
    uint32_t hints;      /* lock: so many of the order may be brought */
    int is_done;         /* lock */
    pthread_t thread[2 + SAVERS]; /* down, up, out */
};

static void migrate(struct uvm *u, uint32_t i, int where, CUstream s)
{
    struct location l = {where, 0};

    check(u->cuda->advise(u->p[i], u->c->bytes[i], PREFERRED, l), "advise");
    check(u->cuda->migrate(u->p[i], u->c->bytes[i], l, 0, s), "migrate");
    check(u->cuda->stream_sync(s), "migrate");
}

/* Takes space in the host, which the savers provide; 0: the image need not go there any more. */
static int need_host_locked(struct uvm *u, uint32_t i) CRN_REQUIRES(u->mu)
{
    u->wants_host++;
    while (!u->is_done && !u->is_read[i] && u->on_host + u->c->bytes[i] > u->host_bytes) {
        crn_cond_broadcast(&u->changed);
        crn_cond_wait(&u->changed, &u->mu);
    }
    u->wants_host--;
    if (u->is_done || u->is_read[i])
        return 0;
    u->on_host += u->c->bytes[i];
    return 1;
}

/* The image in the host that is read last, which this method knows without hints; n: none. */
static uint32_t last_read_locked(const struct uvm *u) CRN_REQUIRES(u->mu)
{
    uint32_t i;

    for (i = u->c->n; i-- > 0;)
        if (u->where[u->c->order[i]] == ON_HOST && !u->is_read[u->c->order[i]])
            return u->c->order[i];
    return u->c->n;
}

/* Writes images to files when the host has no space. */
static void *go_out(void *arg)
{
    struct uvm *u = arg;

    check(u->cuda->ctx_set(u->cuda->ctx), "context");
    crn_lock(&u->mu);
    while (!u->is_done) {
        int is_full = u->wants_host > 0 && u->on_host + u->c->largest > u->host_bytes;
        uint32_t i = is_full ? last_read_locked(u) : u->c->n;

        if (i == u->c->n) {
            crn_cond_wait(&u->changed, &u->mu);
            continue;
        }
        u->where[i] = GOING_OUT;
        crn_unlock(&u->mu);
        shot_save(u->env, i, (void *)(uintptr_t)u->p[i], u->c->bytes[i]);
        check(u->cuda->free(u->p[i]), "free");
        u->p[i] = 0;
        crn_lock(&u->mu);
        u->where[i] = IN_FILE;
        u->on_host -= u->c->bytes[i];
        crn_cond_broadcast(&u->changed);
    }
    crn_unlock(&u->mu);
    return NULL;
}

/* New pages, in the host at first. */
static void make(struct uvm *u, uint32_t i)
{
    struct location device = {AT_DEVICE, 0};

    check(u->cuda->alloc(&u->p[i], u->c->bytes[i], ATTACH_GLOBAL), "managed memory");
    check(u->cuda->advise(u->p[i], u->c->bytes[i], ACCESSED_BY, device), "advise");
}

/* From its file, through the host, whose limit does not count it. */
static void bring_back(struct uvm *u, uint32_t i)
{
    make(u, i);
    shot_load(u->env, i, (void *)(uintptr_t)u->p[i], u->c->bytes[i]);
}

/* One migration after another, in the order of writing or of the hints; skips images that were
 * read. */
static void *go_down(void *arg)
{
    struct uvm *u = arg;
    uint32_t i = 0;

    check(u->cuda->ctx_set(u->cuda->ctx), "context");
    crn_lock(&u->mu);
    while (!u->is_done) {
        if (i == u->written) {
            crn_cond_wait(&u->changed, &u->mu);
            continue;
        }
        if (need_host_locked(u, i)) {
            u->where[i] = GOING_DOWN;
            crn_unlock(&u->mu);
            migrate(u, i, AT_HOST, u->down);
            crn_lock(&u->mu);
            u->where[i] = ON_HOST;
            u->on_device -= u->c->bytes[i];
            crn_cond_broadcast(&u->changed);
        }
        i++;
    }
    crn_unlock(&u->mu);
    return NULL;
}

static int may_go_up(const struct uvm *u, uint32_t i)
{
    return (u->where[i] == ON_HOST || u->where[i] == IN_FILE) &&
           u->on_device + u->c->bytes[i] <= u->c->device_bytes;
}

static void *go_up(void *arg)
{
    struct uvm *u = arg;
    uint32_t next = 0;

    check(u->cuda->ctx_set(u->cuda->ctx), "context");
    crn_lock(&u->mu);
    while (!u->is_done) {
        uint32_t i = next < u->hints ? u->c->order[next] : 0;

        if (next < u->hints && (u->is_read[i] || u->where[i] == ON_DEVICE)) {
            next++;
        } else if (next < u->hints && may_go_up(u, i)) {
            int is_in_file = u->where[i] == IN_FILE;

            u->where[i] = GOING_UP;
            u->on_device += u->c->bytes[i];
            crn_unlock(&u->mu);
            if (is_in_file)
                bring_back(u, i);
            migrate(u, i, AT_DEVICE, u->up);
            crn_lock(&u->mu);
            u->where[i] = ON_DEVICE;
            u->on_host -= is_in_file ? 0 : u->c->bytes[i];
            crn_cond_broadcast(&u->changed);
        } else {
            crn_cond_wait(&u->changed, &u->mu);
        }
    }
    crn_unlock(&u->mu);
    return NULL;
}

static void uvm_open(struct uvm *u, struct shot_env *env, const struct shot_case *c, int has_files)
{
    struct crn_errinfo ei = {0};
    uint32_t i;

    u->cuda = env->cuda;
    u->env = env;
    u->c = c;
    u->host_bytes = has_files ? c->host_bytes : UINT64_MAX;
    u->p = calloc(c->n, sizeof(*u->p));
    u->where = calloc(c->n, sizeof(*u->where));
    u->is_read = calloc(c->n, sizeof(*u->is_read));
    if (u->p == NULL || u->where == NULL || u->is_read == NULL)
        shot_die("uvm", "out of memory");
    crn_mutex_init(&u->mu, CRN_RANK_LEAF);
    crn_cond_init(&u->changed);
    check(u->cuda->stream_create(&u->down, 1), "stream");
    check(u->cuda->stream_create(&u->up, 1), "stream");
    check(u->cuda->stream_create(&u->copy, 1), "stream");
    for (i = 0; i < c->n; i++)
        make(u, i);
    shot_check(crn_thread_start(&u->thread[0], "uvm-down", go_down, u, &ei), &ei, "uvm");
    shot_check(crn_thread_start(&u->thread[1], "uvm-up", go_up, u, &ei), &ei, "uvm");
    for (i = 0; i < SAVERS; i++)
        shot_check(crn_thread_start(&u->thread[2 + i], "uvm-out", go_out, u, &ei), &ei, "uvm");
}

static void uvm_close(struct uvm *u)
{
    uint32_t i;

    crn_lock(&u->mu);
    u->is_done = 1;
    crn_cond_broadcast(&u->changed);
    crn_unlock(&u->mu);
    for (i = 0; i < 2 + SAVERS; i++)
        (void)pthread_join(u->thread[i], NULL);
    check(u->cuda->sync(), "uvm");
    for (i = 0; i < u->c->n; i++)
        check(u->p[i] != 0 ? u->cuda->free(u->p[i]) : 0, "free");
    check(u->cuda->stream_destroy(u->down), "stream");
    check(u->cuda->stream_destroy(u->up), "stream");
    check(u->cuda->stream_destroy(u->copy), "stream");
    crn_cond_fini(&u->changed);
    crn_mutex_fini(&u->mu);
    free(u->p);
    free(u->where);
    free(u->is_read);
}

/* Its pages are made on the device; the share of the device is not passed. */
static void uvm_write(struct uvm *u, uint32_t i)
{
    struct location device = {AT_DEVICE, 0};
    uint64_t bytes = u->c->bytes[i];

    crn_lock(&u->mu);
    while (u->on_device + bytes > u->c->device_bytes)
        crn_cond_wait(&u->changed, &u->mu);
    u->on_device += bytes;
    crn_unlock(&u->mu);
    check(u->cuda->advise(u->p[i], bytes, PREFERRED, device), "advise");
    check(u->cuda->migrate(u->p[i], bytes, device, 0, u->copy), "migrate");
    check(u->cuda->copy(u->p[i], (CUdeviceptr)(uintptr_t)u->env->buffer, bytes, u->copy), "copy");
    check(u->cuda->stream_sync(u->copy), "copy");
    crn_lock(&u->mu);
    u->where[i] = ON_DEVICE;
    u->written++;
    crn_cond_broadcast(&u->changed);
    crn_unlock(&u->mu);
}

static void uvm_flush(struct uvm *u)
{
    uint32_t i;

    crn_lock(&u->mu);
    for (i = 0; i < u->c->n; i++)
        while (u->where[i] != ON_HOST && u->where[i] != IN_FILE)
            crn_cond_wait(&u->changed, &u->mu);
    crn_unlock(&u->mu);
}

static void uvm_hint(struct uvm *u, uint32_t n)
{
    crn_lock(&u->mu);
    u->hints = n;
    crn_cond_broadcast(&u->changed);
    crn_unlock(&u->mu);
}

/* Once read, an image may leave the device: advice is enough, because its bytes are not needed
 * again. */
static void uvm_read(struct uvm *u, uint32_t i)
{
    struct location host = {AT_HOST, 0};
    uint64_t bytes = u->c->bytes[i];
    int is_in_file;

    crn_lock(&u->mu);
    while (u->where[i] == GOING_UP || u->where[i] == GOING_DOWN || u->where[i] == GOING_OUT)
        crn_cond_wait(&u->changed, &u->mu);
    u->is_read[i] = 1;
    is_in_file = u->where[i] == IN_FILE;
    crn_unlock(&u->mu);
    if (is_in_file)
        bring_back(u, i);
    check(u->cuda->copy((CUdeviceptr)(uintptr_t)u->env->buffer, u->p[i], bytes, u->copy), "copy");
    check(u->cuda->stream_sync(u->copy), "copy");
    check(u->cuda->advise(u->p[i], bytes, PREFERRED, host), "advise");
    crn_lock(&u->mu);
    u->on_device -= u->where[i] == ON_DEVICE ? bytes : 0;
    u->on_host -= u->where[i] == ON_HOST ? bytes : 0;
    u->where[i] = NOWHERE;
    crn_cond_broadcast(&u->changed);
    crn_unlock(&u->mu);
}

static void run(struct shot_env *env, const struct shot_case *c, struct shot_result *ret,
                int has_files)
{
    struct uvm u = {0};
    double start;
    uint32_t i;

    uvm_open(&u, env, c, has_files);
    for (i = 0; i < c->n; i++) {
        shot_fill(env, c, i);
        shot_compute(env, c);
        start = bench_now();
        uvm_write(&u, i);
        ret->write_s += bench_now() - start;
    }
    start = bench_now();
    if (c->wait)
        uvm_flush(&u);
    ret->flush_s = bench_now() - start;
    if (c->hints == SHOT_ALL)
        uvm_hint(&u, c->n);
    for (i = 0; i < c->n; i++) {
        if (c->hints == SHOT_ONE && i + 1 < c->n)
            uvm_hint(&u, i + 2);
        start = bench_now();
        uvm_read(&u, c->order[i]);
        ret->read_s += bench_now() - start;
        shot_compare(env, c, c->order[i], has_files ? "uvm-files" : "uvm");
        shot_compute(env, c);
    }
    uvm_close(&u);
}

static void run_memory(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    run(env, c, ret, 0);
}

static void run_files(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    run(env, c, ret, 1);
}

const struct shot_method shot_uvm = {"uvm", NULL, 1, run_memory};
const struct shot_method shot_uvm_files = {"uvm-files", NULL, 1, run_files};
