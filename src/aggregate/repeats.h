/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of a data file that are there already: ranks that hold the same, as replicas of a model do. What
 * lies within a stream is found by the encoder (encode/dedup.h); here a whole stream becomes another
 * name for chunks that were written before. Any thread. */
#ifndef CRN_AGGREGATE_REPEATS_H
#define CRN_AGGREGATE_REPEATS_H

#include "base/err.h"
#include "format/format.h"

struct crn_repeats;

/* What tells streams apart: 128 bits over all that they are encoded from, with a seed that is drawn for
 * every file. */
struct crn_print {
    uint64_t hash[2];
    uint64_t seed;
};

CAIRN_CHECKED cairn_err crn_repeats_open(struct crn_repeats **ret, struct crn_errinfo *ei);
void crn_repeats_close(struct crn_repeats *r); /* NULL is fine */

struct crn_print crn_repeats_print(const struct crn_repeats *r); /* of nothing yet */
void crn_print_add(struct crn_print *p, const void *bytes, size_t n);

/* The stream that was entered with this print, or NULL. */
const struct crn_stream *crn_repeats_find(struct crn_repeats *r, const struct crn_print *print);
/* Enters a stream that has its place in the file and stays as it is until r is closed. Of two with one
 * print the first stays; without memory nothing is entered. */
void crn_repeats_enter(struct crn_repeats *r, const struct crn_print *print,
                       const struct crn_stream *s);

#endif
