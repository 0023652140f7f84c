/* SPDX-License-Identifier: BSD-3-Clause */
/* A job for the tests of the broker. It takes turns through the real client and writes real
 * files to a directory whose bandwidth all jobs share.
 *
 *     turn_job KEY=VALUE...   at=ADDRESS auth= key= munge= name= nodes= dir= bytes= rounds= kind=
 *                             give_up_ms= max_wait_ms= hang=1 (holds forever, without progress)
 *
 * Prints one line per event: "ask N", "go N granted|free WHY", "end N", each with the time on a
 * clock that all processes share. A line "stop" on standard input ends it after the current
 * round.
 *
 * The file system is a number in a mapped file: the time at which it is free again. A process
 * that writes a chunk advances it by the cost of the chunk and sleeps until then. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "broker/client.h"

#define CHUNK     (64u << 10)
#define BANDWIDTH 16e6 /* bytes/s of the whole directory */

struct job {
    struct crn_broker *broker;
    const char *dir;
    uint64_t bytes;
    _Atomic int64_t *free_at; /* shared by all jobs */
    int is_hanging;
    unsigned char chunk[CHUNK];
};

static int64_t now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

static void say(const char *what, uint32_t ticket, const char *more)
{
    (void)printf("%" PRId64 " %s %u %s\n", now(), what, ticket, more);
    (void)fflush(stdout);
}

static void die(const char *what)
{
    perror(what);
    exit(3);
}

/* Polls the broker's descriptor until a time; a node service does the same. */
static void serve_until(struct job *j, int64_t until)
{
    for (;;) {
        int64_t left = until - now();
        struct pollfd pfd = {.fd = crn_broker_fd(j->broker), .events = POLLIN};

        if (left < 0)
            left = 0;
        if (poll(&pfd, 1, (int)((left + 999999) / 1000000)) > 0)
            crn_broker_tick(j->broker);
        if (now() >= until)
            return;
    }
}

static int64_t reserve(struct job *j, size_t n)
{
    int64_t cost = (int64_t)((double)n / BANDWIDTH * 1e9);
    int64_t old = atomic_load(j->free_at);
    int64_t begin;

    do
        begin = old > now() ? old : now();
    while (!atomic_compare_exchange_weak(j->free_at, &old, begin + cost));
    return begin + cost;
}

static void write_file(struct job *j, uint32_t ticket)
{
    char path[4096];
    uint64_t done;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%d-%u", j->dir, (int)getpid(), ticket);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        die(path);
    for (done = 0; done < j->bytes; done += CHUNK) {
        serve_until(j, reserve(j, CHUNK));
        if (write(fd, j->chunk, CHUNK) != CHUNK)
            die("write");
        crn_broker_progress(j->broker, ticket, done + CHUNK);
    }
    if (fsync(fd) != 0 || close(fd) != 0)
        die("fsync");
}

static void take_turn(struct job *j, enum crn_io_kind kind)
{
    struct crn_turn_ask ask = {.kind = kind, .bytes = j->bytes, .at_risk_ns = 1000000000};
    struct crn_errinfo ei = {0};
    struct crn_turn turn;
    uint32_t ticket;

    if (crn_broker_ask(j->broker, &ask, &ticket, &ei) != CAIRN_OK) {
        (void)fprintf(stderr, "turn_job: %s\n", ei.msg);
        exit(3);
    }
    say("ask", ticket, "");
    while ((turn = crn_broker_look(j->broker, ticket)).state == CRN_TURN_WAITING)
        serve_until(j, now() + 1000000);
    if (turn.state == CRN_TURN_CANCELED) {
        say("canceled", ticket, turn.why);
    } else {
        say("go", ticket, turn.state == CRN_TURN_GRANTED ? "granted" : "free");
        while (j->is_hanging)
            serve_until(j, now() + 1000000000);
        write_file(j, ticket);
        say("end", ticket,
            crn_broker_look(j->broker, ticket).state == CRN_TURN_GRANTED ? "granted" : "free");
    }
    crn_broker_return(j->broker, ticket);
}

static int is_stopped(void)
{
    struct pollfd pfd = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&pfd, 1, 0) > 0;
}

static void open_directory(struct job *j)
{
    char path[4096];
    void *map;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/.free-at", j->dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*j->free_at)) != 0)
        die(path);
    map = mmap(NULL, sizeof(*j->free_at), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        die("mmap");
    (void)close(fd);
    j->free_at = map;
}

static const char *value_of(int argc, char **argv, const char *key, const char *otherwise)
{
    size_t n = strlen(key);
    int i;

    for (i = 1; i < argc; i++)
        if (strncmp(argv[i], key, n) == 0 && argv[i][n] == '=')
            return argv[i] + n + 1;
    return otherwise;
}

#define NUMBER(key, otherwise) strtoll(value_of(argc, argv, key, otherwise), NULL, 10)

int main(int argc, char **argv)
{
    struct crn_broker_options opt = {.nodes = (uint32_t)NUMBER("nodes", "1"),
                                     .give_up_ns = NUMBER("give_up_ms", "2000") * 1000000,
                                     .max_wait_ns = NUMBER("max_wait_ms", "0") * 1000000};
    struct crn_log log = {.level = CRN_INFO, .who = "job"};
    static struct job job;
    struct crn_errinfo ei = {0};
    long long round, rounds = NUMBER("rounds", "1");
    enum crn_io_kind kind = (enum crn_io_kind)NUMBER("kind", "3");

#define TEXT(field, key) (void)snprintf(field, sizeof(field), "%s", value_of(argc, argv, key, ""))
    TEXT(opt.link.address, "at");
    TEXT(opt.link.method, "auth");
    TEXT(opt.link.auth.key_file, "key");
    TEXT(opt.link.auth.munge_socket, "munge");
    TEXT(opt.job, "name");
    opt.log = &log;
    job.dir = value_of(argc, argv, "dir", ".");
    job.bytes = (uint64_t)NUMBER("bytes", "1048576");
    job.is_hanging = NUMBER("hang", "0") != 0;
    memset(job.chunk, 'x', sizeof(job.chunk));
    open_directory(&job);
    if (crn_broker_open(&opt, &job.broker, &ei) != CAIRN_OK) {
        (void)fprintf(stderr, "turn_job: %s\n", ei.msg);
        return 2;
    }
    for (round = 0; round < rounds && !is_stopped(); round++)
        take_turn(&job, kind);
    crn_broker_close(job.broker);
    return 0;
}
