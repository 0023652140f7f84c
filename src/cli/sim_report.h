/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of `cairn sim platform`: tables, CSV or JSON. Also declares the other simulations. */
#ifndef CRN_SIM_REPORT_H
#define CRN_SIM_REPORT_H

#include "cli/cli.h"
#include "sim/montecarlo.h"
#include "sim/text.h"

struct sim_report {
    struct cli *cli; /* for is_json */
    int is_csv;
    int with_classes; /* tables: also the results of each job class */
    struct cli_table table, classes;
};

/* One strategy, or theorem 1, at one bandwidth and MTBF. */
struct sim_row {
    const char *strategy;
    const char *mode; /* what is written when the turn comes; NULL: theorem 1 */
    double bandwidth, node_mtbf_s, system_mtbf_s;
    const struct crn_summary *summary; /* NULL: theorem 1 */
    double bound;                      /* of these jobs, in this mode; or theorem 1 */
    const struct crn_bound *theorem1;  /* or NULL */
};

void crn_sim_report_begin(struct sim_report *r, const struct crn_platform *p,
                          const struct crn_montecarlo *mc);
void crn_sim_report_row(struct sim_report *r, const struct sim_row *row);
int crn_sim_report_end(struct sim_report *r, int status);

/* Prints the text of a shipped platform or machine. */
int crn_sim_show(struct cli *cli, const struct crn_text *shipped, const char *kind,
                 const char *name);

/* cairn sim flush; argv[0] is "flush". */
int crn_sim_flush(struct cli *cli, int argc, char **argv);
/* cairn sim nodes. */
int crn_sim_nodes(struct cli *cli, int argc, char **argv);

#endif
