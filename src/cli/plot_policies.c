/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures 1 to 4 of Herault et al., APDCM 2018, from our simulator, including our own strategies
 * and the lower bounds. Each strategy is a block of the data file. A style belongs to a
 * strategy, not to a figure: one colour per policy, dashes for a fixed period. */
#include "cli/plot.h"

#include <math.h>
#include <string.h>
#include "sim/montecarlo.h"

struct style {
    const char *strategy, *label, *color;
    int dash, point;
};

static const struct style styles[] = {
    {"oblivious-fixed", "Oblivious, fixed", "#D55E00", 2, 4},
    {"oblivious-daly", "Oblivious, Daly", "#D55E00", 1, 5},
    {"ordered-fixed", "Ordered, fixed", "#E69F00", 2, 8},
    {"ordered-daly", "Ordered, Daly", "#E69F00", 1, 9},
    {"ordered-nb-fixed", "Ordered-NB, fixed", "#56B4E9", 2, 6},
    {"ordered-nb-daly", "Ordered-NB, Daly", "#56B4E9", 1, 7},
    {"least-waste", "Least-Waste", "#0072B2", 1, 13},
    {"delay-cost", "Delay-Cost", "#009E73", 1, 11},
    {"delay-cost-async", "Delay-Cost, background", "#CC79A7", 1, 3},
    {"delay-cost-newest", "Delay-Cost, newest capture", "#CC79A7", 2, 2},
};
#define NSTYLES     (sizeof(styles) / sizeof(styles[0]))
#define MOST_POINTS 16

struct plot_policies_figure {
    struct plot *plot;
    struct crn_platform platform;
    struct crn_montecarlo mc;
    struct cli_progress progress;
    double bound[2]
                [MOST_POINTS]; /* in the foreground, in the background: the least of all curves */
};

static void on_progress(void *arg, uint64_t runs)
{
    crn_progress_add(arg, runs);
}

/* points: the number of summaries to come. */
static cairn_err figure_begin(struct plot_policies_figure *f, struct plot *p, const char *name,
                              const char *platform, uint64_t runs, uint64_t points)
{
    cairn_err rc;

    memset(f, 0, sizeof(*f));
    rc = crn_platform_load(platform, &f->platform, p->cli->ei);
    f->plot = p;
    f->mc = (struct crn_montecarlo){.runs = p->runs > 0 ? p->runs : runs,
                                    .first_seed = p->seed,
                                    .model = crn_model_defaults,
                                    .progress = on_progress,
                                    .progress_arg = &f->progress};
    if (rc == CAIRN_OK)
        rc = crn_plot_begin(p, name, p->cli->ei);
    if (rc == CAIRN_OK)
        crn_progress_begin_count(&f->progress, p->cli, name, f->mc.runs * points);
    return rc;
}

static int figure_end(struct plot_policies_figure *f, cairn_err rc)
{
    crn_progress_end(&f->progress);
    if (rc == CAIRN_OK)
        return crn_plot_end(f->plot);
    crn_plot_drop(f->plot);
    return crn_cli_fail(f->plot->cli);
}

/* Simulates a strategy at point i of the figure, and notes the bound for its jobs. */
static cairn_err plot_policies_summary(struct plot_policies_figure *f, const char *strategy,
                                       size_t i, struct crn_summary *ret)
{
    struct crn_errinfo *ei = f->plot->cli->ei;
    struct crn_strategy s;
    cairn_err rc = crn_strategy_parse(strategy, &s, ei);
    double bound;

    if (rc == CAIRN_OK)
        rc = crn_montecarlo(&f->platform, &s, &f->mc, ret, NULL, ei);
    if (rc != CAIRN_OK)
        return rc;
    bound = crn_montecarlo_bound(&f->platform, ret, &s, &f->mc.model);
    if (f->bound[s.is_async][i] <= 0 || bound < f->bound[s.is_async][i])
        f->bound[s.is_async][i] = bound;
    return CAIRN_OK;
}

