/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: writes small versions with known contents through the store, as a flush would. A seed
 * determines the contents, so that tests can compare byte by byte. */
#ifndef CRN_STORE_TEST_VERSION_H
#define CRN_STORE_TEST_VERSION_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "encode/chunk.h"
#include "encode/dedup.h"
#include "encode/work.h"
#include "store/store.h"

#define TV_REGIONS 4
#define TV_ROWS    2 /* of the global array, per rank */
#define TV_COLS    3
#define TV_CHUNK   16
#define TV_ALIGN   16
#define TV_PIECE   64 /* chunk of a stream, decoded */

struct tv {
    const char *name;
    int64_t version;
    uint64_t seq;
    uint32_t seed;
    uint32_t ranks;
    uint32_t files;
    const char *pipe; /* NULL: unencoded; otherwise one stream for each variable of all ranks */
    const struct tv *older; /* encoded against it: committed, with the same ranks and files */
    uint64_t committed_ns;  /* 0: long ago */
    uint8_t state_type;     /* of region 1 */
    uint64_t generation;    /* of the run; 0: none, minor version 0 */
};

/* Region 0: block of a global array; 1: bytes or state_type, size depends on the rank; 2: empty; 3: a file. */
struct crn_region tv_region(const struct tv *t, uint32_t rank, uint32_t region);

uint32_t tv_element(const struct tv *t, uint64_t row, uint64_t col);

/* The contents of a region; buf must have 256 bytes. */
uint64_t tv_content(const struct tv *t, uint32_t rank, uint32_t region, unsigned char *buf);

struct crn_capture_id tv_id(const struct tv *t);

/* A variable of all ranks that becomes a stream. */
struct tv_stream {
    unsigned char bytes[4096];
    unsigned char older[4096]; /* the same bytes of the older version */
    uint64_t n;
    struct crn_map map;
};

/* Writes one data file with the ranks whose number modulo files is file_no; returns its name in
 * file. */
cairn_err tv_write_file(const struct crn_store *st, const struct tv *t, uint32_t file_no,
                        char file[CRN_FILE_NAME], struct crn_manifest_file *ret,
                        struct crn_errinfo *ei);

void tv_manifest(const struct tv *t, struct crn_manifest *m);

/* Writes and publishes a version; on failure discards uncommitted files, as a flush does. */
cairn_err tv_write(const struct crn_store *st, const struct tv *t, struct crn_errinfo *ei);

#endif
