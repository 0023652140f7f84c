/* SPDX-License-Identifier: BSD-3-Clause */
/* A packed index, behind its hash. Input: u32 bytes of the index, then its pieces. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "encode/pack.h"
#include "format/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct crn_view v = crn_view_of(data, size);
    uint64_t bytes = crn_view_u32(&v) % (1U << 20);
    struct crn_buf wrapped = {0};
    struct crn_buf plain = {0};
    struct crn_view packed;
    struct crn_index x;

    if (v.failed)
        return 0;
    if (crn_index_wrap(bytes, data + 4, size - 4, &wrapped, NULL) != CAIRN_OK ||
        !crn_index_is_packed(wrapped.data, wrapped.len))
        abort();
    if (crn_index_unwrap(wrapped.data, wrapped.len, "fuzz", &bytes, &packed, NULL) == CAIRN_OK &&
        crn_unpack(packed, bytes, &plain, NULL) == CAIRN_OK) {
        if (plain.len != bytes)
            abort();
        if (crn_index_decode(plain.data, plain.len, "fuzz", &x, NULL) == CAIRN_OK)
            crn_index_free(&x);
    }
    crn_buf_free(&plain);
    crn_buf_free(&wrapped);
    return 0;
}
