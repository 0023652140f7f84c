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
    t->is_reported = t->is_rejected = t->is_insisted = 0;
    t->target = CAIRN_LEVEL_NONE;
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
