/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass hands out every byte of every region once, for any number of shares, threads and
 * blocks. Damaged or unreadable data is reported, and no rank waits for it. */
#include <fcntl.h>

#include "base/fs_faulty.h"
#include "base/rng.h"
#include "base/test.h"
#include "base/thread.h"
#include "restart/pass.h"
#include "store/test_version.h"

#define RANKS 7
#define FILES 3

struct pass_test_env {
    char dir[256];
    struct crn_fs_faulty fs;
    struct crn_store st;
    struct tv t;
    struct tv older[2]; /* the versions it is encoded against, if any */
    /* The bytes received, and how often each one was. */
    unsigned char got[RANKS][TV_REGIONS][256];
    unsigned times[RANKS][TV_REGIONS][256];
    uint32_t share[RANKS][TV_REGIONS][256]; /* that read it */
    uint64_t bytes, routed;
};

static int make(void **state, const char *pipe, int chain)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct pass_test_env *e = calloc(1, sizeof(*e));

    test_dir_make(e->dir, sizeof(e->dir));
    crn_fs_faulty_init(&e->fs, crn_fs_posix());
    e->fs.ops = CRN_OP_READ;
    e->t = (struct tv){.name = "heat", .version = 4, .seed = 5, .ranks = RANKS, .files = FILES};
    e->t.pipe = pipe;
    assert_ok(crn_store_open(&e->fs.fs, e->dir, 1, &e->st, ei));
    if (chain) {
        e->older[0] = e->older[1] = e->t;
        e->older[1].version = 2;
        e->older[1].seq = 1;
        e->older[1].seed = 2;
        assert_ok(tv_write(&e->st, &e->older[1], ei));
        e->t.pipe = e->older[0].pipe = "delta:1,magnitude";
        e->older[0].older = &e->older[1];
        e->older[0].version = 3;
        e->older[0].seq = 2;
        e->older[0].seed = 3;
        assert_ok(tv_write(&e->st, &e->older[0], ei));
        e->t.older = &e->older[0];
        e->t.seq = 4;
    }
    assert_ok(tv_write(&e->st, &e->t, ei));
    *state = e;
    return 0;
}

static int setup(void **state)
{
    return make(state, NULL, 0);
}

static int setup_encoded(void **state)
{
    return make(state, "delta,magnitude", 0);
}

static int setup_chained(void **state)
{
    return make(state, "delta,magnitude", 1);
}

static int teardown(void **state)
{
    struct pass_test_env *e = *state;

    crn_store_close(&e->st);
    test_dir_remove(e->dir);
    free(e);
    return 0;
}

static void take(struct pass_test_env *e, uint32_t share, const struct crn_pass_piece *q)
{
    uint64_t i;

    for (i = q->begin; q->data != NULL && i < q->end; i++) {
        e->got[q->rank][q->region][i] = q->data[i - q->begin];
        e->times[q->rank][q->region][i]++;
        e->share[q->rank][q->region][i] = share;
        e->bytes++;
    }
    assert_int_equal(q->is_file, q->region == 3);
}

/* Runs one share and returns its failure. */
static cairn_err one_share(struct pass_test_env *e, const struct crn_pass_options *o, char *text)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const struct crn_errinfo *failure;
    struct crn_pass_block *b;
    struct crn_pass_piece q;
    struct crn_pass *p;
    cairn_err rc;
    size_t i;

    assert_ok(crn_pass_open(o, &p, ei));
    while ((b = crn_pass_next(p, 1)) != NULL) {
        for (i = 0; crn_pass_piece(p, b, i, &q); i++)
            take(e, o->share, &q);
        crn_pass_put(p, b);
    }
    assert_true(crn_pass_is_over(p));
    failure = crn_pass_failure(p);
    rc = failure != NULL ? failure->code : CAIRN_OK;
    if (failure != NULL)
        (void)snprintf(text, CRN_ERR_TEXT, "%s", failure->msg);
    crn_pass_close(p);
    return rc;
}

/* Each share reads what crn_pass_route says. */
static cairn_err check_route(void *arg, uint32_t rank, uint32_t region, uint64_t begin,
                             uint64_t end, uint32_t share, struct crn_errinfo *ei)
{
    struct pass_test_env *e = arg;

    (void)ei;
    for (; begin < end; begin++) {
        assert_true(e->times[rank][region][begin] == 0 || e->share[rank][region][begin] == share);
        e->routed++;
    }
    return CAIRN_OK;
}

