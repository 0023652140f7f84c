/* SPDX-License-Identifier: BSD-3-Clause */
/* How a version was flushed (figures 7 to 9 of Gossman et al., FGCS 2024): all leaders, the
 * writer threads of the fastest and the slowest leader, and the timeline of the slowest. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/flush_stats.h"
#include "cli/plot.h"

#define SHOWN 16 /* leaders, at most: the fastest, the slowest and some between them */

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct cli_leader *)a)->s.total_ns;
    int64_t y = ((const struct cli_leader *)b)->s.total_ns;

    return x < y ? -1 : x > y;
}

static void put_leaders(FILE *out, const struct cli_flush *f)
{
    size_t shown = f->n < SHOWN ? f->n : SHOWN;
    size_t i;

    (void)fprintf(out, "# leaders: number node received_s local_s fsync_s total_s received_MB/s "
                       "local_MB/s\n");
    for (i = 0; i < shown; i++) {
        const struct crn_flush_stats *s =
            &f->leader[shown > 1 ? i * (f->n - 1) / (shown - 1) : 0].s;
        double received_s = crn_flush_stats_received_s(s);
        double local_s = crn_flush_stats_local_s(s);

        (void)fprintf(out, "%zu %" PRIu32 " %.6g %.6g %.6g %.6g %.0f %.0f\n", i, s->node,
                      received_s, local_s, (double)s->finish_ns * 1e-9, (double)s->total_ns * 1e-9,
                      received_s > 0 ? (double)crn_stats_received(s).bytes / received_s * 1e-6 : 0,
                      local_s > 0 ? (double)crn_stats_local(s).bytes / local_s * 1e-6 : 0);
    }
    (void)fprintf(out, "\n\n");
}

static void put_writers(FILE *out, const struct crn_flush_stats *s, const char *which)
{
    uint32_t w;

    (void)fprintf(out, "# writers of the %s: number received_s local_s all_s\n", which);
    for (w = 0; w < s->nwriters; w++)
        (void)fprintf(out, "%" PRIu32 " %.6g %.6g %.6g\n", w,
                      (double)s->writer[w].received.sum.ns * 1e-9,
                      (double)s->writer[w].local.sum.ns * 1e-9, (double)s->write_ns * 1e-9);
    (void)fprintf(out, "\n\n");
}

static void put_spans(FILE *out, const struct crn_timeline *t, uint32_t row)
{
    uint32_t i;

    for (i = 0; i < t->nspans; i++)
        (void)fprintf(out, "%" PRIu32 " %.9g %.9g %" PRIu64 "\n", row,
                      (double)t->span[i].start_ns * 1e-9, (double)t->span[i].end_ns * 1e-9,
                      t->span[i].bytes);
    if (t->nspans == 0)
        (void)fprintf(out, "NaN NaN NaN NaN\n"); /* gnuplot wants a line */
}

/* Four blocks: sends, receives, writes of received and of local data. Row 0: sends, 1: receives,
 * then the writers. */
static void put_timeline(FILE *out, const struct crn_flush_stats *s)
{
    uint32_t w;

    (void)fprintf(out, "# sends: row start_s end_s bytes\n");
    put_spans(out, &s->send, 0);
    (void)fprintf(out, "\n\n# receives\n");
    put_spans(out, &s->receive, 1);
    (void)fprintf(out, "\n\n# received data written\n");
    for (w = 0; w < s->nwriters; w++)
        put_spans(out, &s->writer[w].received, 2 + w);
    (void)fprintf(out, "\n\n# local data written\n");
    for (w = 0; w < s->nwriters; w++)
        put_spans(out, &s->writer[w].local, 2 + w);
    (void)fprintf(out, "\n\n# index and fsync\n2 %.9g %.9g 0\n", (double)s->write_ns * 1e-9,
                  (double)s->total_ns * 1e-9);
}

#define ORANGE "'#E69F00'"
#define BLUE   "'#0072B2'"
#define GREEN  "'#009E73'"
#define GREY   "'#999999'"
#define PINK   "'#CC79A7'"
#define BAR    " with boxes fs solid 0.85 noborder lc rgb "
#define LINE   " with vectors nohead lw 3 lc rgb " GREEN " "
#define SPAN                                                                                       \
    " using ($2*k):1:($2*k):($3*k):($1-0.38):($1+0.38) with boxxyerror fs solid border -1 lw 0.5 " \
    "fc rgb "

/* k and unit: seconds or milliseconds. A bar has its rate inside if it is high enough for a line. */
static const char leaders_script[] =
    "set key at graph 1,1.13 right top horizontal maxrows 1 samplen 1\n"
    "set boxwidth 0.7\n"
    "set style fill solid\n"
    "set yrange [0:*]\n"
    "set multiplot layout 3,1 margins 0.12,0.97,0.07,0.93 spacing 0.13\n"
    "stats 'flush.dat' index 0 using 6 nooutput name 'total'\n"
    "k = total_max < 1 ? 1000. : 1.\n"
    "unit = total_max < 1 ? 'ms' : 's'\n"
    "set label 1 'leaders' at graph 0,1.2 font ',13'\n"
    "set xlabel 'leader (node)' offset 0,0.5\n"
    "set ylabel 'time ('.unit.')'\n"
    "rate(s,r) = s > 0.07*total_max ? sprintf('%g MB/s',r) : ''\n"
    "if (total_records < 4) { set xrange [-2:total_records+1] }\n"
    "plot 'flush.dat' index 0 using 1:(($3+$4+$5)*k):xtic(2)" BAR GREY " title 'index, fsync', \\\n"
    "  '' index 0 using 1:(($3+$4)*k)" BAR BLUE " title 'local data', \\\n"
    "  '' index 0 using 1:($3*k)" BAR ORANGE " title 'received data', \\\n"
    "  '' index 0 using 1:($3*k/2):(rate($3,$7)) with labels notitle, \\\n"
    "  '' index 0 using 1:(($3+$4/2)*k):(rate($4,$8)) with labels tc rgb 'white' notitle, \\\n"
    "  '' index 0 using 1:($6*k) with points pt 2 ps 1 lc rgb 'black' title 'all of it', \\\n"
    "  total_mean*k with lines dt 3 lw 2 lc rgb 'black' title 'average'\n";