static void line_styles(FILE *out)
{
    size_t i;

    for (i = 0; i < NSTYLES; i++)
        (void)fprintf(out, "set style line %zu lc rgb '%s' lw 2 dt %s pt %d ps 0.8\n", i + 1,
                      styles[i].color, styles[i].dash == 1 ? "solid" : "'-'", styles[i].point);
    (void)fprintf(out, "set style line 100 lc rgb '#000000' lw 2 dt solid\n"
                       "set style line 101 lc rgb '#000000' lw 2 dt '.'\n"
                       "set style line 102 lc rgb '#CC79A7' lw 2 dt '.'\n");
}

/* Waste: a curve through the means, boxes for the quartiles and whiskers for the deciles. ------ */

static cairn_err waste_block(struct plot_policies_figure *f, const struct style *style,
                             const double *x, size_t n, void (*set)(struct crn_platform *, double))
{
    size_t i;

    (void)fprintf(f->plot->data, "# %s: x mean p10 p25 p75 p90 stderr\n", style->strategy);
    for (i = 0; i < n; i++) {
        struct crn_summary s;
        cairn_err rc;

        set(&f->platform, x[i]);
        rc = plot_policies_summary(f, style->strategy, i, &s);
        if (rc != CAIRN_OK)
            return rc;
        (void)fprintf(f->plot->data, "%g %.6f %.6f %.6f %.6f %.6f %.6f\n", x[i], s.waste.mean,
                      s.waste.p10, s.waste.p25, s.waste.p75, s.waste.p90, s.waste.stderr_mean);
    }
    (void)fprintf(f->plot->data, "\n\n");
    return CAIRN_OK;
}

static void bound_blocks(struct plot_policies_figure *f, const double *x, size_t n,
                         void (*set)(struct crn_platform *, double))
{
    size_t i;

    (void)fprintf(f->plot->data, "# x theorem1 foreground background\n");
    for (i = 0; i < n; i++) {
        struct crn_job_class storage[CRN_PLATFORM_CLASSES];
        struct crn_steady steady;
        struct crn_bound first;

        set(&f->platform, x[i]);
        crn_model_steady(&f->platform, storage, &steady);
        crn_bound_theorem1(&steady, NULL, &first);
        (void)fprintf(f->plot->data, "%g %.6f %.6f %.6f\n", x[i], first.waste, f->bound[0][i],
                      f->bound[1][i]);
    }
}

/* Neighbours are shifted by a factor, so that their boxes do not overlap. */
static void waste_script(struct plot_policies_figure *f, const char *name)
{
    FILE *out = f->plot->script;
    size_t i;

    line_styles(out);
    (void)fprintf(out, "set key outside right center reverse Left samplen 2 spacing 1.25\n"
                       "set yrange [0:1]\nset ytics 0.1\n"
                       "set logscale x\n"
                       "shift(x, i) = x * (1 + 0.008 * (i - 5))\n"
                       "half(x) = 0.0035 * x\n"
                       "plot \\\n");
    for (i = 0; i < NSTYLES; i++) {
        size_t id = i + 1;

        (void)fprintf(out,
                      "  '%s.dat' index %zu using (shift($1,%zu)):2:3:6 with yerrorbars "
                      "lc rgb '%s' lw 1 dt solid pt 0 ps 0 notitle, \\\n"
                      "  '' index %zu using (shift($1,%zu)):2:(shift($1,%zu)-half($1)):"
                      "(shift($1,%zu)+half($1)):4:5 with boxxyerror fs solid 0.5 noborder "
                      "lc rgb '%s' notitle, \\\n",
                      name, i, id, styles[i].color, i, id, id, id, styles[i].color);
    }
    for (i = 0; i < NSTYLES; i++)
        (void)fprintf(out,
                      "  '' index %zu using (shift($1,%zu)):2 with linespoints ls %zu title '%s', "
                      "\\\n",
                      i, i + 1, i + 1, styles[i].label);
    (void)fprintf(out,
                  "  '' index %zu using 1:2 with lines ls 100 title 'theorem 1, first order', \\\n"
                  "  '' index %zu using 1:3 with lines ls 101 title 'bound', \\\n"
                  "  '' index %zu using 1:4 with lines ls 102 title 'bound, background'\n",
                  NSTYLES, NSTYLES, NSTYLES);
}

