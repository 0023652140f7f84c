/* SPDX-License-Identifier: BSD-3-Clause */
/* Where `cairn extract` writes: one implementation for each file format. */
#ifndef CRN_CLI_SINK_H
#define CRN_CLI_SINK_H

#include "cli/array.h"

struct cli_sink_ops {
    const char *name;   /* spelling of --format */
    const char *suffix; /* of files that ask for it; NULL: none does */
    int can_stream;     /* standard output will do */
    size_t ctx_size;    /* zeroed bytes that the caller allocates */
    /* Creates path, which does not exist (or NULL: standard output). a stays valid until finish. */
    cairn_err (*open)(void *ctx, const char *path, const struct cli_array *a,
                      struct crn_errinfo *ei);
    /* Pieces come in the order of crn_array_piece. */
    cairn_err (*write)(void *ctx, const struct cli_piece *p, const void *buf,
                       struct crn_errinfo *ei);
    /* After open, successful or not; ok 0: the file will be thrown away. */
    cairn_err (*finish)(void *ctx, int ok, struct crn_errinfo *ei);
};
extern const struct cli_sink_ops crn_sink_raw, crn_sink_npy;
#ifdef CRN_HAVE_HDF5
extern const struct cli_sink_ops crn_sink_hdf5;
#endif

#endif
