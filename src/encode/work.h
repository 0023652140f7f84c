/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of one encoding or decoding thread: scratch buffers and the contexts of the
 * compression libraries, created on first use and kept for later streams. One encoder or reader
 * uses it at a time. Memory stays below CRN_WORK_MAX for chunks of up to CRN_CHUNK_MAX_BYTES. */
#ifndef CRN_WORK_H
#define CRN_WORK_H

#include "encode/codec.h"

#define CRN_WORK_MAX ((size_t)64 << 20)

/* Each slot has one user at a time, named in its comment. */
enum crn_slot {
    CRN_SLOT_PIPE_A, /* pipe.c: between stages, alternating with B */
    CRN_SLOT_PIPE_B,
    CRN_SLOT_STAGE,    /* the running stage */
    CRN_SLOT_PLANE,    /* plane.c, codec_zfp.c */
    CRN_SLOT_HEAD,     /* chunk.c */
    CRN_SLOT_SAMPLE,   /* choose.c */
    CRN_SLOT_TRIAL,    /* trial.c */
    CRN_SLOT_SWAPPED,  /* trial.c: the chunk in the other byte order */
    CRN_SLOT_RESULT_A, /* choose.c: the best result, alternating with B */
    CRN_SLOT_RESULT_B,
    CRN_SLOT_CHUNK,    /* encoder.c, reader.c */
    CRN_SLOT_ENCODED,  /* the same */
    CRN_SLOT_PREVIOUS, /* the same */
    CRN_SLOT_BASE,     /* store/decode.c: the encoded chunk of a base */
    CRN_SLOT_OLDER,    /* store/decode.c: decoded, alternating with PREVIOUS */
    CRN_SLOT_COUNT
};

CAIRN_CHECKED cairn_err crn_work_new(struct crn_encode_work **ret, struct crn_errinfo *ei);
void crn_work_free(struct crn_encode_work *w); /* NULL is allowed */

/* Space for n bytes, aligned to 64, uninitialised. CAIRN_ENOMEM; CAIRN_EDAMAGED if n is more
 * than any chunk can need. Valid until the slot is requested again. */
CAIRN_CHECKED cairn_err crn_work_scratch(struct crn_encode_work *w, enum crn_slot slot, size_t n,
                                         unsigned char **ret, struct crn_errinfo *ei);
size_t crn_work_bytes(const struct crn_encode_work *w); /* scratch memory allocated now */

/* Contexts of libzstd, as void pointers so that only codec_zstd.c needs its header. */
enum crn_context { CRN_CONTEXT_ZSTD_C, CRN_CONTEXT_ZSTD_D, CRN_CONTEXT_COUNT };
void **crn_work_context(struct crn_encode_work *w, enum crn_context which, void (*destroy)(void *));

#endif
