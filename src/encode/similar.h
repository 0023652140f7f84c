/* SPDX-License-Identifier: BSD-3-Clause */
/* Which variables of different ranks mean the same (paper 2, section III.A): those with equal
 * names, types and classes. The key is text, "ToyGrp/Temperature_F32LE_Array1D". */
#ifndef CRN_SIMILAR_H
#define CRN_SIMILAR_H

#include <stddef.h>
#include "base/err.h"
#include "format/format.h"

#define CRN_SIMILAR_TEXT (2 * CAIRN_MAX_NAME + 32)

/* Compiled patterns. */
struct crn_similar;

/* Patterns are POSIX extended regular expressions for whole names, tried in order. The key omits
 * what a group matches: with "Grid([0-9]+)_Density" all grids are one variable, "Grid*_Density".
 * A pattern without groups makes all names that it matches one variable. */
CAIRN_CHECKED cairn_err crn_similar_open(const char *const *patterns, size_t n,
                                         struct crn_similar **ret, struct crn_errinfo *ei);
void crn_similar_close(struct crn_similar *s); /* NULL is allowed */

/* The key of a region. s may be NULL: exact names. Any thread. */
void crn_similar_key(const struct crn_similar *s, const struct crn_region *r,
                     char ret[CRN_SIMILAR_TEXT]);

/* The key of a family: digits in the name become one '#', "Grid0012/Density_F32LE_Array3D" and
 * "Grid7/Density_F32LE_Array3D" are both "Grid#/Density_F32LE_Array3D". */
void crn_similar_family(const char *key, cairn_type type, char ret[CRN_SIMILAR_TEXT]);

/* The key of all variables of a type, "*_F32LE". */
void crn_similar_type(cairn_type type, char ret[CRN_SIMILAR_TEXT]);

#endif