static int waste_figure(struct plot *p, const char *name, const double *x, size_t n,
                        void (*set)(struct crn_platform *, double), const char *axes)
{
    struct plot_policies_figure f;
    cairn_err rc = figure_begin(&f, p, name, "cielo-paper", 200, n * NSTYLES);
    size_t i;

    if (rc != CAIRN_OK)
        return crn_cli_fail(p->cli);
    for (i = 0; i < NSTYLES && rc == CAIRN_OK; i++)
        rc = waste_block(&f, &styles[i], x, n, set);
    bound_blocks(&f, x, n, set);
    (void)fputs(axes, p->script);
    waste_script(&f, name);
    return figure_end(&f, rc);
}

static void set_bandwidth(struct crn_platform *p, double gigabytes_per_s)
{
    p->bandwidth = gigabytes_per_s * 1e9;
}

int crn_plot_bandwidth(struct plot *p, int argc, char **argv)
{
    static const double x[] = {40, 50, 60, 70, 80, 100, 120, 140, 160};

    (void)argc;
    (void)argv;
    return waste_figure(p, "bandwidth", x, sizeof(x) / sizeof(x[0]), set_bandwidth,
                        "set title 'cielo-paper (17,784 nodes), node MTBF 2 years (system: 1 h)'\n"
                        "set xlabel 'bandwidth of the file system (GB/s)'\n"
                        "set ylabel 'waste (fraction of the work without failures)'\n"
                        "set xrange [38:168]\n"
                        "set xtics (40, 50, 60, 70, 80, 100, 120, 140, 160)\n");
}

static const double year_s = 365.25 * 86400;

/* As in the paper: two years correspond to a system MTBF of one hour. */
static void set_cielo_mtbf(struct crn_platform *p, double years)
{
    p->bandwidth = 40e9;
    p->node_mtbf_s = years / 2 * 3600 * p->nodes;
}

int crn_plot_mtbf(struct plot *p, int argc, char **argv)
{
    static const double x[] = {2, 3, 4, 6, 8, 12, 20, 30, 50};

    (void)argc;
    (void)argv;
    return waste_figure(p, "mtbf", x, sizeof(x) / sizeof(x[0]), set_cielo_mtbf,
                        "set title 'cielo-paper (17,784 nodes), 40 GB/s'\n"
                        "set xlabel 'MTBF of a node (years; 2 years are 1 h for the system)'\n"
                        "set ylabel 'waste (fraction of the work without failures)'\n"
                        "set xrange [1.85:56]\n"
                        "set xtics (2, 3, 4, 6, 8, 12, 20, 30, 50)\n");
}

/* Slowdown of checkpoints. --------------------------------------------------------------------- */

static const double slowdown_years[] = {2, 4, 8, 16, 30, 50};
static const double slowdown_bandwidths[] = {160, 80, 40};
#define NSLOW       4 /* the first styles: the blocking strategies */
#define NYEARS      (sizeof(slowdown_years) / sizeof(slowdown_years[0]))
#define NBANDWIDTHS (sizeof(slowdown_bandwidths) / sizeof(slowdown_bandwidths[0]))

