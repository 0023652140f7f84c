/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream is a thread with a bounded ring of operations; submitting to a full ring waits. An event
 * is a position in another stream, so ordering after the application's operations needs no extra
 * object. A copy moves its bytes at once and then takes the time that its bandwidth implies. It
 * reads the bytes when it runs, not when it is submitted, so a source that changes too early shows
 * up in a comparison. A target that is read too early already has the new bytes. */
#include "tier/device_sim.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/thread.h"

#define RING   64
#define RANGES 256

enum op_kind { OP_COPY, OP_AFTER, OP_CALL };

struct crn_sim_stream;

struct device_sim_op {
    enum op_kind kind;
    void *dst;
    const void *src;
    uint64_t bytes;
    int64_t took_ns;              /* minimum duration */
    cairn_err rc;                 /* result of a copy */
    struct crn_sim_stream *other; /* OP_AFTER: wait until it has done so many */
    uint64_t position;
    void (*fn)(void *arg);
    void *arg;
};

struct crn_sim_stream {
    struct crn_mutex mu;
    struct crn_cond changed;
    struct device_sim_op ring[RING];
    uint64_t given, done; /* lock: operations so far */
    cairn_err rc;         /* lock: first error since the last wait */
    int is_closing;       /* lock */
    pthread_t thread;
    struct crn_sim_stream **list; /* list of application streams that it is in; NULL: none */
    struct crn_sim_stream *next;  /* in list */
};

/* Memory known to the simulation: of a device, or pinned. */
struct device_sim_range {
    const unsigned char *start;
    uint64_t bytes;
    int device; /* -1: pinned host memory */
};

struct sim_driver {
    struct crn_driver driver;
    struct crn_sim_options opt;
    struct crn_mutex mu;
    struct device_sim_range range[RANGES]; /* lock */
    int nranges;                           /* lock */
    uint64_t used[16];                     /* lock: by device */
    atomic_long copies;
};

struct sim_device {
    struct crn_device dev;
    struct crn_sim_stream *lane[CRN_LANES];
    struct crn_sim_stream *legacy;
    struct crn_sim_stream *streams; /* the application's streams; its thread only */
};

static struct sim_driver *driver_of(struct crn_device *dev)
{
    return (struct sim_driver *)dev->driver;
}

/* Streams. ------------------------------------------------------------------------------------- */

static void sleep_until(struct crn_sim_stream *s, int64_t until_ns)
{
    crn_lock(&s->mu);
    while (crn_clock_real()->mono_ns(crn_clock_real()) < until_ns)
        (void)crn_cond_wait_until(&s->changed, &s->mu, until_ns);
    crn_unlock(&s->mu);
}

static void wait_position(struct crn_sim_stream *s, uint64_t position)
{
    crn_lock(&s->mu);
    while (s->done < position)
        crn_cond_wait(&s->changed, &s->mu);
    crn_unlock(&s->mu);
}

static cairn_err run_op(struct crn_sim_stream *s, const struct device_sim_op *op)
{
    int64_t start = crn_clock_real()->mono_ns(crn_clock_real());

    switch (op->kind) {
    case OP_COPY:
        if (op->rc == CAIRN_OK)
            memmove(op->dst, op->src, op->bytes);
        if (op->took_ns > 0)
            sleep_until(s, start + op->took_ns);
        return op->rc;
    case OP_AFTER:
        wait_position(op->other, op->position);
        return CAIRN_OK;
    case OP_CALL:
        op->fn(op->arg);
        return CAIRN_OK;
    }
    return CAIRN_EBUG;
}

static void *stream_main(void *arg)
{
    struct crn_sim_stream *s = arg;

    crn_lock(&s->mu);
    for (;;) {
        struct device_sim_op op;
        cairn_err rc;

        while (s->done == s->given && !s->is_closing)
            crn_cond_wait(&s->changed, &s->mu);
        if (s->done == s->given)
            break;
        op = s->ring[s->done % RING];
        crn_unlock(&s->mu);
        rc = run_op(s, &op);
        crn_lock(&s->mu);
        if (s->rc == CAIRN_OK)
            s->rc = rc;
        s->done++;
        crn_cond_broadcast(&s->changed);
    }
    crn_unlock(&s->mu);
    return NULL;
}

