/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole chunks: the header, the stages in any order and with any intermediate sizes. Input: u32
 * expected bytes, then the chunk. The older version that a chunk may refer to is there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "encode/chunk.h"
#include "encode/work.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct crn_encode_work *work;
    struct crn_view v = crn_view_of(data, size);
    size_t n = crn_view_u32(&v) % (1U << 18);
    size_t chunk_n = crn_view_left(&v);
    unsigned char *chunk = malloc(chunk_n + 1);
    unsigned char *out = malloc(n + 1);
    unsigned char *older = calloc(1, n + 1);
    struct crn_chunk_info info;

    if (work == NULL && crn_work_new(&work, NULL) != CAIRN_OK)
        exit(1);
    if (!v.failed && chunk != NULL && out != NULL && older != NULL) {
        memcpy(chunk, data + v.at, chunk_n);
        if (crn_chunk_inspect(chunk, chunk_n, &info, NULL) == CAIRN_OK &&
            info.pipe.n > CRN_PIPE_STAGES)
            abort();
        if (crn_chunk_decode(work, chunk, chunk_n, older, out, n, NULL) == CAIRN_OK)
            older[0] = out[n / 2];
    }
    free(older);
    free(out);
    free(chunk);
    return 0;
}
