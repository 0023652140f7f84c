/* SPDX-License-Identifier: BSD-3-Clause */
/* One encoder and one decoder for all messages, driven by the tables in message.h. Input is
 * untrusted: a broken peer loses its connection, but never breaks the service. */
#include "node/message.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum field_kind {
    FIELD_END,
    FIELD_U32,
    FIELD_U64,
    FIELD_CKPT,
    FIELD_ERROR,
    FIELD_DATA_FILE,
    FIELD_FILE_NAME,
    FIELD_BLOB
};

struct field {
    enum field_kind kind;
    size_t offset; /* in struct crn_msg */
};

static const struct field fields_none[] = {{FIELD_END, 0}};
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a member, which takes none */
#define FIELD(payload, kind, name) {FIELD_##kind, offsetof(struct crn_msg, payload.name)},
#define TABLE(payload)                                                                             \
    static const struct field fields_##payload[] = {                                               \
        CRN_FIELDS_##payload(FIELD, payload){FIELD_END, 0}};
CRN_PAYLOADS(TABLE)
#undef TABLE
#undef FIELD

struct description {
    const char *name;
    const struct field *fields;
    enum crn_party from, to;
};

static const struct description descriptions[CRN_MSG_MAX + 1] = {
#define ROW(type, number, payload, from, to)                                                       \
    [number] = {#type, fields_##payload, CRN_##from, CRN_##to},
    CRN_MESSAGES(ROW)
#undef ROW
};

static const struct description *message_describe(unsigned type)
{
    return type <= CRN_MSG_MAX && descriptions[type].name != NULL ? &descriptions[type] : NULL;
}

const char *crn_msg_name(enum crn_msg_type type)
{
    const struct description *d = message_describe(type);

    return d != NULL ? d->name : "unknown";
}

int crn_msg_has_ckpt(enum crn_msg_type type)
{
    const struct description *d = message_describe(type);

    return d != NULL && d->fields[0].kind == FIELD_CKPT;
}

int crn_msg_is_of_rank(enum crn_msg_type type)
{
    const struct description *d = message_describe(type);

    return d != NULL && d->from == CRN_RANK;
}

int crn_msg_is_of_node(enum crn_msg_type type)
{
    const struct description *d = message_describe(type);

    return d != NULL && d->from != CRN_RANK && d->to != CRN_RANK;
}

static void put_field(const struct field *f, const void *at, struct crn_buf *buf)
{
    const struct crn_errinfo *error = at;
    const struct crn_ckpt *ckpt = at;
    const struct crn_blob *blob = at;

    switch (f->kind) {
    case FIELD_U32:
        crn_buf_u32(buf, *(const uint32_t *)at);
        return;
    case FIELD_U64:
        crn_buf_u64(buf, *(const uint64_t *)at);
        return;
    case FIELD_CKPT:
        crn_buf_str(buf, ckpt->name);
        crn_buf_u64(buf, (uint64_t)ckpt->version);
        crn_buf_u64(buf, ckpt->created_ns);
        return;
    case FIELD_ERROR:
        crn_buf_u32(buf, (uint32_t)error->code);
        crn_buf_u32(buf, (uint32_t)error->sys_errno);
        crn_buf_str(buf, error->msg);
        return;
    case FIELD_DATA_FILE:
        crn_manifest_file_put(at, buf);
        return;
    case FIELD_FILE_NAME:
        crn_buf_str(buf, at);
        return;
    case FIELD_BLOB:
        crn_buf_u32(buf, blob->bytes);
        crn_buf_put(buf, blob->data, blob->bytes);
        return;
    case FIELD_END:
        return;
    }
}

cairn_err crn_msg_encode(const struct crn_msg *m, struct crn_buf *buf, struct crn_errinfo *ei)
{
    const struct description *d = message_describe(m->type);
    const struct field *f;

    if (d == NULL)
        return crn_fail(ei, CAIRN_EBUG, 0, "a message of type %d", (int)m->type);
    crn_buf_u8(buf, (uint8_t)m->type);
    crn_buf_put(buf, m->run, sizeof(m->run));
    crn_buf_u64(buf, m->seq);
    crn_buf_u32(buf, m->node);
    for (f = d->fields; f->kind != FIELD_END; f++)
        put_field(f, (const char *)m + f->offset, buf);
    return buf->failed ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "encode a message") : CAIRN_OK;
}

static cairn_err take_blob(struct crn_view *v, struct crn_blob *ret, struct crn_errinfo *ei)
{
    uint32_t n = crn_view_u32(v);
    const void *p = crn_view_take(v, n);

    if (p == NULL || n == 0)
        return CAIRN_OK; /* a failed view is reported at the end */
    ret->data = malloc(n);
    if (ret->data == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %u bytes", n);
    memcpy(ret->data, p, n);
    ret->bytes = n;
    return CAIRN_OK;
}

static cairn_err take_field(const struct field *f, struct crn_view *v, void *at,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo *error = at;
    struct crn_ckpt *ckpt = at;

    switch (f->kind) {
    case FIELD_U32:
        *(uint32_t *)at = crn_view_u32(v);
        break;
    case FIELD_U64:
        *(uint64_t *)at = crn_view_u64(v);
        break;
    case FIELD_CKPT:
        crn_view_str(v, ckpt->name, sizeof(ckpt->name));
        ckpt->version = (int64_t)crn_view_u64(v);
        ckpt->created_ns = crn_view_u64(v);
        break;
    case FIELD_ERROR:
        error->code = (cairn_err)(int32_t)crn_view_u32(v);
        error->sys_errno = (int32_t)crn_view_u32(v);
        crn_view_str(v, error->msg, sizeof(error->msg));
        break;
    case FIELD_DATA_FILE:
        return crn_manifest_file_take(v, "a message", at, ei);
    case FIELD_FILE_NAME:
        crn_view_str(v, at, CRN_FILE_NAME);
        break;
    case FIELD_BLOB:
        return take_blob(v, at, ei);
    case FIELD_END:
        break;
    }
    return CAIRN_OK;
}

cairn_err crn_msg_decode(const void *data, size_t len, struct crn_msg *ret, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(data, len);
    unsigned type = crn_view_u8(&v);
    const struct description *d = message_describe(type);
    const void *run = crn_view_take(&v, sizeof(ret->run));
    struct crn_msg m = {.type = (enum crn_msg_type)type};
    const struct field *f;
    cairn_err rc = CAIRN_OK;

    if (d == NULL || run == NULL)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "a message of %zu bytes is invalid", len);
    memcpy(m.run, run, sizeof(m.run));
    m.seq = crn_view_u64(&v);
    m.node = crn_view_u32(&v);
    for (f = d->fields; rc == CAIRN_OK && !v.failed && f->kind != FIELD_END; f++)
        rc = take_field(f, &v, (char *)&m + f->offset, ei);
    if (rc == CAIRN_OK && (v.failed || crn_view_left(&v) != 0))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "a %s message of %zu bytes is invalid", d->name, len);
    if (rc != CAIRN_OK) {
        crn_msg_free(&m);
        return rc;
    }
    *ret = m;
    return CAIRN_OK;
}

void crn_msg_free(struct crn_msg *m)
{
    const struct description *d = message_describe(m->type);
    const struct field *f;

    for (f = d != NULL ? d->fields : fields_none; f->kind != FIELD_END; f++) {
        struct crn_blob *blob = (void *)((char *)m + f->offset);

        if (f->kind == FIELD_DATA_FILE)
            crn_manifest_file_free((void *)blob);
        if (f->kind != FIELD_BLOB)
            continue;
        free(blob->data);
        *blob = (struct crn_blob){0};
    }
}
