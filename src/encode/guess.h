/* SPDX-License-Identifier: BSD-3-Clause */
/* Guesses what untyped bytes are: records, and the numbers in them. A guess only selects what is
 * tried; a wrong one costs a trial. */
#ifndef CRN_GUESS_H
#define CRN_GUESS_H

#include "encode/codec.h"

/* How a pipeline takes the bytes of a chunk. stride 0: as the type that they have. */
struct crn_as {
    cairn_type type;
    uint32_t stride; /* of a record, in words; 1: numbers without records */
};

/* The same data, taken that way; run: space that ret refers to. n: bytes. */
void crn_as_data(const struct crn_data *data, struct crn_as as, size_t n, struct crn_run *run,
                 struct crn_data *ret);

struct crn_guess {
    struct crn_as as;
    uint8_t rotate; /* bytes before the first number */
    int is_swapped; /* the numbers are big-endian */
};

/* 0 if nothing repeats from record to record. */
CAIRN_CHECKED cairn_err crn_guess(struct crn_encode_work *w, const unsigned char *src, size_t n,
                                  int *ret_is_found, struct crn_guess *ret, struct crn_errinfo *ei);

#endif
