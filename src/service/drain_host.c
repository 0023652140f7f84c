/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the dead runs of this host, drains and removes them. The lock in the run's directory proves
 * death: its service had it locked while it lived. An error proves nothing: on any failure the run
 * stays, the failure is reported and returned, and a later drain retries. */
#include "service/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/drain_local.h"
#include "service/drain_run.h"
#include "service/drain_store.h"
#include "service/runfile.h"

#define BIRTH_S 60

const char *crn_drain_what_name(enum crn_drain_what what)
{
    static const char *const names[] = {"committed",  "waiting", "known",
                                        "incomplete", "failed",  "alive"};

    return names[what];
}

/* Reads run.ini: the place of this node in the job, and the configuration. */
static cairn_err load_run(struct crn_dead_run *run, struct crn_errinfo *ei)
{
    struct crn_run_place place;
    cairn_err rc;

    rc = crn_runfile_read(run->fs, run->dir.dfd, &place, &run->cfg, ei);
    if (rc == CAIRN_OK && place.node != run->node)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "it belongs to node %u", place.node);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "'%s/run.ini'", run->dir.path);
    run->ranks = place.ranks;
    run->nodes = place.nodes;
    run->nlocal = place.nlocal;
    return CAIRN_OK;
}

/* Is it a file that a service creates before the first arena? */
static int is_of_birth(const char *name)
{
    static const char *const names[] = {"lock", "sock", "run.ini"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return strncmp(name, ".run.ini.", 9) == 0;
}

/* Was nothing ever captured here? True if the directory is ours and contains only files that a
 * service creates at its start. */
static cairn_err is_stillborn(const struct crn_dead_run *run, const struct stat *st, int *ret,
                              struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;

    rc = crn_fs_names(run->fs, run->dir.dfd, run->dir.path, &names, ei);
    if (rc != CAIRN_OK)
        return rc;
    *ret = st->st_uid == geteuid();
    for (i = 0; i < names.n; i++)
        *ret &= is_of_birth(names.name[i]);
    crn_names_free(&names);
    return CAIRN_OK;
}

/* There is no lock or no run.ini: the service is still starting, or died before creating it.
 * Without the lock, the age of the directory decides. why says what is missing. */
static cairn_err drain_stillborn(struct crn_dead_run *run, int has_lock,
                                 const struct crn_errinfo *why, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    const struct crn_fs *fs = run->fs;
    struct stat st;
    int is_empty = 0;
    cairn_err rc;

    rc = crn_fs_check(fs->fstat(fs, run->dir.dfd, &st), ei, "stat '%s'", run->dir.path);
    if (rc == CAIRN_OK && !has_lock && clock->wall_ns(clock) / 1000000000 - st.st_mtime <= BIRTH_S)
        return CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = is_stillborn(run, &st, &is_empty, ei);
    if (rc == CAIRN_OK && !is_empty) {
        crn_err_keep(ei, why);
        rc = why->code;
    }
    return rc == CAIRN_OK ? crn_rundir_remove(&run->dir, ei) : rc;
}

/* Drains a run whose lock this process has taken, so it is dead. */
static cairn_err drain_dead(struct crn_dead_run *run, const struct crn_config *cfg,
                            const uint8_t id[16], int same_target, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    rc = load_run(run, &why);
    if (rc == CAIRN_ENOENT)
        return drain_stillborn(run, 1, &why, ei);
    crn_err_keep(ei, &why);
    if (rc != CAIRN_OK || (same_target && strcmp(run->cfg.persistent, cfg->persistent) != 0))
        return rc;
    /* The configuration is known now: reopen with the right spool. */
    crn_rundir_close(&run->dir);
    rc = crn_rundir_open(run->fs, &run->cfg, id, run->node, 1, &run->dir, ei);
    if (rc == CAIRN_OK)
        rc = crn_dead_run_drain(run, ei);
    if (rc == CAIRN_OK)
        rc = crn_rundir_remove(&run->dir, ei);
    if (rc == CAIRN_OK && run->lost.code != CAIRN_OK) {
        crn_err_keep(ei, &run->lost);
        rc = run->lost.code;
    }
    return rc;
}

static cairn_err drain_dir(struct crn_dead_run *run, const struct crn_config *cfg,
                           const uint8_t id[16], int same_target, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    int lock_fd = -1;
    cairn_err rc;

    rc = crn_rundir_open(run->fs, &run->cfg, id, run->node, 0, &run->dir, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK; /* removed in the meantime */
    if (rc == CAIRN_OK)
        rc = crn_rundir_lock(&run->dir, &lock_fd, &why);
    if (rc == CAIRN_OK) {
        rc = drain_dead(run, cfg, id, same_target, ei);
        (void)run->fs->close(run->fs, lock_fd);
    } else if (rc == CAIRN_EBUSY) {
        crn_dead_run_tell(run, CRN_DRAIN_ALIVE, "", 0, 0, "");
        rc = CAIRN_OK;
    } else if (rc == CAIRN_ENOENT) {
        rc = drain_stillborn(run, 0, &why, ei);
    } else {
        crn_err_keep(ei, &why);
    }
    return rc;
}

/* Finishes an interrupted removal. If its run.ini is gone, the spool is gone already. */
static cairn_err drain_gone(struct crn_dead_run *run, int dfd, const char *name,
                            const uint8_t id[16], struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_run_place place;
    cairn_err rc;
    int fd;

    fd = run->fs->openat(run->fs, dfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd == -ENOENT)
        return CAIRN_OK;
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", name);
    rc = crn_runfile_read(run->fs, fd, &place, &run->cfg, &why);
    (void)run->fs->close(run->fs, fd);
    if (rc != CAIRN_OK && rc != CAIRN_ENOENT) {
        crn_err_keep(ei, &why);
        return crn_err_context(ei, rc, "'%s/%s'", run->cfg.shm_dir, name);
    }
    rc = crn_rundir_paths(run->fs, &run->cfg, id, run->node, &run->dir, ei);
    return rc == CAIRN_OK ? crn_rundir_finish(&run->dir, ei) : rc;
}

/* Handles one entry of the shared-memory directory dfd. Keeps the first failure in first. */
static void drain_entry(struct crn_dead_run *run, const struct crn_config *cfg, int dfd,
                        const char *name, int same_target, struct crn_errinfo *first)
{
    struct crn_errinfo why = {0};
    int is_gone = 0;
    uint8_t id[16];
    cairn_err rc;

    if (!crn_rundir_parse(name, id, &run->node, &is_gone))
        return; /* not a run's */
    crn_run_hex(id, run->hex);
    run->dir.dfd = run->dir.spool_dfd = -1;
    crn_config_defaults(&run->cfg);
    memcpy(run->cfg.shm_dir, cfg->shm_dir, sizeof(run->cfg.shm_dir));
    if (is_gone)
        rc = drain_gone(run, dfd, name, id, &why);
    else
        rc = drain_dir(run, cfg, id, same_target, &why);
    if (rc != CAIRN_OK && !run->has_told)
        crn_dead_run_tell(run, CRN_DRAIN_FAILED, "", 0, 0, why.msg);
    if (rc != CAIRN_OK)
        crn_err_keep(first, &why);
    crn_dead_run_close(run);
}

struct hearer {
    crn_drain_fn fn;
    void *arg;
    int has_live; /* some run's service is alive */
};

static void drain_host_hear(void *arg, const struct crn_drain_event *ev)
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

    rc = crn_rundir_shm_root(fs, cfg, root, sizeof(root), ei);
    if (rc != CAIRN_OK)
        return rc;
    dfd = fs->openat(fs, AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dfd < 0)
        return crn_fail_errno(ei, -dfd, "open '%s'", root);
    rc = crn_fs_names(fs, dfd, root, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
        struct crn_dead_run run = {.fs = fs, .fn = drain_host_hear, .arg = &h};

        drain_entry(&run, cfg, dfd, names.name[i], same_target, &first);
    }
    (void)fs->close(fs, dfd);
    crn_names_free(&names);
    if (rc == CAIRN_OK && cfg->local[0] != '\0')
        crn_drain_local(fs, cfg, h.has_live, drain_host_hear, &h, &first);
    /* A starting application drains only the names it asks for (client/restart.c). */
    if (rc == CAIRN_OK && !same_target)
        crn_drain_store(fs, cfg->persistent, drain_host_hear, &h, &first);
    if (rc == CAIRN_OK && first.code != CAIRN_OK) {
        crn_err_keep(ei, &first);
        rc = first.code;
    }
    return rc;
}
