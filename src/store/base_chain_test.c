/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions encoded against older ones: every byte can be read back through the chain, and every
 * kind of damage to a base is reported with version and file. */
#include <sys/stat.h>

#include "store/test_chain.h"

/* How many chunks of a file are encoded against the older version. */
static unsigned needy_chunks(struct store_env *e, int64_t version, const char *file)
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
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest m;
    int i, before;

    for (i = 0; i < 5; i++)
        take(e, i, i, i - 1);
    before = test_open_files();
    for (i = 0; i < 5; i++)
        expect_whole(e, i);
    assert_int_equal(test_open_files(), before);
    assert_ok(crn_store_manifest(&e->st, "heat", 4, &m, ei));
    assert_int_equal(m.files[1].nbases, 4);
    assert_int_equal(m.files[1].bases[3].version, 0);
    assert_string_equal(m.files[1].bases[3].file, "data-0001");
    crn_manifest_free(&m);
    assert_int_equal(needy_chunks(e, 0, "data-0001"), 0);
    for (i = 1; i < 5; i++)
        assert_in_range(needy_chunks(e, i, "data-0001"), 1, 2);
}

/* A chain longer than the number of descriptors that stay open. */
static void a_long_chain(void **state)
{
    struct store_env *e = *state;
    int i, before;

    for (i = 0; i < LONG; i++)
        take(e, i, i, i - 1);
    before = test_open_files();
    expect_whole(e, LONG - 1);
    expect_whole(e, LONG - 2);
    assert_int_equal(test_open_files(), before);
}

/* The error text of reading a file of number 3. */
static const char *failure(struct store_env *e, const char *file)
{
    assert_int_equal(compare_file(e, 3, file), CAIRN_EDAMAGED);
    return e->info.msg;
}

static void swap_names(const struct store_env *e, const char *a, const char *b)
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
    struct store_env *e = *state;
    char path[400], away[400];
    int i;

    for (i = 0; i < 4; i++)
        take(e, i, 10 + i, i - 1);
    (void)snprintf(path, sizeof(path), "%s/heat/11/data-0000", e->dir);
    (void)snprintf(away, sizeof(away), "%s/heat/away", e->dir);
    assert_int_equal(rename(path, away), 0);
    assert_non_null(strstr(failure(e, "data-0000"), "against version 11"));
    assert_non_null(strstr(e->info.msg, path));
    assert_int_equal(compare_file(e, 3, "data-0001"), CAIRN_OK); /* it has a chain of its own */
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

/* The chain is correct, but the base that it names was split into other chunks: nothing is decoded
 * through it. */
static void a_base_of_another_shape_is_refused(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;

    take(e, 0, 10, -1);
    e->t[2] = e->t[0];
    e->t[2].ranks = FILES; /* one per file, instead of two */
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

/* A chunk head that needs the older version where the index says it does not: damage, not a wrong
 * byte. */
static void stages_are_those_of_the_head(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_base_chain *chain = NULL;
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
    assert_ok(crn_base_chain_load(f.fs, f.dfd, &x, f.what, &chain, ei));
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
    crn_base_chain_free(chain);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    assert_int_equal(close(f.fd), 0);
    assert_int_equal(close(f.dfd), 0);
}

/* Flips every byte of a base: the error names its version, or the byte does not matter to the file
 * that needs the base. */
static void a_damaged_base_is_named(void **state)
{
    struct store_env *e = *state;
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

/* A chain encoded as bytes, as one rank sends it to others. */
static void a_chain_travels(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_base_chain *chain, *again = NULL;
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
    assert_ok(crn_base_chain_load(e->st.fs, dfd, &x, "data-0001", &chain, ei));
    assert_ok(crn_base_chain_encode(chain, &a, ei));
    v = crn_view_of(a.data, a.len);
    assert_ok(crn_base_chain_decode(&v, &x, "test", &again, ei));
    assert_int_equal(crn_view_left(&v), 0);
    assert_ok(crn_base_chain_encode(again, &b, ei));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    crn_base_chain_free(again);
    for (len = 0; len < a.len; len += 7) {
        v = crn_view_of(a.data, len);
        assert_int_equal(crn_base_chain_decode(&v, &x, "test", &again, ei), CAIRN_EDAMAGED);
    }
    crn_buf_free(&a);
    crn_buf_free(&b);
    crn_base_chain_free(chain);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    (void)close(dfd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_comes_back),
        TEST(a_long_chain),
        TEST(a_missing_or_foreign_base_is_named),
        TEST(a_damaged_base_is_named),
        TEST(a_base_of_another_shape_is_refused),
        TEST(stages_are_those_of_the_head),
        TEST(a_chain_travels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