static void device_sim_give(struct crn_sim_stream *s, const struct device_sim_op *op)
{
    crn_lock(&s->mu);
    while (s->given - s->done == RING)
        crn_cond_wait(&s->changed, &s->mu);
    s->ring[s->given++ % RING] = *op;
    crn_cond_broadcast(&s->changed);
    crn_unlock(&s->mu);
}

static cairn_err open_stream(struct crn_sim_stream **ret, struct crn_errinfo *ei)
{
    struct crn_sim_stream *s = calloc(1, sizeof(*s));
    cairn_err rc;

    if (s == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a simulated stream");
    crn_mutex_init(&s->mu, CRN_RANK_LEAF);
    crn_cond_init(&s->changed);
    rc = crn_thread_start(&s->thread, "cairn-sim", stream_main, s, ei);
    if (rc != CAIRN_OK) {
        crn_cond_fini(&s->changed);
        crn_mutex_fini(&s->mu);
        free(s);
        return rc;
    }
    *ret = s;
    return CAIRN_OK;
}

cairn_err crn_sim_stream_open(struct crn_device *dev, struct crn_sim_stream **ret,
                              struct crn_errinfo *ei)
{
    struct crn_sim_stream **list = &((struct sim_device *)dev)->streams;
    cairn_err rc = open_stream(ret, ei);

    if (rc != CAIRN_OK)
        return rc;
    (*ret)->list = list;
    (*ret)->next = *list;
    *list = *ret;
    return CAIRN_OK;
}

void crn_sim_stream_close(struct crn_sim_stream *s)
{
    struct crn_sim_stream **link = s != NULL ? s->list : NULL;

    if (s == NULL)
        return;
    while (link != NULL && *link != s)
        link = &(*link)->next;
    if (link != NULL)
        *link = s->next;
    crn_lock(&s->mu);
    s->is_closing = 1;
    crn_cond_broadcast(&s->changed);
    crn_unlock(&s->mu);
    (void)pthread_join(s->thread, NULL);
    crn_cond_fini(&s->changed);
    crn_mutex_fini(&s->mu);
    free(s);
}

void crn_sim_launch(struct crn_device *dev, struct crn_sim_stream *s, void (*fn)(void *arg),
                    void *arg)
{
    struct device_sim_op op = {.kind = OP_CALL, .fn = fn, .arg = arg};

    device_sim_give(s != NULL ? s : ((struct sim_device *)dev)->legacy, &op);
}

/* Memory. -------------------------------------------------------------------------------------- */

static const struct device_sim_range *find_range(const struct sim_driver *d, const void *ptr)
{
    const unsigned char *p = ptr;
    int i;

    for (i = 0; i < d->nranges; i++)
        if (p >= d->range[i].start && (uint64_t)(p - d->range[i].start) < d->range[i].bytes)
            return &d->range[i];
    return NULL;
}

enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE };

static enum place place_of(struct sim_driver *d, const void *ptr)
{
    const struct device_sim_range *r;
    enum place place = PLACE_PAGEABLE;

    crn_lock(&d->mu);
    r = find_range(d, ptr);
    if (r != NULL)
        place = r->device >= 0 ? PLACE_DEVICE : PLACE_PINNED;
    crn_unlock(&d->mu);
    return place;
}

static int device_sim_owner(struct crn_driver *driver, const void *ptr)
{
    struct sim_driver *d = (struct sim_driver *)driver;
    const struct device_sim_range *r;
    int device;

    crn_lock(&d->mu);
    r = find_range(d, ptr);
    device = r != NULL ? r->device : -1;
    crn_unlock(&d->mu);
    return device;
}

static cairn_err add_range(struct sim_driver *d, const void *start, uint64_t bytes, int device,
                           struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    crn_lock(&d->mu);
    if (d->nranges == RANGES)
        rc = crn_fail(ei, CAIRN_ELIMIT, 0, "a simulated device knows %d allocations", RANGES);
    else if (device >= 0 && bytes > d->opt.bytes - d->used[device])
        rc = crn_fail(ei, CAIRN_ENOMEM, 0, "device %d has %llu bytes left, %llu were asked for",
                      device, (unsigned long long)(d->opt.bytes - d->used[device]),
                      (unsigned long long)bytes);
    else
        d->range[d->nranges++] = (struct device_sim_range){start, bytes, device};
    if (rc == CAIRN_OK && device >= 0)
        d->used[device] += bytes;
    crn_unlock(&d->mu);
    return rc;
}