/* Runs all shares and returns the first failure. */
static cairn_err all_shares(struct pass_test_env *e, struct crn_pass_options o, char *text)
{
    static const uint32_t files[FILES] = {0, 1, 2};
    struct crn_errinfo info = {0}, *ei = &info;
    cairn_err first = CAIRN_OK;
    cairn_err rc;

    memset(e->times, 0, sizeof(e->times));
    e->bytes = 0;
    assert_ok(crn_version_open(&e->st, "heat", 4, &o.v, ei));
    assert_ok(crn_version_load_all(o.v, ei));
    o.files = files;
    o.nfiles = FILES;
    for (o.share = 0; o.share < o.shares; o.share++) {
        rc = one_share(e, &o, text);
        if (first == CAIRN_OK)
            first = rc;
    }
    e->routed = 0;
    assert_ok(crn_pass_route(&o, check_route, e, ei));
    assert_true(e->routed >= e->bytes);
    crn_version_close(o.v);
    return first;
}

/* Every byte of the ranks that are not skipped came once, and is correct. */
static void check(const struct pass_test_env *e, const uint8_t *skip, int files_only)
{
    unsigned char expect[256];
    uint32_t rank, r;
    uint64_t i;

    for (rank = 0; rank < RANKS; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            uint64_t n = tv_content(&e->t, rank, r, expect);
            int is_wanted = (skip == NULL || !skip[rank]) && (!files_only || r == 3);

            for (i = 0; i < n; i++) {
                assert_int_equal(e->times[rank][r][i], is_wanted);
                if (e->times[rank][r][i] != 0)
                    assert_int_equal(e->got[rank][r][i], expect[i]);
            }
        }
}

/* Looks at the reads logged since the last call: no byte of a data file was read twice, neither of
 * the version nor of its bases. */
static void check_reads(const struct pass_test_env *e, FILE *reads)
{
    static unsigned char times[5][FILES][4096];
    long long off, n, i;
    char path[400];
    uint32_t files = 0;

    clearerr(reads); /* the file has grown since */
    memset(times, 0, sizeof(times));
    while (fscanf(reads, "%lld %lld %399s", &off, &n, path) == 3) {
        const char *name = strstr(path, "/data-000");
        unsigned char *of;

        if (name == NULL)
            continue;
        of = times[name[-1] - '0'][name[9] - '0'];
        assert_true(off + n <= (long long)sizeof(times[0][0]));
        for (i = off; i < off + n; i++)
            assert_int_equal(of[i]++, 0);
        files |= 1U << (3 * (4 - (name[-1] - '0')) + name[9] - '0');
    }
    assert_int_equal(files, (1U << (e->t.files * (e->t.older != NULL ? 3 : 1))) - 1);
}

static int is_not_skipped(void *arg, uint32_t rank, uint32_t region, uint64_t begin, uint64_t end)
{
    const uint8_t *skip = arg;

    (void)region;
    assert_true(begin < end);
    return !skip[rank];
}

static void every_byte_comes_once(void **state)
{
    struct pass_test_env *e = *state;
    char text[CRN_ERR_TEXT], path[300];
    uint8_t skip[RANKS];
    int reader[RANKS];
    struct crn_rng rng;
    FILE *reads;
    int round;

    (void)snprintf(path, sizeof(path), "%s/reads", e->dir);
    e->fs.reads_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    reads = fopen(path, "r");
    crn_rng_seed(&rng, 3);
    for (round = 0; round < 300; round++) {
        struct crn_pass_options o = {.shares = 1 + (uint32_t)crn_rng_below(&rng, 9),
                                     .threads = 1 + (unsigned)crn_rng_below(&rng, 4),
                                     .block_bytes = 1 + (size_t)crn_rng_below(&rng, 400)};
        int i;

        for (i = 0; i < RANKS; i++)
            skip[i] = crn_rng_below(&rng, 3) == 0;
        o.wants = round % 2 == 0 ? is_not_skipped : NULL;
        o.arg = skip;
        for (i = 0; i < RANKS; i++) /* some have no reader */
            reader[i] = (int)crn_rng_below(&rng, o.shares + 1) - 1;
        o.reader = round % 3 != 0 ? reader : NULL;
        o.direct_bytes = crn_rng_below(&rng, 40);
        o.files_only = round % 7 == 0;
        assert_int_equal(all_shares(e, o, text), CAIRN_OK);
        check(e, round % 2 == 0 ? skip : NULL, o.files_only);
        check_reads(e, reads);
    }
    (void)fclose(reads);
    assert_int_equal(close(e->fs.reads_fd), 0);
    e->fs.reads_fd = -1;
}

