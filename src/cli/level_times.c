/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/level_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The slowest node counts. 0: the node did not measure it. */
static void take_longer(double *longest_s, int64_t ns)
{
    double s = (double)ns * 1e-9;

    if (ns > 0 && s > *longest_s)
        *longest_s = s;
}

void crn_level_times_take(const struct cli_flush *f, struct cli_level_times *t)
{
    size_t i;

    t->copy_s = t->captured_s = t->local_s = t->protected_s = t->flush_s = -1;
    for (i = 0; i < f->n; i++) {
        const struct crn_flush_stats *s = &f->leader[i].s;

        if (f->leader[i].is_assistant)
            continue;
        take_longer(&t->copy_s, s->copy_ns);
        take_longer(&t->captured_s, s->captured_ns);
        take_longer(&t->local_s, s->local_ns);
        take_longer(&t->protected_s, s->protected_ns);
        take_longer(&t->flush_s, s->total_ns);
    }
}

static cairn_err level_times_one(const struct crn_store *st, const char *name,
                                 const struct crn_version_entry *e, struct cli_level_times *ret,
                                 struct crn_errinfo *ei)
{
    struct crn_manifest m = {0};
    struct cli_flush f = {0};
    struct crn_errinfo none = {0};
    cairn_err rc;

    *ret = (struct cli_level_times){
        .version = e->version,
        .bytes = e->data_bytes,
        .copy_s = -1,
        .captured_s = -1,
        .local_s = -1,
        .protected_s = -1,
        .persistent_s =
            e->committed_ns > e->created_ns ? (double)(e->committed_ns - e->created_ns) * 1e-9 : 0,
        .flush_s = -1};
    rc = crn_store_manifest(st, name, e->version, &m, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (crn_cli_flush_load(st, &m, &f, &none) == CAIRN_OK) {
        crn_level_times_take(&f, ret);
        crn_cli_flush_free(&f);
    }
    crn_manifest_free(&m);
    return CAIRN_OK;
}

cairn_err crn_level_times_load(const struct crn_store *st, const char *name,
                               struct cli_level_history *ret, struct crn_errinfo *ei)
{
    struct cli_level_history h = {0};
    struct crn_catalog c = {0};
    cairn_err rc = crn_store_catalog(st, name, &c, ei);
    size_t i;

    if (rc != CAIRN_OK)
        return rc;
    h.v = calloc(c.n + 1, sizeof(*h.v));
    if (h.v == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu versions", c.n);
    for (i = 0; rc == CAIRN_OK && i < c.n; i++)
        if (c.v[i].state == CRN_VERSION_OK)
            rc = level_times_one(st, name, &c.v[i], &h.v[h.n++], ei);
    if (rc == CAIRN_OK && h.n == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "'%s' has no complete version of '%s'", st->path, name);
    crn_catalog_free(&c);
    if (rc != CAIRN_OK) {
        crn_level_times_free(&h);
        return rc;
    }
    *ret = h;
    return CAIRN_OK;
}

void crn_level_times_free(struct cli_level_history *h)
{
    free(h->v);
    memset(h, 0, sizeof(*h));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double crn_level_times_median(const struct cli_level_history *h, size_t offset)
{
    double *known = calloc(h->n + 1, sizeof(*known));
    double median = -1;
    size_t n = 0;
    size_t i;

    for (i = 0; known != NULL && i < h->n; i++) {
        memcpy(&known[n], (const char *)&h->v[i] + offset, sizeof(*known));
        n += known[n] >= 0;
    }
    if (n > 0) {
        qsort(known, n, sizeof(*known), by_value);
        median = known[n / 2];
    }
    free(known);
    return median;
}
