/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as safetensors, NumPy and PyTorch write them (tests/fuzz/seeds/tensors): every array is found
 * where it lies, with its type and shape; every truncation gives what lies inside the file. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/test.h"
#include "encode/extents.h"

struct expected {
    const char *key;
    const char *mark; /* the first bytes of the array */
    cairn_type type;
    int is_big_endian;
    uint64_t bytes, first_dim;
};

static int file_of(const char *name)
{
    char path[400];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/tests/fuzz/seeds/tensors/%s", CRN_SOURCE_DIR, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void check_file(const char *name, const struct expected *want, size_t n)
{
    struct crn_file_extents x;
    int fd = file_of(name);
    char mark[5] = "";
    size_t i;

    crn_extents_read(crn_fs_posix(), fd, NULL, &x);
    assert_int_equal(x.n, n);
    for (i = 0; i < n; i++) {
        assert_string_equal(x.v[i].key, want[i].key);
        assert_int_equal(x.v[i].type, want[i].type);
        assert_int_equal(x.v[i].is_big_endian, want[i].is_big_endian);
        assert_int_equal(x.v[i].bytes, want[i].bytes);
        assert_int_equal(x.v[i].dims[0], want[i].first_dim);
        assert_int_equal(pread(fd, mark, 4, (off_t)x.v[i].offset), 4);
        assert_string_equal(mark, want[i].mark);
    }
    crn_extents_free(&x);
    (void)close(fd);
}

static void arrays_are_found(void **state)
{
    static const struct expected safetensors[] = {{"w", "w000", CAIRN_F32, 0, 800, 10},
                                                  {"b", "b000", CAIRN_BF16, 0, 600, 300}};
    static const struct expected npy[] = {{"array", "n000", CAIRN_F64, 0, 1600, 5}}; /* Fortran's */
    static const struct expected npz[] = {{"x", "x000", CAIRN_I32, 0, 400, 100},
                                          {"y", "y000", CAIRN_U32, 1, 400, 10}};
    static const struct expected torch[] = {{"storage", "t000", CAIRN_F32, 0, 600, 150},
                                            {"storage", "t001", CAIRN_BF16, 0, 600, 300},
                                            {"storage", "t002", CAIRN_F32, 0, 600, 150}};

    (void)state;
    check_file("a.safetensors", safetensors, 2);
    check_file("a.npy", npy, 1);
    check_file("a.npz", npz, 2);
    check_file("a.pt", torch, 3);
    check_file("packed.npz", NULL, 0);
}

static void truncated_files_stay_inside(void **state)
{
    static const char *const names[] = {"a.safetensors", "a.npy", "a.npz", "a.pt"};
    char dir[256], path[300];
    size_t i, k;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/cut", dir);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsigned char bytes[8192];
        int from = file_of(names[i]);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ssize_t n = pread(from, bytes, sizeof(bytes), 0);

        assert_true(fd >= 0 && n > 0 && pwrite(fd, bytes, (size_t)n, 0) == n);
        for (; n >= 0; n -= 3) {
            struct crn_file_extents x;

            assert_int_equal(ftruncate(fd, n), 0);
            crn_extents_read(crn_fs_posix(), fd, NULL, &x);
            for (k = 0; k < x.n; k++)
                assert_true(x.v[k].offset + x.v[k].bytes <= (uint64_t)n);
            crn_extents_free(&x);
        }
        (void)close(fd);
        (void)close(from);
    }
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_found),
        cmocka_unit_test(truncated_files_stay_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
