/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection schemes. The data of a set's n members is cut into n stripes. A stripe has k columns, one
 * segment each of k members, and m parity rows, which the other members keep. Any k of the k + m pieces
 * give the stripe back. */
#ifndef CRN_PROTECT_SCHEME_H
#define CRN_PROTECT_SCHEME_H

#include "base/err.h"

#define CRN_SET_MAX     64 /* nodes of a set */
#define CRN_SCHEME_TEXT 16

enum crn_scheme_kind {
    CRN_SCHEME_NONE = 0,
    CRN_SCHEME_PARTNER, /* a copy on one other node */
    CRN_SCHEME_XOR,     /* one parity for the whole set */
    CRN_SCHEME_RS,      /* Reed-Solomon: m parities */
};

/* Stored in parity files: docs/format.md. */
struct crn_protection {
    uint8_t kind;   /* enum crn_scheme_kind */
    uint8_t parity; /* nodes of a set that may be lost; 0 for none */
};

/* A scheme as one number, in messages; 0 is left for "as configured". A wrong number is NONE. */
uint32_t crn_scheme_code(struct crn_protection s);
struct crn_protection crn_scheme_of_code(uint32_t code);
/* "none", "partner", "xor", "rs:2". what names the setting in messages. */
CAIRN_CHECKED cairn_err crn_scheme_parse(const char *text, const char *what,
                                         struct crn_protection *ret, struct crn_errinfo *ei);
void crn_scheme_text(struct crn_protection s, char ret[CRN_SCHEME_TEXT]);
/* Can a decoder trust it for a set of n members? */
int crn_scheme_fits(struct crn_protection s, uint32_t members);

/* Columns of a stripe in a set of n members. */
uint32_t crn_scheme_columns(struct crn_protection s, uint32_t members);
/* The size of a set if the user names none. */
uint32_t crn_scheme_set(struct crn_protection s);
/* The factor of a column in a parity row. */
uint8_t crn_scheme_factor(struct crn_protection s, uint32_t columns, uint32_t row, uint32_t column);

/* How to compute a lost column. There is a factor for each piece of the stripe: the columns first, then
 * the parity rows. 0: that piece is not needed. has: which pieces are there. Returns -1 if there are
 * not enough of them. */
int crn_scheme_rebuild(struct crn_protection s, uint32_t columns, const unsigned char *has,
                       uint32_t column, uint8_t *ret_factors);

#endif
