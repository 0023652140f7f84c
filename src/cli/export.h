/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of versions to and from files of NumPy and PyTorch. */
#ifndef CRN_CLI_EXPORT_H
#define CRN_CLI_EXPORT_H

#include "cli/cli.h"

struct cli_conversion {
    const char *source, *to;
    const char *prefix, *rank; /* NULL: not given */
};

/* Replaces this process by the Python package's `export` or `import`; returns only on failure. */
int crn_export_python(struct cli *cli, const char *command, const struct cli_conversion *c);

#endif
