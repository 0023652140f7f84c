/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell readers: with 10,000 ranks that restart a version of 9,000, nothing that a rank holds
 * or sends grows with the number of ranks. And memory of another process, written by the kernel. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"
#include "restart/scatter_impl.h"
#include "restart/version_impl.h"

enum { WRITERS = 9000, RANKS = 10000, READERS = 64, STEP = 10 };
#define TOTAL ((uint64_t)WRITERS << 20) /* one array of bytes, cut evenly by writers and ranks */

/* One file with the shards of all writers: a region of 1 MiB each. */
static void make_version(struct crn_version *v, struct crn_version_file *file)
{
    struct crn_index *x = &file->index;
    uint32_t i;

    memset(file, 0, sizeof(*file));
    memset(v, 0, sizeof(*v));
    file->is_loaded = 1;
    x->chunk_bytes = (uint64_t)1 << 18;
    x->nshards = WRITERS;
    x->shards = calloc(WRITERS, sizeof(*x->shards));
    x->nextents = WRITERS;
    x->extents = calloc(WRITERS, sizeof(*x->extents));
    for (i = 0; i < WRITERS; i++) {
        x->shards[i].rank = i;
        x->extents[i].shard = i;
        x->extents[i].bytes = (uint64_t)1 << 20;
        x->extents[i].file_offset = (uint64_t)i << 20;
    }
    v->files = file;
    v->m.nfiles = 1;
    v->m.ranks = WRITERS;
    v->m.files = calloc(1, sizeof(*v->m.files));
    v->m.files[0].trailer.index_offset = TOTAL;
}

/* What rank i of RANKS wants: its block of the array. */
static uint32_t want(uint32_t i, struct crn_slice *parts)
{
    uint64_t at = TOTAL * i / RANKS;
    uint64_t end = TOTAL * (i + 1) / RANKS;
    uint32_t n = 0;

    while (at < end) {
        uint32_t writer = (uint32_t)(at >> 20);
        uint64_t stop = ((uint64_t)writer + 1) << 20;

        stop = stop < end ? stop : end;
        parts[n] = (struct crn_slice){.rank = writer, .from = at - ((uint64_t)writer << 20)};
        parts[n++].run = stop - at;
        at = stop;
    }
    return n;
}

static void nothing_grows_with_ranks(void **state)
{
    static uint64_t wishes[READERS];
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_version_file file;
    struct crn_pass_options o = {.files = (const uint32_t[]){0}, .nfiles = 1, .shares = READERS};
    struct crn_version v;
    uint64_t total = 0;
    uint32_t i;
    size_t k;

    (void)state;
    make_version(&v, &file);
    o.v = &v;
    for (i = 0; i < RANKS; i += STEP) {
        struct crn_routes routes = {0};
        struct crn_slice parts[4];
        uint32_t n = want(i, parts);

        assert_in_range(n, 1, 2);
        assert_ok(crn_wishes_route(&o, parts, n, &routes, ei));
        /* A message to the readers on which its block lies, and to no other. */
        assert_in_range(routes.n, n, n + 2);
        for (k = 0; k < routes.n; k++) {
            uint64_t first = TOTAL * i / RANKS / (TOTAL / READERS);

            assert_in_range(routes.v[k].share, first > 0 ? first - 1 : 0, first + 1);
            assert_true(routes.v[k].part < n);
            wishes[routes.v[k].share]++;
        }
        total += routes.n;
        free(routes.v);
    }
    /* A reader hears of its share: twice the average at most. */
    for (i = 0; i < READERS; i++)
        assert_in_range(wishes[i], 1, 2 * total / READERS + 2);
    print_message("%u ranks and %u readers: %llu wishes of %u ranks, %zu bytes each\n", RANKS,
                  READERS, (unsigned long long)total, RANKS / STEP, sizeof(struct crn_slice));
    free(v.m.files);
    free(file.index.shards);
    free(file.index.extents);
}

/* A child opens a gate; this process writes into the child's private memory. */
static void mates_are_written(void **state)
{
    struct shared {
        struct crn_mate mate;
        unsigned char got[64];
    } *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct crn_slice p = {.run = 4, .ndims = 1, .count = {3}, .from_step = {8}, .to_step = {16}};
    unsigned char data[24];
    int ready[2], go[2];
    char c = 0;
    pid_t pid;
    int status, i;

    (void)state;
    assert_true(s != MAP_FAILED && pipe(ready) == 0 && pipe(go) == 0);
    for (i = 0; i < (int)sizeof(data); i++)
        data[i] = (unsigned char)(i + 1);
    pid = fork();
    if (pid == 0) {
        static unsigned char memory[64];
        struct crn_mate_gate gate;

        crn_mate_open(&gate, memory, &s->mate);
        if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
            _exit(1);
        memcpy(s->got, memory, sizeof(memory));
        crn_mate_shut(&gate);
        if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    if (!crn_mate_is_reachable(&s->mate)) { /* Yama, or a container */
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        skip();
    }
    assert_int_equal(crn_mate_write(&s->mate, &p, 0, 24, data), 1);
    assert_int_equal(write(go[1], &c, 1), 1);
    assert_int_equal(read(ready[0], &c, 1), 1);
    for (i = 0; i < 64; i++) /* runs of 4 of every 8 bytes go to every 16th */
        assert_int_equal(s->got[i], i / 16 < 3 && i % 16 < 4 ? 8 * (i / 16) + i % 16 + 1 : 0);
    assert_int_equal(crn_mate_write(&s->mate, &p, 0, 24, data), 0); /* the gate is shut */
    s->mate.word[0] ^= 1;
    assert_int_equal(crn_mate_is_reachable(&s->mate), 0);
    assert_int_equal(write(go[1], &c, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(crn_mate_write(&s->mate, &p, 0, 24, data), 0); /* it is gone */
    (void)munmap(s, sizeof(*s));
    for (i = 0; i < 2; i++) {
        assert_int_equal(close(ready[i]), 0);
        assert_int_equal(close(go[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_grows_with_ranks),
        cmocka_unit_test(mates_are_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
