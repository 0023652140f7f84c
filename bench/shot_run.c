/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods that need no CUDA: the limit (copies inside the device), Cairn with two policies, and
 * synchronous copies to files. None of them syncs its files: they extend memory. */
#include "shot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "common.h"
#include "tier/area.h"

#define FOR_EVER INT64_C(600000000000)
#define SAMPLE   4096

void shot_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "shot: %s: %s\n", what, why);
    exit(1);
}

void shot_check(cairn_err rc, const struct crn_errinfo *ei, const char *what)
{
    if (rc != CAIRN_OK)
        shot_die(what, ei->msg);
}

/* The application. --------------------------------------------------------------------------------- */

/* An idle device takes tens of microseconds to wake up; no method should be charged for that. */
void shot_compute(struct shot_env *env, const struct shot_case *c)
{
    struct timespec ts = {.tv_sec = c->interval_ns / 1000000000,
                          .tv_nsec = c->interval_ns % 1000000000};
    double end = bench_now() + (double)c->interval_ns * 1e-9;

    if (c->is_busy)
        while (bench_now() < end)
            (void)shot_copy(env, env->scratch, env->scratch + SCRATCH, SCRATCH);
    else if (c->interval_ns > 0)
        while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
            ;
}

static uint32_t word_of(uint32_t i)
{
    return i * 2654435761U + 1;
}

void shot_fill(struct shot_env *env, const struct shot_case *c, uint32_t i)
{
    uint32_t word = word_of(i);
    uint64_t at;

    if (env->cuda != NULL) {
        shot_cuda_fill(env->cuda, env->buffer, word, c->bytes[i]);
        return;
    }
    for (at = 0; at < c->bytes[i]; at += sizeof(word))
        memcpy(env->staging + at, &word, sizeof(word));
    (void)shot_copy(env, env->buffer, env->staging, c->bytes[i]);
}

static int is_word(const unsigned char *p, uint64_t bytes, uint32_t word)
{
    uint64_t at;
    uint32_t w;

    for (at = 0; at < bytes; at += sizeof(w)) {
        memcpy(&w, p + at, sizeof(w));
        if (w != word)
            return 0;
    }
    return 1;
}

/* All bytes, or the first, middle and last page; then they are spoilt, so that nothing stale passes
 * for the next one. */
void shot_compare(struct shot_env *env, const struct shot_case *c, uint32_t i, const char *method)
{
    uint64_t bytes = c->bytes[i];
    uint64_t at[3] = {0, bytes / 2 / SAMPLE * SAMPLE, bytes - SAMPLE};
    int k;

    if (env->is_verifying) {
        (void)shot_copy(env, env->staging, env->buffer, bytes);
        if (!is_word(env->staging, bytes, word_of(i)))
            shot_die(method, "what was read back differs from what was written");
    }
    for (k = 0; k < 3; k++) {
        (void)shot_copy(env, env->staging, env->buffer + at[k], SAMPLE);
        if (!is_word(env->staging, SAMPLE, word_of(i)))
            shot_die(method, "what was read back differs from what was written");
        memset(env->staging, 0xee, SAMPLE);
        (void)shot_copy(env, env->buffer + at[k], env->staging, SAMPLE);
    }
}

double shot_copy(struct shot_env *env, void *dst, const void *src, uint64_t bytes)
{
    const struct crn_driver_ops *ops = env->driver->ops;
    double start = bench_now();
    struct crn_errinfo ei = {0};

    shot_check(ops->copy(env->dev, CRN_LANE_WRITE, dst, src, bytes, &ei), &ei, "copy");
    shot_check(ops->wait(env->dev, CRN_LANE_WRITE, &ei), &ei, "copy");
    return bench_now() - start;
}

/* The limit. ---------------------------------------------------------------------------------------- */

