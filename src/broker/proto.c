/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the bytes of each message. One visitor per message serves both directions: the field
 * list is written once, so encoder and decoder cannot differ. */
#include "broker/proto.h"

#include <string.h>
#include "policy/policy.h"

/* Source or destination of fields: exactly one of the two is set. */
struct io {
    struct crn_buf *out;
    struct crn_view *in;
    int bad; /* in: a value that no peer of this version sends */
};

static void proto_u8(struct io *io, uint8_t *v)
{
    if (io->out != NULL)
        crn_buf_u8(io->out, *v);
    else
        *v = crn_view_u8(io->in);
}

static void proto_u16(struct io *io, uint16_t *v)
{
    if (io->out != NULL)
        crn_buf_u16(io->out, *v);
    else
        *v = crn_view_u16(io->in);
}

static void proto_u32(struct io *io, uint32_t *v)
{
    if (io->out != NULL)
        crn_buf_u32(io->out, *v);
    else
        *v = crn_view_u32(io->in);
}

static void proto_u64(struct io *io, uint64_t *v)
{
    if (io->out != NULL)
        crn_buf_u64(io->out, *v);
    else
        *v = crn_view_u64(io->in);
}

static void proto_raw(struct io *io, void *p, size_t n)
{
    const void *from;

    if (io->out != NULL) {
        crn_buf_put(io->out, p, n);
        return;
    }
    from = crn_view_take(io->in, n);
    if (from != NULL && n > 0)
        memcpy(p, from, n);
}

/* Refuses control characters, which would reach terminals and logs of others. */
static void proto_text(struct io *io, char *s, size_t size)
{
    size_t i;

    if (io->out != NULL) {
        crn_buf_str(io->out, s);
        return;
    }
    crn_view_str(io->in, s, size);
    for (i = 0; s[i] != '\0'; i++)
        if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] == 0x7f)
            io->bad = 1;
}

static void proto_choice(struct io *io, uint8_t *v, unsigned first, unsigned last)
{
    proto_u8(io, v);
    if (io->in != NULL && (*v < first || *v > last))
        io->bad = 1;
}

static void proto_count(struct io *io, uint16_t *n, uint16_t max)
{
    proto_u16(io, n);
    if (io->in != NULL && *n > max) {
        io->bad = 1;
        *n = 0;
    }
}

static void proto_magic(struct io *io)
{
    uint32_t m = CRN_BP_MAGIC;

    proto_u32(io, &m);
    if (m != CRN_BP_MAGIC)
        io->bad = 1;
}

static void proto_hello(struct io *io, struct crn_bp_hello *m)
{
    proto_magic(io);
    proto_u16(io, &m->major);
    proto_u16(io, &m->minor);
    proto_u8(io, &m->method);
    proto_text(io, m->user, sizeof(m->user));
    proto_raw(io, m->nonce, sizeof(m->nonce));
}

static void proto_challenge(struct io *io, struct crn_bp_challenge *m)
{
    proto_magic(io);
    proto_u16(io, &m->major);
    proto_u16(io, &m->minor);
    proto_raw(io, m->nonce, sizeof(m->nonce));
}

static void proto_proof(struct io *io, struct crn_bp_proof *m)
{
    proto_count(io, &m->len, CRN_BP_PROOF);
    proto_raw(io, m->data, m->len);
}

static void proto_welcome(struct io *io, struct crn_bp_welcome *m)
{
    proto_u64(io, &m->epoch);
    proto_u64(io, &m->lease_ns);
    proto_u64(io, &m->report_ns);
    proto_choice(io, &m->is_admin, 0, 1);
    proto_text(io, m->user, sizeof(m->user));
    proto_proof(io, &m->proof);
}

static void proto_ask(struct io *io, struct crn_bp_ask *m)
{
    proto_u32(io, &m->seq);
    proto_text(io, m->token, sizeof(m->token));
    proto_choice(io, &m->kind, 0, CRN_IO_KINDS - 1);
    proto_choice(io, &m->state, CRN_BP_WAITING, CRN_BP_LOST);
    proto_u64(io, &m->epoch);
    proto_u64(io, &m->age_ns);
    proto_u64(io, &m->held_ns);
    proto_u64(io, &m->bytes);
    proto_u64(io, &m->done);
    proto_u64(io, &m->duration_ns);
    proto_u64(io, &m->at_risk_ns);
    proto_u64(io, &m->recovery_ns);
    proto_u64(io, &m->period_ns);
}

