/* SPDX-License-Identifier: BSD-3-Clause */
/* How long it takes to bring a protected version back to the file system without one of its nodes: a drain
 * of the nodes that are left (`cairn drain`, with its start), against writing the data of all nodes plainly,
 * with fsync, and as much arithmetic of ISA-L as the lost node's data needs. Each drain's result is verified
 * against the checksums of the capture. Started by the script bench/protect. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protect.h"

#define MIB ((uint64_t)1 << 20)
#define USAGE                                                                                      \
    "protect_rebuild --cairn PROGRAM --scheme S --nodes N --mib SIZE [--rounds N] --kept DIR "     \
    "--shm "                                                                                       \
    "DIR --disk DIR"

extern char **environ;

static const char *const methods[] = {"limit", "cairn"};

struct rebuild_bench {
    const char *cairn, *scheme, *kept, *shm, *disk;
    uint32_t nodes;
    uint64_t bytes; /* of each node */
    size_t rounds;
    unsigned char *data;
    struct plain_parity plain;
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "protect: %s: %s\n", what, why);
    exit(1);
}

/* Runs a program, whose output nobody wants unless it fails. */
static void run_program(const char *program, const char *a, const char *b, const char *c)
{
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)a, (char *)(uintptr_t)b,
                    (char *)(uintptr_t)c, NULL};
    posix_spawn_file_actions_t to;
    int status = 0;
    pid_t pid;
    int r;

    (void)posix_spawn_file_actions_init(&to);
    (void)posix_spawn_file_actions_addopen(&to, 1, "/dev/null", O_WRONLY, 0);
    r = posix_spawnp(&pid, program, &to, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&to);
    if (r != 0)
        die(program, strerror(r));
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die(program, "it failed");
}

static void write_plainly(const struct rebuild_bench *b, uint32_t node)
{
    char path[600];
    uint64_t at;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/plain-%u", b->disk, node);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (at = 0; fd >= 0 && at < b->bytes; at += MIB)
        if (pwrite(fd, b->data + at, MIB, (off_t)at) != (ssize_t)MIB)
            die(path, strerror(errno));
    if (fd < 0 || fsync(fd) != 0 || close(fd) != 0)
        die(path, strerror(errno));
}

static void read_back(const struct rebuild_bench *b, uint32_t node)
{
    unsigned char block[4096];
    char path[600];
    uint64_t at;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/plain-%u", b->disk, node);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    for (at = 0; at < b->bytes; at += sizeof(block))
        if (pread(fd, block, sizeof(block), (off_t)at) != (ssize_t)sizeof(block) ||
            memcmp(block, b->data + at, sizeof(block)) != 0)
            die(path, "what was read back differs from what was written");
    (void)close(fd);
    (void)unlink(path);
}

static double run_limit(struct rebuild_bench *b)
{
    uint64_t made = 0;
    double start = bench_now();
    double seconds;
    uint32_t i;

    for (; made < b->bytes; made += plain_parity_bytes(&b->plain))
        plain_parity_make(&b->plain, b->data);
    for (i = 0; i < b->nodes; i++)
        write_plainly(b, i);
    seconds = bench_now() - start;
    for (i = 0; i < b->nodes; i++)
        read_back(b, i);
    return seconds;
}

static double run_drain(const struct rebuild_bench *b)
{
    char command[1500];
    double start, seconds;

    (void)snprintf(command, sizeof(command),
                   "rm -rf '%s/with' '%s/with' && cp -a '%s' '%s/with' && rm -r "
                   "'%s'/with/cairn-*/*-n1 && sync",
                   b->shm, b->disk, b->kept, b->shm, b->shm);
    run_program("sh", "-c", command, NULL);
    start = bench_now();
    run_program(b->cairn, "drain", NULL, NULL);
    seconds = bench_now() - start;
    run_program(b->cairn, "verify", "bench@1", NULL);
    return seconds;
}

static void parse(int argc, char **argv, struct rebuild_bench *b)
{
    int i;

    for (i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];

        if (strcmp(argv[i], "--cairn") == 0)
            b->cairn = value;
        else if (strcmp(argv[i], "--scheme") == 0)
            b->scheme = value;
        else if (strcmp(argv[i], "--kept") == 0)
            b->kept = value;
        else if (strcmp(argv[i], "--shm") == 0)
            b->shm = value;
        else if (strcmp(argv[i], "--disk") == 0)
            b->disk = value;
        else if (strcmp(argv[i], "--nodes") == 0)
            b->nodes = (uint32_t)atoll(value);
        else if (strcmp(argv[i], "--mib") == 0)
            b->bytes = (uint64_t)atoll(value) * MIB;
        else if (strcmp(argv[i], "--rounds") == 0)
            b->rounds = (size_t)atoll(value);
        else
            die("usage", USAGE);
    }
    if (i != argc || b->cairn == NULL || b->scheme == NULL || b->kept == NULL || b->shm == NULL ||
        b->disk == NULL || b->nodes < 2 || b->bytes == 0 || b->rounds == 0)
        die("usage", USAGE);
}

int main(int argc, char **argv)
{
    struct rebuild_bench b = {.rounds = 7};
    char name[96];
    struct bench_case c = {.bench = "protect", .name = name, .methods = methods, .nmethods = 2};
    size_t round, i;

    parse(argc, argv, &b);
    b.data = malloc(b.bytes);
    if (b.data == NULL || plain_parity_init(&b.plain, b.scheme, b.nodes, b.bytes) < 0)
        die(b.scheme, "it does not fit so many nodes, or there is not enough memory");
    memset(b.data, 0x5a, b.bytes);
    (void)snprintf(name, sizeof(name), "%s, %u nodes, %" PRIu64 " MiB: rebuild", b.scheme, b.nodes,
                   b.bytes / MIB);
    c.bytes = b.bytes * b.nodes;
    c.rounds = b.rounds;
    if (bench_case_init(&c) < 0)
        die("memory", "there is not enough");
    (void)run_limit(&b);
    for (round = 0; round < c.rounds; round++)
        for (i = 0; i < 2; i++) {
            size_t m = bench_turn(&c, round, i);

            *bench_time(&c, round, m) = m == 0 ? run_limit(&b) : run_drain(&b);
        }
    bench_header(&c);
    if (bench_report(&c) < 0)
        die("standard output", "cannot be written");
    bench_case_fini(&c);
    plain_parity_fini(&b.plain);
    free(b.data);
    return 0;
}
