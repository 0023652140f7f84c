/* SPDX-License-Identifier: BSD-3-Clause */
/* The two figures of `cairn plot encode`: computed data, and what encoding it costs and saves. */
#ifndef CRN_PLOT_ENCODE_H
#define CRN_PLOT_ENCODE_H

#include "cli/plot.h"
#include "encode/merge.h"

enum { PLOTTED_RANKS = 16, PLOTTED_REGIONS = 6 };

/* One time step of all ranks. */
struct plotted_data {
    struct crn_shard shard[PLOTTED_RANKS];
    struct crn_region region[PLOTTED_RANKS][PLOTTED_REGIONS];
    unsigned char *bytes[PLOTTED_RANKS][PLOTTED_REGIONS]; /* owned */
};

struct plotted_method {
    const char *label;
    enum crn_scheme scheme;
    const char *pipe; /* "paper": its two passes; "first": the first of them; NULL: adaptive */
};

struct plotted_result {
    uint64_t in, out;          /* bytes */
    double encode_s, decode_s; /* CPU time of one core */
};

/* plot_encode.c: encodes and decodes the data, with `group` ranks merged. block: of the block
 * schemes; 0: the default. */
CAIRN_CHECKED cairn_err crn_plotted_measure(const struct plotted_data *d,
                                            const struct plotted_method *m, uint32_t group,
                                            uint64_t block, struct plotted_result *ret,
                                            struct crn_errinfo *ei);
/* plot_encode_io.c: the times of a large job. Returns cli_exit. */
int crn_plot_encode_io(struct plot *p, const struct plotted_data *d);

#endif
