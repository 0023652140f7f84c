/* SPDX-License-Identifier: BSD-3-Clause */
/* Drain of dead runs. The proof of death is the lock in the run's directory, which its service held.
 * Nothing is removed before the data of this node is durable on the PFS; a crash at any point leaves
 * a state from which the next drain goes on. */
#include "service/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/drain_local.h"
#include "service/drain_store.h"
#include "service/rundir.h"
#include "service/runfile.h"
#include "service/source.h"

#define BIRTH_S 60

const char *crn_drain_what_name(enum crn_drain_what what)
{
    static const char *const names[] = {"committed",  "waiting", "known",
                                        "incomplete", "failed",  "alive"};

    return names[what];
}

/* A dead run of one node. */
struct dead_run {
    char hex[CRN_RUN_HEX];
    struct crn_config cfg;
    uint32_t ranks, node, nodes, nlocal;
    struct crn_rundir dir;
    struct crn_arena **arenas; /* those found; at most nlocal */
    uint32_t narenas;
    struct crn_engine *engine;
    struct crn_gate gate; /* of the engine */
    const struct crn_fs *fs;
    crn_drain_fn fn;
    void *arg;
};

static void tell(const struct dead_run *run, enum crn_drain_what what, const char *name,
                 int64_t version, uint32_t missing, const char *text)
{
    struct crn_drain_event ev = {what, run->hex, name, version, missing, text};

    if (run->fn != NULL)
        run->fn(run->arg, &ev);
}

/* The name's lock, so that no sweep takes half a file for debris. Another drain may have it: that
 * ends; a living job has it for long. */
cairn_err crn_drain_lock(const struct crn_store *st, const char *name, int64_t timeout_ns,
                         int *ret_fd, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t until = clock->mono_ns(clock) + timeout_ns;
    struct timespec pause = {.tv_nsec = 50 * 1000000};
    cairn_err rc;

    for (;;) {
        crn_err_clear(ei);
        rc = crn_store_lock_name(st, name, "cairn drain", ret_fd, ei);
        if (rc != CAIRN_EBUSY || clock->mono_ns(clock) > until)
            return rc;
        (void)nanosleep(&pause, NULL);
    }
}

int crn_drain_is_known(const struct crn_store *st, const char *name, int64_t version,
                       const struct crn_capture_id *id, uint64_t created_ns)
{
    struct crn_errinfo ignored = {0};
    struct crn_manifest m;
    int known;

    if (crn_store_manifest(st, name, version, &m, &ignored) != CAIRN_OK)
        return 0;
    known = crn_capture_id_equal(&m.id, id) || m.created_ns >= created_ns;
    crn_manifest_free(&m);
    return known;
}

/* One capture. ------------------------------------------------------------------------------------- */

/* Finds the slot of a capture in every arena of the node: 1 if all have it whole. */
static int find_slots(const struct dead_run *run, uint64_t seq, uint32_t *slots)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint32_t i, s;

    if (run->narenas != run->nlocal)
        return 0;
    for (i = 0; i < run->narenas; i++) {
        for (s = 0; s < CRN_ARENA_SLOTS; s++) {
            enum crn_slot_state state = crn_slot_state(run->arenas[i], s);

            if ((state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING ||
                 crn_slot_is_flushed(state) || crn_slot_has_failed(state)) &&
                crn_slot_info(run->arenas[i], s, &info, &ignored) == CAIRN_OK && info.id.seq == seq)
                break;
        }
        if (s == CRN_ARENA_SLOTS)
            return 0;
        slots[i] = s;
    }
    return 1;
}

static cairn_err open_engine(struct dead_run *run, struct crn_errinfo *ei)
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

