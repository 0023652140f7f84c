/* SPDX-License-Identifier: BSD-3-Clause */
/* bench/broker [--quick]: how fast the broker decides and answers, against the number of waiting
 * jobs.
 *
 *   decide   the core alone: a holder returns the token, the policy chooses, the next job gets it.
 *            Limit: one pass over the bytes of the queue.
 *   handoff  cairn-broker and real connections: from the return of one job until another knows of
 *            its grant. Limit: the same bytes through a process that only forwards them.
 *   reports  keep-alives of all jobs, answered; requests per second. Limit: as above, unprocessed.
 *
 * Before a number is printed the broker's own counters must agree with the events. The memory of
 * the broker is read before and after each case. */
#include "broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/rng.h"
#include "broker/turns.h"

size_t bench_rounds = MAX_ROUNDS;

int64_t bench_now_ns(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

void bench_die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)fprintf(stderr, "bench/broker: ");
    (void)vfprintf(stderr, fmt, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void bench_check(cairn_err rc, const struct crn_errinfo *ei)
{
    if (rc != CAIRN_OK)
        bench_die("%s", ei->msg);
}

/* Results. -------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_print(struct bench_result *r)
{
    struct crn_json j;

    qsort(r->time, r->n, sizeof(r->time[0]), compare);
    qsort(r->limit, r->n, sizeof(r->limit[0]), compare);
    (void)fprintf(stderr, "%-8s %-12s %6zu waiting  median %9.2f us  99%% %9.2f us  limit %8.2f us",
                  r->name, r->method, r->waiting, 1e6 * r->time[r->n / 2],
                  1e6 * r->time[r->n * 99 / 100], 1e6 * r->limit[r->n / 2]);
    if (r->per_s > 0)
        (void)fprintf(stderr, "  %9.0f/s", r->per_s);
    if (r->rss_begin > 0)
        (void)fprintf(stderr, "  memory %ld -> %ld KiB", r->rss_begin, r->rss_end);
    (void)fputc('\n', stderr);
    crn_json_begin(&j, stdout);
    crn_json_object(&j, NULL);
    crn_json_str(&j, "bench", "broker");
    crn_json_str(&j, "case", r->name);
    crn_json_str(&j, "method", r->method);
    crn_json_u64(&j, "waiting", r->waiting);
    crn_json_u64(&j, "bytes", r->bytes);
    crn_json_u64(&j, "n", r->n);
    crn_json_f64(&j, "median_s", r->time[r->n / 2]);
    crn_json_f64(&j, "min_s", r->time[0]);
    crn_json_f64(&j, "max_s", r->time[r->n - 1]);
    crn_json_f64(&j, "p99_s", r->time[r->n * 99 / 100]);
    crn_json_f64(&j, "limit_s", r->limit[r->n / 2]);
    crn_json_f64(&j, "ratio_to_limit", r->limit[r->n / 2] / r->time[r->n / 2]);
    if (r->per_s > 0)
        crn_json_f64(&j, "requests_per_s", r->per_s);
    if (r->rss_begin > 0) {
        crn_json_i64(&j, "rss_begin_kib", r->rss_begin);
        crn_json_i64(&j, "rss_end_kib", r->rss_end);
    }
    crn_json_end_object(&j);
    if (crn_json_finish(&j) != 0 || fflush(stdout) != 0)
        bench_die("standard output cannot be written");
}

size_t bench_report_bytes(void)
{
    struct crn_bp_msg msg = {.type = CRN_BP_REPORT, .u.report = {.n = 1}};
    struct crn_buf b = {0};
    size_t n;

    crn_bp_encode(&msg, &b);
    n = b.len;
    crn_buf_free(&b);
    return n;
}

/* decide. --------------------------------------------------------------------------------------- */

struct core {
    struct crn_turns *turns;
    struct crn_bp_report *report; /* of each job */
    size_t njobs;
    uint32_t holder;
    int64_t now;
    struct crn_rng rng;
};

static void tell(struct core *c, uint32_t j)
{
    struct crn_errinfo ei = {0};

    c->report[j].number++;
    bench_check(crn_turns_report(c->turns, c->now, j, &c->report[j], &ei), &ei);
}

/* Which job was granted, from the statuses that are due. */
static void drain(struct core *c)
{
    struct crn_bp_status status;
    uint32_t conn;

    while (crn_turns_next(c->turns, c->now, &conn, &status))
        if (status.n == 1 && status.verdict[0].code == CRN_BP_GO)
            c->holder = conn;
}

static void ask_again(struct core *c, uint32_t j)
{
    struct crn_bp_ask *ask = &c->report[j].ask[0];
    uint32_t seq = ask->seq + 1;

    *ask = (struct crn_bp_ask){.seq = seq,
                               .kind = (uint8_t)crn_rng_below(&c->rng, CRN_IO_KINDS),
                               .state = CRN_BP_WAITING,
                               .bytes = 1 + crn_rng_below(&c->rng, 1ull << 40),
                               .duration_ns = 1 + crn_rng_below(&c->rng, 600 * S),
                               .at_risk_ns = 3600 * S};
    c->report[j].n = 1;
    tell(c, j);
}

static void open_core(struct core *c, const struct crn_policy *policy, size_t waiting)
{
    const struct crn_turns_token token = {
        .name = "t", .slots = 1, .policy = policy, .node_mtbf_s = 1e8};
    struct crn_turns_config cfg = {.token = &token,
                                   .ntokens = 1,
                                   .epoch = 1,
                                   .lease_ns = 1000000 * S,
                                   .grace_ns = 1000000 * S,
                                   .starve_ns = 6 * 3600 * S,
                                   .forecast_ns = 2 * S};
    struct crn_errinfo ei = {0};
    uint32_t j;

    c->njobs = waiting + 1;
    c->now = S;
    cfg.max_conns = cfg.max_jobs = cfg.max_user_jobs = (uint32_t)c->njobs;
    crn_rng_seed(&c->rng, 1);
    bench_check(crn_turns_new(&cfg, c->now, &c->turns, &ei), &ei);
    c->report = calloc(c->njobs, sizeof(*c->report));
    if (c->report == NULL)
        bench_die("no memory");
    for (j = 0; j < c->njobs; j++) {
        memcpy(c->report[j].job, &j, sizeof(j));
        c->report[j].nodes = 1 + (uint32_t)crn_rng_below(&c->rng, 4096);
        crn_turns_opened(c->turns, j, "user", 0);
        ask_again(c, j);
        drain(c);
    }
}

static double pass_over(const struct crn_io_request *queue, size_t n)
{
    const uint64_t *word = (const uint64_t *)(const void *)queue;
    size_t i, words = n * sizeof(*queue) / sizeof(*word);
    int64_t begin = bench_now_ns();
    volatile uint64_t sink;
    uint64_t sum = 0;

    for (i = 0; i < words; i++)
        sum += word[i];
    sink = sum;
    (void)sink;
    return (double)(bench_now_ns() - begin) * 1e-9;
}

static void bench_decide(const struct crn_policy *policy, size_t waiting)
{
    static struct bench_result r;
    struct crn_io_request *queue = calloc(waiting, sizeof(*queue));
    struct crn_turns_totals totals;
    struct core c = {0};
    size_t i;

    if (queue == NULL)
        bench_die("no memory");
    memset(queue, 1, waiting * sizeof(*queue));
    r = (struct bench_result){.name = "decide", .method = policy->name, .waiting = waiting};
    r.bytes = bench_report_bytes();
    open_core(&c, policy, waiting);
    for (i = 0; i < bench_rounds; i++) {
        uint32_t from = c.holder;
        int64_t begin;

        c.now += 10 * S;
        c.report[from].n = 0; /* returns */
        begin = bench_now_ns();
        tell(&c, from);
        r.time[i] = (double)(bench_now_ns() - begin) * 1e-9;
        drain(&c);
        if (c.holder == from)
            bench_die("decide: nobody was let go");
        ask_again(&c, from);
        drain(&c);
        r.limit[i] = pass_over(queue, waiting);
    }
    r.n = bench_rounds;
    crn_turns_totals(c.turns, c.now, 0, &totals);
    if (totals.row.granted != bench_rounds + 1 || totals.row.waiting != waiting ||
        crn_turns_check(c.turns) != NULL)
        bench_die("decide: the core's counts do not agree");
    bench_print(&r);
    crn_turns_free(c.turns);
    free(c.report);
    free(queue);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {10, 100, 1000, 10000};
    const struct crn_policy *const *policy;
    size_t i, p, n;

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        bench_rounds = 300;
    policy = crn_policy_table(&n);
    for (p = 0; p < n; p++)
        for (i = 0; policy[p]->is_exclusive && i < sizeof(sizes) / sizeof(sizes[0]); i++)
            bench_decide(policy[p], sizes[i]);
    bench_server_open(sizes[3]);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        bench_server(sizes[i]);
    return 0;
}
