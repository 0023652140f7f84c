/* SPDX-License-Identifier: BSD-3-Clause */
/* One lock for everything and one condition for every change: a test has few streams. Streams
 * outlive their handles until the library is unloaded, because others may still be ordered after
 * them. */
#include "tier/device_fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define THINGS   4096
#define SPECS    8
#define COPY_NS  20000   /* minimum duration of a copy */
#define SET_NS   3000000 /* of a kernel: long enough to expose a missing wait */
#define GLOBAL   0
#define RELAXED  2
#define BLOCKING 0 /* flags of a stream: 1 is non-blocking */

enum op_kind { OP_AFTER, OP_COPY, OP_SET };

struct device_fake_op {
    struct device_fake_op *next;
    enum op_kind kind;
    int hold; /* FAKE_HOLD_... */
    long ns;  /* how long it takes */
    char *dst;
    const char *src;
    void *staged; /* owned: a copy of pageable host memory */
    size_t bytes;
    unsigned word;
    struct device_fake_stream *other; /* OP_AFTER: wait until it has done so many */
    uint64_t position;
};

struct device_fake_capture {
    int is_on, is_invalid, has_strays, mode;
    pthread_t by;
};

struct device_fake_stream {
    struct device_fake_stream *next;
    int device;
    unsigned flags;
    int is_open; /* has a thread */
    int is_closing;
    pthread_t thread;
    struct device_fake_op *head, **tail;
    uint64_t given, done;
    struct device_fake_capture capture;
    struct device_fake_stream
        *captured_with; /* joined this stream's capture by waiting for an event of it */
};

struct thing {
    enum fake_kind kind;
    int device;
    char *start; /* the application's address; unreadable for device memory */
    char *own;   /* address of the same memory for the streams */
    size_t bytes;
    struct device_fake_stream *stream; /* streams: itself; events: where recorded, NULL: nowhere */
    uint64_t position;
    struct device_fake_stream *captured; /* events: recorded in this stream's capture */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct thing things[THINGS];
static int retained[FAKE_DEVICES];
static struct device_fake_stream *streams;
static struct device_fake_stream *legacy[FAKE_DEVICES], *per_thread[FAKE_DEVICES];
static int held;
static double link_bps, pageable_bps; /* 0: fast */
static long counts[FAKE_COUNTS];
static struct spec {
    char symbol[64];
    int code;
    long from, count, every, calls;
} specs[SPECS];
static int nspecs;

static _Thread_local int mode; /* of captures */
struct fake_names fake_names;

/* Failures on demand. -------------------------------------------------------------------------- */

void fake_gpu_fail(const char *text)
{
    (void)pthread_mutex_lock(&mu);
    nspecs = 0;
    while (text != NULL && *text != '\0' && nspecs < SPECS) {
        struct spec *s = &specs[nspecs];
        const char *end = strchr(text, ';');

        *s = (struct spec){.from = 1};
        if (sscanf(text, " %63[^ ;] %d %ld %ld %ld", s->symbol, &s->code, &s->from, &s->count,
                   &s->every) >= 2)
            nspecs++;
        text = end != NULL ? end + 1 : NULL;
    }
    (void)pthread_mutex_unlock(&mu);
}

int fake_fails(const char *symbol)
{
    int code = 0;
    int i;

    (void)pthread_mutex_lock(&mu);
    for (i = 0; i < nspecs; i++) {
        struct spec *s = &specs[i];
        long at;

        if (strcmp(s->symbol, symbol) != 0)
            continue;
        s->calls++;
        at = s->calls - s->from;
        if (at >= 0 && s->every > 0)
            at %= s->every;
        if (at >= 0 && (s->count == 0 || at < s->count))
            code = s->code;
    }
    (void)pthread_mutex_unlock(&mu);
    return code;
}

__attribute__((constructor)) static void fake_load(void)
{
    const char *speed = getenv("FAKE_GPU_SPEED");

    fake_gpu_fail(getenv("FAKE_GPU_FAIL"));
    if (speed != NULL)
        (void)sscanf(speed, "%lf %lf", &link_bps, &pageable_bps);
}

/* Objects. ------------------------------------------------------------------------------------- */

static struct thing *make_thing(enum fake_kind kind)
{
    int i;

