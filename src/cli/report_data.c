/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathers what a report shows of a name: the catalog, the statistics of the flushes, the journal,
 * and what a restart would take. Checksums are not read: `cairn explain` does that. */
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

#define STATISTICS 200 /* versions whose statistics are read: the newest */

static double report_later(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-9 : 0;
}

static void report_stages(const struct crn_version_entry *e, const struct cli_flush *f,
                          struct report_times *ret)
{
    uint64_t begin = UINT64_MAX, end = 0;
    size_t i;

    for (i = 0; i < f->n; i++) {
        uint64_t b = (uint64_t)f->leader[i].s.wall_ns;
        uint64_t w = b + (uint64_t)f->leader[i].s.total_ns;

        begin = b < begin ? b : begin;
        end = w > end ? w : end;
    }
    ret->is_known = 1;
    ret->waited_s = report_later(e->created_ns, begin);
    ret->written_s = report_later(begin, end);
    ret->commit_s = report_later(end, e->committed_ns);
    crn_level_times_take(f, &ret->level);
    ret->level.persistent_s = report_later(e->created_ns, e->committed_ns);
}

/* Statistics are an extra: a version without them is shown without stages. */
static void load_flush(struct cli *cli, struct report_name *r, size_t i)
{
    struct crn_version_entry *e = &r->catalog.v[i];
    struct crn_manifest m = {0};
    struct cli_flush f = {0};

    if (e->state == CRN_VERSION_OK &&
        crn_store_manifest(&cli->store, r->name, e->version, &m, cli->ei) == CAIRN_OK &&
        crn_cli_flush_load(&cli->store, &m, &f, cli->ei) == CAIRN_OK) {
        report_stages(e, &f, &r->times[i]);
        if (r->flush.n == 0) {
            r->flush = f;
            r->flushed = e->version;
        } else {
            crn_cli_flush_free(&f);
        }
    }
    crn_manifest_free(&m);
    crn_err_clear(cli->ei);
}

static void keep_job(struct report_name *r, const char *job)
{
    struct crn_version_entry *v = r->catalog.v;
    size_t i, n = 0;

    for (i = 0; i < r->catalog.n; i++) {
        if (strcmp(v[i].job, job) == 0) {
            struct crn_version_entry kept = v[i];

            v[i] = v[n];
            v[n++] = kept;
        } else {
            free(v[i].needs);
            v[i].needs = NULL;
        }
    }
    r->catalog.n = n;
    for (i = 0, n = 0; i < r->journal.n; i++)
        if (strcmp(r->journal.v[i].job, job) == 0)
            r->journal.v[n++] = r->journal.v[i];
    r->journal.n = n;
}

cairn_err crn_report_load(struct cli *cli, const char *name, const char *job,
                          struct report_name *ret)
{
    struct report_name r = {.name = name, .taken = -1};
    cairn_err rc = crn_store_catalog(&cli->store, name, &r.catalog, cli->ei);
    size_t i;

    if (rc != CAIRN_OK)
        return rc;
    for (i = r.catalog.n; i-- > 0 && r.taken < 0;)
        if (r.catalog.v[i].state == CRN_VERSION_OK)
            r.taken = r.catalog.v[i].version;
    if (crn_events_read(cli, name, -1, &r.journal) != CAIRN_OK)
        crn_err_clear(cli->ei);
    if (job != NULL)
        keep_job(&r, job);
    r.times = calloc(r.catalog.n + 1, sizeof(*r.times));
    if (r.times == NULL) {
        crn_report_free(&r);
        return crn_fail(cli->ei, CAIRN_ENOMEM, 0, "report of '%s'", name);
    }
    for (i = r.catalog.n; i-- > 0 && r.catalog.n - i <= STATISTICS;)
        load_flush(cli, &r, i);
    *ret = r;
    return CAIRN_OK;
}

void crn_report_free(struct report_name *r)
{
    crn_cli_flush_free(&r->flush);
    crn_journal_free(&r->journal);
    crn_catalog_free(&r->catalog);
    free(r->times);
    memset(r, 0, sizeof(*r));
}

double crn_report_rate(const struct report_name *r, size_t version)
{
    double seconds = r->times[version].written_s;

    return seconds > 0 ? (double)r->catalog.v[version].file_bytes / seconds : 0;
}

double crn_report_ratio(const struct crn_version_entry *e)
{
    return e->file_bytes > 0 ? (double)e->data_bytes / (double)e->file_bytes : 0;
}

double crn_report_leader_rate(const struct crn_flush_stats *s)
{
    return s->total_ns > 0 ? (double)s->bytes * 1e9 / (double)s->total_ns : 0;
}

double crn_report_writer_rate(const struct crn_writer_stats *w)
{
    int64_t ns = w->local.sum.ns + w->received.sum.ns;

    return ns > 0 ? (double)(w->local.sum.bytes + w->received.sum.bytes) * 1e9 / (double)ns : 0;
}

/* JSON. ---------------------------------------------------------------------------------------- */

static void json_level(struct crn_json *j, const char *key, double seconds)
{
    if (seconds >= 0)
        crn_json_f64(j, key, seconds);
}

static void json_version(struct crn_json *j, const struct report_name *r, size_t i)
{
    const struct crn_version_entry *e = &r->catalog.v[i];
    const struct report_times *t = &r->times[i];

    crn_json_object(j, NULL);
    crn_json_i64(j, "version", e->version);
    crn_json_str(j, "state", crn_version_state_name(e->state));
    crn_json_str(j, "why", e->state == CRN_VERSION_OK ? NULL : e->why);
    crn_json_bool(j, "pinned", e->is_pinned);
    crn_json_str(j, "job", e->job);
    crn_json_u64(j, "ranks", e->ranks);
    crn_json_u64(j, "files", e->files);
    crn_json_u64(j, "bytes", e->data_bytes);
    crn_json_u64(j, "stored_bytes", e->file_bytes);
    crn_json_f64(j, "ratio", crn_report_ratio(e));
    crn_json_u64(j, "captured_ns", e->created_ns);
    crn_json_u64(j, "committed_ns", e->committed_ns);
    if (t->is_known) {
        crn_json_f64(j, "waited_s", t->waited_s);
        crn_json_f64(j, "written_s", t->written_s);
        crn_json_f64(j, "commit_s", t->commit_s);
        crn_json_f64(j, "bytes_per_s", crn_report_rate(r, i));
        json_level(j, "copy_s", t->level.copy_s);
        json_level(j, "all_captured_s", t->level.captured_s);
        json_level(j, "local_s", t->level.local_s);
        json_level(j, "protected_s", t->level.protected_s);
        json_level(j, "persistent_s", t->level.persistent_s);
    }
    crn_json_end_object(j);
}

static void json_flush(struct crn_json *j, const struct report_name *r)
{
    if (r->flush.n == 0)
        return;
    crn_json_object(j, "flush");
    crn_json_i64(j, "version", r->flushed);
    crn_cli_flush_json(j, &r->flush);
    crn_json_end_object(j);
}

void crn_report_json(struct cli *cli, const struct report_name *r)
{
    struct crn_json *j = &cli->json;
    size_t i;

    crn_json_object(j, NULL);
    crn_json_str(j, "name", r->name);
    if (r->taken >= 0)
        crn_json_i64(j, "restart_takes", r->taken);
    else
        crn_json_str(j, "restart_takes", NULL);
    crn_json_array(j, "versions");
    for (i = 0; i < r->catalog.n; i++)
        json_version(j, r, i);
    crn_json_end_array(j);
    json_flush(j, r);
    crn_events_json(cli, "events", r->name, &r->journal);
    crn_json_end_object(j);
}
