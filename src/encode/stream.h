/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes a stream of bytes of one variable (or of anything) into chunks, and decodes it. Chunks
 * decode independently; reading a range needs only the chunks that contain it.
 *
 * Memory of an encoder or a reader: its chunk buffers and its work, below 64 MiB together for
 * every chunk size. With dedup, add 32 bytes for about every 6 KiB of new data. */
#ifndef CRN_STREAM_H
#define CRN_STREAM_H

#include "encode/chunk_cache.h"
#include "encode/choose.h"
#include "encode/dedup.h"

#define CRN_STREAM_CHUNK ((size_t)1 << 20) /* default */

struct crn_stream_options {
    cairn_type type;
    size_t chunk_bytes;          /* 64 KiB to 4 MiB; 0: CRN_STREAM_CHUNK */
    uint64_t bytes;              /* of the stream, if known: tells how many trials pay off */
    const char *key;             /* of the variable, for the choice; must outlive the encoder */
    struct crn_chooser *chooser; /* NULL: use pipe */
    struct crn_pipe pipe;        /* for all chunks; the only way to use a lossy one */
    double tolerance;            /* of a lossy pipe */
    int dedup;                   /* look for repeated blocks; not with an older version */
};

/* One encoded chunk: [offset, offset + bytes) of the new bytes of the stream. */
struct crn_chunk_record {
    uint64_t offset;
    uint32_t bytes;
    uint32_t encoded;
    uint64_t hash; /* of the encoded bytes: crn_hash */
    struct crn_pipe pipe;
};

/* Consumes a chunk; the bytes are valid during the call. */
typedef cairn_err crn_emit(void *ctx, const struct crn_chunk_record *record, const void *encoded,
                           struct crn_errinfo *ei);

struct crn_encoder;

CAIRN_CHECKED cairn_err crn_encoder_open(const struct crn_stream_options *options,
                                         struct crn_encode_work *work, crn_emit *emit, void *ctx,
                                         struct crn_encoder **ret, struct crn_errinfo *ei);
void crn_encoder_close(struct crn_encoder *e); /* at any time; NULL is allowed */
/* Appends bytes whose layout in their array is run (NULL: one dimension). previous: the same
 * bytes in the older version, or NULL; all calls must agree. */
CAIRN_CHECKED cairn_err crn_encoder_put(struct crn_encoder *e, const void *bytes, size_t n,
                                        const struct crn_run *run, const void *previous,
                                        struct crn_errinfo *ei);
/* Emits the last chunk and hands over the map (empty if nothing is repeated). */
CAIRN_CHECKED cairn_err crn_encoder_finish(struct crn_encoder *e, struct crn_map *ret,
                                           struct crn_errinfo *ei);

/* Reading. */
struct crn_reader_options {
    const struct crn_chunk_record *records; /* of the whole stream, in order */
    size_t n;
    const struct crn_map *map; /* NULL or empty: nothing is repeated */
    /* Reads the encoded bytes of a chunk: record.encoded bytes to buf. */
    cairn_err (*fetch)(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei);
    /* Reads bytes of the older version of the stream, for chunks that were encoded against it;
     * NULL if there is none. */
    cairn_err (*fetch_previous)(void *ctx, uint64_t offset, size_t n, void *buf,
                                struct crn_errinfo *ei);
    void *ctx;
    struct crn_chunk_cache *cache; /* of chunks that are read in parts; NULL: the last one only */
    uint64_t domain;               /* of its keys */
};

struct crn_reader;

/* Checks that the records are consecutive and have valid sizes. All options must outlive the
 * reader. */
CAIRN_CHECKED cairn_err crn_reader_open(const struct crn_reader_options *options,
                                        struct crn_encode_work *work, struct crn_reader **ret,
                                        struct crn_errinfo *ei);
void crn_reader_close(struct crn_reader *r); /* NULL is allowed */
/* Bytes [offset, offset + n) of the stream. A call fetches and decodes each chunk at most once,
 * even if its bytes occur many times. Checks the hashes. */
CAIRN_CHECKED cairn_err crn_reader_read(struct crn_reader *r, uint64_t offset, void *dst,
                                        uint64_t n, struct crn_errinfo *ei);

#endif
