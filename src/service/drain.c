/* SPDX-License-Identifier: BSD-3-Clause */
/* Drains one dead run: writes its captures from the arenas and the spool to the PFS. Reports a
 * capture as saved only after this node's data is durable there. After a crash at any point the
 * next drain continues. drain_host.c decides that a run is dead, and removes it. */
#include "service/drain_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "service/drain_local.h"
#include "service/parity.h"
#include "service/rebuild.h"
#include "service/source.h"
#include "store/journal.h"

void crn_drain_report(const struct crn_fs *fs, const struct crn_config *cfg,
                      const struct crn_drain_event *ev)
{
    struct crn_reporter r = {.fs = fs, .root = cfg->persistent, .job = cfg->job};
    int is_failed = ev->what == CRN_DRAIN_FAILED;

    if (ev->name[0] != '\0' && (is_failed || ev->what == CRN_DRAIN_INCOMPLETE))
        (void)crn_journal_report(&r, ev->name, ev->version, 0,
                                 is_failed ? CRN_EVENT_UNSAVED : CRN_EVENT_INCOMPLETE, ev->text);
}

void crn_dead_run_tell(struct crn_dead_run *run, enum crn_drain_what what, const char *name,
                       int64_t version, uint32_t missing, const char *text)
{
    struct crn_drain_event ev = {what, run->hex, name, version, missing, text};

    run->has_told |= what == CRN_DRAIN_FAILED;
    crn_drain_report(run->fs, &run->cfg, &ev);
    if (run->fn != NULL)
        run->fn(run->arg, &ev);
}

/* Takes the name's lock, so that no sweep removes a half-written file as debris. Another drain may
 * have it: that ends soon; a living job keeps it for long. */
cairn_err crn_drain_lock(const struct crn_store *st, const char *name, const char *who,
                         int64_t timeout_ns, int *ret_fd, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t until = clock->mono_ns(clock) + timeout_ns;
    struct timespec pause = {.tv_nsec = 50 * 1000000};
    cairn_err rc;

    for (;;) {
        crn_err_clear(ei);
        rc = crn_store_lock_name(st, name, who, ret_fd, ei);
        if (rc != CAIRN_EBUSY || clock->mono_ns(clock) > until)
            return rc;
        (void)nanosleep(&pause, NULL);
    }
}

/* No manifest has this capture: was it removed, or would retention remove it right after its
 * commit? */
static cairn_err is_unwanted(const struct crn_store *st, const struct crn_drain_capture *c,
                             int *ret, struct crn_errinfo *ei)
{
    struct crn_retention policy = {0};
    cairn_err rc;

    rc = crn_store_was_removed(st, c->name, c->version, c->id, ret, ei);
    if (rc != CAIRN_OK || *ret || c->names == NULL)
        return rc;
    policy.keep_last = c->names->keep_last;
    policy.keep_every = c->names->keep_every;
    return crn_store_would_retire(st, c->name, &policy, c->version, c->id, c->created_ns, ret, ei);
}

cairn_err crn_drain_is_known(const struct crn_store *st, const struct crn_drain_capture *c,
                             int *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_manifest m;
    cairn_err rc;

    rc = crn_store_manifest(st, c->name, c->version, &m, &why);
    if (rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED) /* no version that a restart could use */
        return is_unwanted(st, c, ret, ei);
    if (rc != CAIRN_OK) { /* it may be newer: never replace a version unseen */
        crn_err_keep(ei, &why);
        return rc;
    }
    *ret = !crn_store_capture_is_later(c->id, c->created_ns, &m.id, m.created_ns);
    crn_manifest_free(&m);
    return CAIRN_OK;
}

/* One capture. --------------------------------------------------------------------------------- */

/* Finds the slot of a capture in every arena of the node. Returns 1 if all ranks have captured it.
 * Only the slots' state words decide; the data they describe may still be damaged. */
