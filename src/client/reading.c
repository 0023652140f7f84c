/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/reading.h"

cairn_err crn_reading_begin(cairn_session *s, uint64_t bytes, struct crn_kept_turn **ret,
                            struct crn_errinfo *ei)
{
    struct crn_kept_options options = {.cfg = &s->cfg,
                                       .job = s->cfg.job,
                                       .nodes = s->nodes,
                                       .kind = CRN_IO_RECOVERY,
                                       .bytes = bytes,
                                       .log = &s->log};
    struct crn_errinfo canceled = {0};

    *ret = NULL;
    if (s->cfg.broker[0] == '\0')
        return CAIRN_OK;
    if (s->rank == 0 && crn_kept_turn_begin(&options, ret, &canceled) != CAIRN_OK)
        crn_log(&s->log, CRN_WARN, "reading anyway: %s", canceled.msg);
    s->advice.reading_ns = s->clock->mono_ns(s->clock);
    return s->all->ops->barrier(s->all, ei);
}

void crn_reading_end(cairn_session *s, struct crn_kept_turn *turn)
{
    if (s->advice.reading_ns != 0)
        s->advice.recovery_ns = s->clock->mono_ns(s->clock) - s->advice.reading_ns;
    s->advice.reading_ns = 0;
    crn_kept_turn_end(turn);
}
