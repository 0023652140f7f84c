/* SPDX-License-Identifier: BSD-3-Clause */
/* One capture of this rank: describe it, find space, copy it, hand it over. The application waits
 * for free space in the arena (rarely), then for one copy at memory speed; the node service learns
 * of it in one small message. When the arena is full the capture waits, spills to the node's disk,
 * or supersedes an older capture, as configured. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"

#define ARENA_MIN    ((uint64_t)1 << 20)
#define SLOT_BYTES   ((uint64_t)64 << 10)
#define PUMP_STEP_NS 100000000LL

/* The arena. ----------------------------------------------------------------------------------- */

static int is_temporal(const struct crn_name_config *nc)
{
    return nc->encode != CRN_ENCODE_NONE && nc->encode_full_every > 1;
}

/* One image being flushed, one being written, if versions are encoded against the previous one,
 * that one too, and those that stay although they are not flushed. */
static uint64_t images_of(const struct crn_name_config *nc)
{
    uint64_t images = is_temporal(nc) ? 3 : 2;

    return nc->persistent_every.count != 1 ? images + nc->keep_protected : images;
}

uint64_t crn_take_images(const struct crn_config *cfg)
{
    uint64_t most = images_of(&cfg->names);
    size_t i;

    for (i = 0; i < cfg->noverrides; i++)
        most = most > images_of(&cfg->overrides[i]) ? most : images_of(&cfg->overrides[i]);
    return most;
}

/* The arena's size for arena_bytes = auto; less if shared memory is short. */
static uint64_t auto_size(const cairn_session *s, uint64_t image_bytes)
{
    uint64_t n = crn_take_images(&s->cfg);
    uint64_t room = UINT64_MAX;
    struct crn_room space;

    if (s->fs->space(s->fs, s->dir.dfd, &space) >= 0)
        room = space.bytes / s->nlocal / 10 * 9;
    while (n > 0 && n * image_bytes + ARENA_MIN > room)
        n--;
    return n * image_bytes + ARENA_MIN;
}

/* Enough slots for images of a reasonable size in the arena and on the node's disk. */
static uint32_t slots_wanted(const cairn_session *s, uint64_t bytes)
{
    uint64_t n = bytes / SLOT_BYTES + s->cfg.local_cache / SLOT_BYTES;

    return n < CRN_ARENA_SLOTS_MAX ? (uint32_t)n : CRN_ARENA_SLOTS_MAX;
}

static cairn_err make_arena(cairn_session *s, struct crn_arena_size *size, struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    cairn_err rc;

    size->threads = crn_cores() / (int)s->nlocal;
    size->slots = slots_wanted(s, size->bytes);
    crn_rundir_arena_name(s->rank, name);
    rc = crn_arena_create(s->dir.dfd, name, s->run, s->rank, size, &s->arena, ei);
    if (rc == CAIRN_OK)
        crn_phase_show(s, s->phase);
    return rc;
}

/* Gives up an arena that the service refuses to map: the next call creates another one. */
static cairn_err share_arena(cairn_session *s, struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    cairn_err rc;

    rc = crn_service_link_share_arena(s, ei);
    if (rc == CAIRN_OK || s->arena_share != CRN_SHARE_NONE)
        return rc;
    crn_arena_close(s->arena);
    s->arena = NULL;
    crn_rundir_arena_name(s->rank, name);
    (void)unlinkat(s->dir.dfd, name, 0);
    return rc;
}

static uint64_t arena_bytes(const cairn_session *s, uint64_t image_bytes)
{
    return s->cfg.arena_bytes > 0 ? s->cfg.arena_bytes : auto_size(s, image_bytes);
}

/* Do only captures of host memory use the arena, one image at a time? */
static int is_filled_by_images(const cairn_session *s, const struct crn_capture *c)
{
    uint32_t i;

    for (i = 0; i < c->nmemory; i++)
        if (c->places[i].device != NULL)
            return 0;
    return s->cfg.local_cache == 0;
}

