/* SPDX-License-Identifier: BSD-3-Clause */
/* What the batch system says of a job counts, not what the job says: its nodes, and the account that
 * pays. Until the answer the job counts as one node and pays with its user's share. */
#include "broker/turns_priv.h"

#include <stdio.h>
#include <string.h>

#define AGAIN_NS (60 * NS_PER_S) /* after a question without an answer */

void crn_batch_claim(const struct crn_turns *t, struct turns_job *job, uint32_t claimed)
{
    uint32_t most = t->cfg.max_nodes > 0 ? t->cfg.max_nodes : UINT32_MAX;

    if (t->cfg.is_confirming)
        most = job->confirmed > 0 ? job->confirmed : 1;
    job->claimed = claimed > 0 ? claimed : 1;
    job->nodes = job->claimed < most ? job->claimed : most;
}

int crn_turns_unconfirmed(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                          char ret_batch[CRN_BP_NAME])
{
    struct turns_job *job;

    if (!t->cfg.is_confirming || !t->conn[conn].is_open || t->conn[conn].job == NONE)
        return 0;
    job = &t->job[t->conn[conn].job];
    if (job->ask_ns > now_ns)
        return 0;
    job->ask_ns = INT64_MAX;
    memcpy(ret_batch, job->batch, sizeof(job->batch));
    return 1;
}

/* The account's name in the table of users begins with @. */
static void batch_pay(struct crn_turns *t, struct turns_job *job, const char *account)
{
    char name[CRN_BP_NAME];

    if (!t->cfg.by_account || account[0] == '\0')
        return;
    (void)snprintf(name, sizeof(name), "@%.*s", CRN_BP_NAME - 2, account);
    crn_turns_unref_user(t, job->payer);
    job->payer = crn_turns_ref_user(t, name);
}

void crn_turns_confirm(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                       const struct crn_turns_fact *fact)
{
    struct turns_job *job;
    uint32_t i;

    if (!t->conn[conn].is_open || t->conn[conn].job == NONE)
        return;
    job = &t->job[t->conn[conn].job];
    if (fact == NULL) {
        job->ask_ns = now_ns + AGAIN_NS;
        return;
    }
    job->confirmed = fact->nodes;
    crn_batch_claim(t, job, job->claimed);
    batch_pay(t, job, fact->account);
    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (job->req[i].state == RQ_WAITING) {
            crn_turns_refresh(t, t->conn[conn].job * CRN_BP_MAX_ASKS + i, &job->req[i]);
            t->token[job->req[i].token].is_stale = 1;
        }
    crn_turns_decide(t, now_ns);
}
