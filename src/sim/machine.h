/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine in the terms of its flushes, from a small INI text; see share/machines. */
#ifndef CRN_MACHINE_H
#define CRN_MACHINE_H

#include "sim/quantity.h"
#include "sim/text.h"

#define CRN_MACHINE_MAX_NODES 65536

/* Bandwidths are bytes per second. */
struct crn_machine {
    char name[48];
    char about[160];
    double nodes;
    double ranks_per_node;
    double rank_bytes;      /* checkpoint size of a rank */
    double nic_out, nic_in; /* of a node: sent (including to the file system) and received */
    double writer;          /* one writer thread */
    double best_writers;    /* with more of them throughput drops */
    double crowding;        /* share of the throughput that remains with twice best_writers */
    double write_latency_s; /* fixed cost of a write call */
    double bandwidth;       /* of the file system as a whole */
    double osts;            /* storage targets for files; 0: only the total bandwidth matters */
    double ost;             /* of one target; default bandwidth / osts */
    double creates;         /* file creations per second; 0: no limit */
    double speed_spread;    /* standard deviation of the speed of equal leaders */
};

/* Parses a text; what names the source in messages. Unknown and missing keys are errors. */
CAIRN_CHECKED cairn_err crn_machine_parse(const char *text, const char *what,
                                          struct crn_machine *ret, struct crn_errinfo *ei);
/* Loads a shipped machine by its name, else a file. */
CAIRN_CHECKED cairn_err crn_machine_load(const char *name_or_path, struct crn_machine *ret,
                                         struct crn_errinfo *ei);

/* The shipped texts, which are share/machines/NAME.ini; name NULL at the end. */
extern const struct crn_text crn_machine_texts[];

#endif
