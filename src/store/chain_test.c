/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions that were encoded against older ones: every byte comes back through the chain, every kind of
 * damage to a base is told with its version and file, and what looks after files looks after bases. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test.h"
#include "store/data.h"
#include "store/test_version.h"

enum { RANKS = 4, FILES = 2, LONG = 40 };

struct env {
    char dir[256];
    struct crn_store st;
    struct crn_errinfo info;
    struct tv t[LONG]; /* what was taken */
};

static int setup(void **state)
{
    struct env *e = calloc(1, sizeof(*e));

    test_dir_make(e->dir, sizeof(e->dir));
    assert_int_equal(crn_store_open(crn_fs_posix(), e->dir, 1, &e->st, &e->info), CAIRN_OK);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    struct env *e = *state;

    crn_store_close(&e->st);
    test_dir_remove(e->dir);
    free(e);
    return 0;
}

/* Takes number i as a version; older: number of what it is encoded against, -1: full. */
static void take(struct env *e, int i, int64_t version, int older)
{
    struct crn_errinfo *ei = &e->info;

    e->t[i] = (struct tv){.name = "heat",
                          .version = version,
                          .seq = (uint64_t)i + 1,
                          .seed = (uint32_t)(3 * i + 1),
                          .ranks = RANKS,
                          .files = FILES,
                          .pipe = older >= 0 ? "delta:1,zstd" : "delta,zstd",
                          .older = older >= 0 ? &e->t[older] : NULL};
    crn_err_clear(ei);
    assert_ok(tv_write(&e->st, &e->t[i], ei));
}

/* Compares all that a data file of number i holds with what was taken. */
static cairn_err compare_file(struct env *e, int i, const char *file)
{
    struct crn_data_file f = {.fs = e->st.fs, .what = file};
    struct crn_errinfo *ei = &e->info;
    struct crn_decoder *decoder = NULL;
    struct crn_manifest_file mf = {0};
    struct crn_chain *chain = NULL;
    unsigned char want[256], got[TV_CHUNK];
    struct crn_index x = {0};
    char what[400];
    uint64_t k, n;
    cairn_err rc;

    crn_err_clear(ei);
    (void)snprintf(what, sizeof(what), "%s/heat/%lld/%s", e->dir, (long long)e->t[i].version, file);
    f.what = what;
    assert_ok(crn_store_version_dir(&e->st, "heat", e->t[i].version, &f.dfd, ei));
    f.fd = open(what, O_RDONLY);
    rc = crn_store_describe_data(&e->st, "heat", e->t[i].version, file, &mf, &x, ei);
    if (rc == CAIRN_OK)
        rc = crn_chain_load(f.fs, f.dfd, &x, what, &chain, ei);
    f.index = &x;
    f.chain = chain;
    for (n = 0; rc == CAIRN_OK && n < x.nextents; n++)
        for (k = 0; rc == CAIRN_OK && k * TV_CHUNK < x.extents[n].bytes; k++) {
            const struct crn_extent *ext = &x.extents[n];

            rc = crn_data_chunk(&f, ext, k, &decoder, got, ei);
            (void)tv_content(&e->t[i], x.shards[ext->shard].rank, ext->region, want);
            if (rc == CAIRN_OK)
                assert_memory_equal(got, want + ext->offset + k * TV_CHUNK,
                                    crn_data_chunk_bytes(&x, ext, k));
        }
    crn_decoder_free(decoder);
    crn_chain_free(chain);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    (void)close(f.fd);
    (void)close(f.dfd);
    return rc;
}

static void expect_whole(struct env *e, int i)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest m;
    uint32_t k;

    crn_err_clear(ei);
    assert_ok(crn_store_manifest(&e->st, "heat", e->t[i].version, &m, ei));
    assert_int_equal(m.id.seq, e->t[i].seq);
    for (k = 0; k < m.nfiles; k++)
        assert_ok(compare_file(e, i, m.files[k].name));
    crn_manifest_free(&m);
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

