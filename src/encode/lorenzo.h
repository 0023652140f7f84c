/* SPDX-License-Identifier: BSD-3-Clause */
/* The Lorenzo predictor on ordered integers. The adaptive choice also uses it, to get the
 * residuals of a sample with the history of the whole chunk. */
#ifndef CRN_LORENZO_H
#define CRN_LORENZO_H

#include "encode/codec.h"

/* Argument of the filter: which strides of a run to use, and whether the older version is
 * subtracted first. */
#define CRN_LORENZO_ROW      1
#define CRN_LORENZO_COLUMN   2
#define CRN_LORENZO_PLANE    4
#define CRN_LORENZO_PREVIOUS 8
#define CRN_LORENZO_TWICE    16 /* along each stride twice: slopes predict, not values */
#define CRN_LORENZO_VALUES   32 /* floating-point values predict, not their ordered integers */

#endif
