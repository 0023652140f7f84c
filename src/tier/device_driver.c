/* SPDX-License-Identifier: BSD-3-Clause */
/* Common to all vendors: finding the library and its symbols, errors, memory, lanes. */
#include "tier/device_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

/* Numbers that the libraries agree on. */
enum {
    SUCCESS = 0,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    CAPTURE_IMPLICIT = 906, /* legacy stream would wait for a captured one */
    CAPTURE_MODE_RELAXED = 2,
    STREAM_NON_BLOCKING = 1,
    EVENT_DISABLE_TIMING = 2,
    HOST_REGISTER_PORTABLE = 1,
    POINTER_MEMORY_TYPE = 2,
    POINTER_IS_MANAGED = 8,
    POINTER_DEVICE_ORDINAL = 9,
};

#define STEP_MIN    INT64_C(20000) /* polling interval of a background copy */
#define STEP_MAX    INT64_C(10000000)
#define DRAIN_STEP  1000000 /* between two attempts */
#define TOKEN_BYTES 4096

static struct crn_vendor_device *device_of(struct crn_device *dev)
{
    return (struct crn_vendor_device *)dev;
}

static struct crn_vendor_driver *driver_of(const struct crn_device *dev)
{
    return (struct crn_vendor_driver *)dev->driver;
}

/* Errors. -------------------------------------------------------------------------------------- */

static cairn_err code_of(const struct crn_vendor *v, int r)
{
    size_t i;

    for (i = 0; v->lost[i] != 0; i++)
        if (r == v->lost[i])
            return CAIRN_EDEVICE;
    return r == OUT_OF_MEMORY ? CAIRN_ENOMEM : CAIRN_EIO;
}

static cairn_err device_driver_check(const struct crn_device *dev, int r, const char *what,
                                     struct crn_errinfo *ei)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    const char *text;

    if (r == SUCCESS)
        return CAIRN_OK;
    text = d->vendor->text(d, r);
    return crn_fail(ei, code_of(d->vendor, r), 0, "GPU %d: %s: %s (%s error %d)", dev->ordinal,
                    what, text != NULL ? text : "unknown error", d->vendor->title, r);
}

/* Thread state that a call of Cairn changes and must restore. */
struct entered {
    int before; /* vendor-specific */
    int mode;   /* stream capture mode */
};

/* While any thread captures a graph, a thread whose mode is not relaxed may neither wait for nor
 * query anything: the call would fail and invalidate the application's capture. */
static int enter_raw(struct crn_device *dev, struct entered *ret)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    int r = d->vendor->enter(device_of(dev), &ret->before);

    ret->mode = CAPTURE_MODE_RELAXED;
    if (r == SUCCESS && d->capture_mode != NULL)
        (void)d->capture_mode(&ret->mode);
    return r;
}

static cairn_err device_driver_enter(struct crn_device *dev, struct entered *ret,
                                     struct crn_errinfo *ei)
{
    return device_driver_check(dev, enter_raw(dev, ret), "make it current", ei);
}

static void device_driver_leave(struct crn_device *dev, const struct entered *e)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    int mode = e->mode;

    if (d->capture_mode != NULL)
        (void)d->capture_mode(&mode);
    d->vendor->leave(device_of(dev), e->before);
}

/* Memory. -------------------------------------------------------------------------------------- */

int crn_vendor_ask(const struct crn_vendor_driver *d, const void *ptr, int *ret)
{
    unsigned type = 0;
    int is_managed = 0; /* the library writes one byte or four */
    int ordinal = 0;
    int r = d->pointer(&type, POINTER_MEMORY_TYPE, ptr);

    *ret = -1;
    if (r != SUCCESS)
        return r;
    if (d->pointer(&is_managed, POINTER_IS_MANAGED, ptr) != SUCCESS)
        is_managed = 0;
    if ((type == d->memory_device || is_managed) &&
        d->pointer(&ordinal, POINTER_DEVICE_ORDINAL, ptr) == SUCCESS)
        *ret = ordinal >= 0 ? ordinal : 0;
    return SUCCESS;
}