static cairn_err flush_capture(struct dead_run *run, const struct crn_store *st,
                               const struct crn_slot_info *info, const uint32_t *slots,
                               struct crn_errinfo *ei)
{
    struct crn_source *sources = calloc(run->nlocal, sizeof(*sources));
    struct crn_held *held = calloc(run->nlocal, sizeof(*held));
    struct crn_index head = {.id = info->id,
                             .version = info->version,
                             .file_no = run->node,
                             .files = run->nodes,
                             .ranks = run->ranks,
                             .nodes = run->nodes,
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
        rc = crn_sources_open(run->arenas, slots, run->nlocal, run->dir.spool_dfd, held, sources,
                              ei);
    if (rc == CAIRN_OK) {
        rc = crn_sources_look_inside(&run->cfg, info->name, sources, run->nlocal, ei);
        if (rc == CAIRN_OK)
            rc = crn_engine_write(run->engine, st, &head, sources, run->nlocal, NULL, &file, &stats,
                                  ei);
        if (rc == CAIRN_OK) {
            stats.node = stats.first_node = run->node;
            if (crn_flush_stats_keep(&stats, st, &head, file.name, &ignored) != CAIRN_OK)
                crn_err_clear(&ignored); /* they are for people */
            crn_flush_stats_free(&stats);
        }
        crn_sources_close(held, sources, run->nlocal);
    }
    crn_manifest_file_free(&file);
    free(held);
    free(sources);
    return rc;
}

static cairn_err drain_capture(struct dead_run *run, const struct crn_slot_info *info,
                               struct crn_errinfo *ei)
{
    uint32_t *slots = calloc(run->nlocal, sizeof(*slots));
    struct crn_store st;
    uint32_t missing = 0;
    int is_damaged;
    cairn_err rc;
    int lock_fd = -1;

