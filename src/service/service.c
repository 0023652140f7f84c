/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the node service. It owns every job, polls the sockets of its ranks, takes results
 * from the workers, and polls the communicator for messages. File I/O belongs to the workers, and
 * lines of log_file to the log's own thread.
 *
 * UCX announces messages on a descriptor. MPI cannot, so its communicator is polled at intervals
 * that grow from 0.2 ms after news to 50 ms when idle, and 1 s without a job: a few system calls a
 * second. While a checkpoint is in progress, intervals start at 50 us, or at 1 ms while workers of
 * this node are busy, and grow more slowly. ranks.c has the connections. */
#include "service/service.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log_writer.h"
#include "service/job.h"
#include "service/flow.h"
#include "service/turn.h"

#define MILLI      1000000LL
#define FASTEST_NS (MILLI / 5)
#define SLOWEST_NS (50 * MILLI)
#define HELD_NS    MILLI        /* how often a throttled send is retried */
#define FLOWING_NS (MILLI / 20) /* MPI moves bulk data only while it is called */
#define WRITING_NS MILLI        /* leaves the core to the writers */
#define FIXED_FDS  3
#define TICK_NS    (1000 * MILLI) /* deadlines are checked at least this often */

static int64_t now_ns(void)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock);
}

void crn_service_wake(struct crn_service *svc)
{
    uint64_t one = 1;

    if (write(svc->wake_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the loop is awake already */
}

void crn_service_result(struct crn_service *svc, struct crn_work *w)
{
    if (crn_queue_push(&svc->done, w) != 0) {
        crn_manifest_file_free(&w->file);
        free(w);
    }
    crn_service_wake(svc);
}

/* Messages to services. ------------------------------------------------------------------------ */

void crn_service_tell(struct crn_service *svc, uint32_t address, const struct crn_msg *n)
{
    struct crn_errinfo ei = {0};
    struct crn_buf buf = {0};
    cairn_err rc;

    if (address == CRN_NOWHERE)
        return;
    rc = crn_msg_encode(n, &buf, &ei);
    if (rc == CAIRN_OK && (int)address == svc->comm->rank) {
        struct inbox_note *in = malloc(sizeof(*in) + buf.len);

        if (in == NULL) {
            rc = crn_fail(&ei, CAIRN_ENOMEM, ENOMEM, "a message");
        } else {
            in->next = NULL;
            in->len = buf.len;
            memcpy(in->data, buf.data, buf.len);
            *svc->inbox_end = in;
            svc->inbox_end = &in->next;
        }
    } else if (rc == CAIRN_OK) {
        rc = svc->comm->ops->post(svc->comm, (int)address, buf.data, buf.len, &ei);
    }
    if (rc != CAIRN_OK)
        crn_log(&svc->log, CRN_ERROR, "%s to service %u: %s", crn_msg_name(n->type), address,
                ei.msg);
    crn_buf_free(&buf);
}

struct crn_job *crn_service_job(struct crn_service *svc, const uint8_t run[16])
{
    struct crn_job *job = svc->jobs;

    while (job != NULL && memcmp(job->run, run, 16) != 0)
        job = job->next;
    return job;
}

static void service_deliver(struct crn_service *svc, int from, const void *data, size_t len)
{
    struct crn_errinfo ei = {0};
    struct crn_msg n, no;
    struct crn_job *job;

    if (crn_msg_decode(data, len, &n, &ei) != CAIRN_OK) {
        crn_log(&svc->log, CRN_WARN, "from service %d, continuing: %s", from, ei.msg);
        return;
    }
    job = crn_service_job(svc, n.run);
    if (job != NULL && crn_msg_is_of_node(n.type)) {
        crn_job_message(job, NULL, &n, -1);
    } else if (crn_node_refusal(&n, &no)) { /* also if a job has ended here */
        crn_service_tell(svc, (uint32_t)from, &no);
    }
    crn_msg_free(&n);
}

/* Returns 1 if there was a message. */
static int poll_services(struct crn_service *svc)
{
    struct crn_errinfo ei = {0};
    int any = 0;

    for (;;) {
        struct inbox_note *in = svc->inbox;
        size_t len = 0;
        void *buf = NULL;
        int from = 0;

        if (in != NULL) {
            svc->inbox = in->next;
            if (svc->inbox == NULL)
                svc->inbox_end = &svc->inbox;
            service_deliver(svc, svc->comm->rank, in->data, in->len);
            free(in);
            any = 1;
            continue;
        }
        if (svc->comm->size == 1)
            return any;
        if (svc->comm->ops->poll(svc->comm, &from, &buf, &len, &ei) != CAIRN_OK) {
            crn_log(&svc->log, CRN_ERROR, "messages between nodes: %s", ei.msg);
            return any;
        }
        if (buf == NULL)
            return any;
        service_deliver(svc, from, buf, len);
        free(buf);
        any = 1;
    }
}

/* The loop. ------------------------------------------------------------------------------------ */

static void free_work(struct crn_work *w)
{
    crn_manifest_file_free(&w->file);
    free(w->payload);
    free(w);
}

static void take_results(struct crn_service *svc)
{
    struct crn_work *w;
    uint64_t count;

    if (read(svc->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        crn_log(&svc->log, CRN_ERROR, "read the wake-up descriptor: errno %d", errno);
    while ((w = crn_queue_try_pop(&svc->done)) != NULL) {
        crn_job_result(w);
        free_work(w);
    }
}

/* The keeper of a job that is done may take long on the PFS, and to remove the directory on the node:
 * it is joined when it has ended. */
static void stop_done_jobs(struct crn_service *svc)
{
    struct crn_job **link = &svc->jobs;

    while (*link != NULL) {
        struct crn_job *job = *link;

        if (!crn_job_is_done(job)) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        job->next = svc->ending;
        svc->ending = job;
        crn_job_end(job);
    }
}

static void close_stopped_jobs(struct crn_service *svc)
{
    struct crn_job **link = &svc->ending;

    while (*link != NULL) {
        struct crn_job *job = *link;

        if (!crn_job_has_stopped(job)) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        crn_job_close(job);
    }
}

static int64_t service_within(int64_t ns, int64_t least, int64_t most)
{
    return ns < least ? least : ns > most ? most : ns;
}

/* Do workers have tasks of a checkpoint? Their results wake the loop. */
static int is_working(const struct crn_service *svc)
{
    const struct crn_item *item;
    const struct crn_job *job;

    for (job = svc->jobs; job != NULL; job = job->next)
        for (item = crn_node_items(job->core); item != NULL; item = item->next)
            if (item->users > 0)
                return 1;
    return 0;
}

/* Does a checkpoint or a claim wait for another node? */
static int is_busy(const struct crn_service *svc)
{
    const struct crn_job *job = svc->jobs;

    while (job != NULL && !crn_node_is_busy(job->core))
        job = job->next;
    return job != NULL;
}

/* Asks the communicator for the descriptor that announces messages; -1 if it must be polled.
 * *ret_is_busy: there may be some already. */
static int service_announcement(const struct crn_service *svc, int *ret_is_busy)
{
    int fd = -1;

    *ret_is_busy = svc->comm->size > 1 && svc->comm->ops->arm != NULL &&
                   svc->comm->ops->arm(svc->comm, &fd) == 0;
    return fd;
}

/* How long the loop may sleep. */
static int64_t service_interval(const struct crn_service *svc, int64_t now, int is_announced)
{
    int64_t quiet = now - svc->last_news_ns;

    if (svc->inbox != NULL)
        return 0;
    if (svc->flows != NULL && (!is_announced || crn_flows_are_held(svc)))
        return crn_flows_are_held(svc) ? HELD_NS : FLOWING_NS;
    if (svc->comm->size == 1 || is_announced)
        return TICK_NS;
    /* A message that others wait for may arrive at any time. Sleep only a small fraction of the
     * time already spent waiting, so that polling adds little delay. */
    if (is_busy(svc))
        return service_within(quiet / 64, is_working(svc) ? WRITING_NS : FLOWING_NS, SLOWEST_NS);
    /* Also without a job: a node may report on one that has ended here. */
    return service_within(quiet / 4, FASTEST_NS, svc->jobs != NULL ? SLOWEST_NS : TICK_NS);
}

/* The descriptors that the loop waits for, in this order: results, new ranks, messages of other
 * nodes, ranks, brokers. */
static struct pollfd *poll_set(struct crn_service *svc, int64_t now, int comm_fd, nfds_t *ret_n)
{
    struct crn_client *c;
    struct crn_job *job;
    struct pollfd *pfd;
    nfds_t n = FIXED_FDS;

    for (c = svc->clients; c != NULL; c = c->next)
        n++;
    for (job = svc->jobs; job != NULL; job = job->next)
        n++;
    pfd = calloc(n, sizeof(*pfd));
    if (pfd == NULL)
        return NULL;
    *ret_n = n;
    pfd[0] = (struct pollfd){.fd = svc->wake_fd, .events = POLLIN};
    pfd[1] = (struct pollfd){.fd = svc->accept_ns <= now ? svc->listen_fd : -1, .events = POLLIN};
    pfd[2] = (struct pollfd){.fd = comm_fd, .events = POLLIN};
    for (n = FIXED_FDS, c = svc->clients; c != NULL; c = c->next, n++)
        pfd[n] = (struct pollfd){.fd = c->fd, .events = POLLIN};
    for (job = svc->jobs; job != NULL; job = job->next, n++)
        pfd[n] = (struct pollfd){.fd = crn_turn_fd(job), .events = POLLIN}; /* poll ignores -1 */
    return pfd;
}

/* Reads in the order of poll_set; accepting comes last, because it changes the lists. */
static void read_ready(struct crn_service *svc, const struct pollfd *pfd)
{
    struct crn_client *c;
    struct crn_job *job;
    nfds_t n = FIXED_FDS;

    for (c = svc->clients; c != NULL; c = c->next)
        n++;
    for (job = svc->jobs; job != NULL; job = job->next, n++)
        if (pfd[n].revents != 0)
            crn_job_turns(job);
    for (n = FIXED_FDS, c = svc->clients; c != NULL; c = c->next, n++)
        if (pfd[n].revents != 0)
            crn_rank_read(svc, c);
    if (pfd[1].revents != 0)
        crn_ranks_accept(svc, now_ns());
}

/* Waits for sockets and results, and handles them. Returns 1 if there was something. */
static int wait_and_read(struct crn_service *svc)
{
    int64_t now = now_ns();
    int is_busy;
    int comm_fd = service_announcement(svc, &is_busy);
    int64_t sleep_ns = is_busy ? 0 : service_interval(svc, now, comm_fd >= 0);
    struct timespec ts = {.tv_sec = sleep_ns / 1000000000, .tv_nsec = sleep_ns % 1000000000};
    struct pollfd *pfd;
    nfds_t n = 0;
    int ready;

    pfd = poll_set(svc, now, comm_fd, &n);
    if (pfd == NULL) {
        take_results(svc);
        return 0;
    }
    ready = ppoll(pfd, n, &ts, NULL);
    if (ready > 0)
        read_ready(svc, pfd);
    take_results(svc);
    free(pfd);
    return ready > 0;
}

static void *service_loop(void *arg)
{
    struct crn_service *svc = arg;
    int64_t next_tick = now_ns() + TICK_NS;
    struct crn_job *job;

    if (svc->cfg != NULL)
        crn_living_find(svc);
    while (!atomic_load(&svc->is_cut)) {
        int news = wait_and_read(svc);

        news |= poll_services(svc);
        news |= crn_flows_poll(svc);
        crn_ranks_free_gone(svc);
        for (job = svc->jobs; job != NULL; job = job->next)
            crn_gate_calm(&job->gate, crn_node_calm_rate(job->core, atomic_load(&svc->is_closed)),
                          now_ns());
        if (news)
            svc->last_news_ns = now_ns();
        if (now_ns() >= next_tick) {
            if (svc->has_unfound && !atomic_load(&svc->is_closed))
                crn_living_find(svc);
            for (job = svc->jobs; job != NULL; job = job->next)
                crn_job_tick(job, now_ns());
            next_tick = now_ns() + TICK_NS;
        }
        stop_done_jobs(svc);
        close_stopped_jobs(svc);
        if (atomic_load(&svc->is_closed) && svc->jobs == NULL && svc->ending == NULL &&
            svc->inbox == NULL)
            break;
    }
    crn_lock(&svc->mu);
    svc->has_ended = 1;
    crn_cond_broadcast(&svc->ended);
    crn_unlock(&svc->mu);
    return NULL;
}

/* Start and end. ------------------------------------------------------------------------------- */

static cairn_err set_up(struct crn_service *svc, const char *socket_path, struct crn_errinfo *ei)
{
    cairn_err rc;

    if (snprintf(svc->socket_path, sizeof(svc->socket_path), "%s", socket_path) >=
        (int)sizeof(svc->socket_path)) {
        svc->socket_path[0] = '\0';
        return crn_fail(ei, CAIRN_EINVAL, 0, "the socket path '%s' is too long: set run_dir",
                        socket_path);
    }
    svc->packet = malloc(CRN_PROTO_MAX);
    if (svc->packet == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the node service");
    rc = crn_queue_init(&svc->done, 64 * CRN_ARENA_SLOTS_MAX, ei);
    if (rc != CAIRN_OK)
        return rc;
    svc->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (svc->wake_fd < 0)
        return crn_fail_errno(ei, errno, "make the wake-up descriptor");
    rc = crn_sock_listen(svc->socket_path, &svc->listen_fd, ei);
    if (rc != CAIRN_OK)
        svc->socket_path[0] = '\0';
    crn_ranks_reserve(svc);
    return rc;
}

cairn_err crn_service_log(struct crn_service *svc, struct crn_log *log, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (log->file == NULL || log->file[0] == '\0')
        return CAIRN_OK;
    if (svc->log_writer == NULL)
        rc = crn_log_writer_open(&svc->log_writer, ei);
    if (rc == CAIRN_OK)
        crn_log_writer_use(svc->log_writer, log);
    return rc;
}

cairn_err crn_service_open(const char *socket_path, struct crn_comm *comm,
                           const struct crn_log *log, enum crn_background_cores cores,
                           const struct crn_config *cfg, struct crn_service **ret,
                           struct crn_errinfo *ei)
{
    struct crn_service *svc = calloc(1, sizeof(*svc));
    cairn_err rc;

    if (svc == NULL) {
        comm->ops->free(comm);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the node service");
    }
    svc->comm = comm;
    svc->log = *log;
    svc->cfg = cfg;
    svc->listen_fd = svc->spare_fd = svc->wake_fd = -1;
    svc->inbox_end = &svc->inbox;
    svc->last_news_ns = now_ns();
    crn_mutex_init(&svc->mu, CRN_RANK_SERVICE);
    crn_cond_init(&svc->ended);
    rc = crn_service_log(svc, &svc->log, ei);
    if (rc == CAIRN_OK)
        rc = set_up(svc, socket_path, ei);
    if (rc == CAIRN_OK)
        rc = (cores == CRN_CORES_ALL ? crn_thread_start_anywhere : crn_thread_start)(
            &svc->thread, "cairn-node", service_loop, svc, ei); /* this thread starts all others */
    if (rc != CAIRN_OK) {
        svc->has_ended = 1;
        crn_service_fini(svc);
        return rc;
    }
    svc->is_started = 1;
    *ret = svc;
    return CAIRN_OK;
}

/* Refuses new jobs; the loop ends when the current ones are done. */
static void service_refuse(struct crn_service *svc)
{
    atomic_store(&svc->is_closed, 1);
    crn_service_wake(svc);
}

void crn_service_stop(struct crn_service *svc, int64_t timeout_ns)
{
    int64_t until = now_ns() + timeout_ns;

    service_refuse(svc);
    crn_lock(&svc->mu);
    while (!svc->has_ended && crn_cond_wait_until(&svc->ended, &svc->mu, until) == 0)
        ;
    crn_unlock(&svc->mu);
    atomic_store(&svc->is_cut, 1);
    crn_service_wake(svc);
    if (svc->is_started)
        (void)pthread_join(svc->thread, NULL);
    svc->is_started = 0;
}

void crn_service_settle(struct crn_service *svc)
{
    svc->comm->ops->settle(svc->comm);
}

static void close_all(struct crn_job **list)
{
    while (*list != NULL) {
        struct crn_job *job = *list;

        *list = job->next;
        crn_job_close(job);
    }
}

void crn_service_fini(struct crn_service *svc)
{
    struct crn_client *c;

    close_all(&svc->jobs);
    close_all(&svc->ending);
    for (c = svc->clients; c != NULL; c = c->next)
        c->is_gone = 1;
    crn_ranks_free_gone(svc);
    while (svc->inbox != NULL) {
        struct inbox_note *in = svc->inbox;

        svc->inbox = in->next;
        free(in);
    }
    if (svc->done.slot != NULL) {
        struct crn_work *w;

        while ((w = crn_queue_try_pop(&svc->done)) != NULL)
            free_work(w);
        crn_queue_fini(&svc->done);
    }
    if (svc->listen_fd >= 0)
        crn_fork_close(svc->listen_fd);
    if (svc->spare_fd >= 0)
        (void)close(svc->spare_fd);
    if (svc->socket_path[0] != '\0')
        (void)unlink(svc->socket_path);
    if (svc->wake_fd >= 0)
        (void)close(svc->wake_fd);
    svc->comm->ops->free(svc->comm);
    crn_cond_fini(&svc->ended);
    crn_mutex_fini(&svc->mu);
    crn_log_writer_close(svc->log_writer);
    free(svc->packet);
    free(svc);
}
