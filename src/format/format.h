/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes everything that Cairn stores: shard descriptor, file index, trailer,
 * manifest. Pure: no I/O. Decoders treat every byte as hostile. docs/format.md is the
 * specification: change it too. */
#ifndef CRN_FORMAT_H
#define CRN_FORMAT_H

#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define CRN_FORMAT_MAJOR 1
#define CRN_FORMAT_MINOR 1

/* Limits that the readers enforce. */
#define CRN_MAX_RANKS    (1U << 24)
#define CRN_MAX_FILES    (1U << 20)
#define CRN_MAX_REGIONS  (1U << 20) /* of one shard */
#define CRN_FILE_NAME    40         /* "data-0000.12", with the final 0 */
#define CRN_TRAILER_SIZE 64
#define CRN_CHUNK_MAX    ((uint64_t)1 << 30)
#define CRN_INDEX_MAX    ((uint64_t)1 << 34)
#define CRN_INDEX_GAIN   256 /* a packed index holds at most this many times its own bytes */
#define CRN_MANIFEST_MAX ((size_t)1 << 30)
#define CRN_STREAM_KEY   288                 /* name of a stream's variable, with the final 0 */
#define CRN_STAGES_MAX   4                   /* of a pipeline */
#define CRN_ENCODED_MAX  ((uint32_t)4 << 20) /* bytes of a stream's chunk */
#define CRN_MAX_BASES    255                 /* of a data file */
#define CRN_TYPES        (CAIRN_F8_E5M2 + 1) /* values of cairn_type */

/* Identifies a capture: the run (one session of one job) and the number of the checkpoint call in
 * it. Never reused, even if the same version is captured again. */
struct crn_capture_id {
    uint8_t run[16];
    uint64_t seq;
    uint64_t generation; /* orders the runs of a name; 0: unknown. Not part of the identity */
};
int crn_capture_id_equal(const struct crn_capture_id *a, const struct crn_capture_id *b);
#define CRN_RUN_HEX 33
void crn_run_hex(const uint8_t run[16], char out[CRN_RUN_HEX]);

enum crn_region_kind { CRN_REGION_MEMORY = 0, CRN_REGION_FILE = 1 };

struct crn_region {
    char name[CAIRN_MAX_NAME];
    uint8_t kind;  /* enum crn_region_kind */
    uint8_t type;  /* cairn_type; CAIRN_BYTES for files */
    uint8_t ndims; /* 1 .. CAIRN_MAX_DIMS */
    uint8_t is_global;
    uint64_t dims[CAIRN_MAX_DIMS];
    uint64_t global_dims[CAIRN_MAX_DIMS]; /* zero unless is_global */
    uint64_t offset[CAIRN_MAX_DIMS];
    uint64_t bytes; /* product of dims and the element size */
};

/* The data of one rank. */
struct crn_shard {
    uint32_t rank;
    uint32_t nregions;
    struct crn_region *regions; /* owned */
};

/* A range of a region, and where it lies in the data file. There is one checksum for each
 * chunk_bytes of the range, counted from its start; the first is hashes[first_hash]. */
struct crn_extent {
    uint32_t shard;  /* index into the file's shards, not the rank */
    uint32_t region; /* index into the shard's regions */
    uint64_t offset; /* in the region */
    uint64_t bytes;
    uint64_t file_offset;
    uint64_t first_hash;
};

/* Encoded data files (docs/encoding.md): extents lie in streams. Each chunk of a stream is decoded
 * independently. A chunk is raw if its encoded and decoded sizes are equal. */
struct crn_stream_chunk {
    uint32_t bytes;                     /* decoded */
    uint32_t encoded;                   /* size in the file; never larger */
    uint64_t hash;                      /* of the encoded bytes */
    uint8_t nstages;                    /* of its pipeline; 0: raw */
    uint8_t stages[2 * CRN_STAGES_MAX]; /* id and argument of each stage */
};

/* The bytes of one or several variables that are encoded together. The streams of a file form one
 * address space, one after the other; file_offset of an extent is an address in it. */
struct crn_stream {
    char key[CRN_STREAM_KEY]; /* the variable; empty: several. For reports */
    uint8_t type;             /* cairn_type of its elements */
    uint64_t start;           /* address of its first byte: the sum of the streams before */
    uint64_t bytes;
    uint64_t file_offset; /* of the first chunk; the others follow without gaps */
    uint32_t nchunks;
    struct crn_stream_chunk *chunks; /* owned */
    uint32_t map_bytes;              /* 0: the decoded chunks are the stream */
    unsigned char *map; /* owned; how to rebuild it from them (docs/encoding.md, section 7) */
};