static uint64_t remove_range(struct sim_driver *d, const void *start)
{
    uint64_t bytes = 0;
    int i;

    crn_lock(&d->mu);
    for (i = 0; i < d->nranges; i++) {
        if (d->range[i].start != start)
            continue;
        bytes = d->range[i].bytes;
        if (d->range[i].device >= 0)
            d->used[d->range[i].device] -= bytes;
        d->range[i] = d->range[--d->nranges];
        break;
    }
    crn_unlock(&d->mu);
    return bytes;
}

static cairn_err sim_alloc(struct crn_device *dev, uint64_t bytes, void **ret,
                           struct crn_errinfo *ei)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cairn_err rc;

    if (p == MAP_FAILED)
        return crn_fail(ei, CAIRN_ENOMEM, errno, "%llu bytes for a simulated device",
                        (unsigned long long)bytes);
    rc = add_range(driver_of(dev), p, bytes, dev->ordinal, ei);
    if (rc != CAIRN_OK) {
        (void)munmap(p, bytes);
        return rc;
    }
    *ret = p;
    return CAIRN_OK;
}

static void sim_free(struct crn_device *dev, void *ptr)
{
    if (ptr != NULL)
        (void)munmap(ptr, remove_range(driver_of(dev), ptr));
}

static cairn_err sim_memory(struct crn_device *dev, uint64_t *ret_free, uint64_t *ret_total,
                            struct crn_errinfo *ei)
{
    struct sim_driver *d = driver_of(dev);

    (void)ei;
    crn_lock(&d->mu);
    *ret_total = d->opt.bytes;
    *ret_free = d->opt.bytes - d->used[dev->ordinal];
    crn_unlock(&d->mu);
    return CAIRN_OK;
}

static cairn_err sim_pin(struct crn_device *dev, void *host, uint64_t bytes, struct crn_errinfo *ei)
{
    struct sim_driver *d = driver_of(dev);
    int64_t start = crn_clock_real()->mono_ns(crn_clock_real());

    if (d->opt.pin_fails)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "the simulated device cannot pin memory");
    if (d->opt.pin_bps > 0)
        sleep_until(((struct sim_device *)dev)->legacy,
                    start + (int64_t)((double)bytes * 1e9 / d->opt.pin_bps));
    return add_range(d, host, bytes, -1, ei);
}

static void sim_unpin(struct crn_device *dev, void *host)
{
    (void)remove_range(driver_of(dev), host);
}

/* Copies. -------------------------------------------------------------------------------------- */

static cairn_err fate(struct sim_driver *d, long n)
{
    const struct crn_sim_options *o = &d->opt;

    if (o->lose_at > 0 && n >= o->lose_at)
        return CAIRN_EDEVICE;
    if (o->fail_at > 0 && n >= o->fail_at &&
        (n == o->fail_at || (o->fail_every > 0 && (n - o->fail_at) % o->fail_every == 0)))
        return CAIRN_EIO;
    return CAIRN_OK;
}

static int64_t time_of(struct sim_driver *d, const void *dst, const void *src, uint64_t bytes)
{
    enum place to = place_of(d, dst);
    enum place from = place_of(d, src);
    double bps = 0;

    if (to == PLACE_DEVICE && from == PLACE_DEVICE)
        bps = d->opt.inside_bps;
    else if (to == PLACE_PAGEABLE || from == PLACE_PAGEABLE)
        bps = d->opt.pageable_bps;
    else
        bps = to == PLACE_DEVICE ? d->opt.up_bps : d->opt.down_bps;
    return d->opt.latency_ns + (bps > 0 ? (int64_t)((double)bytes * 1e9 / bps) : 0);
}

static cairn_err sim_copy(struct crn_device *dev, enum crn_lane lane, void *dst, const void *src,
                          uint64_t bytes, struct crn_errinfo *ei)
{
    struct sim_driver *d = driver_of(dev);
    long n = atomic_fetch_add(&d->copies, 1) + 1;
    struct device_sim_op op = {.kind = OP_COPY, .dst = dst, .src = src, .bytes = bytes};

    op.rc = fate(d, n);
    if (op.rc == CAIRN_EDEVICE)
        return crn_fail(ei, op.rc, 0, "simulated device %d is lost", dev->ordinal);
    op.took_ns = time_of(d, dst, src, bytes);
    device_sim_give(((struct sim_device *)dev)->lane[lane], &op);
    return CAIRN_OK;
}

