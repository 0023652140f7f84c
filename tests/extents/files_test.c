/* SPDX-License-Identifier: BSD-3-Clause */
/* Real HDF5 and netCDF files, made by their libraries. Every extent must hold exactly the
 * elements that were written, in order. No extent may cover compressed, compact, virtual or
 * external data. Then the same files, truncated at many lengths and with changed bytes: every
 * extent lies inside the file.
 *
 * usage: files_test HDF5-PROGRAM */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/test.h"
#include "encode/extents.h"
#include "make.h"

static const char *program;
static char dir[1024];

static char *path_of(const char *name)
{
    static char path[1200];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* Reading. ------------------------------------------------------------------------------------------ */

static void read_extents(const char *name, struct crn_file_extents *ret)
{
    int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    crn_extents_read(crn_fs_posix(), fd, program, ret);
    (void)close(fd);
}

static unsigned char *load(const char *name, size_t *ret_n)
{
    void *data;

    assert_int_equal(
        crn_fs_read_file(crn_fs_posix(), AT_FDCWD, path_of(name), 1 << 24, &data, ret_n, NULL),
        CAIRN_OK);
    return data;
}

/* The i-th number of an extent, converted to the type in the file. */
static double value(const struct crn_file_extent *e, const unsigned char *p, uint64_t i, int is_int)
{
    size_t width = cairn_type_size(e->type);
    unsigned char b[8] = {0};
    double d;
    float f;
    int32_t n;
    size_t k;

    for (k = 0; k < width; k++)
        b[e->is_big_endian ? width - 1 - k : k] = p[i * width + k];
    memcpy(&d, b, 8);
    memcpy(&f, b, 4);
    memcpy(&n, b, 4);
    return width == 8 ? d : is_int ? n : (double)f;
}

static double expected(uint64_t i, int is_int)
{
    return is_int ? (double)(int)element(i) : element(i);
}

/* A whole array, or record r of one. */
static void check_array(const char *file, const unsigned char *data,
                        const struct crn_file_extent *e, uint64_t record)
{
    int is_int = strcmp(e->key, "fields/deep/int") == 0 || strcmp(e->key, "w") == 0;
    uint64_t n = e->bytes / cairn_type_size(e->type);
    uint64_t i;

    assert_int_equal(n, ROWS * COLS);
    assert_int_equal(e->dims[e->ndims - 1], COLS);
    assert_int_equal(e->dims[e->ndims - 2], ROWS);
    for (i = 0; i < n; i++)
        if (value(e, data + e->offset, i, is_int) != expected(record * ROWS * COLS + i, is_int))
            fail_msg("%s: '%s' at %lu", file, e->key, (unsigned long)i);
}

/* Chunks of 16 x 32; those at the edges are padded. */
static void check_chunk(const unsigned char *data, const struct crn_file_extent *e,
                        unsigned char *seen)
{
    uint64_t first = (uint64_t)((value(e, data + e->offset, 0, 0) + 100) / 1.5);
    uint64_t r, c;

    assert_int_equal(e->dims[0], 16);
    assert_int_equal(e->dims[1], 32);
    for (r = 0; r < 16 && first / COLS + r < ROWS; r++)
        for (c = 0; c < 32 && first % COLS + c < COLS; c++) {
            uint64_t at = first + r * COLS + c;

            assert_true(value(e, data + e->offset, r * 32 + c, 0) == element(at));
            assert_false(seen[at]++);
        }
}

static size_t count(const struct crn_file_extents *x, const char *key)
{
    size_t n = 0;
    size_t i;

    for (i = 0; i < x->n; i++)
        n += strcmp(x->v[i].key, key) == 0;
    return n;
}

static void check_hdf5(const char *name, int has_chunks)
{
    static const char *const whole[] = {"plain", "fields/float", "fields/deep/int", "big"};
    unsigned char seen[ROWS * COLS] = {0};
    struct crn_file_extents x;
    size_t n, i;
    unsigned char *data = load(name, &n);

    read_extents(name, &x);
    for (i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (count(&x, whole[i]) != 1)
            fail_msg("%s: '%s' was not found", name, whole[i]);
    assert_int_equal(count(&x, "chunked"), has_chunks ? 4 * 3 : 0);
    assert_int_equal(count(&x, "complex"), 1);
    assert_int_equal(x.n, 4 + (has_chunks ? 12 : 0) + 1); /* and no other extents */
    for (i = 0; i < x.n; i++) {
        const struct crn_file_extent *e = &x.v[i];

        if (strcmp(e->key, "chunked") == 0)
            check_chunk(data, e, seen);
        else if (strcmp(e->key, "complex") == 0)
            assert_true(e->type == CAIRN_C128 && e->bytes == 8000);
        else
            check_array(name, data, e, 0);
    }
    assert_true(!has_chunks || memchr(seen, 0, sizeof(seen)) == NULL);
    crn_extents_free(&x);
    free(data);
}

static void hdf5_files(void **state)
{
    (void)state;
    check_hdf5("old.h5", 1);
    check_hdf5("new.h5", 1);
    check_hdf5("user.h5", 0);
}

static void netcdf_classic_files(void **state)
{
    static const char *const names[] = {"1.nc", "2.nc", "5.nc"};
    size_t k, i, n;

    (void)state;
    for (k = 0; k < 3; k++) {
        unsigned char *data = load(names[k], &n);
        struct crn_file_extents x;
        uint64_t u = 0, w = 0;

        read_extents(names[k], &x);
        assert_int_equal(x.n, 2 + 5 + 5);
        for (i = 0; i < x.n; i++)
            check_array(names[k], data, &x.v[i],
                        x.v[i].key[0] == 'u'   ? u++
                        : x.v[i].key[0] == 'w' ? w++
                                               : 0);
        crn_extents_free(&x);
        free(data);
    }
}

static void netcdf4_file(void **state)
{
    struct crn_file_extents x;

    (void)state;
    read_extents("4.nc", &x);
    assert_int_equal(count(&x, "plain"), 1);
    assert_int_equal(count(&x, "float"), 1);
    assert_true(count(&x, "u") > 0);
    crn_extents_free(&x);
}

/* Hostile. ------------------------------------------------------------------------------------------ */

static void check_inside(const struct crn_file_extents *x, uint64_t bytes)
{
    uint64_t end = 0;
    size_t i;

    for (i = 0; i < x->n; i++) {
        assert_true(x->v[i].offset >= end && x->v[i].bytes <= bytes &&
                    x->v[i].offset <= bytes - x->v[i].bytes);
        end = x->v[i].offset + x->v[i].bytes;
    }
}

static void try_bytes(const unsigned char *data, size_t n)
{
    struct crn_file_extents x;
    int fd = open(path_of("hostile"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    crn_extents_read(crn_fs_posix(), fd, program, &x);
    check_inside(&x, n);
    crn_extents_free(&x);
    (void)close(fd);
}

static const char *const all[] = {"old.h5", "new.h5", "user.h5", "1.nc", "2.nc", "5.nc", "4.nc"};

static void cut_files(void **state)
{
    size_t k, n, i;

    (void)state;
    for (k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        unsigned char *data = load(all[k], &n);

        for (i = 0; i < 24; i++)
            try_bytes(data, i < 12 ? i * 97 : n - (n * (24 - i)) / 12 + 1);
        free(data);
    }
}

static void changed_files(void **state)
{
    struct crn_rng rng;
    size_t k, n, i;

    (void)state;
    crn_rng_seed(&rng, 11);
    for (k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        unsigned char *data = load(all[k], &n);

        for (i = 0; i < 40; i++) { /* heads of files are metadata */
            size_t at = (size_t)crn_rng_below(&rng, i % 2 == 0 && n > 4096 ? 4096 : n);
            unsigned char old = data[at];

            data[at] = (unsigned char)crn_rng_u64(&rng);
            try_bytes(data, n);
            if (i % 4 != 0) /* some stay: damage adds up */
                data[at] = old;
        }
        free(data);
    }
}

static void other_files(void **state)
{
    struct crn_file_extents x;
    unsigned char noise[3000];
    int fd;

    (void)state;
    crn_random_bytes(noise, sizeof(noise));
    try_bytes(noise, 0);
    try_bytes(noise, sizeof(noise));
    fd = open(path_of("old.h5"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    crn_extents_read(crn_fs_posix(), fd, NULL, &x); /* without HDF5 */
    assert_int_equal(x.n, 0);
    crn_extents_read(crn_fs_posix(), fd, "/nowhere/program", &x);
    assert_int_equal(x.n, 0);
    crn_extents_read(crn_fs_posix(), fd, "/bin/true", &x); /* a program that prints nothing */
    assert_int_equal(x.n, 0);
    crn_extents_read(crn_fs_posix(), fd, "/bin/cat", &x); /* a program that prints nonsense */
    assert_int_equal(x.n, 0);
    (void)close(fd);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hdf5_files),    cmocka_unit_test(netcdf_classic_files),
        cmocka_unit_test(netcdf4_file),  cmocka_unit_test(cut_files),
        cmocka_unit_test(changed_files), cmocka_unit_test(other_files),
    };
    struct crn_errinfo ei = {0};
    int failed;

    if (argc != 2)
        return 2;
    program = argv[1];
    (void)snprintf(dir, sizeof(dir), "%s/cairn-extents-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(dir) == NULL)
        return 2;
    make_files(dir);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (crn_fs_remove_tree(crn_fs_posix(), AT_FDCWD, dir, &ei) != CAIRN_OK) {
        (void)fprintf(stderr, "%s\n", ei.msg);
        return 2;
    }
    return failed;
}
