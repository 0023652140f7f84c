/* SPDX-License-Identifier: BSD-3-Clause */
#include "broker/questions.h"

#include <stdio.h>
#include <string.h>

#include "base/slurm.h"

#define SQUEUE_MS 30000

void crn_login_answer(const void *cfg, void *login)
{
    struct crn_login *l = login;
    const struct crn_auth_ops *ops = crn_auth_by_method(l->talk.hello.method);

    l->rc = ops->verify(cfg, &l->talk, &l->proof, l->user, &l->back, &l->error);
}

/* "USER NODES ACCOUNT", of a running job. */
static cairn_err read_line(const char *text, struct crn_batch *b)
{
    char user[CRN_BP_NAME], account[CRN_BP_NAME];
    unsigned nodes;
    int n = sscanf(text, "%63s %u %63s", user, &nodes, account);

    if (n < 2 || nodes == 0 || strcmp(user, b->user) != 0)
        return crn_fail(&b->error, CAIRN_ENOENT, 0, "Slurm knows no running job %s of %s", b->job,
                        b->user);
    b->nodes = nodes;
    if (n == 3 && strcmp(account, "(null)") != 0)
        memcpy(b->account, account, sizeof(b->account));
    return CAIRN_OK;
}

void crn_batch_answer(const void *unused, void *batch)
{
    struct crn_batch *b = batch;
    const char *argv[] = {"squeue", "-h", "-t", "running", "-o", "%u %D %a", "-j", b->job, NULL};
    char text[256];

    (void)unused;
    /* The job's number comes from its client. */
    if (b->job[0] == '\0' || strspn(b->job, "0123456789") != strlen(b->job)) {
        b->rc =
            crn_fail(&b->error, CAIRN_ENOENT, 0, "the job of %s names no job of Slurm", b->user);
        return;
    }
    b->rc = crn_slurm_run_for_text(argv, SQUEUE_MS, text, sizeof(text), &b->error);
    if (b->rc == CAIRN_ESTATE) /* squeue fails if there is no such job */
        text[0] = '\0';
    if (b->rc == CAIRN_OK || b->rc == CAIRN_ESTATE) {
        crn_err_clear(&b->error);
        b->rc = read_line(text, b);
    }
}
