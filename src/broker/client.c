/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives the agent a connection: opens it, reopens it after a delay when it breaks, and carries
 * reports and statuses. agent.c makes all decisions about turns.
 *
 * The client's descriptor is an epoll instance with the socket and a timer, so the owner polls
 * one descriptor for life, whatever happens to the connection. */
#include "broker/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/slurm.h"
#include "broker/address.h"

#define DEFAULT_GIVE_UP_NS 5000000000LL
#define LOGIN_NS           5000000000LL
#define FIRST_RETRY_NS     200000000LL
#define LAST_RETRY_NS      10000000000LL
#define TAKEOVER_NS        30000000000LL /* a standby serves by then: retries stay frequent */
#define TAKEOVER_RETRY_NS  1000000000LL
#define FENCE_NS           60000000000LL

struct crn_broker {
    struct crn_broker_options opt; /* link.address: the one in use, or tried last */
    char list[CRN_PATH_MAX];       /* all addresses; one broker serves at a time */
    unsigned naddresses;
    const char *next_address; /* in list */
    uint64_t newest;          /* highest epoch of a broker that this job logged in to ... */
    int64_t newest_ns;        /* ... and when it was connected to that one last */
    const struct crn_clock *clock;
    struct crn_agent agent;
    struct crn_broker_link *link; /* NULL: not connected */
    int was_told;                 /* the log says that the broker is away: once until it is back */
    int64_t retry_at_ns;          /* no link: time of the next attempt */
    int64_t retry_ns;             /* the next delay */
    int epoll_fd;
    int timer_fd;
    int watched_fd; /* the link's socket in epoll; -1: none */
};

static int64_t client_now(const struct crn_broker *b)
{
    return b->clock->mono_ns(b->clock);
}

/* Connection. ---------------------------------------------------------------------------------- */

static void client_unwatch(struct crn_broker *b)
{
    if (b->watched_fd >= 0)
        (void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, b->watched_fd, NULL);
    b->watched_fd = -1;
}

static void drop_link(struct crn_broker *b, const char *why)
{
    int64_t now = client_now(b);
    int64_t last = LAST_RETRY_NS;

    client_unwatch(b);
    crn_broker_link_close(b->link);
    b->link = NULL;
    if (b->agent.is_online)
        b->newest_ns = now;
    crn_agent_offline(&b->agent, now);
    b->retry_at_ns = now;
    if (b->next_address[strspn(b->next_address, " ,")] != '\0')
        return; /* the next address may answer */
    b->next_address = b->list;
    if (b->naddresses > 1 && b->agent.away_ns >= 0 && now - b->agent.away_ns < TAKEOVER_NS)
        last = TAKEOVER_RETRY_NS;
    if (b->retry_ns > last)
        b->retry_ns = last;
    /* Half of the delay is random, so that the jobs of a site do not reconnect all at once. */
    b->retry_at_ns += b->retry_ns / 2 + (int64_t)(crn_random_u64() % (uint64_t)(b->retry_ns / 2));
    b->retry_ns = b->retry_ns * 2 > last ? last : b->retry_ns * 2;
    if (!b->was_told)
        crn_log(b->opt.log, CRN_WARN, "no broker: %s; continuing without it", why);
    b->was_told = 1;
}

static void begin_link(struct crn_broker *b)
{
    struct crn_broker_link_config *link = &b->opt.link;
    struct crn_errinfo ei = {0};

    (void)crn_address_next(&b->next_address, link->address, sizeof(link->address));
    if (crn_broker_link_open(link, client_now(b), &b->link, &ei) != CAIRN_OK)
        drop_link(b, ei.msg);
}

/* A broker that another one has replaced, and that does not know it yet, has no say: brokers that
 * serve later have higher epochs. If the later one stays away, the older one may be right. */
static cairn_err client_fence(const struct crn_broker *b, uint64_t epoch, struct crn_errinfo *ei)
{
    if (b->naddresses == 1 || epoch >= b->newest || client_now(b) - b->newest_ns > FENCE_NS)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EPEER, 0, "another broker has replaced the one at %s",
                    b->opt.link.address);
}

static cairn_err note_online(struct crn_broker *b, struct crn_errinfo *ei)
{
    const struct crn_bp_welcome *welcome = crn_broker_link_welcome(b->link);
    cairn_err rc;

    if (b->agent.is_online)
        return CAIRN_OK;
    rc = client_fence(b, welcome->epoch, ei);
    if (rc != CAIRN_OK)
        return rc;
    b->newest = welcome->epoch;
    crn_agent_online(&b->agent, welcome);
    b->retry_ns = FIRST_RETRY_NS;
    crn_log(b->opt.log, b->was_told ? CRN_INFO : CRN_DEBUG, "broker at %s: logged in as %s",
            b->opt.link.address, welcome->user);
    b->was_told = 0;
    return CAIRN_OK;
}

