/* SPDX-License-Identifier: BSD-3-Clause */
/* One encoded chunk for each stage, and what it holds. Never change one: add others at the end. */
#ifndef GOLDEN_CHUNKS_H
#define GOLDEN_CHUNKS_H

#include <string.h>

#include "encode/chunk.h"

enum { GOLDEN_CHUNK = 4000 };

static const struct golden_chunk {
    const char *pipe;
    cairn_type type;
} golden_chunks[] = {
    {"zstd:3", CAIRN_F64},
    {"lz4", CAIRN_I32},
    {"gzip:6", CAIRN_F32},
    {"fpc:10", CAIRN_F64},
    {"fpzip", CAIRN_F32},
    {"huffman", CAIRN_U8},
    {"planes:3", CAIRN_F64},
    {"planes:0", CAIRN_BF16},
    {"lorenzo:3,magnitude", CAIRN_F64},
    {"shuffle,zstd:1", CAIRN_F32},
    {"bitshuffle,lz4", CAIRN_F64},
    {"delta,planes", CAIRN_I64},
    {"xor,huffman", CAIRN_U16},
    {"lorenzo:7,planes:0", CAIRN_F32},
    {"lorenzo:17,magnitude", CAIRN_F64},
    {"lorenzo:19,planes:0", CAIRN_F16},
    {"swap,lorenzo:1,magnitude", CAIRN_U32},
    {"rotate:3,planes:0", CAIRN_U64},
    {"lorenzo:11,magnitude", CAIRN_F64},
    {"xor:1,planes:0", CAIRN_F64},
    {"delta:1,shuffle,gzip:9", CAIRN_I32},
    {"lorenzo:39,magnitude", CAIRN_F64},
    {"lorenzo:51,planes:0", CAIRN_F32},
};
#define GOLDEN_CHUNKS (sizeof(golden_chunks) / sizeof(golden_chunks[0]))

/* Fills in the name of the file, the contents, and their older version. Exact on every machine. */
static inline void golden_chunk(size_t k, char name[32], unsigned char *now, unsigned char *older)
{
    size_t width = crn_word_of(golden_chunks[k].type).width;
    size_t i;

    (void)snprintf(name, 32, "%02zu", k);
    for (i = 0; i < GOLDEN_CHUNK / width; i++) {
        double d = (double)(i % 50 * (i % 50) + 3 * (i / 50)) * 0.25 + 1;
        double e = d + 0.125 * (double)(i % 7);
        float f = (float)d, g = (float)e;
        uint64_t x = 1000 + (width < 4 ? i * i % 17 : i * i % 977 * 3), y = x + i % 3;

        if (golden_chunks[k].type == CAIRN_U32) /* as in a big-endian file */
            x = __builtin_bswap32((uint32_t)x);
        if (golden_chunks[k].type == CAIRN_F64) {
            memcpy(now + i * 8, &d, 8);
            memcpy(older + i * 8, &e, 8);
        } else if (golden_chunks[k].type == CAIRN_F32) {
            memcpy(now + i * 4, &f, 4);
            memcpy(older + i * 4, &g, 4);
        } else {
            memcpy(now + i * width, &x, width);
            memcpy(older + i * width, &y, width);
        }
    }
}

static inline struct crn_run golden_chunk_run(size_t k)
{
    return (struct crn_run){.elements = GOLDEN_CHUNK / cairn_type_size(golden_chunks[k].type),
                            .stride = {1, 50, 250}};
}

#endif