    for (i = 0; i < THINGS; i++) {
        if (things[i].kind != FAKE_NOTHING)
            continue;
        things[i] = (struct thing){.kind = kind, .device = fake_current()};
        return &things[i];
    }
    __builtin_trap();
}

static struct thing *fake_containing(enum fake_kind kind, const void *p)
{
    int i;

    for (i = 0; i < THINGS; i++)
        if (things[i].kind == kind && (const char *)p >= things[i].start &&
            (size_t)((const char *)p - things[i].start) < things[i].bytes)
            return &things[i];
    return NULL;
}

static struct thing *fake_alive(void *handle, enum fake_kind kind)
{
    struct thing *t = handle;

    return t >= things && t < things + THINGS && t->kind == kind ? t : NULL;
}

int fake_gpu_live(void)
{
    int n = 0;
    int i;

    (void)pthread_mutex_lock(&mu);
    for (i = 0; i < THINGS; i++)
        n += things[i].kind != FAKE_NOTHING;
    for (i = 0; i < FAKE_DEVICES; i++)
        n += retained[i];
    (void)pthread_mutex_unlock(&mu);
    return n;
}

int fake_retain(int device, int by)
{
    (void)pthread_mutex_lock(&mu);
    retained[device] += by;
    (void)pthread_mutex_unlock(&mu);
    return 0;
}

int fake_is_retained(int device)
{
    int is_retained;

    (void)pthread_mutex_lock(&mu);
    is_retained = retained[device] > 0;
    (void)pthread_mutex_unlock(&mu);
    return is_retained;
}

void fake_gpu_hold(int kinds)
{
    (void)pthread_mutex_lock(&mu);
    held = kinds;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&mu);
}

long fake_gpu_count(int what)
{
    long n;

    (void)pthread_mutex_lock(&mu);
    n = counts[what];
    (void)pthread_mutex_unlock(&mu);
    return n;
}

void fake_gpu_speed(double link, double pageable)
{
    (void)pthread_mutex_lock(&mu);
    link_bps = link;
    pageable_bps = pageable;
    (void)pthread_mutex_unlock(&mu);
}

size_t fake_memory(void)
{
    const char *bytes = getenv("FAKE_GPU_MEMORY");

    return bytes != NULL ? strtoull(bytes, NULL, 10) : FAKE_MEMORY;
}

/* Streams. ------------------------------------------------------------------------------------- */

static void take_time(long ns)
{
    struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    (void)nanosleep(&ts, NULL);
}

static void device_fake_run(const struct device_fake_op *op)
{
    size_t i;

    if (op->kind == OP_COPY)
        memmove(op->dst, op->src, op->bytes);
    for (i = 0; op->kind == OP_SET && i < op->bytes / sizeof(unsigned); i++)
        ((unsigned *)(void *)op->dst)[i] = op->word;
}

static void *stream_main(void *arg)
{
    struct device_fake_stream *s = arg;

    (void)pthread_mutex_lock(&mu);
    for (;;) {
        struct device_fake_op *op = s->head;

        if (op == NULL && s->is_closing)
            break;
        if (op == NULL || (op->kind == OP_AFTER && op->other->done < op->position) ||
            (held & op->hold) != 0) {
            (void)pthread_cond_wait(&changed, &mu);
            continue;
        }
        if (op->kind != OP_AFTER) {
            (void)pthread_mutex_unlock(&mu);
            take_time(op->ns);
            device_fake_run(op);
            (void)pthread_mutex_lock(&mu);
        }
        s->head = op->next;
        s->tail = s->head != NULL ? s->tail : &s->head;
        s->done++;
        free(op->staged);
        free(op);
        (void)pthread_cond_broadcast(&changed);
    }
    (void)pthread_mutex_unlock(&mu);
    return NULL;
}

