/* SPDX-License-Identifier: BSD-3-Clause */
/* The data file that is being written: aligned room at its end, handed out first come first served, and
 * how bytes reach it. Several threads reserve and write at once. */
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
    int direct_fd;          /* the same file past the page cache, for whole pages; -1: none */
    atomic_int is_given_up; /* nobody wants it any more: writes fail */
    atomic_int is_refused;  /* the file system took it and then refused to write */
    int lacks_room;         /* room was asked for beforehand and there is none */
    int is_behind;
    int has_bytes; /* stale bytes of an earlier version: gaps are overwritten with zeros */
    struct crn_behind behind;
    uint64_t align_bytes;
    uint64_t page_bytes;
    atomic_uint_fast64_t end;      /* of the file so far */
    atomic_uint_fast64_t *written; /* counts bytes that were written; may be NULL */
};

/* Creates the data file of the version and file number that head tells. expected: bytes of data, at
 * most. CAIRN_ENOSPC if room for them was asked for beforehand and there is none. */
CAIRN_CHECKED cairn_err crn_outfile_create(struct crn_outfile *o, struct crn_outlet *outlet,
                                           const struct crn_store *st, const struct crn_index *head,
                                           uint64_t align_bytes, uint64_t expected,
                                           struct crn_errinfo *ei);
/* Opens a data file that another node created, to assist in writing it. */
CAIRN_CHECKED cairn_err crn_outfile_open(struct crn_outfile *o, struct crn_outlet *outlet,
                                         const struct crn_store *st, const struct crn_index *head,
                                         const char *file, uint64_t align_bytes,
                                         struct crn_errinfo *ei);
/* Room at the end of the file: where it begins. */
uint64_t crn_outfile_reserve(struct crn_outfile *o, uint64_t bytes);
/* Whether bytes at p go past the page cache, if that was asked for; p begins an aligned piece. */
int crn_outfile_takes(const struct crn_outfile *o, const void *p);
CAIRN_CHECKED cairn_err crn_outfile_write(struct crn_outfile *o, const void *p, uint64_t bytes,
                                          uint64_t offset, struct crn_errinfo *ei);
/* Gaps read as 0, also where the file had other bytes: what lies between the end of a piece at offset and the
 * next one. */
CAIRN_CHECKED cairn_err crn_outfile_pad(struct crn_outfile *o, uint64_t bytes, uint64_t offset,
                                        struct crn_errinfo *ei);
/* Appends index and trailer, makes the file durable and closes it, failed or not. */
CAIRN_CHECKED cairn_err crn_outfile_finish(struct crn_outfile *o, const struct crn_index *index,
                                           struct crn_manifest_file *ret, struct crn_errinfo *ei);
/* Makes what this node wrote of the file durable and closes it, failed or not. */
CAIRN_CHECKED cairn_err crn_outfile_sync(struct crn_outfile *o, struct crn_errinfo *ei);
/* Closes a file that failed before it was finished. */
void crn_outfile_abandon(struct crn_outfile *o);
/* Removes a file that was closed and is not wanted; what cannot be removed is left to a sweep. */
void crn_outfile_remove(const struct crn_outfile *o, const struct crn_index *head);

#endif
