/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoints that the session remembers: a ring that overwrites the oldest. */
#include <string.h>

#include "client/session.h"

/* Sets each member by itself: the application waits, and clearing the long texts would miss the
 * cache. */
struct crn_track *crn_track_new(cairn_session *s, const char *name, int64_t version)
{
    struct crn_track *t = &s->track[s->ntracked++ % CRN_TRACKED];

    t->levels = 0;
    t->error.code = CAIRN_OK;
    t->error.sys_errno = 0;
    t->error.msg[0] = '\0';
    t->is_reported = t->is_rejected = 0;
    t->insisted = CAIRN_LEVEL_NONE;
    t->target = (struct crn_target){CAIRN_LEVEL_NONE, 0};
    t->remark[0] = '\0';
    t->bytes = 0;
    t->copy_seconds = t->blocked_seconds = 0;
    t->captured_ns = t->committed_ns = 0;
    t->seq = s->seq;
    memcpy(t->name, name, strlen(name) + 1);
    t->version = version;
    return t;
}

/* The back-th track, counted from the newest. */
static struct crn_track *track_before(cairn_session *s, uint32_t back)
{
    if (back >= s->ntracked || back >= CRN_TRACKED)
        return NULL;
    return &s->track[(s->ntracked - 1 - back) % CRN_TRACKED];
}

struct crn_track *crn_track_find(cairn_session *s, const char *name, int64_t version)
{
    struct crn_track *t;
    uint32_t i;

    for (i = 0; (t = track_before(s, i)) != NULL; i++)
        if (t->version == version && strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

struct crn_track *crn_track_seq(cairn_session *s, uint64_t seq)
{
    struct crn_track *t = track_before(s, 0);
    uint32_t i;

    /* Nearly every number has a track, so try that distance first. */
    if (t != NULL && t->seq >= seq && t->seq - seq < CRN_TRACKED) {
        t = track_before(s, (uint32_t)(t->seq - seq));
        if (t != NULL && t->seq == seq)
            return t;
    }
    for (i = 0; (t = track_before(s, i)) != NULL; i++)
        if (t->seq == seq)
            return t;
    return NULL;
}

int crn_track_is_safest(const cairn_session *s, uint64_t seq)
{
    uint32_t n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    const struct crn_track *t = NULL;
    uint64_t beyond;
    uint32_t i;

    for (i = 0; i < n && t == NULL; i++)
        t = s->track[i].seq == seq ? &s->track[i] : NULL;
    beyond = t != NULL ? t->levels & ~crn_level_set(CAIRN_CAPTURED) : 0;
    for (i = 0; beyond != 0 && i < n; i++) {
        const struct crn_track *newer = &s->track[i];

        if (newer->seq > seq && newer->error.code == CAIRN_OK &&
            strcmp(newer->name, t->name) == 0 && (beyond & ~newer->levels) == 0)
            return 0;
    }
    return beyond != 0;
}
