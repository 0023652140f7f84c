/* SPDX-License-Identifier: BSD-3-Clause */
/* A store of two versions and three ranks, damaged in every way: each byte flipped, each
 * truncation, files missing, swapped or foreign, and damage under valid checksums. A reader gets
 * the right bytes or an error, never wrong bytes, a crash, a hang or an oversized allocation.
 * The undamaged version stays readable, so a restart can fall back to it. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/test.h"
#include "restart/version.h"
#include "store/test_version.h"

#define MAX_FILE 4096
#define BIG      ((size_t)256 << 20) /* no reader of this store needs so much */

/* With a sanitizer the limit is its own; without one it is the kernel's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=64:allocator_may_return_null=1";
}

static char dir[256];
static struct crn_store st;
static unsigned long cases;
static const char *pipe_text; /* of version 2; NULL: not encoded */

static struct tv small(int64_t version)
{
    return (struct tv){.name = "heat",
                       .version = version,
                       .seq = (uint64_t)version,
                       .seed = (uint32_t)version,
                       .ranks = 3,
                       .files = 2,
                       .pipe = version == 2 ? pipe_text : NULL};
}

static int setup(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv one = small(1);
    struct tv two = small(2);

    (void)state;
    test_dir_in_memory();
    test_dir_make(dir, sizeof(dir));
    assert_ok(crn_store_open(crn_fs_posix(), dir, 0, &st, ei));
    assert_ok(tv_write(&st, &one, ei));
    assert_ok(tv_write(&st, &two, ei));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    crn_store_close(&st);
    test_dir_remove(dir);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    print_message("%lu damaged stores read\n", cases);
    return 0;
}

static int group_setup(void **state)
{
    (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit limit = {BIG, BIG};

    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
#endif
    return 0;
}

static const char *path_of(const char *file)
{
    static char path[2][400];
    static int which;

    which = !which;
    (void)snprintf(path[which], sizeof(path[which]), "%s/heat/2/%s", dir, file);
    return path[which];
}

static size_t load(const char *file, unsigned char *buf)
{
    int fd = open(path_of(file), O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, buf, MAX_FILE);
    assert_true(n >= 0 && n < MAX_FILE);
    assert_int_equal(close(fd), 0);
    return (size_t)n;
}

static void save(const char *file, const void *buf, size_t n)
{
    int fd = open(path_of(file), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, buf, n), n);
    assert_int_equal(close(fd), 0);
}

static int is_refusal(cairn_err rc)
{
    return rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT;
}

/* Reads all of a version. Returns how many of its regions are restored with the right bytes. */
static int read_regions(int64_t version, const char *when, int may_lie)
{
    unsigned char expect[256], got[256];
    struct crn_errinfo info = {0};
    struct tv t = small(version);
    struct crn_version *v;
    uint32_t rank, r;
    cairn_err rc;
    int good = 0;

    rc = crn_version_open(&st, "heat", version, &v, &info);
    if (rc != CAIRN_OK && !is_refusal(rc))
        fail_msg("%s: open: %s: %s", when, cairn_error_name(rc), info.msg);
    if (rc != CAIRN_OK)
        return 0;
    for (rank = 0; rank < t.ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            uint64_t n = tv_content(&t, rank, r, expect);

            crn_err_clear(&info);
            rc = crn_version_read(v, rank, r, 0, n, got, &info);
            if (rc == CAIRN_OK && !may_lie)
                assert_memory_equal(got, expect, n);
            if (rc != CAIRN_OK && !is_refusal(rc) &&
                !(may_lie && (rc == CAIRN_EINVAL || rc == CAIRN_EMISMATCH)))
                fail_msg("%s: read: %s: %s", when, cairn_error_name(rc), info.msg);
            good += rc == CAIRN_OK;
        }
    crn_version_close(v);
    return good;
}

/* The same through the global array, as a restart on one rank would. */
static int read_array(int64_t version, const char *when, int may_lie)
{
    struct crn_errinfo info = {0};
    struct tv t = small(version);
    struct crn_region want = tv_region(&t, 0, 0);
    uint32_t got[3 * TV_ROWS * TV_COLS];
    struct crn_version *v;
    uint32_t i;
    cairn_err rc;

    want.dims[0] = want.global_dims[0];
    want.bytes = sizeof(got);
    if (crn_version_open(&st, "heat", version, &v, &info) != CAIRN_OK)
        return 0;
    rc = crn_version_read_block(v, &want, got, &info);
    crn_version_close(v);
    if (rc != CAIRN_OK && !is_refusal(rc) && !(may_lie && rc == CAIRN_EMISMATCH))
        fail_msg("%s: read the array: %s: %s", when, cairn_error_name(rc), info.msg);
    for (i = 0; rc == CAIRN_OK && !may_lie && i < sizeof(got) / sizeof(got[0]); i++)
        assert_int_equal(got[i], tv_element(&t, i / TV_COLS, i % TV_COLS));
    return rc == CAIRN_OK;
}

