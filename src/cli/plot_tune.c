/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of the paper on multi-threaded aggregated I/O, from our own measurements: medians
 * with whiskers from the slowest to the fastest run. Each block of the data file is one curve. */
#include "cli/plot_tune.h"

static const char *const colors[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"};
#define NCOLORS (sizeof(colors) / sizeof(colors[0]))

/* Which measurements form a curve, their x value, and the curve's name. */
struct plot_tune_figure {
    enum crn_stage stage;
    const char *name, *title, *xlabel, *more; /* more: lines of the script */
    int (*same)(const struct crn_probe *a, const struct crn_probe *b);
    double (*x)(const struct crn_probe *p);
    void (*label)(const struct crn_probe *p, char *buf, size_t size);
};

static int same_files_layout(const struct crn_probe *a, const struct crn_probe *b)
{
    return a->files == b->files && a->layout == b->layout;
}

static int same_method(const struct crn_probe *a, const struct crn_probe *b)
{
    return a->method == b->method;
}

static int plot_tune_same(const struct crn_probe *a, const struct crn_probe *b)
{
    (void)a;
    (void)b;
    return 1;
}

static double plot_tune_writers(const struct crn_probe *p)
{
    return p->writers;
}

static double plot_tune_block(const struct crn_probe *p)
{
    return (double)p->block_bytes / 0x1p20;
}

static double plot_tune_received(const struct crn_probe *p)
{
    return p->received;
}

static void files_label(const struct crn_probe *p, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%u file%s, %s", p->files, p->files > 1 ? "s" : "",
                   crn_layout_name(p->layout));
}

static void method_label(const struct crn_probe *p, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%s", crn_method_name(p->method));
}

static void setting_label(const struct crn_probe *p, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%u writers, %u file%s, %s", p->writers, p->files,
                   p->files > 1 ? "s" : "", crn_method_name(p->method));
}

static const struct plot_tune_figure figures[] = {
    {CRN_STAGE_THREADS, "tune-threads", "Writer threads, files and layout", "writer threads",
     "set logscale x 2\nset xrange [0.9:18]\n", same_files_layout, plot_tune_writers, files_label},
    {CRN_STAGE_METHODS, "tune-methods", "Ways to write", "writer threads",
     "set logscale x 2\nset xrange [0.9:18]\n", same_method, plot_tune_writers, method_label},
    {CRN_STAGE_BLOCKS, "tune-blocks", "Size of a block", "block in MiB", "set logscale x 2\n",
     plot_tune_same, plot_tune_block, setting_label},
    {CRN_STAGE_RECEIVED, "tune-received", "Received data beside local data",
     "percent of the bytes that were received", "set xrange [-5:100]\n", plot_tune_same,
     plot_tune_received, setting_label},
};
#define NFIGURES (sizeof(figures) / sizeof(figures[0]))

static int is_in(const struct plot_tune_figure *f, const struct crn_measure *m)
{
    return m->stage == f->stage && m->n > 0;
}

/* The block of m's curve; 0 if an earlier measurement has started it. */
static int begins_curve(const struct plot_tune_figure *f, const struct crn_tuning *t, size_t i)
{
    size_t k;

    for (k = 0; k < i; k++)
        if (is_in(f, &t->m[k]) && f->same(&t->m[k].probe, &t->m[i].probe))
            return 0;
    return is_in(f, &t->m[i]);
}

static void put_curve(struct plot *p, const struct plot_tune_figure *f, const struct crn_tuning *t,
                      size_t i)
{
    size_t k;

    (void)fprintf(p->data, "# x median min max, GiB/s\n");
    for (k = i; k < t->n; k++) {
        const struct crn_measure *m = &t->m[k];

        if (is_in(f, m) && f->same(&m->probe, &t->m[i].probe))
            (void)fprintf(p->data, "%g %.5f %.5f %.5f\n", f->x(&m->probe), m->median / 0x1p30,
                          m->min / 0x1p30, m->max / 0x1p30);
    }
    (void)fprintf(p->data, "\n\n");
}

static int plot_tune_draw(struct plot *p, const struct plot_tune_figure *f,
                          const struct crn_tuning *t)
{
    unsigned curves = 0;
    size_t i;

    if (crn_plot_begin(p, f->name, p->cli->ei) != CAIRN_OK)
        return crn_cli_fail(p->cli);
    (void)fprintf(p->script,
                  "set title '%s'\nset xlabel '%s'\nset ylabel 'GiB/s, durable'\n"
                  "set yrange [0:*]\nset key outside right top Left reverse\n%splot",
                  f->title, f->xlabel, f->more);
    for (i = 0; i < t->n; i++) {
        char label[64];

        if (!begins_curve(f, t, i))
            continue;
        f->label(&t->m[i].probe, label, sizeof(label));
        put_curve(p, f, t, i);
        (void)fprintf(p->script,
                      "%s '%s.dat' index %u using 1:2:3:4 with yerrorlines lw 2 dt %s pt 7 ps 0.6 "
                      "lc rgb '%s' title '%s'",
                      curves > 0 ? ", \\\n    " : "", f->name, curves,
                      t->m[i].probe.layout == CRN_CONTIGUOUS ? "'-'" : "solid",
                      colors[(f->stage == CRN_STAGE_THREADS ? curves / 2 : curves) % NCOLORS],
                      label);
        curves++;
    }
    (void)fprintf(p->script, "\n");
    if (curves > 0)
        return crn_plot_end(p);
    crn_plot_drop(p); /* the limits left no measurement of this stage */
    return CLI_OK;
}

int crn_plot_tuning(struct plot *p, const struct crn_tuning *t)
{
    int status = CLI_OK;
    size_t i;

    for (i = 0; i < NFIGURES && status == CLI_OK; i++)
        status = plot_tune_draw(p, &figures[i], t);
    return status;
}
