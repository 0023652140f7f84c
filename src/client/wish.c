/* SPDX-License-Identifier: BSD-3-Clause */
/* With a broker a checkpoint is captured when the job's turn comes, so that what is written is new.
 * When one is due the first rank asks its node service for a turn, and the ranks compute on until
 * the service says that it has come. */
#include <string.h>

#include "client/session.h"

/* What the checkpoint will have, for the broker; the service knows better from the second on. */
static uint64_t wish_bytes(const cairn_session *s)
{
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        bytes += s->regions[i].region.bytes;
    return bytes * s->ranks;
}

void crn_wish_ask(cairn_session *s, int64_t period_ns, int64_t lease_ns)
{
    struct crn_msg m = {.type = CRN_MSG_TURN_ASK,
                        .seq = s->seq,
                        .turn_ask = {.is_wanted = 1,
                                     .lease_ns = (uint64_t)lease_ns,
                                     .period_ns = (uint64_t)period_ns,
                                     .recovery_ns = (uint64_t)s->advice.recovery_ns,
                                     .bytes = wish_bytes(s)}};
    struct crn_errinfo why = {0};

    if (s->advice.wish != CRN_WISH_NONE)
        return;
    memcpy(m.run, s->run, 16);
    s->advice.wish = CRN_WISH_ASKED;
    if (crn_service_link_send(s, &m, &why) == CAIRN_OK)
        return;
    crn_log(&s->log, CRN_DEBUG, "capturing without a turn: %s", why.msg);
    s->advice.wish = CRN_WISH_COME;
}

void crn_wish_heard(cairn_session *s, const struct crn_msg *m)
{
    if (s->advice.wish == CRN_WISH_NONE)
        return; /* a capture was faster */
    if (m->turn.news == CRN_TURN_COME) {
        s->advice.wish = CRN_WISH_COME;
        return;
    }
    s->advice.wish = CRN_WISH_NONE;
    if (m->turn.news == CRN_TURN_GIVEN_UP) /* the next period begins */
        s->advice.last_ns = s->clock->mono_ns(s->clock);
}