static struct device_fake_stream *open_stream(int device, unsigned flags)
{
    struct device_fake_stream *s = calloc(1, sizeof(*s));

    if (s == NULL)
        __builtin_trap();
    s->device = device;
    s->flags = flags;
    s->tail = &s->head;
    s->is_open = pthread_create(&s->thread, NULL, stream_main, s) == 0;
    s->next = streams;
    streams = s;
    return s;
}

/* Waits for its submitted operations. Unlocks meanwhile. */
static void close_stream(struct device_fake_stream *s)
{
    if (!s->is_open)
        return;
    s->is_open = 0;
    s->is_closing = 1;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&mu);
    (void)pthread_join(s->thread, NULL);
    (void)pthread_mutex_lock(&mu);
}

__attribute__((destructor)) static void fake_unload(void)
{
    (void)pthread_mutex_lock(&mu);
    held = 0;
    while (streams != NULL) {
        struct device_fake_stream *s = streams;

        close_stream(s);
        streams = s->next;
        free(s);
    }
    (void)pthread_mutex_unlock(&mu);
}

static struct device_fake_stream *find_stream(void *handle)
{
    struct thing *t = fake_alive(handle, FAKE_STREAM);
    struct device_fake_stream **named = handle == fake_names.legacy       ? legacy
                                        : handle == fake_names.per_thread ? per_thread
                                                                          : NULL;
    int device = fake_current();

    if (named == NULL)
        return t != NULL ? t->stream : NULL;
    if (device < 0)
        return NULL;
    if (named[device] == NULL)
        named[device] = open_stream(device, BLOCKING);
    return named[device];
}

static struct device_fake_op *push_op(struct device_fake_stream *s, enum op_kind kind)
{
    struct device_fake_op *op = calloc(1, sizeof(*op));

    if (op == NULL)
        __builtin_trap();
    op->kind = kind;
    *s->tail = op;
    s->tail = &op->next;
    s->given++;
    (void)pthread_cond_broadcast(&changed);
    return op;
}

static void order_behind(struct device_fake_stream *s, struct device_fake_stream *other,
                         uint64_t position)
{
    struct device_fake_op *op;

    if (s == other || other->done >= position)
        return;
    op = push_op(s, OP_AFTER);
    op->other = other;
    op->position = position;
}

/* The legacy stream and blocking streams wait for each other. */
static void fake_order(struct device_fake_stream *s)
{
    struct device_fake_stream *l = legacy[s->device];
    struct device_fake_stream *other;

    if (s->flags != BLOCKING || l == NULL)
        return;
    if (s != l) {
        order_behind(s, l, l->given);
        return;
    }
    for (other = streams; other != NULL; other = other->next)
        if (other->device == s->device && other->flags == BLOCKING)
            order_behind(s, other, other->given);
}

/* Waits until a stream has reached this position. */
static void wait_for(const struct device_fake_stream *s, uint64_t position)
{
    counts[FAKE_COUNT_WAITING]++;
    while (s->done < position)
        (void)pthread_cond_wait(&changed, &mu);
    counts[FAKE_COUNT_WAITING]--;
}

static void wait_for_device(int device)
{
    struct device_fake_stream *s;

    for (s = streams; s != NULL; s = s->next)
        if (s->device == device)
            wait_for(s, s->given);
}

/* Captures. ------------------------------------------------------------------------------------ */

/* May this thread make a call that could wait for a stream? If not, invalidates the captures that
 * forbid it. */
static int is_prohibited(void)
{
    struct device_fake_stream *s;
    int is = 0;

    for (s = streams; mode != RELAXED && s != NULL; s = s->next) {
        int is_mine = pthread_equal(s->capture.by, pthread_self());

        if (s->capture.is_on && ((is_mine && s->capture.mode != RELAXED) ||
                                 (mode == GLOBAL && s->capture.mode == GLOBAL)))
            s->capture.is_invalid = is = 1;
    }
    return is;
}

