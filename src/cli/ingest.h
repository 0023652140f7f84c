/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns files that a program has written into a version: one shard per rank, one file region per
 * file, and a text region with the mode, size and time of each. */
#ifndef CRN_CLI_INGEST_H
#define CRN_CLI_INGEST_H

#include "aggregate/engine.h"
#include "base/config.h"
#include "base/log.h"
#include "cli/sets.h"

/* The region that describes the files of a rank, one line each: "MODE SIZE SECONDS.NANOSECONDS
 * NAME\n", the mode in octal. Files restored from versions without it get default modes and
 * times. */
#define CLI_FILES_REGION "cairn.files"

struct cli_ingest {
    /* Makes the shard of a rank of its n files; NULL: crn_load_open_rank. */
    cairn_err (*open_rank)(const struct cli_ingest *g, struct cli_file *f, size_t n,
                           struct crn_source *s, struct crn_errinfo *ei);
    const void *arg; /* for open_rank */
    const struct crn_config *cfg;
    const struct crn_fs *fs;
    char name[CAIRN_MAX_NAME];
    struct crn_store store;
    struct crn_engine **engines; /* one for each data file of a version */
    uint32_t nengines;
    struct crn_capture_id id;
    const char *hdf5;
    struct crn_log log;
    int (*is_over)(void); /* polled while waiting for the broker; NULL: never over */
    int is_encoding;
};

enum cli_replace {
    CLI_REPLACE_NEVER,    /* another version with this number is an error */
    CLI_REPLACE_INGESTED, /* a version made from files is replaced */
    CLI_REPLACE_ANY
};

struct cli_ingested {
    int was_there; /* the version already has these files */
    int64_t version;
    uint64_t bytes, file_bytes;
    double seconds;
    uint32_t retired; /* older versions that retention removed */
};

/* Raises the limit of open files as far as it goes; returns it. */
size_t crn_ingest_raise_files(void);

/* Opens the store, and creates it if missing. hdf5: as for crn_extents_read; it must outlive g. */
CAIRN_CHECKED cairn_err crn_ingest_open(const struct crn_config *cfg, const char *name,
                                        const char *hdf5, struct cli_ingest *ret,
                                        struct crn_errinfo *ei);
void crn_ingest_close(struct cli_ingest *g);

/* Instead of a version: */
#define CLI_VERSION_NEXT (-1) /* one more than the newest */
#define CLI_VERSION_FIND (-2) /* the one that has these files already, or else the next */

/* Commits the files of a set as a version; fills in their attributes (file[].st). The version
 * already has them if names, sizes, modes and times are equal; with compare, the bytes must be
 * equal, too. CAIRN_EBUSY if a file is being written or changes meanwhile, if the name has
 * another writer, or if a different version exists that may not be replaced. */
CAIRN_CHECKED cairn_err crn_ingest_set(struct cli_ingest *g, struct cli_set *set, int64_t version,
                                       enum cli_replace replace, int compare,
                                       struct cli_ingested *ret, struct crn_errinfo *ei);
/* Removes the files of a committed set, after comparing all with the version byte by byte.
 * Removes none if one has changed since it was read. */
CAIRN_CHECKED cairn_err crn_ingest_remove(struct cli_ingest *g, const struct cli_set *set,
                                          int64_t version, struct crn_errinfo *ei);
/* For a set with missing files: removes those that the version has, byte by byte, as after a
 * crash during crn_ingest_remove. *ret_n: how many. */
CAIRN_CHECKED cairn_err crn_ingest_remove_rest(struct cli_ingest *g, struct cli_set *set,
                                               int64_t version, size_t *ret_n,
                                               struct crn_errinfo *ei);

#endif
