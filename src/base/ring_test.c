/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring brings all bytes, tells each end once, passes on what fails and takes the other descriptor where
 * one refuses. Skipped where the build or the kernel has no io_uring. */
#include <errno.h>
#include <fcntl.h>

#include "base/fs_faulty.h"
#include "base/ring.h"
#include "base/test.h"

enum { STEP = 10000, N = 40 };

static void ended(void *ctx, void *arg)
{
    ((int *)ctx)[*(int *)arg]++;
}

struct fixture {
    char dir[256];
    int fd;
    struct crn_ring *ring;
    int ends[N];
    int no[N];
    unsigned char data[N * STEP];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    char path[300];
    int i;

    test_dir_make(f->dir, sizeof(f->dir));
    (void)snprintf(path, sizeof(path), "%s/f", f->dir);
    f->fd = open(path, O_RDWR | O_CREAT, 0600);
    for (i = 0; i < N * STEP; i++)
        f->data[i] = (unsigned char)(i * 31 + i / STEP);
    for (i = 0; i < N; i++)
        f->no[i] = i;
    (void)!crn_ring_open(4, ended, f->ends, &f->ring, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    crn_ring_close(f->ring);
    (void)close(f->fd);
    test_dir_remove(f->dir);
    free(f);
    return 0;
}

/* Starts writes until one is not accepted; how many were. */
static int send(struct fixture *f, const struct crn_fs *fs, cairn_err *ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int i;

    for (i = 0; i < N && rc == CAIRN_OK; i++) {
        struct crn_ring_write w = {.fd = f->fd,
                                   .fd_if_refused = -1,
                                   .data = f->data + (ptrdiff_t)i * STEP,
                                   .bytes = STEP,
                                   .offset = (uint64_t)i * STEP,
                                   .what = "f",
                                   .arg = &f->no[i]};

        rc = crn_ring_write(f->ring, fs, &w, ei);
        assert_true(crn_ring_pending(f->ring) <= 4);
    }
    *ret = crn_ring_settle(f->ring, rc, ei);
    assert_int_equal(crn_ring_pending(f->ring), 0);
    return i - (rc != CAIRN_OK);
}

static void each_ends_once(struct fixture *f, int sent)
{
    int i;

    for (i = 0; i < N; i++)
        assert_int_equal(f->ends[i], i < sent);
    memset(f->ends, 0, sizeof(f->ends));
}

static void compare(const struct fixture *f)
{
    unsigned char *back = malloc(N * STEP);

    assert_int_equal(pread(f->fd, back, N * STEP, 0), N * STEP);
    assert_memory_equal(back, f->data, N * STEP);
    free(back);
    assert_int_equal(ftruncate(f->fd, 0), 0);
}

static void all_bytes_arrive(void **state)
{
    struct fixture *f = *state;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_faulty faulty;
    cairn_err rc;

    if (f->ring == NULL)
        skip();
    assert_int_equal(send(f, crn_fs_posix(), &rc, ei), N);
    assert_ok(rc);
    each_ends_once(f, N);
    compare(f);
    crn_fs_faulty_init(&faulty, crn_fs_posix());
    faulty.at = 1;
    faulty.sticky = 1;
    faulty.action = CRN_FAULT_SHORT; /* all of them */
    assert_int_equal(send(f, &faulty.fs, &rc, ei), N);
    assert_ok(rc);
    each_ends_once(f, N);
    compare(f);
}

static void an_error_is_told_and_nothing_stays_behind(void **state)
{
    struct fixture *f = *state;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_faulty faulty;
    cairn_err rc;
    long k;

    if (f->ring == NULL)
        skip();
    for (k = 1; k <= N; k++) {
        crn_fs_faulty_init(&faulty, crn_fs_posix());
        faulty.at = k;
        faulty.sys_errno = ENOSPC;
        crn_err_clear(ei);
        assert_int_equal(send(f, &faulty.fs, &rc, ei), k - 1);
        assert_int_equal(rc, CAIRN_ENOSPC);
        assert_non_null(strstr(ei->msg, "'f'"));
        each_ends_once(f, (int)k - 1);
    }
    (void)close(f->fd); /* the kernel says no */
    f->fd = open("/dev/full", O_WRONLY);
    crn_err_clear(ei);
    (void)send(f, crn_fs_posix(), &rc, ei);
    assert_int_equal(rc, CAIRN_ENOSPC);
}

static void a_refused_descriptor_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_ring_write w = {.fd_if_refused = f->fd,
                               .data = f->data + 1, /* no alignment for O_DIRECT */
                               .bytes = 5000,
                               .what = "f",
                               .arg = &f->no[0]};
    unsigned char back[5000];
    char path[300];

    if (f->ring == NULL)
        skip();
    (void)snprintf(path, sizeof(path), "%s/f", f->dir);
    w.fd = open(path, O_WRONLY | O_DIRECT);
    if (w.fd < 0)
        skip();
    assert_ok(crn_ring_write(f->ring, crn_fs_posix(), &w, ei));
    assert_ok(crn_ring_settle(f->ring, CAIRN_OK, ei));
    each_ends_once(f, 1);
    assert_int_equal(pread(f->fd, back, 5000, 0), 5000);
    assert_memory_equal(back, f->data + 1, 5000);
    (void)close(w.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_bytes_arrive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_error_is_told_and_nothing_stays_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_refused_descriptor_is_replaced, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
