/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn-broker as a process, jobs with real connections to it, and the cost of a handoff and a
 * report. */
#include "broker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/admin.h"
#include "broker/agent.h"

#define LOGINS  128 /* at a time */
#define WAIT_MS 20000

static char dir[] = "/tmp/cairn-bench-XXXXXX";
static pid_t broker_pid;
static size_t max_jobs;

/* The broker as a process. ---------------------------------------------------------------------- */

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

static void start_broker(void)
{
    char path[64];
    FILE *conf;
    int i;

    (void)snprintf(path, sizeof(path), "%s/conf", dir);
    conf = fopen(path, "w");
    if (conf == NULL)
        bench_die("%s: %s", path, strerror(errno));
    (void)fprintf(conf,
                  "[broker]\nlisten = unix:%s/sock\nauth = peer\nlease = 1d\nsettle = 0\n"
                  "log_level = warn\nmax_connections = %zu\nmax_user_jobs = %zu\n"
                  "max_address_logins = 256\nmessages_per_second = 1000000\n"
                  "[token t]\nslots = 1\npolicy = least-waste\n",
                  dir, max_jobs + 16, max_jobs + 16);
    if (fclose(conf) != 0)
        bench_die("%s: %s", path, strerror(errno));
    broker_pid = fork();
    if (broker_pid == 0) {
        (void)execl(CRN_BROKER_PROGRAM, CRN_BROKER_PROGRAM, "-c", path, (char *)NULL);
        _exit(127);
    }
    for (i = 0; !is_listening(); i++) {
        if (i == 500 || broker_pid < 0)
            bench_die("the broker does not start");
        (void)poll(NULL, 0, 10);
    }
}

static void stop_broker(void)
{
    (void)kill(broker_pid, SIGTERM);
    if (waitpid(broker_pid, NULL, 0) != broker_pid)
        bench_die("the broker does not end");
    broker_pid = 0;
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
    size_t granted;  /* index of the last granted one */
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
    if (!crn_agent_report(&m->agent, bench_now_ns(), &msg.u.report))
        bench_die("no report is due");
    bench_check(crn_broker_link_send(m->link, &msg, &ei), &ei);
    bench_check(crn_broker_link_step(m->link, bench_now_ns(), &ei), &ei);
}

static void receive(struct crowd *c, size_t i)
{
    struct member *m = &c->member[i];
    struct crn_errinfo ei = {0};
    struct crn_bp_msg msg;
    int is_there = 1;

    bench_check(crn_broker_link_step(m->link, bench_now_ns(), &ei), &ei);
    while (is_there) {
        int was_waiting =
            crn_agent_look(&m->agent, bench_now_ns(), m->ticket).state == CRN_TURN_WAITING;

        bench_check(crn_broker_link_receive(m->link, &msg, &is_there, &ei), &ei);
        if (!is_there || msg.type != CRN_BP_STATUS)
            continue;
        c->nstatus++;
        crn_agent_status(&m->agent, bench_now_ns(), &msg.u.status);
        if (was_waiting &&
            crn_agent_look(&m->agent, bench_now_ns(), m->ticket).state == CRN_TURN_GRANTED) {
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
        bench_die("the broker does not answer");
    for (i = 0; i < n; i++)
        receive(c, (size_t)ev[i].data.u64);
}

static void ask(struct crowd *c, size_t i)
{
    struct crn_turn_ask what = {.kind = CRN_IO_CHECKPOINT, .bytes = 1 << 20, .duration_ns = S};
    struct crn_errinfo ei = {0};
    struct member *m = &c->member[i];

    bench_check(crn_agent_ask(&m->agent, bench_now_ns(), &what, &m->ticket, &ei), &ei);
    send_report(m);
}

static void log_in(struct crowd *c, size_t i)
{
    struct crn_broker_link_config cfg = link_config();
    struct crn_agent_config agent = {.nodes = 1, .give_up_ns = 3600 * S};
    struct crn_errinfo ei = {0};

    memcpy(agent.job, &i, sizeof(i));
    crn_agent_init(&c->member[i].agent, &agent, bench_now_ns());
    bench_check(crn_broker_link_open(&cfg, bench_now_ns(), &c->member[i].link, &ei), &ei);
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
        bench_check(crn_broker_link_step(m->link, bench_now_ns(), &ei), &ei);
    }
    crn_agent_online(&m->agent, crn_broker_link_welcome(m->link));
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, crn_broker_link_fd(m->link), &ev) != 0)
        bench_die("epoll: %s", strerror(errno));
}

