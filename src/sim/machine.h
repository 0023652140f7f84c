/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine as its flushes see it, from a small INI text; see share/machines. */
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
    double rank_bytes;      /* what a rank checkpoints */
    double nic_out, nic_in; /* of a node: sent (to the file system too) and received */
    double writer;          /* one writer thread */
    double best_writers;    /* more of them lose */
    double crowding;        /* share of the throughput that is left with twice best_writers */
    double write_latency_s; /* fixed cost of a write call */
    double bandwidth;       /* of the file system as a whole */
    double osts;            /* targets that files are spread over; 0: only the whole counts */
    double ost;             /* of one target; bandwidth / osts unless told */
    double creates;         /* files that can be created in a second; 0: no limit */
    double speed_spread;    /* standard deviation of the speed of equal leaders */
};

/* Parses a text; what names the source in messages. Unknown keys and missing ones fail. */
CAIRN_CHECKED cairn_err crn_machine_parse(const char *text, const char *what,
                                          struct crn_machine *ret, struct crn_errinfo *ei);
/* A shipped machine by its name, else a file. */
CAIRN_CHECKED cairn_err crn_machine_load(const char *name_or_path, struct crn_machine *ret,
                                         struct crn_errinfo *ei);

/* The shipped texts, which are share/machines/NAME.ini; name NULL at the end. */
extern const struct crn_text crn_machine_texts[];

#endif