cairn_err crn_take_ensure_arena(cairn_session *s, uint64_t image_bytes, uint64_t first,
                                struct crn_errinfo *ei)
{
    struct crn_arena_size size = {.first = first};
    cairn_err rc = CAIRN_OK;

    if (s->arena_share == CRN_SHARE_DONE)
        return CAIRN_OK;
    if (s->arena == NULL) {
        size.bytes = arena_bytes(s, image_bytes);
        rc = make_arena(s, &size, ei);
    }
    return rc == CAIRN_OK ? share_arena(s, ei) : rc;
}

/* What a capture is made of. ------------------------------------------------------------------- */

static void free_parts(struct crn_capture *c)
{
    crn_image_free(&c->image);
    crn_buf_free(&c->descriptor);
    crn_shard_free(&c->shard);
    free(c->places);
    free(c->early);
    c->places = NULL;
    c->early = NULL;
}

/* Names the files now; the hand-over takes them. The descriptor is written later, but its length is
 * needed now: the regions follow it in the image. */
static cairn_err take_describe(cairn_session *s, const struct crn_take *what, struct crn_capture *c,
                               struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_regions_select(s, what->regions, 1, &c->shard, &c->places, ei);
    if (rc != CAIRN_OK)
        return rc;
    c->nmemory = c->shard.nregions;
    rc = crn_files_announce(s, what->name, what->version, &c->shard, &c->info.nfiles, ei);
    c->info.descriptor_bytes = crn_shard_bytes(&c->shard);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(&c->shard, c->info.descriptor_bytes, &c->image, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(c->info.id.run, s->run, 16);
    c->info.id.seq = s->seq;
    memcpy(c->info.name, what->name, strlen(what->name) + 1);
    c->info.version = what->version;
    c->info.created_ns = (uint64_t)s->clock->wall_ns(s->clock);
    c->info.bytes = c->info.image_bytes = c->image.bytes;
    return CAIRN_OK;
}

static cairn_err write_descriptor(struct crn_capture *c, struct crn_errinfo *ei)
{
    cairn_err rc;

    c->descriptor.len = 0;
    rc = crn_shard_encode(&c->shard, &c->descriptor, ei);
    if (rc == CAIRN_OK && c->descriptor.len != c->info.descriptor_bytes)
        rc = crn_fail(ei, CAIRN_EBUG, 0, "the descriptor of a capture changed its length");
    return rc;
}

cairn_err crn_capture_complete(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    cairn_err rc;

    if (c->is_complete)
        return CAIRN_OK;
    c->is_complete = 1;
    rc = crn_checkpoint_hear(s, c->info.name, ei);
    return rc == CAIRN_OK ? write_descriptor(c, ei) : rc;
}

/* Reserves space for checksums after the image, if the copy computes them and the arena has the
 * space. Captures that are spilled or go through the session's tiers have none. */
static void add_hashes(const cairn_session *s, struct crn_capture *c)
{
    uint64_t chunk_bytes = s->cfg.chunk_bytes;
    uint64_t bytes = 8 * crn_image_hash_words(&c->shard, chunk_bytes);

    bytes = (bytes + CRN_IMAGE_ALIGN - 1) / CRN_IMAGE_ALIGN * CRN_IMAGE_ALIGN;
    if (!crn_copier_hashes(s->copier, c->image.bytes) ||
        (s->arena != NULL && c->image.bytes + bytes > crn_arena_bytes(s->arena)))
        return;
    c->info.hash_chunk_bytes = chunk_bytes;
    c->info.bytes = c->image.bytes + bytes;
}

static void drop_hashes(struct crn_capture *c)
{
    c->info.hash_chunk_bytes = 0;
    c->info.bytes = c->image.bytes;
}

/* Room. ---------------------------------------------------------------------------------------- */

/* Whoever sets arena_full = supersede means all versions. By default some need their turn, and those
 * that are held, or survive the loss of a node, give way only to a newer one that does as much. */
static int take_may_supersede(const void *arg, const struct crn_slot_info *info)
{
    const cairn_session *s = arg;

    return s->cfg.arena_full == CRN_FULL_SUPERSEDE ||
           (crn_config_flushes_all(&s->cfg, info->name) &&
            crn_config_may_supersede(&s->cfg, info->name, info->version) &&
            !crn_track_is_safest(s, info->id.seq));
}

/* Drops the oldest capture whose flush has not begun, and tells the service. */
static cairn_err take_supersede(cairn_session *s, int *ret_done, struct crn_errinfo *ei)
{
    struct crn_msg note = {.type = CRN_MSG_DROPPED};
    struct crn_slot_info old;
    struct crn_track *t;

    *ret_done = crn_tiers_are_open(s) ? crn_tiers_supersede(s, take_may_supersede, &old)
                                      : crn_arena_supersede(s->arena, take_may_supersede, s, &old);
    if (!*ret_done)
        return CAIRN_OK;
    t = crn_track_seq(s, old.id.seq);
    if (t != NULL && t->error.code == CAIRN_OK) {
        t->error.code = CAIRN_ECANCELED;
        (void)snprintf(t->error.msg, sizeof(t->error.msg), "superseded by a newer checkpoint");
    }
    note.seq = old.id.seq;
    return crn_service_link_send(s, &note, ei);
}

/* One attempt. The tiers copy at once; the arena and the spool only get a slot. */
static cairn_err take_room(cairn_session *s, struct crn_capture *c, struct crn_track *t,
                           struct crn_errinfo *ei)
{
    if (!crn_tiers_are_open(s))
        return crn_arena_take(s->arena, CRN_SLOT_WRITING, &c->info, &c->slot, ei);
    if (c->info.is_spilled)
        return crn_tiers_slot(s, &c->info, &c->slot, ei);
    return crn_tiers_write(s, c, t, crn_config_full(&s->cfg) == CRN_FULL_WAIT ? PUMP_STEP_NS : 0,
                           ei);
}

/* How long a capture has waited for room. */
struct take_wait {
    int64_t begin_ns;
    int64_t next_ns; /* after the begin, when to ask that a held version be flushed; then doubled */
};

/* The flushes that make room run at full speed. If nothing has made room for a while, a version
 * that is held may have to be flushed. */
static void ask_for_room(cairn_session *s, struct take_wait *w)
{
    struct crn_msg note = {.type = CRN_MSG_CRAMPED, .seq = s->seq};
    struct crn_errinfo ignored = {0};

    if (!crn_config_is_lazy(&s->cfg))
        crn_wait_want(s, s->seq - 1);
    else if (crn_tiers_are_full(s))
        crn_wait_want(s, s->wanted + (s->seq - s->wanted + 1) / 2); /* the older half of the rest */
    if (s->clock->mono_ns(s->clock) - w->begin_ns < w->next_ns || !crn_wait_may_hold(s))
        return;
    w->next_ns *= 2;
    if (crn_service_link_send(s, &note, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg);
}

/* Finds a slot for the image in the arena or, if necessary, one for a spill to the node's disk. */
static cairn_err find_room(cairn_session *s, struct crn_capture *c, struct crn_track *t,
                           struct crn_errinfo *ei)
{
    struct take_wait w = {s->clock->mono_ns(s->clock), PUMP_STEP_NS};
    int can_spill = s->cfg.local[0] != '\0';
    cairn_err rc;
    int done;

    for (;;) {
        struct crn_errinfo why = {0};

        rc = take_room(s, c, t, &why);
        if (rc == CAIRN_OK)
            return rc;
        if (can_spill && (rc == CAIRN_ENOSPC || crn_config_full(&s->cfg) == CRN_FULL_SPILL)) {
            can_spill = 0; /* from now on it needs only a slot */
            drop_hashes(c);
            c->info.is_spilled = 1;
            c->info.bytes = 0;
            continue;
        }
        if (rc != CAIRN_EBUSY) {
            crn_err_keep(ei, &why);
            return rc;
        }
        if (crn_config_full(&s->cfg) == CRN_FULL_SUPERSEDE) {
            rc = take_supersede(s, &done, ei);
            if (rc != CAIRN_OK)
                return rc;
            if (done)
                continue;
        }
        ask_for_room(s, &w);
        if (s->clock->mono_ns(s->clock) - w.begin_ns > (int64_t)s->cfg.wait_timeout_ns)
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                            "no space in the arena within wait_timeout: the flush of older "
                            "checkpoints does not keep up, or is paused");
        rc =
            crn_service_link_pump(s, crn_tiers_are_open(s) ? PUMP_STEP_NS / 100 : PUMP_STEP_NS, ei);
        if (rc != CAIRN_OK)
            return rc;
    }
}

/* Writes the image as a file of the spool: slow, but it works for checkpoints larger than the
 * arena. */
static cairn_err take_spill(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    cairn_err rc;
    uint32_t i;
    int fd;

    crn_rundir_spill_name(s->rank, c->info.id.seq, name);
    fd = s->fs->openat(s->fs, s->dir.spool_dfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    rc = crn_fs_check(fd, ei, "create the spill file '%s/%s'", s->dir.spool, name);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_write_all(s->fs, fd, c->descriptor.data, c->descriptor.len, 0, name, ei);
    for (i = 0; rc == CAIRN_OK && i < c->nmemory; i++) {
        uint64_t bytes = c->shard.regions[i].bytes;

        if (c->places[i].device != NULL)
            rc = crn_gpu_write(s, &c->places[i], bytes, fd, c->image.at[i], name, ei);
        else
            rc = crn_fs_write_all(s->fs, fd, c->places[i].ptr, bytes, c->image.at[i], name, ei);
    }
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

/* Lists the copies for the copier: all host memory, with checksums if there is space for them. */
static uint32_t list_copies(const struct crn_capture *c, unsigned char *dst,
                            struct crn_copy *copies)
{
    uint64_t chunk_bytes = c->info.hash_chunk_bytes;
    uint64_t *words = chunk_bytes != 0 ? (uint64_t *)(void *)(dst + c->info.image_bytes) : NULL;
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; i < c->nmemory; i++) {
        uint64_t bytes = c->shard.regions[i].bytes;
        int is_here = c->places[i].device == NULL;

        if (is_here)
            copies[n++] = (struct crn_copy){.dst = dst + c->image.at[i],
                                            .src = c->places[i].ptr,
                                            .bytes = bytes,
                                            .hashes = words != NULL ? words + 1 : NULL};
        if (words != NULL) {
            words[0] = (uint64_t)is_here;
            words += 1 + (bytes + chunk_bytes - 1) / chunk_bytes;
        }
    }
    return n;
}

/* Submits the copies of device memory and makes those of host memory. Wait for the former, also
 * after an error. */
static cairn_err copy_begin(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    unsigned char *dst = crn_slot_memory(s->arena, &c->info);
    struct crn_copy *copies = calloc(c->nmemory + (size_t)1, sizeof(*copies));
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (copies == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copy of %u regions", c->nmemory);
    memcpy(dst, c->descriptor.data, c->descriptor.len);
    for (i = 0; rc == CAIRN_OK && i < c->nmemory; i++)
        if (c->places[i].device != NULL)
            rc = crn_gpu_capture(s, &c->places[i], dst + c->image.at[i], c->shard.regions[i].bytes,
                                 ei);
    if (rc == CAIRN_OK)
        rc = crn_early_give(s, c, ei);
    if (rc == CAIRN_OK) /* while the GPU copies its regions */
        crn_copier_run(s->copier, copies, list_copies(c, dst, copies));
    free(copies);
    return rc;
}

/* rc is that of the beginning. */
static cairn_err copy_end(cairn_session *s, cairn_err rc, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err waited = crn_gpu_wait(s, &late);

    crn_err_keep(ei, &late);
    return rc != CAIRN_OK ? rc : waited;
}

static cairn_err copy_image(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    return copy_end(s, copy_begin(s, c, ei), ei);
}

/* The application's streams wait for the copies instead of the caller. */
static cairn_err copy_ordered(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    cairn_err rc = copy_begin(s, c, ei);

    if (rc == CAIRN_OK)
        rc = crn_gpu_release(s, ei);
    return rc == CAIRN_OK ? rc : copy_end(s, rc, ei);
}

/* The part of a capture's copies that the caller waits for. */
static cairn_err capture_copy(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    if (c->flags == CAIRN_LAZY) {
        c->early = c->info.is_spilled ? NULL : crn_early_sample(c);
        return crn_gpu_order(s, c->places, c->nmemory, ei);
    }
    if (c->info.is_spilled)
        return take_spill(s, c, ei);
    return c->flags == CAIRN_STREAM_ORDERED ? copy_ordered(s, c, ei) : copy_image(s, c, ei);
}

cairn_err crn_capture_finish(cairn_session *s, struct crn_capture *c, struct crn_errinfo *ei)
{
    cairn_err rc;

    if (c->flags == CAIRN_STREAM_ORDERED)
        return copy_end(s, CAIRN_OK, ei);
    if (c->info.is_spilled)
        return take_spill(s, c, ei);
    rc = copy_image(s, c, ei);
    return rc == CAIRN_OK ? crn_early_check(c, crn_slot_memory(s->arena, &c->info), ei) : rc;
}

/* Life of a capture. --------------------------------------------------------------------------- */

void crn_capture_drop(cairn_session *s, struct crn_capture *c)
{
    char name[CRN_SPOOL_NAME];

    if (c->held != NULL) {
        crn_tiers_drop(s, c->held);
        free_parts(c);
        memset(c, 0, sizeof(*c));
        return;
    }
    if (c->has_slot && c->info.is_spilled) {
        crn_rundir_spill_name(s->rank, c->info.id.seq, name);
        (void)s->fs->unlinkat(s->fs, s->dir.spool_dfd, name, 0);
    }
    if (c->has_slot)
        (void)crn_slot_move(s->arena, c->slot, c->info.id.seq, CRN_SLOT_WRITING, CRN_SLOT_FREE);
    free_parts(c);
    memset(c, 0, sizeof(*c));
}

/* Everything before the copy. The tiers, if the session has them, copy at once. */
static cairn_err capture_prepare(cairn_session *s, const struct crn_take *what, struct crn_track *t,
                                 struct crn_capture *c, struct crn_errinfo *ei)
{
    uint64_t generation = 0;
    cairn_err rc;

    rc = crn_gpu_check(s, ei);
    if (rc == CAIRN_OK)
        rc = crn_claim(s, what->name, what->version, &generation, ei);
    if (rc == CAIRN_OK)
        rc = take_describe(s, what, c, ei);
    c->info.id.generation = generation;
    if (rc == CAIRN_OK && what->flags == CAIRN_STREAM_ORDERED)
        rc = crn_gpu_need_streams(s, c->places, c->nmemory, ei);
    if (rc == CAIRN_OK && what->flags != 0)
        rc = crn_deferred_ready(s, ei);
    if (rc == CAIRN_OK && !crn_tiers_are_open(s))
        rc = crn_capture_complete(s, c, ei);
    if (rc == CAIRN_OK) {
        add_hashes(s, c);
        rc = crn_take_ensure_arena(s, c->info.bytes, is_filled_by_images(s, c) ? c->info.bytes : 0,
                                   ei);
    }
    if (rc == CAIRN_OK) {
        crn_tiers_open(s);
        if (crn_tiers_are_open(s))
            drop_hashes(c);
        rc = find_room(s, c, t, ei);
    }
    c->has_slot = rc == CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = crn_capture_complete(s, c, ei); /* a spilled capture is not complete yet */
    return rc;
}

cairn_err crn_capture_take(cairn_session *s, const struct crn_take *what, struct crn_track *t,
                           struct crn_capture *ret, struct crn_errinfo *ei)
{
    struct crn_capture c = {0};
    int64_t start = s->clock->mono_ns(s->clock);
    int64_t copy_start;
    cairn_err rc;
    uint32_t i;

    rc = capture_prepare(s, what, t, &c, ei);
    copy_start = s->clock->mono_ns(s->clock);
    if (c.held == NULL)
        c.flags = what->flags;
    if (rc == CAIRN_OK && c.held == NULL)
        rc = capture_copy(s, &c, ei);
    if (rc != CAIRN_OK) {
        crn_capture_drop(s, &c);
        return rc;
    }
    if (c.held == NULL)
        t->copy_seconds = (double)(s->clock->mono_ns(s->clock) - copy_start) * 1e-9;
    t->blocked_seconds = (double)(s->clock->mono_ns(s->clock) - start) * 1e-9 - t->copy_seconds;
    t->captured_ns = c.info.created_ns;
    t->bytes = 0;
    for (i = 0; i < c.nmemory; i++)
        t->bytes += c.shard.regions[i].bytes;
    *ret = c;
    return CAIRN_OK;
}

/* Puts the sizes of the files into the descriptor, whose length does not change. */
static cairn_err take_files(cairn_session *s, struct crn_capture *c, struct crn_track *t,
                            struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    cairn_err rc;
    uint32_t i;
    int fd;

    rc =
        crn_files_take(s, c->info.name, c->info.version, c->info.id.seq, c->nmemory, &c->shard, ei);
    for (i = c->nmemory; rc == CAIRN_OK && i < c->shard.nregions; i++)
        t->bytes += c->shard.regions[i].bytes;
    if (rc == CAIRN_OK)
        rc = write_descriptor(c, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (c->held != NULL || c->flags == CAIRN_LAZY)
        return CAIRN_OK; /* the descriptor is written together with the image */
    if (!c->info.is_spilled) {
        memcpy(crn_slot_memory(s->arena, &c->info), c->descriptor.data, c->descriptor.len);
        return CAIRN_OK;
    }
    crn_rundir_spill_name(s->rank, c->info.id.seq, name);
    fd = s->fs->openat(s->fs, s->dir.spool_dfd, name, O_WRONLY, 0);
    rc = crn_fs_check(fd, ei, "open the spill file '%s/%s'", s->dir.spool, name);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_write_all(s->fs, fd, c->descriptor.data, c->descriptor.len, 0, name, ei);
    if (rc == CAIRN_OK)
        return crn_fs_check(s->fs->close(s->fs, fd), ei, "close '%s'", name);
    (void)s->fs->close(s->fs, fd);
    return rc;
}

cairn_err crn_capture_hand_over(cairn_session *s, struct crn_capture *c, uint64_t bytes,
                                const struct crn_target *target, int64_t copy_ns,
                                struct crn_errinfo *ei)
{
    struct crn_msg note = {
        .type = CRN_MSG_CAPTURED,
        .seq = c->info.id.seq,
        .captured = {.ckpt = {.version = c->info.version, .created_ns = c->info.created_ns},
                     .slot = c->slot,
                     .bytes = bytes,
                     .target = (uint32_t)target->level,
                     .protect = target->protect}};

    if (c->info.nfiles == 0 && !c->info.is_spilled)
        note.captured.copy_ns = (uint64_t)copy_ns;
    memcpy(note.run, s->run, 16);
    memcpy(note.ckpt.name, c->info.name, sizeof(note.ckpt.name));
    (void)crn_slot_move(s->arena, c->slot, note.seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN);
    free_parts(c);
    memset(c, 0, sizeof(*c));
    return crn_service_link_send(s, &note, ei);
}

cairn_err crn_capture_submit(cairn_session *s, struct crn_capture *c, struct crn_track *t,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (c->info.nfiles > 0)
        rc = take_files(s, c, t, ei);
    if (rc != CAIRN_OK) {
        if (c->flags != 0) /* copies may be in flight */
            (void)!copy_end(s, rc, ei);
        crn_capture_drop(s, c);
        return rc;
    }
    if (c->flags != 0) {
        crn_deferred_give(s, c, t);
        return CAIRN_OK;
    }
    if (c->held != NULL) {
        rc = crn_tiers_submit(s, c, t, ei);
        free_parts(c);
        memset(c, 0, sizeof(*c));
        return rc;
    }
    rc = crn_capture_hand_over(s, c, t->bytes, &t->target, (int64_t)(t->copy_seconds * 1e9), ei);
    crn_arena_go_on(s->arena);
    return rc;
}
