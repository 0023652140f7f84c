/* SPDX-License-Identifier: BSD-3-Clause */
/* The pictures of a report. Each shows the newest versions or the first leaders, as many as fit; the
 * table beside it has them all. Colours are classes: the page's style has them for day and night. */
#include "cli/report.h"

#include <inttypes.h>

#define WIDTH  960
#define HEIGHT 240 /* of a picture with columns */
#define LEFT   96
#define RIGHT  72 /* for the numbers after the bars */
#define BOTTOM 30
#define ROW    20
#define SHOWN  60 /* columns */
#define ROWS   40

struct chart {
    FILE *out;
    int height;
    int is_binary; /* the axis counts in KiB, MiB, ... */
    int levels;    /* of the axis, above 0 */
    double most;   /* the value at its end */
    void (*label)(double value, char *buf, size_t size);
};

static void label_bytes(double value, char *buf, size_t size)
{
    crn_human_bytes((uint64_t)value, buf, size);
}

static void label_rate(double value, char *buf, size_t size)
{
    char text[32];

    crn_human_bytes((uint64_t)value, text, sizeof(text));
    (void)snprintf(buf, size, "%s/s", text);
}

static void label_seconds(double value, char *buf, size_t size)
{
    if (value > 0)
        crn_human_time(value, buf, size);
    else
        (void)snprintf(buf, size, "0");
}

static void label_number(double value, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%.3g", value);
}

/* Ends the axis at a round number: at most five levels of 1, 2 or 5 in the unit of the labels. */
static void chart_round(struct chart *c)
{
    static const double steps[] = {1, 2, 5};
    double unit = 1e-9;
    int i;

    if (c->is_binary)
        for (unit = 1; c->most >= 1024 * unit;)
            unit *= 1024;
    for (i = 0; c->most > 5 * unit * steps[i];)
        if (++i == 3) {
            i = 0;
            unit *= 10;
        }
    c->levels = 1;
    while (c->levels * unit * steps[i] < c->most)
        c->levels++;
    c->most = c->levels * unit * steps[i];
}

static void chart_begin(const struct chart *c, const char *what, const char *name)
{
    (void)fprintf(c->out,
                  "<div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-label=\"%s of %s; the table below has the numbers\">\n",
                  WIDTH, c->height, what, name);
}

static void chart_end(const struct chart *c)
{
    (void)fputs("</svg></div>\n", c->out);
}

