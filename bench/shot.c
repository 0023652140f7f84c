/* SPDX-License-Identifier: BSD-3-Clause */
/* The paper's shot: a forward pass writes n checkpoints at an interval, a backward pass reads
 * them in some order, with no hint, one hint at a time or all of them, after waiting for the
 * flushes or not. The result is how long the application is blocked. Runs on a GPU, or on a
 * simulated device, where only the comparison of methods is meaningful.
 *
 * Started by the script bench/shot, which makes the directory for files and removes it. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "shot.h"
#include "tier/device.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static const char usage[] =
    "usage: shot --dir DIR [--quick] [--device cuda|sim] [--n N] [--mib MEAN] [--interval MS]\n"
    "            [--device-mib SIZE] [--host-mib SIZE] [--sizes uniform,variable]\n"
    "            [--orders sequential,reverse,irregular] [--hints none,one,all] [--wait no,yes]\n"
    "            [--methods cairn-score,cairn-lru,session,session-local,direct,uvm,uvm-files]\n"
    "            [--rounds N] [--trace FILE] [--ops FILE] [--verify] [--busy]\n";

static const struct shot_method *const methods[] = {
    &shot_score,  &shot_lru, &shot_session,  &shot_session_local,
    &shot_direct, &shot_uvm, &shot_uvm_files};
#define NMETHODS (sizeof(methods) / sizeof(methods[0]))

/* What to run; sets are bits. */
struct plan {
    int is_quick, is_cuda, is_busy;
    uint32_t n;
    uint64_t mean, device_bytes, host_bytes;
    int64_t interval_ns;
    unsigned sizes, orders, hints, waits, methods;
    uint32_t rounds;
    const char *trace, *ops;
};

/* Sizes and orders. --------------------------------------------------------------------------------- */

/* Small first, then growing, with some noise: the shape of a seismic shot's compressed snapshots. */
static void make_sizes(struct shot_case *c, uint64_t mean)
{
    struct crn_rng rng;
    double *w = calloc(c->n, sizeof(*w));
    double sum = 0;
    uint32_t i;

    if (w == NULL)
        shot_die("sizes", "out of memory");
    crn_rng_seed(&rng, 4);
    for (i = 0; i < c->n; i++) {
        double x = ((double)i + 1) / (double)c->n;

        w[i] = c->is_uniform ? 1 : (0.05 + pow(x, 1.5)) * (0.8 + 0.4 * crn_rng_unit(&rng));
        sum += w[i];
    }
    for (i = 0; i < c->n; i++) {
        c->bytes[i] = (uint64_t)(w[i] / sum * (double)c->n * (double)mean) / 4096 * 4096;
        c->bytes[i] = c->bytes[i] < 3 * 4096 ? 3 * 4096 : c->bytes[i];
        c->total += c->bytes[i];
        c->largest = c->bytes[i] > c->largest ? c->bytes[i] : c->largest;
    }
    free(w);
}

static void make_order(struct shot_case *c)
{
    struct crn_rng rng;
    uint32_t i;

    crn_rng_seed(&rng, 7);
    for (i = 0; i < c->n; i++)
        c->order[i] = c->order_kind == SHOT_REVERSE ? c->n - 1 - i : i;
    for (i = c->n - 1; c->order_kind == SHOT_IRREGULAR && i > 0; i--) {
        uint32_t k = (uint32_t)crn_rng_below(&rng, i + 1);
        uint32_t t = c->order[i];

        c->order[i] = c->order[k];
        c->order[k] = t;
    }
}

static void open_case(struct shot_case *c, const struct plan *p, int size, int order, int hints,
                      int wait)
{
    memset(c, 0, sizeof(*c));
    c->n = p->n;
    c->is_uniform = size == 0;
    c->order_kind = (enum shot_order)order;
    c->hints = (enum shot_hints)hints;
    c->wait = wait;
    c->interval_ns = p->interval_ns;
    c->is_busy = p->is_busy;
    c->device_bytes = p->device_bytes;
    c->host_bytes = p->host_bytes;
    c->bytes = calloc(c->n, sizeof(*c->bytes));
    c->order = calloc(c->n, sizeof(*c->order));
    if (c->bytes == NULL || c->order == NULL)
        shot_die("a case", "out of memory");
    make_sizes(c, p->mean);
    make_order(c);
}

static void close_case(struct shot_case *c)
{
    free(c->bytes);
    free(c->order);
}

/* Running. --------------------------------------------------------------------------------------------- */

