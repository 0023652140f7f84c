/* SPDX-License-Identifier: BSD-3-Clause */
/* Every piece gets a choice of its own: an index begins with names, continues with records and ends
 * with hashes. Memory grows with what is decoded, not with what is announced. */
#include "encode/pack.h"

#include <errno.h>
#include <stdio.h>
#include "encode/choose.h"
#include "encode/chunk.h"
#include "encode/work.h"

#define PIECE ((size_t)128 << 10)

struct packer {
    struct crn_encode_work *work;
    struct crn_chooser *chooser;
    struct crn_pipe pipe;
};

static cairn_err pack_piece(struct packer *p, size_t at, const unsigned char *src, size_t n,
                            struct crn_buf *dst, struct crn_errinfo *ei)
{
    struct crn_data data = {.type = CAIRN_BYTES};
    struct crn_choice choice = {.pipe = p->pipe};
    unsigned char *room;
    struct crn_data taken;
    struct crn_run run;
    char key[24];
    size_t size = n;
    cairn_err rc = crn_work_scratch(p->work, CRN_SLOT_ENCODED, n, &room, ei);

    (void)snprintf(key, sizeof(key), "%zu", at);
    if (rc == CAIRN_OK && p->chooser != NULL)
        rc = crn_choose(p->chooser, p->work, key, &data, src, n, 16 * n, &choice, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_as_data(&data, choice.as, n, &run, &taken);
    if (choice.pipe.n > 0)
        rc = crn_chunk_encode(p->work, &choice.pipe, &taken, src, n, room, &size, NULL, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_buf_u32(dst, (uint32_t)size);
    crn_buf_put(dst, size < n ? room : src, size);
    return dst->failed ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "packed metadata") : CAIRN_OK;
}

cairn_err crn_pack(const void *src, size_t n, const struct crn_pipe *pipe, struct crn_buf *dst,
                   struct crn_errinfo *ei)
{
    struct crn_choose_options options = {.aim = CRN_AIM_RATIO};
    struct packer p = {.pipe = pipe != NULL ? *pipe : (struct crn_pipe){0}};
    cairn_err rc = crn_work_new(&p.work, ei);
    size_t at;

    if (rc == CAIRN_OK && pipe == NULL)
        rc = crn_chooser_open(&options, &p.chooser, ei);
    for (at = 0; rc == CAIRN_OK && at < n; at += PIECE)
        rc = pack_piece(&p, at, (const unsigned char *)src + at, n - at < PIECE ? n - at : PIECE,
                        dst, ei);
    crn_chooser_close(p.chooser);
    crn_work_free(p.work);
    return rc;
}

static cairn_err unpack_piece(struct crn_encode_work *w, struct crn_view *packed, size_t n,
                              struct crn_buf *dst, struct crn_errinfo *ei)
{
    uint32_t size = crn_view_u32(packed);
    const void *piece = crn_view_take(packed, size);
    unsigned char *room;
    cairn_err rc;

    if (packed->failed || size == 0 || size > n)
        return CRN_DAMAGED(ei, "packed metadata is damaged");
    rc = crn_work_scratch(w, CRN_SLOT_CHUNK, n, &room, ei);
    if (rc == CAIRN_OK)
        rc = crn_chunk_decode(w, piece, size, NULL, room, n, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_buf_put(dst, room, n);
    return dst->failed ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "packed metadata") : CAIRN_OK;
}

cairn_err crn_unpack(struct crn_view packed, uint64_t n, struct crn_buf *dst,
                     struct crn_errinfo *ei)
{
    struct crn_encode_work *w = NULL;
    cairn_err rc = crn_work_new(&w, ei);

    while (rc == CAIRN_OK && n > 0) {
        size_t piece = n < PIECE ? (size_t)n : PIECE;

        rc = unpack_piece(w, &packed, piece, dst, ei);
        n -= piece;
    }
    if (rc == CAIRN_OK && crn_view_left(&packed) > 0)
        rc = CRN_DAMAGED(ei, "packed metadata has bytes left over");
    crn_work_free(w);
    return rc;
}