/* An older data file that chunks of a newer one were encoded against. */
struct crn_base {
    int64_t version; /* of the same checkpoint name */
    char file[CRN_FILE_NAME];
    struct crn_capture_id id; /* the capture, in case the version was captured again since */
    uint64_t bytes;           /* whole file */
    uint64_t index_hash;      /* as in its trailer */
};

/* The index of one data file. */
struct crn_index {
    struct crn_capture_id id;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint32_t file_no; /* 0 .. files-1 */
    uint32_t files;
    uint32_t ranks; /* of the whole checkpoint */
    uint32_t nodes;
    /* Written by a drain that could not verify that all nodes captured the version. */
    int is_unpromised;
    uint64_t created_ns;
    uint64_t chunk_bytes;
    uint32_t nshards;
    struct crn_shard *shards; /* owned; ranks ascending */
    uint64_t nextents;
    /* owned; sorted by shard, region, offset; they cover every region exactly once */
    struct crn_extent *extents;
    uint64_t nhashes;
    uint64_t *hashes;           /* owned; XXH3-64 */
    uint32_t nstreams;          /* 0: not encoded, extents lie directly in the file */
    struct crn_stream *streams; /* owned */
    uint32_t nbases;            /* 0: the file is full, needs no other */
    /* owned; nearest first. A chunk encoded against an older version needs the chunk of the same
     * stream at the same position in the nearest base. */
    struct crn_base *bases;
};

/* The last CRN_TRAILER_SIZE bytes of a data file. */
struct crn_trailer {
    uint64_t index_offset; /* the data lies before it */
    uint64_t index_bytes;
    uint64_t index_hash; /* XXH3-64 of the encoded index */
};

/* A parity file: what a node keeps for the other members of its set (src/protect). A member is a node;
 * its stream is the data file that a drain of it writes, so that what is rebuilt is that file. */
#define CRN_PARITY_MEMBERS 64
#define CRN_PARITY_MARK    8 /* bytes of a parity file after its head */
struct crn_parity_member {
    uint32_t node;
    uint64_t bytes;      /* of its data file */
    uint64_t index_hash; /* as in the trailer of that file */
};
struct crn_parity {
    struct crn_capture_id id;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns;
    uint32_t ranks;
    uint32_t nodes;
    uint8_t scheme; /* enum crn_scheme_kind */
    uint8_t rows;   /* parity rows of a stripe: members that may be lost */
    uint8_t place;  /* whose file it is: index into member */
    uint8_t nmembers;
    struct crn_parity_member member[CRN_PARITY_MEMBERS]; /* nodes ascending */
    uint64_t row_bytes[CRN_PARITY_MEMBERS];              /* of each row in this file */
    uint64_t cell_bytes;                                 /* unit of the checksums, in each row */
    uint64_t nhashes;
    uint64_t *hashes; /* owned; XXH3-64, row by row */
    uint64_t tail_bytes;
    unsigned char *tail; /* owned; the end of this node's own data file: index and trailer */
};

struct crn_rank_range {
    uint32_t first;
    uint32_t count;
};

struct crn_manifest_file {
    char name[CRN_FILE_NAME];
    uint64_t bytes; /* whole file */
    struct crn_trailer trailer;
    uint32_t nranges;
    struct crn_rank_range *ranges; /* owned; ascending: ranks whose shards it contains */
    uint32_t nbases;
    struct crn_base *bases; /* owned; same as in its index */
};

