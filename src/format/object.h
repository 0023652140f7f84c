/* SPDX-License-Identifier: BSD-3-Clause */
/* What all encoded objects have in common: a header of 32 bytes, a body, and a checksum over both
 * at the end (docs/format.md, section 2). For src/format only. */
#ifndef CRN_FORMAT_OBJECT_H
#define CRN_FORMAT_OBJECT_H

#include "format/format.h"

#define CRN_OBJECT_HEADER   32
#define CRN_OBJECT_CHECKSUM 8

struct crn_object_kind {
    const char *magic; /* 8 bytes */
    const char *noun;  /* name in messages */
    uint32_t flags;    /* known incompatible flags */
};

/* Begins an object at the end of buf and returns its position. The body is everything appended
 * until crn_object_end, which completes length and checksum. */
size_t crn_object_begin(const struct crn_object_kind *kind, struct crn_buf *buf);
void crn_object_set_flags(struct crn_buf *buf, size_t at, uint32_t flags);
void crn_object_set_compat(struct crn_buf *buf, size_t at, uint32_t flags);
/* The last field of an index or manifest. 0 is not stored, and the minor version stays 0. */
void crn_object_put_generation(struct crn_buf *buf, size_t at, uint64_t generation);
uint64_t crn_object_take_generation(const void *data, struct crn_view *body);
CAIRN_CHECKED cairn_err crn_object_end(const struct crn_object_kind *kind, size_t at,
                                       struct crn_buf *buf, struct crn_errinfo *ei);

/* Checks header and checksum, and sets body to the bytes between them. data must contain exactly
 * one object. */
CAIRN_CHECKED cairn_err crn_object_open(const struct crn_object_kind *kind, const void *data,
                                        size_t len, const char *what, struct crn_view *body,
                                        struct crn_errinfo *ei);
/* The incompatible and the compatible flags of an opened object; the latter may be unknown ones. */
uint32_t crn_object_flags(const void *data);
uint32_t crn_object_compat(const void *data);
/* Call after the last field: checks that no field was truncated and that no bytes are left. Bytes
 * left by a newer minor version are skipped. */
CAIRN_CHECKED cairn_err crn_object_close(const struct crn_object_kind *kind, const void *data,
                                         const struct crn_view *body, const char *what,
                                         struct crn_errinfo *ei);

/* The fields of a shard without header and checksum: an index contains many. Decoding checks the
 * count against the bytes left before it allocates. On failure nothing needs to be freed. */
void crn_shard_put(const struct crn_shard *s, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_shard_take(struct crn_view *v, const char *what, struct crn_shard *ret,
                                       struct crn_errinfo *ei);
/* The incompatible flag of objects with element types that the first readers do not know. */
#define CRN_OBJECT_NEW_TYPES 4U
int crn_shard_type_is_new(uint8_t type);
int crn_shard_has_new_types(const struct crn_shard *s);
/* Checks that regions are valid and names unique. Fails with code: CAIRN_EINVAL for a writer,
 * CAIRN_EDAMAGED for a reader. */
CAIRN_CHECKED cairn_err crn_shard_check(const struct crn_shard *s, const char *what, cairn_err code,
                                        struct crn_errinfo *ei);

/* The streams of an index, likewise. crn_streams_fault computes start, and returns what is wrong or
 * NULL. */
void crn_streams_put(const struct crn_index *x, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_streams_take(struct crn_view *v, const char *what,
                                         struct crn_index *ret, struct crn_errinfo *ei);
const char *crn_streams_fault(const struct crn_index *x);

/* A chain, likewise. Decoding an empty chain leaves *ret and *ret_n unchanged. crn_bases_fault
 * returns what is wrong with the chain of data file file_no, or NULL. */
void crn_bases_put(const struct crn_base *bases, uint32_t n, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_bases_take(struct crn_view *v, const char *what, struct crn_base **ret,
                                       uint32_t *ret_n, struct crn_errinfo *ei);
const char *crn_bases_fault(const struct crn_base *bases, uint32_t n, uint32_t file_no);

/* True if the text can be displayed: no control characters. */
int crn_object_text_is_clean(const char *text);
void crn_capture_id_put(const struct crn_capture_id *id, struct crn_buf *buf);
void crn_capture_id_take(struct crn_view *v, struct crn_capture_id *ret);

#endif
