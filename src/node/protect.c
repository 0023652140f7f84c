/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection of a checkpoint by parity. When all nodes have captured it, every node opens its stream and
 * tells the members of its set. A node that has heard all members makes the parity that it keeps, and
 * tells the root. Only when the parity of all sets is there does the root say LEVEL protected.
 *
 * A failure ends no checkpoint. The root flushes it then, even if it was held: persistent includes
 * protected. */
#include <inttypes.h>
#include <string.h>

#include "node/core.h"

struct crn_protection crn_node_scheme(const struct crn_config *cfg, const char *name)
{
    struct crn_protection s = {CRN_SCHEME_NONE, 0};
    struct crn_errinfo ignored = {0};

    if (crn_scheme_parse(crn_config_name(cfg, name)->protect, "protect", &s, &ignored) != CAIRN_OK)
        s = (struct crn_protection){CRN_SCHEME_NONE, 0}; /* refused when the session opened */
    return s;
}

/* The place of a node in the set of this one; UINT32_MAX: it is no member. */
static uint32_t place_of(const struct crn_node *n, uint32_t node)
{
    uint32_t i;

    for (i = 0; i < n->set.nmembers; i++)
        if (n->set.members[i] == node)
            return i;
    return UINT32_MAX;
}

static void tell_protected(struct crn_node *n, struct crn_item *item,
                           const struct crn_errinfo *error)
{
    if (!crn_item_has_ended(item->state))
        crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_PROTECTED)->failed.error = *error;
}

void crn_protect_begin(struct crn_node *n, struct crn_item *item)
{
    if (item->streams != NULL && crn_scheme_fits(item->scheme, n->set.nmembers))
        (void)crn_act_work(n, item, CRN_WORK_STREAM);
}

/* This node's stream is open, or cannot be. */
void crn_protect_opened(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    uint32_t i;

    if (crn_item_has_ended(item->state))
        return;
    if (r->error->code != CAIRN_OK) {
        tell_protected(n, item, r->error);
        return;
    }
    for (i = 0; i < n->set.nmembers; i++) {
        struct crn_msg *m = crn_act_send(n, n->set.members[i], item, CRN_MSG_NODE_STREAM);

        m->node_stream.bytes = r->number;
        m->node_stream.index_hash = r->hash;
    }
}

void crn_protect_stream(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    struct crn_streams *s = item->streams;
    uint32_t place = place_of(n, m->node);

    if (s == NULL || place == UINT32_MAX || s->has_come[place] || crn_item_has_ended(item->state) ||
        m->node_stream.bytes > INT64_MAX)
        return;
    s->has_come[place] = 1;
    s->bytes[place] = m->node_stream.bytes;
    s->index_hash[place] = m->node_stream.index_hash;
    if (++s->ncome == n->set.nmembers)
        (void)crn_act_work(n, item, CRN_WORK_PARITY);
}

void crn_protect_made(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    tell_protected(n, item, r->error);
}

/* Root. ---------------------------------------------------------------------------------------- */

void crn_root_protected(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    const struct crn_errinfo *e = &m->failed.error;
    struct crn_root_item *root = item->root;

    if ((root->has[m->node] & CRN_HAS_PARITY) != 0)
        return;
    root->has[m->node] |= CRN_HAS_PARITY;
    if (e->code == CAIRN_OK) {
        if (++root->nprotected == n->set.nodes)
            crn_root_tell_level(n, item, CAIRN_PROTECTED);
        return;
    }
    if (root->is_unprotected || e->code == CAIRN_ECANCELED)
        return;
    root->is_unprotected = 1;
    if (root->state == CRN_ROOT_HELD)
        crn_root_start(n, item); /* the file system includes the level that it cannot reach */
    crn_act_log(n, CRN_WARN, "%s@%" PRId64 " is not protected, continuing: %s", item->name,
                item->version, e->msg);
}