/* Horizontal lines with labels, for columns. */
static void chart_levels(const struct chart *c)
{
    char text[40];
    int i;

    for (i = 0; i <= c->levels; i++) {
        double y = (c->height - BOTTOM) - (double)(c->height - BOTTOM - 12) * i / c->levels;

        c->label(c->most * i / c->levels, text, sizeof(text));
        (void)fprintf(c->out,
                      "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                      LEFT, WIDTH, y, y, LEFT - 8, y + 4, text);
    }
}

/* Vertical lines with labels, for rows of bars. */
static void chart_scale(const struct chart *c)
{
    char text[40];
    int i;

    for (i = 0; i <= c->levels; i++) {
        double x = LEFT + (double)(WIDTH - LEFT - RIGHT) * i / c->levels;

        c->label(c->most * i / c->levels, text, sizeof(text));
        (void)fprintf(c->out,
                      "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/>"
                      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                      x, x, c->height - 24, x, c->height - 8, text);
    }
}

static size_t chart_first(const struct report_name *r)
{
    return r->catalog.n > SHOWN ? r->catalog.n - SHOWN : 0;
}

/* Width of a column; few versions do not fill the picture. */
static double column_step(const struct report_name *r)
{
    size_t n = r->catalog.n - chart_first(r);

    return (double)(WIDTH - LEFT) / (double)(n > 8 ? n : 8);
}

static void column_label(const struct chart *c, const struct report_name *r, size_t i, double x)
{
    size_t first = chart_first(r);

    if ((i - first) % ((r->catalog.n - first) / 12 + 1) == 0)
        (void)fprintf(c->out,
                      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%" PRId64 "</text>\n", x,
                      c->height - 10, r->catalog.v[i].version);
}

static void chart_column(const struct chart *c, const char *class, double x, double width,
                         double value)
{
    double height = c->most > 0 ? (c->height - BOTTOM - 12) * value / c->most : 0;

    (void)fprintf(c->out,
                  "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                  class, x, c->height - BOTTOM - height, width, height);
}

void crn_chart_sizes(FILE *out, const struct report_name *r)
{
    struct chart c = {.out = out, .height = HEIGHT, .is_binary = 1, .label = label_bytes};
    double step = column_step(r);
    size_t i, first = chart_first(r);

    for (i = first; i < r->catalog.n; i++) {
        double data = (double)r->catalog.v[i].data_bytes;
        double stored = (double)r->catalog.v[i].file_bytes;

        c.most = data > c.most ? data : c.most;
        c.most = stored > c.most ? stored : c.most;
    }
    chart_round(&c);
    chart_begin(&c, "Sizes of the versions", r->name);
    chart_levels(&c);
    for (i = first; i < r->catalog.n; i++) {
        const struct crn_version_entry *e = &r->catalog.v[i];
        double x = LEFT + step * (double)(i - first);

        (void)fprintf(out,
                      "<g><title>%s@%" PRId64 ": %" PRIu64 " bytes, %" PRIu64 " stored</title>",
                      r->name, e->version, e->data_bytes, e->file_bytes);
        chart_column(&c, "s1", x + step * 0.1, step * 0.38, (double)e->data_bytes);
        chart_column(&c, "s2", x + step * 0.5, step * 0.38, (double)e->file_bytes);
        (void)fputs("</g>\n", out);
        column_label(&c, r, i, x + step / 2);
    }
    chart_end(&c);
}

void crn_chart_ratios(FILE *out, const struct report_name *r)
{
    struct chart c = {.out = out, .height = HEIGHT * 2 / 3, .most = 1, .label = label_number};
    double step = column_step(r);
    size_t i, first = chart_first(r);

    for (i = first; i < r->catalog.n; i++) {
        double ratio = crn_report_ratio(&r->catalog.v[i]);

        c.most = ratio > c.most ? ratio : c.most;
    }
    chart_round(&c);
    chart_begin(&c, "Ratio of data to stored bytes over the versions", r->name);
    chart_levels(&c);
    for (i = first; i < r->catalog.n; i++) {
        double x = LEFT + step * ((double)(i - first) + 0.5);
        double ratio = crn_report_ratio(&r->catalog.v[i]);

        (void)fprintf(out,
                      "<circle class=\"s3\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s@%" PRId64
                      ": ratio %.3g</title></circle>\n",
                      x, c.height - BOTTOM - (c.height - BOTTOM - 12) * ratio / c.most, r->name,
                      r->catalog.v[i].version, ratio);
        column_label(&c, r, i, x);
    }
    chart_end(&c);
}

/* One part of a bar; returns where it ends. */
static double chart_bar(const struct chart *c, const char *class, double x, double y, double height,
                        double value)
{
    double width = c->most > 0 ? (WIDTH - LEFT - RIGHT) * value / c->most : 0;

    (void)fprintf(c->out,
                  "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                  class, x, y, width, height);
    return x + width;
}

static void bar_texts(const struct chart *c, const char *before, double y, double end, double value)
{
    char text[40];

    c->label(value, text, sizeof(text));
    (void)fprintf(c->out,
                  "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
                  "<text x=\"%.1f\" y=\"%.1f\">%s</text></g>\n",
                  LEFT - 8, y, before, end + 6, y, text);
}

void crn_chart_stages(FILE *out, const struct report_name *r)
{
    struct chart c = {.out = out, .label = label_seconds};
    char before[32];
    size_t i, n = 0;
    int row = 0;

    for (i = r->catalog.n; i-- > 0 && n < ROWS;) {
        const struct report_times *t = &r->times[i];
        double sum = t->waited_s + t->written_s + t->commit_s;

        n += (size_t)t->is_known;
        c.most = sum > c.most ? sum : c.most;
    }
    c.height = (int)n * ROW + 32;
    chart_round(&c);
    chart_begin(&c, "Stages from capture to commit", r->name);
    chart_scale(&c);
    for (i = r->catalog.n; i-- > 0 && (size_t)row < n;) {
        const struct report_times *t = &r->times[i];
        double end, y = row * ROW + 3;

        if (!t->is_known)
            continue;
        row++;
        (void)fprintf(out,
                      "<g><title>version %" PRId64 ": waited %.6g s, written in %.6g s, "
                      "committed in %.6g s</title>",
                      r->catalog.v[i].version, t->waited_s, t->written_s, t->commit_s);
        end = chart_bar(&c, "s1", LEFT, y, ROW - 6, t->waited_s);
        end = chart_bar(&c, "s2", end, y, ROW - 6, t->written_s);
        end = chart_bar(&c, "s3", end, y, ROW - 6, t->commit_s);
        (void)snprintf(before, sizeof(before), "%" PRId64, r->catalog.v[i].version);
        bar_texts(&c, before, y + 11, end, t->waited_s + t->written_s + t->commit_s);
    }
    chart_end(&c);
}

/* When each version was captured and when it was persistent, on the clock of the run. A bar is at least
 * two pixels wide. */
void crn_chart_timeline(FILE *out, const struct report_name *r)
{
    struct chart c = {.out = out, .label = label_seconds};
    uint64_t begin = UINT64_MAX;
    char before[32];
    size_t i, n = 0, first = 0;

    for (i = r->catalog.n; i-- > 0 && n < ROWS;) {
        const struct crn_version_entry *e = &r->catalog.v[i];

        if (e->state != CRN_VERSION_OK || e->created_ns == 0)
            continue;
        n++;
        first = i;
        begin = e->created_ns < begin ? e->created_ns : begin;
    }
    for (i = first; i < r->catalog.n; i++) {
        double end = (double)r->catalog.v[i].committed_ns - (double)begin;

        c.most = end * 1e-9 > c.most ? end * 1e-9 : c.most;
    }
    c.height = (int)n * ROW + 32;
    chart_round(&c);
    chart_begin(&c, "Times of captures and commits", r->name);
    chart_scale(&c);
    for (i = r->catalog.n, n = 0; i-- > first;) {
        const struct crn_version_entry *e = &r->catalog.v[i];
        double from = ((double)e->created_ns - (double)begin) * 1e-9;
        double took = ((double)e->committed_ns - (double)e->created_ns) * 1e-9;
        double least = 2 * c.most / (WIDTH - LEFT - RIGHT);
        double y = (double)n * ROW + 3, end;

        if (e->state != CRN_VERSION_OK || e->created_ns == 0)
            continue;
        n++;
        (void)fprintf(out,
                      "<g><title>version %" PRId64 ": captured after %.6g s, persistent %.6g s "
                      "later</title>",
                      e->version, from, took);
        end = chart_bar(&c, "s1", LEFT + (WIDTH - LEFT - RIGHT) * from / c.most, y, ROW - 6,
                        took > least ? took : least);
        (void)snprintf(before, sizeof(before), "%" PRId64, e->version);
        bar_texts(&c, before, y + 11, end, took > 0 ? took : 0);
    }
    chart_end(&c);
}

static int leader_height(const struct crn_flush_stats *s)
{
    return ROW + 5 * (int)s->nwriters;
}

static void chart_leader(const struct chart *c, const struct cli_leader *l, double y)
{
    char before[48];
    double end;
    uint32_t w;

    (void)fprintf(c->out, "<g><title>node %" PRIu32 ", %s: %.6g bytes/s</title>", l->s.node,
                  l->file, crn_report_leader_rate(&l->s));
    end = chart_bar(c, "s1", LEFT, y, ROW - 6, crn_report_leader_rate(&l->s));
    for (w = 0; w < l->s.nwriters; w++)
        (void)chart_bar(c, "s2", LEFT, y + ROW - 5 + 5 * w, 4,
                        crn_report_writer_rate(&l->s.writer[w]));
    (void)snprintf(before, sizeof(before), "%snode %" PRIu32, l->is_assistant ? "+ " : "",
                   l->s.node);
    bar_texts(c, before, y + 11, end, crn_report_leader_rate(&l->s));
}

void crn_chart_leaders(FILE *out, const struct report_name *r)
{
    struct chart c = {.out = out, .height = 32, .is_binary = 1, .label = label_rate};
    double y = 3;
    size_t i, n = r->flush.n < ROWS ? r->flush.n : ROWS;
    uint32_t w;

    for (i = 0; i < n; i++) {
        const struct crn_flush_stats *s = &r->flush.leader[i].s;
        double rate = crn_report_leader_rate(s);

        c.height += leader_height(s);
        c.most = rate > c.most ? rate : c.most;
        for (w = 0; w < s->nwriters; w++) {
            rate = crn_report_writer_rate(&s->writer[w]);
            c.most = rate > c.most ? rate : c.most;
        }
    }
    chart_round(&c);
    chart_begin(&c, "Bandwidth of leaders and writers", r->name);
    chart_scale(&c);
    for (i = 0; i < n; i++) {
        chart_leader(&c, &r->flush.leader[i], y);
        y += leader_height(&r->flush.leader[i].s);
    }
    chart_end(&c);
}
