/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the benchmarks. A case compares methods on the same data in rounds. Each round runs
 * every method once and begins with another one each time, so that a slow period of the machine,
 * and caches warmed by a method, affect all alike. One method is the physical limit. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

struct bench_case {
    const char *bench;          /* the benchmark */
    const char *name;           /* the case, such as "2 ranks, 64 MiB" */
    uint64_t bytes;             /* moved by one run of a method */
    const char *const *methods; /* the first is the limit */
    size_t nmethods;
    size_t rounds;
    double *seconds; /* owned: rounds x nmethods */
};

double bench_now(void);

/* Zeroed times; 0, or -1 without memory. */
int bench_case_init(struct bench_case *c);
void bench_case_fini(struct bench_case *c);
/* Index of the i-th method of a round. */
size_t bench_turn(const struct bench_case *c, size_t round, size_t i);
double *bench_time(const struct bench_case *c, size_t round, size_t method);

double bench_median(const double *values, size_t n);

/* Whether a list with commas names it; no list (NULL) names all. */
int bench_is_named(const char *list, const char *name);

/* The heads of the table's columns, on standard error. */
void bench_header(const struct bench_case *c);
/* A row of the table on standard error and a JSON line for each method on standard output.
 * ratio_to_limit is the median, over the rounds, of the limit's time by the method's in the same
 * round. 0, or -1 if something cannot be written. */
int bench_report(const struct bench_case *c);

#endif
