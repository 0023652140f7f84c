/* SPDX-License-Identifier: BSD-3-Clause */
/* A report as HTML: style, tables and texts. Cells with numbers have the exact value beside the one for
 * people, as data-value. */
#include "cli/report.h"

#include <inttypes.h>

const char crn_report_page_style[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>\n"
    ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d4da;--s1:#0072b2;"
    "--s2:#d98200;--s3:#009e73;--bad:#b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#16191d;--line:#3a4048;"
    "--s1:#56b4e9;--s2:#e69f00;--s3:#2fc79a;--bad:#ff8a80}}\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:72rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid "
    "var(--line)}\n"
    "div.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\n"
    "th,td{padding:.25rem .5rem;text-align:left;border-bottom:1px solid "
    "var(--line);white-space:nowrap}td.t{white-space:normal;min-width:16rem}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:var(--bad)}\n"
    "svg{width:100%;min-width:40rem;height:auto}svg text{fill:var(--ink);font:13px system-ui,"
    "sans-serif}\n"
    ".grid{stroke:var(--line)}.s1{fill:var(--s1);background:var(--s1)}.s2{fill:var(--s2);"
    "background:var(--s2)}.s3{fill:var(--s3);background:var(--s3)}\n"
    ".key{display:inline-block;width:.8em;height:.8em;margin:0 .4em 0 1em}.key:first-child"
    "{margin-left:0}nav a{margin-right:1em}a{color:inherit}summary{cursor:pointer}\n"
    "@media print{body{max-width:none;margin:0;font-size:11px;print-color-adjust:exact}"
    "svg{min-width:0}h2,h3{break-after:avoid}tr,svg{break-inside:avoid}"
    "div.wide{overflow:visible}th,td{padding:.15rem .2rem;font-size:9px}}\n"
    "</style>";

/* Text from the store is hostile: names of jobs and messages are shown, never interpreted. */
void crn_report_page_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            (void)fputc((unsigned char)*text < 32 ? ' ' : *text, out);
        }
}

/* A cell with a number: the text for people, the value for programs. */
static void put_number(FILE *out, const char *text, double value)
{
    (void)fprintf(out, "<td class=\"n\" data-value=\"%.17g\">%s</td>", value, text);
}

static void put_bytes(FILE *out, uint64_t bytes)
{
    char text[32];

    crn_human_bytes(bytes, text, sizeof(text));
    put_number(out, text, (double)bytes);
}

static void put_rate(FILE *out, double bytes_per_s)
{
    char text[32], rate[40] = "-";

    crn_human_bytes((uint64_t)bytes_per_s, text, sizeof(text));
    if (bytes_per_s > 0)
        (void)snprintf(rate, sizeof(rate), "%s/s", text);
    put_number(out, rate, bytes_per_s);
}

static void put_seconds(FILE *out, int is_known, double seconds)
{
    char text[32];

    if (!is_known) {
        (void)fputs("<td class=\"n\">-</td>", out);
        return;
    }
    crn_human_time(seconds, text, sizeof(text));
    put_number(out, text, seconds);
}

static void put_head(FILE *out, const char *id, const char *const *words, size_t n)
{
    size_t i;

    (void)fprintf(out, "<div class=\"wide\"><table id=\"%s\"><thead><tr>", id);
    for (i = 0; i < n; i++) /* '#' before the word: numbers */
        (void)fprintf(out, "<th scope=\"col\"%s>%s</th>", words[i][0] == '#' ? " class=\"n\"" : "",
                      words[i] + (words[i][0] == '#'));
    (void)fputs("</tr></thead><tbody>\n", out);
}
#define PUT_HEAD(out, id, words) put_head(out, id, words, sizeof(words) / sizeof((words)[0]))

static void put_foot(FILE *out)
{
    (void)fputs("</tbody></table></div>\n", out);
}

static void put_version(FILE *out, const struct report_name *r, size_t i)
{
    const struct crn_version_entry *e = &r->catalog.v[i];
    const struct report_times *t = &r->times[i];
    char date[40] = "-", ratio[32];

    if (e->created_ns > 0)
        crn_output_date(e->created_ns, date, sizeof(date));
    (void)fprintf(out,
                  "<tr><th scope=\"row\" class=\"n\">%" PRId64 "</th><td%s>%s%s</td><td>%s</td>",
                  e->version, e->state == CRN_VERSION_OK ? "" : " class=\"bad\"",
                  crn_version_state_name(e->state), e->is_pinned ? ", pinned" : "", date);
    put_seconds(out, t->is_known, t->waited_s);
    put_seconds(out, t->is_known, t->written_s);
    put_seconds(out, t->is_known, t->commit_s);
    put_rate(out, crn_report_rate(r, i));
    (void)fprintf(out, "<td class=\"n\">%u</td><td class=\"n\">%u</td>", e->ranks, e->files);
    put_bytes(out, e->data_bytes);
    put_bytes(out, e->file_bytes);
    (void)snprintf(ratio, sizeof(ratio), "%.2f", crn_report_ratio(e));
    put_number(out, ratio, crn_report_ratio(e));
    (void)fputs("<td>", out);
    crn_report_page_text(out, e->job);
    (void)fputs("</td></tr>\n", out);
}

