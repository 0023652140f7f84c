/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds captures that a restart would miss. A start drains first, so if a dead run still has a
 * directory, its drain failed. A capture counts if it is whole on this node and all nodes had taken
 * it: one that some node never captured was never promised to anybody. */
#include "service/unsaved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/drain_local.h"
#include "service/rundir.h"
#include "service/runfile.h"
#include "tier/arena.h"

/* A run other than ours. */
struct other_run {
    const struct crn_unsaved_query *q;
    struct crn_unsaveds *out;
    struct crn_config cfg;
    struct crn_run_place place;
    struct crn_rundir dir;
    struct crn_arena **arenas;
    uint32_t narenas;
    int is_alive;
    char hex[CRN_RUN_HEX];
};

static cairn_err unsaved_add(struct crn_unsaveds *out, const struct crn_unsaved *u,
                             struct crn_errinfo *ei)
{
    struct crn_unsaved *grown = realloc(out->v, (out->n + 1) * sizeof(*grown));

    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of checkpoints");
    out->v = grown;
    grown[out->n++] = *u;
    return CAIRN_OK;
}

void crn_unsaveds_free(struct crn_unsaveds *u)
{
    free(u->v);
    memset(u, 0, sizeof(*u));
}

/* A shortage of this process says nothing about the run; any other error makes the run unknown. */
static cairn_err add_unknown(const struct other_run *r, const struct crn_errinfo *why,
                             struct crn_errinfo *ei)
{
    struct crn_unsaved u = {.version = r->q->last, .created_ns = UINT64_MAX, .is_unknown = 1};

    if (crn_err_is_shortage(why->code)) {
        crn_err_keep(ei, why);
        return why->code;
    }
    (void)snprintf(u.where, sizeof(u.where), "run %.8s in '%.100s' cannot be looked at: %.120s",
                   r->hex, r->dir.path, why->msg);
    return unsaved_add(r->out, &u, ei);
}

/* One run. ------------------------------------------------------------------------------------- */

static cairn_err map_arena(struct other_run *r, const char *name, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = r->q->fs;
    struct crn_errinfo why = {0};
    cairn_err rc;
    int fd;

    fd = fs->openat(fs, r->dir.dfd, name, O_RDWR | O_NOFOLLOW, 0);
    if (fd == -ENOENT)
        return CAIRN_OK; /* the run has just ended */
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s'", r->dir.path, name);
    rc = crn_arena_map(fs, fd, name, &r->arenas[r->narenas], &why);
    if (rc == CAIRN_OK)
        r->narenas++;
    if (rc == CAIRN_OK || rc == CAIRN_ENOENT)
        return CAIRN_OK;
    crn_err_keep(ei, &why);
    return rc;
}

static cairn_err map_arenas(struct other_run *r, struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;

    r->arenas = calloc(r->place.nlocal, sizeof(*r->arenas));
    if (r->arenas == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u arenas", r->place.nlocal);
    rc = crn_fs_names(r->q->fs, r->dir.dfd, r->dir.path, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n && r->narenas < r->place.nlocal; i++)
        if (strncmp(names.name[i], "arena-", 6) == 0)
            rc = map_arena(r, names.name[i], ei);
    crn_names_free(&names);
    return rc;
}

/* Do all ranks of the node have it, and does the node's service know that all nodes do? */
static int is_promised(const struct other_run *r, uint64_t seq)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    int is_promised = r->place.nodes == 1;
    uint32_t i, s;

    if (r->narenas != r->place.nlocal)
        return 0;
    for (i = 0; i < r->narenas; i++) {
        for (s = 0; s < crn_arena_slots(r->arenas[i]); s++) {
            enum crn_slot_state state = crn_slot_state_of(r->arenas[i], s, seq);

            if (state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING ||
                crn_slot_is_flushed(state) || crn_slot_has_failed(state))
                break;
        }
        if (s == crn_arena_slots(r->arenas[i]))
            return 0;
        if (crn_slot_info(r->arenas[i], s, &info, &ignored) == CAIRN_OK)
            is_promised |= (int)info.is_promised;
    }
    return is_promised;
}

static int unsaved_has(const struct crn_unsaveds *out, const struct crn_capture_id *id)
{
    size_t i;

    for (i = 0; i < out->n; i++)
        if (crn_capture_id_equal(&out->v[i].id, id))
            return 1;
    return 0;
}

static cairn_err look_at_slot(struct other_run *r, const struct crn_slot_info *info,
                              enum crn_slot_state state, struct crn_errinfo *ei)
{
    const struct crn_unsaved_query *q = r->q;
    struct crn_drain_capture c = {info->name, info->version, &info->id, info->created_ns, NULL};
    struct crn_unsaved u = {.version = info->version,
                            .id = info->id,
                            .created_ns = info->created_ns,
                            .is_alive = r->is_alive && state != CRN_SLOT_KEPT};
    int is_known = 0;
    cairn_err rc = CAIRN_OK;

    if (strcmp(info->name, q->name) != 0 || info->version < q->first || info->version > q->last ||
        unsaved_has(r->out, &info->id) || !is_promised(r, info->id.seq))
        return CAIRN_OK;
    if (q->st != NULL)
        rc = crn_drain_is_known(q->st, &c, &is_known, ei);
    if (rc != CAIRN_OK || is_known)
        return rc;
    (void)snprintf(u.where, sizeof(u.where), "it is in the memory of %s run %.8s ('%.150s')",
                   r->is_alive ? "the living" : "the dead", r->hex, r->dir.path);
    return unsaved_add(r->out, &u, ei);
}

