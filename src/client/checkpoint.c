/* SPDX-License-Identifier: BSD-3-Clause */
/* Capture. The application waits for room in the arena (rarely), then for one copy at memory speed;
 * the node service hears of it in one small message. Room: wait, spill to the node's disk, or
 * supersede an older capture, as configured. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"

#define ARENA_MIN    ((uint64_t)1 << 20)
#define PUMP_STEP_NS 100000000LL

/* The arena. ------------------------------------------------------------------------------------------ */

/* Twice the image: one being flushed, one being written; less where shared memory is short. */
static uint64_t auto_size(const cairn_session *s, uint64_t image_bytes)
{
    uint64_t want = 2 * image_bytes + ARENA_MIN;
    uint64_t room = 0;

    if (s->fs->space(s->fs, s->dir.dfd, &room) < 0)
        return want;
    room = room / s->nlocal / 10 * 9;
    if (want > room)
        want = image_bytes + ARENA_MIN <= room ? image_bytes + ARENA_MIN : ARENA_MIN;
    return want;
}

cairn_err crn_arena_ensure(cairn_session *s, uint64_t image_bytes, struct crn_errinfo *ei)
{
    struct crn_note note = {.type = CRN_MSG_ARENA};
    uint64_t bytes = s->cfg.arena_bytes;
    char name[32];
    cairn_err rc;
    int threads;

    if (s->arena != NULL)
        return CAIRN_OK;
    if (bytes == 0)
        bytes = auto_size(s, image_bytes);
    (void)snprintf(name, sizeof(name), "arena-%u", s->rank);
    threads = crn_cores() / (int)s->nlocal;
    rc = crn_arena_create(s->dir.dfd, name, s->run, s->rank, bytes, threads, &s->arena, ei);
    if (rc == CAIRN_OK)
        rc = crn_node_send(s, &note, crn_arena_fd(s->arena), ei);
    return rc;
}

/* What a capture is made of. --------------------------------------------------------------------------- */

struct capture {
    const char *name;
    int64_t version;
    struct crn_shard shard;
    void **ptrs; /* by region; NULL for files, which come last */
    uint32_t nmemory;
    struct crn_buf descriptor;
    struct crn_image image;
    struct crn_slot_info info;
    uint32_t slot;
};

static void capture_free(struct capture *c)
{
    crn_image_free(&c->image);
    crn_buf_free(&c->descriptor);
    crn_shard_free(&c->shard);
    free(c->ptrs);
}

static cairn_err capture_describe(cairn_session *s, const char *const *regions, struct capture *c,
                                  struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_select(s, regions, &c->shard, &c->ptrs, ei);
    if (rc != CAIRN_OK)
        return rc;
    c->nmemory = c->shard.nregions;
    rc = crn_files_take(s, c->name, c->version, s->seq, &c->shard, &c->info.nfiles, ei);
    if (rc == CAIRN_OK)
        rc = crn_shard_encode(&c->shard, &c->descriptor, ei);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(&c->shard, c->descriptor.len, &c->image, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(c->info.id.run, s->run, 16);
    c->info.id.seq = s->seq;
    memcpy(c->info.name, c->name, strlen(c->name) + 1);
    c->info.version = c->version;
    c->info.created_ns = (uint64_t)s->clock->wall_ns(s->clock);
    c->info.descriptor_bytes = c->descriptor.len;
    c->info.bytes = c->info.image_bytes = c->image.bytes;
    return CAIRN_OK;
}

/* Room. --------------------------------------------------------------------------------------------------- */

/* Drops the oldest capture that is not being flushed; the service hears of it. */
static cairn_err supersede(cairn_session *s, int *ret_done, struct crn_errinfo *ei)
{
    struct crn_note note = {.type = CRN_MSG_DROPPED};
    struct crn_slot_info old;
    struct crn_track *t;

    *ret_done = crn_arena_supersede(s->arena, &old);
    if (!*ret_done)
        return CAIRN_OK;
    t = crn_track_seq(s, old.id.seq);
    if (t != NULL && t->error.code == CAIRN_OK) {
        t->error.code = CAIRN_ECANCELED;
        (void)snprintf(t->error.msg, sizeof(t->error.msg), "superseded by a newer checkpoint");
    }
    note.seq = old.id.seq;
    return crn_node_send(s, &note, -1, ei);
}

/* A slot for the image, in the arena or, if it has to be, spilled to the node's disk. */
static cairn_err find_room(cairn_session *s, struct capture *c, struct crn_errinfo *ei)
{
    int64_t until = s->clock->mono_ns(s->clock) + (int64_t)s->cfg.wait_timeout_ns;
    int can_spill = s->cfg.local[0] != '\0';
    cairn_err rc;
    int done;

    for (;;) {
        struct crn_errinfo why = {0};

        rc = crn_arena_take(s->arena, CRN_SLOT_WRITING, &c->info, &c->slot, &why);
        if (rc == CAIRN_OK)
            return rc;
        if (can_spill && (rc == CAIRN_ENOSPC || s->cfg.arena_full == CRN_FULL_SPILL)) {
            can_spill = 0; /* from now on only a slot is needed */
            c->info.is_spilled = 1;
            c->info.bytes = 0;
            continue;
        }
        if (rc != CAIRN_EBUSY) {
            crn_err_keep(ei, &why);
            return rc;
        }
        if (s->cfg.arena_full == CRN_FULL_SUPERSEDE) {
            rc = supersede(s, &done, ei);
            if (rc != CAIRN_OK)
                return rc;
            if (done)
                continue;
        }
        if (s->clock->mono_ns(s->clock) > until)
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                            "no room in the arena within wait_timeout: the flush of older "
                            "checkpoints does not keep up, or is paused");
        rc = crn_node_pump(s, PUMP_STEP_NS, ei);
        if (rc != CAIRN_OK)
            return rc;
    }
}

