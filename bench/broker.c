/* SPDX-License-Identifier: BSD-3-Clause */
/* bench/broker [--quick]: how fast the broker decides and answers, against the number of jobs that
 * wait.
 *
 *   decide   the core alone: a holder returns, the policy chooses, the next one is let go.
 *            Limit: one pass over the bytes of the queue.
 *   handoff  cairn-broker and real connections: from the return of one job until another knows that
 *            it may go. Limit: the same bytes through a process that only passes them on.
 *   reports  keep-alives of all jobs, answered; requests per second. Limit: as above, but bare.
 *
 * Before a number is printed the broker's own counts must agree with what was done. The memory of the
 * broker is read before and after each case. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/rng.h"
#include "broker/admin.h"
#include "broker/agent.h"
#include "broker/turns.h"

#define S          1000000000LL
#define LOGINS     128 /* at a time */
#define WAIT_MS    20000
#define MAX_ROUNDS 2000

static char dir[] = "/tmp/cairn-bench-XXXXXX";
static pid_t broker_pid;
static size_t rounds = MAX_ROUNDS;

static int64_t now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

static void clean_up(void)
{
    static const char *const names[] = {"sock", "conf", "log"};
    char path[64];
    size_t i;

    if (broker_pid > 0) {
        (void)kill(broker_pid, SIGTERM);
        (void)waitpid(broker_pid, NULL, 0);
    }
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)fprintf(stderr, "bench/broker: ");
    (void)vfprintf(stderr, fmt, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

static void check(cairn_err rc, const struct crn_errinfo *ei)
{
    if (rc != CAIRN_OK)
        die("%s", ei->msg);
}

/* Results. -------------------------------------------------------------------------------------- */

struct result {
    const char *name, *method;
    size_t waiting;
    size_t bytes; /* of one message */
    double time[MAX_ROUNDS];
    double limit[MAX_ROUNDS];
    size_t n;
    double per_s;            /* requests; 0: not measured */
    long rss_begin, rss_end; /* KiB of the broker; 0: not measured */
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(struct result *r)
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
        die("standard output cannot be written");
}

static size_t report_bytes(void)
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
    check(crn_turns_report(c->turns, c->now, j, &c->report[j], &ei), &ei);
}

/* Who was let go, from the statuses that are due. */
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
    check(crn_turns_new(&cfg, c->now, &c->turns, &ei), &ei);
    c->report = calloc(c->njobs, sizeof(*c->report));
    if (c->report == NULL)
        die("no memory");
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
    int64_t begin = now();
    volatile uint64_t sink;
    uint64_t sum = 0;

    for (i = 0; i < words; i++)
        sum += word[i];
    sink = sum;
    (void)sink;
    return (double)(now() - begin) * 1e-9;
}

static void bench_decide(const struct crn_policy *policy, size_t waiting)
{
    static struct result r;
    struct crn_io_request *queue = calloc(waiting, sizeof(*queue));
    struct crn_turns_totals totals;
    struct core c = {0};
    size_t i;

    if (queue == NULL)
        die("no memory");
    memset(queue, 1, waiting * sizeof(*queue));
    r = (struct result){.name = "decide", .method = policy->name, .waiting = waiting};
    r.bytes = report_bytes();
    open_core(&c, policy, waiting);
    for (i = 0; i < rounds; i++) {
        uint32_t from = c.holder;
        int64_t begin;

        c.now += 10 * S;
        c.report[from].n = 0; /* returns */
        begin = now();
        tell(&c, from);
        r.time[i] = (double)(now() - begin) * 1e-9;
        drain(&c);
        if (c.holder == from)
            die("decide: nobody was let go");
        ask_again(&c, from);
        drain(&c);
        r.limit[i] = pass_over(queue, waiting);
    }
    r.n = rounds;
    crn_turns_totals(c.turns, c.now, 0, &totals);
    if (totals.row.granted != rounds + 1 || totals.row.waiting != waiting ||
        crn_turns_check(c.turns) != NULL)
        die("decide: the core's counts do not agree");
    print(&r);
    crn_turns_free(c.turns);
    free(c.report);
    free(queue);
}