/* As the application would see it: on a device that was idle for the interval. */
static void run_limit(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        shot_fill(env, c, i);
        shot_compute(env, c);
        ret->write_s += shot_copy(env, env->other, env->buffer, c->bytes[i]);
    }
    for (i = 0; i < c->n; i++) {
        ret->read_s += shot_copy(env, env->buffer, env->other, c->bytes[c->order[i]]);
        shot_compute(env, c);
    }
}

const struct shot_method shot_limit = {"device-to-device", NULL, 0, run_limit};

/* Cairn. --------------------------------------------------------------------------------------------- */

struct cairn_run {
    struct shot_env *env;
    struct shot_result *ret;
    struct crn_cache *cache;
};

static void on_op(void *arg, const struct crn_cache_op *op)
{
    struct cairn_run *r = arg;

    if (op->kind == CRN_CACHE_READ)
        r->ret->distance += op->distance;
    if (r->env->ops != NULL)
        crn_cache_op_print(r->env->ops, op);
}

static void open_cairn(struct cairn_run *r, const struct shot_case *c, enum crn_evict policy)
{
    struct shot_env *env = r->env;
    struct crn_errinfo ei = {0};
    struct crn_cache_options opt = {.policy = policy,
                                    .discard_consumed = !c->wait,
                                    .ntiers = 3,
                                    .threads = crn_cores(),
                                    .sharers = 1,
                                    .on_op = on_op,
                                    .arg = r,
                                    .trace = env->trace};
    double start = bench_now();
    uint64_t all = 0;
    uint32_t i;

    for (i = 0; i < c->n; i++)
        all += c->bytes[i] + CRN_AREA_GRANULE;
    shot_check(crn_tier_device(env->dev, c->device_bytes, &opt.tier[0], &ei), &ei, "device tier");
    shot_check(crn_tier_host(env->dev, c->host_bytes, crn_cores(), &opt.tier[1], &ei), &ei,
               "host tier");
    shot_check(crn_tier_file(crn_fs_posix(), env->dir, all, &opt.tier[2], &ei), &ei, "file tier");
    shot_check(crn_cache_open(&opt, &r->cache, &ei), &ei, "tier cache");
    shot_check(
        crn_cache_ready(r->cache, crn_clock_real()->mono_ns(crn_clock_real()) + FOR_EVER, &ei), &ei,
        "tiers");
    if (crn_tier_host_pin_error(opt.tier[1])->code != CAIRN_OK)
        (void)fprintf(stderr, "shot: host tier is not pinned: %s\n",
                      crn_tier_host_pin_error(opt.tier[1])->msg);
    r->ret->start_s = bench_now() - start;
}

static int64_t deadline(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real()) + FOR_EVER;
}

/* Kernels run on the legacy stream of device 0. */
static void *const shot_streams[CRN_GPUS] = {CRN_STREAM_LEGACY};

static void hint(struct cairn_run *r, uint32_t key)
{
    struct crn_errinfo ei = {0};

    shot_check(crn_cache_hint(r->cache, key, &ei), &ei, "hint");
}

static void forward(struct cairn_run *r, const struct shot_case *c)
{
    struct crn_errinfo ei = {0};
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        struct crn_tier_piece piece = {r->env->buffer, 0, c->bytes[i], r->env->dev};
        double start;

        shot_fill(r->env, c, i);
        shot_compute(r->env, c);
        start = bench_now();
        shot_check(
            crn_cache_write(r->cache, i, c->bytes[i], &piece, 1, shot_streams, deadline(), &ei),
            &ei, "checkpoint");
        r->ret->write_s += bench_now() - start;
    }
}

static void backward(struct cairn_run *r, const struct shot_case *c, const char *method)
{
    struct crn_errinfo ei = {0};
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        uint32_t key = c->order[i];
        struct crn_tier_piece piece = {r->env->buffer, 0, c->bytes[key], r->env->dev};
        double start;

        if (c->hints == SHOT_ONE && i + 1 < c->n)
            hint(r, c->order[i + 1]); /* for the next iteration, at the start of this one */
        start = bench_now();
        shot_check(crn_cache_read(r->cache, key, &piece, 1, shot_streams, deadline(), &ei), &ei,
                   "restore");
        r->ret->read_s += bench_now() - start;
        shot_compare(r->env, c, key, method);
        shot_compute(r->env, c);
    }
}

