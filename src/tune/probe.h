/* SPDX-License-Identifier: BSD-3-Clause */
/* One measurement: W writer threads write a number of bytes durably into F files of a directory,
 * like a leader. Some of the bytes are "received": another thread first copies them into a pool
 * of blocks. */
#ifndef CRN_TUNE_PROBE_H
#define CRN_TUNE_PROBE_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/behind.h"
#include "base/fs.h"

enum crn_layout {
    CRN_CONTIGUOUS,  /* each thread has its own regions */
    CRN_INTERLEAVED, /* each thread takes the next block, over all files in turn */
};
enum crn_method {
    CRN_BUFFERED,
    CRN_BEHIND, /* starts writeback at once */
    CRN_DIRECT, /* O_DIRECT */
    CRN_METHODS
};
const char *crn_layout_name(enum crn_layout layout);
const char *crn_method_name(enum crn_method method);

#define CRN_PROBE_MAX_WRITERS 16
#define CRN_PROBE_MAX_FILES   8

struct crn_probe {
    uint32_t writers;
    uint32_t files;
    enum crn_layout layout;
    enum crn_method method;
    uint64_t block_bytes;
    uint64_t bytes;    /* a multiple of block_bytes */
    uint32_t received; /* percent of the blocks; interleaved only */
};

/* Shared by all probes. */
struct crn_probe_env {
    const struct crn_fs *fs;
    int dfd;                    /* a private directory */
    const unsigned char *arena; /* page-aligned; the source of all blocks */
    uint64_t arena_bytes;       /* at least the largest block */
    const atomic_int *stop;     /* nonzero: end soon with CAIRN_ECANCELED; may be NULL */
    int keep_files;             /* for tests that inspect them */
};

/* The blocks of a file that a region covers, in a contiguous layout. */
struct crn_probe_span {
    uint32_t file;
    uint64_t first; /* block in the file */
    uint64_t blocks;
};
/* Regions of a contiguous probe: the larger of writers and files; region r belongs to writer r %
 * writers and lies in file r % files. Pure. */
uint32_t crn_probe_regions(const struct crn_probe *p);
struct crn_probe_span crn_probe_region(const struct crn_probe *p, uint32_t r);

/* Seconds from the first write until everything is durable. CAIRN_ENOTSUP if the directory or
 * the build does not support the method. Leaves no files in any case. */
CAIRN_CHECKED cairn_err crn_probe_run(const struct crn_probe_env *env, const struct crn_probe *p,
                                      double *ret_seconds, struct crn_errinfo *ei);

#endif
