/* SPDX-License-Identifier: BSD-3-Clause */
/* Little-endian bytes, written to a growing buffer and read from hostile input. Both sides carry
 * their first failure, so that callers check once, at the end. */
#ifndef CRN_BUF_H
#define CRN_BUF_H

#include <stddef.h>
#include <stdint.h>

struct crn_buf {
    unsigned char *data;
    size_t len;
    size_t cap;
    int failed; /* out of memory: all later writes are dropped */
};

void crn_buf_put(struct crn_buf *b, const void *p, size_t n);
void crn_buf_u8(struct crn_buf *b, uint8_t v);
void crn_buf_u16(struct crn_buf *b, uint16_t v);
void crn_buf_u32(struct crn_buf *b, uint32_t v);
void crn_buf_u64(struct crn_buf *b, uint64_t v);
void crn_buf_str(struct crn_buf *b, const char *s); /* u16 length, bytes without the final 0 */
void crn_buf_zero(struct crn_buf *b, size_t n);
void crn_buf_set_u32(struct crn_buf *b, size_t at, uint32_t v); /* overwrites existing bytes */
void crn_buf_set_u64(struct crn_buf *b, size_t at, uint64_t v);
void crn_buf_free(struct crn_buf *b);

struct crn_view {
    const unsigned char *data;
    size_t len;
    size_t at;
    int failed; /* read past the end, or string too long: all later reads return 0 */
};

struct crn_view crn_view_of(const void *data, size_t len);
const void *crn_view_take(struct crn_view *v, size_t n); /* NULL if fewer than n bytes are left */
uint8_t crn_view_u8(struct crn_view *v);
uint16_t crn_view_u16(struct crn_view *v);
uint32_t crn_view_u32(struct crn_view *v);
uint64_t crn_view_u64(struct crn_view *v);
/* Copies a string and terminates it. A string of size bytes or more, or with a 0 byte, fails. */
void crn_view_str(struct crn_view *v, char *dst, size_t size);
size_t crn_view_left(const struct crn_view *v);

uint64_t crn_hash(const void *data, size_t n); /* XXH3, 64 bits */
/* XXH3, 128 bits. With a secret seed nobody can construct a collision. */
void crn_hash128(const void *data, size_t n, uint64_t seed, uint64_t ret[2]);

#endif
