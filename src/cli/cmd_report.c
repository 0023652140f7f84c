/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn report: one page for people about a store or a name: a self-contained HTML file with pictures as
 * SVG, without scripts and without a network. Its numbers are those of --json, which has the same. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/events.h"

struct report_page {
    struct cli *cli;
    FILE *out;
};

static const char style[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>\n"
    ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d4da;--bar:#0072b2;"
    "--stored:#e69f00;--bad:#b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#16191d;--line:#3a4048;"
    "--bar:#56b4e9;--stored:#e69f00;--bad:#ff8a80}}\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:60rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid "
    "var(--line)}\n"
    "div.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\n"
    "th,td{padding:.25rem .75rem;text-align:left;border-bottom:1px solid var(--line)}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:var(--bad)}\n"
    "svg{width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}\n"
    ".bar{fill:var(--bar)}.stored{fill:var(--stored)}.key{display:inline-block;width:.8em;"
    "height:.8em;margin:0 .4em 0 1em}\n"
    "@media print{body{max-width:none;margin:0}}\n"
    "</style>";

/* Text from the store is hostile: names of jobs and messages are shown, never interpreted. */
static void put_text(FILE *out, const char *text)
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

#define SHOWN  60 /* bars in a picture: the newest */
#define WIDTH  960
#define HEIGHT 240
#define LEFT   80
#define BOTTOM 30

static uint64_t report_most(const struct crn_catalog *c, size_t first)
{
    uint64_t most = 1;
    size_t i;

    for (i = first; i < c->n; i++) {
        most = c->v[i].data_bytes > most ? c->v[i].data_bytes : most;
        most = c->v[i].file_bytes > most ? c->v[i].file_bytes : most;
    }
    return most;
}

/* Two bars for each version: what the application handed over, and what is stored. */
static void put_sizes(FILE *out, const char *name, const struct crn_catalog *c)
{
    size_t first = c->n > SHOWN ? c->n - SHOWN : 0;
    double step = (double)(WIDTH - LEFT) / (double)(c->n - first > 8 ? c->n - first : 8);
    double scale = (double)(HEIGHT - BOTTOM - 10) / (double)report_most(c, first);
    char text[32];
    size_t i;

    crn_human_bytes(report_most(c, first), text, sizeof(text));
    (void)fprintf(
        out,
        "<p><span class=\"key\" style=\"background:var(--bar)\"></span>data"
        "<span class=\"key\" style=\"background:var(--stored)\"></span>stored</p>"
        "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Sizes of the versions of %s\">"
        "<text x=\"0\" y=\"14\">%s</text><text x=\"0\" y=\"%d\">0</text>"
        "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"var(--line)\"/>\n",
        WIDTH, HEIGHT, name, text, HEIGHT - BOTTOM, LEFT, HEIGHT - BOTTOM, WIDTH, HEIGHT - BOTTOM);
    for (i = first; i < c->n; i++) {
        const struct crn_version_entry *e = &c->v[i];
        double x = LEFT + step * (double)(i - first);
        double data = scale * (double)e->data_bytes;
        double stored = scale * (double)e->file_bytes;

        (void)fprintf(out,
                      "<g><title>%s@%" PRId64 ": %" PRIu64 " bytes, %" PRIu64 " stored</title>"
                      "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>"
                      "<rect class=\"stored\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                      "height=\"%.1f\"/></g>\n",
                      name, e->version, e->data_bytes, e->file_bytes, x + step * 0.1,
                      HEIGHT - BOTTOM - data, step * 0.38, data, x + step * 0.5,
                      HEIGHT - BOTTOM - stored, step * 0.38, stored);
        if ((i - first) % ((c->n - first) / 12 + 1) == 0)
            (void)fprintf(out,
                          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%" PRId64 "</text>\n",
                          x + step / 2, HEIGHT - 10, e->version);
    }
    (void)fputs("</svg>\n", out);
}

static void put_versions(FILE *out, const struct crn_catalog *c)
{
    char data[32], stored[32], date[40];
    size_t i;

    (void)fputs("<div class=\"wide\"><table><thead><tr><th class=\"n\">Version</th><th>State</th>"
                "<th>Committed</th><th class=\"n\">Commit took</th><th class=\"n\">Ranks</th>"
                "<th class=\"n\">Files</th><th class=\"n\">Data</th><th class=\"n\">Stored</th>"
                "<th class=\"n\">Ratio</th><th>Job</th></tr></thead><tbody>\n",
                out);
    for (i = c->n; i-- > 0;) {
        const struct crn_version_entry *e = &c->v[i];

        crn_human_bytes(e->data_bytes, data, sizeof(data));
        crn_human_bytes(e->file_bytes, stored, sizeof(stored));
        (void)snprintf(date, sizeof(date), "-");
        if (e->committed_ns > 0)
            crn_output_date(e->committed_ns, date, sizeof(date));
        (void)fprintf(out,
                      "<tr><td class=\"n\">%" PRId64 "</td><td%s>%s%s</td><td>%s</td>"
                      "<td class=\"n\">%.3g s</td><td class=\"n\">%u</td><td class=\"n\">%u</td>"
                      "<td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"n\">%.2f</td><td>",
                      e->version, e->state == CRN_VERSION_OK ? "" : " class=\"bad\"",
                      crn_version_state_name(e->state), e->is_pinned ? ", pinned" : "", date,
                      e->committed_ns > e->created_ns
                          ? (double)(e->committed_ns - e->created_ns) * 1e-9
                          : 0.0,
                      e->ranks, e->files, data, stored,
                      e->file_bytes > 0 ? (double)e->data_bytes / (double)e->file_bytes : 0.0);
        put_text(out, e->job);
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</tbody></table></div>\n", out);
}

static void put_events(struct report_page *r, const char *name)
{
    struct crn_journal j;
    char date[40];
    size_t i;

    if (crn_events_read(r->cli, name, -1, &j) != CAIRN_OK) {
        crn_err_clear(r->cli->ei);
        return;
    }
    if (j.n == 0)
        (void)fputs("<p>No failure, pause or repair is recorded.</p>\n", r->out);
    else
        (void)fputs(
            "<div class=\"wide\"><table><thead><tr><th>Time</th><th class=\"n\">Version</th>"
            "<th>What</th><th>Why</th><th>Job</th></tr></thead><tbody>\n",
            r->out);
    for (i = j.n; i-- > 0;) {
        crn_output_date(j.v[i].time_ns, date, sizeof(date));
        (void)fprintf(r->out, "<tr><td>%s</td><td class=\"n\">%" PRId64 "</td><td>", date,
                      j.v[i].version);
        put_text(r->out, j.v[i].kind);
        (void)fputs("</td><td>", r->out);
        put_text(r->out, j.v[i].text);
        (void)fputs("</td><td>", r->out);
        put_text(r->out, j.v[i].job);
        (void)fputs("</td></tr>\n", r->out);
    }
    if (j.n > 0)
        (void)fputs("</tbody></table></div>\n", r->out);
    crn_journal_free(&j);
}

static cairn_err put_name(struct report_page *r, const char *name)
{
    struct crn_catalog c;
    uint64_t data = 0, stored = 0;
    size_t whole = 0, i;
    char data_text[32], stored_text[32];
    cairn_err rc = crn_store_catalog(&r->cli->store, name, &c, r->cli->ei);

    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < c.n; i++) {
        whole += c.v[i].state == CRN_VERSION_OK;
        data += c.v[i].data_bytes;
        stored += c.v[i].file_bytes;
    }
    crn_human_bytes(data, data_text, sizeof(data_text));
    crn_human_bytes(stored, stored_text, sizeof(stored_text));
    (void)fprintf(
        r->out,
        "<h2 id=\"%s\">%s</h2><p><span class=\"versions\">%zu</span> versions, %zu whole; "
        "%s of data in %s.</p>\n",
        name, name, c.n, whole, data_text, stored_text);
    put_sizes(r->out, name, &c);
    put_versions(r->out, &c);
    (void)fputs("<h3>What happened</h3>\n", r->out);
    put_events(r, name);
    crn_catalog_free(&c);
    return CAIRN_OK;
}

static void put_configuration(struct report_page *r)
{
    char *text = NULL;
    char *rest, *line;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (f == NULL)
        return;
    (void)crn_config_show(&r->cli->cfg, f, 0, 0);
    (void)fclose(f);
    (void)fputs("<h2>Configuration</h2><p>In effect where this page was made.</p><div "
                "class=\"wide\"><pre>",
                r->out);
    for (rest = text; rest != NULL && (line = strsep(&rest, "\n")) != NULL;) {
        put_text(r->out, line);
        (void)fputc('\n', r->out);
    }
    (void)fputs("</pre></div>\n", r->out);
    free(text);
}

static cairn_err put_page(struct report_page *r, int n, char **names)
{
    struct crn_names all = {0};
    char date[40];
    cairn_err rc = CAIRN_OK;
    size_t i;

    crn_output_date((uint64_t)crn_clock_real()->wall_ns(crn_clock_real()), date, sizeof(date));
    (void)fputs(style, r->out);
    (void)fputs("<title>Checkpoints in ", r->out);
    put_text(r->out, r->cli->cfg.persistent);
    (void)fputs("</title></head><body><h1>Checkpoints in ", r->out);
    put_text(r->out, r->cli->cfg.persistent);
    (void)fprintf(r->out, "</h1><p>Cairn %s, %s</p>\n", CAIRN_VERSION, date);
    if (n == 0)
        rc = crn_store_names(&r->cli->store, &all, r->cli->ei);
    for (i = 0; rc == CAIRN_OK && i < (n == 0 ? all.n : (size_t)n); i++)
        rc = put_name(r, n == 0 ? all.name[i] : names[i]);
    crn_names_free(&all);
    put_configuration(r);
    (void)fputs("</body></html>\n", r->out);
    return rc;
}

/* The page appears whole, by rename, or not at all. */
static cairn_err write_page(struct report_page *r, const char *output, int n, char **names)
{
    struct crn_errinfo *ei = r->cli->ei;
    char *tmp = NULL;
    int is_written;
    cairn_err rc;

    if (asprintf(&tmp, "%s.%08x.tmp", output, (unsigned)crn_random_u64()) < 0)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "report");
    r->out = fopen(tmp, "we");
    if (r->out == NULL) {
        rc = crn_fail_errno(ei, errno, "create '%s'", tmp);
        free(tmp);
        return rc;
    }
    rc = put_page(r, n, names);
    is_written = !ferror(r->out);
    if (fclose(r->out) != 0)
        is_written = 0;
    if (!is_written && rc == CAIRN_OK)
        rc = crn_fail_errno(ei, errno != 0 ? errno : EIO, "write '%s'", tmp);
    if (rc == CAIRN_OK && rename(tmp, output) != 0)
        rc = crn_fail_errno(ei, errno, "rename '%s' to '%s'", tmp, output);
    if (rc != CAIRN_OK)
        (void)unlink(tmp);
    free(tmp);
    return rc;
}

static int report_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"output", required_argument, NULL, 'o'}, {0}};
    struct report_page r = {.cli = cli};
    const char *output = "report.html";
    int c, i;

    while ((c = crn_cli_option(cli, argc, argv, "o:", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        output = optarg;
    }
    for (i = optind; i < argc; i++)
        if (crn_check_name("checkpoint name", argv[i], cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
    if (write_page(&r, output, argc - optind, argv + optind) != CAIRN_OK)
        return crn_cli_fail(cli);
    (void)printf("%s\n", output);
    return crn_cli_end(cli, CLI_OK);
}

const struct cli_command crn_cmd_report = {
    .name = "report",
    .args = "[-o FILE] [NAME...]",
    .help = "Writes a page about the versions of a store: sizes, states, failures, repairs",
    .about = "One HTML file that needs no network and no scripts, for a browser, a phone or paper: "
             "for each name a picture of the sizes, a table of the versions, and what the journal "
             "has recorded; then the configuration.",
    .needs_store = 1,
    .run = report_run,
    .options = "  -o, --output FILE where to (report.html)\n",
};
