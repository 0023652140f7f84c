/* SPDX-License-Identifier: BSD-3-Clause */
/* A trailer. The 8 bytes before it are the size of the file. */
#include "fuzz.h"

static int decode(const uint8_t *data, size_t size, struct crn_buf *again)
{
    struct crn_view v = crn_view_of(data, size);
    struct crn_errinfo info = {0};
    struct crn_trailer t;
    uint64_t file_bytes = crn_view_u64(&v);
    const void *raw = crn_view_take(&v, CRN_TRAILER_SIZE);

    if (raw == NULL)
        return 0;
    if (crn_trailer_decode(raw, file_bytes, "fuzz", &t, &info) != CAIRN_OK)
        return 0;
    if (t.index_offset + t.index_bytes + CRN_TRAILER_SIZE != file_bytes)
        abort();
    crn_buf_u64(again, file_bytes);
    if (crn_trailer_encode(&t, again, &info) != CAIRN_OK)
        abort();
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t copy[8 + CRN_TRAILER_SIZE];
    int sealed;

    if (size != sizeof(copy))
        return 0;
    memcpy(copy, data, size);
    for (sealed = 0; sealed < 2; sealed++) {
        struct crn_buf again = {0};

        if (sealed)
            fuzz_seal(copy + 8, CRN_TRAILER_SIZE);
        if (decode(copy, size, &again)) {
            again.data += 8;
            again.len -= 8;
            fuzz_same(&again, copy + 8, CRN_TRAILER_SIZE);
            again.data -= 8;
        }
        crn_buf_free(&again);
    }
    return 0;
}
