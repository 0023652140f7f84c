/* SPDX-License-Identifier: BSD-3-Clause */
/* The data file being written: aligned space at its end, handed out first come first served, and
 * the ways to write it. Several threads reserve and write at once. */
#ifndef CRN_AGGREGATE_OUTFILE_H
#define CRN_AGGREGATE_OUTFILE_H

#include <stdatomic.h>

#include "aggregate/outlet.h"
#include "base/behind.h"
#include "store/store.h"

struct crn_outfile {
    const struct crn_store *st;
    struct crn_outlet *outlet;
    char name[CRN_FILE_NAME];
    int fd;
    int direct_fd;          /* the same file with O_DIRECT, for whole pages; -1: none */
    atomic_int is_given_up; /* the file is abandoned: writes fail */
    atomic_int is_refused;  /* the file system accepted O_DIRECT and then refused a write */
    int lacks_room;         /* preallocation found too little space */
    int is_behind;
    int has_bytes; /* stale bytes of an earlier version: gaps are overwritten with zeros */
    struct crn_behind behind;
    uint64_t align_bytes;
    uint64_t page_bytes;
    atomic_uint_fast64_t end;      /* of the file */
    atomic_uint_fast64_t *written; /* counts bytes written; may be NULL */
};

/* Creates the data file of head's version and file number. expected: an upper bound on its data
 * bytes. CAIRN_ENOSPC if preallocation finds too little space. */
CAIRN_CHECKED cairn_err crn_outfile_create(struct crn_outfile *o, struct crn_outlet *outlet,
                                           const struct crn_store *st, const struct crn_index *head,
                                           uint64_t align_bytes, uint64_t expected,
                                           struct crn_errinfo *ei);
/* Opens a data file that another node created, to assist in writing it. */
CAIRN_CHECKED cairn_err crn_outfile_open(struct crn_outfile *o, struct crn_outlet *outlet,
                                         const struct crn_store *st, const struct crn_index *head,
                                         const char *file, uint64_t align_bytes,
                                         struct crn_errinfo *ei);
/* Reserves space at the end of the file and returns its offset. */
uint64_t crn_outfile_reserve(struct crn_outfile *o, uint64_t bytes);
/* Can bytes at p be written with O_DIRECT, if that is enabled? p starts an aligned write. */
int crn_outfile_takes(const struct crn_outfile *o, const void *p);
CAIRN_CHECKED cairn_err crn_outfile_write(struct crn_outfile *o, const void *p, uint64_t bytes,
                                          uint64_t offset, struct crn_errinfo *ei);
/* Writes zeros from the end of a write at offset up to the next one, if the file holds stale
 * bytes there. */
CAIRN_CHECKED cairn_err crn_outfile_pad(struct crn_outfile *o, uint64_t bytes, uint64_t offset,
                                        struct crn_errinfo *ei);
/* Appends index and trailer, makes the file durable and closes it, also on failure. */
CAIRN_CHECKED cairn_err crn_outfile_finish(struct crn_outfile *o, const struct crn_index *index,
                                           struct crn_manifest_file *ret, struct crn_errinfo *ei);
/* Makes this node's writes durable and closes the file, also on failure. */
CAIRN_CHECKED cairn_err crn_outfile_sync(struct crn_outfile *o, struct crn_errinfo *ei);
/* Closes a file that failed before it was complete. */
void crn_outfile_abandon(struct crn_outfile *o);
/* Removes a closed file; a sweep removes it later if this fails. */
void crn_outfile_remove(const struct crn_outfile *o, const struct crn_index *head);

#endif
