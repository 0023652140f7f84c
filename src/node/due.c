/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions that stay on the nodes. The first node holds a version that is not due once all ranks
 * have captured it. It flushes the version if a rank waits for it, if a node needs its memory, or
 * if it is the newest of its name when the job ends; otherwise newer versions take its place. */
#include "node/due.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node/core.h"

int crn_due_is(const struct crn_every *every, const struct crn_due_seen *seen, int64_t now_ns)
{
    if (every->ns > 0)
        return now_ns - seen->since_ns >= 0 && (uint64_t)(now_ns - seen->since_ns) >= every->ns;
    return every->count > 0 && seen->passed + 1 >= every->count;
}

int crn_due_gives_way(uint64_t keep, uint64_t newer, int has_newer)
{
    return has_newer || newer >= keep;
}

/* The first node. ------------------------------------------------------------------------------ */

struct crn_due_name {
    struct crn_due_name *next;
    char name[CAIRN_MAX_NAME];
    struct crn_due_seen seen;      /* of flushes */
    struct crn_due_seen protected; /* of parity */
    uint64_t committed_seq;        /* the newest; 0: none */
    int64_t committed_version;
};

void crn_due_free(struct crn_node *n)
{
    struct crn_due_name *d;

    while ((d = n->dues) != NULL) {
        n->dues = d->next;
        free(d);
    }
}

static struct crn_due_name *due_find(const struct crn_node *n, const char *name)
{
    struct crn_due_name *d = n->dues;

    while (d != NULL && strcmp(d->name, name) != 0)
        d = d->next;
    return d;
}

static struct crn_due_name *due_get(struct crn_node *n, const char *name)
{
    struct crn_due_name *d = due_find(n, name);

    if (d != NULL)
        return d;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    memcpy(d->name, name, strlen(name) + 1);
    d->seen.since_ns = d->protected.since_ns = n->started_ns;
    d->next = n->dues;
    n->dues = d;
    return d;
}

/* The level that the ranks asked for decides, else the intervals of the name. A level that the job
 * lacks is reached with the PFS. */
static int due_decide(const struct crn_node *n, const struct crn_item *item,
                      const struct crn_due_seen *seen)
{
    const struct crn_name_config *nc = crn_config_name(n->set.cfg, item->name);

    switch (item->root->target) {
    case CAIRN_CAPTURED:
        return 0;
    case CAIRN_LOCAL:
        return n->set.cfg->local[0] == '\0';
    case CAIRN_PROTECTED:
        return item->scheme.kind == CRN_SCHEME_NONE;
    case CAIRN_LEVEL_NONE:
        return crn_due_is(&nc->persistent_every, seen, n->now_ns);
    default:
        return 1;
    }
}

/* A version gets parity if its ranks name a scheme or want the level, and else by the keys. */
struct crn_protection crn_due_protection(struct crn_node *n, struct crn_item *item)
{
    const struct crn_name_config *nc = crn_config_name(n->set.cfg, item->name);
    const struct crn_root_item *root = item->root;
    struct crn_protection s = root->protect != 0 ? crn_scheme_of_code(root->protect)
                                                 : crn_node_scheme(n->set.cfg, item->name);
    struct crn_due_name *d = NULL;

    if (!crn_scheme_fits(s, n->set.nmembers))
        return (struct crn_protection){CRN_SCHEME_NONE, 0};
    if (nc->protect_every.count != 1)
        d = due_get(n, item->name);
    if (d != NULL && root->protect == 0 && root->target != CAIRN_PROTECTED &&
        !root->is_parity_waited && !crn_due_is(&nc->protect_every, &d->protected, n->now_ns)) {
        d->protected.passed++;
        return (struct crn_protection){CRN_SCHEME_NONE, 0};
    }
    if (d != NULL)
        d->protected = (struct crn_due_seen){.since_ns = n->now_ns};
    return s;
}

/* A job that ends, or of which a rank has left, may take no further version. */
int crn_due_captured(struct crn_node *n, const struct crn_item *item)
{
    struct crn_due_name *d;

    if (item->root->target == CAIRN_LEVEL_NONE && crn_config_flushes_all(n->set.cfg, item->name))
        return 1;
    d = due_get(n, item->name);
    if (d == NULL || item->root->is_waited ||
        (item->root->is_parity_waited && item->scheme.kind == CRN_SCHEME_NONE) ||
        n->wanted == UINT64_MAX || n->is_ending || due_decide(n, item, &d->seen))
        return 1;
    d->seen.passed++;
    return 0;
}

void crn_due_flushed(struct crn_node *n, const struct crn_item *item)
{
    struct crn_due_name *d = due_find(n, item->name);

    if (d != NULL)
        d->seen = (struct crn_due_seen){.since_ns = n->now_ns};
}

static int is_same_name(const struct crn_item *a, const struct crn_item *b)
{
    return strcmp(a->name, b->name) == 0;
}

/* A version that survives the loss of a node gives way only to one that does, too. */
int crn_item_covers(const struct crn_item *newer, const struct crn_item *older)
{
    uint64_t beyond = (older->levels | older->promised) & ~crn_level_set(CAIRN_CAPTURED);

    return (beyond & ~newer->levels) == 0;
}

