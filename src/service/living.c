/* SPDX-License-Identifier: BSD-3-Clause */
/* A restarted cairnd finds the runs of its node: their directories name its socket (runfile.h), and
 * the lock of a rank proves that the run lives. It opens their jobs again (takeover.c) without
 * waiting for a rank. What it cannot open waits for the HELLO of a rank, as do the runs of a service
 * of an earlier release. Dead runs are for the drain. On the loop thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/job.h"

/* The place of this node in the job, and the configuration, as a rank would introduce them. */
static cairn_err living_introduce(const uint8_t id[16], const struct crn_run_place *place,
                                  const struct crn_config *cfg, struct crn_hello *ret,
                                  struct crn_errinfo *ei)
{
    size_t len = 0;
    FILE *f;

    memcpy(ret->run, id, sizeof(ret->run));
    ret->ranks = place->ranks;
    ret->node = place->node;
    ret->nodes = place->nodes;
    ret->nlocal = place->nlocal;
    ret->is_rejoin = 1;
    ret->nmembers = place->nmembers;
    memcpy(ret->member, place->member, sizeof(ret->member));
    ret->peers = calloc(place->nodes, sizeof(*ret->peers));
    f = open_memstream(&ret->config, &len);
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    (void)crn_config_dump(cfg, f);
    if (fclose(f) != 0 || ret->peers == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    return CAIRN_OK;
}

static cairn_err open_job(struct crn_service *svc, const uint8_t id[16],
                          const struct crn_run_place *place, const struct crn_config *cfg,
                          struct crn_errinfo *ei)
{
    struct crn_hello h = {0};
    struct crn_job *job;
    cairn_err rc;

    rc = living_introduce(id, place, cfg, &h, ei);
    if (rc == CAIRN_OK)
        rc = crn_job_open(svc, &h, &job, ei);
    crn_hello_free(&h);
    if (rc != CAIRN_OK)
        return rc;
    job->next = svc->jobs;
    svc->jobs = job;
    crn_takeover_found(job);
    crn_job_tick(job, crn_clock_real()->mono_ns(crn_clock_real()));
    return CAIRN_OK;
}

/* cfg: what is needed to open the directory; run.ini adds the rest. */
static cairn_err find_run(struct crn_service *svc, const uint8_t id[16], uint32_t node,
                          struct crn_config *cfg, struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_run_place place;
    struct crn_rundir dir;
    int is_living;
    cairn_err rc;

    if (crn_rundir_open(crn_fs_posix(), cfg, id, node, 0, &dir, &ignored) != CAIRN_OK)
        return CAIRN_OK; /* it is being removed */
    is_living = crn_rundir_has_living(&dir);
    rc = is_living ? crn_runfile_read(dir.fs, dir.dfd, &place, cfg, ei) : CAIRN_OK;
    crn_rundir_close(&dir);
    if (rc != CAIRN_OK || !is_living || place.node != node ||
        strcmp(place.socket, svc->socket_path) != 0)
        return rc;
    return open_job(svc, id, &place, cfg, ei);
}

static void find_entry(struct crn_service *svc, const char *name)
{
    struct crn_errinfo why = {0};
    struct crn_config cfg;
    int is_gone = 0;
    uint32_t node;
    uint8_t id[16];
    cairn_err rc;

    if (!crn_rundir_parse(name, id, &node, &is_gone) || is_gone || crn_service_job(svc, id) != NULL)
        return;
    crn_config_defaults(&cfg);
    memcpy(cfg.shm_dir, svc->cfg->shm_dir, sizeof(cfg.shm_dir));
    rc = find_run(svc, id, node, &cfg, &why);
    crn_config_fini(&cfg);
    svc->has_unfound |= rc == CAIRN_EBUSY; /* the dead service is still ending */
    if (rc != CAIRN_OK)
        crn_log(&svc->log, rc == CAIRN_EBUSY ? CRN_DEBUG : CRN_WARN,
                "the living run %.8s waits for a call of its ranks: %s", name, why.msg);
}

void crn_living_find(struct crn_service *svc)
{
    const struct crn_fs *fs = crn_fs_posix();
    struct crn_errinfo why = {0};
    struct crn_names names = {0};
    char root[CRN_PATH_MAX];
    cairn_err rc;
    size_t i;
    int dfd;

    svc->has_unfound = 0;
    rc = crn_rundir_shm_root(fs, svc->cfg, root, sizeof(root), &why);
    if (rc != CAIRN_OK) {
        crn_log(&svc->log, CRN_WARN, "no look for living runs, continuing: %s", why.msg);
        return;
    }
    dfd = fs->openat(fs, AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dfd < 0)
        rc = crn_fail_errno(&why, -dfd, "open '%s'", root);
    else
        rc = crn_fs_names(fs, dfd, root, &names, &why);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        find_entry(svc, names.name[i]);
    if (rc != CAIRN_OK)
        crn_log(&svc->log, CRN_WARN, "no look for living runs, continuing: %s", why.msg);
    crn_names_free(&names);
    if (dfd >= 0)
        (void)fs->close(fs, dfd);
}
