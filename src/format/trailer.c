/* SPDX-License-Identifier: BSD-3-Clause */
/* The trailer: the last bytes of a data file, which locate its index. docs/format.md, section 5. */
#include "format/object.h"

static const struct crn_object_kind trailer_kind = {"CRNTRAIL", "trailer", 0};

cairn_err crn_trailer_encode(const struct crn_trailer *t, struct crn_buf *buf,
                             struct crn_errinfo *ei)
{
    size_t at = crn_object_begin(&trailer_kind, buf);

    crn_buf_u64(buf, t->index_offset);
    crn_buf_u64(buf, t->index_bytes);
    crn_buf_u64(buf, t->index_hash);
    return crn_object_end(&trailer_kind, at, buf, ei);
}

cairn_err crn_trailer_decode(const void *data, uint64_t file_bytes, const char *what,
                             struct crn_trailer *ret, struct crn_errinfo *ei)
{
    struct crn_trailer t;
    struct crn_view body;
    cairn_err rc;

    rc = crn_object_open(&trailer_kind, data, CRN_TRAILER_SIZE, what, &body, ei);
    if (rc != CAIRN_OK)
        return rc;
    t.index_offset = crn_view_u64(&body);
    t.index_bytes = crn_view_u64(&body);
    t.index_hash = crn_view_u64(&body);
    rc = crn_object_close(&trailer_kind, data, &body, what, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (file_bytes < CRN_TRAILER_SIZE || t.index_bytes > CRN_INDEX_MAX ||
        t.index_bytes > file_bytes - CRN_TRAILER_SIZE ||
        t.index_offset != file_bytes - CRN_TRAILER_SIZE - t.index_bytes)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the trailer does not fit a file of %llu bytes",
                        what, (unsigned long long)file_bytes);
    *ret = t;
    return CAIRN_OK;
}