static void run_cairn(struct shot_env *env, const struct shot_case *c, struct shot_result *ret,
                      enum crn_evict policy, const char *method)
{
    struct cairn_run r = {.env = env, .ret = ret};
    struct crn_cache_stats stats;
    struct crn_errinfo ei = {0};
    double start;
    uint32_t i;

    open_cairn(&r, c, policy);
    for (i = 0; c->hints == SHOT_ALL && i < c->n; i++)
        hint(&r, c->order[i]);
    forward(&r, c);
    start = bench_now();
    if (c->wait)
        shot_check(crn_cache_flush(r.cache, deadline(), &ei), &ei, "flush");
    ret->flush_s = bench_now() - start;
    crn_cache_start(r.cache);
    backward(&r, c, method);
    crn_cache_get_stats(r.cache, &stats);
    memcpy(ret->hits, stats.hits, sizeof(ret->hits));
    ret->ntiers = 3;
    ret->distance /= c->n;
    if (stats.flush_ns[0] > 0)
        ret->down_bps = (double)stats.flushed_bytes[0] * 1e9 / (double)stats.flush_ns[0];
    if (stats.prefetch_ns[0] > 0)
        ret->up_bps = (double)stats.prefetched_bytes[0] * 1e9 / (double)stats.prefetch_ns[0];
    crn_cache_close(r.cache);
}

static void run_score(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    run_cairn(env, c, ret, CRN_EVICT_SCORE, "cairn-score");
}

static void run_lru(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    run_cairn(env, c, ret, CRN_EVICT_LRU, "cairn-lru");
}

const struct shot_method shot_score = {"cairn-score", "score", 0, run_score};
const struct shot_method shot_lru = {"cairn-lru", "lru", 0, run_lru};

/* Direct: through pinned memory to a file, while the application waits. -------------------------------- */

static void file_name(const struct shot_env *env, uint32_t i, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%s/checkpoint-%u", env->dir, i);
}

void shot_save(const struct shot_env *env, uint32_t i, const void *src, uint64_t bytes)
{
    struct crn_errinfo ei = {0};
    char name[512];
    int fd;

    file_name(env, i, name, sizeof(name));
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        shot_die(name, strerror(errno));
    shot_check(crn_fs_write_all(crn_fs_posix(), fd, src, bytes, 0, name, &ei), &ei, "save");
    (void)close(fd);
}

void shot_load(const struct shot_env *env, uint32_t i, void *dst, uint64_t bytes)
{
    struct crn_errinfo ei = {0};
    char name[512];
    int fd;

    file_name(env, i, name, sizeof(name));
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        shot_die(name, strerror(errno));
    shot_check(crn_fs_read_all(crn_fs_posix(), fd, dst, bytes, 0, name, &ei), &ei, "load");
    (void)close(fd);
    (void)unlink(name);
}

static void run_direct(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    double start;
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        shot_fill(env, c, i);
        shot_compute(env, c);
        start = bench_now();
        (void)shot_copy(env, env->staging, env->buffer, c->bytes[i]);
        shot_save(env, i, env->staging, c->bytes[i]);
        ret->write_s += bench_now() - start;
    }
    for (i = 0; i < c->n; i++) {
        start = bench_now();
        shot_load(env, c->order[i], env->staging, c->bytes[c->order[i]]);
        (void)shot_copy(env, env->buffer, env->staging, c->bytes[c->order[i]]);
        ret->read_s += bench_now() - start;
        shot_compare(env, c, c->order[i], "direct");
        shot_compute(env, c);
    }
}

const struct shot_method shot_direct = {"direct", NULL, 0, run_direct};