/* One leader: its threads once. */
static void put_writers_script_one(FILE *out, const struct crn_flush_stats *s)
{
    (void)fprintf(out,
                  "set label 1 'threads of node %" PRIu32 "' font ',13'\n"
                  "set xlabel 'thread' offset 0,0.5\n"
                  "set xrange [-2:%" PRIu32 "]\n"
                  "plot 'flush.dat' index 1 using 1:(($2+$3)*k):xtic(1)" BAR BLUE
                  " title 'local data', \\\n"
                  "  '' index 1 using 1:($2*k)" BAR ORANGE " title 'received data', \\\n"
                  "  '' index 1 using ($1-0.5):($4*k):(1):(0)" LINE "title 'all threads'\n",
                  s->node, s->nwriters + 1);
}

static void put_writers_script(FILE *out, const struct crn_flush_stats *fast,
                               const struct crn_flush_stats *slow)
{
    (void)fputs("set xrange [*:*]\n", out);
    if (fast == slow) {
        put_writers_script_one(out, fast);
        return;
    }
    (void)fprintf(
        out,
        "set label 1 'threads of nodes %" PRIu32 " (the fastest) and %" PRIu32 "' font ',13'\n"
        "set xlabel 'thread' offset 0,0.5\n"
        "gap = %" PRIu32 "\n"
        "plot 'flush.dat' index 1 using 1:(($2+$3)*k):xtic(1)" BAR BLUE " title 'local data', \\\n"
        "  '' index 1 using 1:($2*k)" BAR ORANGE " title 'received data', \\\n"
        "  '' index 2 using ($1+gap):(($2+$3)*k):xtic(1)" BAR BLUE " notitle, \\\n"
        "  '' index 2 using ($1+gap):($2*k)" BAR ORANGE " notitle, \\\n"
        "  '' index 1 using ($1-0.5):($4*k):(1):(0)" LINE "title 'all threads', \\\n"
        "  '' index 2 using ($1+gap-0.5):($4*k):(1):(0)" LINE "notitle\n",
        fast->node, slow->node, fast->nwriters + 1);
}

static void put_timeline_script(FILE *out, const struct crn_flush_stats *s)
{
    uint32_t w;

    (void)fprintf(out,
                  "set label 1 'timeline of the slowest (node %" PRIu32 ")' font ',13'\n"
                  "set xlabel 'time ('.unit.')' offset 0,0.5\n"
                  "unset ylabel\n"
                  "set xrange [0:*]\n"
                  "set yrange [-0.6:%" PRIu32 ".6]\n"
                  "set xtics auto\n"
                  "set ytics ('sends' 0, 'receives' 1",
                  s->node, s->nwriters + 1);
    for (w = 0; w < s->nwriters; w++)
        (void)fprintf(out, ", 'writer %" PRIu32 "' %" PRIu32, w, w + 2);
    (void)fprintf(out, ")\n"
                       "plot 'flush.dat' index 3" SPAN PINK " notitle, \\\n"
                       "  '' index 4" SPAN GREEN " notitle, \\\n"
                       "  '' index 5" SPAN ORANGE " title 'received data', \\\n"
                       "  '' index 6" SPAN BLUE " title 'local data', \\\n"
                       "  '' index 7" SPAN GREY " title 'index, fsync'\n"
                       "unset multiplot\n");
}

/* Leaders are sorted, the fastest first. */
static void plot_flush_draw(struct plot *p, const struct cli_flush *f)
{
    const struct crn_flush_stats *fast = &f->leader[0].s;
    const struct crn_flush_stats *slow = &f->leader[f->n - 1].s;

    put_leaders(p->data, f);
    put_writers(p->data, fast, "fastest");
    put_writers(p->data, slow, "slowest");
    put_timeline(p->data, slow);
    (void)fputs(leaders_script, p->script);
    put_writers_script(p->script, fast, slow);
    put_timeline_script(p->script, slow);
}

int crn_plot_flush(struct plot *p, int argc, char **argv)
{
    struct cli *cli = p->cli;
    struct crn_manifest m = {0};
    struct cli_flush f = {0};
    struct cli_target t;
    cairn_err rc;

    if (argc != 2)
        return crn_cli_usage(cli, "plot flush needs one checkpoint");
    rc = crn_store_open(crn_fs_default(), cli->cfg.persistent, 0, &cli->store, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    rc = crn_cli_pick(&cli->store, argv[1], &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_store_manifest(&cli->store, t.name, t.version, &m, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_flush_load(&cli->store, &m, &f, cli->ei);
    crn_store_close(&cli->store);
    crn_manifest_free(&m);
    p->height = 1000;
    if (rc == CAIRN_OK)
        rc = crn_plot_begin(p, "flush", cli->ei);
    if (rc == CAIRN_OK) {
        qsort(f.leader, f.n, sizeof(*f.leader), by_time);
        plot_flush_draw(p, &f);
    }
    crn_cli_flush_free(&f);
    return rc == CAIRN_OK ? crn_plot_end(p) : crn_cli_fail(cli);
}
