/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares elements of a type. Pure. */
#ifndef CRN_CLI_COMPARE_H
#define CRN_CLI_COMPARE_H

#include <stddef.h>
#include <stdint.h>

struct cli_tolerance {
    double absolute, relative; /* both 0: exact, bit by bit */
};

struct cli_difference {
    uint64_t elements; /* compared */
    uint64_t differing;
    uint64_t first;      /* index of the first differing element; valid if differing > 0 */
    double max_absolute; /* over the differing ones; infinite if only one of two is a NaN */
    double max_relative; /* relative to the larger of the two magnitudes */
};

/* n elements of a cairn_type; base is the index of the first. Adds to d. */
void crn_compare(uint8_t type, const void *a, const void *b, uint64_t n, uint64_t base,
                 const struct cli_tolerance *tolerance, struct cli_difference *d);

double crn_compare_from_f16(uint16_t bits);
double crn_compare_from_bf16(uint16_t bits);

#endif
