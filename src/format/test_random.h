/* SPDX-License-Identifier: BSD-3-Clause */
/* Random structures of every kind that can be encoded. */
#ifndef CRN_FORMAT_TEST_RANDOM_H
#define CRN_FORMAT_TEST_RANDOM_H

#include "base/rng.h"
#include "base/test.h"
#include "format/format.h"

#define CHUNK 16

/* A codec under test: a random structure as bytes, and bytes -> structure -> bytes. */
struct codec {
    const char *name;
    void (*make)(struct crn_rng *rng, struct crn_buf *out);
    cairn_err (*again)(const void *data, size_t len, struct crn_buf *out, struct crn_errinfo *ei);
};

#define RANDOM_CODECS 8
extern const struct codec random_codecs[RANDOM_CODECS];
const struct codec *random_codec(const char *name);

void random_shard(struct crn_rng *rng, struct crn_shard *s, uint32_t rank);
/* An encoded index with a chain of older versions. */
void random_chained(struct crn_rng *rng, struct crn_index *x);
struct crn_base *random_bases(struct crn_rng *rng, uint32_t n, uint32_t file_no);
/* A manifest in which at least the last file has a chain of older versions. */
void random_needy(struct crn_rng *rng, struct crn_manifest *m);

#endif
