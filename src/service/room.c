/* SPDX-License-Identifier: BSD-3-Clause */
/* A flush that finds too little free space pauses, warns at growing intervals, and continues once
 * there is enough. After space_wait it fails. */
#include "service/room.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

#define SECOND     1000000000LL
#define WARN_FIRST (60 * SECOND)
#define WARN_MOST  (3600 * SECOND)

int crn_room_warns(struct crn_flush_room *r, int64_t now_ns)
{
    if (r->warn_at_ns != 0 && now_ns < r->warn_at_ns)
        return 0;
    r->warn_every_ns = r->warn_every_ns == 0              ? WARN_FIRST
                       : r->warn_every_ns < WARN_MOST / 2 ? 2 * r->warn_every_ns
                                                          : WARN_MOST;
    r->warn_at_ns = now_ns + r->warn_every_ns;
    return 1;
}

void crn_room_text(const struct crn_flush_room *r, const struct crn_room *room, char *ret,
                   size_t size)
{
    char want[32], have[32], reserve[32];

    crn_human_bytes(r->need, want, sizeof(want));
    crn_human_bytes(room->bytes, have, sizeof(have));
    crn_human_bytes(r->job->cfg.free_reserve_bytes, reserve, sizeof(reserve));
    (void)snprintf(ret, size,
                   "it needs %s in '%.110s' and leaves a reserve of %s (free_reserve_bytes), but "
                   "%s are %s; free space or lower keep_last",
                   want, r->st->path, reserve, have, room->text);
}

/* Too little space: warns if a warning is due, and sleeps; fails when the time is up. */
static cairn_err pause_for_room(struct crn_flush_room *r, const char *why, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t now = clock->mono_ns(clock);
    int64_t left = r->until_ns - now;
    char text[CRN_ERR_TEXT], wait[32];

    crn_format_time(r->job->cfg.space_wait_ns, wait, sizeof(wait));
    if (left > 0 && crn_room_warns(r, now)) {
        (void)snprintf(text, sizeof(text),
                       "the flush of %.64s@%" PRId64
                       " pauses: %.280s; without free space it fails after "
                       "%s (space_wait)",
                       r->item->name, r->item->version, why, wait);
        crn_work_note(r->job, r->item, CRN_WORK_NOTE_PAUSED, text);
    }
    if (left <= 0)
        return crn_fail(ei, CAIRN_ENOSPC, ENOSPC, "%s; waited %s (space_wait)", why, wait);
    if (crn_work_pause(r->job, r->item, left < SECOND ? left : SECOND))
        return crn_fail(ei, CAIRN_ENOSPC, ENOSPC, "%s", why);
    return CAIRN_OK;
}

cairn_err crn_room_wait(struct crn_flush_room *r, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = r->st->fs;
    uint64_t need = r->need + r->job->cfg.free_reserve_bytes;
    char why[CRN_ERR_TEXT];
    struct crn_room room;
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK) {
        int ret = fs->space(fs, r->st->dfd, &room);

        if (ret < 0)
            return crn_fail_errno(ei, -ret, "free space of '%s'", r->st->path);
        room.bytes += crn_store_spare_bytes(r->st, r->item->name, r->file_no);
        if (room.bytes >= need)
            break;
        crn_room_text(r, &room, why, sizeof(why));
        rc = pause_for_room(r, why, ei);
    }
    return rc;
}

int crn_room_retry(struct crn_flush_room *r, struct crn_errinfo *ei)
{
    struct crn_errinfo why = *ei;

    crn_err_clear(ei);
    return pause_for_room(r, why.msg, ei) == CAIRN_OK;
}
