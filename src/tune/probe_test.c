/* SPDX-License-Identifier: BSD-3-Clause */
/* What a probe writes, byte for byte, in every shape; what remains when a call fails or the
 * probe is stopped. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include "base/fs_faulty.h"
#include "base/pool.h"
#include "tune/probe.h"

#define BLOCK 4096
#define SLOTS 64

struct probe_test_fixture {
    char dir[256];
    int dfd;
    struct crn_pool pool;
    unsigned char *arena;
};

static int setup(void **state)
{
    static struct probe_test_fixture f;
    size_t i;

    test_dir_in_memory();
    test_dir_make(f.dir, sizeof(f.dir));
    f.dfd = open(f.dir, O_RDONLY | O_DIRECTORY);
    assert_true(f.dfd >= 0);
    assert_int_equal(crn_pool_init(&f.pool, 1, SLOTS * BLOCK, NULL), CAIRN_OK);
    f.arena = crn_pool_get(&f.pool);
    for (i = 0; i < SLOTS; i++)
        memset(f.arena + i * BLOCK, (int)(i + 1), BLOCK);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct probe_test_fixture *f = *state;

    crn_pool_put(&f->pool, f->arena);
    crn_pool_fini(&f->pool);
    (void)close(f->dfd);
    test_dir_remove(f->dir);
    return 0;
}

static struct crn_probe_env env_of(const struct probe_test_fixture *f)
{
    return (struct crn_probe_env){
        .fs = crn_fs_posix(), .dfd = f->dfd, .arena = f->arena, .arena_bytes = SLOTS * BLOCK};
}

static size_t entries(const struct probe_test_fixture *f)
{
    struct crn_names names;
    size_t n;

    assert_int_equal(crn_fs_names(crn_fs_posix(), f->dfd, "dir", &names, NULL), CAIRN_OK);
    n = names.n;
    crn_names_free(&names);
    return n;
}

/* Reads and removes the files. Each block of the arena must occur as often as planned, complete
 * and at a multiple of the block size. */
static void check_files(const struct probe_test_fixture *f, const struct crn_probe *p)
{
    const struct crn_fs *fs = crn_fs_posix();
    unsigned seen[SLOTS] = {0};
    uint64_t blocks = p->bytes / BLOCK;
    uint32_t i;
    uint64_t n;

    for (i = 0; i < p->files; i++) {
        char name[32];
        void *buf;
        size_t len, at;

        (void)snprintf(name, sizeof(name), "probe-%u", i);
        assert_int_equal(crn_fs_read_file(fs, f->dfd, name, 1 << 24, &buf, &len, NULL), CAIRN_OK);
        assert_int_equal(len % BLOCK, 0);
        for (at = 0; at < len; at += BLOCK) {
            unsigned char v = ((unsigned char *)buf)[at];

            assert_in_range(v, 1, SLOTS);
            assert_memory_equal((unsigned char *)buf + at, f->arena + (v - 1) * BLOCK, BLOCK);
            seen[v - 1]++;
        }
        free(buf);
        assert_int_equal(fs->unlinkat(fs, f->dfd, name, 0), 0);
    }
    for (n = 0; n < blocks; n++) {
        assert_true(seen[n % SLOTS] > 0);
        seen[n % SLOTS]--;
    }
}

static void run_kept(const struct probe_test_fixture *f, struct crn_probe p)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_probe_env env = env_of(f);
    double seconds = -1;
    cairn_err rc;

    env.keep_files = 1;
    rc = crn_probe_run(&env, &p, &seconds, ei);
    if (rc == CAIRN_ENOTSUP && p.method != CRN_BUFFERED) {
        test_dir_remove(f->dir); /* may be half open */
        assert_int_equal(mkdir(f->dir, 0700), 0);
        skip();
    }
    assert_ok(rc);
    assert_true(seconds >= 0);
    check_files(f, &p);
}

static void all_shapes(void **state, enum crn_method method)
{
    static const uint32_t writers[] = {1, 3, 16}, files[] = {1, 4, 8}, blocks[] = {1, 7, 100};
    const struct probe_test_fixture *f = *state;
    struct crn_probe p = {.method = method, .block_bytes = BLOCK};
    int w, k, b;

    for (w = 0; w < 3; w++)
        for (k = 0; k < 3; k++)
            for (b = 0; b < 3; b++) {
                p.writers = writers[w];
                p.files = files[k];
                p.bytes = (uint64_t)blocks[b] * BLOCK;
                p.layout = CRN_CONTIGUOUS;
                p.received = 0;
                run_kept(f, p);
                p.layout = CRN_INTERLEAVED;
                run_kept(f, p);
                p.received = 50;
                run_kept(f, p);
                p.received = 100;
                run_kept(f, p);
            }
}

