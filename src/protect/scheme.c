/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of schemes. Partner and xor are Reed-Solomon with one parity row, all of whose factors are
 * 1: a stripe of partner has one column, one of xor all members but one.
 *
 * The factors of Reed-Solomon are a Cauchy matrix whose columns are scaled so that row 0 is all ones:
 * every square part of it has an inverse, so any columns can be rebuilt from as many rows. */
#include "protect/scheme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protect/field.h"

struct scheme_row {
    const char *name;
    uint32_t columns; /* of a stripe; 0: all members that keep no parity of it */
    uint32_t set;     /* default size of a set, besides the parity rows */
};

static const struct scheme_row scheme_rows[] = {
    [CRN_SCHEME_NONE] = {"none", 0, 0},
    [CRN_SCHEME_PARTNER] = {"partner", 1, 1},
    [CRN_SCHEME_XOR] = {"xor", 0, 7},
    [CRN_SCHEME_RS] = {"rs", 0, 4},
};
#define SCHEMES (sizeof(scheme_rows) / sizeof(scheme_rows[0]))

uint32_t crn_scheme_code(struct crn_protection s)
{
    return 1 + s.kind + ((uint32_t)s.parity << 8);
}

struct crn_protection crn_scheme_of_code(uint32_t code)
{
    struct crn_protection s = {(uint8_t)((code - 1) & 0xff), (uint8_t)((code - 1) >> 8)};

    if (code == 0 || s.kind >= SCHEMES || crn_scheme_code(s) != code)
        return (struct crn_protection){CRN_SCHEME_NONE, 0};
    return s;
}

cairn_err crn_scheme_parse(const char *text, const char *what, struct crn_protection *ret,
                           struct crn_errinfo *ei)
{
    unsigned long parity;
    char *end;
    int i;

    for (i = 0; i < CRN_SCHEME_RS; i++)
        if (strcmp(text, scheme_rows[i].name) == 0) {
            *ret = (struct crn_protection){(uint8_t)i, i != CRN_SCHEME_NONE};
            return CAIRN_OK;
        }
    if (strncmp(text, "rs:", 3) == 0 && text[3] >= '1' && text[3] <= '9') {
        parity = strtoul(text + 3, &end, 10);
        if (*end == '\0' && parity < CRN_SET_MAX) {
            *ret = (struct crn_protection){CRN_SCHEME_RS, (uint8_t)parity};
            return CAIRN_OK;
        }
    }
    return crn_fail(ei, CAIRN_ECONFIG, 0,
                    "%s: '%s' is no protection scheme; use none, partner, xor or rs:M, where M (1 "
                    "to %d) is the number of nodes that may be lost",
                    what, text, CRN_SET_MAX - 1);
}

void crn_scheme_text(struct crn_protection s, char ret[CRN_SCHEME_TEXT])
{
    const char *name = s.kind < SCHEMES ? scheme_rows[s.kind].name : "?";

    if (s.kind == CRN_SCHEME_RS)
        (void)snprintf(ret, CRN_SCHEME_TEXT, "%s:%u", name, s.parity);
    else
        (void)snprintf(ret, CRN_SCHEME_TEXT, "%s", name);
}

int crn_scheme_fits(struct crn_protection s, uint32_t members)
{
    return s.kind > CRN_SCHEME_NONE && s.kind < SCHEMES && members <= CRN_SET_MAX && s.parity > 0 &&
           (s.kind == CRN_SCHEME_RS || s.parity == 1) && members > s.parity;
}

uint32_t crn_scheme_columns(struct crn_protection s, uint32_t members)
{
    uint32_t columns = scheme_rows[s.kind].columns;

    return columns != 0 ? columns : members - s.parity;
}

uint32_t crn_scheme_set(struct crn_protection s)
{
    uint32_t set = scheme_rows[s.kind].set + s.parity;

    return set < CRN_SET_MAX / 2 ? set : CRN_SET_MAX / 2;
}

uint8_t crn_scheme_factor(struct crn_protection s, uint32_t columns, uint32_t row, uint32_t column)
{
    uint8_t first = (uint8_t)(columns ^ column);

    if (row == 0 || s.kind != CRN_SCHEME_RS)
        return 1;
    return crn_field_mul(crn_field_inverse((uint8_t)((columns + row) ^ column)), first);
}

/* Fills the matrix that makes the chosen pieces from the columns, and lists them. Returns how many
 * were found. */
static uint32_t choose_pieces(struct crn_protection s, uint32_t columns, const unsigned char *has,
                              uint8_t *matrix, uint32_t *piece)
{
    uint32_t n = 0;
    uint32_t p, c;

    for (p = 0; p < columns + s.parity && n < columns; p++) {
        if (!has[p])
            continue;
        for (c = 0; c < columns; c++)
            matrix[n * columns + c] =
                p < columns ? p == c : crn_scheme_factor(s, columns, p - columns, c);
        piece[n++] = p;
    }
    return n;
}

int crn_scheme_rebuild(struct crn_protection s, uint32_t columns, const unsigned char *has,
                       uint32_t column, uint8_t *ret_factors)
{
    uint8_t matrix[CRN_SET_MAX * CRN_SET_MAX];
    uint32_t piece[CRN_SET_MAX];
    uint32_t i;

    if (choose_pieces(s, columns, has, matrix, piece) < columns ||
        crn_field_invert(matrix, columns) != 0)
        return -1;
    memset(ret_factors, 0, columns + s.parity);
    for (i = 0; i < columns; i++)
        ret_factors[piece[i]] = matrix[(size_t)column * columns + i];
    return 0;
}
