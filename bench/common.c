/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"

#define NAME_WIDTH 20

double bench_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int bench_case_init(struct bench_case *c)
{
    c->seconds = calloc(c->rounds * c->nmethods, sizeof(*c->seconds));
    return c->seconds == NULL ? -1 : 0;
}

void bench_case_fini(struct bench_case *c)
{
    free(c->seconds);
    c->seconds = NULL;
}

size_t bench_turn(const struct bench_case *c, size_t round, size_t i)
{
    return (round + i) % c->nmethods;
}

double *bench_time(const struct bench_case *c, size_t round, size_t method)
{
    return &c->seconds[round * c->nmethods + method];
}

static int by_value(const void *x, const void *y)
{
    const double *a = x;
    const double *b = y;

    return *a < *b ? -1 : *a > *b;
}

double bench_median(const double *values, size_t n)
{
    double *sorted = malloc((n != 0 ? n : 1) * sizeof(*sorted));
    double median;

    if (sorted == NULL || n == 0) {
        free(sorted);
        return 0;
    }
    memcpy(sorted, values, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_value);
    median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    free(sorted);
    return median;
}

/* Three digits: "4.12 us", "80.9 ms". */
static void format_time(double seconds, char *buf, size_t size)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = seconds * 1e9;
    size_t i = 0;

    while (value >= 999.5 && i < 3) {
        value /= 1000;
        i++;
    }
    (void)snprintf(buf, size, "%.*f %s",
                   value < 9.995   ? 2
                   : value < 99.95 ? 1
                                   : 0,
                   value, units[i]);
}

struct summary {
    double median, min, max, ratio;
};

static int summarize(const struct bench_case *c, size_t method, struct summary *ret)
{
    double *times = malloc(2 * c->rounds * sizeof(*times));
    double *ratios = times + c->rounds;
    size_t i;

    if (times == NULL)
        return -1;
    for (i = 0; i < c->rounds; i++) {
        times[i] = *bench_time(c, i, method);
        ratios[i] = *bench_time(c, i, 0) / times[i];
        ret->min = i == 0 || times[i] < ret->min ? times[i] : ret->min;
        ret->max = i == 0 || times[i] > ret->max ? times[i] : ret->max;
    }
    ret->median = bench_median(times, c->rounds);
    ret->ratio = bench_median(ratios, c->rounds);
    free(times);
    return 0;
}

static int write_line(const struct bench_case *c, size_t method, const struct summary *s)
{
    struct crn_json j;

    crn_json_begin(&j, stdout);
    crn_json_object(&j, NULL);
    crn_json_str(&j, "bench", c->bench);
    crn_json_str(&j, "case", c->name);
    crn_json_str(&j, "method", c->methods[method]);
    crn_json_u64(&j, "bytes", c->bytes);
    crn_json_u64(&j, "n", c->rounds);
    crn_json_f64(&j, "median_s", s->median);
    crn_json_f64(&j, "min_s", s->min);
    crn_json_f64(&j, "max_s", s->max);
    crn_json_f64(&j, "ratio_to_limit", s->ratio);
    crn_json_end_object(&j);
    return crn_json_finish(&j);
}

static int column(const struct bench_case *c, size_t method)
{
    int width = (int)strlen(c->methods[method]);

    return width < 10 ? 10 : width;
}

int bench_is_named(const char *list, const char *name)
{
    size_t n = strlen(name);

    while (list != NULL && (strncmp(list, name, n) != 0 || (list[n] != ',' && list[n] != '\0'))) {
        list = strchr(list, ',');
        if (list == NULL)
            return 0;
        list++;
    }
    return 1;
}

void bench_header(const struct bench_case *c)
{
    size_t i;

    (void)fprintf(stderr, "%-*s %4s", NAME_WIDTH, c->bench, "n");
    for (i = 0; i < c->nmethods; i++)
        (void)fprintf(stderr, "  %*s%s", column(c, i), c->methods[i], i > 0 ? "  ratio" : "");
    (void)fprintf(stderr, "\n");
}

int bench_report(const struct bench_case *c)
{
    size_t i;

    (void)fprintf(stderr, "%-*s %4zu", NAME_WIDTH, c->name, c->rounds);
    for (i = 0; i < c->nmethods; i++) {
        struct summary s = {0};
        char text[32];

        if (summarize(c, i, &s) < 0 || write_line(c, i, &s) < 0)
            return -1;
        format_time(s.median, text, sizeof(text));
        (void)fprintf(stderr, "  %*s", column(c, i), text);
        if (i > 0)
            (void)fprintf(stderr, "  %5.2f", s.ratio);
    }
    (void)fprintf(stderr, "\n");
    return 0;
}