static cairn_err look_at_arenas(struct other_run *r, struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    cairn_err rc = CAIRN_OK;
    uint32_t i, s;

    for (i = 0; i < r->narenas; i++)
        for (s = 0; rc == CAIRN_OK && s < crn_arena_slots(r->arenas[i]); s++) {
            enum crn_slot_state state = crn_slot_state(r->arenas[i], s);

            if ((state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING ||
                 state == CRN_SLOT_KEPT) &&
                crn_slot_info(r->arenas[i], s, &info, &ignored) == CAIRN_OK)
                rc = look_at_slot(r, &info, state, ei);
        }
    return rc;
}

/* CAIRN_ENOENT: the run is starting or ending, and has nothing. */
static cairn_err look_inside(struct other_run *r, const uint8_t id[16], uint32_t node,
                             struct crn_errinfo *ei)
{
    int lock_fd = -1;
    cairn_err rc;

    rc = crn_rundir_open(r->q->fs, &r->cfg, id, node, 0, &r->dir, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_rundir_lock(&r->dir, &lock_fd, ei);
    r->is_alive = rc == CAIRN_EBUSY;
    if (rc != CAIRN_OK && rc != CAIRN_EBUSY)
        return rc;
    if (lock_fd >= 0)
        (void)r->q->fs->close(r->q->fs, lock_fd);
    crn_err_clear(ei);
    rc = crn_runfile_read(r->q->fs, r->dir.dfd, &r->place, &r->cfg, ei);
    if (rc != CAIRN_OK || strcmp(r->cfg.persistent, r->q->cfg->persistent) != 0)
        return rc;
    rc = map_arenas(r, ei);
    return rc == CAIRN_OK ? look_at_arenas(r, ei) : rc;
}

static cairn_err look_at_run(const struct crn_unsaved_query *q, const char *entry,
                             struct crn_unsaveds *out, struct crn_errinfo *ei)
{
    struct other_run r = {.q = q, .out = out, .dir = {.dfd = -1, .spool_dfd = -1}};
    struct crn_errinfo why = {0};
    uint32_t node, i;
    int is_gone = 0;
    uint8_t id[16];
    cairn_err rc;

    if (!crn_rundir_parse(entry, id, &node, &is_gone) || is_gone ||
        memcmp(id, q->own_run, sizeof(id)) == 0)
        return CAIRN_OK;
    crn_run_hex(id, r.hex);
    crn_config_defaults(&r.cfg);
    memcpy(r.cfg.shm_dir, q->cfg->shm_dir, sizeof(r.cfg.shm_dir));
    rc = look_inside(&r, id, node, &why);
    if (rc == CAIRN_ENOENT)
        rc = CAIRN_OK;
    else if (rc != CAIRN_OK)
        rc = add_unknown(&r, &why, ei);
    for (i = 0; i < r.narenas; i++)
        crn_arena_close(r.arenas[i]);
    free(r.arenas);
    crn_rundir_close(&r.dir);
    crn_config_fini(&r.cfg);
    return rc;
}

cairn_err crn_unsaved_host(const struct crn_unsaved_query *q, struct crn_unsaveds *ret,
                           struct crn_errinfo *ei)
{
    struct crn_unsaveds out = {0};
    struct crn_names names = {0};
    char root[CRN_PATH_MAX];
    cairn_err rc;
    size_t i;
    int dfd;

    rc = crn_rundir_shm_root(q->fs, q->cfg, root, sizeof(root), ei);
    if (rc != CAIRN_OK)
        return rc;
    dfd = q->fs->openat(q->fs, AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dfd < 0)
        return crn_fail_errno(ei, -dfd, "open '%s'", root);
    rc = crn_fs_names(q->fs, dfd, root, &names, ei);
    (void)q->fs->close(q->fs, dfd);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        rc = look_at_run(q, names.name[i], &out, ei);
    crn_names_free(&names);
    if (rc != CAIRN_OK) {
        crn_unsaveds_free(&out);
        return rc;
    }
    *ret = out;
    return CAIRN_OK;
}

/* The store. ----------------------------------------------------------------------------------- */

cairn_err crn_unsaved_store(const struct crn_unsaved_query *q, struct crn_unsaveds *ret,
                            struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_lefts left = {0};
    char hex[CRN_RUN_HEX];
    cairn_err rc;
    size_t i;

    rc = crn_store_left(q->st, q->name, &left, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    for (i = 0; rc == CAIRN_OK && i < left.n; i++) {
        const struct crn_left *l = &left.v[i];
        struct crn_unsaved u = {.version = l->version, .id = l->id, .created_ns = l->created_ns};

        if (l->is_superseded || !l->is_promised || l->version < q->first || l->version > q->last ||
            memcmp(l->id.run, q->own_run, sizeof(l->id.run)) == 0)
            continue;
        crn_run_hex(l->id.run, hex);
        if (l->have == l->files)
            (void)snprintf(u.where, sizeof(u.where),
                           "its data files are in '%.150s' but cannot be published", q->st->path);
        else
            (void)snprintf(u.where, sizeof(u.where),
                           "%u of its %u data files are in '%.150s', the others on nodes that run "
                           "%.8s used",
                           l->have, l->files, q->st->path, hex);
        rc = unsaved_add(ret, &u, ei);
    }
    crn_lefts_free(&left);
    return rc;
}
