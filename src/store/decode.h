/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of encoded data files. Inside src/store only. */
#ifndef CRN_STORE_DECODE_H
#define CRN_STORE_DECODE_H

#include "store/data.h"

/* Bytes [at, at + n) of the streams of an index, which lie in one of them; decoder is made if it is
 * not there yet. */
CAIRN_CHECKED cairn_err crn_decoder_read(struct crn_decoder **decoder,
                                         const struct crn_data_file *f, uint64_t at, void *dst,
                                         size_t n, struct crn_errinfo *ei);

#endif
