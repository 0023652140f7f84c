/* SPDX-License-Identifier: BSD-3-Clause */
/* The manifest: a version exists if and only if its manifest does. A consistent manifest places
 * every rank's shard in exactly one of its files. docs/format.md, section 6. */
#include "format/object.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MIN    38 /* bytes of the shortest encoded file */
#define RANGE_BYTES 8
#define HAS_BASES   2U /* incompatible flag */

static const struct crn_object_kind manifest_kind = {"CRNMANIF", "manifest", HAS_BASES};

void crn_manifest_file_free(struct crn_manifest_file *f)
{
    free(f->ranges);
    free(f->bases);
    f->ranges = NULL;
    f->nranges = 0;
    f->bases = NULL;
    f->nbases = 0;
}

void crn_manifest_free(struct crn_manifest *m)
{
    uint32_t i;

    for (i = 0; m->files != NULL && i < m->nfiles; i++)
        crn_manifest_file_free(&m->files[i]);
    free(m->files);
    memset(m, 0, sizeof(*m));
}

static const char *file_fault(const struct crn_manifest_file *f, uint32_t file_no)
{
    const struct crn_trailer *t = &f->trailer;
    uint32_t no, attempt;

    if (crn_data_name_parse(f->name, &no, &attempt) != 0 || no != file_no)
        return "a file's name does not fit its number";
    if (f->bytes > INT64_MAX || f->bytes < CRN_TRAILER_SIZE || t->index_bytes > CRN_INDEX_MAX ||
        t->index_bytes > f->bytes - CRN_TRAILER_SIZE ||
        t->index_offset != f->bytes - CRN_TRAILER_SIZE - t->index_bytes)
        return "a file's trailer does not fit its size";
    return crn_bases_fault(f->bases, f->nbases, file_no);
}

/* seen has one byte per rank. No rank is marked twice, so the time is bounded by the number of
 * ranks. */
static const char *ranges_fault(const struct crn_manifest *m, unsigned char *seen)
{
    uint32_t total = 0;
    uint32_t i, j, k;

    for (i = 0; i < m->nfiles; i++) {
        uint32_t next = 0; /* ranges ascend within a file */

        for (j = 0; j < m->files[i].nranges; j++) {
            struct crn_rank_range range = m->files[i].ranges[j];

            if (range.count == 0 || range.first < next || range.first >= m->ranks ||
                range.count > m->ranks - range.first)
                return "a range of ranks is empty, out of order or out of range";
            for (k = range.first; k < range.first + range.count; k++) {
                if (seen[k])
                    return "a rank is in two files";
                seen[k] = 1;
            }
            total += range.count;
            next = range.first + range.count;
        }
    }
    return total == m->ranks ? NULL : "a rank is in no file";
}

static const char *manifest_fault(const struct crn_manifest *m)
{
    const char *fault = NULL;
    uint32_t i;

    if (!crn_name_is_valid(m->name))
        return "the checkpoint's name is not valid";
    if (memchr(m->job, 0, sizeof(m->job)) == NULL || !crn_object_text_is_clean(m->job))
        return "the job's name is too long or not printable";
    if (m->version < 0)
        return "the version is negative";
    if (m->ranks < 1 || m->ranks > CRN_MAX_RANKS || m->nodes > m->ranks)
        return "the number of ranks or nodes is out of range";
    if (m->nfiles < 1 || m->nfiles > CRN_MAX_FILES)
        return "the number of files is out of range";
    for (i = 0; i < m->nfiles && fault == NULL; i++)
        fault = file_fault(&m->files[i], i);
    return fault;
}

static cairn_err manifest_check(const struct crn_manifest *m, const char *what, cairn_err code,
                                struct crn_errinfo *ei)
{
    const char *fault = manifest_fault(m);
    unsigned char *seen;

    if (fault == NULL) {
        seen = calloc(m->ranks, 1);
        if (seen == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for %u ranks", what,
                            (unsigned)m->ranks);
        fault = ranges_fault(m, seen);
        free(seen);
    }
    if (fault != NULL)
        return crn_fail(ei, code, 0, "%s: %s", what, fault);
    return CAIRN_OK;
}

static uint32_t flags_of(const struct crn_manifest *m)
{
    uint32_t i;

    for (i = 0; i < m->nfiles; i++)
        if (m->files[i].nbases > 0)
            return HAS_BASES;
    return 0;
}

static void put_file(const struct crn_manifest_file *f, struct crn_buf *buf)
{
    uint32_t i;

    crn_buf_str(buf, f->name);
    crn_buf_u64(buf, f->bytes);
    crn_buf_u64(buf, f->trailer.index_offset);
    crn_buf_u64(buf, f->trailer.index_bytes);
    crn_buf_u64(buf, f->trailer.index_hash);
    crn_buf_u32(buf, f->nranges);
    for (i = 0; i < f->nranges; i++) {
        crn_buf_u32(buf, f->ranges[i].first);
        crn_buf_u32(buf, f->ranges[i].count);
    }
}

void crn_manifest_file_put(const struct crn_manifest_file *f, struct crn_buf *buf)
{
    put_file(f, buf);
    crn_bases_put(f->bases, f->nbases, buf);
}