/* The operations of every tool on a store: list, check, read, look for debris. may_lie: the
 * damage has valid checksums, so only robustness can be required. */
static void survey(const char *when, int may_lie)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_sweep_result res;
    struct crn_catalog c;
    size_t i;
    int good, array;

    cases++;
    assert_ok(crn_store_catalog(&st, "heat", &c, ei));
    assert_true(c.n >= 1);
    for (i = 0; i < c.n; i++)
        if (c.v[i].code == CAIRN_ENOMEM)
            fail_msg("%s: %s", when, c.v[i].why);
    assert_int_equal(c.v[0].version, 1);
    assert_int_equal(c.v[0].state, CRN_VERSION_OK);
    good = read_regions(2, when, may_lie);
    array = read_array(2, when, may_lie);
    if (c.n > 1 && c.v[1].state == CRN_VERSION_DAMAGED && c.v[1].code != CAIRN_EDAMAGED &&
        c.v[1].code != CAIRN_EFORMAT)
        fail_msg("%s: %s", when, c.v[1].why);
    if (good == 3 * TV_REGIONS)
        assert_true(array || may_lie);
    assert_int_equal(read_regions(1, when, 0), 3 * TV_REGIONS);
    assert_ok(crn_store_sweep(&st, "heat", -1, 0, 1, 1, crn_clock_real(), &res, ei));
    crn_catalog_free(&c);
}

static const char *const files[] = {"manifest", "data-0000", "data-0001"};
#define NFILES (sizeof(files) / sizeof(files[0]))

static void every_byte_flipped(void **state)
{
    unsigned char good[MAX_FILE], bad[MAX_FILE];
    char when[128];
    size_t f, i, n;

    (void)state;
    for (f = 0; f < NFILES; f++) {
        n = load(files[f], good);
        for (i = 0; i < n; i++) {
            memcpy(bad, good, n);
            bad[i] ^= (unsigned char)(1U << (i % 8));
            save(files[f], bad, n);
            (void)snprintf(when, sizeof(when), "%s: byte %zu flipped", files[f], i);
            survey(when, 0);
        }
        save(files[f], good, n);
    }
}

static void every_truncation(void **state)
{
    unsigned char good[MAX_FILE];
    char when[128];
    size_t f, n, len;

    (void)state;
    for (f = 0; f < NFILES; f++) {
        n = load(files[f], good);
        for (len = 0; len < n; len++) {
            save(files[f], good, len);
            (void)snprintf(when, sizeof(when), "%s: cut at %zu", files[f], len);
            survey(when, 0);
        }
        good[n] = 0;
        save(files[f], good, n + 1);
        survey("a byte too many", 0);
        save(files[f], good, n);
    }
}

/* Marks are small files, too: a damaged one rejects the version, or has no effect. */
static void every_byte_of_a_mark_flipped(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char good[MAX_FILE], bad[MAX_FILE];
    struct crn_catalog c;
    size_t i, n;

    (void)state;
    assert_ok(crn_store_reject(&st, "heat", 2, "diverged", ei));
    n = load("bad", good);
    for (i = 0; i < n; i++) {
        memcpy(bad, good, n);
        bad[i] ^= (unsigned char)(1U << (i % 8));
        save("bad", bad, n);
        survey("a damaged mark", 0);
        assert_ok(crn_store_catalog(&st, "heat", &c, ei));
        assert_int_equal(c.v[1].state, CRN_VERSION_REJECTED);
        crn_catalog_free(&c);
        save("bad", good, i);
        survey("a cut mark", 0);
    }
}

