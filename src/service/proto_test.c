/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include "base/rng.h"
#include "base/test.h"
#include "service/proto.h"

static void hellos_round_trip_and_survive_damage(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    uint32_t peers[3] = {5, 6, 7};
    char config[] = "persistent = /p\n";
    struct crn_hello h = {.rank = 4,
                          .ranks = 9,
                          .node = 1,
                          .nodes = 3,
                          .local = 1,
                          .nlocal = 3,
                          .config = config,
                          .peers = peers};
    struct crn_hello back;
    struct crn_buf buf = {0};
    size_t i;

    (void)state;
    assert_ok(crn_hello_encode(&h, &buf, ei));
    assert_ok(crn_hello_decode(buf.data, buf.len, &back, ei));
    assert_string_equal(back.config, config);
    assert_int_equal(back.peers[2], 7);
    crn_hello_free(&back);
    for (i = 0; i < buf.len; i++) {
        crn_err_clear(ei);
        assert_int_not_equal(crn_hello_decode(buf.data, i, &back, ei), CAIRN_OK);
        buf.data[i] ^= 0xff;
        crn_err_clear(ei);
        if (crn_hello_decode(buf.data, buf.len, &back, ei) == CAIRN_OK)
            crn_hello_free(&back);
        buf.data[i] ^= 0xff;
    }
    crn_buf_free(&buf);
}

static void sockets_pass_packets_and_descriptors(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    char dir[256], path[300], got[64], *big;
    int listen_fd, a, b, pass[2], fd;
    size_t len;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/s", dir);
    assert_ok(crn_sock_listen(path, &listen_fd, ei));
    assert_ok(crn_sock_connect(path, &a, ei));
    assert_ok(crn_sock_accept(listen_fd, &b, ei));
    assert_ok(crn_sock_recv(b, got, sizeof(got), &len, &fd, ei));
    assert_int_equal(len, 0); /* no packet yet: it does not block */
    assert_int_equal(pipe(pass), 0);
    assert_ok(crn_sock_send(a, "hello", 5, pass[1], ei));
    assert_ok(crn_sock_recv(b, got, sizeof(got), &len, &fd, ei));
    assert_int_equal(len, 5);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(pass[0], got, 1), 1);
    big = calloc(1, 100000);
    assert_ok(crn_sock_send(a, big, 100000, -1, ei));
    free(big);
    (void)close(a);
    assert_ok(crn_sock_recv(b, got, sizeof(got), &len, NULL, ei)); /* truncated to the buffer */
    assert_int_equal(crn_sock_recv(b, got, sizeof(got), &len, NULL, ei), CAIRN_ESERVICE);
    (void)close(fd);
    (void)close(pass[0]);
    (void)close(pass[1]);
    (void)close(b);
    (void)close(listen_fd);
    assert_int_equal(crn_sock_connect(path, &a, ei), CAIRN_ESERVICE);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hellos_round_trip_and_survive_damage),
        cmocka_unit_test(sockets_pass_packets_and_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