/* Is a stream of the device being captured? With is_fatal, invalidates those captures. */
static int has_captures(int device, int only_blocking, int is_fatal)
{
    struct device_fake_stream *s;
    int has = 0;

    for (s = streams; s != NULL; s = s->next) {
        if (s->device != device || !s->capture.is_on || (only_blocking && s->flags != BLOCKING))
            continue;
        has = 1;
        s->capture.is_invalid |= is_fatal;
    }
    return has;
}

/* The capture that records operations on this stream; NULL: they run. */
static struct device_fake_stream *fake_capturing(struct device_fake_stream *s)
{
    struct device_fake_stream *c = s->captured_with != NULL ? s->captured_with : s;

    return c->capture.is_on ? c : NULL;
}

static int fake_use(void *handle, struct device_fake_stream **ret)
{
    struct device_fake_stream *s = find_stream(handle);

    if (s == NULL)
        return fake_current() < 0 ? FAKE_NO_CONTEXT : FAKE_BAD_HANDLE;
    if (s == legacy[s->device] && has_captures(s->device, 1, 1))
        return FAKE_CAPTURE_IMPLICIT;
    *ret = s;
    return 0;
}

int fake_mode_exchange(int *ret)
{
    int before = mode;

    mode = *ret;
    *ret = before;
    return 0;
}

