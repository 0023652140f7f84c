/* SPDX-License-Identifier: BSD-3-Clause */
/* Drives the stages. Repetitions are the outer loop of a stage, so that interference by other
 * users of the file system affects all probes alike. A probe that the file system does not
 * support (O_DIRECT) is noted and skipped; any other error ends the tuning. */
#include "tune/tuner.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"

#define ARENA     ((uint64_t)256 << 20)
#define FIRST_TRY ((uint64_t)8 << 20)

struct tuner_work {
    const struct crn_tuner *t;
    struct crn_tuning *ret;
    struct crn_probe_env env;
    int64_t since_ns;
};

static double elapsed_s(const struct tuner_work *w)
{
    const struct crn_clock *clock = crn_clock_real();

    return (double)(clock->mono_ns(clock) - w->since_ns) * 1e-9;
}

/* May a probe of this size start? Each stage leaves the later ones their share of the time. */
static int may_start(struct tuner_work *w, enum crn_stage stage, uint64_t bytes)
{
    static const double until[CRN_STAGES] = {0.55, 0.75, 0.90, 1};

    if (w->ret->written + bytes > w->t->opt.written_bytes) {
        w->ret->cut_by = "bytes";
        return 0;
    }
    if (elapsed_s(w) > until[stage] * w->t->opt.seconds) {
        w->ret->cut_by = "time";
        return 0;
    }
    return 1;
}

static cairn_err tuner_measure(struct tuner_work *w, struct crn_measure *m, struct crn_errinfo *ei)
{
    struct crn_errinfo own = {0};
    double seconds;
    cairn_err rc;

    if (w->t->progress != NULL)
        w->t->progress(w->t->progress_arg, &m->probe);
    if (m->problem[0] != '\0')
        return CAIRN_OK;
    rc = crn_probe_run(&w->env, &m->probe, &seconds, &own);
    if (rc == CAIRN_ENOTSUP) {
        (void)snprintf(m->problem, sizeof(m->problem), "%.*s", (int)sizeof(m->problem) - 1,
                       own.msg);
        return CAIRN_OK;
    }
    if (rc != CAIRN_OK)
        return crn_fail(ei, rc, own.sys_errno, "%s", own.msg);
    w->ret->written += m->probe.bytes;
    crn_measure_add(m, (double)m->probe.bytes / seconds);
    return CAIRN_OK;
}

static cairn_err run_stage(struct tuner_work *w, enum crn_stage stage, struct crn_errinfo *ei)
{
    struct crn_probe probes[CRN_STAGE_MAX];
    struct crn_tuning *ret = w->ret;
    struct crn_measure *first = &ret->m[ret->n];
    const struct crn_measure *chosen;
    size_t n = crn_tune_plan(&w->t->opt, stage, &ret->best, probes);
    size_t i;
    uint32_t round;

    for (i = 0; i < n; i++)
        first[i] = (struct crn_measure){.stage = stage, .probe = probes[i]};
    ret->n += n;
    for (round = 0; round < w->t->opt.repeats; round++)
        for (i = 0; i < n; i++) {
            cairn_err rc;

            if (!may_start(w, stage, first[i].probe.bytes))
                break;
            rc = tuner_measure(w, &first[i], ei);
            if (rc != CAIRN_OK)
                return rc;
        }
    chosen = stage != CRN_STAGE_RECEIVED ? crn_tune_choose(first, n) : NULL;
    if (chosen != NULL) {
        uint64_t bytes = ret->best.bytes; /* a stage may have rounded it */

        ret->best = chosen->probe;
        ret->best.bytes = bytes / chosen->probe.block_bytes * chosen->probe.block_bytes;
        ret->best_rate = chosen->median;
    }
    return CAIRN_OK;
}

/* Estimates the speed with a small probe, so that the real ones fit in the time. */
static cairn_err set_sizes(struct tuner_work *w, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = w->env.fs;
    struct crn_probe p = {.writers = 4,
                          .files = 1,
                          .layout = CRN_INTERLEAVED,
                          .block_bytes = CRN_BLOCK_MIN,
                          .bytes = FIRST_TRY};
    struct crn_room space;
    double seconds = 0;
    cairn_err rc;

    rc = crn_fs_check(fs->space(fs, w->env.dfd, &space), ei, "free space");
    if (rc == CAIRN_OK) /* refuse before the first write */
        rc = crn_tune_size(&w->t->opt, 1e9, space.bytes, &p, ei);
    p.block_bytes = CRN_BLOCK_MIN;
    p.bytes = FIRST_TRY;
    if (rc == CAIRN_OK)
        rc = crn_probe_run(&w->env, &p, &seconds, ei);
    if (rc != CAIRN_OK)
        return rc;
    w->ret->written += p.bytes;
    w->ret->best = p;
    return crn_tune_size(&w->t->opt, (double)p.bytes / seconds, space.bytes, &w->ret->best, ei);
}

static double rate_of_one(const struct crn_tuning *t)
{
    size_t i;

    for (i = 0; i < t->n; i++)
        if (t->m[i].n > 0 && t->m[i].probe.writers == 1 && t->m[i].probe.files == 1)
            return t->m[i].median;
    return 0;
}

static cairn_err run_stages(struct tuner_work *w, struct crn_errinfo *ei)
{
    cairn_err rc = set_sizes(w, ei);
    int stage;

    for (stage = 0; stage < CRN_STAGES && rc == CAIRN_OK; stage++)
        rc = run_stage(w, (enum crn_stage)stage, ei);
    w->ret->seconds = elapsed_s(w);
    w->ret->one_rate = rate_of_one(w->ret);
    if (rc == CAIRN_OK && !(w->ret->best_rate > 0))
        rc = crn_fail(ei, CAIRN_ETIMEDOUT, 0, "the limits leave no time for a measurement");
    return rc;
}

/* Incompressible bytes. */
static void tuner_fill(unsigned char *p, uint64_t n)
{
    struct crn_rng rng;
    uint64_t i;

    crn_rng_seed(&rng, 1);
    for (i = 0; i + 8 <= n; i += 8) {
        uint64_t v = crn_rng_u64(&rng);

        memcpy(p + i, &v, 8);
    }
}

cairn_err crn_tune_run(const struct crn_tuner *t, const char *dir, struct crn_tuning *ret,
                       struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    struct tuner_work w = {.t = t, .ret = ret, .since_ns = clock->mono_ns(clock)};
    struct crn_scratch scratch;
    struct crn_pool arena;
    cairn_err rc, gone;

    memset(ret, 0, sizeof(*ret));
    if (t->opt.repeats < 1 || t->opt.repeats > CRN_MAX_REPEATS)
        return crn_fail(ei, CAIRN_EINVAL, 0, "1 to %d repetitions", CRN_MAX_REPEATS);
    rc = crn_scratch_open(t->fs, dir, &scratch, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_pool_init(&arena, 1, ARENA, ei);
    if (rc == CAIRN_OK) {
        void *memory = crn_pool_get(&arena);

        tuner_fill(memory, ARENA);
        w.env = (struct crn_probe_env){.fs = t->fs,
                                       .dfd = scratch.dfd,
                                       .arena = memory,
                                       .arena_bytes = ARENA,
                                       .stop = t->stop};
        rc = run_stages(&w, ei);
        crn_pool_put(&arena, memory);
        crn_pool_fini(&arena);
    }
    gone = crn_scratch_close(&scratch, rc == CAIRN_OK ? ei : NULL);
    return rc != CAIRN_OK ? rc : gone;
}
