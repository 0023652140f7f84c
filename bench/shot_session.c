/* SPDX-License-Identifier: BSD-3-Clause */
/* The same shot through the public interface: a session whose slowest tier is the committed,
 * synced versions, and one with a file on the node's disk above them. Sizes change from
 * checkpoint to checkpoint, so the region is protected again before each. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "common.h"
#include "client/tiers_impl.h"
#include "shot.h"
#include "tier/area.h"

#define NAME "shot"

static void must(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        shot_die(what, cairn_last_error());
}

static cairn_session *open_session(const struct shot_env *env, const struct shot_case *c,
                                   int has_local)
{
    char text[7][400];
    const char *settings[] = {text[0],    text[1], text[2], text[3], text[4],
                              "fresh=on", NULL,    NULL,    NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    unsigned long long local = c->total + (uint64_t)2 * c->n * CRN_AREA_GRANULE;
    cairn_session *s;

    (void)snprintf(text[0], sizeof(text[0]), "persistent=%s/session", env->dir);
    (void)snprintf(text[1], sizeof(text[1]), "run_dir=%s/run", env->dir);
    (void)snprintf(text[2], sizeof(text[2]), "arena_bytes=%llu", (unsigned long long)c->host_bytes);
    (void)snprintf(text[3], sizeof(text[3]), "device_cache=%llu",
                   (unsigned long long)c->device_bytes);
    (void)snprintf(text[4], sizeof(text[4]), "discard_consumed=%s", c->wait ? "off" : "on");
    (void)snprintf(text[5], sizeof(text[5]), "local=%s/local", env->dir);
    (void)snprintf(text[6], sizeof(text[6]), "local_cache=%llu", local);
    if (has_local) {
        settings[6] = text[5];
        settings[7] = text[6];
    }
    must(cairn_open(&opt, &s), "open");
    (void)!cairn_gpu_stream(s, CRN_STREAM_LEGACY); /* kernels run there; without a GPU it fails */
    return s;
}

static void protect(cairn_session *s, const struct shot_env *env, const struct shot_case *c,
                    uint32_t i)
{
    must(cairn_protect(s, "field", env->buffer, CAIRN_BYTES, c->bytes[i]), "protect");
}

static void log_op(const cairn_session *s, const struct shot_env *env, uint32_t version)
{
    struct crn_cache_op op;

    if (env->ops == NULL || !crn_tiers_are_open(s))
        return;
    op = s->tiers->op;
    op.key = version;
    crn_cache_op_print(env->ops, &op);
}

static void forward(cairn_session *s, struct shot_env *env, const struct shot_case *c,
                    struct shot_result *ret)
{
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        double start;

        shot_fill(env, c, i);
        protect(s, env, c, i);
        shot_compute(env, c);
        start = bench_now();
        must(cairn_checkpoint(s, NAME, i, NULL), "checkpoint");
        ret->write_s += i > 0 ? bench_now() - start : 0; /* the first one opens the tiers */
        log_op(s, env, i);
    }
    ret->write_s *= (double)c->n / (double)(c->n - 1);
}

static void backward(cairn_session *s, struct shot_env *env, const struct shot_case *c,
                     struct shot_result *ret)
{
    uint32_t i;

    for (i = 0; i < c->n; i++) {
        uint32_t key = c->order[i];
        double start;

        if (c->hints == SHOT_ONE && i + 1 < c->n)
            must(cairn_prefetch_enqueue(s, NAME, c->order[i + 1]), "hint");
        protect(s, env, c, key);
        start = bench_now();
        must(cairn_restore(s, NAME, key, NULL), "restore");
        ret->read_s += bench_now() - start;
        log_op(s, env, key);
        shot_compare(env, c, key, "session");
        shot_compute(env, c);
    }
}

static void note(const cairn_session *s, const struct shot_case *c, struct shot_result *ret)
{
    struct crn_cache_stats stats;
    uint64_t memory;

    if (!crn_tiers_are_open(s))
        return;
    crn_cache_get_stats(s->tiers->cache, &stats);
    memory = stats.hits[0] + stats.hits[1];
    memcpy(ret->hits, stats.hits, sizeof(ret->hits));
    ret->ntiers = 3;
    ret->hits[2] = c->n - memory; /* bytes that were not in memory came from files */
    if (stats.flush_ns[0] > 0)
        ret->down_bps = (double)stats.flushed_bytes[0] * 1e9 / (double)stats.flush_ns[0];
    if (stats.prefetch_ns[0] > 0)
        ret->up_bps = (double)stats.prefetched_bytes[0] * 1e9 / (double)stats.prefetch_ns[0];
}

static void run(struct shot_env *env, const struct shot_case *c, struct shot_result *ret,
                int has_local)
{
    cairn_session *s = open_session(env, c, has_local);
    struct crn_errinfo ei = {0};
    char path[400];
    double start;
    uint32_t i;

    for (i = 0; c->hints == SHOT_ALL && i < c->n; i++)
        must(cairn_prefetch_enqueue(s, NAME, c->order[i]), "hint");
    forward(s, env, c, ret);
    start = bench_now();
    if (c->wait)
        must(cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "wait");
    ret->flush_s = bench_now() - start;
    must(cairn_prefetch_start(s), "start");
    backward(s, env, c, ret);
    note(s, c, ret);
    must(cairn_close(s), "close");
    (void)snprintf(path, sizeof(path), "%s/session", env->dir);
    shot_check(crn_fs_remove_tree(crn_fs_posix(), AT_FDCWD, path, &ei), &ei, "remove");
}

static void run_plain(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    run(env, c, ret, 0);
}

static void run_local(struct shot_env *env, const struct shot_case *c, struct shot_result *ret)
{
    run(env, c, ret, 1);
}

const struct shot_method shot_session = {"session", "score", 1, run_plain};
const struct shot_method shot_session_local = {"session-local", "score", 1, run_local};
