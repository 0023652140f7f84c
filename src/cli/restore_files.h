/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a version, written in one pass over its data files, which decodes each chunk once,
 * however many files share it. Each file is written under a temporary name and renamed when it has
 * all its bytes, so it appears complete or not at all. */
#ifndef CRN_CLI_RESTORE_FILES_H
#define CRN_CLI_RESTORE_FILES_H

#include "cli/cli.h"
#include "cli/items.h"

struct cli_restore {
    const struct cli *cli;
    const struct crn_fs *fs;
    struct crn_version *v;
    const char *to; /* for messages */
    int dfd;        /* of that directory */
    int64_t rank;   /* only the files of this rank; -1: of all */
    int is_forced;  /* replaces files that are there */
    /* Results. */
    int by_rank; /* ranks have files of the same name: a directory for each rank */
    uint64_t files, bytes;
};

/* Writes the files among the items. Writes none if one is in the way. After any other failure the
 * files that have all their bytes are there, and no parts of others. CAIRN_ENOENT if the version has
 * no files. */
CAIRN_CHECKED cairn_err crn_restore_files(struct cli_restore *r, const struct cli_items *items,
                                          struct crn_errinfo *ei);

#endif
