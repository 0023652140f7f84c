/* SPDX-License-Identifier: BSD-3-Clause */
/* One measurement: W writer threads put so many bytes into F files of a directory, durably, as a leader
 * would, some of them "received" (copied into a pool of blocks first by a thread of its own). */
#ifndef CRN_TUNE_PROBE_H
#define CRN_TUNE_PROBE_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/behind.h"
#include "base/fs.h"

enum crn_layout {
    CRN_CONTIGUOUS,  /* each thread has regions of its own */
    CRN_INTERLEAVED, /* each takes the next block, over all files in turn */
};
enum crn_method {
    CRN_BUFFERED,
    CRN_BEHIND, /* on to the disk at once */
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

/* What probes share. */
struct crn_probe_env {
    const struct crn_fs *fs;
    int dfd;                    /* a directory of our own */
    const unsigned char *arena; /* page-aligned; what is written comes from here, block by block */
    uint64_t arena_bytes;       /* at least the largest block */
    const atomic_int *stop;     /* not 0: end soon, CAIRN_ECANCELED; may be NULL */
    int keep_files;             /* tests look at them */
};

/* Which blocks of which file a region holds: pieces of a contiguous layout, in order. */
struct crn_probe_span {
    uint32_t file;
    uint64_t first; /* block in the file */
    uint64_t blocks;
};
/* Regions of a contiguous probe: as many as writers or files, whichever are more; region r belongs to
 * writer r % writers and lies in file r % files. Pure. */
uint32_t crn_probe_regions(const struct crn_probe *p);
struct crn_probe_span crn_probe_region(const struct crn_probe *p, uint32_t r);

/* Seconds from the first write until all is durable. CAIRN_ENOTSUP if the directory or the build cannot
 * do the method. Leaves no files, whatever happens. */
CAIRN_CHECKED cairn_err crn_probe_run(const struct crn_probe_env *env, const struct crn_probe *p,
                                      double *ret_seconds, struct crn_errinfo *ei);

/* Of the writers. -------------------------------------------------- */

struct crn_probe_piece {
    int fd;
    uint64_t offset;
    uint64_t bytes;
    const void *data;
    void *block;               /* of the pool, to be given back; or NULL */
    struct crn_behind *behind; /* of the file; NULL: the kernel writes it when it likes */
};
struct crn_probe_writer; /* opaque */
/* The next piece of this writer; 0 if there is none (now, if may_wait is 0). */
int crn_probe_next(struct crn_probe_writer *w, int may_wait, struct crn_probe_piece *ret);
void crn_probe_done(struct crn_probe_writer *w, void *block); /* of a piece; NULL is fine */

#endif
