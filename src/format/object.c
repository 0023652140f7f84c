/* SPDX-License-Identifier: BSD-3-Clause */
/* What every encoded object has in common. Header and checksum never move between versions, so that
 * a damaged object can be told from a newer one. */
#include "format/object.h"

#include <string.h>

#define MAGIC_BYTES 8
#define AT_COMPAT   12 /* in the header: the compatible flags */
#define AT_MINOR    10
#define AT_FLAGS    16 /* in the header: the incompatible flags */
#define AT_LENGTH   24 /* in the header: length of the object */

_Static_assert(CRN_TRAILER_SIZE == CRN_OBJECT_HEADER + 3 * 8 + CRN_OBJECT_CHECKSUM,
               "a trailer is an object of fixed size");

size_t crn_object_begin(const struct crn_object_kind *kind, struct crn_buf *buf)
{
    size_t at = buf->len;

    crn_buf_put(buf, kind->magic, MAGIC_BYTES);
    crn_buf_u16(buf, CRN_FORMAT_MAJOR);
    crn_buf_u16(buf, 0); /* minor version: may be set later */
    crn_buf_u32(buf, 0); /* compatible flags */
    crn_buf_u32(buf, 0); /* incompatible flags: may be set later */
    crn_buf_u32(buf, 0); /* reserved */
    crn_buf_u64(buf, 0); /* length: set at the end */
    return at;
}

void crn_object_set_flags(struct crn_buf *buf, size_t at, uint32_t flags)
{
    if (!buf->failed)
        crn_buf_set_u32(buf, at + AT_FLAGS, flags);
}

void crn_object_set_compat(struct crn_buf *buf, size_t at, uint32_t flags)
{
    if (!buf->failed)
        crn_buf_set_u32(buf, at + AT_COMPAT, flags);
}

static uint32_t u32_at(const void *data, size_t at)
{
    struct crn_view v = crn_view_of(data, CRN_OBJECT_HEADER);

    (void)crn_view_take(&v, at);
    return crn_view_u32(&v);
}

uint32_t crn_object_flags(const void *data)
{
    return u32_at(data, AT_FLAGS);
}

uint32_t crn_object_compat(const void *data)
{
    return u32_at(data, AT_COMPAT);
}

void crn_object_put_generation(struct crn_buf *buf, size_t at, uint64_t generation)
{
    if (generation == 0)
        return;
    crn_buf_u64(buf, generation);
    if (!buf->failed)
        buf->data[at + AT_MINOR] = 1;
}

uint64_t crn_object_take_generation(const void *data, struct crn_view *body)
{
    struct crn_view v = crn_view_of(data, CRN_OBJECT_HEADER);
    uint64_t generation;

    (void)crn_view_take(&v, AT_MINOR);
    if (crn_view_u16(&v) == 0)
        return 0;
    generation = crn_view_u64(body);
    body->failed |= generation == 0;
    return generation;
}

cairn_err crn_object_end(const struct crn_object_kind *kind, size_t at, struct crn_buf *buf,
                         struct crn_errinfo *ei)
{
    if (!buf->failed) {
        crn_buf_set_u64(buf, at + AT_LENGTH, buf->len - at + CRN_OBJECT_CHECKSUM);
        crn_buf_u64(buf, crn_hash(buf->data + at, buf->len - at));
    }
    if (buf->failed)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory to encode a %s", kind->noun);
    return CAIRN_OK;
}

cairn_err crn_object_open(const struct crn_object_kind *kind, const void *data, size_t len,
                          const char *what, struct crn_view *body, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(data, len);
    struct crn_view end;
    const void *magic = crn_view_take(&v, MAGIC_BYTES);
    unsigned major = crn_view_u16(&v);
    unsigned minor = crn_view_u16(&v);
    uint32_t incompat;
    uint32_t reserved;
    uint64_t length;

    (void)crn_view_u32(&v); /* compatible flags: unknown ones do no harm */
    incompat = crn_view_u32(&v);
    reserved = crn_view_u32(&v);
    length = crn_view_u64(&v);
    if (v.failed || crn_view_left(&v) < CRN_OBJECT_CHECKSUM)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: too short for a %s", what, kind->noun);
    if (memcmp(magic, kind->magic, MAGIC_BYTES) != 0)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: not a Cairn %s", what, kind->noun);
    end = crn_view_of((const char *)data + len - CRN_OBJECT_CHECKSUM, CRN_OBJECT_CHECKSUM);
    if (length != len || crn_view_u64(&end) != crn_hash(data, len - CRN_OBJECT_CHECKSUM))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: length or checksum of the %s is wrong", what,
                        kind->noun);
    if (major != CRN_FORMAT_MAJOR || (incompat & ~kind->flags) != 0)
        return crn_fail(ei, CAIRN_EFORMAT, 0,
                        "%s: %s of format %u.%u with flags 0x%x; this Cairn reads %d.x, take a "
                        "newer one",
                        what, kind->noun, major, minor, (unsigned)incompat, CRN_FORMAT_MAJOR);
    if (reserved != 0 && minor <= CRN_FORMAT_MINOR)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: reserved bytes of the %s are set", what,
                        kind->noun);
    *body = crn_view_of((const char *)data + CRN_OBJECT_HEADER,
                        len - CRN_OBJECT_HEADER - CRN_OBJECT_CHECKSUM);
    return CAIRN_OK;
}

cairn_err crn_object_close(const struct crn_object_kind *kind, const void *data,
                           const struct crn_view *body, const char *what, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(data, CRN_OBJECT_HEADER);
    unsigned minor;

    (void)crn_view_take(&v, MAGIC_BYTES + 2);
    minor = crn_view_u16(&v);
    if (body->failed)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: a field of the %s is cut off or too long", what,
                        kind->noun);
    if (crn_view_left(body) != 0 && minor <= CRN_FORMAT_MINOR)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: %zu bytes too many in the %s", what,
                        crn_view_left(body), kind->noun);
    return CAIRN_OK;
}

int crn_object_text_is_clean(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return 0;
    return 1;
}

void crn_capture_id_put(const struct crn_capture_id *id, struct crn_buf *buf)
{
    crn_buf_put(buf, id->run, sizeof(id->run));
    crn_buf_u64(buf, id->seq);
}

void crn_capture_id_take(struct crn_view *v, struct crn_capture_id *ret)
{
    const void *run = crn_view_take(v, sizeof(ret->run));

    if (run != NULL)
        memcpy(ret->run, run, sizeof(ret->run));
    ret->seq = crn_view_u64(v);
}
