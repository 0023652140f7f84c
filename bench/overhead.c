/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of a capture of GPU memory apart from its copy: the driver's calls alone, a capture
 * through the tier cache, and cairn_checkpoint of a session with device_cache, of a tiny size.
 * Median of the captures of a round. Through libcuda.so.1, the real one or the fake one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "common.h"
#include "tier/area.h"
#include "tier/cache.h"

#define CAPTURES  256
#define PAUSE_NS  300000 /* the background threads run between captures */
#define DEVICE    ((uint64_t)24 << 20)
#define HOST      ((uint64_t)64 << 20)
#define MAX_BYTES ((uint64_t)64 << 10)
#define FOR_EVER  INT64_C(60000000000)

struct bed {
    const char *dir;
    struct crn_driver *driver;
    struct crn_device *dev;
    void *buffer;
    uint64_t bytes;
};

static void check(cairn_err rc, const char *what, const char *why)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "overhead: %s: %s\n", what, why);
    exit(1);
}

static int64_t now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* Computes, because a sleeping thread would measure its wake-up. */
static void pause_busy(void)
{
    int64_t until = now() + PAUSE_NS;

    while (now() < until)
        ;
}

/* Captures come after the legacy stream of device 0. */
static void *const streams[CRN_GPUS] = {CRN_STREAM_LEGACY};

static double copy(struct bed *b, double *seconds)
{
    const struct crn_driver_ops *ops = b->driver->ops;
    struct crn_errinfo ei = {0};
    void *to;
    size_t i;

    check(ops->alloc(b->dev, b->bytes, &to, &ei), "alloc", ei.msg);
    for (i = 0; i < CAPTURES; i++) {
        double start;

        pause_busy();
        start = bench_now();
        check(ops->after(b->dev, CRN_LANE_WRITE, CRN_STREAM_LEGACY, &ei), "after", ei.msg);
        check(ops->copy(b->dev, CRN_LANE_WRITE, to, b->buffer, b->bytes, &ei), "copy", ei.msg);
        check(ops->wait(b->dev, CRN_LANE_WRITE, &ei), "wait", ei.msg);
        seconds[i] = bench_now() - start;
    }
    ops->free(b->dev, to);
    return bench_median(seconds, CAPTURES);
}

static double cache(struct bed *b, double *seconds)
{
    struct crn_cache_options opt = {.ntiers = 3};
    struct crn_tier_piece piece = {b->buffer, 0, b->bytes, b->dev};
    struct crn_errinfo ei = {0};
    struct crn_cache *c;
    size_t i;

    check(crn_tier_device(b->dev, DEVICE, &opt.tier[0], &ei), "device tier", ei.msg);
    check(crn_tier_host(b->dev, HOST, 1, &opt.tier[1], &ei), "host tier", ei.msg);
    check(crn_tier_file(crn_fs_posix(), b->dir, HOST, &opt.tier[2], &ei), "file tier", ei.msg);
    check(crn_cache_open(&opt, &c, &ei), "cache", ei.msg);
    check(crn_cache_ready(c, now() + FOR_EVER, &ei), "cache", ei.msg);
    for (i = 0; i < CAPTURES; i++) {
        double start;

        pause_busy();
        start = bench_now();
        check(crn_cache_write(c, i + 1, b->bytes, &piece, 1, streams, now() + FOR_EVER, &ei),
              "write", ei.msg);
        seconds[i] = bench_now() - start;
    }
    crn_cache_close(c);
    return bench_median(seconds, CAPTURES);
}

static double session(struct bed *b, double *seconds)
{
    char text[4][400];
    const char *settings[] = {text[0], text[1], text[2], text[3], "fresh=on", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    struct crn_errinfo ei = {0};
    cairn_session *s;
    size_t i;

    (void)snprintf(text[0], sizeof(text[0]), "persistent=%s/p", b->dir);
    (void)snprintf(text[1], sizeof(text[1]), "run_dir=%s/run", b->dir);
    (void)snprintf(text[2], sizeof(text[2]), "arena_bytes=%llu", (unsigned long long)HOST);
    (void)snprintf(text[3], sizeof(text[3]), "device_cache=%llu", (unsigned long long)DEVICE);
    check(cairn_open(&opt, &s), "open", cairn_last_error());
    check(cairn_protect(s, "field", b->buffer, CAIRN_BYTES, b->bytes), "protect",
          cairn_last_error());
    check(cairn_gpu_stream(s, streams[0]), "stream", cairn_last_error());
    check(cairn_checkpoint(s, "c", 0, NULL), "checkpoint",
          cairn_last_error()); /* opens the tiers */
    for (i = 0; i < CAPTURES; i++) {
        double start;

        pause_busy();
        start = bench_now();
        check(cairn_checkpoint(s, "c", (int64_t)i + 1, NULL), "checkpoint", cairn_last_error());
        seconds[i] = bench_now() - start;
    }
    check(cairn_close(s), "close", cairn_last_error());
    (void)snprintf(text[0], sizeof(text[0]), "%s/p", b->dir);
    check(crn_fs_remove_tree(crn_fs_posix(), AT_FDCWD, text[0], &ei), "remove", ei.msg);
    return bench_median(seconds, CAPTURES);
}

static double (*const run[])(struct bed *b, double *seconds) = {copy, cache, session};

static void bed_open(struct bed *b)
{
    struct crn_errinfo ei = {0};

    check(crn_driver_cuda(0, &b->driver, &ei), "CUDA", ei.msg);
    check(b->driver->ops->device_open(b->driver, 0, &b->dev, &ei), "GPU 0", ei.msg);
    check(b->driver->ops->alloc(b->dev, MAX_BYTES, &b->buffer, &ei), "alloc", ei.msg);
}

static void bed_close(struct bed *b)
{
    b->driver->ops->free(b->dev, b->buffer);
    b->driver->ops->device_close(b->dev);
    b->driver->ops->close(b->driver);
}

int main(int argc, char **argv)
{
    static const char *const methods[] = {"copy", "cache", "session"};
    static double seconds[CAPTURES];
    int is_quick = argc > 2 && strcmp(argv[2], "--quick") == 0;
    struct bench_case c = {.bench = "overhead",
                           .name = "capture of 4 KiB",
                           .bytes = 4096,
                           .methods = methods,
                           .nmethods = 3,
                           .rounds = is_quick ? 3 : 9};
    struct bed b = {.bytes = c.bytes};
    size_t r, i;
    int rc;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: overhead DIR [--quick]\n");
        return 2;
    }
    b.dir = argv[1];
    if (bench_case_init(&c) != 0)
        return 1;
    bed_open(&b);
    for (r = 0; r < c.rounds; r++)
        for (i = 0; i < c.nmethods; i++) {
            size_t m = bench_turn(&c, r, i);

            *bench_time(&c, r, m) = run[m](&b, seconds);
        }
    bed_close(&b);
    bench_header(&c);
    rc = bench_report(&c);
    bench_case_fini(&c);
    return rc == 0 ? 0 : 1;
}