/* How many chunks of a file of a version were encoded against the older one. */
static unsigned needy_chunks(struct env *e, int64_t version, const char *file)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    struct crn_index x;
    unsigned n = 0;
    uint32_t s, k;

    assert_ok(crn_store_describe_data(&e->st, "heat", version, file, &mf, &x, ei));
    for (s = 0; s < x.nstreams; s++)
        for (k = 0; k < x.streams[s].nchunks; k++)
            n += memcmp(x.streams[s].chunks[k].stages, "\42\1", 2) == 0; /* delta, older */
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    return n;
}

static void every_byte_comes_back(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest m;
    int i, before;

    for (i = 0; i < 5; i++)
        take(e, i, i, i - 1);
    before = open_files();
    for (i = 0; i < 5; i++)
        expect_whole(e, i);
    assert_int_equal(open_files(), before);
    assert_ok(crn_store_manifest(&e->st, "heat", 4, &m, ei));
    assert_int_equal(m.files[1].nbases, 4);
    assert_int_equal(m.files[1].bases[3].version, 0);
    assert_string_equal(m.files[1].bases[3].file, "data-0001");
    crn_manifest_free(&m);
    assert_int_equal(needy_chunks(e, 0, "data-0001"), 0);
    for (i = 1; i < 5; i++)
        assert_in_range(needy_chunks(e, i, "data-0001"), 1, 2);
}

/* Longer than the descriptors that stay open. */
static void a_long_chain(void **state)
{
    struct env *e = *state;
    int i, before;

    for (i = 0; i < LONG; i++)
        take(e, i, i, i - 1);
    before = open_files();
    expect_whole(e, LONG - 1);
    expect_whole(e, LONG - 2);
    assert_int_equal(open_files(), before);
}

/* The text of the failure to read a file of number 3. */
static const char *failure(struct env *e, const char *file)
{
    assert_int_equal(compare_file(e, 3, file), CAIRN_EDAMAGED);
    return e->info.msg;
}

static void swap_names(const struct env *e, const char *a, const char *b)
{
    char x[400], y[400], z[400];

    (void)snprintf(x, sizeof(x), "%s/heat/%s", e->dir, a);
    (void)snprintf(y, sizeof(y), "%s/heat/%s", e->dir, b);
    (void)snprintf(z, sizeof(z), "%s/heat/swap", e->dir);
    assert_int_equal(rename(x, z), 0);
    assert_int_equal(rename(y, x), 0);
    assert_int_equal(rename(z, y), 0);
}

