/* SPDX-License-Identifier: BSD-3-Clause */
/* Logins by key and by peer, both sides, and every login that must be refused. MUNGE needs a
 * daemon: see tests/broker. */
#include "base/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "broker/address.h"
#include "broker/auth.h"
#include "broker/link.h"

static char dir[512];
static char path[600];

static int make_dir(void **state)
{
    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/keys", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

static void write_file(const char *name, const char *text, mode_t mode, struct crn_auth_config *cfg)
{
    FILE *out;

    (void)snprintf(cfg->key_file, sizeof(cfg->key_file), "%s/%s", dir, name);
    out = fopen(cfg->key_file, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(cfg->key_file, mode), 0);
}

static void begin(struct crn_auth_talk *talk, const struct crn_auth_config *cfg)
{
    struct crn_errinfo info = {0}, *ei = &info;

    memset(talk, 0, sizeof(*talk));
    talk->hello.major = CRN_BP_MAJOR;
    talk->hello.method = CRN_AUTH_KEY;
    crn_random_bytes(talk->hello.nonce, CRN_BP_NONCE);
    crn_random_bytes(talk->challenge.nonce, CRN_BP_NONCE);
    assert_ok(crn_auth_key.introduce(cfg, talk->hello.user, ei));
}

static void make_pair(struct crn_auth_config *job, struct crn_auth_config *broker)
{
    char alice[200], bob[200], all[600];

    crn_auth_new_key("alice", alice, sizeof(alice));
    crn_auth_new_key("bob", bob, sizeof(bob));
    (void)snprintf(all, sizeof(all), "# keys of the site\n\n%s\n%s\n", bob, alice);
    write_file("job", alice, 0600, job);
    write_file("broker", all, 0600, broker);
}

static void both_sides_prove_their_key(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_auth_config job = {0}, broker = {0};
    struct crn_bp_proof proof, back;
    struct crn_auth_talk talk, other;
    char user[CRN_BP_NAME];

    (void)state;
    make_pair(&job, &broker);
    begin(&talk, &job);
    assert_string_equal(talk.hello.user, "alice");
    if (crn_auth_key.prove(&job, &talk, &proof, ei) == CAIRN_ENOTSUP)
        skip();
    assert_ok(crn_auth_key.verify(&broker, &talk, &proof, user, &back, ei));
    assert_string_equal(user, "alice");
    assert_ok(crn_auth_key.confirm(&job, &talk, &back, ei));

    /* A proof is worthless in another login, for another user, and for the other side. */
    begin(&other, &job);
    assert_int_equal(crn_auth_key.verify(&broker, &other, &proof, user, &back, NULL), CAIRN_EPERM);
    other = talk;
    (void)snprintf(other.hello.user, sizeof(other.hello.user), "bob");
    assert_int_equal(crn_auth_key.verify(&broker, &other, &proof, user, &back, NULL), CAIRN_EPERM);
    (void)snprintf(other.hello.user, sizeof(other.hello.user), "nobody");
    assert_int_equal(crn_auth_key.verify(&broker, &other, &proof, user, &back, NULL), CAIRN_EPERM);
    assert_int_equal(crn_auth_key.confirm(&job, &talk, &proof, NULL), CAIRN_EPERM);
    proof.data[3] ^= 1;
    assert_int_equal(crn_auth_key.verify(&broker, &talk, &proof, user, &back, NULL), CAIRN_EPERM);
    proof.data[3] ^= 1;
    proof.len = 31;
    assert_int_equal(crn_auth_key.verify(&broker, &talk, &proof, user, &back, NULL), CAIRN_EPERM);
}

static void a_wrong_key_does_not_get_in(void **state)
{
    struct crn_auth_config job = {0}, broker = {0};
    struct crn_bp_proof proof, back;
    struct crn_auth_talk talk;
    char user[CRN_BP_NAME], line[200];

    (void)state;
    make_pair(&job, &broker);
    crn_auth_new_key("alice", line, sizeof(line));
    write_file("job", line, 0600, &job);
    begin(&talk, &job);
    if (crn_auth_key.prove(&job, &talk, &proof, NULL) == CAIRN_ENOTSUP)
        skip();
    assert_int_equal(crn_auth_key.verify(&broker, &talk, &proof, user, &back, NULL), CAIRN_EPERM);
}

static void key_files_are_private_and_whole(void **state)
{
    struct crn_auth_config cfg = {0};
    struct crn_errinfo info = {0};
    char user[CRN_BP_NAME];

    (void)state;
    assert_int_equal(crn_auth_key.introduce(&cfg, user, NULL), CAIRN_ECONFIG);
    write_file("k", "alice 00", 0600, &cfg);
    assert_int_equal(crn_auth_key.introduce(&cfg, user, NULL), CAIRN_ECONFIG);
    write_file("k", "", 0600, &cfg);
    assert_int_equal(crn_auth_key.introduce(&cfg, user, NULL), CAIRN_ENOENT);
    write_file("k", "alice 00", 0640, &cfg);
    assert_int_equal(crn_auth_key.introduce(&cfg, user, &info), CAIRN_EPERM);
    assert_non_null(strstr(info.msg, "chmod 600"));
    assert_int_equal(unlink(cfg.key_file), 0);
    assert_int_equal(crn_auth_key.introduce(&cfg, user, NULL), CAIRN_ENOENT);
}

static void peers_are_told_by_the_kernel(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_auth_talk talk = {.is_local = 1, .uid = 0};
    struct crn_bp_proof proof = {0}, back;
    char user[CRN_BP_NAME];

    (void)state;
    assert_ok(crn_auth_peer.verify(NULL, &talk, &proof, user, &back, ei));
    assert_string_equal(user, "root");
    talk.uid = 4123456789u;
    assert_ok(crn_auth_peer.verify(NULL, &talk, &proof, user, &back, ei));
    assert_string_equal(user, "#4123456789");
    talk.is_local = 0;
    assert_int_equal(crn_auth_peer.verify(NULL, &talk, &proof, user, &back, NULL), CAIRN_EPERM);
}

static void addresses(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_address a;

    (void)state;
    assert_ok(crn_address_parse("host", "7", &a, ei));
    assert_string_equal(a.host, "host");
    assert_string_equal(a.port, "7");
    assert_ok(crn_address_parse("10.1.2.3:99", "7", &a, ei));
    assert_string_equal(a.host, "10.1.2.3");
    assert_string_equal(a.port, "99");
    assert_ok(crn_address_parse("[::1]:99", "7", &a, ei));
    assert_string_equal(a.host, "::1");
    assert_ok(crn_address_parse("[::1]", "7", &a, ei));
    assert_string_equal(a.port, "7");
    assert_ok(crn_address_parse("unix:/run/x", "7", &a, ei));
    assert_true(a.is_unix);
    assert_string_equal(a.un.sun_path, "/run/x");
    assert_int_equal(crn_address_parse("unix:x", "7", &a, NULL), CAIRN_ECONFIG);
    assert_int_equal(crn_address_parse("::1", "7", &a, NULL), CAIRN_ECONFIG);
    assert_int_equal(crn_address_parse("[::1", "7", &a, NULL), CAIRN_ECONFIG);
    assert_int_equal(crn_address_parse("host:", "7", &a, NULL), CAIRN_ECONFIG);
    assert_int_equal(crn_address_parse("host:http", "7", &a, NULL), CAIRN_ECONFIG);
}

/* Any user can make a socket or answer at a port. */
static void only_some_users_may_run_the_broker(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_broker_link_config link;
    struct crn_auth_config cfg;
    struct crn_config keys;

    (void)state;
    crn_config_defaults(&keys);
    assert_ok(crn_config_set(&keys, "broker_user", "cairn, #54321", "test", ei));
    crn_broker_link_configure(&link, &keys);
    cfg = link.auth;
    crn_config_fini(&keys);
    assert_ok(crn_auth_check_broker(&cfg, 0, ei));
    assert_ok(crn_auth_check_broker(&cfg, geteuid(), ei));
    assert_ok(crn_auth_check_broker(&cfg, 54321, ei));
    assert_int_equal(crn_auth_check_broker(&cfg, 5432, ei), CAIRN_EPERM);
    assert_non_null(strstr(ei->msg, "#5432"));
}

static void a_peer_broker_must_be_known_to_the_kernel(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_auth_config cfg = {.broker_users = ""};
    struct crn_auth_talk talk = {.is_local = 1, .uid = 54321};
    struct crn_bp_proof none = {0};

    (void)state;
    assert_int_equal(crn_auth_peer.confirm(&cfg, &talk, &none, ei), CAIRN_EPERM);
    talk.uid = geteuid();
    assert_ok(crn_auth_peer.confirm(&cfg, &talk, &none, ei));
    talk.is_local = 0;
    assert_int_equal(crn_auth_peer.confirm(&cfg, &talk, &none, ei), CAIRN_EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_some_users_may_run_the_broker),
        cmocka_unit_test(a_peer_broker_must_be_known_to_the_kernel),
        cmocka_unit_test(both_sides_prove_their_key),
        cmocka_unit_test(a_wrong_key_does_not_get_in),
        cmocka_unit_test(key_files_are_private_and_whole),
        cmocka_unit_test(peers_are_told_by_the_kernel),
        cmocka_unit_test(addresses),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