static void put_versions(FILE *out, const struct report_name *r)
{
    static const char *const words[] = {"#Version", "State",      "Captured", "#Waited", "#Written",
                                        "#Commit",  "#Bandwidth", "#Ranks",   "#Files",  "#Data",
                                        "#Stored",  "#Ratio",     "Job"};
    char id[CAIRN_MAX_NAME + 16];
    size_t i;

    (void)snprintf(id, sizeof(id), "versions-%s", r->name);
    PUT_HEAD(out, id, words);
    for (i = r->catalog.n; i-- > 0;)
        put_version(out, r, i);
    put_foot(out);
}

/* How long after the capture each level was reached, of versions that have statistics. */
static void put_levels(FILE *out, const struct report_name *r)
{
    static const char *const words[] = {"#Version", "#Copy",      "#Captured",
                                        "#Local",   "#Protected", "#Persistent"};
    char id[CAIRN_MAX_NAME + 16];
    size_t i, k;

    (void)snprintf(id, sizeof(id), "levels-%s", r->name);
    PUT_HEAD(out, id, words);
    for (i = r->catalog.n; i-- > 0;) {
        const struct cli_level_times *t = &r->times[i].level;
        const double level[] = {t->copy_s, t->captured_s, t->local_s, t->protected_s,
                                t->persistent_s};

        if (!r->times[i].is_known)
            continue;
        (void)fprintf(out, "<tr><th scope=\"row\" class=\"n\">%" PRId64 "</th>",
                      r->catalog.v[i].version);
        for (k = 0; k < sizeof(level) / sizeof(level[0]); k++)
            put_seconds(out, level[k] >= 0, level[k]);
        (void)fputs("</tr>\n", out);
    }
    put_foot(out);
}

static void put_leaders(FILE *out, const struct report_name *r)
{
    static const char *const words[] = {"File", "#Node", "#Writer", "#Data", "#Took", "#Bandwidth"};
    char id[CAIRN_MAX_NAME + 16];
    size_t i;
    uint32_t w;

    (void)snprintf(id, sizeof(id), "leaders-%s", r->name);
    PUT_HEAD(out, id, words);
    for (i = 0; i < r->flush.n; i++) {
        const struct crn_flush_stats *s = &r->flush.leader[i].s;

        (void)fprintf(
            out, "<tr><td>%s%s</td><td class=\"n\">%" PRIu32 "</td><td class=\"n\">all</td>",
            r->flush.leader[i].file, r->flush.leader[i].is_assistant ? " (assists)" : "", s->node);
        put_bytes(out, s->bytes);
        put_seconds(out, 1, (double)s->total_ns * 1e-9);
        put_rate(out, crn_report_leader_rate(s));
        (void)fputs("</tr>\n", out);
        for (w = 0; w < s->nwriters; w++) {
            const struct crn_writer_stats *one = &s->writer[w];

            (void)fprintf(out, "<tr><td></td><td></td><td class=\"n\">%" PRIu32 "</td>", w);
            put_bytes(out, one->local.sum.bytes + one->received.sum.bytes);
            put_seconds(out, 1, (double)(one->local.sum.ns + one->received.sum.ns) * 1e-9);
            put_rate(out, crn_report_writer_rate(one));
            (void)fputs("</tr>\n", out);
        }
    }
    put_foot(out);
}

