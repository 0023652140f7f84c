/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures by gnuplot: data file, script and figure are stored together, so anyone can change the
 * script and draw again. */
#ifndef CRN_PLOT_H
#define CRN_PLOT_H

#include "cli/cli.h"

/* One picture: DIR/NAME.dat, DIR/NAME.gp, DIR/NAME.svg. */
struct plot {
    struct cli *cli;
    const char *dir;
    const char *format;  /* "svg", "png" or "pdf" */
    int is_part;         /* belongs to a command's output: prints nothing with --json */
    uint64_t runs, seed; /* for simulations; runs 0: the figure's own default */
    const char *name;
    int width, height;   /* of the figure; set before crn_plot_begin */
    FILE *data, *script; /* in memory while it is built */
    char *data_text, *script_text;
    size_t data_bytes, script_bytes;
};

/* Opens data and script; the script starts with terminal, output, colours and grid. */
CAIRN_CHECKED cairn_err crn_plot_begin(struct plot *p, const char *name, struct crn_errinfo *ei);
/* Writes both files, draws the figure and prints its path. Returns cli_exit; without gnuplot the
 * files stay and CLI_PROBLEM is returned. Ends the plot in any case. */
int crn_plot_end(struct plot *p);
/* Discards the plot: nothing is written. */
void crn_plot_drop(struct plot *p);

/* The kinds of figures. A new one is one function and one line in cmd_plot.c. */
struct plot_kind {
    const char *name;
    const char *help;
    /* argv: the arguments after the options. Returns cli_exit. */
    int (*draw)(struct plot *p, int argc, char **argv);
};
int crn_plot_slowdown(struct plot *p, int argc, char **argv);
int crn_plot_bandwidth(struct plot *p, int argc, char **argv);
int crn_plot_mtbf(struct plot *p, int argc, char **argv);
int crn_plot_least_bandwidth(struct plot *p, int argc, char **argv);
int crn_plot_encode(struct plot *p, int argc, char **argv);
int crn_plot_flush(struct plot *p, int argc, char **argv);
int crn_plot_levels(struct plot *p, int argc, char **argv);
int crn_plot_tiers(struct plot *p, int argc, char **argv);

#endif
