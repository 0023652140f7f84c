/* SPDX-License-Identifier: BSD-3-Clause */
/* The UCX library, and the keyed hash with which a message proves where it comes from. */
#include "comm/ucx_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

cairn_err crn_ucx_check(ucs_status_t status, const char *what, struct crn_errinfo *ei)
{
    if (status == UCS_OK)
        return CAIRN_OK;
    return crn_fail(ei, status == UCS_ERR_NO_MEMORY ? CAIRN_ENOMEM : CAIRN_EPEER, 0, "%s: %s", what,
                    ucs_status_string(status));
}

/* SipHash-2-4. --------------------------------------------------------------------------------- */

static uint64_t ucx_net_rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static void sip_rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[1] = ucx_net_rotate(v[1], 13) ^ v[0];
        v[0] = ucx_net_rotate(v[0], 32);
        v[2] += v[3];
        v[3] = ucx_net_rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = ucx_net_rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = ucx_net_rotate(v[1], 17) ^ v[2];
        v[2] = ucx_net_rotate(v[2], 32);
    }
}

uint64_t crn_ucx_hash(const uint64_t secret[2], const void *data, size_t n)
{
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575, secret[1] ^ 0x646f72616e646f6d,
                     secret[0] ^ 0x6c7967656e657261, secret[1] ^ 0x7465646279746573};
    const unsigned char *p = data;
    uint64_t word;
    size_t at;

    for (at = 0; at + 8 <= n; at += 8) {
        memcpy(&word, p + at, 8);
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    word = (uint64_t)n << 56;
    for (; at < n; at++)
        word |= (uint64_t)p[at] << (8 * (at % 8));
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The library. --------------------------------------------------------------------------------- */

cairn_err crn_ucx_net_open(struct ucx_net **ret, struct crn_errinfo *ei)
{
    ucp_params_t params = {
        .field_mask =
            UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
        .name = "cairn",
    };
    struct ucx_net *net = calloc(1, sizeof(*net));
    ucp_config_t *config;
    cairn_err rc;

    if (net == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    rc = crn_ucx_check(ucp_config_read(NULL, NULL, &config), "the configuration of UCX", ei);
    if (rc == CAIRN_OK) {
        /* A dead process is noticed after this time at the latest; the default is 20 s. */
        if (getenv("UCX_KEEPALIVE_INTERVAL") == NULL)
            (void)ucp_config_modify(config, "KEEPALIVE_INTERVAL", "2s");
        rc = crn_ucx_check(ucp_init(&params, config, &net->context), "UCX cannot start", ei);
        ucp_config_release(config);
    }
    if (rc != CAIRN_OK) {
        free(net);
        return rc;
    }
    atomic_store(&net->users, 1);
    *ret = net;
    return CAIRN_OK;
}

void crn_ucx_net_put(struct ucx_net *net)
{
    if (net == NULL || atomic_fetch_sub(&net->users, 1) > 1)
        return;
    ucp_cleanup(net->context);
    free(net);
}
