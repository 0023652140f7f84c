/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the fuzz targets, one for each decoder. A decoder gets the input unchanged, and a
 * second time with valid length and checksum, so that the fields behind them are reached.
 * Accepted input must encode again to the same bytes. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_AT_VERSION 8 /* versions and flags are read, but not written again */
#define FUZZ_AT_LENGTH  24
#define FUZZ_MIN        40

static inline void fuzz_seal(uint8_t *data, size_t size)
{
    struct crn_buf b = {.data = data, .len = size, .cap = size};

    if (size < FUZZ_MIN)
        return;
    crn_buf_set_u64(&b, FUZZ_AT_LENGTH, size);
    crn_buf_set_u64(&b, size - 8, crn_hash(data, size - 8));
}

static inline void fuzz_same(const struct crn_buf *again, const uint8_t *data, size_t size)
{
    static const uint8_t plain[16] = {CRN_FORMAT_MAJOR, 0, 0, 0};
    uint8_t head[16];

    memcpy(head, data + FUZZ_AT_VERSION, sizeof(head));
    head[8] &= 0xfe; /* incompatible flags: an index with streams is written again as one */
    if (memcmp(head, plain, sizeof(plain)) != 0)
        return; /* another minor version or flags: they may hold more than is written */
    if (again->len != size || memcmp(again->data, data, size) != 0)
        abort();
}

/* Defines the target of a decoder; decode(data, size, again) decodes and encodes again. */
#define FUZZ_TARGET(decode)                                                                        \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                   \
    {                                                                                              \
        uint8_t *copy = malloc(size > 0 ? size : 1);                                               \
        int sealed;                                                                                \
                                                                                                   \
        if (copy == NULL)                                                                          \
            return 0;                                                                              \
        memcpy(copy, data, size);                                                                  \
        for (sealed = 0; sealed < 2; sealed++) {                                                   \
            struct crn_buf again = {0};                                                            \
                                                                                                   \
            if (sealed)                                                                            \
                fuzz_seal(copy, size);                                                             \
            if (decode(copy, size, &again))                                                        \
                fuzz_same(&again, copy, size);                                                     \
            crn_buf_free(&again);                                                                  \
        }                                                                                          \
        free(copy);                                                                                \
        return 0;                                                                                  \
    }

/* The usual case: crn_X_decode, crn_X_encode, crn_X_free. */
#define FUZZ_DECODER(type)                                                                         \
    static int decode(const uint8_t *data, size_t size, struct crn_buf *again)                     \
    {                                                                                              \
        struct crn_errinfo info = {0};                                                             \
        struct crn_##type v;                                                                       \
        cairn_err rc;                                                                              \
                                                                                                   \
        if (crn_##type##_decode(data, size, "fuzz", &v, &info) != CAIRN_OK)                        \
            return 0;                                                                              \
        rc = crn_##type##_encode(&v, again, &info);                                                \
        crn_##type##_free(&v);                                                                     \
        if (rc != CAIRN_OK)                                                                        \
            abort(); /* every readable object can be written */                                    \
        return 1;                                                                                  \
    }                                                                                              \
    FUZZ_TARGET(decode)

#endif
