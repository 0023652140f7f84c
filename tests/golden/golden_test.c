/* SPDX-License-Identifier: BSD-3-Clause */
/* The library reads the files of every released format version, byte for byte. */
#include "base/test.h"

#include <fcntl.h>

#include "test_golden.h"
#include "golden_chunks.h"
#include "encode/work.h"
#include "restart/version.h"

static void check_content(const struct crn_store *st, const struct tv *t)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char expect[256], got[256];
    struct crn_version *v;
    uint32_t rank, r;

    assert_ok(crn_version_open(st, t->name, t->version, &v, ei));
    assert_int_equal(crn_version_manifest(v)->id.seq, t->seq);
    for (rank = 0; rank < t->ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            uint64_t n = tv_content(t, rank, r, expect);

            assert_ok(crn_version_read(v, rank, r, 0, n, got, ei));
            assert_memory_equal(got, expect, n);
        }
    crn_version_close(v);
}

static void format_1_is_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv seven = golden_version(7, 1);
    struct tv eight = golden_version(8, 3);
    struct crn_catalog c;
    struct crn_store st;

    (void)state;
    assert_ok(crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1", 0, &st, ei));
    assert_ok(crn_store_catalog(&st, "golden", &c, ei));
    assert_int_equal(c.n, 2);
    assert_int_equal(c.v[0].state, CRN_VERSION_OK);
    assert_true(c.v[0].is_pinned);
    assert_string_equal(c.v[0].job, "job 7");
    assert_int_equal(c.v[1].state, CRN_VERSION_REJECTED);
    assert_string_equal(c.v[1].why, GOLDEN_REASON);
    crn_catalog_free(&c);
    check_content(&st, &seven);
    check_content(&st, &eight);
    crn_store_close(&st);
}

/* Section 4, streams. Older readers refuse them, so they have a store of their own. */
static void encoded_files_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv nine = golden_encoded();
    struct crn_pipe pipe;
    struct crn_store st;

    (void)state;
    if (crn_pipe_parse(nine.pipe, &pipe, ei) != CAIRN_OK)
        skip(); /* built without zlib */
    assert_ok(
        crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-encoded", 0, &st, ei));
    check_content(&st, &nine);
    crn_store_close(&st);
}

/* Section 4, packed indexes. */
static void packed_indexes_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv t = golden_packed();
    struct crn_pipe pipe;
    struct crn_store st;

    (void)state;
    if (crn_pipe_parse(t.pipe, &pipe, ei) != CAIRN_OK)
        skip(); /* built without zlib */
    assert_ok(crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-packed", 0, &st, ei));
    check_content(&st, &t);
    crn_store_close(&st);
}

/* Section 4, chains. Version 12 needs the first capture of 11, which was replaced since. */
static void chained_files_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct golden_chain c;
    struct crn_pipe pipe;
    struct crn_store st;

    (void)state;
    golden_chain(&c);
    if (crn_pipe_parse(c.ten.pipe, &pipe, ei) != CAIRN_OK)
        skip(); /* built without zlib */
    assert_ok(
        crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-chained", 0, &st, ei));
    check_content(&st, &c.ten);
    check_content(&st, &c.again);
    check_content(&st, &c.twelve);
    crn_store_close(&st);
}

/* Section 3, types from 13 on. Readers of the first minor versions refuse them. */
static void new_types_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv thirteen = golden_types();
    struct crn_store st;

    (void)state;
    assert_ok(crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-types", 0, &st, ei));
    check_content(&st, &thirteen);
    crn_store_close(&st);
}

static void check_generation(const struct crn_store *st, const struct tv *t)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const struct crn_index *x;
    struct crn_version *v;
    uint32_t i;

    check_content(st, t);
    assert_ok(crn_version_open(st, t->name, t->version, &v, ei));
    assert_true(crn_version_manifest(v)->id.generation == GOLDEN_GENERATION);
    for (i = 0; i < t->files; i++) {
        assert_ok(crn_version_index(v, i, &x, ei));
        assert_true(x->id.generation == GOLDEN_GENERATION);
    }
    crn_version_close(v);
}