    if (slots == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a drain of %u shards", run->nlocal);
    if (!find_slots(run, info->id.seq, slots)) {
        tell(run, CRN_DRAIN_INCOMPLETE, info->name, info->version, 0, "");
        free(slots);
        return CAIRN_OK;
    }
    rc = crn_store_open(run->fs, run->cfg.persistent, 1, &st, ei);
    if (rc != CAIRN_OK) {
        free(slots);
        return rc;
    }
    if (crn_drain_is_known(&st, info->name, info->version, &info->id, info->created_ns)) {
        tell(run, CRN_DRAIN_KNOWN, info->name, info->version, 0, "");
        goto out;
    }
    rc = crn_drain_lock(&st, info->name, (int64_t)run->cfg.commit_timeout_ns, &lock_fd, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_check_pin(&st, info->name, info->version, &info->id, ei);
    if (rc == CAIRN_OK)
        rc = flush_capture(run, &st, info, slots, ei);
    is_damaged = rc == CAIRN_EDAMAGED;
    if (rc == CAIRN_OK)
        rc = crn_store_try_publish(&st, info->name, info->version, &info->id, run->nodes,
                                   run->cfg.job, &missing, ei);
    if (rc == CAIRN_OK)
        tell(run, missing == 0 ? CRN_DRAIN_COMMITTED : CRN_DRAIN_WAITING, info->name, info->version,
             missing, "");
    else
        tell(run, CRN_DRAIN_FAILED, info->name, info->version, 0, ei->msg);
    if (is_damaged) { /* it never gets better, and others shall not wait for it */
        crn_err_clear(ei);
        rc = CAIRN_OK;
    }
    if (lock_fd >= 0)
        (void)close(lock_fd);
out:
    crn_store_close(&st);
    free(slots);
    return rc;
}

/* One run. ------------------------------------------------------------------------------------------- */

/* The captures that were not flushed, ascending by seq, each once: from all arenas, since a rank may
 * have died before its capture. */
static size_t list_captures(const struct dead_run *run, struct crn_slot_info *list, size_t room)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    size_t n = 0;
    size_t k;
    uint32_t i, s;

    for (i = 0; i < run->narenas; i++) {
        for (s = 0; s < CRN_ARENA_SLOTS; s++) {
            enum crn_slot_state state = crn_slot_state(run->arenas[i], s);

            if ((state != CRN_SLOT_WRITTEN && state != CRN_SLOT_FLUSHING &&
                 state != CRN_SLOT_KEPT) ||
                crn_slot_info(run->arenas[i], s, &info, &ignored) != CAIRN_OK)
                continue;
            for (k = 0; k < n && list[k].id.seq != info.id.seq; k++)
                ;
            if (k < n || n == room)
                continue;
            for (k = n++; k > 0 && list[k - 1].id.seq > info.id.seq; k--)
                list[k] = list[k - 1];
            list[k] = info;
        }
    }
    return n;
}

static cairn_err map_arenas(struct dead_run *run, struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;

    rc = crn_fs_names(crn_fs_posix(), run->dir.dfd, run->dir.path, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    run->arenas = calloc(run->nlocal, sizeof(*run->arenas));
    if (run->arenas == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u arenas", run->nlocal);
    for (i = 0; rc == CAIRN_OK && i < names.n && run->narenas < run->nlocal; i++) {
        struct crn_errinfo ignored = {0};
        int fd;

        if (strncmp(names.name[i], "arena-", 6) != 0)
            continue;
        fd = openat(run->dir.dfd, names.name[i], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        /* An arena that was never finished holds nothing. */
        if (fd >= 0 &&
            crn_arena_map(fd, names.name[i], &run->arenas[run->narenas], &ignored) == CAIRN_OK)
            run->narenas++;
    }
    crn_names_free(&names);
    return rc;
}

/* A capture of a pinned version is kept until that is unpinned; the others do not wait for it. */
static cairn_err drain_unless_pinned(struct dead_run *run, const struct crn_slot_info *info,
                                     struct crn_errinfo *pinned, struct crn_errinfo *ei)
{
    cairn_err rc = drain_capture(run, info, ei);

    if (rc != CAIRN_EPINNED)
        return rc;
    crn_err_keep(pinned, ei);
    crn_err_clear(ei);
    return CAIRN_OK;
}

static cairn_err drain_run(struct dead_run *run, struct crn_errinfo *ei)
{
    size_t room = (size_t)CRN_ARENA_SLOTS * 4;
    struct crn_errinfo pinned = {0};
    struct crn_slot_info *list;
    cairn_err rc;
    size_t n, i;

    rc = map_arenas(run, ei);
    if (rc != CAIRN_OK)
        return rc;
    list = calloc(room, sizeof(*list));
    if (list == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a drain");
    n = list_captures(run, list, room);
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = drain_unless_pinned(run, &list[i], &pinned, ei);
    free(list);
    if (rc == CAIRN_OK && pinned.code != CAIRN_OK) {
        crn_err_keep(ei, &pinned);
        rc = pinned.code;
    }
    return rc;
}

/* Reads run.ini: the place in the job and the configuration. */
static cairn_err load_run(struct dead_run *run, struct crn_errinfo *ei)
{
    struct crn_run_place place;
    cairn_err rc;

    rc = crn_runfile_read(run->dir.dfd, &place, &run->cfg, ei);
    if (rc == CAIRN_OK && place.node != run->node)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "it is that of node %u", place.node);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "'%s/run.ini'", run->dir.path);
    run->ranks = place.ranks;
    run->nodes = place.nodes;
    run->nlocal = place.nlocal;
    return CAIRN_OK;
}

static void close_run(struct dead_run *run)
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

static int parse_run_name(const char *name, uint8_t id[16], uint32_t *node)
{
    unsigned byte;
    int end = 0;
    int i;

    for (i = 0; i < 16; i++) {
        if (sscanf(name + 2 * (size_t)i, "%2x", &byte) != 1)
            return 0;
        id[i] = (uint8_t)byte;
    }
    return sscanf(name + 32, "-n%u%n", node, &end) == 1 && name[32 + end] == '\0';
}

/* No lock: its service has not come that far, or died before. The time tells. */
static int is_stillborn(const struct dead_run *run)
{
    const struct crn_clock *clock = crn_clock_real();
    struct stat st;

    return fstat(run->dir.dfd, &st) == 0 &&
           clock->wall_ns(clock) / 1000000000 - st.st_mtime > BIRTH_S;
}

/* One entry of the shared-memory directory. */
static cairn_err drain_entry(const struct crn_fs *fs, const struct crn_config *cfg,
                             const char *name, int same_target, crn_drain_fn fn, void *arg,
                             struct crn_errinfo *ei)
{
    struct dead_run run = {.fs = fs, .fn = fn, .arg = arg};
    struct crn_errinfo why = {0};
    uint8_t id[16];
    cairn_err rc;
    int lock_fd = -1;

    if (strlen(name) < 35 || !parse_run_name(name, id, &run.node))
        return CAIRN_OK; /* not a run's */
    crn_run_hex(id, run.hex);
    crn_config_defaults(&run.cfg);
    memcpy(run.cfg.shm_dir, cfg->shm_dir, sizeof(run.cfg.shm_dir));
    if (crn_rundir_open(&run.cfg, id, run.node, 0, &run.dir, &why) != CAIRN_OK)
        goto out; /* gone meanwhile */
    if (crn_rundir_lock(run.dir.dfd, 0, &lock_fd, &why) != CAIRN_OK) {
        if (why.code == CAIRN_EBUSY)
            tell(&run, CRN_DRAIN_ALIVE, "", 0, 0, "");
        else if (is_stillborn(&run))
            crn_rundir_remove(&run.dir);
        goto out;
    }
    if (load_run(&run, &why) != CAIRN_OK) {
        tell(&run, CRN_DRAIN_FAILED, "", 0, 0, why.msg);
        goto out;
    }
    if (same_target && strcmp(run.cfg.persistent, cfg->persistent) != 0)
        goto out;
    /* Now that the configuration is known, with the right spool. */
    crn_rundir_close(&run.dir);
    rc = crn_rundir_open(&run.cfg, id, run.node, 1, &run.dir, &why);
    if (rc == CAIRN_OK)
        rc = drain_run(&run, &why);
    if (rc == CAIRN_OK)
        crn_rundir_remove(&run.dir);
    else
        crn_err_keep(ei, &why);
out:
    if (lock_fd >= 0)
        (void)close(lock_fd);
    close_run(&run);
    return CAIRN_OK;
}

struct hearer {
    crn_drain_fn fn;
    void *arg;
    int has_live; /* runs whose service is alive */
};

static void hear(void *arg, const struct crn_drain_event *ev)
{
    struct hearer *h = arg;

    h->has_live |= ev->what == CRN_DRAIN_ALIVE;
    if (h->fn != NULL)
        h->fn(h->arg, ev);
}

cairn_err crn_drain_host(const struct crn_fs *fs, const struct crn_config *cfg, int same_target,
                         crn_drain_fn fn, void *arg, struct crn_errinfo *ei)
{
    struct hearer h = {.fn = fn, .arg = arg};
    struct crn_names names = {0};
    struct crn_errinfo first = {0};
    char root[CRN_PATH_MAX];
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_shm_root(cfg, root, sizeof(root), ei);
    if (rc != CAIRN_OK)
        return rc;
    dfd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dfd < 0)
        return crn_fail_errno(ei, errno, "open '%s'", root);
    rc = crn_fs_names(crn_fs_posix(), dfd, root, &names, ei);
    (void)close(dfd);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        rc = drain_entry(fs, cfg, names.name[i], same_target, hear, &h, &first);
    crn_names_free(&names);
    if (rc == CAIRN_OK && cfg->local[0] != '\0')
        rc = crn_drain_local(fs, cfg, h.has_live, hear, &h, &first);
    /* A start looks at the names that the application asks for alone (client/restart.c). */
    if (rc == CAIRN_OK && !same_target)
        crn_drain_store(fs, cfg->persistent, hear, &h, &first);
    if (rc == CAIRN_OK && first.code != CAIRN_OK) {
        crn_err_keep(ei, &first);
        rc = first.code;
    }
    return rc;
}