static cairn_err driver_memory(struct crn_device *dev, uint64_t *ret_free, uint64_t *ret_total,
                               struct crn_errinfo *ei)
{
    size_t left = 0;
    size_t total = 0;
    struct entered e;
    cairn_err rc = device_driver_enter(dev, &e, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = device_driver_check(dev, driver_of(dev)->mem_info(&left, &total), "free memory", ei);
    device_driver_leave(dev, &e);
    *ret_free = left;
    *ret_total = total;
    return rc;
}

static cairn_err driver_alloc(struct crn_device *dev, uint64_t bytes, void **ret,
                              struct crn_errinfo *ei)
{
    void *p = NULL;
    struct entered e;
    cairn_err rc = device_driver_enter(dev, &e, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = device_driver_check(dev, driver_of(dev)->mem_alloc(&p, bytes), "allocate device memory",
                             ei);
    device_driver_leave(dev, &e);
    if (rc == CAIRN_OK)
        *ret = p;
    return rc;
}

static void free_memory(struct crn_device *dev, void *ptr)
{
    struct crn_errinfo ignored = {0}; /* a lost device has no memory to free */
    struct entered e;

    if (ptr == NULL || device_driver_enter(dev, &e, &ignored) != CAIRN_OK)
        return;
    (void)driver_of(dev)->mem_free(ptr);
    device_driver_leave(dev, &e);
}

static cairn_err device_driver_pin(struct crn_device *dev, void *host, uint64_t bytes,
                                   struct crn_errinfo *ei)
{
    struct entered e;
    cairn_err rc = device_driver_enter(dev, &e, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc =
        device_driver_check(dev, driver_of(dev)->host_register(host, bytes, HOST_REGISTER_PORTABLE),
                            "pin host memory", ei);
    device_driver_leave(dev, &e);
    return rc;
}

static void device_driver_unpin(struct crn_device *dev, void *host)
{
    struct crn_errinfo ignored = {0};
    struct entered e;

    if (device_driver_enter(dev, &e, &ignored) != CAIRN_OK)
        return;
    (void)driver_of(dev)->host_unregister(host);
    device_driver_leave(dev, &e);
}

/* Lanes. --------------------------------------------------------------------------------------- */

/* Waits for all operations of the context, on any stream. Freeing device memory does that,
 * according to the documentation of CUDA and HIP, and is the only way that a graph being captured
 * does not forbid: synchronising the context, or recording an event on it, would fail and
 * invalidate the capture. The memory is allocated again at once, so that a device that is full next
 * time does not matter. */
static int device_driver_settle(const struct crn_vendor_driver *d, void **token)
{
    int r = *token != NULL ? SUCCESS : d->mem_alloc(token, TOKEN_BYTES);

    if (r != SUCCESS)
        return r;
    r = d->mem_free(*token);
    if (r == SUCCESS && d->mem_alloc(token, TOKEN_BYTES) != SUCCESS)
        *token = NULL;
    return r;
}

static void *stream_of(const struct crn_vendor_driver *d, void *stream)
{
    return stream == CRN_STREAM_LEGACY ? d->vendor->legacy_stream : stream;
}

static int is_capturing(struct crn_device *dev, void *stream)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    struct entered e;
    int state = 0;
    int r;

    if (d->is_capturing == NULL || enter_raw(dev, &e) != SUCCESS)
        return 0;
    r = d->is_capturing(stream_of(d, stream), &state);
    device_driver_leave(dev, &e);
    return r == CAPTURE_IMPLICIT || (r == SUCCESS && state != 0);
}

static cairn_err after_stream(struct crn_device *dev, enum crn_lane lane, void *stream,
                              struct crn_errinfo *ei)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    void *mark = device_of(dev)->mark[lane];
    cairn_err rc;

    rc = device_driver_check(dev, d->event_record(mark, stream_of(d, stream)),
                             "record an event on the application's stream", ei);
    if (rc == CAIRN_OK)
        rc = device_driver_check(dev, d->stream_wait(device_of(dev)->lane[lane], mark, 0),
                                 "wait for the application's stream", ei);
    return rc;
}

static cairn_err device_driver_after(struct crn_device *dev, enum crn_lane lane, void *stream,
                                     struct crn_errinfo *ei)
{
    struct entered e;
    cairn_err rc;