/* The image as a file of the spool: slow, but it works for checkpoints larger than the arena. */
static cairn_err spill(cairn_session *s, struct capture *c, struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    cairn_err rc;
    uint32_t i;
    int fd;

    crn_spill_name(s->rank, s->seq, name);
    fd = s->fs->openat(s->fs, s->dir.spool_dfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    rc = crn_fs_check(fd, ei, "create the spill file '%s/%s'", s->dir.spool, name);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_write_all(s->fs, fd, c->descriptor.data, c->descriptor.len, 0, name, ei);
    for (i = 0; rc == CAIRN_OK && i < c->nmemory; i++)
        rc = crn_fs_write_all(s->fs, fd, c->ptrs[i], c->shard.regions[i].bytes, c->image.at[i],
                              name, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(s->fs->ftruncate(s->fs, fd, (off_t)c->image.bytes), ei, "extend '%s'",
                          name);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(s->fs->close(s->fs, fd), ei, "close '%s'", name);
    else
        (void)s->fs->close(s->fs, fd);
    if (rc != CAIRN_OK)
        (void)s->fs->unlinkat(s->fs, s->dir.spool_dfd, name, 0);
    return rc;
}

static cairn_err copy_image(cairn_session *s, struct capture *c, struct crn_errinfo *ei)
{
    unsigned char *dst = crn_slot_memory(s->arena, &c->info);
    struct crn_copy *copies = calloc(c->nmemory + (size_t)1, sizeof(*copies));
    uint32_t i;

    if (copies == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copy of %u regions", c->nmemory);
    memcpy(dst, c->descriptor.data, c->descriptor.len);
    for (i = 0; i < c->nmemory; i++)
        copies[i] = (struct crn_copy){dst + c->image.at[i], c->ptrs[i], c->shard.regions[i].bytes};
    crn_copier_run(s->copier, copies, c->nmemory);
    free(copies);
    return CAIRN_OK;
}

/* The call. ----------------------------------------------------------------------------------------------- */

/* Copies into the arena or the spool, and tells the service. */
static cairn_err capture_run(cairn_session *s, struct capture *c, struct crn_track *t,
                             struct crn_errinfo *ei)
{
    struct crn_note note = {.type = CRN_MSG_CAPTURED, .seq = s->seq, .version = c->version};
    int64_t start = s->clock->mono_ns(s->clock);
    int64_t copy_start;
    cairn_err rc;

    rc = crn_arena_ensure(s, c->image.bytes, ei);
    if (rc == CAIRN_OK)
        rc = find_room(s, c, ei);
    if (rc != CAIRN_OK)
        return rc;
    copy_start = s->clock->mono_ns(s->clock);
    rc = c->info.is_spilled ? spill(s, c, ei) : copy_image(s, c, ei);
    if (rc != CAIRN_OK) {
        (void)crn_slot_move(s->arena, c->slot, s->seq, CRN_SLOT_WRITING, CRN_SLOT_FREE);
        return rc;
    }
    (void)crn_slot_move(s->arena, c->slot, s->seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN);
    t->blocked_seconds = (double)(copy_start - start) * 1e-9;
    t->copy_seconds = (double)(s->clock->mono_ns(s->clock) - copy_start) * 1e-9;
    t->captured_ns = c->info.created_ns;
    memcpy(note.run, s->run, 16);
    memcpy(note.name, c->info.name, sizeof(note.name));
    note.created_ns = c->info.created_ns;
    note.bytes = t->bytes;
    note.slot = c->slot;
    return crn_node_send(s, &note, -1, ei);
}

/* The other ranks must not wait for a capture that failed here. */
static void tell_failure(cairn_session *s, const char *name, int64_t version,
                         const struct crn_errinfo *why)
{
    struct crn_note note = {
        .type = CRN_MSG_CAPTURE_FAILED, .seq = s->seq, .version = version, .error = *why};
    struct crn_errinfo ignored = {0};

    memcpy(note.name, name, strlen(name) + 1);
    if (s->sock >= 0 && crn_node_send(s, &note, -1, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg);
}

/* A failure that nobody heard of yet, of a name whose policy is strict. */
static cairn_err earlier_failure(cairn_session *s, const char *name, struct crn_errinfo *ei)
{
    uint32_t n = s->ntracked < CRN_TRACKED ? s->ntracked : CRN_TRACKED;
    uint32_t i;

    if (crn_config_name(&s->cfg, name)->on_failure != CRN_FAIL_STRICT)
        return CAIRN_OK;
    for (i = 0; i < n; i++) {
        struct crn_track *t = &s->track[i];

        if (t->error.code == CAIRN_OK || t->error.code == CAIRN_ECANCELED || t->is_reported ||
            strcmp(t->name, name) != 0)
            continue; /* a superseded one was given up on purpose */
        t->is_reported = 1;
        *ei = t->error;
        return crn_err_context(ei, ei->code, "an earlier checkpoint, %s@%" PRId64 ", failed",
                               t->name, t->version);
    }
    return CAIRN_OK;
}

static void note_cost(cairn_session *s, const struct crn_track *t)
{
    s->advice.last_ns = s->clock->mono_ns(s->clock);
    s->advice.cost_ns = (int64_t)((t->copy_seconds + t->blocked_seconds) * 1e9);
    s->advice.has_cost = 1;
}

cairn_err cairn_checkpoint(cairn_session *s, const char *name, int64_t version,
                           const char *const *regions)
{
    struct capture c = {.name = name, .version = version};
    struct crn_errinfo ei = {0};
    struct crn_track *t;
    cairn_err rc;
    uint32_t i;

    rc = crn_check_name("checkpoint", name, &ei);
    if (rc == CAIRN_OK && version < 0)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "version %" PRId64 " of '%s' is negative", version,
                      name);
    if (rc == CAIRN_OK)
        rc = crn_node_pump(s, 0, &ei);
    if (rc == CAIRN_OK)
        rc = earlier_failure(s, name, &ei);
    s->seq++; /* on every rank alike, also when this one fails */
    if (rc != CAIRN_OK) {
        if (name != NULL && strlen(name) < CAIRN_MAX_NAME)
            tell_failure(s, name, version, &ei);
        return crn_api_end(&ei, rc);
    }
    crn_version_close(s->open_version); /* it may be the version that is replaced */
    s->open_version = NULL;
    t = crn_track_new(s, name, version);
    rc = capture_describe(s, regions, &c, &ei);
    for (i = 0; rc == CAIRN_OK && i < c.shard.nregions; i++)
        t->bytes += c.shard.regions[i].bytes;
    if (rc == CAIRN_OK)
        rc = capture_run(s, &c, t, &ei);
    capture_free(&c);
    if (rc == CAIRN_OK) {
        note_cost(s, t);
        return CAIRN_OK;
    }
    t->error = ei;
    t->is_reported = 1;
    tell_failure(s, name, version, &ei);
    return crn_api_end(&ei, rc);
}