int fake_capture_begin(void *stream, int capture_mode)
{
    struct device_fake_stream *s = NULL;
    int r;

    (void)pthread_mutex_lock(&mu);
    r = fake_use(stream, &s);
    if (r == 0 && (s == legacy[s->device] || fake_capturing(s) != NULL))
        r = FAKE_CAPTURE_UNSUPPORTED;
    if (r == 0)
        s->capture =
            (struct device_fake_capture){.is_on = 1, .mode = capture_mode, .by = pthread_self()};
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_capture_end(void *stream)
{
    struct device_fake_stream *other;
    struct device_fake_stream *s;
    int r = FAKE_INVALID;

    (void)pthread_mutex_lock(&mu);
    s = find_stream(stream);
    if (s != NULL && s->capture.is_on) {
        r = s->capture.is_invalid   ? FAKE_CAPTURE_INVALIDATED
            : s->capture.has_strays ? FAKE_CAPTURE_UNJOINED
                                    : 0;
        s->capture.is_on = 0;
        for (other = streams; other != NULL; other = other->next)
            if (other->captured_with == s)
                other->captured_with = NULL;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_capture_state(void *stream, int *ret)
{
    struct device_fake_stream *s;
    int r = 0;

    (void)pthread_mutex_lock(&mu);
    s = find_stream(stream);
    if (s == NULL)
        r = FAKE_BAD_HANDLE;
    else if (s == legacy[s->device] && has_captures(s->device, 1, 0))
        r = FAKE_CAPTURE_IMPLICIT;
    else
        *ret = fake_capturing(s) != NULL;
    (void)pthread_mutex_unlock(&mu);
    return r;
}

/* Memory. -------------------------------------------------------------------------------------- */

static int map_twice(struct thing *t)
{
    long page = sysconf(_SC_PAGESIZE);
    size_t bytes = (t->bytes + (size_t)page - 1) / (size_t)page * (size_t)page;
    int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
    void *start = MAP_FAILED;
    void *own = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0) {
        start = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
        own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0)
        (void)close(fd);
    t->start = start;
    t->own = own;
    return start != MAP_FAILED && own != MAP_FAILED;
}

static size_t fake_used(void)
{
    size_t used = 0;
    int i;

    for (i = 0; i < THINGS; i++)
        if (things[i].kind == FAKE_DEVICE_MEMORY && things[i].device == fake_current())
            used += things[i].bytes;
    return used;
}

size_t fake_memory_left(void)
{
    size_t used;

    (void)pthread_mutex_lock(&mu);
    used = fake_used();
    (void)pthread_mutex_unlock(&mu);
    return used < fake_memory() ? fake_memory() - used : 0;
}

int fake_alloc(void **ret, size_t bytes)
{
    struct thing *t;
    int r = fake_current() < 0 ? FAKE_NO_CONTEXT : 0;

    (void)pthread_mutex_lock(&mu);
    if (r == 0 && is_prohibited())
        r = FAKE_CAPTURE_UNSUPPORTED;
    if (r == 0 && fake_used() + bytes > fake_memory())
        r = FAKE_NO_MEMORY;
    if (r == 0) {
        t = make_thing(FAKE_DEVICE_MEMORY);
        t->bytes = bytes;
        if (!map_twice(t))
            __builtin_trap();
        *ret = t->start;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_free(void *p)
{
    struct thing *t;
    int r = 0;

    (void)pthread_mutex_lock(&mu);
    t = fake_containing(FAKE_DEVICE_MEMORY, p);
    if (t == NULL || t->start != p)
        r = FAKE_INVALID;
    else if (is_prohibited())
        r = FAKE_CAPTURE_UNSUPPORTED;
    if (r == 0) {
        wait_for_device(t->device);
        (void)munmap(t->start, t->bytes);
        (void)munmap(t->own, t->bytes);
        t->kind = FAKE_NOTHING;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_register(void *p, size_t bytes)
{
    struct thing *t;
    int r = fake_current() < 0 ? FAKE_NO_CONTEXT : 0;

    (void)pthread_mutex_lock(&mu);
    if (r == 0 && is_prohibited())
        r = FAKE_CAPTURE_UNSUPPORTED;
    if (r == 0) {
        t = make_thing(FAKE_HOST_MEMORY);
        t->start = t->own = p;
        t->bytes = bytes;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_unregister(void *p)
{
    struct thing *t;
    int r = FAKE_INVALID;

    (void)pthread_mutex_lock(&mu);
    t = fake_containing(FAKE_HOST_MEMORY, p);
    if (t != NULL && t->start == p) {
        r = is_prohibited() ? FAKE_CAPTURE_UNSUPPORTED : 0;
        t->kind = r == 0 ? FAKE_NOTHING : t->kind;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_pointer(void *data, int attribute, const void *p, unsigned device_type, unsigned host_type)
{
    const struct thing *t;
    const struct thing *host;
    int device = -1;

    if (fake_current() < 0)
        return FAKE_NO_CONTEXT;
    (void)pthread_mutex_lock(&mu);
    t = fake_containing(FAKE_DEVICE_MEMORY, p);
    host = fake_containing(FAKE_HOST_MEMORY, p);
    device = t != NULL ? t->device : host != NULL ? host->device : -1;
    (void)pthread_mutex_unlock(&mu);
    if (device < 0)
        return FAKE_INVALID;
    if (attribute == 2)
        *(unsigned *)data = t != NULL ? device_type : host_type;
    else if (attribute == 8)
        *(char *)data = 0;
    else if (attribute == 9)
        *(int *)data = device;
    else
        return FAKE_INVALID;
    return 0;
}

/* Operations. ---------------------------------------------------------------------------------- */

/* The streams' address of the memory, and its kind; NULL: the range is not all device memory. */
static char *fake_seen(const void *p, size_t bytes, enum fake_kind *ret)
{
    const struct thing *t = fake_containing(FAKE_DEVICE_MEMORY, p);
    size_t at;

    *ret = t != NULL                                      ? FAKE_DEVICE_MEMORY
           : fake_containing(FAKE_HOST_MEMORY, p) != NULL ? FAKE_HOST_MEMORY
                                                          : FAKE_NOTHING;
    if (t == NULL)
        return (char *)(uintptr_t)p;
    at = (size_t)((const char *)p - t->start);
    return bytes <= t->bytes - at ? t->own + at : NULL;
}

static long copy_ns(const enum fake_kind kind[2], size_t bytes)
{
    int is_pageable = kind[0] == FAKE_NOTHING || kind[1] == FAKE_NOTHING;
    double bps = kind[0] == kind[1] ? 0 : is_pageable && pageable_bps > 0 ? pageable_bps : link_bps;

    return COPY_NS + (bps > 0 ? (long)(1e9 * (double)bytes / bps) : 0);
}

static int hold_of(enum fake_kind to, enum fake_kind from)
{
    if (to == FAKE_DEVICE_MEMORY)
        return from == FAKE_DEVICE_MEMORY ? FAKE_HOLD_INSIDE : FAKE_HOLD_UP;
    return FAKE_HOLD_DOWN;
}

/* Stages pageable memory on its way up, and waits for copies down to it. */
static void push_copy(struct device_fake_stream *s, char *dst, const char *src, size_t bytes,
                      const enum fake_kind kind[2])
{
    struct device_fake_op *op;

    fake_order(s);
    op = push_op(s, OP_COPY);
    op->dst = dst;
    op->src = src;
    op->bytes = bytes;
    op->hold = hold_of(kind[0], kind[1]);
    op->ns = copy_ns(kind, bytes);
    if (kind[1] == FAKE_NOTHING) {
        op->staged = malloc(bytes + 1);
        if (op->staged == NULL)
            __builtin_trap();
        memcpy(op->staged, src, bytes);
        op->src = op->staged;
    }
    if (kind[0] == FAKE_NOTHING)
        wait_for(s, s->given);
}

int fake_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    enum fake_kind kind[2];
    struct device_fake_stream *s = NULL;
    const char *from;
    char *to;
    int r;

    if (fake_current() < 0)
        return FAKE_NO_CONTEXT;
    (void)pthread_mutex_lock(&mu);
    r = fake_use(stream, &s);
    to = fake_seen(dst, bytes, &kind[0]);
    from = fake_seen(src, bytes, &kind[1]);
    if (r == 0 && (to == NULL || from == NULL))
        r = FAKE_INVALID;
    counts[FAKE_COUNT_COPIES] += r == 0;
    if (r == 0 && fake_capturing(s) == NULL)
        push_copy(s, to, from, bytes, kind);
    (void)pthread_mutex_unlock(&mu);
    return r;
}

void fake_gpu_poke(void *dst, const void *src, size_t bytes)
{
    enum fake_kind kind;

    (void)pthread_mutex_lock(&mu);
    memmove(fake_seen(dst, bytes, &kind), fake_seen(src, bytes, &kind), bytes);
    (void)pthread_mutex_unlock(&mu);
}

int fake_set(void *dst, unsigned word, size_t words, void *stream)
{
    enum fake_kind kind;
    struct device_fake_stream *s = NULL;
    struct device_fake_op *op;
    char *to;
    int r;

    (void)pthread_mutex_lock(&mu);
    r = fake_use(stream, &s);
    to = fake_seen(dst, words * sizeof(word), &kind);
    if (r == 0 && (to == NULL || kind != FAKE_DEVICE_MEMORY))
        r = FAKE_INVALID;
    if (r == 0 && fake_capturing(s) == NULL) {
        fake_order(s);
        op = push_op(s, OP_SET);
        op->dst = to;
        op->bytes = words * sizeof(word);
        op->word = word;
        op->hold = FAKE_HOLD_SET;
        op->ns = SET_NS;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

/* Handles. ------------------------------------------------------------------------------------- */

int fake_stream_create(void **ret, unsigned flags)
{
    struct thing *t;

    if (fake_current() < 0)
        return FAKE_NO_CONTEXT;
    if (flags > 1)
        return FAKE_INVALID;
    (void)pthread_mutex_lock(&mu);
    t = make_thing(FAKE_STREAM);
    t->stream = open_stream(t->device, flags);
    *ret = t;
    (void)pthread_mutex_unlock(&mu);
    return 0;
}

int fake_event_create(void **ret)
{
    if (fake_current() < 0)
        return FAKE_NO_CONTEXT;
    (void)pthread_mutex_lock(&mu);
    *ret = make_thing(FAKE_EVENT);
    (void)pthread_mutex_unlock(&mu);
    return 0;
}

int fake_destroy(void *handle, enum fake_kind kind)
{
    struct thing *t;

    (void)pthread_mutex_lock(&mu);
    t = fake_alive(handle, kind);
    if (t != NULL && kind == FAKE_STREAM)
        close_stream(t->stream);
    if (t != NULL)
        t->kind = FAKE_NOTHING;
    (void)pthread_mutex_unlock(&mu);
    return t != NULL ? 0 : FAKE_BAD_HANDLE;
}

int fake_stream_device(void *stream)
{
    struct device_fake_stream *s;
    int device;

    (void)pthread_mutex_lock(&mu);
    s = find_stream(stream);
    device = s != NULL ? s->device : -1;
    (void)pthread_mutex_unlock(&mu);
    return device;
}

int fake_record(void *event, void *stream)
{
    struct thing *e;
    struct device_fake_stream *s = NULL;
    int r;

    (void)pthread_mutex_lock(&mu);
    r = fake_current() < 0 ? FAKE_NO_CONTEXT : fake_use(stream, &s);
    e = fake_alive(event, FAKE_EVENT);
    if (r == 0 && (e == NULL || e->device != s->device))
        r = FAKE_BAD_HANDLE;
    if (r == 0) {
        e->captured = fake_capturing(s);
        if (e->captured == NULL)
            fake_order(s);
        e->stream = s;
        e->position = s->given;
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_stream_wait(void *stream, void *event)
{
    struct thing *e;
    struct device_fake_stream *s = NULL;
    int r;

    (void)pthread_mutex_lock(&mu);
    r = fake_use(stream, &s);
    e = fake_alive(event, FAKE_EVENT);
    if (r == 0 && (e == NULL || e->stream == NULL))
        r = FAKE_BAD_HANDLE;
    if (r == 0 && e->captured != NULL && e->captured->capture.is_on) {
        e->captured->capture.has_strays = 1; /* the stream joins the capture */
        s->captured_with = e->captured;
    } else if (r == 0) {
        order_behind(s, e->stream, e->position);
    }
    (void)pthread_mutex_unlock(&mu);
    return r;
}

static int ask_event(void *event, int is_waiting)
{
    const struct thing *e;
    int r = 0;

    (void)pthread_mutex_lock(&mu);
    counts[FAKE_COUNT_QUERIES] += !is_waiting;
    e = fake_alive(event, FAKE_EVENT);
    if (is_prohibited())
        r = FAKE_CAPTURE_UNSUPPORTED;
    else if (e == NULL || e->stream == NULL)
        r = FAKE_BAD_HANDLE;
    else if (is_waiting)
        wait_for(e->stream, e->position);
    else if (e->stream->done < e->position)
        r = FAKE_NOT_READY;
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_event_query(void *event)
{
    return ask_event(event, 0);
}

int fake_event_wait(void *event)
{
    return ask_event(event, 1);
}

int fake_stream_sync(void *stream)
{
    struct device_fake_stream *s = NULL;
    int r;

    (void)pthread_mutex_lock(&mu);
    r = fake_use(stream, &s);
    if (r == 0 && (is_prohibited() || fake_capturing(s) != NULL))
        r = FAKE_CAPTURE_UNSUPPORTED;
    if (r == 0)
        wait_for(s, s->given);
    (void)pthread_mutex_unlock(&mu);
    return r;
}

int fake_context_sync(void)
{
    int r = 0;

    if (fake_current() < 0)
        return FAKE_NO_CONTEXT;
    (void)pthread_mutex_lock(&mu);
    if (has_captures(fake_current(), 0, 1))
        r = FAKE_CAPTURE_UNSUPPORTED;
    else
        wait_for_device(fake_current());
    (void)pthread_mutex_unlock(&mu);
    return r;
}