static cairn_err slowdown_block(struct plot_policies_figure *f, const struct style *style,
                                double bandwidth)
{
    size_t i;

    (void)fprintf(f->plot->data, "# %s at %g GB/s: years mean p10 p25 p75 p90\n", style->strategy,
                  bandwidth);
    for (i = 0; i < NYEARS; i++) {
        struct crn_summary s;
        cairn_err rc;

        set_cielo_mtbf(&f->platform, slowdown_years[i]);
        set_bandwidth(&f->platform, bandwidth);
        rc = plot_policies_summary(f, style->strategy, i, &s);
        if (rc != CAIRN_OK)
            return rc;
        (void)fprintf(f->plot->data, "%g %.6f %.6f %.6f %.6f %.6f\n", slowdown_years[i],
                      s.slowdown.mean, s.slowdown.p10, s.slowdown.p25, s.slowdown.p75,
                      s.slowdown.p90);
    }
    (void)fprintf(f->plot->data, "\n\n");
    return CAIRN_OK;
}

static void slowdown_panel(FILE *out, size_t first_block)
{
    size_t i;

    (void)fprintf(out, "plot \\\n");
    for (i = 0; i < NSLOW; i++)
        (void)fprintf(out,
                      "  'slowdown.dat' index %zu using 1:3:6 with filledcurves fs solid 0.15 "
                      "noborder lc rgb '%s' notitle, \\\n",
                      first_block + i, styles[i].color);
    for (i = 0; i < NSLOW; i++)
        (void)fprintf(out,
                      "  'slowdown.dat' index %zu using 1:2 with linespoints ls %zu title '%s'%s\n",
                      first_block + i, i + 1, styles[i].label, i + 1 < NSLOW ? ", \\" : "");
}

static void slowdown_script(FILE *out)
{
    size_t b;

    line_styles(out);
    (void)fprintf(out,
                  "set multiplot layout %zu,1 title 'cielo-paper (17,784 nodes): how much longer a "
                  "checkpoint takes "
                  "from request to commit than alone'\n"
                  "set lmargin 9\nset rmargin 24\n"
                  "set logscale xy\nset xrange [1.85:56]\nset yrange [1:50]\n"
                  "set xtics (2, 4, 8, 16, 30, 50)\nset ytics (1, 2, 5, 10, 20, 50)\n"
                  "set ylabel 'slowdown (factor)'\n"
                  "set key at screen 0.99,0.9 right top reverse Left samplen 2 spacing 1.25\n",
                  NBANDWIDTHS);
    for (b = 0; b < NBANDWIDTHS; b++) {
        (void)fprintf(out, "set label 1 '%g GB/s' at graph 0.98,0.9 right\n",
                      slowdown_bandwidths[b]);
        if (b > 0)
            (void)fprintf(out, "unset key\n");
        if (b + 1 == NBANDWIDTHS)
            (void)fprintf(out, "set xlabel 'MTBF of a node (years; 2 years are 1 h for the "
                               "system)'\n");
        slowdown_panel(out, b * NSLOW);
    }
    (void)fprintf(out, "unset multiplot\n");
}

int crn_plot_slowdown(struct plot *p, int argc, char **argv)
{
    struct plot_policies_figure f;
    cairn_err rc;
    size_t b, i;

    (void)argc;
    (void)argv;
    p->height = 900;
    rc = figure_begin(&f, p, "slowdown", "cielo-paper", 100, NSLOW * NYEARS * NBANDWIDTHS);
    if (rc != CAIRN_OK)
        return crn_cli_fail(p->cli);
    for (b = 0; b < NBANDWIDTHS; b++)
        for (i = 0; i < NSLOW && rc == CAIRN_OK; i++)
            rc = slowdown_block(&f, &styles[i], slowdown_bandwidths[b]);
    slowdown_script(p->script);
    return figure_end(&f, rc);
}

/* Least bandwidth. ----------------------------------------------------------------------------- */

static const double least_years[] = {5, 7, 10, 15, 20, 30, 50};
#define NLEAST (sizeof(least_years) / sizeof(least_years[0]))

