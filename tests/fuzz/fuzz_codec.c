/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoder of one stage: FUZZ_CODEC. Input: u8 type, u8 argument, u16 expected bytes, then
 * the encoded data. The rest of the input is also used as plain data: encoding and decoding must
 * return it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "encode/work.h"
#include "format/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct crn_codec *const codec = &FUZZ_CODEC;

static void *exact(const void *src, size_t n)
{
    void *p = malloc(n > 0 ? n : 1); /* so that an access one byte beyond is detected */

    if (p == NULL)
        exit(1);
    if (n > 0)
        memcpy(p, src, n);
    return p;
}

static void decode_hostile(struct crn_stage_task t, const uint8_t *src, size_t n, size_t dst_n)
{
    unsigned char *in = exact(src, n);
    unsigned char *out = malloc(dst_n);

    t.src = in;
    t.src_n = n;
    t.dst = out;
    t.dst_n = dst_n;
    if (out != NULL && (codec->kind == CRN_STAGE_CODEC || n == dst_n) &&
        codec->decode(&t, NULL) == CAIRN_OK) {
        volatile unsigned char sum = 0; /* reads every byte that was promised */
        size_t i;

        for (i = 0; i < dst_n; i++)
            sum = (unsigned char)(sum + out[i]);
    }
    free(out);
    free(in);
}

static void there_and_back(struct crn_stage_task t, const uint8_t *src, size_t n)
{
    unsigned char *in = exact(src, n);
    unsigned char *out = malloc(codec->bound(n));
    unsigned char *back = malloc(n);
    struct crn_stage_task u = t;

    t.src = in;
    t.src_n = n;
    t.dst = out;
    t.dst_n = codec->bound(n);
    u.dst = back;
    u.dst_n = n;
    if (out != NULL && back != NULL && codec->encode(&t, &u.src_n, NULL) == CAIRN_OK) {
        unsigned char *tight = exact(out, u.src_n);

        u.src = tight;
        if (codec->decode(&u, NULL) != CAIRN_OK || (!codec->is_lossy && memcmp(back, in, n) != 0))
            abort();
        free(tight);
    }
    free(back);
    free(out);
    free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct crn_encode_work *work; /* kept: reusing its buffers is part of the test */
    struct crn_view v = crn_view_of(data, size);
    cairn_type type = crn_view_u8(&v) % CRN_TYPES;
    unsigned arg = crn_view_u8(&v);
    size_t dst_n = crn_view_u16(&v);
    static const struct crn_run run = {.elements = 200, .stride = {1, 7, 35}};
    struct crn_data what = {.type = type, .nruns = 1, .runs = &run, .tolerance = 0.5};
    struct crn_stage_task t = {.data = &what};

    if (v.failed || codec->decode == NULL ||
        (work == NULL && crn_work_new(&work, NULL) != CAIRN_OK))
        return 0;
    t.work = work;
    t.arg = (uint8_t)(codec->arg_min + arg % (codec->arg_max - codec->arg_min + 1U));
    if (dst_n > 0)
        decode_hostile(t, data + v.at, crn_view_left(&v), dst_n);
    if (codec->encode != NULL && crn_view_left(&v) > 0 &&
        (codec->fits == NULL || codec->fits(&what)))
        there_and_back(t, data + v.at, crn_view_left(&v));
    return 0;
}