static void run_case(struct shot_env *env, const struct plan *p, const struct shot_case *c)
{
    struct shot_result r[NMETHODS + 1][64];
    uint32_t round;
    size_t m;

    memset(r, 0, sizeof(r));
    for (round = 0; round < p->rounds; round++) {
        shot_limit.run(env, c, &r[NMETHODS][round]);
        for (m = 0; m < NMETHODS; m++) {
            size_t turn = (m + round) % NMETHODS;

            if (p->methods & (1U << turn))
                methods[turn]->run(env, c, &r[turn][round]);
        }
    }
    for (m = 0; m <= NMETHODS; m++) {
        struct shot_line l = {.env = env,
                              .c = c,
                              .method = m < NMETHODS ? methods[m] : &shot_limit,
                              .rounds = p->rounds,
                              .r = r[m],
                              .limit = r[NMETHODS]};

        if (m < NMETHODS && !(p->methods & (1U << m)))
            continue;
        shot_report(&l);
    }
}

static void run_all(struct shot_env *env, const struct plan *p)
{
    struct shot_case c;
    int size;
    int order;
    int hints;
    int wait;

    for (size = 0; size < 2; size++)
        for (order = 0; order < SHOT_ORDERS; order++)
            for (hints = 0; hints < SHOT_HINTS; hints++)
                for (wait = 0; wait < 2; wait++) {
                    if (!(p->sizes & (1U << size)) || !(p->orders & (1U << order)) ||
                        !(p->hints & (1U << hints)) || !(p->waits & (1U << wait)))
                        continue;
                    open_case(&c, p, size, order, hints, wait);
                    run_case(env, p, &c);
                    close_case(&c);
                }
}

/* The device. ------------------------------------------------------------------------------------------ */

static void open_driver(struct shot_env *env, const struct plan *p)
{
    struct crn_errinfo ei = {0};

    if (p->is_cuda) {
        env->cuda = shot_cuda_open();
    } else { /* slow links, so that a small shot behaves like a large one on a GPU */
        (void)setenv("FAKE_GPU_MEMORY", "8589934592", 1);
        (void)setenv("FAKE_GPU_SPEED", "1.5e9 0.5e9", 1);
    }
    shot_check(crn_driver_cuda(0, &env->driver, &ei), &ei, "CUDA");
    shot_check(env->driver->ops->device_open(env->driver, 0, &env->dev, &ei), &ei, "device");
}

static void open_env(struct shot_env *env, const struct plan *p)
{
    struct crn_errinfo ei = {0};
    struct shot_case largest;
    void *q;
    int i;

    open_driver(env, p);
    open_case(&largest, p, 1, 0, 0, 0);
    env->bytes = largest.largest > p->mean ? largest.largest : p->mean;
    close_case(&largest);
    shot_check(env->driver->ops->alloc(env->dev, env->bytes, &q, &ei), &ei, "device memory");
    env->buffer = q;
    shot_check(env->driver->ops->alloc(env->dev, env->bytes, &q, &ei), &ei, "device memory");
    env->other = q;
    shot_check(env->driver->ops->alloc(env->dev, 2 * SCRATCH, &q, &ei), &ei, "device memory");
    env->scratch = q;
    env->staging = aligned_alloc(4096, (env->bytes + 4095) / 4096 * 4096);
    if (env->staging == NULL)
        shot_die("staging buffer", "out of memory");
    memset(env->staging, 0, env->bytes);
    shot_check(env->driver->ops->pin(env->dev, env->staging, env->bytes, &ei), &ei, "pin");
    env->pinned_down_s = env->pinned_up_s = 1e9;
    for (i = 0; i < 5; i++) {
        double down = shot_copy(env, env->staging, env->buffer, env->bytes);
        double up = shot_copy(env, env->buffer, env->staging, env->bytes);

        env->pinned_down_s = down < env->pinned_down_s ? down : env->pinned_down_s;
        env->pinned_up_s = up < env->pinned_up_s ? up : env->pinned_up_s;
        (void)shot_copy(env, env->other, env->buffer, env->bytes);
    }
}

static void close_env(struct shot_env *env)
{
    env->driver->ops->unpin(env->dev, env->staging);
    free(env->staging);
    env->driver->ops->free(env->dev, env->buffer);
    env->driver->ops->free(env->dev, env->other);
    env->driver->ops->free(env->dev, env->scratch);
    env->driver->ops->device_close(env->dev);
    env->driver->ops->close(env->driver);
    if (env->trace != NULL)
        (void)fclose(env->trace);
    if (env->ops != NULL)
        (void)fclose(env->ops);
}

static FILE *open_file(const char *path)
{
    FILE *f = path != NULL ? fopen(path, "we") : NULL;

    if (path != NULL && f == NULL)
        shot_die(path, strerror(errno));
    return f;
}

/* Options. ---------------------------------------------------------------------------------------------- */

static void die_usage(void)
{
    (void)fputs(usage, stderr);
    exit(2);
}

/* A list of names as bits. */
static unsigned parse_set(const char *text, const char *const *names, size_t n)
{
    char *copy = strdup(text);
    char *rest = NULL;
    unsigned set = 0;
    char *word;
    size_t i;

    if (copy == NULL)
        shot_die("options", "out of memory");
    for (word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        for (i = 0; i < n && strcmp(word, names[i]) != 0; i++)
            ;
        if (i == n)
            die_usage();
        set |= 1U << i;
    }
    free(copy);
    return set;
}

