/* SPDX-License-Identifier: BSD-3-Clause */
/* Parity files. The rows come first, so that they are written as they are made; the head follows, when
 * all checksums are known. docs/format.md, section 12. */
#include "format/object.h"

#include <stdlib.h>
#include <string.h>

#define MEMBER_BYTES 20
#define TAIL_MAX     ((uint64_t)CRN_INDEX_MAX + CRN_TRAILER_SIZE)

static const struct crn_object_kind parity_kind = {"CRNPARTY", "head of a parity file", 0};

void crn_parity_free(struct crn_parity *p)
{
    free(p->hashes);
    free(p->tail);
    memset(p, 0, sizeof(*p));
}

uint64_t crn_parity_rows_bytes(const struct crn_parity *p)
{
    uint64_t sum = 0;
    uint32_t r;

    for (r = 0; r < p->rows; r++)
        sum += p->row_bytes[r];
    return sum;
}

/* UINT64_MAX: impossible sizes. */
static uint64_t parity_cells(const struct crn_parity *p)
{
    uint64_t cells = 0;
    uint32_t r;

    for (r = 0; r < p->rows; r++) {
        if (p->row_bytes[r] > INT64_MAX / CRN_PARITY_MEMBERS)
            return UINT64_MAX;
        cells += p->row_bytes[r] / p->cell_bytes + (p->row_bytes[r] % p->cell_bytes != 0);
    }
    return cells;
}

static const char *members_fault(const struct crn_parity *p)
{
    uint32_t i;

    if (p->nmembers < 2 || p->nmembers > CRN_PARITY_MEMBERS || p->place >= p->nmembers)
        return "the number of members is out of range";
    if (p->scheme == 0 || p->rows == 0 || p->rows >= p->nmembers)
        return "the scheme does not fit the number of members";
    for (i = 0; i < p->nmembers; i++) {
        if (p->member[i].node >= p->nodes || (i > 0 && p->member[i].node <= p->member[i - 1].node))
            return "the members are out of order or out of range";
        if (p->member[i].bytes > INT64_MAX)
            return "a member has impossible bytes";
    }
    return NULL;
}

static const char *parity_fault(const struct crn_parity *p)
{
    if (!crn_name_is_valid(p->name))
        return "the checkpoint's name is not valid";
    if (p->version < 0)
        return "the version is negative";
    if (p->ranks < 1 || p->ranks > CRN_MAX_RANKS || p->nodes > p->ranks || p->nodes > CRN_MAX_FILES)
        return "the number of ranks or nodes is out of range";
    if (members_fault(p) != NULL)
        return members_fault(p);
    if (p->cell_bytes == 0 || p->cell_bytes > CRN_CHUNK_MAX || parity_cells(p) != p->nhashes)
        return "the checksums do not fit the rows";
    if (p->tail_bytes < CRN_TRAILER_SIZE || p->tail_bytes > TAIL_MAX ||
        p->tail_bytes > p->member[p->place].bytes)
        return "the end of the data file has an impossible size";
    return NULL;
}

cairn_err crn_parity_encode(const struct crn_parity *p, struct crn_buf *buf, struct crn_errinfo *ei)
{
    const char *fault = parity_fault(p);
    uint64_t i;
    size_t at;

    if (fault != NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "encode a parity file: %s", fault);
    at = crn_object_begin(&parity_kind, buf);
    crn_capture_id_put(&p->id, buf);
    crn_buf_u64(buf, p->id.generation);
    crn_buf_str(buf, p->name);
    crn_buf_u64(buf, (uint64_t)p->version);
    crn_buf_u64(buf, p->created_ns);
    crn_buf_u32(buf, p->ranks);
    crn_buf_u32(buf, p->nodes);
    crn_buf_u8(buf, p->scheme);
    crn_buf_u8(buf, p->rows);
    crn_buf_u8(buf, p->place);
    crn_buf_u8(buf, p->nmembers);
    for (i = 0; i < p->nmembers; i++) {
        crn_buf_u32(buf, p->member[i].node);
        crn_buf_u64(buf, p->member[i].bytes);
        crn_buf_u64(buf, p->member[i].index_hash);
    }
    for (i = 0; i < p->rows; i++)
        crn_buf_u64(buf, p->row_bytes[i]);
    crn_buf_u64(buf, p->cell_bytes);
    crn_buf_u64(buf, p->tail_bytes);
    for (i = 0; i < p->nhashes; i++)
        crn_buf_u64(buf, p->hashes[i]);
    crn_buf_put(buf, p->tail, p->tail_bytes);
    return crn_object_end(&parity_kind, at, buf, ei);
}