/* The broker as a process. ---------------------------------------------------------------------- */

static int is_listening(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ok;

    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s/sock", dir);
    ok = connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0;
    (void)close(fd);
    return ok;
}

static void start_broker(size_t connections)
{
    char path[64];
    FILE *conf;
    int i;

    (void)snprintf(path, sizeof(path), "%s/conf", dir);
    conf = fopen(path, "w");
    if (conf == NULL)
        die("%s: %s", path, strerror(errno));
    (void)fprintf(conf,
                  "[broker]\nlisten = unix:%s/sock\nauth = peer\nlease = 1d\nsettle = 0\n"
                  "log_level = warn\nmax_connections = %zu\nmax_user_jobs = %zu\n"
                  "max_address_logins = 256\nmessages_per_second = 1000000\n"
                  "[token t]\nslots = 1\npolicy = least-waste\n",
                  dir, connections + 16, connections + 16);
    if (fclose(conf) != 0)
        die("%s: %s", path, strerror(errno));
    broker_pid = fork();
    if (broker_pid == 0) {
        (void)execl(CRN_BROKER_PROGRAM, CRN_BROKER_PROGRAM, "-c", path, (char *)NULL);
        _exit(127);
    }
    for (i = 0; !is_listening(); i++) {
        if (i == 500 || broker_pid < 0)
            die("the broker does not start");
        (void)poll(NULL, 0, 10);
    }
}

static long broker_rss(void)
{
    char path[64], line[256];
    long kib = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)broker_pid);
    f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f != NULL)
        (void)fclose(f);
    return kib;
}

/* Jobs: a connection and an agent each, all in this process. ------------------------------------ */

struct member {
    struct crn_broker_link *link;
    struct crn_agent agent;
    uint32_t ticket;
};

struct crowd {
    struct member *member;
    size_t n;
    int epoll_fd;
    size_t granted;  /* index of the last that was let go */
    size_t ngranted; /* so far */
    size_t nstatus;
};

static struct crn_broker_link_config link_config(void)
{
    struct crn_broker_link_config cfg = {.method = "peer", .timeout_ns = 20 * S};

    (void)snprintf(cfg.address, sizeof(cfg.address), "unix:%s/sock", dir);
    return cfg;
}

static void send_report(struct member *m)
{
    struct crn_bp_msg msg = {.type = CRN_BP_REPORT};
    struct crn_errinfo ei = {0};

    m->agent.is_dirty = 1;
    if (!crn_agent_report(&m->agent, now(), &msg.u.report))
        die("no report is due");
    check(crn_broker_link_send(m->link, &msg, &ei), &ei);
    check(crn_broker_link_step(m->link, now(), &ei), &ei);
}

static void receive(struct crowd *c, size_t i)
{
    struct member *m = &c->member[i];
    struct crn_errinfo ei = {0};
    struct crn_bp_msg msg;
    int is_there = 1;

    check(crn_broker_link_step(m->link, now(), &ei), &ei);
    while (is_there) {
        int was_waiting = crn_agent_look(&m->agent, now(), m->ticket).state == CRN_TURN_WAITING;

        check(crn_broker_link_receive(m->link, &msg, &is_there, &ei), &ei);
        if (!is_there || msg.type != CRN_BP_STATUS)
            continue;
        c->nstatus++;
        crn_agent_status(&m->agent, now(), &msg.u.status);
        if (was_waiting && crn_agent_look(&m->agent, now(), m->ticket).state == CRN_TURN_GRANTED) {
            c->granted = i;
            c->ngranted++;
        }
    }
}

static void pump(struct crowd *c)
{
    struct epoll_event ev[256];
    int i, n = epoll_wait(c->epoll_fd, ev, 256, WAIT_MS);

    if (n <= 0)
        die("the broker does not answer");
    for (i = 0; i < n; i++)
        receive(c, (size_t)ev[i].data.u64);
}

