/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn report: one page for people about a store or a name: a self-contained HTML file with pictures
 * as SVG, without scripts and without a network; or the same numbers as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/report.h"

struct report_page {
    struct cli *cli;
    const char *job; /* NULL: all */
    FILE *out;
};

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
        crn_report_page_text(r->out, line);
        (void)fputc('\n', r->out);
    }
    (void)fputs("</pre></div>\n", r->out);
    free(text);
}

static void put_top(struct report_page *r, const struct crn_names *names)
{
    char date[40];
    size_t i;

    crn_output_date((uint64_t)crn_clock_real()->wall_ns(crn_clock_real()), date, sizeof(date));
    (void)fputs(crn_report_page_style, r->out);
    (void)fputs("<title>Checkpoints in ", r->out);
    crn_report_page_text(r->out, r->cli->cfg.persistent);
    (void)fputs("</title></head><body><header><h1>Checkpoints in ", r->out);
    crn_report_page_text(r->out, r->cli->cfg.persistent);
    (void)fprintf(r->out, "</h1><p>Cairn %s, %s", CAIRN_VERSION, date);
    if (r->job != NULL) {
        (void)fputs("; only of job ", r->out);
        crn_report_page_text(r->out, r->job);
    }
    (void)fputs("</p><nav>", r->out);
    for (i = 0; i < names->n; i++)
        (void)fprintf(r->out, "<a href=\"#%s\">%s</a>", names->name[i], names->name[i]);
    (void)fputs("</nav></header><main>\n", r->out);
}

/* Shows each name, as JSON or on the page. */
static cairn_err put_names(struct report_page *r, const struct crn_names *names)
{
    struct report_name one;
    cairn_err rc;
    size_t i;

    for (i = 0; i < names->n; i++) {
        rc = crn_report_load(r->cli, names->name[i], r->job, &one);
        if (rc != CAIRN_OK)
            return rc;
        if (r->cli->is_json)
            crn_report_json(r->cli, &one);
        else
            crn_report_page_name(r->out, &one);
        crn_report_free(&one);
    }
    return CAIRN_OK;
}

static cairn_err put_page(struct report_page *r, const struct crn_names *names)
{
    cairn_err rc;

    put_top(r, names);
    rc = put_names(r, names);
    put_configuration(r);
    (void)fputs("</main></body></html>\n", r->out);
    return rc;
}

/* The page appears whole, by rename, or not at all. */
static cairn_err write_page(struct report_page *r, const char *output,
                            const struct crn_names *names)
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
    rc = put_page(r, names);
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

static int print_json(struct report_page *r, const struct crn_names *names)
{
    cairn_err rc;

    (void)crn_cli_json(r->cli);
    crn_json_str(&r->cli->json, "directory", r->cli->cfg.persistent);
    crn_json_array(&r->cli->json, "names");
    rc = put_names(r, names);
    crn_json_end_array(&r->cli->json);
    return rc == CAIRN_OK ? crn_cli_json_end(r->cli, CLI_OK) : crn_cli_fail(r->cli);
}

static int report_names(struct report_page *r, const char *output, const struct crn_names *names)
{
    if (r->cli->is_json)
        return print_json(r, names);
    if (write_page(r, output, names) != CAIRN_OK)
        return crn_cli_fail(r->cli);
    (void)printf("%s\n", output);
    return crn_cli_end(r->cli, CLI_OK);
}

static int report_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"output", required_argument, NULL, 'o'}, {"job", required_argument, NULL, 'j'}, {0}};
    struct report_page r = {.cli = cli};
    struct crn_names names = {0};
    const char *output = "report.html";
    int c, i, status;

    while ((c = crn_cli_option(cli, argc, argv, "o:", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (c == 'j')
            r.job = optarg;
        else
            output = optarg;
    }
    if (optind < argc) {
        for (i = optind; i < argc; i++)
            if (crn_check_name("checkpoint name", argv[i], cli->ei) != CAIRN_OK)
                return crn_cli_fail(cli);
        return report_names(
            &r, output, &(struct crn_names){.name = argv + optind, .n = (size_t)(argc - optind)});
    }
    if (crn_store_names(&cli->store, &names, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    status = report_names(&r, output, &names);
    crn_names_free(&names);
    return status;
}

const struct cli_command crn_cmd_report = {
    .name = "report",
    .args = "[-o FILE] [--job JOB] [NAME...]",
    .help = "Writes a page about the versions of a store: times, bandwidth, sizes, failures",
    .about =
        "One HTML file that needs no network and no scripts, for a browser, a phone or paper. For "
        "each name: what a restart would take and why not a newer version, the stages of each "
        "version from the capture to the commit, sizes and ratios, the bandwidth of each leader "
        "and writer of the newest version, and what the journal has recorded; then the "
        "configuration. `--json` prints the same numbers and writes no file.\n"
        "How long the ranks waited for a capture is not in the store: `cairn_stats` and the "
        "summary line of a run tell it.",
    .needs_store = 1,
    .run = report_run,
    .options = "  -o, --output FILE where to (report.html)\n"
               "  --job JOB         only what this job has written\n",
};
