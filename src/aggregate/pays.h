/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides for each data file whether encoding pays: whether the file is durable as soon as without,
 * and smaller. Learns from the files written before. Pure; one thread at a time. */
#ifndef CRN_AGGREGATE_PAYS_H
#define CRN_AGGREGATE_PAYS_H

#include <stdint.h>

#define CRN_PAYS_NAMES 16

/* What was learnt about the data of one checkpoint name. */
struct crn_pays_name {
    uint64_t key;     /* hash of the name; 0: free */
    double share;     /* bytes that encoding leaves, relative to all */
    double cpu_ns;    /* to encode a byte */
    uint32_t wait;    /* files left until encoding is tried again */
    uint32_t backoff; /* the next wait, after a file that did not pay */
    uint32_t streak;  /* encoded files since the last plain one */
};

struct crn_pays {
    double bandwidth; /* of plain files, in bytes per second until they are durable; 0: unknown */
    struct crn_pays_name name[CRN_PAYS_NAMES];
    uint32_t next; /* the entry that a new name replaces */
};

/* Should the next file, with so many bytes of data, be encoded? threads: as many can encode now. */
int crn_pays(struct crn_pays *p, const char *name, uint64_t bytes, uint32_t threads);
/* A plain file of so many bytes was durable after ns. */
void crn_pays_plain(struct crn_pays *p, const char *name, uint64_t bytes, int64_t ns);
/* An encoded one was; its file_bytes took cpu_ns of all threads. */
void crn_pays_encoded(struct crn_pays *p, const char *name, uint64_t bytes, uint64_t file_bytes,
                      int64_t ns, int64_t cpu_ns);

#endif
