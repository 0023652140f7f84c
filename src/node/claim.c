/* SPDX-License-Identifier: BSD-3-Clause */
/* The first checkpoint of a name. Before its capture every rank claims the name. The keeper of the
 * first node takes the writer's lock and checks for versions of another run; all ranks get the same
 * answer. Only rank 0 triggers this check, because only rank 0 knows of restarts; the others wait
 * for the answer, at most commit_timeout. A granted claim lasts for the run. After a refusal the
 * next checkpoint claims the name again.
 *
 *   rank -> service   CLAIM       node -> root   NODE_CLAIM
 *   root -> nodes     CLAIM_DECIDED                service -> rank   CLAIMED */
#include "node/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct crn_claim *claim_find(const struct crn_node *n, const char *name)
{
    struct crn_claim *c = n->claims;

    while (c != NULL && strcmp(c->name, name) != 0)
        c = c->next;
    return c;
}

/* The claim of a name, created on first use; NULL if out of memory. */
static struct crn_claim *claim_get(struct crn_node *n, const char *name)
{
    struct crn_claim *c = claim_find(n, name);

    if (c != NULL)
        return c;
    c = calloc(1, sizeof(*c) + n->set.nlocal * sizeof(c->waits[0]));
    if (c == NULL)
        return NULL;
    memcpy(c->name, name, strlen(name) + 1);
    c->next = n->claims;
    n->claims = c;
    return c;
}

uint64_t crn_claim_generation(const struct crn_node *n, const char *name)
{
    const struct crn_claim *c = claim_find(n, name);

    return c != NULL ? c->generation : 0;
}

void crn_claims_free(struct crn_node *n)
{
    while (n->claims != NULL) {
        struct crn_claim *c = n->claims;

        n->claims = c->next;
        free(c);
    }
}

static void claim_answer(const struct crn_node *n, const struct crn_claim *c,
                         enum crn_msg_type type, uint64_t seq, struct crn_msg *ret)
{
    *ret = crn_node_plain(n, type, seq);
    memcpy(ret->ckpt.name, c->name, sizeof(ret->ckpt.name));
    ret->claimed.generation = c->generation;
    ret->claimed.error = c->error;
}

/* A message to the rank `local`, to be filled in. */
static struct crn_msg *claim_tell(struct crn_node *n, uint32_t local)
{
    struct crn_action *a = crn_act(n, CRN_ACT_TELL, NULL);

    a->first = local;
    a->end = local + 1;
    return &a->msg;
}

static struct crn_msg *claim_send(struct crn_node *n, uint32_t first, uint32_t end)
{
    struct crn_action *a = crn_act(n, CRN_ACT_SEND, NULL);

    a->first = first;
    a->end = end;
    return &a->msg;
}

static void claim_refuse(struct crn_node *n, uint32_t local, const struct crn_msg *m)
{
    struct crn_msg *no = claim_tell(n, local);

    *no = crn_node_plain(n, CRN_MSG_CLAIMED, m->seq);
    no->ckpt = m->ckpt;
    (void)!crn_fail(&no->claimed.error, CAIRN_ENOMEM, ENOMEM, "node %u", n->set.node);
}

void crn_claim_ask(struct crn_node *n, uint32_t local, const struct crn_msg *m)
{
    struct crn_claim *c = claim_get(n, m->ckpt.name);
    struct crn_msg *ask;

    if (c == NULL) {
        claim_refuse(n, local, m);
        return;
    }
    if (c->generation != 0 || c->answered == m->seq) {
        claim_answer(n, c, CRN_MSG_CLAIMED, m->seq, claim_tell(n, local));
        return;
    }
    c->waits[local] = m->seq;
    if (c->is_asked && n->rank_of[local] != 0)
        return;
    c->is_asked = 1;
    ask = claim_send(n, CRN_ROOT, CRN_ROOT + 1);
    *ask = crn_node_plain(n, CRN_MSG_NODE_CLAIM, m->seq);
    ask->ckpt = m->ckpt;
    ask->node_claim.is_successor = m->claim.is_successor;
    ask->node_claim.rank = n->rank_of[local];
}

/* The root answers each node that asks, so a refusal may come twice, the second time after a rank has
 * claimed the name again for its next checkpoint. It does not answer that claim. */
