/* SPDX-License-Identifier: BSD-3-Clause */
/* The Lorenzo predictor on integers in the order of the numbers. Also used by the adaptive choice, which
 * wants the residuals of a sample with the history that the whole chunk has. */
#ifndef CRN_LORENZO_H
#define CRN_LORENZO_H

#include "encode/codec.h"

/* Argument of the filter: which strides of a run take part, and whether the older version is
 * subtracted first. */
#define CRN_LORENZO_ROW      1
#define CRN_LORENZO_COLUMN   2
#define CRN_LORENZO_PLANE    4
#define CRN_LORENZO_PREVIOUS 8

#endif
