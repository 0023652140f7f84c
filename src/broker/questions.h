/* SPDX-License-Identifier: BSD-3-Clause */
/* What the broker's workers are asked: who logs in, and what the batch system knows of a job. */
#ifndef CRN_BROKER_QUESTIONS_H
#define CRN_BROKER_QUESTIONS_H

#include "broker/auth.h"

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
/* Verifies the proof. cfg is a struct crn_auth_config. */
void crn_login_answer(const void *cfg, void *login);

struct crn_batch {
    uint32_t conn;
    uint64_t serial;
    char user[CRN_BP_NAME];
    char job[CRN_BP_NAME]; /* of Slurm */
    /* Result. */
    cairn_err rc; /* CAIRN_ENOENT: the user has no such running job */
    struct crn_errinfo error;
    uint32_t nodes;
    char account[CRN_BP_NAME];
};
/* Asks squeue, which is found in $PATH. */
void crn_batch_answer(const void *unused, void *batch);

#endif