/* n jobs wait for the one that holds the token. */
static void gather(struct crowd *c, size_t waiting)
{
    size_t i, k;

    memset(c, 0, sizeof(*c));
    c->n = waiting + 1;
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->member = calloc(c->n, sizeof(*c->member));
    if (c->member == NULL || c->epoll_fd < 0)
        bench_die("no memory");
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
        bench_die("%zu jobs were let go at once", c->ngranted);
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

    bench_check(crn_admin_open(&cfg, &admin, &ei), &ei);
    bench_check(crn_admin_query(admin, &query, count_tokens, &row, &ei), &ei);
    crn_admin_close(admin);
    return row;
}

/* The limit: a process that forwards what it reads from one socket to another. */

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
        bench_die("socketpair: %s", strerror(errno));
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
    int64_t begin = bench_now_ns();
    size_t got = 0;
    ssize_t n;

    if (write(relay->in, buf, bytes) != (ssize_t)bytes)
        bench_die("relay: %s", strerror(errno));
    for (; got < bytes; got += (size_t)n) {
        n = read(relay->out, buf, sizeof(buf));
        if (n <= 0)
            bench_die("relay: %s", strerror(errno));
    }
    return (double)(bench_now_ns() - begin) * 1e-9;
}

/* handoff and reports. -------------------------------------------------------------------------- */

static void bench_handoff(struct crowd *c, const struct relay *relay, size_t waiting)
{
    static struct bench_result r;
    uint64_t before = ask_broker().granted;
    struct crn_bp_token_row row;
    size_t i;

    r = (struct bench_result){.name = "handoff", .method = "least-waste", .waiting = waiting};
    r.bytes = bench_report_bytes();
    r.rss_begin = broker_rss();
    for (i = 0; i < bench_rounds; i++) {
        size_t from = c->granted;
        size_t seen = c->ngranted;
        int64_t begin = bench_now_ns();

        crn_agent_return(&c->member[from].agent, bench_now_ns(), c->member[from].ticket);
        send_report(&c->member[from]);
        while (c->ngranted == seen)
            pump(c);
        r.time[i] = (double)(bench_now_ns() - begin) * 1e-9;
        ask(c, from);
        while (c->member[from].agent.answered < c->member[from].agent.number)
            pump(c);
        r.limit[i] = time_relay(relay, r.bytes);
    }
    r.n = bench_rounds;
    r.rss_end = broker_rss();
    row = ask_broker();
    if (row.granted - before != bench_rounds || row.holders != 1 || row.waiting != waiting)
        bench_die("handoff: the broker's counts do not agree");
    bench_print(&r);
}

static void bench_reports(struct crowd *c, const struct relay *relay, size_t waiting)
{
    static struct bench_result r;
    size_t i, k, window = waiting < 256 ? waiting + 1 : 256;
    size_t sent = 0, total = bench_rounds * 10;
    int64_t all;

    r = (struct bench_result){.name = "reports", .method = "least-waste", .waiting = waiting};
    r.bytes = bench_report_bytes();
    r.rss_begin = broker_rss();
    c->nstatus = 0;
    all = bench_now_ns();
    for (i = 0; sent < total; i = (i + window) % c->n) {
        int64_t begin = bench_now_ns();
        size_t goal = c->nstatus + window;

        for (k = 0; k < window; k++)
            send_report(&c->member[(i + k) % c->n]);
        while (c->nstatus < goal)
            pump(c);
        sent += window;
        if (r.n < MAX_ROUNDS) {
            r.time[r.n] = (double)(bench_now_ns() - begin) * 1e-9 / (double)window;
            r.limit[r.n++] = time_relay(relay, r.bytes);
        }
    }
    r.per_s = (double)sent / ((double)(bench_now_ns() - all) * 1e-9);
    r.rss_end = broker_rss();
    bench_print(&r);
}

static void raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void bench_server_open(size_t max_waiting)
{
    max_jobs = max_waiting;
    raise_files();
    if (mkdtemp(dir) == NULL)
        bench_die("%s: %s", dir, strerror(errno));
    (void)atexit(clean_up);
}

void bench_server(size_t waiting)
{
    struct relay relay;
    struct crowd crowd;

    start_broker();
    start_relay(&relay);
    gather(&crowd, waiting);
    bench_handoff(&crowd, &relay, waiting);
    bench_reports(&crowd, &relay, waiting);
    disperse(&crowd);
    stop_relay(&relay);
    stop_broker();
}
