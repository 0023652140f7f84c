/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is it? Three ways to prove it, one file each:
 *   peer   over a Unix socket the kernel tells the user
 *   key    a file with a secret key per user; both sides prove that they have it (HMAC-SHA-256)
 *   munge  a MUNGE credential, as sites with Slurm have it everywhere
 * Every proof covers the whole login, with a random number of each side, so that it is worth nothing
 * anywhere else. libsodium and libmunge are loaded when first needed, so that an application that
 * never meets a broker does not carry them. */
#ifndef CRN_BROKER_AUTH_H
#define CRN_BROKER_AUTH_H

#include <sys/types.h>
#include "base/config.h"
#include "broker/proto.h"

enum crn_auth_method { CRN_AUTH_PEER = 1, CRN_AUTH_KEY = 2, CRN_AUTH_MUNGE = 3 };

struct crn_auth_config {
    char key_file[CRN_PATH_MAX];     /* lines "user 64-hex-digits"; nobody else may read it */
    char munge_socket[CRN_PATH_MAX]; /* empty: MUNGE's default */
};

/* What both sides know of a login when it comes to proofs. */
struct crn_auth_talk {
    struct crn_bp_hello hello;
    struct crn_bp_challenge challenge;
    int is_local; /* broker: the peer came over a Unix socket ... */
    uid_t uid;    /* ... as this user */
};

struct crn_auth_ops {
    enum crn_auth_method method;
    const char *name;
    /* Job: whose name goes into HELLO; user has CRN_BP_NAME bytes. */
    cairn_err (*introduce)(const struct crn_auth_config *cfg, char *user, struct crn_errinfo *ei);
    /* Job: the answer to the challenge. May block for a moment (munge). */
    cairn_err (*prove)(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                       struct crn_bp_proof *ret, struct crn_errinfo *ei);
    /* Broker: who proved it, and the broker's own proof. May block: not on the event loop. */
    cairn_err (*verify)(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                        const struct crn_bp_proof *proof, char *ret_user,
                        struct crn_bp_proof *ret_back, struct crn_errinfo *ei);
    /* Job: is it our broker? */
    cairn_err (*confirm)(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                         const struct crn_bp_proof *back, struct crn_errinfo *ei);
};

extern const struct crn_auth_ops crn_auth_peer;
extern const struct crn_auth_ops crn_auth_key;
extern const struct crn_auth_ops crn_auth_munge;

const struct crn_auth_ops *crn_auth_by_method(unsigned method); /* NULL: not known */
const struct crn_auth_ops *crn_auth_by_name(const char *name);

/* For the methods: the bytes that a proof covers; who says which side proves. */
void crn_auth_transcript(const struct crn_auth_talk *talk, const char *who, struct crn_buf *b);
/* Login name of a uid, or "#uid" where the system knows none. user has CRN_BP_NAME bytes. */
void crn_auth_user_name(uid_t uid, char *user);
/* "user 64-hex-digits", random; for `cairn-broker --new-key`. */
void crn_auth_new_key(const char *user, char *line, size_t size);

#endif
