/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs: the stages that make up an encoding pipeline, one file each. A stage turns bytes into
 * bytes; a filter keeps their number, a codec changes it. The ids and the bytes that a stage
 * writes belong to the format: docs/encoding.md. */
#ifndef CRN_CODEC_H
#define CRN_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct crn_encode_work;

#define CRN_CHUNK_MIN_BYTES ((size_t)64 << 10)
#define CRN_CHUNK_MAX_BYTES ((size_t)4 << 20)
#define CRN_STRIDES         3

/* Consecutive elements of one array. stride[0] is the distance, in elements, to the neighbour in
 * the innermost dimension (1), stride[1] the length of a row, stride[2] that of a plane; 0 where
 * the array has no such dimension. */
struct crn_run {
    uint64_t elements;
    uint32_t stride[CRN_STRIDES];
    uint64_t place; /* of the first in its array; only the encoder asks, to begin runs with rows */
};

/* Describes the bytes of a chunk. */
struct crn_data {
    cairn_type type;
    uint32_t nruns;             /* they cover the elements in order; 0: one one-dimensional run */
    const struct crn_run *runs; /* borrowed */
    const void *previous;       /* older version, as many bytes as the chunk, or NULL; borrowed */
    double tolerance;           /* for lossy stages; 0 otherwise */
};

/* The input and output of one stage. When encoding, dst_n is the space, at least bound(src_n);
 * when decoding, it is the exact number of bytes to produce. src and dst do not overlap. */
struct crn_stage_task {
    struct crn_encode_work *work; /* scratch memory and library contexts of one thread */
    const struct crn_data *data;
    uint8_t arg;
    const unsigned char *src;
    size_t src_n;
    unsigned char *dst;
    size_t dst_n;
};

enum crn_stage_kind { CRN_STAGE_FILTER, CRN_STAGE_CODEC };

struct crn_codec {
    uint8_t id; /* on disk: never changes, never reused */
    const char *name;
    enum crn_stage_kind kind;
    int is_lossy;
    uint8_t arg_min, arg_max, arg_default; /* level, dimensions, ...: see the codec's file */
    /* Does the stage help with such data? decode does not ask. NULL: always. */
    int (*fits)(const struct crn_data *data);
    /* The most bytes that n bytes can become; never below n for a filter. Decoders enforce it,
     * too. */
    size_t (*bound)(size_t n);
    /* NULL if its library was missing at build time. CAIRN_ENOTSUP: it cannot represent these
     * bytes exactly (or within the tolerance); use another pipeline. Any thread, with its own
     * work. */
    cairn_err (*encode)(const struct crn_stage_task *t, size_t *ret_n, struct crn_errinfo *ei);
    /* Treats src as hostile: returns CAIRN_EDAMAGED, and never reads or writes out of bounds. */
    cairn_err (*decode)(const struct crn_stage_task *t, struct crn_errinfo *ei);
};

/* By id and by name; NULL if there is none. The table lists all codecs. */
const struct crn_codec *crn_codec_by_id(uint8_t id);
const struct crn_codec *crn_codec_by_name(const char *name, size_t len);
const struct crn_codec *const *crn_codec_table(size_t *ret_n);

/* The numbers inside an element: a complex element has two. */
struct crn_word {
    uint8_t width; /* in bytes: 1, 2, 4, 8 */
    uint8_t count; /* words per element */
    uint8_t is_float;
};
struct crn_word crn_word_of(cairn_type type);

extern const struct crn_codec crn_codec_raw, crn_codec_zstd, crn_codec_lz4, crn_codec_gzip,
    crn_codec_fpc, crn_codec_fpzip, crn_codec_zfp, crn_codec_huffman, crn_codec_planes,
    crn_codec_magnitude, crn_filter_shuffle, crn_filter_bitshuffle, crn_filter_delta,
    crn_filter_xor, crn_filter_lorenzo, crn_filter_swap, crn_filter_rotate;

/* Reverses the bytes of each of `words` words. */
void crn_filter_swap_words(unsigned char *dst, const unsigned char *src, size_t words,
                           unsigned width);

/* For the files of the codecs. */
#define CRN_DAMAGED(ei, ...) crn_fail((ei), CAIRN_EDAMAGED, 0, __VA_ARGS__)

#endif