/* Starts each search from the last result, which is close. */
static cairn_err least_block(struct plot_policies_figure *f, const char *strategy)
{
    struct crn_errinfo *ei = f->plot->cli->ei;
    struct crn_summary jobs;
    struct crn_strategy s;
    cairn_err rc = crn_strategy_parse(strategy, &s, ei);
    size_t i;

    (void)fprintf(f->plot->data, "# %s: years bytes_per_s\n", strategy);
    for (i = 0; i < NLEAST && rc == CAIRN_OK; i++) {
        double least;

        f->platform.node_mtbf_s = least_years[i] * year_s;
        rc = crn_montecarlo_least_bandwidth(&f->platform, &s, 0.2, &f->mc, &least, ei);
        if (rc != CAIRN_OK || isinf(least))
            continue;
        (void)fprintf(f->plot->data, "%g %.6g\n", least_years[i], least);
        f->platform.bandwidth = least;
        if (strcmp(s.policy->name, "delay-cost") != 0 || s.is_newest)
            continue; /* the jobs that ran differ little: one bound for the foreground, one for
                         the background */
        rc = crn_montecarlo(&f->platform, &s, &f->mc, &jobs, NULL, ei);
        if (rc == CAIRN_OK)
            f->bound[s.is_async][i] =
                crn_montecarlo_least_bandwidth_bound(&f->platform, &jobs, &s, 0.2, &f->mc.model);
    }
    (void)fprintf(f->plot->data, "\n\n");
    return rc;
}

static void least_bounds(struct plot_policies_figure *f)
{
    size_t i;

    (void)fprintf(f->plot->data, "# years theorem1 foreground background\n");
    for (i = 0; i < NLEAST; i++) {
        f->platform.node_mtbf_s = least_years[i] * year_s;
        (void)fprintf(f->plot->data, "%g %.6g %.6g %.6g\n", least_years[i],
                      crn_montecarlo_least_bandwidth_theorem1(&f->platform, 0.2), f->bound[0][i],
                      f->bound[1][i]);
    }
}

static void least_script(FILE *out)
{
    size_t i;

    line_styles(out);
    (void)fprintf(out, "set title 'prospective (50,000 nodes, 7 PB): bandwidth for 80 %% "
                       "efficiency'\n"
                       "set xlabel 'MTBF of a node (years)'\n"
                       "set ylabel 'bandwidth of the file system (TB/s)'\n"
                       "set logscale xy\nset xrange [4.7:53]\n"
                       "set xtics (5, 7, 10, 15, 20, 30, 50)\n"
                       "set ytics (0.1, 0.2, 0.5, 1, 2, 5, 10)\n"
                       "set key outside right center reverse Left samplen 2 spacing 1.25\n"
                       "plot \\\n");
    for (i = 0; i < NSTYLES; i++)
        (void)fprintf(out,
                      "  'least-bandwidth.dat' index %zu using 1:($2/1e12) with linespoints ls %zu "
                      "title '%s', \\\n",
                      i, i + 1, styles[i].label);
    (void)fprintf(
        out,
        "  '' index %zu using 1:($2/1e12) with lines ls 100 title 'theorem 1, first order', \\\n"
        "  '' index %zu using 1:($3/1e12) with lines ls 101 title 'bound', \\\n"
        "  '' index %zu using 1:($4/1e12) with lines ls 102 title 'bound, background'\n",
        NSTYLES, NSTYLES, NSTYLES);
}

int crn_plot_least_bandwidth(struct plot *p, int argc, char **argv)
{
    struct plot_policies_figure f;
    cairn_err rc = figure_begin(&f, p, "least-bandwidth", "prospective", 50, NSTYLES * NLEAST * 8);
    size_t i;

    (void)argc;
    (void)argv;
    if (rc != CAIRN_OK)
        return crn_cli_fail(p->cli);
    for (i = 0; i < NSTYLES && rc == CAIRN_OK; i++)
        rc = least_block(&f, styles[i].strategy);
    least_bounds(&f);
    least_script(p->script);
    return figure_end(&f, rc);
}
