/* SPDX-License-Identifier: BSD-3-Clause */
/* The table on standard error and the lines on standard output. */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "common.h"
#include "shot.h"

const char *const shot_order_names[SHOT_ORDERS] = {"sequential", "reverse", "irregular"};
const char *const shot_hint_names[SHOT_HINTS] = {"none", "one", "all"};
const char *const shot_size_names[2] = {"uniform", "variable"};
const char *const shot_wait_names[2] = {"no", "yes"};
enum what { BOTH, WRITE, READ, DOWN, UP };

static double value(const struct shot_result *r, enum what what)
{
    switch (what) {
    case WRITE:
        return r->write_s;
    case READ:
        return r->read_s;
    case DOWN:
        return r->down_bps;
    case UP:
        return r->up_bps;
    default:
        return r->write_s + r->read_s;
    }
}

static double median(const struct shot_result *r, uint32_t n, enum what what)
{
    double v[64];
    uint32_t i;

    for (i = 0; i < n; i++)
        v[i] = value(&r[i], what);
    return bench_median(v, n);
}

static double extreme(const struct shot_result *r, uint32_t n, int is_max)
{
    double best = r[0].write_s + r[0].read_s;
    uint32_t i;

    for (i = 1; i < n; i++) {
        double v = r[i].write_s + r[i].read_s;

        if (is_max ? v > best : v < best)
            best = v;
    }
    return best;
}

static void print_row(const struct shot_line *l)
{
    uint32_t n = l->rounds;
    double write = median(l->r, n, WRITE);
    double read = median(l->r, n, READ);
    double total = (double)l->c->total;

    (void)fprintf(stderr, "%-8s %-10s %-4s %-4s %-16s %9.2f %9.2f %6.3f %6.3f %4llu %4llu %4llu",
                  shot_size_names[!l->c->is_uniform], shot_order_names[l->c->order_kind],
                  shot_hint_names[l->c->hints], shot_wait_names[l->c->wait], l->method->name,
                  total / write * 1e-9, total / read * 1e-9, median(l->limit, n, WRITE) / write,
                  median(l->limit, n, READ) / read, (unsigned long long)l->r->hits[0],
                  (unsigned long long)l->r->hits[1], (unsigned long long)l->r->hits[2]);
    (void)fprintf(stderr, " %6.1f %6.1f %6.2f\n", median(l->r, n, DOWN) * 1e-9,
                  median(l->r, n, UP) * 1e-9, l->r->start_s);
}

void shot_report_head(const struct shot_env *env)
{
    double bytes = (double)env->bytes;

    (void)fprintf(stderr, "pinned copies: %.1f GB/s down, %.1f GB/s up\n",
                  bytes / env->pinned_down_s * 1e-9, bytes / env->pinned_up_s * 1e-9);
    (void)fprintf(stderr, "%-8s %-10s %-4s %-4s %-16s %9s %9s %6s %6s %4s %4s %4s %6s %6s %6s\n",
                  "sizes", "order", "hint", "wait", "method", "write", "read", "w/lim", "r/lim",
                  "dev", "host", "file", "down", "up", "start");
}

static void print_json(const struct shot_line *l)
{
    uint32_t n = l->rounds;
    double both = median(l->r, n, BOTH);
    double bytes = (double)l->env->bytes;
    char name[128];
    struct crn_json j;
    uint32_t i;

    (void)snprintf(name, sizeof(name), "%s, %s, hints %s, wait %s",
                   shot_size_names[!l->c->is_uniform], shot_order_names[l->c->order_kind],
                   shot_hint_names[l->c->hints], shot_wait_names[l->c->wait]);
    crn_json_begin(&j, stdout);
    crn_json_object(&j, NULL);
    crn_json_str(&j, "bench", "shot");
    crn_json_str(&j, "case", name);
    crn_json_str(&j, "method", l->method->name);
    crn_json_u64(&j, "bytes", 2 * l->c->total);
    crn_json_u64(&j, "n", n);
    crn_json_f64(&j, "median_s", both);
    crn_json_f64(&j, "min_s", extreme(l->r, n, 0));
    crn_json_f64(&j, "max_s", extreme(l->r, n, 1));
    crn_json_f64(&j, "ratio_to_limit", median(l->limit, n, BOTH) / both);
    crn_json_str(&j, "device", l->env->cuda != NULL ? "cuda" : "fake");
    crn_json_str(&j, "sizes", shot_size_names[!l->c->is_uniform]);
    crn_json_str(&j, "order", shot_order_names[l->c->order_kind]);
    crn_json_str(&j, "hints", shot_hint_names[l->c->hints]);
    crn_json_str(&j, "policy", l->method->policy);
    crn_json_bool(&j, "wait", l->c->wait);
    crn_json_f64(&j, "interval_s", (double)l->c->interval_ns * 1e-9);
    crn_json_bool(&j, "busy", l->c->is_busy);
    crn_json_u64(&j, "checkpoints", l->c->n);
    crn_json_u64(&j, "device_bytes", l->c->device_bytes);
    crn_json_u64(&j, "host_bytes", l->c->host_bytes);
    crn_json_f64(&j, "write_blocked_s", median(l->r, n, WRITE));
    crn_json_f64(&j, "read_blocked_s", median(l->r, n, READ));
    crn_json_f64(&j, "write_ratio_to_limit", median(l->limit, n, WRITE) / median(l->r, n, WRITE));
    crn_json_f64(&j, "read_ratio_to_limit", median(l->limit, n, READ) / median(l->r, n, READ));
    crn_json_array(&j, "hits");
    for (i = 0; i < l->r->ntiers; i++)
        crn_json_u64(&j, NULL, l->r->hits[i]);
    crn_json_end_array(&j);
    crn_json_f64(&j, "distance", l->r->distance);
    crn_json_f64(&j, "flush_wait_s", l->r->flush_s);
    crn_json_f64(&j, "start_s", l->r->start_s);
    crn_json_f64(&j, "down_Bps", median(l->r, n, DOWN));
    crn_json_f64(&j, "up_Bps", median(l->r, n, UP));
    crn_json_f64(&j, "pinned_down_Bps", bytes / l->env->pinned_down_s);
    crn_json_f64(&j, "pinned_up_Bps", bytes / l->env->pinned_up_s);
    crn_json_end_object(&j);
    if (crn_json_finish(&j) != 0)
        shot_die("standard output", strerror(errno));
    (void)fflush(stdout);
}

void shot_report(const struct shot_line *l)
{
    print_row(l);
    print_json(l);
}