struct crn_manifest {
    struct crn_capture_id id;
    char name[CAIRN_MAX_NAME];
    char job[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns; /* time of the capture */
    uint64_t committed_ns;
    uint64_t data_bytes; /* of all regions */
    uint32_t ranks;
    uint32_t nodes;
    uint32_t nfiles;
    struct crn_manifest_file *files; /* owned; ordered by file number */
};

/* Encoders append to buf. They fail with CAIRN_ENOMEM, or with CAIRN_EINVAL for a structure that
 * the format cannot represent. */
CAIRN_CHECKED cairn_err crn_shard_encode(const struct crn_shard *s, struct crn_buf *buf,
                                         struct crn_errinfo *ei);
uint64_t crn_shard_bytes(const struct crn_shard *s); /* encoded size */
CAIRN_CHECKED cairn_err crn_index_encode(const struct crn_index *x, struct crn_buf *buf,
                                         struct crn_errinfo *ei);
/* An index whose body is packed (format.md, section 4): how long it is unpacked, and its bytes. */
CAIRN_CHECKED cairn_err crn_index_wrap(uint64_t bytes, const void *packed, size_t n,
                                       struct crn_buf *buf, struct crn_errinfo *ei);
int crn_index_is_packed(const void *data, size_t len);
CAIRN_CHECKED cairn_err crn_index_unwrap(const void *data, size_t len, const char *what,
                                         uint64_t *ret_bytes, struct crn_view *ret_packed,
                                         struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_trailer_encode(const struct crn_trailer *t, struct crn_buf *buf,
                                           struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_manifest_encode(const struct crn_manifest *m, struct crn_buf *buf,
                                            struct crn_errinfo *ei);

/* Decoders check magic, version, flags, checksum, limits and consistency before they allocate what
 * the input asks for. They fail with CAIRN_EDAMAGED, or with CAIRN_EFORMAT for a newer major
 * version or unknown incompatible flags. On failure ret needs no free. what names the source in
 * messages. */
CAIRN_CHECKED cairn_err crn_shard_decode(const void *data, size_t len, const char *what,
                                         struct crn_shard *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_index_decode(const void *data, size_t len, const char *what,
                                         struct crn_index *ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_trailer_decode(const void *data, uint64_t file_bytes, const char *what,
                                           struct crn_trailer *ret, struct crn_errinfo *ei);
/* One file of a manifest with its chain, to be sent in a message. Free ret with
 * crn_manifest_file_free, even on failure. */
void crn_manifest_file_put(const struct crn_manifest_file *f, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_manifest_file_take(struct crn_view *v, const char *what,
                                               struct crn_manifest_file *ret,
                                               struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_manifest_decode(const void *data, size_t len, const char *what,
                                            struct crn_manifest *ret, struct crn_errinfo *ei);

/* The head of a parity file, which follows the rows. The mark at the end of the file is the length of
 * the head, as a u64: its decoder gets the last CRN_PARITY_MARK bytes. */
CAIRN_CHECKED cairn_err crn_parity_encode(const struct crn_parity *p, struct crn_buf *buf,
                                          struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_parity_decode_mark(const void *data, uint64_t file_bytes,
                                               const char *what, uint64_t *ret_bytes,
                                               struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_parity_decode(const void *data, size_t len, const char *what,
                                          struct crn_parity *ret, struct crn_errinfo *ei);
void crn_parity_free(struct crn_parity *p);
/* Bytes of all rows: where the head begins. */
uint64_t crn_parity_rows_bytes(const struct crn_parity *p);

void crn_shard_free(struct crn_shard *s);
void crn_index_free(struct crn_index *x);
/* Frees the array too; streams may be NULL. */
void crn_streams_free(struct crn_stream *streams, uint32_t n);
/* The stream that contains byte `at` of the streams' address space, or NULL. */
const struct crn_stream *crn_index_stream(const struct crn_index *x, uint64_t at);
/* File offset of the end of its encoded bytes. */
uint64_t crn_stream_end(const struct crn_stream *s);
void crn_manifest_free(struct crn_manifest *m);
void crn_manifest_file_free(struct crn_manifest_file *f); /* what it owns; may be repeated */

/* Chains of older data files. */
int crn_bases_equal(const struct crn_base *a, uint32_t na, const struct crn_base *b, uint32_t nb);
CAIRN_CHECKED cairn_err crn_bases_copy(const struct crn_base *bases, uint32_t n,
                                       struct crn_base **ret, struct crn_errinfo *ei);

/* Computes bytes, and checks type, dims and the position in the global array. */
CAIRN_CHECKED cairn_err crn_region_check(struct crn_region *r, struct crn_errinfo *ei);
/* Index of a region in a shard, or -1. Memory regions and files have separate name spaces. */
int64_t crn_shard_find(const struct crn_shard *s, enum crn_region_kind kind, const char *name);

/* Names in a store. A checkpoint name is valid if crn_check_name accepts it. */
int crn_name_is_valid(const char *name);
/* "data-0003", or "data-0003.2" for the third attempt. crn_data_name_parse accepts only names that
 * crn_data_name makes; 0 or -1. */
void crn_data_name(uint32_t file_no, uint32_t attempt, char ret[CRN_FILE_NAME]);
int crn_data_name_parse(const char *name, uint32_t *ret_file_no, uint32_t *ret_attempt);
/* "parity-0003" and "parity-0003.2", likewise; the number is the node's. */
void crn_parity_name(uint32_t node, uint32_t attempt, char ret[CRN_FILE_NAME]);
int crn_parity_name_parse(const char *name, uint32_t *ret_node, uint32_t *ret_attempt);

#endif
