/* SPDX-License-Identifier: BSD-3-Clause */
/* The detection of records in untyped bytes, and the choice that follows. The input is repeated
 * until it is long enough; encoding and decoding must return it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "encode/choose.h"
#include "encode/chunk.h"
#include "encode/work.h"

#define N ((size_t)96 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void there_and_back(struct crn_encode_work *work, struct crn_chooser *chooser,
                           const unsigned char *src, unsigned char *out, unsigned char *back)
{
    struct crn_data bytes = {.type = CAIRN_BYTES};
    struct crn_choice choice;
    struct crn_data taken;
    struct crn_run run;
    size_t n;

    if (crn_choose(chooser, work, "x", &bytes, src, N, N, &choice, NULL) != CAIRN_OK)
        abort();
    crn_as_data(&bytes, choice.as, N, &run, &taken);
    if (crn_chunk_encode(work, &choice.pipe, &taken, src, N, out, &n, NULL, NULL) != CAIRN_OK ||
        crn_chunk_decode(work, out, n, NULL, back, N, NULL) != CAIRN_OK ||
        memcmp(back, src, N) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct crn_choose_options o = {.aim = CRN_AIM_RATIO};
    struct crn_encode_work *work = NULL;
    struct crn_chooser *chooser = NULL;
    unsigned char *src = malloc(3 * N);
    size_t i;

    if (src != NULL && size > 0 && crn_work_new(&work, NULL) == CAIRN_OK &&
        crn_chooser_open(&o, &chooser, NULL) == CAIRN_OK) {
        for (i = 0; i < N; i++) /* a slow drift from one repetition to the next */
            src[i] = (unsigned char)(data[i % size] + i / size % 7);
        there_and_back(work, chooser, src, src + N, src + 2 * N);
    }
    crn_chooser_close(chooser);
    crn_work_free(work);
    free(src);
    return 0;
}