    if (stream != NULL && is_capturing(dev, stream))
        return crn_fail(ei, CAIRN_EBUSY, 0,
                        "GPU %d: a graph is being captured from the stream that cairn_gpu_stream "
                        "named; call again when the capture has ended",
                        dev->ordinal);
    rc = device_driver_enter(dev, &e, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (stream != NULL)
        rc = after_stream(dev, lane, stream, ei);
    else
        rc = device_driver_check(dev,
                                 device_driver_settle(driver_of(dev), &device_of(dev)->token[lane]),
                                 "wait for all work of the context", ei);
    device_driver_leave(dev, &e);
    return rc;
}

static cairn_err device_driver_before(struct crn_device *dev, enum crn_lane lane, void *stream,
                                      struct crn_errinfo *ei)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    void *mark = device_of(dev)->mark[lane];
    struct entered e;
    cairn_err rc = device_driver_enter(dev, &e, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = device_driver_check(dev, d->event_record(mark, device_of(dev)->lane[lane]),
                             "record an event", ei);
    if (rc == CAIRN_OK)
        rc = device_driver_check(dev, d->stream_wait(stream_of(d, stream), mark, 0),
                                 "make the application's stream wait", ei);
    device_driver_leave(dev, &e);
    return rc;
}

static int64_t now_ns(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

static void pace_begin(struct crn_pace *p, uint64_t bytes)
{
    if (p->bytes == 0)
        p->start_ns = now_ns();
    p->bytes += bytes;
}

/* Adapts quickly to a faster link and slowly to a slower one: waking up early costs little. */
static void pace_end(struct crn_pace *p, int64_t end_ns)
{
    double bps = p->bps;

    if (p->bytes > 0 && end_ns > p->start_ns)
        bps = (double)p->bytes * 1e9 / (double)(end_ns - p->start_ns);
    p->bps = bps > p->bps ? bps : p->bps + (bps - p->bps) / 8;
    p->bytes = 0;
}

static cairn_err device_driver_copy(struct crn_device *dev, enum crn_lane lane, void *dst,
                                    const void *src, uint64_t bytes, struct crn_errinfo *ei)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    struct entered e;
    cairn_err rc = device_driver_enter(dev, &e, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = device_driver_check(dev, d->vendor->copy(d, dst, src, bytes, device_of(dev)->lane[lane]),
                             "copy", ei);
    if (rc == CAIRN_OK && lane >= CRN_LANE_DOWN)
        pace_begin(&device_of(dev)->pace[lane], bytes);
    device_driver_leave(dev, &e);
    return rc;
}

/* A background thread sleeps until the copy should be nearly done, then polls for its end. (An
 * event that sleeps in the driver until an interrupt is 0.1 ms late, sometimes several.) */
static int driver_doze(const struct crn_vendor_driver *d, void *event, struct crn_pace *p)
{
    int64_t now = now_ns();
    int64_t until = p->bps > 0 ? p->start_ns + (int64_t)((double)p->bytes * 0.9e9 / p->bps) : now;
    int r = d->event_query(event);

    while (r == NOT_READY) {
        int64_t step = (now - p->start_ns) / 64;
        struct timespec ts = {0};

        step = until > now ? until - now : step < STEP_MIN ? STEP_MIN : step;
        ts.tv_nsec = step < STEP_MAX ? step : STEP_MAX;
        (void)nanosleep(&ts, NULL);
        now = now_ns();
        r = d->event_query(event);
    }
    pace_end(p, now);
    return r;
}

/* Does this result mean that the context can run nothing any more? */
static int is_dead(const struct crn_vendor *v, int r)
{
    return code_of(v, r) == CAIRN_EDEVICE || r == NOT_INITIALIZED || r == INVALID_CONTEXT ||
           r == INVALID_HANDLE;
}

static int has_drained(struct crn_device *dev, enum crn_lane lane)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    struct entered e;
    int r = enter_raw(dev, &e);

    if (r == SUCCESS) {
        r = d->stream_sync(device_of(dev)->lane[lane]);
        device_driver_leave(dev, &e);
    }
    return r == SUCCESS || is_dead(d->vendor, r);
}

/* After an error the caller reuses the memory of the copies as soon as the wait returns, so drain
 * the lane first. */
static void driver_drain(struct crn_device *dev, enum crn_lane lane)
{
    const struct timespec pause = {.tv_nsec = DRAIN_STEP};

    device_of(dev)->pace[lane].bytes = 0;
    while (!has_drained(dev, lane))
        (void)nanosleep(&pause, NULL);
}

static cairn_err wait_done(struct crn_device *dev, enum crn_lane lane, struct crn_errinfo *ei)
{
    const struct crn_vendor_driver *d = driver_of(dev);
    void *done = device_of(dev)->done[lane];
    struct entered e;
    cairn_err rc = device_driver_enter(dev, &e, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = device_driver_check(dev, d->event_record(done, device_of(dev)->lane[lane]),
                             "record an event", ei);
    if (rc == CAIRN_OK)
        rc = device_driver_check(dev,
                                 lane >= CRN_LANE_DOWN
                                     ? driver_doze(d, done, &device_of(dev)->pace[lane])
                                     : d->event_wait(done),
                                 "wait for a copy", ei);
    device_driver_leave(dev, &e);
    return rc;
}

static cairn_err driver_wait(struct crn_device *dev, enum crn_lane lane, struct crn_errinfo *ei)
{
    cairn_err rc = wait_done(dev, lane, ei);

    if (rc != CAIRN_OK)
        driver_drain(dev, lane);
    return rc;
}

/* Devices. ------------------------------------------------------------------------------------- */

static void device_close(struct crn_device *dev)
{
    struct crn_vendor_device *v = device_of(dev);
    struct crn_errinfo ignored = {0};
    struct crn_vendor_driver *d;
    struct entered e;
    int i;

    if (dev == NULL)
        return;
    d = driver_of(dev);
    if (v->lane[0] != NULL && device_driver_enter(dev, &e, &ignored) == CAIRN_OK) {
        for (i = 0; i < CRN_LANES; i++) {
            if (v->lane[i] != NULL)
                (void)d->stream_destroy(v->lane[i]);
            if (v->done[i] != NULL)
                (void)d->event_destroy(v->done[i]);
            if (v->mark[i] != NULL)
                (void)d->event_destroy(v->mark[i]);
            if (v->token[i] != NULL)
                (void)d->mem_free(v->token[i]);
        }
        device_driver_leave(dev, &e);
    }
    d->vendor->release(v);
    free(v);
}

static int make_lanes(struct crn_vendor_device *v, const struct crn_vendor_driver *d)
{
    int r = SUCCESS;
    int i;

    for (i = 0; r == SUCCESS && i < CRN_LANES; i++) {
        r = d->stream_create(&v->lane[i], STREAM_NON_BLOCKING);
        if (r == SUCCESS)
            r = d->event_create(&v->done[i], EVENT_DISABLE_TIMING);
        if (r == SUCCESS)
            r = d->event_create(&v->mark[i], EVENT_DISABLE_TIMING);
    }
    return r;
}

static cairn_err device_open(struct crn_driver *driver, int ordinal, struct crn_device **ret,
                             struct crn_errinfo *ei)
{
    const struct crn_vendor_driver *d = (struct crn_vendor_driver *)driver;
    struct crn_vendor_device *v;
    cairn_err rc;
    struct entered e;

    if (ordinal < 0 || ordinal >= driver->ndevices)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "there is no GPU %d; %s shows %d", ordinal,
                        d->vendor->title, driver->ndevices);
    v = calloc(1, sizeof(*v));
    if (v == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "GPU %d", ordinal);
    v->dev.driver = driver;
    v->dev.ordinal = ordinal;
    rc = device_driver_check(&v->dev, d->vendor->retain(v), "open", ei);
    if (rc == CAIRN_OK)
        rc = device_driver_enter(&v->dev, &e, ei);
    if (rc == CAIRN_OK) {
        rc = device_driver_check(&v->dev, make_lanes(v, d), "make streams and events", ei);
        device_driver_leave(&v->dev, &e);
    }
    if (rc != CAIRN_OK) {
        device_close(&v->dev);
        return rc;
    }
    *ret = &v->dev;
    return CAIRN_OK;
}

/* The library. --------------------------------------------------------------------------------- */

static void close_driver(struct crn_driver *driver)
{
    struct crn_vendor_driver *d = (struct crn_vendor_driver *)driver;

    (void)dlclose(d->library);
    free(d);
}

static const struct crn_driver_ops ops = {
    .close = close_driver,
    .device_open = device_open,
    .device_close = device_close,
    .memory = driver_memory,
    .alloc = driver_alloc,
    .free = free_memory,
    .pin = device_driver_pin,
    .unpin = device_driver_unpin,
    .is_capturing = is_capturing,
    .after = device_driver_after,
    .before = device_driver_before,
    .copy = device_driver_copy,
    .wait = driver_wait,
};

static const char *library_name(const struct crn_vendor *v)
{
    size_t i = 0;

    while (v->libraries[i + 1] != NULL)
        i++;
    return v->libraries[i];
}

static cairn_err find_symbols(struct crn_vendor_driver *d, struct crn_errinfo *ei)
{
    const struct crn_vendor_symbols *s = &d->vendor->symbols;
    const char *missing = NULL;
    size_t i;

/* Converts a data pointer to a function pointer in the way that POSIX recommends. */
#define FIND(field)                                                                                \
    *(void **)&d->field = dlsym(d->library, s->field);                                             \
    if (d->field == NULL)                                                                          \
        missing = s->field;
    FIND(init)
    FIND(device_count)
    FIND(mem_info)
    FIND(mem_alloc)
    FIND(mem_free)
    FIND(host_register)
    FIND(host_unregister)
    FIND(pointer)
    FIND(stream_create)
    FIND(stream_destroy)
    FIND(stream_wait)
    FIND(event_create)
    FIND(event_destroy)
    FIND(event_record)
    FIND(event_wait)
    FIND(event_query)
    FIND(stream_sync)
#undef FIND
    *(void **)&d->capture_mode = dlsym(d->library, s->capture_mode);
    *(void **)&d->is_capturing = dlsym(d->library, s->is_capturing);
    for (i = 0; i < CRN_VENDOR_OWN && s->own[i] != NULL; i++) {
        d->own[i] = dlsym(d->library, s->own[i]);
        if (d->own[i] == NULL)
            missing = s->own[i];
    }
    if (missing != NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "%s has no %s: it is too old",
                        library_name(d->vendor), missing);
    return CAIRN_OK;
}

static cairn_err device_driver_start(struct crn_vendor_driver *d, struct crn_errinfo *ei)
{
    const struct crn_vendor *v = d->vendor;
    int r;
    cairn_err rc = find_symbols(d, ei);

    if (rc != CAIRN_OK)
        return rc;
    r = d->init(0);
    if (r == SUCCESS)
        r = d->device_count(&d->driver.ndevices);
    if (r == NO_DEVICE || (r == SUCCESS && d->driver.ndevices == 0))
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "%s shows no GPU", v->title);
    if (r == SUCCESS)
        r = v->start(d);
    if (r != SUCCESS)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "%s cannot be used (error %d of %s)", v->title, r,
                        v->symbols.init);
    return CAIRN_OK;
}

