/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the benchmark shot: a case, the device, and the methods. */
#ifndef BENCH_SHOT_H
#define BENCH_SHOT_H

#include <stdio.h>

#include "tier/cache.h"

enum shot_order { SHOT_SEQUENTIAL = 0, SHOT_REVERSE, SHOT_IRREGULAR, SHOT_ORDERS };
enum shot_hints { SHOT_NONE = 0, SHOT_ONE, SHOT_ALL, SHOT_HINTS };

/* One shot: n checkpoints are written, then read in some order. */
struct shot_case {
    uint32_t n;
    uint64_t *bytes; /* owned; of each checkpoint */
    uint32_t *order; /* owned; which one is read i-th */
    uint64_t total;  /* bytes */
    uint64_t largest;
    enum shot_order order_kind;
    enum shot_hints hints;
    int is_uniform;
    int wait; /* for all flushes, between writing and reading */
    int64_t interval_ns;
    int is_busy;                       /* the application computes on the device; else it sleeps */
    uint64_t device_bytes, host_bytes; /* of the tiers */
};

#define SCRATCH ((uint64_t)1 << 20)

/* The device and the application's memory. */
struct shot_env {
    struct crn_driver *driver;
    struct crn_device *dev;
    unsigned char *buffer;             /* on the device: what is checkpointed */
    unsigned char *other;              /* on the device, for the limit */
    unsigned char *scratch;            /* on the device: what is computed on, twice SCRATCH */
    unsigned char *staging;            /* in the host, pinned */
    uint64_t bytes;                    /* of each of the three */
    const char *dir;                   /* for files */
    FILE *trace, *ops;                 /* of the cairn methods; NULL: not written */
    int is_verifying;                  /* compare all bytes, not only some: not for timing */
    struct shot_cuda *cuda;            /* NULL: the fake library */
    double pinned_down_s, pinned_up_s; /* of staging, both ways: the limit of the link */
};

struct shot_result {
    double write_s, read_s; /* the application was blocked */
    double flush_s;         /* waited between the passes */
    double start_s;         /* until all tiers were ready */
    uint64_t hits[CRN_TIERS_MAX];
    uint64_t ntiers;
    double down_bps, up_bps; /* of the background, device and host */
    double distance;         /* mean over the reads */
};

struct shot_method {
    const char *name;
    const char *policy; /* NULL: none */
    int needs_cuda;
    /* Exits with a message if something fails. */
    void (*run)(struct shot_env *env, const struct shot_case *c, struct shot_result *ret);
};
extern const struct shot_method shot_limit, shot_score, shot_lru, shot_session, shot_session_local,
    shot_direct, shot_uvm, shot_uvm_files;

/* shot_report.c: the results of a method in a case, and the limit in the same rounds. */
struct shot_line {
    const struct shot_env *env;
    const struct shot_case *c;
    const struct shot_method *method;
    uint32_t rounds;
    const struct shot_result *r, *limit; /* of each round */
};
extern const char *const shot_order_names[SHOT_ORDERS];
extern const char *const shot_hint_names[SHOT_HINTS];
extern const char *const shot_size_names[2]; /* by !is_uniform */
extern const char *const shot_wait_names[2];
void shot_report_head(const struct shot_env *env);
void shot_report(const struct shot_line *l);

void shot_die(const char *what, const char *why) __attribute__((noreturn));
void shot_check(cairn_err rc, const struct crn_errinfo *ei, const char *what);

/* shot_run.c: the application around its checkpoints. */
void shot_compute(struct shot_env *env, const struct shot_case *c);
/* Fills the buffer with the contents of checkpoint i; tests whether it has them now. */
void shot_fill(struct shot_env *env, const struct shot_case *c, uint32_t i);
void shot_compare(struct shot_env *env, const struct shot_case *c, uint32_t i, const char *method);
/* A synchronous copy between any two memories; returns seconds. */
double shot_copy(struct shot_env *env, void *dst, const void *src, uint64_t bytes);
/* Host memory to a file of its own, through the page cache, and back; the file is removed then. */
void shot_save(const struct shot_env *env, uint32_t i, const void *src, uint64_t bytes);
void shot_load(const struct shot_env *env, uint32_t i, void *dst, uint64_t bytes);

/* shot_uvm.c: CUDA beyond what Cairn needs. */
struct shot_cuda *shot_cuda_open(void); /* NULL: no CUDA */
void shot_cuda_fill(struct shot_cuda *cuda, void *ptr, uint32_t word, uint64_t bytes);

#endif