/* A number for each kind of record, then the records, newest first. */
static void put_events(FILE *out, const struct report_name *r)
{
    static const char *const words[] = {"Time", "#Version", "What", "Why", "Job"};
    static const char *const kinds[] = {
        CRN_EVENT_FAILED,      CRN_EVENT_CANCELED,   CRN_EVENT_PAUSED,
        CRN_EVENT_PASSED_OVER, CRN_EVENT_REFUSED,    CRN_EVENT_REPAIRED,
        CRN_EVENT_UNSAVED,     CRN_EVENT_INCOMPLETE, CRN_EVENT_DAMAGED};
    char id[CAIRN_MAX_NAME + 16], date[40];
    const char *comma = "";
    size_t i;

    if (r->journal.n == 0) {
        (void)fputs("<p>No failure, pause or repair is recorded.</p>\n", out);
        return;
    }
    (void)fputs("<p>", out);
    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (crn_events_count(&r->journal, kinds[i]) > 0) {
            (void)fprintf(out, "%s%" PRIu64 " %s", comma, crn_events_count(&r->journal, kinds[i]),
                          kinds[i]);
            comma = ", ";
        }
    (void)fputs("</p>\n", out);
    (void)snprintf(id, sizeof(id), "events-%s", r->name);
    PUT_HEAD(out, id, words);
    for (i = r->journal.n; i-- > 0;) {
        const struct crn_event *e = &r->journal.v[i];

        crn_output_date(e->time_ns, date, sizeof(date));
        (void)fprintf(out, "<tr><td>%s</td><td class=\"n\">%" PRId64 "</td><td>", date, e->version);
        crn_report_page_text(out, e->kind);
        (void)fputs("</td><td class=\"t\">", out);
        crn_report_page_text(out, e->text);
        (void)fputs("</td><td>", out);
        crn_report_page_text(out, e->job);
        (void)fputs("</td></tr>\n", out);
    }
    put_foot(out);
}

/* What a restart would take, and what is wrong with each newer version. */
static void put_restart(FILE *out, const struct report_name *r)
{
    size_t i;

    if (r->taken >= 0)
        (void)fprintf(out, "<p>A restart would take <b>%s@%" PRId64 "</b>.</p>\n", r->name,
                      r->taken);
    else
        (void)fputs("<p class=\"bad\">No version can be restored: a restart begins from the "
                    "start.</p>\n",
                    out);
    for (i = r->catalog.n; i-- > 0 && r->catalog.v[i].version > r->taken;) {
        const struct crn_version_entry *e = &r->catalog.v[i];

        (void)fprintf(out, "<p class=\"bad\">Not %" PRId64 ": %s: ", e->version,
                      crn_version_state_name(e->state));
        crn_report_page_text(out, e->why);
        (void)fputs("</p>\n", out);
    }
}

static void put_key(FILE *out, const char *one, const char *two, const char *three)
{
    const char *const words[] = {one, two, three};
    int i;

    (void)fputs("<p aria-hidden=\"true\">", out);
    for (i = 0; i < 3 && words[i] != NULL; i++)
        (void)fprintf(out, "<span class=\"key s%d\"></span>%s", i + 1, words[i]);
    (void)fputs("</p>\n", out);
}

static void put_pictures(FILE *out, const struct report_name *r)
{
    if (r->flush.n > 0) {
        (void)fputs("<h3>From the capture to the commit</h3>\n", out);
        put_key(out, "captured, waits in memory", "being written", "being committed");
        crn_chart_stages(out, r);
        (void)fputs("<h3>Timeline</h3>\n", out);
        put_key(out, "from the capture until persistent", NULL, NULL);
        crn_chart_timeline(out, r);
        (void)fputs("<h3>Levels</h3>\n<p>Copy: the application waited. The others: how long after "
                    "the capture each level was reached, on the slowest node.</p>\n",
                    out);
        put_levels(out, r);
    }
    (void)fputs("<h3>Sizes</h3>\n", out);
    put_key(out, "data", "stored", NULL);
    crn_chart_sizes(out, r);
    (void)fputs("<p>Bytes of data for each stored byte:</p>\n", out);
    crn_chart_ratios(out, r);
}

void crn_report_page_name(FILE *out, const struct report_name *r)
{
    uint64_t data = 0, stored = 0;
    size_t whole = 0, i;
    char data_text[32], stored_text[32];

    for (i = 0; i < r->catalog.n; i++) {
        whole += r->catalog.v[i].state == CRN_VERSION_OK;
        data += r->catalog.v[i].data_bytes;
        stored += r->catalog.v[i].file_bytes;
    }
    crn_human_bytes(data, data_text, sizeof(data_text));
    crn_human_bytes(stored, stored_text, sizeof(stored_text));
    (void)fprintf(
        out, "<section id=\"%s\"><h2>%s</h2><p>%zu version%s, %zu whole; %s of data in %s.</p>\n",
        r->name, r->name, r->catalog.n, CLI_S(r->catalog.n), whole, data_text, stored_text);
    put_restart(out, r);
    if (r->catalog.n > 0)
        put_pictures(out, r);
    (void)fputs("<h3>Versions</h3>\n", out);
    put_versions(out, r);
    if (r->flush.n > 0) {
        (void)fprintf(out, "<h3>Bandwidth of version %" PRId64 "</h3>\n", r->flushed);
        put_key(out, "node", "one of its writers, while it writes", NULL);
        crn_chart_leaders(out, r);
        put_leaders(out, r);
    }
    (void)fputs("<h3>Failures and repairs</h3>\n", out);
    put_events(out, r);
    (void)fputs("</section>\n", out);
}
