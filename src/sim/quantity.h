/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units in platform and machine files and on the command line. */
#ifndef CRN_QUANTITY_H
#define CRN_QUANTITY_H

#include "base/err.h"

/* "80 GB/s", "1.5TiB" -> bytes (per second); "2 h", "50 y" -> seconds. Units are required; k is
 * 1000 and Ki is 1024. */
CAIRN_CHECKED cairn_err crn_quantity_bytes(const char *text, double *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_quantity_time(const char *text, double *ret_s, struct crn_errinfo *ei);
/* A number above 0; "20 %" -> 0.2. */
CAIRN_CHECKED cairn_err crn_quantity_number(const char *text, double *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_quantity_percent(const char *text, double *ret, struct crn_errinfo *ei);

#endif