static int find_slots(const struct crn_dead_run *run, uint64_t seq, uint32_t *slots)
{
    uint32_t i, s;

    if (run->narenas != run->nlocal)
        return 0;
    for (i = 0; i < run->narenas; i++) {
        for (s = 0; s < crn_arena_slots(run->arenas[i]); s++) {
            enum crn_slot_state state = crn_slot_state_of(run->arenas[i], s, seq);

            if (state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING ||
                crn_slot_is_flushed(state) || crn_slot_has_failed(state))
                break;
        }
        if (s == crn_arena_slots(run->arenas[i]))
            return 0;
        slots[i] = s;
    }
    return 1;
}

static cairn_err open_engine(struct crn_dead_run *run, struct crn_errinfo *ei)
{
    struct crn_engine_options opt = crn_engine_configured(&run->cfg);
    cairn_err rc;

    opt.outlet.gate = &run->gate;
    crn_gate_init(&run->gate, run->cfg.bandwidth, 0, NULL, NULL);
    rc = crn_engine_open(&opt, &run->engine, ei);
    if (rc != CAIRN_OK)
        crn_gate_fini(&run->gate);
    return rc;
}

/* Did all nodes capture it, as far as this node's service knew? */
static int is_promised(const struct crn_dead_run *run, const uint32_t *slots)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint32_t i;

    for (i = 0; i < run->narenas; i++)
        if (crn_slot_info(run->arenas[i], slots[i], &info, &ignored) == CAIRN_OK &&
            info.is_promised)
            return 1;
    return run->nodes == 1;
}