static void proto_report(struct io *io, struct crn_bp_report *m)
{
    uint16_t i;

    proto_raw(io, m->job, sizeof(m->job));
    proto_u64(io, &m->number);
    proto_u32(io, &m->nodes);
    proto_text(io, m->name, sizeof(m->name));
    proto_count(io, &m->n, CRN_BP_MAX_ASKS);
    for (i = 0; i < m->n; i++)
        proto_ask(io, &m->ask[i]);
    if (io->out != NULL || crn_view_left(io->in) > 0) /* since 1.1 */
        proto_text(io, m->batch, sizeof(m->batch));
}

static void proto_verdict(struct io *io, struct crn_bp_verdict *m)
{
    proto_u32(io, &m->seq);
    proto_choice(io, &m->code, CRN_BP_WAIT, CRN_BP_REFUSED);
    proto_u8(io, &m->why);
    proto_u32(io, &m->place);
    proto_u64(io, &m->start_ns);
}

static void proto_status(struct io *io, struct crn_bp_status *m)
{
    uint16_t i;

    proto_u64(io, &m->number);
    proto_u64(io, &m->report);
    proto_count(io, &m->n, CRN_BP_MAX_ASKS);
    for (i = 0; i < m->n; i++)
        proto_verdict(io, &m->verdict[i]);
}

static void proto_query(struct io *io, struct crn_bp_query *m)
{
    proto_u32(io, &m->max_requests);
    proto_text(io, m->token, sizeof(m->token));
}

static void token_row(struct io *io, struct crn_bp_token_row *m)
{
    proto_text(io, m->token, sizeof(m->token));
    proto_text(io, m->policy, sizeof(m->policy));
    proto_u32(io, &m->slots);
    proto_u32(io, &m->holders);
    proto_u32(io, &m->waiting);
    proto_choice(io, &m->is_draining, 0, 1);
    proto_choice(io, &m->is_settling, 0, 1);
    proto_choice(io, &m->is_dry, 0, 1);
    proto_u64(io, &m->granted);
    proto_u64(io, &m->returned);
    proto_u64(io, &m->taken);
    proto_u64(io, &m->canceled);
    proto_u64(io, &m->oldest_ns);
}

static void request_row(struct io *io, struct crn_bp_request_row *m)
{
    proto_u64(io, &m->id);
    proto_text(io, m->token, sizeof(m->token));
    proto_text(io, m->user, sizeof(m->user));
    proto_text(io, m->job, sizeof(m->job));
    proto_u32(io, &m->nodes);
    proto_choice(io, &m->kind, 0, CRN_IO_KINDS - 1);
    proto_choice(io, &m->state, CRN_BP_WAITING, CRN_BP_LOST);
    proto_u8(io, &m->why);
    proto_u32(io, &m->place);
    proto_u64(io, &m->start_ns);
    proto_u64(io, &m->age_ns);
    proto_u64(io, &m->held_ns);
    proto_u64(io, &m->bytes);
    proto_u64(io, &m->done);
    proto_u64(io, &m->duration_ns);
}

static void user_row(struct io *io, struct crn_bp_user_row *m)
{
    proto_text(io, m->user, sizeof(m->user));
    proto_u32(io, &m->jobs);
    proto_u32(io, &m->share);
    proto_u64(io, &m->weight);
}

static void proto_control(struct io *io, struct crn_bp_control *m)
{
    proto_choice(io, &m->op, CRN_BP_OP_DRAIN, CRN_BP_OP_CANCEL);
    proto_u64(io, &m->id);
    proto_text(io, m->token, sizeof(m->token));
    proto_text(io, m->argument, sizeof(m->argument));
}

static void proto_done(struct io *io, struct crn_bp_done *m)
{
    uint32_t code = (uint32_t)m->code;

    proto_u32(io, &code);
    if (io->in != NULL)
        m->code = (int32_t)code;
    proto_text(io, m->text, sizeof(m->text));
}

