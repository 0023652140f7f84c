/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of `cairn extract`: one implementation per file format. */
#ifndef CRN_CLI_SINK_H
#define CRN_CLI_SINK_H

#include "cli/array.h"

struct cli_sink_ops {
    const char *name;   /* spelling of --format */
    const char *suffix; /* of output files that imply it; NULL: none */
    int can_stream;     /* can write to standard output */
    size_t ctx_size;    /* zeroed bytes that the caller allocates */
    /* Creates path, which does not exist (NULL: standard output). a stays valid until finish. */
    cairn_err (*open)(void *ctx, const char *path, const struct cli_array *a,
                      struct crn_errinfo *ei);
    /* Sections come in the order of crn_array_piece. */
    cairn_err (*write)(void *ctx, const struct cli_piece *p, const void *buf,
                       struct crn_errinfo *ei);
    /* Called after open, successful or not; ok 0: the file will be discarded. */
    cairn_err (*finish)(void *ctx, int ok, struct crn_errinfo *ei);
};
extern const struct cli_sink_ops crn_sink_raw, crn_sink_npy;
#ifdef CRN_HAVE_HDF5
extern const struct cli_sink_ops crn_sink_hdf5;
#endif

#endif
