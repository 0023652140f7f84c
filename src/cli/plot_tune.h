/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CRN_PLOT_TUNE_H
#define CRN_PLOT_TUNE_H

#include "cli/plot.h"
#include "tune/tuner.h"

/* Draws the measurements of cairn tune, one figure per stage; the caller sets p->dir, p->format
 * and sizes. Returns cli_exit. */
int crn_plot_tuning(struct plot *p, const struct crn_tuning *t);

#endif
