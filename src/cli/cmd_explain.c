/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn explain: which version a restart would take now, and why not a newer one; or whether and
 * why it would take a given version. Applies the same checks as a restart: committed, complete,
 * not rejected, every checksum correct. Then prints the journal's records of the name. */
#include "cli/events.h"

#include <inttypes.h>
#include <string.h>

struct walk {
    struct cli_progress progress;
    uint64_t seen;
    char bad[300]; /* the first bad location */
};

static void on_bad(void *arg, uint32_t rank, const char *region, const char *text)
{
    struct walk *w = arg;

    if (w->bad[0] == '\0')
        (void)snprintf(w->bad, sizeof(w->bad), "rank %" PRIu32 ", region '%s': %s", rank, region,
                       text);
}

static void on_progress(void *arg, uint64_t bytes)
{
    struct walk *w = arg;

    crn_progress_add(&w->progress, bytes - w->seen);
    w->seen = bytes;
}

/* Is every byte good? If not, why gives the reason. */
static int is_good(struct cli *cli, const char *name, const struct crn_version_entry *e, char *why,
                   size_t size)
{
    struct walk w = {.bad = ""};
    struct crn_check_events ev = {.bad = on_bad, .progress = on_progress, .arg = &w};
    struct crn_version *v = NULL;
    uint32_t f;
    cairn_err rc;

    crn_progress_begin(&w.progress, cli, "check", e->data_bytes);
    rc = crn_version_open(&cli->store, name, e->version, &v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_load_all(v, cli->ei);
    for (f = 0; rc == CAIRN_OK && f < crn_version_manifest(v)->nfiles; f++) {
        w.seen = 0;
        rc = crn_version_check_file(v, f, &ev, cli->ei);
    }
    crn_progress_end(&w.progress);
    crn_version_close(v);
    if (rc != CAIRN_OK)
        (void)snprintf(why, size, "%s", w.bad[0] != '\0' ? w.bad : cli->info.msg);
    crn_err_clear(cli->ei);
    return rc == CAIRN_OK;
}

enum verdict { TAKEN, PASSED_OVER, OLDER, TOO_NEW };

static enum verdict explain_judge(struct cli *cli, const char *name,
                                  const struct crn_version_entry *e, int is_quick, char *why,
                                  size_t size)
{
    if (e->state != CRN_VERSION_OK) {
        (void)snprintf(why, size, "%s: %s", crn_version_state_name(e->state), e->why);
        return PASSED_OVER;
    }
    if (!is_quick && !is_good(cli, name, e, why, size))
        return PASSED_OVER;
    (void)snprintf(why, size,
                   is_quick ? "committed and whole; checksums were not checked"
                            : "committed, whole, all checksums are right");
    return TAKEN;
}

static void explain_report(struct cli *cli, const char *name, const struct crn_version_entry *e,
                           enum verdict verdict, const char *why)
{
    static const char *const text[] = {"would be taken", "passed over", "older", "too new"};
    static const char *const id[] = {"taken", "passed_over", "older", "too_new"};
    char age[32];

    if (cli->is_json) {
        crn_json_object(&cli->json, NULL);
        crn_json_i64(&cli->json, "version", e->version);
        crn_json_str(&cli->json, "verdict", id[verdict]);
        crn_json_str(&cli->json, "why", why);
        crn_json_end_object(&cli->json);
        return;
    }
    crn_output_age(e->created_ns, age, sizeof(age));
    (void)printf("%s@%" PRId64, name, e->version);
    if (e->created_ns != 0)
        (void)printf(" (%s old)", age);
    (void)printf(": %s%s%s\n", text[verdict], why[0] != '\0' ? ": " : "", why);
}

#define SHOWN 20 /* records, in text output */

static void show_events(struct cli *cli, const char *name, const struct crn_journal *j)
{
    char date[64];
    size_t i;

    if (cli->is_json) {
        crn_events_json(cli, "events", name, j);
        crn_json_u64(&cli->json, "repairs", crn_events_count(j, CRN_EVENT_REPAIRED));
        return;
    }
    if (j->n > SHOWN)
        (void)printf("Recorded, the last %d of %zu (see `cairn ls --failed %s`):\n", SHOWN, j->n,
                     name);
    else if (j->n > 0)
        (void)printf("Recorded:\n");
    for (i = j->n > SHOWN ? j->n - SHOWN : 0; i < j->n; i++) {
        const struct crn_event *e = &j->v[i];

        crn_output_date(e->time_ns, date, sizeof(date));
        (void)printf("  %s %s@%" PRId64 " %s%s%s%s%s\n", date, name, e->version, e->kind,
                     e->job[0] != '\0' ? ", job " : "", e->job, e->text[0] != '\0' ? ": " : "",
                     e->text);
    }
}

/* One version: would a restart that asks for it get it, and what does the journal say of it? */
static int explain_one(struct cli *cli, const struct cli_target *t, int is_quick)
{
    struct crn_journal j;
    struct crn_catalog c;
    enum verdict verdict = PASSED_OVER;
    int is_known = 0;
    size_t i;

    if (crn_events_read(cli, t->name, t->version, &j) != CAIRN_OK)
        return crn_cli_fail(cli);
    if (crn_store_catalog(&cli->store, t->name, &c, cli->ei) != CAIRN_OK) {
        crn_journal_free(&j);
        return crn_cli_fail(cli);
    }
    for (i = 0; i < c.n && c.v[i].version != t->version; i++)
        ;
    is_known = i < c.n;
    if (cli->is_json && (is_known || j.n > 0))
        crn_json_array(crn_cli_json(cli), "versions");
    if (is_known) {
        char why[CRN_ERR_TEXT + 40] = "";

        verdict = explain_judge(cli, t->name, &c.v[i], is_quick, why, sizeof(why));
        explain_report(cli, t->name, &c.v[i], verdict, why);
    } else if (j.n > 0 && !cli->is_json) {
        (void)printf("%s@%" PRId64 ": there is no such version\n", t->name, t->version);
    }
    crn_catalog_free(&c);
    if (!is_known && j.n == 0) {
        crn_journal_free(&j);
        return crn_cli_problem(cli, CAIRN_ENOENT,
                               "'%s' has no version %" PRId64 ", and nothing is recorded of one",
                               t->name, t->version);
    }
    if (cli->is_json)
        crn_json_end_array(&cli->json);
    show_events(cli, t->name, &j);
    crn_journal_free(&j);
    if (cli->is_json)
        return crn_cli_json_end(cli, verdict == TAKEN ? CLI_OK : CLI_PROBLEM);
    return crn_cli_end(cli, verdict == TAKEN ? CLI_OK : CLI_PROBLEM);
}

static int explain_chain(struct cli *cli, const char *name, int64_t bound, int is_quick)
{
    struct crn_journal j;
    struct crn_catalog c;
    int64_t taken = -1;
    size_t i;

    if (crn_store_catalog(&cli->store, name, &c, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    if (crn_events_read(cli, name, -1, &j) != CAIRN_OK) {
        crn_catalog_free(&c);
        return crn_cli_fail(cli);
    }
    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "versions");
    for (i = c.n; i-- > 0;) {
        const struct crn_version_entry *e = &c.v[i];
        enum verdict verdict = OLDER;
        char why[CRN_ERR_TEXT + 40] = "";

        if (bound >= 0 && e->version > bound)
            verdict = TOO_NEW;
        else if (taken < 0)
            verdict = explain_judge(cli, name, e, is_quick, why, sizeof(why));
        if (verdict == TAKEN)
            taken = e->version;
        explain_report(cli, name, e, verdict, why);
    }
    crn_catalog_free(&c);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        if (taken >= 0)
            crn_json_i64(&cli->json, "taken", taken);
        else
            crn_json_str(&cli->json, "taken", NULL);
        show_events(cli, name, &j);
        crn_journal_free(&j);
        return crn_cli_json_end(cli, taken >= 0 ? CLI_OK : CLI_PROBLEM);
    }
    if (taken < 0)
        (void)printf("No version can be restored: a restart begins from the start.\n");
    show_events(cli, name, &j);
    crn_journal_free(&j);
    return crn_cli_end(cli, taken >= 0 ? CLI_OK : CLI_PROBLEM);
}

static int explain_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"not-newer-than", required_argument, NULL, 'n'}, {"quick", no_argument, NULL, 'q'}, {0}};
    struct cli_target t;
    int64_t bound = -1;
    int is_quick = 0;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "", longs)) != -1) {
        if (c == 'q')
            is_quick = 1;
        else if (c == '?' || crn_cli_number(cli, "version", optarg, &bound) != 0)
            return CLI_USAGE;
    }
    if (argc - optind != 1)
        return crn_cli_usage(cli, "one name is explained at a time");
    if (crn_cli_target(argv[optind], &t, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    return t.version >= 0 ? explain_one(cli, &t, is_quick)
                          : explain_chain(cli, t.name, bound, is_quick);
}

const struct cli_command crn_cmd_explain = {
    .name = "explain",
    .args = "[--quick] [--not-newer-than VERSION] NAME[@VERSION]",
    .help =
        "Tells which version a restart would take now, why not a newer one, and what has failed",
    .about =
        "Which version a restart would take now, and why not a newer one; or whether it could "
        "take this one. Then what is recorded of the name or version (see `cairn ls --failed`). "
        "With `--json` the records are in `events`, and `repairs` counts those that are repairs.",
    .needs_store = 1,
    .run = explain_run,
    .options = "  --not-newer-than V  as if the program asked for nothing newer\n"
               "  --quick             trust the checksums\n",
};