static void test_buffered(void **state)
{
    all_shapes(state, CRN_BUFFERED);
}

static void test_behind(void **state)
{
    all_shapes(state, CRN_BEHIND);
}

static void test_direct(void **state)
{
    all_shapes(state, CRN_DIRECT);
}

/* Regions cover every block of every file once, without gaps. */
static void test_regions(void **state)
{
    struct crn_probe p = {.block_bytes = BLOCK};
    uint32_t r, n;

    (void)state;
    for (p.writers = 1; p.writers <= 16; p.writers++)
        for (p.files = 1; p.files <= 8; p.files++)
            for (n = 1; n < 70; n += 11) {
                uint64_t end[CRN_PROBE_MAX_FILES] = {0};
                uint64_t sum = 0;

                p.bytes = (uint64_t)n * BLOCK;
                for (r = 0; r < crn_probe_regions(&p); r++) {
                    struct crn_probe_span g = crn_probe_region(&p, r);

                    assert_int_equal(g.file, r % p.files);
                    assert_int_equal(g.first, end[g.file]);
                    end[g.file] += g.blocks;
                    sum += g.blocks;
                }
                assert_int_equal(sum, n);
            }
}

/* Every k-th call fails in turn: the error is returned and no file is left. */
static void test_faults(void **state)
{
    const struct probe_test_fixture *f = *state;
    struct crn_probe_env env = env_of(f);
    struct crn_probe p = {.writers = 3,
                          .files = 2,
                          .layout = CRN_INTERLEAVED,
                          .block_bytes = BLOCK,
                          .bytes = 20 * BLOCK,
                          .received = 50};
    struct crn_fs_faulty faulty;
    long at;
    double seconds;

    crn_fs_faulty_init(&faulty, crn_fs_posix());
    faulty.action = CRN_FAULT_FAIL;
    faulty.sys_errno = ENOSPC;
    faulty.ops = CRN_OP_OPEN | CRN_OP_WRITE | CRN_OP_SYNC | CRN_OP_STAT;
    env.fs = &faulty.fs;
    for (at = 1;; at++) {
        struct crn_errinfo ei = {0};
        cairn_err rc;

        faulty.at = at;
        atomic_store(&faulty.calls, 0);
        rc = crn_probe_run(&env, &p, &seconds, &ei);
        assert_int_equal(entries(f), 0);
        if (rc == CAIRN_OK)
            break;
        assert_int_equal(rc, CAIRN_ENOSPC);
        assert_int_equal(ei.sys_errno, ENOSPC);
    }
    assert_true(at > 2 + 20 + 2);
}

static void test_stopped(void **state)
{
    const struct probe_test_fixture *f = *state;
    struct crn_probe_env env = env_of(f);
    atomic_int stop = 1;
    struct crn_probe p = {.writers = 4, .files = 1, .block_bytes = BLOCK, .bytes = 100 * BLOCK};
    double seconds;
    int received;

    env.stop = &stop;
    assert_int_equal(crn_probe_run(&env, &p, &seconds, NULL), CAIRN_ECANCELED);
    p.layout = CRN_INTERLEAVED;
    for (received = 0; received <= 100; received += 50) {
        p.received = (uint32_t)received;
        assert_int_equal(crn_probe_run(&env, &p, &seconds, NULL), CAIRN_ECANCELED);
        p.method = p.method == CRN_BUFFERED ? CRN_BEHIND : CRN_BUFFERED;
    }
    assert_int_equal(entries(f), 0);
}

static void test_refused(void **state)
{
    const struct probe_test_fixture *f = *state;
    struct crn_probe_env env = env_of(f);
    const struct crn_probe good = {
        .writers = 1, .files = 1, .block_bytes = BLOCK, .bytes = 8 * BLOCK};
    struct crn_probe p;
    double seconds;

#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        p = good;                                                                                  \
        p.field = (value);                                                                         \
        assert_int_equal(crn_probe_run(&env, &p, &seconds, NULL), CAIRN_EINVAL);                   \
    } while (0)
    REFUSED(writers, 0);
    REFUSED(writers, 17);
    REFUSED(files, 0);
    REFUSED(files, 9);
    REFUSED(block_bytes, 512);
    REFUSED(block_bytes, 2 * SLOTS * BLOCK);
    REFUSED(bytes, 0);
    REFUSED(bytes, BLOCK + 1);
    REFUSED(received, 50); /* contiguous */
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_buffered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_direct, setup, teardown),
        cmocka_unit_test(test_regions),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
