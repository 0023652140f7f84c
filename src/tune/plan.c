/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/plan.h"

#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

/* Two blocks for each of the most writers; with fewer, threads idle. */
#define BLOCKS_OF_PROBE (2 * CRN_PROBE_MAX_WRITERS)

static const uint32_t quick_writers[] = {1, 2, 4, 8, 16, 0};
static const uint32_t full_writers[] = {1, 2, 4, 6, 8, 12, 16, 0};
static const uint32_t quick_files[] = {1, 4, 0};
static const uint32_t full_files[] = {1, 2, 4, 8, 0};

const char *crn_stage_name(enum crn_stage stage)
{
    static const char *const names[CRN_STAGES] = {"threads", "methods", "blocks", "received"};

    return names[stage];
}

struct crn_tune_options crn_tune_defaults(int is_full)
{
    return (struct crn_tune_options){.is_full = is_full,
                                     .repeats = is_full ? 5 : 3,
                                     .seconds = is_full ? 900 : 45,
                                     .space_bytes = is_full ? 8 * G : 1 * G,
                                     .written_bytes = is_full ? 256 * G : 16 * G,
                                     .reserve_bytes = 64 * M};
}

static size_t plan_threads(const struct crn_tune_options *opt, const struct crn_probe *base,
                           struct crn_probe *ret)
{
    const uint32_t *files = opt->is_full ? full_files : quick_files;
    const uint32_t *writers;
    size_t n = 0;

    for (; *files != 0; files++)
        for (writers = opt->is_full ? full_writers : quick_writers; *writers != 0; writers++) {
            ret[n] = *base;
            ret[n].files = *files;
            ret[n].writers = *writers;
            ret[n].layout = CRN_INTERLEAVED;
            ret[n + 1] = ret[n];
            ret[n + 1].layout = CRN_CONTIGUOUS;
            /* the layouts are the same for one thread and one file */
            n += *writers == 1 && *files == 1 ? 1 : 2;
        }
    return n;
}

static size_t plan_methods(const struct crn_probe *base, struct crn_probe *ret)
{
    const uint32_t writers[] = {base->writers / 2, base->writers, 2 * base->writers};
    size_t n = 0, i;
    int method;

    for (method = 0; method < CRN_METHODS; method++)
        for (i = 0; i < 3; i++) {
            if (writers[i] < 1 || writers[i] > CRN_PROBE_MAX_WRITERS)
                continue;
            ret[n] = *base;
            ret[n].method = (enum crn_method)method;
            ret[n++].writers = writers[i];
        }
    return n;
}

static size_t plan_blocks(const struct crn_tune_options *opt, const struct crn_probe *base,
                          struct crn_probe *ret)
{
    uint64_t block;
    size_t n = 0;

    for (block = opt->is_full ? CRN_BLOCK_MIN : M; block <= CRN_BLOCK_MAX; block *= 4) {
        if (block != base->block_bytes && base->bytes / block < base->writers)
            break; /* a block for each writer; with fewer, it would measure fewer writers */
        ret[n] = *base;
        ret[n].block_bytes = block;
        ret[n++].bytes = base->bytes / block * block;
    }
    for (block = 0; block < n; block++)
        if (ret[block].block_bytes == base->block_bytes)
            return n;
    ret[n++] = *base; /* compared within the same stage */
    return n;
}

static size_t plan_received(const struct crn_probe *base, struct crn_probe *ret)
{
    static const uint32_t shares[] = {0, 50, 75, 90};
    size_t i;

    for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        ret[i] = *base;
        ret[i].layout = CRN_INTERLEAVED;
        ret[i].received = shares[i];
    }
    return i;
}

size_t crn_tune_plan(const struct crn_tune_options *opt, enum crn_stage stage,
                     const struct crn_probe *base, struct crn_probe *ret)
{
    switch (stage) {
    case CRN_STAGE_THREADS:
        return plan_threads(opt, base, ret);
    case CRN_STAGE_METHODS:
        return plan_methods(base, ret);
    case CRN_STAGE_BLOCKS:
        return plan_blocks(opt, base, ret);
    case CRN_STAGE_RECEIVED:
        return plan_received(base, ret);
    case CRN_STAGES:
        break;
    }
    return 0;
}

uint32_t crn_tune_runs(const struct crn_tune_options *opt)
{
    struct crn_probe base = {.writers = 4, .files = 1, .block_bytes = M, .bytes = G};
    struct crn_probe probes[CRN_STAGE_MAX];
    size_t n = 0;
    int stage;

    for (stage = 0; stage < CRN_STAGES; stage++)
        n += crn_tune_plan(opt, (enum crn_stage)stage, &base, probes);
    return (uint32_t)n * opt->repeats;
}

static uint64_t plan_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

cairn_err crn_tune_size(const struct crn_tune_options *opt, double rate, uint64_t free_bytes,
                        struct crn_probe *ret, struct crn_errinfo *ei)
{
    const uint64_t least = BLOCKS_OF_PROBE * CRN_BLOCK_MIN;
    uint64_t runs = crn_tune_runs(opt);
    double in_time = rate * opt->seconds / (double)runs;
    uint64_t bytes = plan_smaller(opt->space_bytes, opt->written_bytes / (runs + 1));
    uint64_t block = CRN_BLOCK_BASE;

    if (free_bytes < opt->reserve_bytes + 2 * least)
        return crn_fail(ei, CAIRN_ENOSPC, 0,
                        "the file system is full: %llu MiB free, %llu MiB are needed",
                        (unsigned long long)(free_bytes / M),
                        (unsigned long long)((opt->reserve_bytes + 2 * least) / M));
    if (bytes < least)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "%llu runs need at least %llu MiB of space and %llu MiB written in all",
                        (unsigned long long)runs, (unsigned long long)(least / M),
                        (unsigned long long)(least * (runs + 1) / M));
    bytes = plan_smaller(bytes, (free_bytes - opt->reserve_bytes) / 2);
    if (in_time < (double)bytes)
        bytes = in_time > (double)least ? (uint64_t)in_time : least;
    while (block > CRN_BLOCK_MIN && BLOCKS_OF_PROBE * block > bytes)
        block /= 2;
    ret->block_bytes = block;
    ret->bytes = bytes / (BLOCKS_OF_PROBE * block) * (BLOCKS_OF_PROBE * block);
    return CAIRN_OK;
}