cairn_err crn_manifest_encode(const struct crn_manifest *m, struct crn_buf *buf,
                              struct crn_errinfo *ei)
{
    uint32_t flags = flags_of(m);
    cairn_err rc;
    size_t at;
    uint32_t i;

    rc = manifest_check(m, "encode a manifest", CAIRN_EINVAL, ei);
    if (rc != CAIRN_OK)
        return rc;
    at = crn_object_begin(&manifest_kind, buf);
    crn_capture_id_put(&m->id, buf);
    crn_buf_str(buf, m->name);
    crn_buf_str(buf, m->job);
    crn_buf_u64(buf, (uint64_t)m->version);
    crn_buf_u64(buf, m->created_ns);
    crn_buf_u64(buf, m->committed_ns);
    crn_buf_u64(buf, m->data_bytes);
    crn_buf_u32(buf, m->ranks);
    crn_buf_u32(buf, m->nodes);
    crn_buf_u32(buf, m->nfiles);
    crn_object_set_flags(buf, at, flags);
    for (i = 0; i < m->nfiles; i++)
        if (flags == 0)
            put_file(&m->files[i], buf);
        else
            crn_manifest_file_put(&m->files[i], buf);
    crn_object_put_generation(buf, at, m->id.generation);
    rc = crn_object_end(&manifest_kind, at, buf, ei);
    if (rc == CAIRN_OK && buf->len - at > CRN_MANIFEST_MAX)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "encode a manifest: %zu bytes are too many",
                      buf->len - at);
    return rc;
}

static cairn_err take_file(struct crn_view *v, const char *what, struct crn_manifest_file *f,
                           struct crn_errinfo *ei)
{
    uint32_t n;
    uint32_t i;

    crn_view_str(v, f->name, sizeof(f->name));
    f->bytes = crn_view_u64(v);
    f->trailer.index_offset = crn_view_u64(v);
    f->trailer.index_bytes = crn_view_u64(v);
    f->trailer.index_hash = crn_view_u64(v);
    n = crn_view_u32(v);
    if (v->failed || n > crn_view_left(v) / RANGE_BYTES)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the list of files is cut off", what);
    f->ranges = calloc((size_t)n + 1, sizeof(*f->ranges));
    if (f->ranges == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for %u ranges", what, (unsigned)n);
    f->nranges = n;
    for (i = 0; i < n; i++) {
        f->ranges[i].first = crn_view_u32(v);
        f->ranges[i].count = crn_view_u32(v);
    }
    return CAIRN_OK;
}

cairn_err crn_manifest_file_take(struct crn_view *v, const char *what, struct crn_manifest_file *f,
                                 struct crn_errinfo *ei)
{
    cairn_err rc = take_file(v, what, f, ei);

    return rc == CAIRN_OK ? crn_bases_take(v, what, &f->bases, &f->nbases, ei) : rc;
}

static cairn_err take_head(struct crn_view *v, const char *what, struct crn_manifest *m,
                           struct crn_errinfo *ei)
{
    crn_capture_id_take(v, &m->id);
    crn_view_str(v, m->name, sizeof(m->name));
    crn_view_str(v, m->job, sizeof(m->job));
    m->version = (int64_t)crn_view_u64(v);
    m->created_ns = crn_view_u64(v);
    m->committed_ns = crn_view_u64(v);
    m->data_bytes = crn_view_u64(v);
    m->ranks = crn_view_u32(v);
    m->nodes = crn_view_u32(v);
    m->nfiles = crn_view_u32(v);
    if (v->failed || m->nfiles > crn_view_left(v) / FILE_MIN)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the manifest is cut off", what);
    m->files = calloc((size_t)m->nfiles + 1, sizeof(*m->files));
    if (m->files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for %u files", what,
                        (unsigned)m->nfiles);
    return CAIRN_OK;
}

cairn_err crn_manifest_decode(const void *data, size_t len, const char *what,
                              struct crn_manifest *ret, struct crn_errinfo *ei)
{
    struct crn_manifest m = {0};
    struct crn_view body;
    cairn_err rc;
    uint32_t i;

    rc = crn_object_open(&manifest_kind, data, len, what, &body, ei);
    if (rc == CAIRN_OK)
        rc = take_head(&body, what, &m, ei);
    for (i = 0; rc == CAIRN_OK && i < m.nfiles; i++)
        rc = (crn_object_flags(data) & HAS_BASES) != 0
                 ? crn_manifest_file_take(&body, what, &m.files[i], ei)
                 : take_file(&body, what, &m.files[i], ei);
    if (rc == CAIRN_OK)
        m.id.generation = crn_object_take_generation(data, &body);
    if (rc == CAIRN_OK)
        rc = crn_object_close(&manifest_kind, data, &body, what, ei);
    if (rc == CAIRN_OK)
        rc = manifest_check(&m, what, CAIRN_EDAMAGED, ei);
    if (rc == CAIRN_OK && crn_object_flags(data) != flags_of(&m))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: no file has a chain of older versions", what);
    if (rc != CAIRN_OK) {
        crn_manifest_free(&m);
        return rc;
    }
    *ret = m;
    return CAIRN_OK;
}
