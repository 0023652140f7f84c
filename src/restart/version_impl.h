/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by version.c, version_*.c and the pass. Inside src/restart only. */
#ifndef CRN_RESTART_VERSION_IMPL_H
#define CRN_RESTART_VERSION_IMPL_H

#include "restart/version.h"
#include "store/data.h"

/* A source of bytes: a data file of the store, or a node-local copy of some shards. */
struct crn_version_file {
    char *what; /* owned; path for messages */
    int fd;     /* store: -1 until needed; copy: always open */
    int is_loaded;
    int is_told;                  /* by the process that loaded it; a failure is final */
    struct crn_index index;       /* if is_loaded */
    struct crn_base_chain *chain; /* if is_loaded; NULL: the file has no bases */
    struct crn_errinfo failure;   /* of loading; CAIRN_OK if not tried or successful */
};

struct crn_version {
    const struct crn_fs *fs;
    char *root; /* owned; of the store */
    int dfd;    /* -1: opened when needed */
    struct crn_manifest m;
    struct crn_version_file *files;  /* m.nfiles */
    uint32_t *file_of_rank;          /* m.ranks */
    struct crn_version_file *copies; /* ncopies, in the order in which they were added */
    uint32_t ncopies;
    struct crn_version_file *open; /* the one file of the store whose fd is open, or NULL */
    struct crn_errinfo repaired;
    struct crn_decoder *decoder; /* for encoded files */

    /* The last chunk that was read for some of its bytes: rows of a block share chunks. */
    const struct crn_extent *chunk_of; /* NULL: none */
    uint64_t chunk_no;
    unsigned char *chunk;
    size_t chunk_cap;
};

/* A range of one rank's region that is wanted. dst NULL: verify only. */
struct crn_want {
    uint32_t rank;
    uint32_t region;
    uint64_t pos; /* advances as bytes are verified */
    uint64_t end;
    unsigned char *dst; /* destination of the byte at pos */
    const struct crn_check_events *ev;
    uint64_t checked; /* for ev->progress */
};
/* Reads the range from the sources in turn, until it is complete or no source can deliver the next
 * byte. */
CAIRN_CHECKED cairn_err crn_version_fetch(struct crn_version *v, struct crn_want *w,
                                          struct crn_errinfo *ei);
/* Index into the source's shards; -1 if it does not have the rank. */
int64_t crn_version_source_shard(const struct crn_version_file *s, uint32_t rank);
/* Describes an open source to the data reader. dfd is valid once the directory is open. */
struct crn_data_file crn_version_source_data(const struct crn_version *v,
                                             const struct crn_version_file *s, int fd);
/* Opens the version's directory if it is not open. */
CAIRN_CHECKED cairn_err crn_version_dir(struct crn_version *v, struct crn_errinfo *ei);
/* Opens a data file of the store for the caller's own use. Its index is loaded and the directory is
 * open. */
CAIRN_CHECKED cairn_err crn_version_open_file(const struct crn_version *v, uint32_t file_no,
                                              int *ret_fd, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_version_load(struct crn_version *v, uint32_t file_no,
                                         struct crn_errinfo *ei);

#endif
