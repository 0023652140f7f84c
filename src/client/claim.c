/* SPDX-License-Identifier: BSD-3-Clause */
/* The names that a session writes: is it the successor of the stored versions, and have the node
 * services granted the name? It asks once per name, before the first capture. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define STEP_NS (200 * 1000000LL)

static struct crn_name_state *claim_find(const cairn_session *s, const char *name)
{
    struct crn_name_state *n = s->names;

    while (n != NULL && strcmp(n->name, name) != 0)
        n = n->next;
    return n;
}

static struct crn_name_state *claim_get(cairn_session *s, const char *name)
{
    struct crn_name_state *n = claim_find(s, name);

    if (n != NULL)
        return n;
    n = calloc(1, sizeof(*n));
    if (n == NULL)
        return NULL;
    memcpy(n->name, name, strlen(name) + 1);
    n->next = s->names;
    s->names = n;
    return n;
}

void crn_claim_forget_names(cairn_session *s)
{
    while (s->names != NULL) {
        struct crn_name_state *n = s->names;

        s->names = n->next;
        free(n);
    }
}

void crn_session_succeeds(cairn_session *s, const char *name)
{
    struct crn_name_state *n = claim_get(s, name);

    if (n != NULL) /* without memory the claim is refused; the caller may retry */
        n->is_successor = 1;
}

void crn_claim_heard(cairn_session *s, const struct crn_msg *m)
{
    struct crn_name_state *n = claim_find(s, m->ckpt.name);

    if (n == NULL)
        return;
    n->generation = m->claimed.generation;
    n->error = m->claimed.error;
    n->is_answered = 1;
}

/* Asks, and waits until the first node has answered. A restarted service is asked again. */
static cairn_err ask_and_wait(cairn_session *s, const struct crn_name_state *n,
                              const struct crn_msg *ask, struct crn_errinfo *ei)
{
    int64_t until = s->clock->mono_ns(s->clock) + (int64_t)s->cfg.commit_timeout_ns;
    uint32_t times = s->rejoin.times;
    cairn_err rc = crn_service_link_send(s, ask, ei);

    while (rc == CAIRN_OK && !n->is_answered) {
        int64_t left = until - s->clock->mono_ns(s->clock);

        if (left <= 0)
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                            "the first checkpoint of '%s': rank 0 did not take it too within "
                            "commit_timeout, or "
                            "it, its node service or '%s' hangs",
                            n->name, s->cfg.persistent);
        rc = crn_service_link_pump(s, left < STEP_NS ? left : STEP_NS, ei);
        if (rc == CAIRN_OK && s->rejoin.times != times) {
            times = s->rejoin.times;
            rc = crn_service_link_send(s, ask, ei);
        }
    }
    return rc;
}

cairn_err crn_claim(cairn_session *s, const char *name, int64_t version, uint64_t *ret_generation,
                    struct crn_errinfo *ei)
{
    struct crn_name_state *n = claim_get(s, name);
    struct crn_msg ask = {.type = CRN_MSG_CLAIM, .seq = s->seq};
    cairn_err rc = CAIRN_OK;

    if (n == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the first checkpoint of '%s'", name);
    if (n->generation == 0) {
        n->is_answered = 0;
        ask.claim.ckpt.version = version;
        memcpy(ask.claim.ckpt.name, name, strlen(name) + 1);
        ask.claim.is_successor = (uint32_t)n->is_successor;
        rc = ask_and_wait(s, n, &ask, ei);
        if (rc == CAIRN_OK && n->error.code != CAIRN_OK) {
            crn_err_keep(ei, &n->error);
            rc = n->error.code;
        }
    }
    if (rc == CAIRN_OK)
        *ret_generation = n->generation;
    return rc;
}