static void missing_swapped_and_foreign_files(void **state)
{
    static const char *const foreign[] = {"/bin/sh", "/etc/passwd", "/dev/null"};
    char kept[400], cmd[1200];
    size_t a, b;

    (void)state;
    (void)snprintf(kept, sizeof(kept), "%s/kept", dir);
    (void)snprintf(cmd, sizeof(cmd), "cp -r '%s/heat/2' '%s'", dir, kept);
    assert_int_equal(system(cmd), 0);
    for (a = 0; a < NFILES; a++) {
        for (b = 0; b < NFILES + 6; b++) {
            if (b < NFILES) /* another file of this version */
                (void)snprintf(cmd, sizeof(cmd), "cp '%s/%s' '%s'", kept, files[b],
                               path_of(files[a]));
            else if (b < NFILES + 3) /* a foreign file */
                (void)snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", foreign[b - NFILES],
                               path_of(files[a]));
            else if (b == NFILES + 3) /* the same file of the other version */
                (void)snprintf(cmd, sizeof(cmd), "cp '%s/heat/1/%s' '%s'", dir, files[a],
                               path_of(files[a]));
            else if (b == NFILES + 4)
                (void)snprintf(cmd, sizeof(cmd), "rm '%s' && mkfifo '%s'", path_of(files[a]),
                               path_of(files[a]));
            else
                (void)snprintf(cmd, sizeof(cmd), "rm '%s' && ln -s '%s/%s' '%s'", path_of(files[a]),
                               kept, files[a], path_of(files[a]));
            assert_int_equal(system(cmd), 0);
            survey(cmd, 0);
            (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s/heat/2' && cp -r '%s' '%s/heat/2'", dir,
                           kept, dir);
            assert_int_equal(system(cmd), 0);
        }
        assert_int_equal(unlink(path_of(files[a])), 0);
        survey("missing", 0);
        (void)snprintf(cmd, sizeof(cmd), "cp '%s/%s' '%s'", kept, files[a], path_of(files[a]));
        assert_int_equal(system(cmd), 0);
    }
}

static void seal(unsigned char *data, size_t n)
{
    struct crn_buf b = {.data = data, .len = n, .cap = n};

    crn_buf_set_u64(&b, n - 8, crn_hash(data, n - 8));
}

/* Changes a byte of the manifest and recomputes its checksum, as somebody could who knows the
 * format. */
static void a_forged_manifest(void **state)
{
    unsigned char good[MAX_FILE], bad[MAX_FILE];
    char when[128];
    size_t i, n;
    int k;

    (void)state;
    n = load("manifest", good);
    for (i = 8; i < n - 8; i++)
        for (k = 0; k < 3; k++) {
            memcpy(bad, good, n);
            bad[i] = k == 0 ? (unsigned char)(bad[i] ^ 1) : k == 1 ? 0xff : 0;
            seal(bad, n);
            save("manifest", bad, n);
            (void)snprintf(when, sizeof(when), "manifest forged at %zu", i);
            survey(when, 1);
        }
    save("manifest", good, n);
}

/* The same for an index, with matching trailer and manifest. */
static void a_forged_index(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char good[MAX_FILE], bad[MAX_FILE], manifest[MAX_FILE];
    size_t i, n, nmanifest;
    struct crn_manifest m;
    char when[128];
    int k;

    (void)state;
    n = load("data-0000", good);
    nmanifest = load("manifest", manifest);
    assert_ok(crn_store_manifest(&st, "heat", 2, &m, ei));
    for (i = 8; i < m.files[0].trailer.index_bytes - 8; i++)
        for (k = 0; k < 3; k++) {
            struct crn_trailer t = m.files[0].trailer;
            unsigned char *index = bad + t.index_offset;
            struct crn_buf buf = {0};

            memcpy(bad, good, n);
            index[i] = k == 0 ? (unsigned char)(index[i] ^ 1) : k == 1 ? 0xff : 0;
            seal(index, t.index_bytes);
            t.index_hash = crn_hash(index, t.index_bytes);
            assert_ok(crn_trailer_encode(&t, &buf, ei));
            memcpy(bad + n - CRN_TRAILER_SIZE, buf.data, CRN_TRAILER_SIZE);
            crn_buf_free(&buf);
            save("data-0000", bad, n);
            m.files[0].trailer = t;
            assert_ok(crn_manifest_encode(&m, &buf, ei));
            save("manifest", buf.data, buf.len);
            crn_buf_free(&buf);
            (void)snprintf(when, sizeof(when), "index forged at %zu", i);
            survey(when, 1);
        }
    crn_manifest_free(&m);
    save("manifest", manifest, nmanifest);
    save("data-0000", good, n);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_flipped),
        TEST(every_truncation),
        TEST(every_byte_of_a_mark_flipped),
        TEST(missing_swapped_and_foreign_files),
        TEST(a_forged_manifest),
        TEST(a_forged_index),
    };

    int failed = cmocka_run_group_tests(tests, group_setup, group_teardown);

    pipe_text = "delta,magnitude"; /* the same damage to encoded files */
    return failed + cmocka_run_group_tests(tests, NULL, group_teardown);
}
