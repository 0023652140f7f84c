/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a large job takes to write and to read a checkpoint (figures 10 to 13 of Islam et al.,
 * SC 2012): the I/O alone over the number of processes, with and without compression and
 * aggregation, and the phases of a checkpoint and of a restart. Ratios and speeds of the codecs are
 * measured here, on computed data. The file system is a model: a bandwidth that all writers share,
 * a limit for each, and a time for each file that is made or opened. */
#include <math.h>

#include "cli/plot_encode.h"

#define PROCESS_BYTES 80e6  /* a checkpoint of one process */
#define TOTAL_BPS     10e9  /* of the file system */
#define WRITER_BPS    400e6 /* of one writer or reader */
#define FILES_PER_S   5000.0
#define FETCH_BPS     100e6 /* of one process whose data is sent to another node */
#define GROUP         PLOTTED_RANKS
#define MOST          16384

/* What a checkpoint is written as. */
struct way {
    const char *label;
    struct plotted_method method; /* label NULL: not compressed */
    int is_merged;                /* one file for GROUP processes; otherwise one for each */
};

static const struct way ways[] = {
    {"raw", {NULL, CRN_AGNOSTIC, NULL}, 0},
    {"gzip", {"gzip", CRN_AGNOSTIC, "gzip:6"}, 0},
    {"merged", {NULL, CRN_AGNOSTIC, NULL}, 1},
    {"agnostic", {"agnostic", CRN_AGNOSTIC, "gzip:6"}, 1},
    {"aware", {"aware", CRN_AWARE, "paper"}, 1},
    {"adaptive", {"adaptive", CRN_AWARE, NULL}, 1},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Bytes that a byte of data becomes, and the time of a core for it. */
struct cost {
    double share, encode_s, decode_s;
};

static cairn_err measure_way(const struct plotted_data *d, const struct way *w, struct cost *ret,
                             struct crn_errinfo *ei)
{
    struct plotted_result r;
    cairn_err rc;

    *ret = (struct cost){.share = 1};
    if (w->method.label == NULL)
        return CAIRN_OK;
    rc = crn_plotted_measure(d, &w->method, w->is_merged ? GROUP : 1, 0, &r, ei);
    if (rc == CAIRN_OK)
        *ret = (struct cost){.share = (double)r.out / (double)r.in,
                             .encode_s = r.encode_s / (double)r.in,
                             .decode_s = r.decode_s / (double)r.in};
    return rc;
}

static double io_seconds(const struct way *w, const struct cost *c, double processes)
{
    double files = w->is_merged ? ceil(processes / GROUP) : processes;
    double bytes = PROCESS_BYTES * processes * c->share;

    return fmax(bytes / TOTAL_BPS, bytes / files / WRITER_BPS) + files / FILES_PER_S;
}

/* Processes of a group compress one after the other on one core where they are merged. */
static double cpu_seconds_of(const struct way *w, double per_byte)
{
    return per_byte * PROCESS_BYTES * (w->is_merged ? GROUP : 1);
}

static double network_seconds(const struct way *w)
{
    return w->is_merged ? PROCESS_BYTES / FETCH_BPS : 0;
}

static void put_data(FILE *out, const struct cost *cost)
{
    unsigned processes;
    int i;

    (void)fprintf(out, "# processes, seconds of the I/O of each way\n");
    for (processes = 32; processes <= MOST; processes *= 2) {
        (void)fprintf(out, "%u", processes);
        for (i = 0; i < WAYS; i++)
            (void)fprintf(out, " %.4f", io_seconds(&ways[i], &cost[i], processes));
        (void)fprintf(out, "\n");
    }
    (void)fprintf(out, "\n\n# way, checkpoint: network, CPU, file system; restart: the same\n");
    for (i = 0; i < WAYS; i++) {
        double io = io_seconds(&ways[i], &cost[i], MOST);

        (void)fprintf(out, "\"%s\" %.4f %.4f %.4f %.4f %.4f %.4f\n", ways[i].label,
                      network_seconds(&ways[i]), cpu_seconds_of(&ways[i], cost[i].encode_s), io,
                      network_seconds(&ways[i]), cpu_seconds_of(&ways[i], cost[i].decode_s), io);
    }
}

static void put_lines(FILE *out, const char *title, int first, int last)
{
    static const char *const labels[WAYS] = {"one file a process",
                                             "gzip, one file a process",
                                             "merged",
                                             "agnostic",
                                             "aware",
                                             "adaptive"};
    int i;

    (void)fprintf(out, "set title '%s'\nplot", title);
    for (i = first; i <= last; i++)
        (void)fprintf(out, "%s 'encode-io.dat' index 0 using 1:%d title '%s'", i > first ? "," : "",
                      i + 2, labels[i]);
    (void)fprintf(out, "\n");
}

static void put_bars(FILE *out, const char *title, int column, const char *cpu)
{
    (void)fprintf(out,
                  "set title '%s'\n"
                  "plot 'encode-io.dat' index 1 using %d:xtic(1) title 'network', "
                  "'' index 1 using %d title '%s', '' index 1 using %d title 'file system'\n",
                  title, column, column + 1, cpu, column + 2);
}

static void put_script(FILE *out)
{
    (void)fprintf(out, "set multiplot layout 2,2\nset ylabel 'time (s)'\n"
                       "set key tmargin center horizontal maxcols 2 samplen 2\n"
                       "set xlabel 'processes'\nset logscale x 2\nset logscale y\n"
                       "set style data linespoints\n");
    put_lines(out, "I/O of aggregated checkpoints", 2, WAYS - 1);
    put_lines(out, "I/O with and without aggregation", 0, 3);
    (void)fprintf(out, "set key maxcols 3\nunset xlabel\nunset logscale xy\nset yrange [0:*]\nset "
                       "style data histograms\n"
                       "set style histogram rowstacked\nset boxwidth 0.6\n"
                       "set style fill solid 0.7\n");
    put_bars(out, "checkpoint of 16384 processes", 2, "merge and encode");
    put_bars(out, "restart of 16384 processes", 5, "decode");
    (void)fprintf(out, "unset multiplot\n");
}

int crn_plot_encode_io(struct plot *p, const struct plotted_data *d)
{
    struct cost cost[WAYS];
    cairn_err rc = CAIRN_OK;
    int i;

    for (i = 0; rc == CAIRN_OK && i < WAYS; i++)
        rc = measure_way(d, &ways[i], &cost[i], p->cli->ei);
    p->width = 1200;
    p->height = 900;
    if (rc == CAIRN_OK)
        rc = crn_plot_begin(p, "encode-io", p->cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(p->cli);
    put_data(p->data, cost);
    put_script(p->script);
    return crn_plot_end(p);
}
