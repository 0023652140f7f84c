/* SPDX-License-Identifier: BSD-3-Clause */
/* How the variables of an encoded version are stored: summed up over ranks, files and chunks. */
#ifndef CRN_CLI_VARIABLES_H
#define CRN_CLI_VARIABLES_H

#include "cli/cli.h"
#include "restart/version.h"

#define CLI_PIPE_TEXT 96

struct cli_variable {
    const char *key; /* owned by the version; "": small ones, or all */
    uint8_t type;
    uint64_t bytes;
    uint64_t stored;
    char pipe[CLI_PIPE_TEXT]; /* the pipeline with the most bytes */
    uint64_t pipe_bytes;      /* of chunks that use it */
    uint64_t chunk_bytes;     /* of all chunks: less than bytes if blocks repeat */
    uint32_t npipes;          /* number of pipelines, up to 16 */
};
struct cli_variables {
    struct cli_variable *v; /* by key */
    size_t n;               /* 0: not encoded */
};

CAIRN_CHECKED cairn_err crn_variables_load(struct crn_version *v, struct cli_variables *ret,
                                           struct crn_errinfo *ei);
void crn_variables_free(struct cli_variables *x);
void crn_variables_print(const struct cli_variables *x);
void crn_variables_json(struct crn_json *j, const struct cli_variables *x);

#endif