static uint64_t parse_number(const char *text)
{
    char *end;
    unsigned long long v = strtoull(text, &end, 10);

    if (end == text || *end != '\0')
        die_usage();
    return v;
}

static void defaults(struct plan *p)
{
    *p = (struct plan){.n = 96, .sizes = 3, .orders = 7, .hints = 7, .waits = 3, .rounds = 1};
    p->methods = (1U << NMETHODS) - 1;
}

/* Defaults: the paper's sizes on a GPU, small ones on the fake library. */
static void complete(struct plan *p)
{
    uint64_t unit = p->is_cuda ? 128 * MIB : p->is_quick ? MIB : 4 * MIB;
    size_t i;

    if (p->is_quick && p->n == 96)
        p->n = 24;
    if (p->is_quick && p->orders == 7) {
        p->orders = 1U << SHOT_REVERSE | 1U << SHOT_IRREGULAR;
        p->hints = 1U << SHOT_NONE | 1U << SHOT_ALL;
    }
    if (p->mean == 0)
        p->mean = unit;
    if (p->device_bytes == 0)
        p->device_bytes = p->n / 3 * p->mean;
    if (p->host_bytes == 0)
        p->host_bytes = p->n * p->mean;
    if (p->interval_ns == 0)
        p->interval_ns = 10000000;
    for (i = 0; !p->is_cuda && i < NMETHODS; i++)
        if (methods[i]->needs_cuda)
            p->methods &= ~(1U << i);
    if (p->rounds < 1 || p->rounds > 64 || p->n < 4)
        die_usage();
}

static void take(struct plan *p, struct shot_env *env, int c)
{
    const char *names[NMETHODS];
    size_t i;

    for (i = 0; i < NMETHODS; i++)
        names[i] = methods[i]->name;
    switch (c) {
    case 'q':
        p->is_quick = 1;
        break;
    case 'd':
        p->is_cuda = strcmp(optarg, "cuda") == 0;
        break;
    case 'D':
        env->dir = optarg;
        break;
    case 'n':
        p->n = (uint32_t)parse_number(optarg);
        break;
    case 'm':
        p->mean = parse_number(optarg) * MIB;
        break;
    case 'i':
        p->interval_ns = (int64_t)parse_number(optarg) * 1000000;
        break;
    case 'g':
        p->device_bytes = parse_number(optarg) * MIB;
        break;
    case 'h':
        p->host_bytes = parse_number(optarg) * MIB;
        break;
    case 's':
        p->sizes = parse_set(optarg, shot_size_names, 2);
        break;
    case 'o':
        p->orders = parse_set(optarg, shot_order_names, SHOT_ORDERS);
        break;
    case 'H':
        p->hints = parse_set(optarg, shot_hint_names, SHOT_HINTS);
        break;
    case 'w':
        p->waits = parse_set(optarg, shot_wait_names, 2);
        break;
    case 'M':
        p->methods = parse_set(optarg, names, NMETHODS);
        break;
    case 'r':
        p->rounds = (uint32_t)parse_number(optarg);
        break;
    case 't':
        p->trace = optarg;
        break;
    case 'O':
        p->ops = optarg;
        break;
    case 'v':
        env->is_verifying = 1;
        break;
    case 'b':
        p->is_busy = 1;
        break;
    default:
        die_usage();
    }
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"quick", no_argument, NULL, 'q'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"dir", required_argument, NULL, 'D'},
                                          {"n", required_argument, NULL, 'n'},
                                          {"mib", required_argument, NULL, 'm'},
                                          {"interval", required_argument, NULL, 'i'},
                                          {"device-mib", required_argument, NULL, 'g'},
                                          {"host-mib", required_argument, NULL, 'h'},
                                          {"sizes", required_argument, NULL, 's'},
                                          {"orders", required_argument, NULL, 'o'},
                                          {"hints", required_argument, NULL, 'H'},
                                          {"wait", required_argument, NULL, 'w'},
                                          {"methods", required_argument, NULL, 'M'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"trace", required_argument, NULL, 't'},
                                          {"ops", required_argument, NULL, 'O'},
                                          {"verify", no_argument, NULL, 'v'},
                                          {"busy", no_argument, NULL, 'b'},
                                          {0}};
    struct shot_env env = {0};
    struct plan p;
    int c;

    defaults(&p);
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
        take(&p, &env, c);
    complete(&p);
    if (env.dir == NULL)
        die_usage();
    env.trace = open_file(p.trace);
    env.ops = open_file(p.ops);
    if (env.ops != NULL)
        crn_cache_op_head(env.ops);
    open_env(&env, &p);
    shot_report_head(&env);
    run_all(&env, &p);
    close_env(&env);
    return 0;
}