static void give_after(struct crn_sim_stream *s, struct crn_sim_stream *other)
{
    struct device_sim_op op = {.kind = OP_AFTER, .other = other};

    crn_lock(&other->mu);
    op.position = other->given;
    crn_unlock(&other->mu);
    device_sim_give(s, &op);
}

static cairn_err sim_after(struct crn_device *dev, enum crn_lane lane, void *stream,
                           struct crn_errinfo *ei)
{
    struct sim_device *s = (struct sim_device *)dev;
    struct crn_sim_stream *other;

    (void)ei;
    if (stream != NULL) {
        give_after(s->lane[lane], stream == CRN_STREAM_LEGACY ? s->legacy : stream);
        return CAIRN_OK;
    }
    give_after(s->lane[lane], s->legacy);
    for (other = s->streams; other != NULL; other = other->next)
        give_after(s->lane[lane], other);
    return CAIRN_OK;
}

static int sim_stream_device(struct crn_driver *d, void *stream)
{
    (void)d;
    (void)stream;
    return 0;
}

static int sim_is_capturing(struct crn_device *dev, void *stream)
{
    (void)dev;
    (void)stream;
    return 0;
}

static cairn_err sim_wait(struct crn_device *dev, enum crn_lane lane, struct crn_errinfo *ei)
{
    struct crn_sim_stream *s = ((struct sim_device *)dev)->lane[lane];
    cairn_err rc;

    crn_lock(&s->mu);
    while (s->done < s->given)
        crn_cond_wait(&s->changed, &s->mu);
    rc = s->rc;
    s->rc = CAIRN_OK;
    crn_unlock(&s->mu);
    if (rc != CAIRN_OK)
        return crn_fail(ei, rc, 0, "a copy of simulated device %d failed", dev->ordinal);
    return CAIRN_OK;
}

long crn_sim_copies(struct crn_device *dev)
{
    return atomic_load(&driver_of(dev)->copies);
}

/* Life. ---------------------------------------------------------------------------------------- */

static void device_close(struct crn_device *dev)
{
    struct sim_device *s = (struct sim_device *)dev;
    int i;

    if (s == NULL)
        return;
    for (i = 0; i < CRN_LANES; i++)
        crn_sim_stream_close(s->lane[i]);
    crn_sim_stream_close(s->legacy);
    free(s);
}

static cairn_err device_open(struct crn_driver *d, int ordinal, struct crn_device **ret,
                             struct crn_errinfo *ei)
{
    struct sim_device *s;
    cairn_err rc;
    int i;

    if (ordinal < 0 || ordinal >= d->ndevices)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "there is no simulated device %d", ordinal);
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a simulated device");
    s->dev.driver = d;
    s->dev.ordinal = ordinal;
    rc = open_stream(&s->legacy, ei);
    for (i = 0; rc == CAIRN_OK && i < CRN_LANES; i++)
        rc = open_stream(&s->lane[i], ei);
    if (rc != CAIRN_OK) {
        device_close(&s->dev);
        return rc;
    }
    *ret = &s->dev;
    return CAIRN_OK;
}

static void driver_close(struct crn_driver *driver)
{
    struct sim_driver *d = (struct sim_driver *)driver;

    crn_mutex_fini(&d->mu);
    free(d);
}

static const struct crn_driver_ops sim_ops = {
    .name = "sim",
    .close = driver_close,
    .owner = device_sim_owner,
    .device_open = device_open,
    .device_close = device_close,
    .memory = sim_memory,
    .alloc = sim_alloc,
    .free = sim_free,
    .pin = sim_pin,
    .unpin = sim_unpin,
    .stream_device = sim_stream_device,
    .is_capturing = sim_is_capturing,
    .after = sim_after,
    .copy = sim_copy,
    .wait = sim_wait,
};

cairn_err crn_driver_sim(const struct crn_sim_options *options, struct crn_driver **ret,
                         struct crn_errinfo *ei)
{
    struct sim_driver *d;

    if (options->devices < 0 || options->devices > 16)
        return crn_fail(ei, CAIRN_EINVAL, 0, "1 to 16 simulated devices are possible, not %d",
                        options->devices);
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a simulated driver");
    d->opt = *options;
    d->driver.ops = &sim_ops;
    d->driver.ndevices = options->devices != 0 ? options->devices : 1;
    crn_mutex_init(&d->mu, CRN_RANK_LEAF);
    *ret = &d->driver;
    return CAIRN_OK;
}