static void a_missing_or_foreign_base_is_named(void **state)
{
    struct env *e = *state;
    char path[400], away[400];
    int i;

    for (i = 0; i < 4; i++)
        take(e, i, 10 + i, i - 1);
    (void)snprintf(path, sizeof(path), "%s/heat/11/data-0000", e->dir);
    (void)snprintf(away, sizeof(away), "%s/heat/away", e->dir);
    assert_int_equal(rename(path, away), 0);
    assert_non_null(strstr(failure(e, "data-0000"), "against version 11"));
    assert_non_null(strstr(e->info.msg, path));
    assert_int_equal(compare_file(e, 3, "data-0001"), CAIRN_OK); /* has a chain of its own */
    assert_int_equal(rename(away, path), 0);
    swap_names(e, "11/data-0000", "10/data-0000");
    assert_non_null(strstr(failure(e, "data-0000"), "against version 11"));
    swap_names(e, "11/data-0000", "10/data-0000");
    assert_int_equal(truncate(path, 100), 0);
    assert_non_null(strstr(failure(e, "data-0000"), "against version 11"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("data-0001", path), 0);
    assert_non_null(strstr(failure(e, "data-0000"), "not a regular file"));
}

/* The chain is right, and what it names was cut otherwise: nothing is decoded through it. */
static void a_base_of_another_shape_is_refused(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;

    take(e, 0, 10, -1);
    e->t[2] = e->t[0];
    e->t[2].ranks = FILES; /* one for each file, instead of two */
    e->t[3] = e->t[2];
    e->t[3].version = 11;
    e->t[3].seq = 2;
    e->t[3].seed = 9;
    e->t[3].pipe = "delta:1,zstd";
    e->t[3].older = &e->t[2];
    assert_ok(tv_write(&e->st, &e->t[3], ei));
    assert_non_null(strstr(failure(e, "data-0000"), "not of the same shape"));
    assert_non_null(strstr(e->info.msg, "against version 10"));
}

/* A head that needs the older version where the index says nothing of it: damage, not a wrong byte. */
static void stages_are_those_of_the_head(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_chain *chain = NULL;
    struct crn_data_file f = {.fs = e->st.fs, .what = "data-0000"};
    struct crn_manifest_file mf;
    unsigned char got[TV_CHUNK];
    struct crn_decoder *decoder = NULL;
    struct crn_index x;

    take(e, 0, 10, -1);
    take(e, 1, 11, 0);
    assert_ok(crn_store_version_dir(&e->st, "heat", 11, &f.dfd, ei));
    f.fd = openat(f.dfd, "data-0000", O_RDONLY);
    assert_ok(crn_store_describe_data(&e->st, "heat", 11, "data-0000", &mf, &x, ei));
    assert_int_equal(x.streams[0].chunks[0].stages[1], 1);
    f.index = &x;
    assert_ok(crn_chain_load(f.fs, f.dfd, &x, f.what, &chain, ei));
    f.chain = chain;
    assert_ok(crn_data_chunk(&f, &x.extents[0], 0, &decoder, got, ei));
    crn_decoder_free(decoder);
    decoder = NULL;
    f.chain = NULL; /* as if the index had none */
    assert_int_equal(crn_data_chunk(&f, &x.extents[0], 0, &decoder, got, ei), CAIRN_EDAMAGED);
    f.chain = chain;
    x.streams[0].chunks[0].stages[1] = 0;
    crn_err_clear(ei);
    assert_int_equal(crn_data_chunk(&f, &x.extents[0], 0, &decoder, got, ei), CAIRN_EDAMAGED);
    crn_decoder_free(decoder);
    crn_chain_free(chain);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    assert_int_equal(close(f.fd), 0);
    assert_int_equal(close(f.dfd), 0);
}

/* Every byte of a base flipped: told with its version, or of no use to who needs it. */
static void a_damaged_base_is_named(void **state)
{
    struct env *e = *state;
    unsigned named = 0;
    unsigned char c;
    char path[400];
    struct stat sb;
    off_t at;
    int fd, i;

    for (i = 0; i < 4; i++)
        take(e, i, 10 + i, i - 1);
    (void)snprintf(path, sizeof(path), "%s/heat/12/data-0000", e->dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &sb) == 0);
    for (at = 0; at < sb.st_size; at += at < 512 ? 1 : 13) {
        assert_int_equal(pread(fd, &c, 1, at), 1);
        c ^= 0x20;
        assert_int_equal(pwrite(fd, &c, 1, at), 1);
        if (compare_file(e, 3, "data-0000") != CAIRN_OK) {
            assert_int_equal(e->info.code, CAIRN_EDAMAGED);
            if (strstr(e->info.msg, "against version 12") == NULL ||
                strstr(e->info.msg, path) == NULL)
                fail_msg("byte %lld: %s", (long long)at, e->info.msg);
            named++;
        }
        c ^= 0x20;
        assert_int_equal(pwrite(fd, &c, 1, at), 1);
    }
    (void)close(fd);
    assert_true(named > 100);
    expect_whole(e, 3);
}

/* A chain as bytes, as one rank tells it to others. */
static void a_chain_travels(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_chain *chain, *again = NULL;
    struct crn_manifest_file mf;
    struct crn_buf a = {0}, b = {0};
    struct crn_index x;
    struct crn_view v;
    size_t len;
    int dfd, i;

    for (i = 0; i < 4; i++)
        take(e, i, 10 + i, i - 1);
    assert_ok(crn_store_version_dir(&e->st, "heat", 13, &dfd, ei));
    assert_ok(crn_store_describe_data(&e->st, "heat", 13, "data-0001", &mf, &x, ei));
    assert_ok(crn_chain_load(e->st.fs, dfd, &x, "data-0001", &chain, ei));
    assert_ok(crn_chain_encode(chain, &a, ei));
    v = crn_view_of(a.data, a.len);
    assert_ok(crn_chain_decode(&v, &x, "test", &again, ei));
    assert_int_equal(crn_view_left(&v), 0);
    assert_ok(crn_chain_encode(again, &b, ei));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    crn_chain_free(again);
    for (len = 0; len < a.len; len += 7) {
        v = crn_view_of(a.data, len);
        assert_int_equal(crn_chain_decode(&v, &x, "test", &again, ei), CAIRN_EDAMAGED);
    }
    crn_buf_free(&a);
    crn_buf_free(&b);
    crn_chain_free(chain);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    (void)close(dfd);
}