static cairn_err flush_capture(struct crn_dead_run *run, const struct crn_store *st,
                               const struct crn_slot_info *info, const uint32_t *slots,
                               char ret_file[CRN_FILE_NAME], struct crn_errinfo *ei)
{
    struct crn_source *sources = calloc(run->nlocal, sizeof(*sources));
    struct crn_open_shard *held = calloc(run->nlocal, sizeof(*held));
    struct crn_index head = {.id = info->id,
                             .version = info->version,
                             .file_no = run->node,
                             .files = run->nodes,
                             .ranks = run->ranks,
                             .nodes = run->nodes,
                             .is_unpromised = !is_promised(run, slots),
                             .created_ns = info->created_ns};
    struct crn_manifest_file file = {0};
    struct crn_flush_stats stats;
    struct crn_errinfo ignored = {0};
    cairn_err rc = CAIRN_OK;

    memcpy(head.name, info->name, sizeof(head.name));
    if (sources == NULL || held == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a drain of %u shards", run->nlocal);
    if (rc == CAIRN_OK && run->engine == NULL)
        rc = open_engine(run, ei);
    if (rc == CAIRN_OK)
        rc = crn_engine_encode(run->engine, &run->cfg, info->name, ei);
    if (rc == CAIRN_OK)
        rc = crn_sources_open(run->arenas, slots, run->nlocal, &run->dir, held, sources, ei);
    if (rc == CAIRN_OK) {
        rc = crn_sources_look_inside(&run->cfg, info->name, sources, run->nlocal, ei);
        if (rc == CAIRN_OK)
            rc = crn_engine_write(run->engine, st, &head, sources, run->nlocal, NULL, &file, &stats,
                                  ei);
        if (rc == CAIRN_OK) {
            stats.node = stats.first_node = run->node;
            if (crn_flush_stats_keep(&stats, st, &head, file.name, &ignored) != CAIRN_OK)
                crn_err_clear(&ignored); /* statistics are optional */
            crn_flush_stats_free(&stats);
        }
        crn_sources_close(held, sources, run->nlocal);
    }
    memcpy(ret_file, file.name, sizeof(file.name));
    crn_manifest_file_free(&file);
    free(held);
    free(sources);
    return rc;
}

/* Do the bytes of a shard in memory differ from the checksums that its capture took? */
static int is_source_damaged(const struct crn_source *s)
{
    uint64_t unit = s->hash_chunk_bytes;
    uint64_t at;
    uint32_t r;

    for (r = 0; unit != 0 && s->memory != NULL && r < s->shard.nregions; r++) {
        const struct crn_region *region = &s->shard.regions[r];
        const unsigned char *p = s->memory + s->at[r];

        if (region->kind == CRN_REGION_FILE || s->hashes[r] == NULL)
            continue;
        for (at = 0; at < region->bytes; at += unit) {
            uint64_t n = region->bytes - at < unit ? region->bytes - at : unit;

            if (crn_hash(p + at, n) != s->hashes[r][at / unit])
                return 1;
        }
    }
    return 0;
}

/* A data file that fails its checksums right after it was written: if the capture in memory does too, the
 * capture is lost and no later drain can save it. Otherwise the disk is to blame, and the capture stays. */
static int is_capture_damaged(const struct crn_dead_run *run, const uint32_t *slots)
{
    struct crn_source *sources = calloc(run->nlocal, sizeof(*sources));
    struct crn_open_shard *held = calloc(run->nlocal, sizeof(*held));
    struct crn_errinfo ignored = {0};
    int is_damaged = 0;
    uint32_t i;

    if (sources != NULL && held != NULL &&
        crn_sources_open(run->arenas, slots, run->nlocal, &run->dir, held, sources, &ignored) ==
            CAIRN_OK) {
        for (i = 0; i < run->nlocal; i++)
            is_damaged |= is_source_damaged(&sources[i]);
        crn_sources_close(held, sources, run->nlocal);
    }
    free(held);
    free(sources);
    return is_damaged;
}

/* Protected captures. A node's data file is then its stream, so that parity fits it. ------------ */

/* Opens the parity that this node keeps of a capture; *ret_fd is -1 if it has none, or none that is
 * whole: the capture was then never protected. */
static cairn_err open_parity(struct crn_dead_run *run, const struct crn_slot_info *info,
                             struct crn_parity *ret, int *ret_fd, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    char what[CRN_PATH_MAX + 128];
    char name[CRN_PARITY_FILE];
    cairn_err rc;

    *ret_fd = -1;
    crn_parity_file_name(info->id.seq, name);
    (void)snprintf(what, sizeof(what), "%s/%s", run->dir.path, name);
    rc = crn_rebuild_load(run->fs, run->dir.dfd, name, what, ret, ret_fd, &why);
    if (rc == CAIRN_OK &&
        (!crn_capture_id_equal(&ret->id, &info->id) || ret->member[ret->place].node != run->node)) {
        crn_parity_free(ret);
        (void)run->fs->close(run->fs, *ret_fd);
        *ret_fd = -1;
    }
    if (rc == CAIRN_OK || rc == CAIRN_ENOENT || rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT)
        return CAIRN_OK;
    crn_err_keep(ei, &why);
    return rc;
}

static cairn_err flush_stream(struct crn_dead_run *run, const struct crn_store *st,
                              const uint32_t *slots, const struct crn_parity *p,
                              char ret_file[CRN_FILE_NAME], struct crn_errinfo *ei)
{
    struct crn_source *sources = calloc(run->nlocal, sizeof(*sources));
    struct crn_open_shard *held = calloc(run->nlocal, sizeof(*held));
    struct crn_nodefile f = {0};
    cairn_err rc = CAIRN_OK;

    if (sources == NULL || held == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a drain of %u shards", run->nlocal);
    if (rc == CAIRN_OK)
        rc = crn_sources_open(run->arenas, slots, run->nlocal, &run->dir, held, sources, ei);
    if (rc == CAIRN_OK) {
        rc = crn_nodefile_reopen(run->fs, p->tail, p->tail_bytes, sources, run->nlocal, "parity",
                                 &f, ei);
        if (rc == CAIRN_OK)
            rc = crn_rebuild_raise_data(st, &f, ret_file, ei);
        crn_nodefile_close(&f);
        crn_sources_close(held, sources, run->nlocal);
    }
    free(held);
    free(sources);
    return rc;
}

/* Brings this node's part of the capture to the store: its data file and, if it is protected, its
 * parity. */
static cairn_err raise_capture(struct crn_dead_run *run, const struct crn_store *st,
                               const struct crn_slot_info *info, const uint32_t *slots,
                               char ret_file[CRN_FILE_NAME], int *ret_has_parity,
                               struct crn_errinfo *ei)
{
    struct crn_parity p = {0};
    cairn_err rc;
    int fd = -1;

    rc = open_parity(run, info, &p, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    *ret_has_parity = fd >= 0;
    if (fd < 0)
        return flush_capture(run, st, info, slots, ret_file, ei);
    rc = crn_rebuild_raise_parity(st, &p, fd, ei);
    if (rc == CAIRN_OK)
        rc = flush_stream(run, st, slots, &p, ret_file, ei);
    crn_parity_free(&p);
    (void)run->fs->close(run->fs, fd);
    return rc;
}

cairn_err crn_drain_rebuild(const struct crn_store *st, const struct crn_unpublished *u,
                            uint32_t *ret_missing, struct crn_rebuilt *ret, struct crn_errinfo *ei)
{
    struct crn_reporter r = {.fs = st->fs, .root = st->path, .job = u->job != NULL ? u->job : ""};
    struct crn_unpublished any = *u;
    char text[CRN_ERR_TEXT];
    cairn_err rc;

    any.own = NULL;
    rc = crn_rebuild_version(st, u->name, u->version, u->id, ret, ei);
    if (ret->files > 0) { /* another drain may publish it */
        (void)snprintf(text, sizeof(text), "its data was rebuilt: %s", ret->text);
        (void)crn_journal_report(&r, u->name, u->version, 0, CRN_EVENT_REPAIRED, text);
    }
    if (rc == CAIRN_OK && ret->files > 0)
        rc = crn_store_try_publish(st, &any, ret_missing, ei);
    return rc;
}

/* Publishes the capture if all data files are there, or can be rebuilt. A capture that is damaged in
 * this node's memory may be rebuilt, too. */
static cairn_err publish_capture(struct crn_dead_run *run, const struct crn_store *st,
                                 const struct crn_unpublished *u, const uint32_t *slots,
                                 int has_parity, uint32_t *ret_missing, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0}, ignored = {0};
    cairn_err rc;

    rc = crn_store_try_publish(st, u, ret_missing, &why);
    if (rc == CAIRN_EDAMAGED && is_capture_damaged(run, slots)) {
        run->is_lost = 1;
        *ret_missing = 1;
        if (crn_store_discard_data(st, u->name, u->version, u->own, &ignored) != CAIRN_OK)
            crn_err_clear(&ignored); /* a sweep removes it */
    }
    if (has_parity && (rc == CAIRN_OK || run->is_lost) && *ret_missing > 0) {
        cairn_err again = crn_drain_rebuild(st, u, ret_missing, &run->rebuilt, ei);

        if (again != CAIRN_OK || *ret_missing == 0 || !run->is_lost) {
            run->is_lost &= again != CAIRN_OK;
            return again;
        }
    }
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &why);
    return rc;
}

/* Flushes a capture that is whole on this node, and publishes it once all nodes have done so. */
static cairn_err save_capture(struct crn_dead_run *run, const struct crn_store *st,
                              const struct crn_slot_info *info, const uint32_t *slots,
                              uint32_t *ret_missing, struct crn_errinfo *ei)
{
    char file[CRN_FILE_NAME];
    struct crn_unpublished u = {info->name, info->version, &info->id,
                                run->nodes, run->cfg.job,  file};
    int has_parity = 0;
    int lock_fd = -1;
    cairn_err rc;

    rc = crn_drain_lock(st, info->name, CRN_DRAIN_WHO, (int64_t)run->cfg.commit_timeout_ns,
                        &lock_fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_check_pin(st, info->name, info->version, &info->id, ei);
    if (rc == CAIRN_OK)
        rc = raise_capture(run, st, info, slots, file, &has_parity, ei);
    run->is_lost = rc == CAIRN_EDAMAGED; /* its bytes differ from those captured */
    if (rc == CAIRN_OK)
        rc = publish_capture(run, st, &u, slots, has_parity, ret_missing, ei);
    if (rc == CAIRN_OK && *ret_missing == 0)
        crn_rebuild_clean(st, info->name, info->version);
    if (lock_fd >= 0)
        (void)st->fs->close(st->fs, lock_fd);
    return rc;
}

static void tell_saved(struct crn_dead_run *run, enum crn_drain_what what,
                       const struct crn_slot_info *info, uint32_t missing)
{
    crn_dead_run_tell(run, what, info->name, info->version, missing,
                      what == CRN_DRAIN_COMMITTED ? run->rebuilt.text : "");
}

static cairn_err drain_whole(struct crn_dead_run *run, const struct crn_slot_info *info,
                             const uint32_t *slots, struct crn_errinfo *ei)
{
    struct crn_drain_capture c = {info->name, info->version, &info->id, info->created_ns,
                                  crn_config_name(&run->cfg, info->name)};
    enum crn_drain_what what = CRN_DRAIN_KNOWN;
    uint32_t missing = 0;
    struct crn_store st;
    int is_known = 0;
    cairn_err rc;

    rc = crn_store_open(run->fs, run->cfg.persistent, 1, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_drain_is_known(&st, &c, &is_known, ei);
    if (rc == CAIRN_OK && !is_known) {
        rc = save_capture(run, &st, info, slots, &missing, ei);
        what = missing == 0 ? CRN_DRAIN_COMMITTED : CRN_DRAIN_WAITING;
    }
    if (rc == CAIRN_OK)
        tell_saved(run, what, info, missing);
    crn_store_close(&st);
    return rc;
}

static cairn_err drain_capture(struct crn_dead_run *run, const struct crn_slot_info *info,
                               struct crn_errinfo *ei)
{
    uint32_t *slots = calloc(run->nlocal, sizeof(*slots));
    cairn_err rc = CAIRN_OK;

    run->is_lost = 0;
    run->rebuilt = (struct crn_rebuilt){0};
    if (slots == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a drain of %u shards", run->nlocal);
    else if (!find_slots(run, info->id.seq, slots))
        crn_dead_run_tell(run, CRN_DRAIN_INCOMPLETE, info->name, info->version, 0, "");
    else
        rc = drain_whole(run, info, slots, ei);
    if (rc != CAIRN_OK)
        crn_dead_run_tell(run, CRN_DRAIN_FAILED, info->name, info->version, 0, ei->msg);
    free(slots);
    if (!run->is_lost)
        return rc;
    crn_err_keep(&run->lost, ei); /* damage is permanent: do not block other captures */
    crn_err_clear(ei);
    return CAIRN_OK;
}

/* One run. ------------------------------------------------------------------------------------- */

struct captures {
    struct crn_slot_info *v; /* ascending by seq, each once; owned */
    size_t n, room;
};

static cairn_err add_capture(struct captures *c, const struct crn_slot_info *info,
                             struct crn_errinfo *ei)
{
    struct crn_slot_info *grown;
    size_t k;

    for (k = 0; k < c->n; k++)
        if (c->v[k].id.seq == info->id.seq)
            return CAIRN_OK;
    if (c->n == c->room) {
        c->room = c->room > 0 ? 2 * c->room : 64;
        grown = realloc(c->v, c->room * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a drain of %zu captures", c->n);
        c->v = grown;
    }
    for (k = c->n++; k > 0 && c->v[k - 1].id.seq > info->id.seq; k--)
        c->v[k] = c->v[k - 1];
    c->v[k] = *info;
    return CAIRN_OK;
}

/* Lists the unflushed captures of all arenas: a rank may have died before its capture. */
static cairn_err list_captures(const struct crn_dead_run *run, struct captures *ret,
                               struct crn_errinfo *ei)
{
    struct crn_slot_info info;
    cairn_err rc = CAIRN_OK;
    uint32_t i, s;

    for (i = 0; i < run->narenas; i++)
        for (s = 0; rc == CAIRN_OK && s < crn_arena_slots(run->arenas[i]); s++) {
            enum crn_slot_state state = crn_slot_state(run->arenas[i], s);

            if (state != CRN_SLOT_WRITTEN && state != CRN_SLOT_FLUSHING && state != CRN_SLOT_KEPT)
                continue;
            rc = crn_slot_info(run->arenas[i], s, &info, ei);
            if (rc == CAIRN_OK)
                rc = add_capture(ret, &info, ei);
        }
    return rc;
}

static int is_arena(const char *name)
{
    return strncmp(name, "arena-", 6) == 0;
}

static cairn_err map_arena(struct crn_dead_run *run, const char *name, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    char what[CRN_PATH_MAX + 128];
    cairn_err rc;
    int fd;

    (void)snprintf(what, sizeof(what), "'%s/%s'", run->dir.path, name);
    fd = run->fs->openat(run->fs, run->dir.dfd, name, O_RDWR | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open %s", what);
    rc = crn_arena_map(run->fs, fd, what, &run->arenas[run->narenas], &why);
    if (rc == CAIRN_ENOENT) /* initialisation never finished: its rank has captured nothing */
        return CAIRN_OK;
    if (rc == CAIRN_OK)
        run->narenas++;
    else
        crn_err_keep(ei, &why);
    return rc;
}

static cairn_err map_arenas(struct crn_dead_run *run, struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;

    rc = crn_fs_names(run->fs, run->dir.dfd, run->dir.path, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    run->arenas = calloc(run->nlocal, sizeof(*run->arenas));
    if (run->arenas == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u arenas", run->nlocal);
    for (i = 0; rc == CAIRN_OK && i < names.n && run->narenas < run->nlocal; i++)
        if (is_arena(names.name[i]))
            rc = map_arena(run, names.name[i], ei);
    crn_names_free(&names);
    return rc;
}

/* A capture of a pinned version stays until the version is unpinned; other captures do not wait for
 * it. */
static cairn_err drain_unless_pinned(struct crn_dead_run *run, const struct crn_slot_info *info,
                                     struct crn_errinfo *pinned, struct crn_errinfo *ei)
{
    cairn_err rc = drain_capture(run, info, ei);

    if (rc != CAIRN_EPINNED)
        return rc;
    crn_err_keep(pinned, ei);
    crn_err_clear(ei);
    return CAIRN_OK;
}

cairn_err crn_dead_run_drain(struct crn_dead_run *run, struct crn_errinfo *ei)
{
    struct crn_errinfo pinned = {0};
    struct captures list = {0};
    cairn_err rc;
    size_t i;

    rc = map_arenas(run, ei);
    if (rc == CAIRN_OK)
        rc = list_captures(run, &list, ei);
    /* Newest first: a restart wants it, and it may supersede older ones. */
    for (i = list.n; rc == CAIRN_OK && i > 0; i--)
        rc = drain_unless_pinned(run, &list.v[i - 1], &pinned, ei);
    free(list.v);
    if (rc == CAIRN_OK && pinned.code != CAIRN_OK) {
        crn_err_keep(ei, &pinned);
        rc = pinned.code;
    }
    return rc;
}

void crn_dead_run_close(struct crn_dead_run *run)
{
    uint32_t i;

    for (i = 0; i < run->narenas; i++)
        crn_arena_close(run->arenas[i]);
    free(run->arenas);
    if (run->engine != NULL) {
        crn_engine_close(run->engine);
        crn_gate_fini(&run->gate);
    }
    crn_rundir_close(&run->dir);
    crn_config_fini(&run->cfg);
}