/* A block as large as a file: one read for each, besides trailer and index. */
static void reads_are_large(void **state)
{
    struct crn_pass_options o = {.shares = 1, .threads = 2, .block_bytes = 1 << 20};
    struct pass_test_env *e = *state;
    char text[CRN_ERR_TEXT];
    long before = atomic_load(&e->fs.calls);

    assert_int_equal(all_shares(e, o, text), CAIRN_OK);
    /* Each file: trailer, index and data. The manifest: its content and its end. */
    assert_in_range(atomic_load(&e->fs.calls) - before, 3 * FILES, 3 * FILES + 2);
}

static void damage_is_named(void **state)
{
    struct crn_pass_options o = {.shares = 2, .threads = 3, .block_bytes = 64};
    struct pass_test_env *e = *state;
    char path[400], text[CRN_ERR_TEXT];
    unsigned char c;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/heat/4/data-0001", e->dir);
    fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &c, 1, 2), 1);
    c ^= 1;
    assert_int_equal(pwrite(fd, &c, 1, 2), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(all_shares(e, o, text), CAIRN_EDAMAGED);
    assert_non_null(strstr(text, "rank 1, region 'field'"));
    assert_int_equal(e->times[1][0][2], 0); /* never handed out */
}

/* Each read fails once: the failure is reported, no block is lost, and every byte that came is
 * correct. */
static void any_read_may_fail(void **state)
{
    struct crn_pass_options o = {.shares = 2, .threads = 2, .block_bytes = 64};
    struct pass_test_env *e = *state;
    char text[CRN_ERR_TEXT];
    long before = atomic_load(&e->fs.calls);
    long indexes = FILES * (e->t.older != NULL ? 3 : 1);
    long first, last, at;

    assert_int_equal(all_shares(e, o, text), CAIRN_OK);
    last = atomic_load(&e->fs.calls) - before;
    first = 2 + 2 * indexes + 1; /* after manifest and indexes */
    assert_true(last - first > 10);
    for (at = first; at <= last; at++) {
        e->fs.at = atomic_load(&e->fs.calls) + at;
        assert_int_equal(all_shares(e, o, text), CAIRN_EIO);
        assert_non_null(strstr(text, "data-000"));
    }
    e->fs.at = 0;
}

static ssize_t (*read_below)(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off);
static atomic_int most_cores; /* the most cores that a reading thread was allowed to run on */

static ssize_t read_noting(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    int cores = crn_cores();
    int most = atomic_load(&most_cores);

    while (most < cores && !atomic_compare_exchange_weak(&most_cores, &most, cores))
        ;
    return read_below(fs, fd, buf, n, off);
}

static void readers_are_not_bound(void **state)
{
    struct crn_pass_options o = {.shares = 1, .threads = 2, .block_bytes = 64};
    struct pass_test_env *e = *state;
    char text[CRN_ERR_TEXT];
    cpu_set_t before;

    test_bind(&before);
    read_below = e->fs.fs.pread;
    e->fs.fs.pread = read_noting;
    o.cores = CRN_CORES_OWN;
    assert_int_equal(all_shares(e, o, text), CAIRN_OK);
    assert_int_equal(atomic_load(&most_cores), 1);
    o.cores = CRN_CORES_ALL;
    assert_int_equal(all_shares(e, o, text), CAIRN_OK);
    assert_in_range(atomic_load(&most_cores), 2, crn_host_cores());
    assert_int_equal(crn_cores(), 1); /* the caller's own affinity is unchanged */
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    check(e, NULL, 0);
}

#define TEST(fn)    cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define ENCODED(fn) cmocka_unit_test_setup_teardown(fn, setup_encoded, teardown)
#define CHAINED(fn) cmocka_unit_test_setup_teardown(fn, setup_chained, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_comes_once), ENCODED(every_byte_comes_once), CHAINED(every_byte_comes_once),
        TEST(reads_are_large),       TEST(damage_is_named),          ENCODED(damage_is_named),
        CHAINED(damage_is_named),    TEST(readers_are_not_bound),    TEST(any_read_may_fail),
        CHAINED(any_read_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