void crn_claim_decided(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_claim *c = claim_get(n, m->ckpt.name);
    uint32_t i;

    if (c == NULL)
        return; /* the ranks' deadline reports it */
    if (m->claimed.generation == 0 && (c->generation != 0 || m->seq < c->answered))
        return;
    c->generation = m->claimed.generation;
    c->error = m->claimed.error;
    c->answered = m->seq;
    c->is_asked = 0;
    for (i = 0; i < n->set.nlocal; i++) {
        if (c->waits[i] != 0 && (c->generation != 0 || c->waits[i] <= m->seq)) {
            claim_answer(n, c, CRN_MSG_CLAIMED, m->seq, claim_tell(n, i));
            c->waits[i] = 0;
        }
        c->is_asked |= c->waits[i] != 0;
    }
}

/* The first node. ------------------------------------------------------------------------------ */

static void claim_decide(struct crn_node *n, struct crn_claim *c, uint64_t seq, uint64_t generation,
                         const struct crn_errinfo *error)
{
    c->generation = generation;
    c->error = *error;
    c->answered = seq;
    claim_answer(n, c, CRN_MSG_CLAIM_DECIDED, seq, claim_send(n, 0, n->set.nodes));
}

/* A restarted service learns from a capture that the name was granted. Ranks that had not heard so claim
 * it again, but rank 0 does not: they get the answer now. */
void crn_claim_granted(struct crn_node *n, const char *name, uint64_t generation)
{
    static const struct crn_errinfo ok = {0};
    struct crn_claim *c = claim_get(n, name);

    if (c == NULL || c->generation != 0 || c->is_looking)
        return; /* without memory: the next report brings it */
    if (n->set.node == CRN_ROOT && c->seq > c->answered)
        claim_decide(n, c, c->seq, generation, &ok);
    else
        c->generation = generation;
}

/* Has rank 0 left? It is no reason that it is not here yet: after a restart of cairnd the ranks
 * join one after the other. */
static int has_first_left(const struct crn_node *n)
{
    uint32_t i;

    for (i = 0; i < n->set.nlocal; i++)
        if (n->has_left[i] && n->rank_of[i] == 0)
            return 1;
    return 0;
}

static void end_without_first(struct crn_node *n, struct crn_claim *c, uint64_t seq)
{
    struct crn_errinfo e = {0};

    (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank 0 left before the first checkpoint of '%s'", c->name);
    claim_decide(n, c, seq, 0, &e);
}

static void claim_look(struct crn_node *n, struct crn_claim *c, const struct crn_msg *m)
{
    struct crn_action *a = crn_act(n, CRN_ACT_WORK, NULL);

    a->work = CRN_WORK_CLAIM;
    a->claim = c;
    c->seq = m->seq;
    c->version = m->ckpt.version;
    c->is_successor = m->node_claim.is_successor != 0;
    c->is_looking = 1;
    n->nlooks++;
}

void crn_claim_node(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_claim *c = claim_get(n, m->ckpt.name);

    if (c == NULL)
        return; /* the ranks' deadline reports it */
    if (c->generation != 0 || c->answered == m->seq) {
        claim_answer(n, c, CRN_MSG_CLAIM_DECIDED, m->seq, claim_send(n, m->node, m->node + 1));
    } else if (c->is_looking) {
        return;
    } else if (m->node_claim.rank == 0) {
        claim_look(n, c, m);
    } else if (has_first_left(n)) {
        end_without_first(n, c, m->seq);
    } else {
        c->seq = m->seq;
    }
}

void crn_claim_result(struct crn_node *n, const struct crn_result *r)
{
    struct crn_claim *c = r->claim;

    c->is_looking = 0;
    n->nlooks--;
    claim_decide(n, c, c->seq, r->error->code == CAIRN_OK ? r->number : 0, r->error);
}

void crn_claim_failed(struct crn_node *n, uint32_t local, const struct crn_msg *m)
{
    struct crn_claim *c = n->rank_of[local] == 0 ? claim_get(n, m->ckpt.name) : NULL;
    struct crn_errinfo e = m->failed.error;

    if (c == NULL || c->generation != 0 || c->is_looking || c->answered == m->seq)
        return;
    (void)!crn_err_context(&e, e.code, "capture on rank 0");
    claim_decide(n, c, m->seq, 0, &e);
}

void crn_claims_left(struct crn_node *n)
{
    struct crn_claim *c;

    if (n->set.node != CRN_ROOT || !has_first_left(n))
        return;
    for (c = n->claims; c != NULL; c = c->next)
        if (c->generation == 0 && !c->is_looking && c->seq > c->answered)
            end_without_first(n, c, c->seq);
}