/* Counts the versions of the name that took the place of this one. */
static void count_newer(const struct crn_item *item, uint64_t *ret_n, const struct crn_item **last)
{
    const struct crn_item *i;

    for (i = item->next; i != NULL; i = i->next)
        if (is_same_name(i, item) && i->root->state != CRN_ROOT_COLLECTING &&
            i->root->state != CRN_ROOT_FAILED && crn_item_covers(i, item)) {
            ++*ret_n;
            *last = i;
        }
}

static void due_supersede(struct crn_node *n, struct crn_item *item, int64_t newer)
{
    struct crn_errinfo e = {0};

    (void)!crn_fail(&e, CAIRN_ECANCELED, 0, "superseded by %s@%" PRId64, item->name, newer);
    crn_root_fail(n, item, &e);
}

/* A version that is held for a lazy job is not to be superseded. */
static int may_give_way(const struct crn_node *n, const struct crn_item *item)
{
    return item->root->state == CRN_ROOT_HELD && !crn_config_is_lazy(n->set.cfg);
}

static void note_committed(struct crn_node *n, const struct crn_item *item)
{
    struct crn_due_name *d = due_get(n, item->name); /* without memory: flushed when a rank waits */

    if (d == NULL || d->committed_seq >= item->seq)
        return;
    d->committed_seq = item->seq;
    d->committed_version = item->version;
}

/* After a restart of all services a node may report an older version late. */
static void give_way_to_committed(struct crn_node *n, struct crn_item *item)
{
    const struct crn_due_name *d = due_find(n, item->name);

    if (d != NULL && d->committed_seq > item->seq && may_give_way(n, item))
        due_supersede(n, item, d->committed_version);
}

void crn_due_make_way(struct crn_node *n, struct crn_item *item, int is_committed)
{
    uint64_t keep = crn_config_name(n->set.cfg, item->name)->keep_protected;
    struct crn_item *i;

    for (i = n->items; i != NULL && i->seq < item->seq; i = i->next) {
        const struct crn_item *last = item;
        uint64_t newer = 0;

        if (!may_give_way(n, i) || !is_same_name(i, item))
            continue;
        count_newer(i, &newer, &last);
        if (crn_due_gives_way(keep, newer, is_committed))
            due_supersede(n, i, is_committed ? item->version : last->version);
    }
    if (is_committed)
        note_committed(n, item);
    else
        give_way_to_committed(n, item);
}

/* Is a newer version of the name on its way to the PFS? */
static int has_newer_flush(const struct crn_item *item)
{
    const struct crn_item *i;

    for (i = item->next; i != NULL; i = i->next)
        if (is_same_name(i, item) && i->root->state >= CRN_ROOT_HELD &&
            i->root->state != CRN_ROOT_FAILED)
            return 1;
    return 0;
}

void crn_due_flush_newest(struct crn_node *n)
{
    struct crn_item *item;

    for (item = n->items; item != NULL; item = item->next)
        if (item->root->state == CRN_ROOT_HELD && !has_newer_flush(item))
            crn_root_start(n, item);
}

/* A failed flush leaves an older version as the newest. */
void crn_due_failed(struct crn_node *n)
{
    if (n->wanted == UINT64_MAX || n->is_ending)
        crn_due_flush_newest(n);
}

/* The allocation may end before the job calls cairn_close. */
void crn_due_tick(struct crn_node *n)
{
    const struct crn_config *cfg = n->set.cfg;
    uint64_t age_ns = (uint64_t)(n->now_ns - n->started_ns);

    if (n->is_ending || cfg->wall_limit_ns == 0 ||
        age_ns + cfg->wall_margin_ns < cfg->wall_limit_ns)
        return;
    n->is_ending = 1;
    crn_due_flush_newest(n);
}

/* A rank waits for this very version. It may wait before the other nodes have captured it. */
void crn_due_waited(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_item *item = crn_node_find(n, m->seq);

    if (item == NULL && !crn_node_was_ended(n, m->seq))
        item = crn_item_get(n, m);
    if (item == NULL)
        return;
    if (m->type == CRN_MSG_NODE_WAITED && m->waited.level == CAIRN_PROTECTED) {
        item->root->is_parity_waited = 1;
        if (item->root->state == CRN_ROOT_COLLECTING ||
            (item->scheme.kind != CRN_SCHEME_NONE && !item->root->is_unprotected))
            return;
    }
    item->root->is_waited = 1;
    if (item->root->state == CRN_ROOT_HELD)
        crn_root_start(n, item);
}

/* Any node. ------------------------------------------------------------------------------------ */

/* A rank of this node has no room for its next version. Others may leave by themselves soon. If all
 * are held, the oldest must be flushed: no version that a rank may rely on is dropped for it. */
void crn_due_cramped(struct crn_node *n, uint64_t seq)
{
    struct crn_item *oldest = NULL;
    struct crn_item *item;

    for (item = n->items; item != NULL && item->seq < seq; item = item->next) {
        if (crn_item_has_ended(item->state))
            continue;
        if (!item->is_held)
            return;
        oldest = oldest == NULL ? item : oldest;
    }
    if (oldest != NULL)
        (void)crn_act_send(n, CRN_ROOT, oldest, CRN_MSG_NODE_CRAMPED);
}