static void ask(struct crowd *c, size_t i)
{
    struct crn_turn_ask what = {.kind = CRN_IO_CHECKPOINT, .bytes = 1 << 20, .duration_ns = S};
    struct crn_errinfo ei = {0};
    struct member *m = &c->member[i];

    check(crn_agent_ask(&m->agent, now(), &what, &m->ticket, &ei), &ei);
    send_report(m);
}

static void log_in(struct crowd *c, size_t i)
{
    struct crn_broker_link_config cfg = link_config();
    struct crn_agent_config agent = {.nodes = 1, .give_up_ns = 3600 * S};
    struct crn_errinfo ei = {0};

    memcpy(agent.job, &i, sizeof(i));
    crn_agent_init(&c->member[i].agent, &agent, now());
    check(crn_broker_link_open(&cfg, now(), &c->member[i].link, &ei), &ei);
}

static void finish_login(struct crowd *c, size_t i)
{
    struct member *m = &c->member[i];
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = i};
    struct crn_errinfo ei = {0};

    while (crn_broker_link_welcome(m->link) == NULL) {
        struct pollfd pfd = {.fd = crn_broker_link_fd(m->link), .events = POLLIN};

        if (crn_broker_link_wants_write(m->link))
            pfd.events |= POLLOUT;
        (void)poll(&pfd, 1, 100);
        check(crn_broker_link_step(m->link, now(), &ei), &ei);
    }
    crn_agent_online(&m->agent, crn_broker_link_welcome(m->link));
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, crn_broker_link_fd(m->link), &ev) != 0)
        die("epoll: %s", strerror(errno));
}

/* n jobs wait behind one that holds. */
static void gather(struct crowd *c, size_t waiting)
{
    size_t i, k;

    memset(c, 0, sizeof(*c));
    c->n = waiting + 1;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->member = calloc(c->n, sizeof(*c->member));
    if (c->member == NULL || c->epoll_fd < 0)
        die("no memory");
    for (i = 0; i < c->n; i += LOGINS) {
        for (k = i; k < c->n && k < i + LOGINS; k++)
            log_in(c, k);
        for (k = i; k < c->n && k < i + LOGINS; k++)
            finish_login(c, k);
    }
    for (i = 0; i < c->n; i++) {
        ask(c, i);
        while (c->nstatus <= i)
            pump(c);
    }
    if (c->ngranted != 1)
        die("%zu jobs were let go at once", c->ngranted);
}

static void disperse(struct crowd *c)
{
    size_t i;

    for (i = 0; i < c->n; i++)
        crn_broker_link_close(c->member[i].link);
    free(c->member);
    (void)close(c->epoll_fd);
}

static void count_tokens(void *arg, const struct crn_bp_msg *row)
{
    if (row->type == CRN_BP_TOKEN_ROW)
        *(struct crn_bp_token_row *)arg = row->u.token_row;
}

static struct crn_bp_token_row ask_broker(void)
{
    struct crn_broker_link_config cfg = link_config();
    struct crn_bp_query query = {0};
    struct crn_bp_token_row row = {0};
    struct crn_admin *admin = NULL;
    struct crn_errinfo ei = {0};

    check(crn_admin_open(&cfg, &admin, &ei), &ei);
    check(crn_admin_query(admin, &query, count_tokens, &row, &ei), &ei);
    crn_admin_close(admin);
    return row;
}

/* The limit: a process that passes on what it reads, from one socket to another. ----------------- */

struct relay {
    int in, out;
    pid_t pid;
};

static void start_relay(struct relay *relay)
{
    int a[2], b[2];
    char buf[4096];
    ssize_t n;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, a) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, b) != 0)
        die("socketpair: %s", strerror(errno));
    relay->pid = fork();
    if (relay->pid == 0) {
        (void)close(a[0]);
        (void)close(b[0]);
        while ((n = read(a[1], buf, sizeof(buf))) > 0)
            if (write(b[1], buf, (size_t)n) != n)
                break;
        _exit(0);
    }
    (void)close(a[1]);
    (void)close(b[1]);
    relay->in = a[0];
    relay->out = b[0];
}

static void stop_relay(struct relay *relay)
{
    (void)close(relay->in);
    (void)close(relay->out);
    (void)waitpid(relay->pid, NULL, 0);
}

