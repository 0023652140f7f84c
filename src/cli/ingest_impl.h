/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of ingest. */
#ifndef CRN_CLI_INGEST_IMPL_H
#define CRN_CLI_INGEST_IMPL_H

#include "cli/ingest.h"
#include "restart/version.h"

/* The open files of a set, as the engine reads them. */
struct cli_load {
    struct crn_source *sources; /* per rank: its files, then their description */
    uint32_t ranks;
    uint64_t bytes;
    uint64_t newest_ns; /* latest modification time of the files */
};

/* ingest.c. A visible version may not be durable yet: its writer may have died right after the
 * rename. */
CAIRN_CHECKED cairn_err crn_ingest_make_durable(const struct cli_ingest *g, int64_t version,
                                                struct crn_errinfo *ei);

/* ingest_write.c. Writes the data files, checks that no file has changed meanwhile, commits. */
CAIRN_CHECKED cairn_err crn_ingest_write(struct cli_ingest *g, struct cli_set *set, int64_t version,
                                         struct cli_load *l, struct cli_ingested *ret,
                                         struct crn_errinfo *ei);
void crn_ingest_close_engines(struct cli_ingest *g);

/* ingest_load.c. Also close a load that failed to open. */
CAIRN_CHECKED cairn_err crn_load_open(const struct cli_ingest *g, struct cli_set *set,
                                      struct cli_load *l, struct crn_errinfo *ei);
void crn_load_close(const struct cli_ingest *g, struct cli_load *l);
/* Looks for variables inside the files of n ranks; files that are not understood stay bytes. */
CAIRN_CHECKED cairn_err crn_load_variables(const struct cli_ingest *g, struct crn_source *sources,
                                           uint32_t n, struct crn_errinfo *ei);
/* Are all files unchanged since they were opened, and is nobody writing them? */
CAIRN_CHECKED cairn_err crn_load_check(const struct cli_ingest *g, const struct cli_set *set,
                                       const struct cli_load *l, struct crn_errinfo *ei);
/* Do both describe the same, unchanged file? */
int crn_load_is_same(const struct stat *a, const struct stat *b);
/* Does the path still lead to the unchanged file? */
CAIRN_CHECKED cairn_err crn_load_check_file(const struct cli_ingest *g, const struct cli_file *f,
                                            struct crn_errinfo *ei);
/* The shard of a rank with n files. */
CAIRN_CHECKED cairn_err crn_load_open_rank(const struct cli_ingest *g, struct cli_file *f, size_t n,
                                           struct crn_source *s, struct crn_errinfo *ei);
void crn_load_close_rank(const struct cli_ingest *g, struct crn_source *s);

/* ingest_look.c */
enum cli_there { THERE_NOT, THERE_SAME, THERE_OTHER, THERE_FOREIGN };

/* What the store has under this number. An unreadable version counts as none. */
enum cli_there crn_ingest_look(const struct cli_ingest *g, int64_t version,
                               const struct cli_load *l, int bytes_too);
/* Does the version have this file of its rank, byte by byte? Fills in the file's attributes
 * (f->st). */
CAIRN_CHECKED cairn_err crn_ingest_holds(const struct cli_ingest *g, struct crn_version *v,
                                         struct cli_file *f, int *ret, struct crn_errinfo *ei);

#endif
