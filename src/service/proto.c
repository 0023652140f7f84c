/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoding of HELLO. Input is untrusted: a broken peer loses its connection, but never breaks the
 * service. */
#include "service/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONFIG 65536U

static cairn_err proto_encoded(const struct crn_buf *buf, struct crn_errinfo *ei)
{
    return buf->failed ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "encode a message") : CAIRN_OK;
}

uint8_t crn_msg_type(const void *data, size_t len)
{
    return len > 0 ? *(const uint8_t *)data : 0;
}

cairn_err crn_hello_encode(const struct crn_hello *h, struct crn_buf *buf, struct crn_errinfo *ei)
{
    uint32_t n = (uint32_t)strlen(h->config);
    uint32_t i;

    crn_buf_u8(buf, CRN_MSG_HELLO);
    crn_buf_u32(buf, CRN_PROTO_VERSION);
    crn_buf_put(buf, h->run, 16);
    crn_buf_u32(buf, h->rank);
    crn_buf_u32(buf, h->ranks);
    crn_buf_u32(buf, h->node);
    crn_buf_u32(buf, h->nodes);
    crn_buf_u32(buf, h->local);
    crn_buf_u32(buf, h->nlocal);
    crn_buf_u32(buf, h->is_rejoin);
    crn_buf_u64(buf, h->seq);
    crn_buf_u32(buf, n);
    crn_buf_put(buf, h->config, n);
    crn_buf_u32(buf, h->nmembers);
    for (i = 0; i < h->nmembers; i++)
        crn_buf_u32(buf, h->member[i]);
    for (i = 0; i < h->nodes; i++)
        crn_buf_u32(buf, h->peers[i]);
    return proto_encoded(buf, ei);
}

static int hello_plausible(const struct crn_hello *h)
{
    return h->ranks > 0 && h->ranks <= CRN_MAX_RANKS && h->rank < h->ranks && h->nodes > 0 &&
           h->nodes <= h->ranks && h->node < h->nodes && h->nlocal > 0 && h->nlocal <= h->ranks &&
           h->local < h->nlocal && h->is_rejoin <= 1;
}

/* The members ascend, and this node is one of them. */
static int take_set(struct crn_view *v, struct crn_hello *h)
{
    int has_self = 0;
    uint32_t i;

    h->nmembers = crn_view_u32(v);
    if (h->nmembers > CRN_SET_MAX)
        return 0;
    for (i = 0; i < h->nmembers; i++) {
        h->member[i] = crn_view_u32(v);
        if (h->member[i] >= h->nodes || (i > 0 && h->member[i] <= h->member[i - 1]))
            return 0;
        has_self |= h->member[i] == h->node;
    }
    return h->nmembers == 0 || (has_self && h->nmembers > 1);
}

cairn_err crn_hello_decode(const void *data, size_t len, struct crn_hello *ret,
                           struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(data, len);
    struct crn_hello h = {0};
    const void *p;
    uint32_t version;
    uint32_t n;
    uint32_t i;

    (void)crn_view_u8(&v);
    version = crn_view_u32(&v);
    if (!v.failed && version != CRN_PROTO_VERSION)
        return crn_fail(ei, CAIRN_EFORMAT, 0,
                        "the rank speaks version %u of the protocol, this service version %d: use "
                        "the library and cairnd of one release",
                        version, CRN_PROTO_VERSION);
    p = crn_view_take(&v, 16);
    if (p != NULL)
        memcpy(h.run, p, 16);
    h.rank = crn_view_u32(&v);
    h.ranks = crn_view_u32(&v);
    h.node = crn_view_u32(&v);
    h.nodes = crn_view_u32(&v);
    h.local = crn_view_u32(&v);
    h.nlocal = crn_view_u32(&v);
    h.is_rejoin = crn_view_u32(&v);
    h.seq = crn_view_u64(&v);
    n = crn_view_u32(&v);
    p = n <= MAX_CONFIG ? crn_view_take(&v, n) : NULL;
    if (p == NULL || memchr(p, '\0', n) != NULL || !hello_plausible(&h) || !take_set(&v, &h) ||
        crn_view_left(&v) != (size_t)h.nodes * 4)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "a rank sent an invalid HELLO");
    h.config = strndup(p, n);
    h.peers = calloc(h.nodes, sizeof(*h.peers));
    if (h.config == NULL || h.peers == NULL) {
        crn_hello_free(&h);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job of %u nodes", h.nodes);
    }
    for (i = 0; i < h.nodes; i++)
        h.peers[i] = crn_view_u32(&v);
    *ret = h;
    return CAIRN_OK;
}

void crn_hello_free(struct crn_hello *h)
{
    free(h->config);
    free(h->peers);
    memset(h, 0, sizeof(*h));
}
