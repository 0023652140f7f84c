/* SPDX-License-Identifier: BSD-3-Clause */
/* What `cairn report` shows of a name: gathered once, written as JSON or as a page. */
#ifndef CRN_CLI_REPORT_H
#define CRN_CLI_REPORT_H

#include "cli/events.h"
#include "cli/flush_stats.h"
#include "cli/level_times.h"

/* The stages of a version, in seconds; all zero if its flush left no statistics. The clocks of
 * several hosts take part, so a stage is never less than 0. */
struct report_times {
    int is_known;
    double waited_s;  /* from the capture until the first leader began to write */
    double written_s; /* until the last data file was whole */
    double commit_s;  /* until the version was committed */
    struct cli_level_times level;
};

struct report_name {
    const char *name;
    struct crn_catalog catalog; /* of the job that was asked for */
    struct report_times *times; /* owned; beside catalog.v */
    struct crn_journal journal;
    int64_t taken;          /* a restart would take it; -1: none */
    struct cli_flush flush; /* of the newest version that has one; n 0: none has */
    int64_t flushed;        /* that version */
};

/* job: versions and records of this job only; NULL: of all. */
CAIRN_CHECKED cairn_err crn_report_load(struct cli *cli, const char *name, const char *job,
                                        struct report_name *ret);
void crn_report_free(struct report_name *r);
/* Bytes per second from the first write to the last; 0 if unknown. */
double crn_report_rate(const struct report_name *r, size_t version);
double crn_report_ratio(const struct crn_version_entry *e);
double crn_report_leader_rate(const struct crn_flush_stats *s);
double crn_report_writer_rate(const struct crn_writer_stats *w);
/* Appends the object to the array that the document has open. */
void crn_report_json(struct cli *cli, const struct report_name *r);

/* report_page.c: the head of the page with its style; text, escaped; the section of a name. */
extern const char crn_report_page_style[];
void crn_report_page_text(FILE *out, const char *text);
void crn_report_page_name(FILE *out, const struct report_name *r);

/* report_charts.c: pictures, as SVG. */
void crn_chart_sizes(FILE *out, const struct report_name *r);
void crn_chart_ratios(FILE *out, const struct report_name *r);
void crn_chart_stages(FILE *out, const struct report_name *r);
void crn_chart_timeline(FILE *out, const struct report_name *r);
void crn_chart_leaders(FILE *out, const struct report_name *r);

#endif
