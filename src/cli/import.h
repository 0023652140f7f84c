/* SPDX-License-Identifier: BSD-3-Clause */
/* What cairn import shares with the readers of other runtimes' checkpoints. */
#ifndef CRN_CLI_IMPORT_H
#define CRN_CLI_IMPORT_H

#include "cli/cli.h"
#include "cli/ingest_impl.h"

struct cli_import {
    struct cli *cli;
    const char *name; /* --as; NULL */
    const char *from; /* the argument: a directory or a configuration file */
    uint32_t ranks;   /* 0: as many as are found */
    int is_forced;
    int status; /* cli_exit, of all versions so far */
};

/* Each reader commits a version for every checkpoint that it finds whole, and reports each other
 * one. An error ends the command. */
CAIRN_CHECKED cairn_err crn_import_veloc(struct cli_import *im, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_import_scr(struct cli_import *im, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_import_fti(struct cli_import *im, struct crn_errinfo *ei);

/* Commits one version, and prints it or why there is none. */
void crn_import_set(struct cli_import *im, struct cli_ingest *g, struct cli_set *set);
/* Prints why a checkpoint is left out. */
void crn_import_skip(struct cli_import *im, const char *name, int64_t version, const char *why);
/* The store where the drop-in library looks: dir, unless --dir names another one. */
CAIRN_CHECKED cairn_err crn_import_store(struct cli_import *im, const char *dir,
                                         struct crn_errinfo *ei);
/* The paths of the files of a directory; ret->name is owned by the caller. */
CAIRN_CHECKED cairn_err crn_import_list(const char *dir, struct crn_names *ret,
                                        struct crn_errinfo *ei);
/* A shard of n regions without any set; freed with the load. */
CAIRN_CHECKED cairn_err crn_import_shard(struct crn_source *s, size_t n, struct crn_errinfo *ei);
/* Opens one file of a rank and takes its attributes. */
CAIRN_CHECKED cairn_err crn_import_open(const struct cli_ingest *g, struct cli_file *f, int *ret_fd,
                                        struct crn_errinfo *ei);
/* Appends a file; takes the path, also on failure. *cap: of set->file. */
CAIRN_CHECKED cairn_err crn_import_add(struct cli_set *set, size_t *cap, uint32_t rank, char *path,
                                       struct crn_errinfo *ei);

#endif