/* Minor version 1 of index and manifest, and the file that counts the runs. */
static void generations_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct golden_run r;
    struct crn_pipe pipe;
    struct crn_store st;
    uint64_t highest;

    (void)state;
    golden_run(&r);
    assert_ok(
        crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-generation", 0, &st, ei));
    check_generation(&st, &r.fifteen);
    assert_ok(crn_store_generation(&st, "golden", &highest, ei));
    assert_true(highest == GOLDEN_GENERATION + 1);
    if (crn_pipe_parse(r.sixteen.pipe, &pipe, ei) == CAIRN_OK) { /* built with zlib */
        check_generation(&st, &r.sixteen);
        check_generation(&st, &r.seventeen);
    }
    crn_store_close(&st);
}

/* Every stage of docs/encoding.md decodes as it did when it was new. */
static void stages_are_read(void **state)
{
    unsigned char now[GOLDEN_CHUNK], older[GOLDEN_CHUNK], got[GOLDEN_CHUNK], chunk[GOLDEN_CHUNK];
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_encode_work *work;
    char path[900], name[32];
    size_t k, read = 0;

    (void)state;
    assert_ok(crn_work_new(&work, ei));
    for (k = 0; k < GOLDEN_CHUNKS; k++) {
        struct crn_pipe pipe;
        ssize_t n;
        int fd;

        golden_chunk(k, name, now, older);
        (void)snprintf(path, sizeof(path), "%s/tests/golden/v1-chunks/%s", CRN_SOURCE_DIR, name);
        fd = open(path, O_RDONLY);
        n = pread(fd, chunk, sizeof(chunk), 0);
        (void)close(fd);
        assert_in_range(n, 1, GOLDEN_CHUNK - 1);
        if (crn_pipe_parse(golden_chunks[k].pipe, &pipe, ei) != CAIRN_OK)
            continue; /* built without its library */
        assert_ok(crn_chunk_decode(work, chunk, (size_t)n, older, got, sizeof(got), ei));
        if (memcmp(got, now, sizeof(now)) != 0)
            fail_msg("%s", golden_chunks[k].pipe);
        read++;
    }
    assert_true(read >= 10);
    crn_work_free(work);
}

/* Today's encoder writes the same bytes as then. */
static void check_written(const char *golden, const char *written)
{
    char cmd[900];

    (void)snprintf(cmd, sizeof(cmd), "diff -r '%s/tests/golden/%s' '%s'", CRN_SOURCE_DIR, golden,
                   written);
    assert_int_equal(system(cmd), 0);
}

static void format_1_is_written(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv seven = golden_version(7, 1);
    struct golden_run r;
    struct crn_store st;
    char dir[256], path[300];
    uint64_t next;

    (void)state;
    golden_run(&r);
    test_dir_make(dir, sizeof(dir));
    assert_ok(crn_store_open(crn_fs_posix(), dir, 0, &st, ei));
    assert_ok(tv_write(&st, &seven, ei));
    assert_ok(crn_store_pin(&st, "golden", 7, 1, ei));
    assert_ok(tv_write(&st, &r.fifteen, ei));
    assert_ok(crn_store_raise_generation(&st, "golden", &next, ei));
    crn_store_close(&st);
    (void)snprintf(path, sizeof(path), "%s/golden/7", dir);
    check_written("v1/golden/7", path);
    (void)snprintf(path, sizeof(path), "%s/golden/15", dir);
    check_written("v1-generation/golden/15", path);
    (void)snprintf(path, sizeof(path), "%s/golden/.generation", dir);
    check_written("v1-generation/golden/.generation", path);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_1_is_read),        cmocka_unit_test(encoded_files_are_read),
        cmocka_unit_test(chained_files_are_read),  cmocka_unit_test(new_types_are_read),
        cmocka_unit_test(packed_indexes_are_read), cmocka_unit_test(generations_are_read),
        cmocka_unit_test(format_1_is_written),     cmocka_unit_test(stages_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
