/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes every message of the list with every field filled: nothing is lost. Damaged
 * bytes are refused, or decode to a message that encodes to the same bytes. */
#include "node/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/test.h"

static struct crn_rng rng;

static void fill_U32(uint32_t *f)
{
    *f = (uint32_t)crn_rng_u64(&rng);
}

static void fill_U64(uint64_t *f)
{
    *f = crn_rng_u64(&rng);
}

static void fill_text(char *f, size_t size)
{
    size_t n = crn_rng_u64(&rng) % size;
    size_t i;

    for (i = 0; i < n; i++)
        f[i] = (char)('a' + crn_rng_u64(&rng) % 26);
    f[n] = '\0';
}

static void fill_CKPT(struct crn_ckpt *f)
{
    fill_text(f->name, sizeof(f->name));
    f->version = (int64_t)crn_rng_u64(&rng);
    f->created_ns = crn_rng_u64(&rng);
}

static void fill_ERROR(struct crn_errinfo *f)
{
    f->code = CAIRN_ENOSPC;
    f->sys_errno = 28;
    fill_text(f->msg, sizeof(f->msg));
}

static void fill_DATA_FILE(struct crn_manifest_file *f)
{
    (void)snprintf(f->name, sizeof(f->name), "data-0003");
    f->bytes = crn_rng_u64(&rng);
    f->nranges = 2;
    f->ranges = calloc(2, sizeof(*f->ranges));
    assert_non_null(f->ranges);
    f->ranges[0] = (struct crn_rank_range){0, 4};
    f->ranges[1] = (struct crn_rank_range){9, 1};
}

static void fill_FILE_NAME(char (*f)[CRN_FILE_NAME])
{
    fill_text(*f, sizeof(*f));
}

static void fill_BLOB(struct crn_blob *f)
{
    f->bytes = 1 + (uint32_t)(crn_rng_u64(&rng) % 300);
    f->data = malloc(f->bytes);
    assert_non_null(f->data);
    memset(f->data, (int)f->bytes, f->bytes);
}

#define FILL(payload, kind, field) fill_##kind(&m->payload.field);
#define FILLER(payload)                                                                            \
    static void fill_##payload(struct crn_msg *m)                                                  \
    {                                                                                              \
        CRN_FIELDS_##payload(FILL, payload)                                                        \
    }
CRN_PAYLOADS(FILLER)

static void fill_none(struct crn_msg *m)
{
    (void)m;
}

static const struct {
    const char *name;
    enum crn_msg_type type;
    void (*fill)(struct crn_msg *m);
} messages[] = {
#define ROW(type, number, payload, from, to) {#type, CRN_MSG_##type, fill_##payload},
    CRN_MESSAGES(ROW)};

static void encodes_to(const struct crn_msg *m, const struct crn_buf *expected)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf again = {0};

    assert_ok(crn_msg_encode(m, &again, ei));
    assert_int_equal(again.len, expected->len);
    assert_memory_equal(again.data, expected->data, again.len);
    crn_buf_free(&again);
}

/* Every truncation is refused, and so is an extra byte. A flipped byte may yield another valid
 * message. */
static void survives_damage(struct crn_buf *buf)
{
    struct crn_msg back;
    size_t i;

    for (i = 0; i < buf->len; i++) {
        assert_int_equal(crn_msg_decode(buf->data, i, &back, NULL), CAIRN_EDAMAGED);
        buf->data[i] ^= 0xff;
        if (crn_msg_decode(buf->data, buf->len, &back, NULL) == CAIRN_OK) {
            encodes_to(&back, buf);
            crn_msg_free(&back);
        }
        buf->data[i] ^= 0xff;
    }
    crn_buf_u8(buf, 0);
    assert_int_equal(crn_msg_decode(buf->data, buf->len, &back, NULL), CAIRN_EDAMAGED);
}

static void every_message_round_trips(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    size_t i;

    (void)state;
    crn_rng_seed(&rng, 11);
    for (i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct crn_msg m = {.type = messages[i].type, .run = {1, 2, 3}, .seq = 77, .node = 3};
        struct crn_buf buf = {0};
        struct crn_msg back;

        messages[i].fill(&m);
        assert_string_equal(crn_msg_name(m.type), messages[i].name);
        assert_ok(crn_msg_encode(&m, &buf, ei));
        assert_ok(crn_msg_decode(buf.data, buf.len, &back, ei));
        assert_int_equal(back.type, m.type);
        assert_int_equal(back.seq, 77);
        assert_int_equal(back.node, 3);
        encodes_to(&back, &buf);
        crn_msg_free(&back);
        survives_damage(&buf);
        crn_msg_free(&m);
        crn_buf_free(&buf);
    }
}

static void unknown_types_are_refused(void **state)
{
    struct crn_msg m = {.type = (enum crn_msg_type)99};
    unsigned char bytes[64] = {99};
    struct crn_buf buf = {0};
    struct crn_msg back;

    (void)state;
    assert_int_equal(crn_msg_encode(&m, &buf, NULL), CAIRN_EBUG);
    assert_int_equal(crn_msg_decode(bytes, sizeof(bytes), &back, NULL), CAIRN_EDAMAGED);
    assert_int_equal(crn_msg_decode(bytes, 0, &back, NULL), CAIRN_EDAMAGED);
    assert_string_equal(crn_msg_name(m.type), "unknown");
    crn_msg_free(&m);
    crn_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_round_trips),
        cmocka_unit_test(unknown_types_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
