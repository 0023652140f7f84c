/* SPDX-License-Identifier: BSD-3-Clause */
/* Verifies proofs on a separate thread, because MUNGE and the user database may block, and the
 * event loop must not. */
#ifndef CRN_BROKER_VERIFIER_H
#define CRN_BROKER_VERIFIER_H

#include "broker/auth.h"

struct crn_verifier;

struct crn_login {
    uint32_t conn;
    uint64_t serial; /* of the connection, so that a late result does not go to another one */
    struct crn_auth_talk talk;
    struct crn_bp_proof proof;
    /* Result. */
    cairn_err rc;
    struct crn_errinfo error;
    char user[CRN_BP_NAME];
    struct crn_bp_proof back;
};

/* max: logins in progress. */
CAIRN_CHECKED cairn_err crn_verifier_start(const struct crn_auth_config *cfg, size_t max,
                                           struct crn_verifier **ret, struct crn_errinfo *ei);
void crn_verifier_stop(struct crn_verifier *v); /* waits for the current login; NULL is allowed */
/* Readable when there are results. */
int crn_verifier_fd(const struct crn_verifier *v);
/* Never blocks; 0, or -1 if max are in progress. */
int crn_verifier_submit(struct crn_verifier *v, const struct crn_login *login);
/* 1 and a result, or 0. */
int crn_verifier_result(struct crn_verifier *v, struct crn_login *ret);

#endif