static cairn_err read_statuses(struct crn_broker *b, struct crn_errinfo *ei)
{
    struct crn_bp_msg msg;
    int is_there = 1;
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && is_there) {
        rc = crn_broker_link_receive(b->link, &msg, &is_there, ei);
        if (rc == CAIRN_OK && is_there && msg.type == CRN_BP_STATUS)
            crn_agent_status(&b->agent, client_now(b), &msg.u.status);
    }
    return rc;
}

static cairn_err send_report(struct crn_broker *b, struct crn_errinfo *ei)
{
    struct crn_bp_msg msg = {.type = CRN_BP_REPORT};
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && crn_agent_report(&b->agent, client_now(b), &msg.u.report))
        rc = crn_broker_link_send(b->link, &msg, ei);
    return rc;
}

static cairn_err run_link(struct crn_broker *b, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_broker_link_step(b->link, client_now(b), ei);
    if (rc != CAIRN_OK || crn_broker_link_welcome(b->link) == NULL)
        return rc;
    rc = note_online(b, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = read_statuses(b, ei);
    crn_agent_tick(&b->agent, client_now(b));
    if (rc == CAIRN_OK && crn_agent_is_stuck(&b->agent, client_now(b)))
        rc = crn_fail(ei, CAIRN_ETIMEDOUT, 0, "the broker no longer answers");
    if (rc == CAIRN_OK)
        rc = send_report(b, ei);
    if (rc == CAIRN_OK && crn_broker_link_wants_write(b->link))
        rc = crn_broker_link_step(b->link, client_now(b), ei);
    return rc;
}

/* Waiting. ------------------------------------------------------------------------------------- */

/* Registers the socket anew each time: a new socket may reuse the number of the old one, which
 * left epoll on close. */
static void client_watch(struct crn_broker *b)
{
    int fd = b->link != NULL ? crn_broker_link_fd(b->link) : -1;
    struct epoll_event ev = {.events = EPOLLIN};

    if (fd < 0) {
        client_unwatch(b);
        return;
    }
    if (crn_broker_link_wants_write(b->link))
        ev.events |= EPOLLOUT;
    if (epoll_ctl(b->epoll_fd, EPOLL_CTL_MOD, fd, &ev) != 0 &&
        epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
        return; /* no socket events then; the timer still fires */
    b->watched_fd = fd;
}

static int64_t client_deadline(const struct crn_broker *b)
{
    int64_t at = crn_agent_deadline(&b->agent);
    int64_t link =
        b->link != NULL ? crn_broker_link_deadline(b->link, client_now(b)) : b->retry_at_ns;

    return link < at ? link : at;
}

static void set_timer(struct crn_broker *b)
{
    int64_t wait = client_deadline(b);
    struct itimerspec spec = {{0, 0}, {0, 0}};

    if (wait != INT64_MAX) {
        wait = wait > client_now(b) ? wait - client_now(b) : 1;
        spec.it_value.tv_sec = wait / 1000000000;
        spec.it_value.tv_nsec = wait % 1000000000;
    }
    (void)timerfd_settime(b->timer_fd, 0, &spec, NULL); /* cannot fail for a timer in range */
}

void crn_broker_tick(struct crn_broker *b)
{
    struct crn_errinfo ei = {0};

    if (b->link == NULL && client_now(b) >= b->retry_at_ns)
        begin_link(b);
    if (b->link != NULL && run_link(b, &ei) != CAIRN_OK)
        drop_link(b, ei.msg);
    crn_agent_tick(&b->agent, client_now(b));
    client_watch(b);
    set_timer(b);
}

/* The handle. ---------------------------------------------------------------------------------- */

static cairn_err open_descriptors(struct crn_broker *b, struct crn_errinfo *ei)
{
    struct epoll_event ev = {.events = EPOLLIN};

    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll_fd < 0)
        return crn_fail_errno(ei, errno, "epoll for the broker");
    b->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (b->timer_fd < 0)
        return crn_fail_errno(ei, errno, "timer for the broker");
    if (epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, b->timer_fd, &ev) != 0)
        return crn_fail_errno(ei, errno, "timer for the broker");
    return CAIRN_OK;
}

void crn_broker_options_init(struct crn_broker_options *opt, const struct crn_config *cfg,
                             const char *job, uint32_t nodes, const struct crn_log *log)
{
    memset(opt, 0, sizeof(*opt));
    crn_broker_link_configure(&opt->link, cfg);
    (void)snprintf(opt->job, sizeof(opt->job), "%.*s", CRN_BP_NAME - 1, job);
    opt->nodes = nodes;
    opt->give_up_ns = (int64_t)cfg->broker_give_up_ns;
    opt->max_wait_ns = (int64_t)cfg->broker_max_wait_ns;
    opt->log = log;
}

