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
    return s->all->ops->barrier(s->all, ei);
}
