/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the benchmark broker: results, and the two measured sides. */
#ifndef BENCH_BROKER_H
#define BENCH_BROKER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define S          1000000000LL
#define MAX_ROUNDS 2000

extern size_t bench_rounds;

struct bench_result {
    const char *name, *method;
    size_t waiting;
    size_t bytes; /* of one message */
    double time[MAX_ROUNDS];
    double limit[MAX_ROUNDS];
    size_t n;
    double per_s;            /* requests; 0: not measured */
    long rss_begin, rss_end; /* KiB of the broker; 0: not measured */
};

int64_t bench_now_ns(void);
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *fmt, ...);
void bench_check(cairn_err rc, const struct crn_errinfo *ei);
size_t bench_report_bytes(void);
/* Sorts the times; a row of the table and a JSON line. */
void bench_print(struct bench_result *r);

/* cairn-broker and real connections, at most max_waiting at a time: handoff and reports. Removes
 * its files when the program ends. */
void bench_server_open(size_t max_waiting);
void bench_server(size_t waiting);

#endif