static int has(const struct env *e, const char *rel)
{
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/heat/%s", e->dir, rel);
    return access(path, F_OK) == 0;
}

/* States of all versions as text: "1:ok 2:damaged". */
static void expect_states(struct env *e, const char *states)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_catalog c;
    char text[400] = "";
    size_t i;

    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    for (i = 0; i < c.n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%lld:%s",
                       i > 0 ? " " : "", (long long)c.v[i].version,
                       crn_version_state_name(c.v[i].state));
    assert_string_equal(text, states);
    crn_catalog_free(&c);
}

static uint32_t sweep(struct env *e)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_sweep_result res;

    crn_err_clear(ei);
    assert_ok(crn_store_sweep(&e->st, "heat", -1, 0, 1, 0, crn_clock_real(), &res, ei));
    return res.files;
}

/* Version 1 is taken again while 2 is based on its first capture; 1 again is based on 2. */
static void a_version_taken_again_leaves_what_others_need(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;

    take(e, 0, 0, -1);
    take(e, 1, 1, 0);
    take(e, 2, 2, 1);
    take(e, 3, 1, 2);
    assert_true(has(e, "1/data-0000") && has(e, "1/data-0000.1"));
    expect_whole(e, 2);
    expect_whole(e, 3);
    assert_int_equal(sweep(e), 0);
    expect_whole(e, 2);
    expect_whole(e, 3);
    take(e, 4, 1, -1); /* once more: nobody needs capture 3, whose names are not used again */
    assert_true(has(e, "1/data-0000") && !has(e, "1/data-0000.1") && has(e, "1/data-0000.2"));
    expect_whole(e, 2);
    expect_whole(e, 4);
    /* The version goes; what 2 needs of its directory stays until 2 is gone. */
    assert_ok(crn_store_remove(&e->st, "heat", 1, ei));
    expect_states(e, "0:ok 1:partial 2:ok");
    assert_int_equal(sweep(e), 0);
    expect_whole(e, 2);
    take(e, 5, 1, 2);
    assert_true(has(e, "1/data-0000") && has(e, "1/data-0000.1"));
    expect_whole(e, 2);
    expect_whole(e, 5);
    assert_ok(crn_store_remove(&e->st, "heat", 1, ei));
    assert_ok(crn_store_remove(&e->st, "heat", 2, ei));
    assert_int_equal(sweep(e), FILES);
    expect_states(e, "0:ok");
    assert_false(has(e, "1"));
}

static void what_others_need_is_not_removed(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    int i;

    for (i = 0; i < 3; i++)
        take(e, i, 7 + i, i - 1);
    assert_int_equal(crn_store_remove(&e->st, "heat", 7, ei), CAIRN_EBUSY);
    assert_non_null(strstr(ei->msg, "needed by heat@"));
    crn_err_clear(ei);
    assert_int_equal(crn_store_remove(&e->st, "heat", 8, ei), CAIRN_EBUSY);
    assert_non_null(strstr(ei->msg, "heat@9"));
    expect_states(e, "7:ok 8:ok 9:ok");
    crn_err_clear(ei);
    for (i = 9; i >= 7; i--)
        assert_ok(crn_store_remove(&e->st, "heat", i, ei));
    expect_states(e, "");
}

