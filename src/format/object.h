/* SPDX-License-Identifier: BSD-3-Clause */
/* What all encoded objects share: a header of 32 bytes, a body, and a checksum over both at the end
 * (docs/format.md, section 2). Inside src/format only. */
#ifndef CRN_FORMAT_OBJECT_H
#define CRN_FORMAT_OBJECT_H

#include "format/format.h"

#define CRN_OBJECT_HEADER   32
#define CRN_OBJECT_CHECKSUM 8

struct crn_object_kind {
    const char *magic; /* 8 bytes */
    const char *noun;  /* in messages */
    uint32_t flags;    /* incompatible ones that may be set */
};

/* Begins an object at the end of buf and returns where; end completes length and checksum. The body
 * is what was appended in between. */
size_t crn_object_begin(const struct crn_object_kind *kind, struct crn_buf *buf);
void crn_object_set_flags(struct crn_buf *buf, size_t at, uint32_t flags);
void crn_object_set_compat(struct crn_buf *buf, size_t at, uint32_t flags);
/* The last field of an index or manifest; with 0 there is none, and the minor version is 0. */
void crn_object_put_generation(struct crn_buf *buf, size_t at, uint64_t generation);
uint64_t crn_object_take_generation(const void *data, struct crn_view *body);
CAIRN_CHECKED cairn_err crn_object_end(const struct crn_object_kind *kind, size_t at,
                                       struct crn_buf *buf, struct crn_errinfo *ei);

/* Checks header and checksum; body is then what lies between them. data holds the object and no
 * more. */
CAIRN_CHECKED cairn_err crn_object_open(const struct crn_object_kind *kind, const void *data,
                                        size_t len, const char *what, struct crn_view *body,
                                        struct crn_errinfo *ei);
/* The incompatible flags of an object that was opened; the compatible ones, known or not. */
uint32_t crn_object_flags(const void *data);
uint32_t crn_object_compat(const void *data);
/* After the last field: all was there, and nothing is left over (unless a newer minor version wrote
 * it, whose further fields are passed over). */
CAIRN_CHECKED cairn_err crn_object_close(const struct crn_object_kind *kind, const void *data,
                                         const struct crn_view *body, const char *what,
                                         struct crn_errinfo *ei);

/* The fields of a shard, without an object around them: the index holds many. Reading checks the
 * count against what is left before it allocates; on failure nothing needs to be freed. */
void crn_shard_put(const struct crn_shard *s, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_shard_take(struct crn_view *v, const char *what, struct crn_shard *ret,
                                       struct crn_errinfo *ei);
/* Regions valid and names unique. code is what the caller blames: CAIRN_EINVAL for a writer,
 * CAIRN_EDAMAGED for a reader. */
CAIRN_CHECKED cairn_err crn_shard_check(const struct crn_shard *s, const char *what, cairn_err code,
                                        struct crn_errinfo *ei);

/* The streams of an index, the same way. fault: what is wrong with them, or NULL; fills start. */
void crn_streams_put(const struct crn_index *x, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_streams_take(struct crn_view *v, const char *what,
                                         struct crn_index *ret, struct crn_errinfo *ei);
const char *crn_streams_fault(const struct crn_index *x);

/* A chain, the same way: nothing is taken for an empty one. fault: what is wrong with that of a file
 * with this number. */
void crn_bases_put(const struct crn_base *bases, uint32_t n, struct crn_buf *buf);
CAIRN_CHECKED cairn_err crn_bases_take(struct crn_view *v, const char *what, struct crn_base **ret,
                                       uint32_t *ret_n, struct crn_errinfo *ei);
const char *crn_bases_fault(const struct crn_base *bases, uint32_t n, uint32_t file_no);

/* Text that may be shown: no control characters. */
int crn_text_is_clean(const char *text);
void crn_capture_id_put(const struct crn_capture_id *id, struct crn_buf *buf);
void crn_capture_id_take(struct crn_view *v, struct crn_capture_id *ret);

#endif
