/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication, by one of three methods, one file each:
 *   peer   over a Unix socket, where the kernel identifies the user
 *   key    a file with a secret key per user; both sides prove that they have it (HMAC-SHA-256)
 *   munge  a MUNGE credential, which sites with Slurm have everywhere
 * Every proof covers the whole login, including a random number from each side, so it is worthless
 * in any other login. libsodium and libmunge are loaded on first use, so an application without a
 * broker does not load them. */
#ifndef CRN_BROKER_AUTH_H
#define CRN_BROKER_AUTH_H

#include <sys/types.h>
#include "base/config.h"
#include "broker/proto.h"

enum crn_auth_method { CRN_AUTH_PEER = 1, CRN_AUTH_KEY = 2, CRN_AUTH_MUNGE = 3 };

struct crn_auth_config {
    char key_file[CRN_PATH_MAX];     /* lines "user 64-hex-digits"; must be private */
    char munge_socket[CRN_PATH_MAX]; /* empty: MUNGE's default */
    char broker_users[CRN_PATH_MAX]; /* job: who may run the broker besides root and the user */
};

/* What both sides know of a login when they compute proofs. */
struct crn_auth_talk {
    struct crn_bp_hello hello;
    struct crn_bp_challenge challenge;
    int is_local; /* the other side of a Unix socket ... */
    uid_t uid;    /* ... is this user */
};

struct crn_auth_ops {
    enum crn_auth_method method;
    const char *name;
    /* Job: the user name for HELLO; user has CRN_BP_NAME bytes. */
    cairn_err (*introduce)(const struct crn_auth_config *cfg, char *user, struct crn_errinfo *ei);
    /* Job: answers the challenge. May block briefly (munge). */
    cairn_err (*prove)(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                       struct crn_bp_proof *ret, struct crn_errinfo *ei);
    /* Broker: identifies the user, and produces the broker's own proof. May block: not for the
     * event loop. */
    cairn_err (*verify)(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                        const struct crn_bp_proof *proof, char *ret_user,
                        struct crn_bp_proof *ret_back, struct crn_errinfo *ei);
    /* Job: checks the broker's proof. */
    cairn_err (*confirm)(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                         const struct crn_bp_proof *back, struct crn_errinfo *ei);
};

extern const struct crn_auth_ops crn_auth_peer;
extern const struct crn_auth_ops crn_auth_key;
extern const struct crn_auth_ops crn_auth_munge;

const struct crn_auth_ops *crn_auth_by_method(unsigned method); /* NULL: unknown */
const struct crn_auth_ops *crn_auth_by_name(const char *name);

/* For the methods: the bytes that a proof covers. who names the side that proves. */
void crn_auth_transcript(const struct crn_auth_talk *talk, const char *who, struct crn_buf *b);
/* Login name of a uid, or "#uid" if the system has none. user has CRN_BP_NAME bytes. */
void crn_auth_user_name(uid_t uid, char *user);
/* Job: may this user run the broker? */
CAIRN_CHECKED cairn_err crn_auth_check_broker(const struct crn_auth_config *cfg, uid_t uid,
                                              struct crn_errinfo *ei);
/* "user 64-hex-digits", random; for `cairn-broker --new-key`. */
void crn_auth_new_key(const char *user, char *line, size_t size);

#endif
