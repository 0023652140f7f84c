/* SPDX-License-Identifier: BSD-3-Clause */
/* The application's phase. The hint is a word in the arena, which the node service maps: setting it
 * costs one store. */
#include "client/session.h"

cairn_err cairn_phase(cairn_session *s, cairn_phase_kind phase)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_session(s, &ei);

    if (rc == CAIRN_OK)
        rc = crn_arg_range("phase", phase, CAIRN_PHASE_COMPUTE, CAIRN_PHASE_IO, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    s->phase = (uint32_t)phase;
    crn_phase_show(s, s->phase);
    return CAIRN_OK;
}

void crn_phase_show(cairn_session *s, uint32_t phase)
{
    if (s->arena != NULL)
        crn_arena_set_phase(s->arena, phase);
}