static void proto_probe(struct io *io, struct crn_bp_probe *m)
{
    proto_magic(io);
    proto_u16(io, &m->major);
    proto_u16(io, &m->minor);
}

static void proto_serving(struct io *io, struct crn_bp_serving *m)
{
    proto_magic(io);
    proto_u64(io, &m->epoch);
}

static void proto_visit(struct io *io, struct crn_bp_msg *msg)
{
    switch (msg->type) {
    case CRN_BP_HELLO:
        proto_hello(io, &msg->u.hello);
        return;
    case CRN_BP_CHALLENGE:
        proto_challenge(io, &msg->u.challenge);
        return;
    case CRN_BP_PROOF_MSG:
        proto_proof(io, &msg->u.proof);
        return;
    case CRN_BP_WELCOME:
        proto_welcome(io, &msg->u.welcome);
        return;
    case CRN_BP_REPORT:
        proto_report(io, &msg->u.report);
        return;
    case CRN_BP_STATUS:
        proto_status(io, &msg->u.status);
        return;
    case CRN_BP_QUERY:
        proto_query(io, &msg->u.query);
        return;
    case CRN_BP_TOKEN_ROW:
        token_row(io, &msg->u.token_row);
        return;
    case CRN_BP_REQUEST_ROW:
        request_row(io, &msg->u.request_row);
        return;
    case CRN_BP_CONTROL:
        proto_control(io, &msg->u.control);
        return;
    case CRN_BP_DONE:
    case CRN_BP_BYE:
        proto_done(io, &msg->u.done);
        return;
    case CRN_BP_PROBE:
        proto_probe(io, &msg->u.probe);
        return;
    case CRN_BP_SERVING:
        proto_serving(io, &msg->u.serving);
        return;
    case CRN_BP_USER_ROW:
        user_row(io, &msg->u.user_row);
        return;
    }
    io->bad = 1;
}

void crn_bp_encode(const struct crn_bp_msg *msg, struct crn_buf *b)
{
    struct io io = {.out = b};
    size_t start = b->len;

    crn_buf_u32(b, 0);
    crn_buf_u16(b, (uint16_t)msg->type);
    proto_visit(&io, (struct crn_bp_msg *)msg); /* not modified while out is set */
    crn_buf_set_u32(b, start, (uint32_t)(b->len - start - 4));
}

cairn_err crn_bp_frame(const void *data, size_t len, size_t max, size_t *ret_size,
                       struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(data, len);
    uint32_t size = crn_view_u32(&v);

    *ret_size = 0;
    if (len < CRN_BP_HEAD)
        return CAIRN_OK;
    if (size < 2 || size > max - 4)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "a broker message has the invalid size of %u bytes",
                        size);
    *ret_size = (size_t)size + 4;
    return CAIRN_OK;
}

cairn_err crn_bp_decode(const void *frame, size_t size, struct crn_bp_msg *ret,
                        struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(frame, size);
    struct io io = {.in = &v};
    uint32_t len = crn_view_u32(&v);
    unsigned type = crn_view_u16(&v);

    memset(ret, 0, sizeof(*ret));
    if (v.failed || len != size - 4 || type < CRN_BP_HELLO || type > CRN_BP_USER_ROW)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "not a message of the broker protocol");
    ret->type = (enum crn_bp_type)type;
    proto_visit(&io, ret);
    if (v.failed || io.bad)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "broker message of type %u is damaged", type);
    return CAIRN_OK;
}

const char *crn_bp_why_text(unsigned why)
{
    static const char *const texts[CRN_BP_WHYS] = {
        [CRN_BP_WHY_NONE] = "",
        [CRN_BP_WHY_TURN] = "others go first",
        [CRN_BP_WHY_DRAIN] = "the token is drained",
        [CRN_BP_WHY_SETTLING] = "the broker has just started",
        [CRN_BP_WHY_LEASE] = "not heard of for too long",
        [CRN_BP_WHY_STALL] = "no progress while holding",
        [CRN_BP_WHY_LIMIT] = "over the limit",
        [CRN_BP_WHY_PERSON] = "by a person",
        [CRN_BP_WHY_TOKEN] = "no such token",
        [CRN_BP_WHY_AWAY] = "the job is cut off",
    };

    return why < CRN_BP_WHYS ? texts[why] : "unknown reason";
}
