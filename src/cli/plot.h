/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures by gnuplot: a data file and a script lie beside each other, and the picture beside both, so
 * that anyone can change the script and draw again. */
#ifndef CRN_PLOT_H
#define CRN_PLOT_H

#include "cli/cli.h"

/* One picture: DIR/NAME.dat, DIR/NAME.gp, DIR/NAME.svg. */
struct plot {
    struct cli *cli;
    const char *dir;
    const char *format;  /* "svg" or "png" */
    int is_part;         /* of the output of a command: with --json nothing is told */
    uint64_t runs, seed; /* of pictures that simulate; runs 0: the picture's own default */
    const char *name;
    int width, height;   /* of the picture; set before crn_plot_begin */
    FILE *data, *script; /* while it is made: memory */
    char *data_text, *script_text;
    size_t data_bytes, script_bytes;
};

/* Opens data and script; the script begins with terminal, output, colours and grid. */
CAIRN_CHECKED cairn_err crn_plot_begin(struct plot *p, const char *name, struct crn_errinfo *ei);
/* Writes both files, draws the picture and says where it is. Returns cli_exit; without gnuplot the
 * files are left and CLI_PROBLEM is returned. Ends the plot in any case. */
int crn_plot_end(struct plot *p);
/* Forgets it: nothing is written. */
void crn_plot_drop(struct plot *p);

/* What can be drawn. A new picture is one function and one line in cmd_plot.c. */
struct plot_kind {
    const char *name;
    const char *help;
    /* argv: what follows the options. Returns cli_exit. */
    int (*draw)(struct plot *p, int argc, char **argv);
};
int crn_plot_slowdown(struct plot *p, int argc, char **argv);
int crn_plot_bandwidth(struct plot *p, int argc, char **argv);
int crn_plot_mtbf(struct plot *p, int argc, char **argv);
int crn_plot_least_bandwidth(struct plot *p, int argc, char **argv);
int crn_plot_flush(struct plot *p, int argc, char **argv);
int crn_plot_tiers(struct plot *p, int argc, char **argv);

#endif