static double time_relay(const struct relay *relay, size_t bytes)
{
    char buf[4096] = {0};
    int64_t begin = now();
    size_t got = 0;
    ssize_t n;

    if (write(relay->in, buf, bytes) != (ssize_t)bytes)
        die("relay: %s", strerror(errno));
    for (; got < bytes; got += (size_t)n) {
        n = read(relay->out, buf, sizeof(buf));
        if (n <= 0)
            die("relay: %s", strerror(errno));
    }
    return (double)(now() - begin) * 1e-9;
}

/* handoff and reports. -------------------------------------------------------------------------- */

static void bench_handoff(struct crowd *c, const struct relay *relay, size_t waiting)
{
    static struct result r;
    uint64_t before = ask_broker().granted;
    struct crn_bp_token_row row;
    size_t i;

    r = (struct result){.name = "handoff", .method = "least-waste", .waiting = waiting};
    r.bytes = report_bytes();
    r.rss_begin = broker_rss();
    for (i = 0; i < rounds; i++) {
        size_t from = c->granted;
        size_t seen = c->ngranted;
        int64_t begin = now();

        crn_agent_return(&c->member[from].agent, now(), c->member[from].ticket);
        send_report(&c->member[from]);
        while (c->ngranted == seen)
            pump(c);
        r.time[i] = (double)(now() - begin) * 1e-9;
        ask(c, from);
        while (c->member[from].agent.answered < c->member[from].agent.number)
            pump(c);
        r.limit[i] = time_relay(relay, r.bytes);
    }
    r.n = rounds;
    r.rss_end = broker_rss();
    row = ask_broker();
    if (row.granted - before != rounds || row.holders != 1 || row.waiting != waiting)
        die("handoff: the broker's counts do not agree");
    print(&r);
}

static void bench_reports(struct crowd *c, const struct relay *relay, size_t waiting)
{
    static struct result r;
    size_t i, k, window = waiting < 256 ? waiting + 1 : 256;
    size_t sent = 0, total = rounds * 10;
    int64_t all;

    r = (struct result){.name = "reports", .method = "least-waste", .waiting = waiting};
    r.bytes = report_bytes();
    r.rss_begin = broker_rss();
    c->nstatus = 0;
    all = now();
    for (i = 0; sent < total; i = (i + window) % c->n) {
        int64_t begin = now();
        size_t goal = c->nstatus + window;

        for (k = 0; k < window; k++)
            send_report(&c->member[(i + k) % c->n]);
        while (c->nstatus < goal)
            pump(c);
        sent += window;
        if (r.n < MAX_ROUNDS) {
            r.time[r.n] = (double)(now() - begin) * 1e-9 / (double)window;
            r.limit[r.n++] = time_relay(relay, r.bytes);
        }
    }
    r.per_s = (double)sent / ((double)(now() - all) * 1e-9);
    r.rss_end = broker_rss();
    print(&r);
}

static void raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void bench_server(size_t waiting)
{
    struct relay relay;
    struct crowd crowd;

    start_relay(&relay);
    gather(&crowd, waiting);
    bench_handoff(&crowd, &relay, waiting);
    bench_reports(&crowd, &relay, waiting);
    disperse(&crowd);
    stop_relay(&relay);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {10, 100, 1000, 10000};
    const struct crn_policy *const *policy;
    size_t i, p, n;

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        rounds = 300;
    policy = crn_policies(&n);
    for (p = 0; p < n; p++)
        for (i = 0; policy[p]->is_exclusive && i < sizeof(sizes) / sizeof(sizes[0]); i++)
            bench_decide(policy[p], sizes[i]);
    raise_files();
    if (mkdtemp(dir) == NULL)
        die("%s: %s", dir, strerror(errno));
    (void)atexit(clean_up);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        start_broker(sizes[3]);
        bench_server(sizes[i]);
        (void)kill(broker_pid, SIGTERM);
        if (waitpid(broker_pid, NULL, 0) != broker_pid)
            die("the broker does not end");
        broker_pid = 0;
    }
    return 0;
}