cairn_err crn_parity_decode_mark(const void *data, uint64_t file_bytes, const char *what,
                                 uint64_t *ret_bytes, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(data, CRN_PARITY_MARK);
    uint64_t bytes = crn_view_u64(&v);

    if (file_bytes < CRN_PARITY_MARK || bytes > file_bytes - CRN_PARITY_MARK ||
        bytes > 2 * TAIL_MAX)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the file was never finished, or is damaged",
                        what);
    *ret_bytes = bytes;
    return CAIRN_OK;
}

static void take_members(struct crn_view *v, struct crn_parity *p)
{
    uint32_t i;

    for (i = 0; i < p->nmembers; i++) {
        p->member[i].node = crn_view_u32(v);
        p->member[i].bytes = crn_view_u64(v);
        p->member[i].index_hash = crn_view_u64(v);
    }
    for (i = 0; i < p->rows; i++)
        p->row_bytes[i] = crn_view_u64(v);
    p->cell_bytes = crn_view_u64(v);
    p->tail_bytes = crn_view_u64(v);
}

/* The fields before the checksums. */
static const char *take_fixed(struct crn_view *v, struct crn_parity *p)
{
    crn_capture_id_take(v, &p->id);
    p->id.generation = crn_view_u64(v);
    crn_view_str(v, p->name, sizeof(p->name));
    p->version = (int64_t)crn_view_u64(v);
    p->created_ns = crn_view_u64(v);
    p->ranks = crn_view_u32(v);
    p->nodes = crn_view_u32(v);
    p->scheme = crn_view_u8(v);
    p->rows = crn_view_u8(v);
    p->place = crn_view_u8(v);
    p->nmembers = crn_view_u8(v);
    if (v->failed || p->nmembers > CRN_PARITY_MEMBERS || p->rows > CRN_PARITY_MEMBERS ||
        crn_view_left(v) < p->nmembers * (size_t)MEMBER_BYTES + p->rows * (size_t)8 + 16)
        return "the list of members is cut off";
    take_members(v, p);
    p->nhashes = p->cell_bytes != 0 ? parity_cells(p) : 0;
    if (p->nhashes > crn_view_left(v) / 8 || p->tail_bytes != crn_view_left(v) - p->nhashes * 8)
        return "the checksums are cut off";
    return parity_fault(p);
}

static cairn_err take_arrays(struct crn_view *v, const char *what, struct crn_parity *p,
                             struct crn_errinfo *ei)
{
    const void *tail;
    uint64_t i;

    p->hashes = calloc(p->nhashes + 1, sizeof(*p->hashes));
    p->tail = malloc(p->tail_bytes + 1);
    if (p->hashes == NULL || p->tail == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for its head", what);
    for (i = 0; i < p->nhashes; i++)
        p->hashes[i] = crn_view_u64(v);
    tail = crn_view_take(v, p->tail_bytes);
    if (tail != NULL)
        memcpy(p->tail, tail, p->tail_bytes);
    return CAIRN_OK;
}

cairn_err crn_parity_decode(const void *data, size_t len, const char *what, struct crn_parity *ret,
                            struct crn_errinfo *ei)
{
    struct crn_parity p = {0};
    struct crn_view body;
    const char *fault;
    cairn_err rc;

    rc = crn_object_open(&parity_kind, data, len, what, &body, ei);
    if (rc != CAIRN_OK)
        return rc;
    fault = take_fixed(&body, &p);
    if (fault != NULL)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: %s", what, fault);
    rc = take_arrays(&body, what, &p, ei);
    if (rc == CAIRN_OK)
        rc = crn_object_close(&parity_kind, data, &body, what, ei);
    if (rc != CAIRN_OK) {
        crn_parity_free(&p);
        return rc;
    }
    *ret = p;
    return CAIRN_OK;
}