static void *device_driver_load(const struct crn_vendor *v, int is_loaded)
{
    void *library = NULL;
    size_t i;

    for (i = 0; library == NULL && v->libraries[i] != NULL; i++)
        library = dlopen(v->libraries[i], RTLD_NOW | (is_loaded ? RTLD_NOLOAD : 0));
    return library;
}

cairn_err crn_vendor_open(const struct crn_vendor *vendor, int is_loaded, struct crn_driver **ret,
                          struct crn_errinfo *ei)
{
    void *library = device_driver_load(vendor, is_loaded);
    struct crn_vendor_driver *d;
    cairn_err rc;

    if (library == NULL && is_loaded)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "no %s: %s is not loaded", vendor->title,
                        library_name(vendor));
    if (library == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "no %s: %s", vendor->title, dlerror());
    d = calloc(1, sizeof(*d));
    if (d == NULL) {
        (void)dlclose(library);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the library of %s", vendor->title);
    }
    d->vendor = vendor;
    d->library = library;
    d->ops = ops;
    d->ops.name = vendor->name;
    d->ops.owner = vendor->owner;
    d->ops.stream_device = vendor->stream_device;
    d->ops.bus = vendor->bus;
    d->driver.ops = &d->ops;
    rc = device_driver_start(d, ei);
    if (rc != CAIRN_OK) {
        close_driver(&d->driver);
        return rc;
    }
    *ret = &d->driver;
    return CAIRN_OK;
}
