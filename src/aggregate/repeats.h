/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds streams that the data file already has, as when ranks hold replicas of a model. The
 * encoder finds repeats within a stream (encode/dedup.h); here a whole stream becomes another
 * reference to chunks written before. Any thread. */
#ifndef CRN_AGGREGATE_REPEATS_H
#define CRN_AGGREGATE_REPEATS_H

#include "base/err.h"
#include "format/format.h"

struct crn_repeats;

/* The fingerprint of a stream: 128 bits over everything it is encoded from, with a seed drawn
 * for each file. */
struct crn_print {
    uint64_t hash[2];
    uint64_t seed;
};

CAIRN_CHECKED cairn_err crn_repeats_open(struct crn_repeats **ret, struct crn_errinfo *ei);
void crn_repeats_close(struct crn_repeats *r); /* NULL is fine */

struct crn_print crn_repeats_print(const struct crn_repeats *r); /* of an empty stream */
void crn_print_add(struct crn_print *p, const void *bytes, size_t n);

/* The stream entered with this fingerprint, or NULL. */
const struct crn_stream *crn_repeats_find(struct crn_repeats *r, const struct crn_print *print);
/* Enters a stream whose file offset is final and which does not change until r is closed. Of two
 * with the same fingerprint the first stays. Does nothing if out of memory. */
void crn_repeats_enter(struct crn_repeats *r, const struct crn_print *print,
                       const struct crn_stream *s);

#endif
