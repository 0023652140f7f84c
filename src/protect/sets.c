/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes, sorted by domain, are dealt to the sets in turn. A set thus gets at most one more node of
 * a domain than any other set, which is the best that is possible, and sizes differ by at most one. */
#include "protect/sets.h"

#include <errno.h>
#include <stdlib.h>

struct set_node {
    uint64_t domain;
    uint32_t node;
};

static int by_domain(const void *a, const void *b)
{
    const struct set_node *x = a;
    const struct set_node *y = b;

    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* The most nodes of one domain; counts the domains. */
static uint32_t largest_domain(const struct set_node *v, uint32_t n, uint32_t *ret_domains)
{
    uint32_t most = 0;
    uint32_t run = 0;
    uint32_t i;

    *ret_domains = 0;
    for (i = 0; i < n; i++) {
        run = i > 0 && v[i].domain == v[i - 1].domain ? run + 1 : 1;
        *ret_domains += run == 1;
        most = run > most ? run : most;
    }
    return most;
}

static uint32_t set_count(struct crn_protection s, uint32_t nodes, uint32_t size)
{
    uint32_t sets;

    if (size == 0)
        size = crn_scheme_set(s);
    sets = nodes / size;
    return sets > 0 ? sets : 1;
}

/* Can a set lose a domain, and can it hold the scheme? */
static int can_carry(struct crn_protection s, uint32_t nodes, uint32_t size, uint32_t most)
{
    uint32_t sets = set_count(s, nodes, size);

    return crn_scheme_fits(s, nodes / sets) && crn_scheme_fits(s, (nodes + sets - 1) / sets) &&
           (most + sets - 1) / sets <= s.parity;
}

static cairn_err refuse_scheme(struct crn_protection s, uint32_t nodes, uint32_t domains,
                               uint32_t size, uint32_t most, struct crn_errinfo *ei)
{
    char text[CRN_SCHEME_TEXT], best[CRN_SCHEME_TEXT];
    struct crn_protection b = {CRN_SCHEME_RS, CRN_SET_MAX - 1};

    while (b.parity > 0 && !can_carry(b, nodes, size, most))
        b.parity--;
    if (b.parity <= 1)
        b = (struct crn_protection){b.parity == 0 ? CRN_SCHEME_NONE : CRN_SCHEME_XOR, b.parity};
    crn_scheme_text(s, text);
    crn_scheme_text(b, best);
    return crn_fail(ei, CAIRN_ECONFIG, 0,
                    "protect = %s does not fit %u node%s in %u failure domain%s: the strongest "
                    "scheme that fits is %s%s",
                    text, nodes, nodes == 1 ? "" : "s", domains, domains == 1 ? "" : "s", best,
                    nodes > 1 && domains < nodes
                        ? "; nodes of one domain are lost together (failure_domain)"
                        : "");
}

cairn_err crn_sets_form(const uint64_t *domain, uint32_t nodes, struct crn_protection s,
                        uint32_t size, uint32_t *ret_set, struct crn_errinfo *ei)
{
    struct set_node *v = calloc(nodes, sizeof(*v));
    uint32_t sets = set_count(s, nodes, size);
    cairn_err rc = CAIRN_OK;
    uint32_t domains, most, i;

    if (v == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the sets of %u nodes", nodes);
    for (i = 0; i < nodes; i++)
        v[i] = (struct set_node){domain[i], i};
    qsort(v, nodes, sizeof(*v), by_domain);
    most = largest_domain(v, nodes, &domains);
    if (!can_carry(s, nodes, size, most))
        rc = refuse_scheme(s, nodes, domains, size, most, ei);
    for (i = 0; rc == CAIRN_OK && i < nodes; i++)
        ret_set[v[i].node] = i % sets;
    free(v);
    return rc;
}

uint32_t crn_sets_members(const uint32_t *set, uint32_t nodes, uint32_t node,
                          uint32_t ret[CRN_SET_MAX])
{
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; i < nodes && n < CRN_SET_MAX; i++)
        if (set[i] == set[node])
            ret[n++] = i;
    return n;
}