void crn_broker_token(const struct crn_config *cfg, char ret[CRN_BP_NAME])
{
    const char *token = cfg->broker_token[0] != '\0' ? cfg->broker_token : cfg->persistent;

    const char *c;

    /* The front of a long path says which file system it is on, too. */
    (void)snprintf(ret, CRN_BP_NAME, "%.*s", CRN_BP_NAME - 1, token);
    for (c = ret; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) { /* not in messages */
            ret[0] = '\0';
            return;
        }
}

cairn_err crn_broker_open(const struct crn_broker_options *options, struct crn_broker **ret,
                          struct crn_errinfo *ei)
{
    struct crn_agent_config agent = {.nodes = options->nodes, .max_wait_ns = options->max_wait_ns};
    struct crn_broker *b;
    unsigned n;
    cairn_err rc;

    rc = crn_address_check(options->link.address, &n, ei);
    if (rc == CAIRN_OK && n == 0)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "no address of a broker");
    if (rc != CAIRN_OK)
        return rc;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the broker's client");
    b->opt = *options;
    memcpy(b->list, options->link.address, sizeof(b->list));
    b->naddresses = n;
    b->next_address = b->list;
    b->opt.link.timeout_ns = LOGIN_NS;
    b->clock = options->clock != NULL ? options->clock : crn_clock_real();
    b->retry_ns = FIRST_RETRY_NS;
    b->epoll_fd = b->timer_fd = b->watched_fd = -1;
    agent.give_up_ns = options->give_up_ns > 0 ? options->give_up_ns : DEFAULT_GIVE_UP_NS;
    /* With a standby there is time to ask it before the transfer begins without a turn. */
    agent.stuck_ns = n > 1 ? agent.give_up_ns / 2 : agent.give_up_ns;
    memcpy(agent.name, options->job, sizeof(agent.name));
    crn_random_bytes(agent.job, sizeof(agent.job));
    if (crn_slurm_job() != NULL)
        (void)snprintf(agent.batch, sizeof(agent.batch), "%.*s", CRN_BP_NAME - 1, crn_slurm_job());
    crn_agent_init(&b->agent, &agent, client_now(b));
    b->retry_at_ns = client_now(b);
    rc = open_descriptors(b, ei);
    if (rc != CAIRN_OK) {
        crn_broker_close(b);
        return rc;
    }
    set_timer(b);
    *ret = b;
    return CAIRN_OK;
}

void crn_broker_close(struct crn_broker *b)
{
    struct crn_errinfo ei = {0};
    size_t i;

    if (b == NULL)
        return;
    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (b->agent.req[i].is_open)
            crn_agent_return(&b->agent, client_now(b), b->agent.req[i].seq);
    if (b->link != NULL && run_link(b, &ei) != CAIRN_OK)
        crn_log(b->opt.log, CRN_DEBUG, "broker: %s", ei.msg); /* it sees the connection end */
    client_unwatch(b);
    crn_broker_link_close(b->link);
    if (b->timer_fd >= 0)
        (void)close(b->timer_fd);
    if (b->epoll_fd >= 0)
        (void)close(b->epoll_fd);
    free(b);
}

int crn_broker_fd(const struct crn_broker *b)
{
    return b->epoll_fd;
}

cairn_err crn_broker_ask(struct crn_broker *b, const struct crn_turn_ask *ask, uint32_t *ret_ticket,
                         struct crn_errinfo *ei)
{
    cairn_err rc = crn_agent_ask(&b->agent, client_now(b), ask, ret_ticket, ei);

    if (rc == CAIRN_OK)
        crn_broker_tick(b);
    return rc;
}

void crn_broker_update(struct crn_broker *b, uint32_t ticket, const struct crn_turn_ask *ask)
{
    crn_agent_update(&b->agent, client_now(b), ticket, ask);
    crn_broker_tick(b);
}

struct crn_turn crn_broker_look(const struct crn_broker *b, uint32_t ticket)
{
    return crn_agent_look(&b->agent, client_now(b), ticket);
}

void crn_broker_progress(struct crn_broker *b, uint32_t ticket, uint64_t bytes_done)
{
    crn_agent_progress(&b->agent, ticket, bytes_done);
}

void crn_broker_return(struct crn_broker *b, uint32_t ticket)
{
    crn_agent_return(&b->agent, client_now(b), ticket);
    crn_broker_tick(b);
}
