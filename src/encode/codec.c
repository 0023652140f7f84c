/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of codecs. A new one is a file, a line here and a section of docs/encoding.md. */
#include "encode/codec.h"

#include <string.h>

static const struct crn_codec *const table[] = {
    &crn_codec_raw,       &crn_codec_zstd,  &crn_codec_lz4,      &crn_codec_gzip,
    &crn_codec_fpc,       &crn_codec_fpzip, &crn_codec_huffman,  &crn_codec_planes,
    &crn_codec_magnitude, &crn_codec_zfp,   &crn_filter_shuffle, &crn_filter_bitshuffle,
    &crn_filter_delta,    &crn_filter_xor,  &crn_filter_lorenzo, &crn_filter_swap,
    &crn_filter_rotate,
};

#define COUNT (sizeof(table) / sizeof(table[0]))

const struct crn_codec *const *crn_codec_table(size_t *ret_n)
{
    *ret_n = COUNT;
    return table;
}

const struct crn_codec *crn_codec_by_id(uint8_t id)
{
    size_t i;

    for (i = 0; i < COUNT; i++)
        if (table[i]->id == id)
            return table[i];
    return NULL;
}

const struct crn_codec *crn_codec_by_name(const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < COUNT; i++)
        if (strlen(table[i]->name) == len && memcmp(table[i]->name, name, len) == 0)
            return table[i];
    return NULL;
}

struct crn_word crn_word_of(cairn_type type)
{
    static const struct crn_word words[] = {
        [CAIRN_BYTES] = {1, 1, 0}, [CAIRN_I8] = {1, 1, 0},  [CAIRN_U8] = {1, 1, 0},
        [CAIRN_I16] = {2, 1, 0},   [CAIRN_U16] = {2, 1, 0}, [CAIRN_I32] = {4, 1, 0},
        [CAIRN_U32] = {4, 1, 0},   [CAIRN_I64] = {8, 1, 0}, [CAIRN_U64] = {8, 1, 0},
        [CAIRN_F32] = {4, 1, 1},   [CAIRN_F64] = {8, 1, 1}, [CAIRN_C64] = {4, 2, 1},
        [CAIRN_C128] = {8, 2, 1},  [CAIRN_F16] = {2, 1, 0}, [CAIRN_BF16] = {2, 1, 0},
    };

    return (size_t)type < sizeof(words) / sizeof(words[0]) ? words[type] : words[CAIRN_BYTES];
}
