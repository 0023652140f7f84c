/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of a data file: the older data files that its chunks were encoded against, nearest
 * first. Checks only that the chain is consistent; the reader of those files checks that they match
 * it. docs/format.md, section 4. */
#include "format/object.h"

#include <stdlib.h>
#include <string.h>

#define BASE_MIN 50 /* bytes of an encoded base without its file name */

void crn_bases_put(const struct crn_base *bases, uint32_t n, struct crn_buf *buf)
{
    uint32_t i;

    crn_buf_u32(buf, n);
    for (i = 0; i < n; i++) {
        crn_buf_u64(buf, (uint64_t)bases[i].version);
        crn_buf_str(buf, bases[i].file);
        crn_capture_id_put(&bases[i].id, buf);
        crn_buf_u64(buf, bases[i].bytes);
        crn_buf_u64(buf, bases[i].index_hash);
    }
}

cairn_err crn_bases_take(struct crn_view *v, const char *what, struct crn_base **ret,
                         uint32_t *ret_n, struct crn_errinfo *ei)
{
    uint32_t n = crn_view_u32(v);
    struct crn_base *bases;
    uint32_t i;

    if (v->failed || n > CRN_MAX_BASES || n > crn_view_left(v) / BASE_MIN)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: a chain of older versions is cut off", what);
    if (n == 0)
        return CAIRN_OK;
    bases = calloc(n, sizeof(*bases));
    if (bases == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for a chain of %u", what, (unsigned)n);
    for (i = 0; i < n; i++) {
        bases[i].version = (int64_t)crn_view_u64(v);
        crn_view_str(v, bases[i].file, sizeof(bases[i].file));
        crn_capture_id_take(v, &bases[i].id);
        bases[i].bytes = crn_view_u64(v);
        bases[i].index_hash = crn_view_u64(v);
    }
    *ret = bases;
    *ret_n = n;
    return CAIRN_OK;
}

const char *crn_bases_fault(const struct crn_base *bases, uint32_t n, uint32_t file_no)
{
    uint32_t no, attempt;
    uint32_t i;

    if (n > CRN_MAX_BASES)
        return "the chain of older versions is too long";
    for (i = 0; i < n; i++)
        if (bases[i].version < 0 || bases[i].bytes < CRN_TRAILER_SIZE ||
            bases[i].bytes > INT64_MAX || crn_data_name_parse(bases[i].file, &no, &attempt) != 0 ||
            no != file_no)
            return "the chain of older versions names what cannot be one";
    return NULL;
}

int crn_bases_equal(const struct crn_base *a, uint32_t na, const struct crn_base *b, uint32_t nb)
{
    uint32_t i;

    if (na != nb)
        return 0;
    for (i = 0; i < na; i++)
        if (a[i].version != b[i].version || strcmp(a[i].file, b[i].file) != 0 ||
            !crn_capture_id_equal(&a[i].id, &b[i].id) || a[i].bytes != b[i].bytes ||
            a[i].index_hash != b[i].index_hash)
            return 0;
    return 1;
}

cairn_err crn_bases_copy(const struct crn_base *bases, uint32_t n, struct crn_base **ret,
                         struct crn_errinfo *ei)
{
    *ret = NULL;
    if (n == 0)
        return CAIRN_OK;
    *ret = malloc(n * sizeof(**ret));
    if (*ret == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a chain of %u", (unsigned)n);
    memcpy(*ret, bases, n * sizeof(**ret));
    return CAIRN_OK;
}
