/* SPDX-License-Identifier: BSD-3-Clause */
/* A flush that finds no room pauses, says why, and goes on when there is some. */
#include "service/room.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

#define SECOND 1000000000LL

/* There is none now: says why, once, and sleeps a while; fails when time is up. */
static cairn_err pause_for_room(struct crn_flush_room *r, const char *why, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t left = r->until_ns - clock->mono_ns(clock);
    char text[CRN_ERR_TEXT];

    (void)snprintf(text, sizeof(text),
                   "the flush of %s@%" PRId64 " pauses: %.250s; it goes on when there is room",
                   r->item->name, r->item->version, why);
    if (left > 0 && !r->told)
        crn_work_note(r->job, r->item, CRN_WORK_NOTE_PAUSED, text);
    r->told = 1;
    if (left <= 0 || crn_work_pause(r->job, r->item, left < SECOND ? left : SECOND))
        return crn_fail(ei, CAIRN_ENOSPC, ENOSPC, "%s", why);
    return CAIRN_OK;
}

cairn_err crn_flush_room_wait(struct crn_flush_room *r, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = r->st->fs;
    uint64_t need = r->need + r->job->cfg.free_reserve_bytes;
    char want[32], have[32], why[CRN_ERR_TEXT];
    struct crn_room room;
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK) {
        int ret = fs->space(fs, r->st->dfd, &room);

        if (ret < 0)
            return crn_fail_errno(ei, -ret, "free space of '%s'", r->st->path);
        room.bytes += crn_store_spare_bytes(r->st, r->item->name, r->file_no);
        if (room.bytes >= need)
            break;
        crn_human_bytes(need, want, sizeof(want));
        crn_human_bytes(room.bytes, have, sizeof(have));
        (void)snprintf(why, sizeof(why), "it needs %s in '%.150s' and %s are %s", want, r->st->path,
                       have, room.text);
        rc = pause_for_room(r, why, ei);
    }
    return rc;
}

int crn_flush_room_retry(struct crn_flush_room *r, struct crn_errinfo *ei)
{
    struct crn_errinfo why = *ei;

    crn_err_clear(ei);
    return pause_for_room(r, why.msg, ei) == CAIRN_OK;
}
