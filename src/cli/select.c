/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int rule_is_set(const struct cli_rule *rule)
{
    return rule->keep >= 0 || rule->keep_every > 0 || rule->min_age_ns > 0;
}

static cairn_err select_add(struct cli_selection *sel, const char *name, int64_t version,
                            struct crn_errinfo *ei)
{
    if (sel->n == sel->cap) {
        size_t cap = sel->cap > 0 ? 2 * sel->cap : 16;
        struct cli_target *more = realloc(sel->target, cap * sizeof(*more));

        if (more == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu versions", cap);
        sel->target = more;
        sel->cap = cap;
    }
    (void)snprintf(sel->target[sel->n].name, CAIRN_MAX_NAME, "%s", name);
    sel->target[sel->n++].version = version;
    return CAIRN_OK;
}

/* A bound of a range; an empty text leaves *ret alone. */
static cairn_err parse_bound(const char *text, size_t len, int64_t *ret, struct crn_errinfo *ei)
{
    char *end;
    long long value;

    if (len == 0)
        return CAIRN_OK;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || end != text + len || value < 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%.*s' is not a version: write NAME@10..20", (int)len,
                        text);
    *ret = value;
    return CAIRN_OK;
}

/* Which versions of the catalog the rules keep, whatever the range: those are 0 in go. */
static cairn_err apply_rules(const struct crn_catalog *c, const struct cli_rule *rule,
                             unsigned char *go, struct crn_errinfo *ei)
{
    struct crn_retention keep = {.keep_last = rule->keep > 0 ? (uint64_t)rule->keep : 0,
                                 .keep_every = (uint64_t)rule->keep_every};
    size_t i;

    if (rule->keep == 0)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "--keep 0 would remove all: name a range, such as NAME@0..");
    memset(go, 1, c->n);
    if (rule->keep > 0)
        crn_retention_plan(c, &keep, go);
    for (i = 0; i < c->n; i++) {
        const struct crn_version_entry *e = &c->v[i];
        uint64_t taken = e->committed_ns > 0 ? e->committed_ns : e->created_ns;

        if (e->state == CRN_VERSION_PARTIAL ||
            (rule->keep_every > 0 && e->version % rule->keep_every == 0) ||
            taken + rule->min_age_ns > rule->now_ns)
            go[i] = 0;
    }
    return CAIRN_OK;
}

static cairn_err select_range(const struct crn_store *st, const char *name, int64_t first,
                              int64_t last, const struct cli_rule *rule, struct cli_selection *sel,
                              struct crn_errinfo *ei)
{
    struct crn_catalog c;
    unsigned char *go;
    cairn_err rc;
    size_t i;

    rc = crn_store_catalog(st, name, &c, ei);
    if (rc != CAIRN_OK)
        return rc;
    go = calloc(c.n + 1, 1);
    rc = go == NULL ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the versions of '%s'", name)
                    : apply_rules(&c, rule, go, ei);
    for (i = c.n; i-- > 0 && rc == CAIRN_OK;) {
        if (!go[i] || c.v[i].version < first || c.v[i].version > last)
            continue;
        if (c.v[i].is_pinned)
            sel->pinned++;
        else
            rc = select_add(sel, name, c.v[i].version, ei);
    }
    free(go);
    crn_catalog_free(&c);
    return rc;
}

cairn_err crn_select_word(const struct crn_store *st, const char *word, const struct cli_rule *rule,
                          struct cli_selection *sel, struct crn_errinfo *ei)
{
    const char *at = strchr(word, '@');
    const char *dots = at != NULL ? strstr(at, "..") : NULL;
    struct cli_target t;
    int64_t first = 0, last = INT64_MAX;
    char name[CAIRN_MAX_NAME];
    cairn_err rc;

    if (dots != NULL) {
        if ((size_t)(at - word) >= sizeof(name))
            return crn_fail(ei, CAIRN_EINVAL, 0, "the checkpoint name '%.20s...' is too long",
                            word);
        (void)snprintf(name, sizeof(name), "%.*s", (int)(at - word), word);
        rc = crn_check_name("checkpoint name", name, ei);
        if (rc == CAIRN_OK)
            rc = parse_bound(at + 1, (size_t)(dots - at - 1), &first, ei);
        if (rc == CAIRN_OK)
            rc = parse_bound(dots + 2, strlen(dots + 2), &last, ei);
        if (rc == CAIRN_OK && first > last)
            rc = crn_fail(ei, CAIRN_EINVAL, 0,
                          "'%s' is an empty range: its first version is above its last", word);
        return rc != CAIRN_OK ? rc : select_range(st, name, first, last, rule, sel, ei);
    }
    rc = crn_cli_target(word, &t, ei);
    if (rc == CAIRN_OK && t.version >= 0)
        return select_add(sel, t.name, t.version, ei);
    if (rc == CAIRN_OK && (at != NULL || !rule_is_set(rule))) /* never guess which */
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "'%s' names no version: write %s@12 or %s@10..20", word,
                      t.name, t.name);
    return rc != CAIRN_OK ? rc : select_range(st, t.name, 0, INT64_MAX, rule, sel, ei);
}

void crn_select_free(struct cli_selection *sel)
{
    free(sel->target);
    memset(sel, 0, sizeof(*sel));
}