/* Two are kept, and what they need: full ones are 0, 3 and 4. */
static void retention_keeps_what_is_needed(void **state)
{
    static const char *const after[] = {
        "0:ok",      "0:ok 1:ok", "0:ok 1:ok 2:ok", "0:ok 1:ok 2:ok 3:ok",
        "3:ok 4:ok", "4:ok 5:ok", "4:ok 5:ok 6:ok"};
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    int i;

    for (i = 0; i < 7; i++) {
        take(e, i, i, i == 0 || i == 3 || i == 4 ? -1 : i - 1);
        crn_err_clear(ei);
        assert_ok(crn_store_retain(&e->st, "heat", &(struct crn_retention){.keep_last = 2},
                                   &removed, ei));
        expect_states(e, after[i]);
        expect_whole(e, i);
    }
}

/* A manifest that is damaged needs nothing; its data files stay for who looks at it. */
static void a_damaged_manifest_needs_nothing(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    char path[400];

    take(e, 0, 0, -1);
    take(e, 1, 1, 0);
    (void)snprintf(path, sizeof(path), "%s/heat/1/manifest", e->dir);
    assert_int_equal(truncate(path, 50), 0);
    assert_ok(crn_store_remove(&e->st, "heat", 0, ei));
    assert_int_equal(sweep(e), 0);
    expect_states(e, "1:damaged");
}

static void a_version_without_its_bases_is_damaged(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_catalog c;
    char path[400];

    take(e, 0, 0, -1);
    take(e, 1, 1, 0);
    take(e, 2, 2, 1);
    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    assert_int_equal(c.v[0].chain, 0);
    assert_int_equal(c.v[0].nneeds, 0);
    assert_int_equal(c.v[2].chain, 2);
    assert_int_equal(c.v[2].against, 1);
    assert_int_equal(c.v[2].nneeds, 2);
    crn_catalog_free(&c);
    (void)snprintf(path, sizeof(path), "%s/heat/0/data-0001", e->dir);
    assert_int_equal(unlink(path), 0);
    expect_states(e, "0:damaged 1:damaged 2:damaged");
    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    assert_non_null(strstr(c.v[2].why, "data-0001 of version 0"));
    crn_catalog_free(&c);
}

/* Another process removes the base between the look at it and the commit. */
static struct crn_store *bystander;
static int (*real_rename)(const struct crn_fs *fs, int a, const char *from, int b, const char *to);

static int remove_and_rename(const struct crn_fs *fs, int a, const char *from, int b,
                             const char *to)
{
    struct crn_errinfo info = {0}, *ei = &info;

    if (bystander != NULL)
        assert_ok(crn_store_remove(bystander, "heat", 1, ei));
    bystander = NULL;
    return real_rename(fs, a, from, b, to);
}

static void a_base_that_goes_during_the_commit(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_fs fs = *e->st.fs;
    struct crn_store st = e->st;
    int round;

    take(e, 0, 0, -1);
    real_rename = fs.renameat;
    fs.renameat = remove_and_rename;
    st.fs = &fs;
    for (round = 0; round < 2; round++) { /* a new version 2, then one that was there */
        take(e, 1, 1, -1);
        e->t[2] = e->t[1];
        e->t[2].version = 2;
        e->t[2].seq = 9;
        e->t[2].pipe = "delta:1,zstd";
        e->t[2].older = &e->t[1];
        bystander = &e->st;
        assert_int_equal(tv_write(&st, &e->t[2], ei), CAIRN_ESTATE);
        assert_non_null(strstr(ei->msg, "removed meanwhile"));
        crn_err_clear(ei);
        expect_states(e, round == 0 ? "0:ok" : "0:ok 2:ok");
        take(e, 3, 2, -1);
        expect_whole(e, 3);
    }
    assert_int_equal(sweep(e), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_comes_back),
        TEST(a_long_chain),
        TEST(a_missing_or_foreign_base_is_named),
        TEST(a_damaged_base_is_named),
        TEST(a_base_of_another_shape_is_refused),
        TEST(stages_are_those_of_the_head),
        TEST(a_version_taken_again_leaves_what_others_need),
        TEST(what_others_need_is_not_removed),
        TEST(retention_keeps_what_is_needed),
        TEST(a_damaged_manifest_needs_nothing),
        TEST(a_version_without_its_bases_is_damaged),
        TEST(a_base_that_goes_during_the_commit),
        TEST(a_chain_travels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
