/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns files into a version: opens them, decides whether the store has them already, waits for the
 * turn, writes. */
#include "cli/ingest_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "broker/kept.h"

#define SWEEP_AGE_NS (24 * 3600 * 1000000000LL)

size_t crn_ingest_raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;

        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    return limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
}

cairn_err crn_ingest_open(const struct crn_config *cfg, const char *name, const char *hdf5,
                          struct cli_ingest *ret, struct crn_errinfo *ei)
{
    struct cli_ingest g = {.cfg = cfg, .fs = crn_fs_default(), .hdf5 = hdf5};
    cairn_err rc;

    rc = crn_check_name("checkpoint name", name, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(g.name, name, strlen(name) + 1);
    g.is_encoding = crn_config_name(cfg, name)->encode != CRN_ENCODE_NONE;
    crn_random_bytes(g.id.run, sizeof(g.id.run));
    crn_log_init(&g.log, cfg, g.id.run, "ingest", -1);
    (void)signal(SIGIO, SIG_IGN);   /* sent if a conflicting open breaks our probing lease */
    (void)crn_ingest_raise_files(); /* all files of a set are open at once */
    rc = crn_store_open(g.fs, cfg->persistent, 1, &g.store, ei);
    if (rc == CAIRN_OK)
        *ret = g;
    return rc;
}

void crn_ingest_close(struct cli_ingest *g)
{
    crn_ingest_close_engines(g);
    crn_store_close(&g->store);
}

/* Waits for the broker's grant first. */
static cairn_err write_in_turn(struct cli_ingest *g, struct cli_set *set, int64_t version,
                               struct cli_load *l, struct cli_ingested *ret, struct crn_errinfo *ei)
{
    struct crn_kept_options options = {.cfg = g->cfg,
                                       .job = g->cfg->job[0] != '\0' ? g->cfg->job : g->name,
                                       .nodes = 1,
                                       .kind = CRN_IO_CHECKPOINT,
                                       .bytes = l->bytes,
                                       .log = &g->log,
                                       .is_over = g->is_over};
    struct crn_kept_turn *turn;
    cairn_err rc;

    rc = crn_kept_turn_begin(&options, &turn, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_ingest_write(g, set, version, l, ret, ei);
    crn_kept_turn_end(turn);
    return rc;
}

static cairn_err lock_name(struct cli_ingest *g, int *ret_fd, struct crn_errinfo *ei)
{
    struct crn_sweep_result swept;
    char who[128], host[65] = "";
    cairn_err rc;

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(who, sizeof(who), "cairn ingest, host %s, process %d", host, (int)getpid());
    rc = crn_store_lock_name(&g->store, g->name, who, ret_fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_raise_generation(&g->store, g->name, &g->id.generation, ei);
    if (rc != CAIRN_OK && *ret_fd >= 0)
        (void)g->fs->close(g->fs, *ret_fd);
    /* This process owns the name now. Remove what a killed run left incomplete; a failure to do
     * so is harmless. */
    if (rc == CAIRN_OK && crn_store_sweep(&g->store, g->name, *ret_fd, SWEEP_AGE_NS, 0, 0,
                                          crn_clock_real(), &swept, NULL) != CAIRN_OK)
        swept.files = 0;
    return rc;
}

cairn_err crn_ingest_make_durable(const struct cli_ingest *g, int64_t version,
                                  struct crn_errinfo *ei)
{
    cairn_err rc;
    int dfd;

    rc = crn_store_version_dir(&g->store, g->name, version, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_check(g->fs->fsync(g->fs, dfd), ei, "fsync of the directory");
    (void)g->fs->close(g->fs, dfd);
    return rc;
}

/* Replaces CLI_VERSION_NEXT and CLI_VERSION_FIND by a version. */
static cairn_err find_version(const struct cli_ingest *g, const struct cli_load *l, int compare,
                              int64_t *ret, struct crn_errinfo *ei)
{
    int is_next = *ret == CLI_VERSION_NEXT;
    struct crn_catalog c;
    cairn_err rc;
    size_t i;

    *ret = 0;
    rc = crn_store_catalog(&g->store, g->name, &c, ei);
    if (rc == CAIRN_ENOENT) {
        crn_err_clear(ei);
        return CAIRN_OK;
    }
    if (rc != CAIRN_OK)
        return rc;
    if (c.n > 0)
        *ret = c.v[c.n - 1].version + 1;
    for (i = is_next ? 0 : c.n; i > 0; i--)
        if (c.v[i - 1].state == CRN_VERSION_OK &&
            crn_ingest_look(g, c.v[i - 1].version, l, compare) == THERE_SAME) {
            *ret = c.v[i - 1].version;
            break;
        }
    crn_catalog_free(&c);
    return CAIRN_OK;
}

static cairn_err ingest_take(struct cli_ingest *g, struct cli_set *set, int64_t version,
                             enum cli_replace replace, int compare, struct cli_load *l,
                             struct cli_ingested *ret, struct crn_errinfo *ei)
{
    enum cli_there there = crn_ingest_look(g, version, l, compare);
    cairn_err rc;

    ret->bytes = l->bytes;
    ret->version = version;
    ret->was_there = there == THERE_SAME;
    if (ret->was_there)
        return crn_ingest_make_durable(g, version, ei);
    if (there == THERE_FOREIGN && replace != CLI_REPLACE_ANY)
        return crn_fail(ei, CAIRN_EBUSY, 0,
                        "there is a version of this number that was not made from files");
    if (there == THERE_OTHER && replace == CLI_REPLACE_NEVER)
        return crn_fail(ei, CAIRN_EBUSY, 0, "there is a version of this number with other files");
    rc = crn_store_check_pin(&g->store, g->name, version, NULL, ei);
    return rc == CAIRN_OK ? write_in_turn(g, set, version, l, ret, ei) : rc;
}

cairn_err crn_ingest_set(struct cli_ingest *g, struct cli_set *set, int64_t version,
                         enum cli_replace replace, int compare, struct cli_ingested *ret,
                         struct crn_errinfo *ei)
{
    struct cli_ingested result = {0};
    struct cli_load l = {0};
    cairn_err rc;
    int lock;

    rc = crn_load_open(g, set, &l, ei);
    if (rc == CAIRN_OK)
        rc = lock_name(g, &lock, ei);
    if (rc == CAIRN_OK) {
        if (version < 0)
            rc = find_version(g, &l, compare, &version, ei);
        if (rc == CAIRN_OK)
            rc = ingest_take(g, set, version, replace, compare, &l, &result, ei);
        if (lock >= 0)
            (void)g->fs->close(g->fs, lock);
    }
    crn_load_close(g, &l);
    if (rc == CAIRN_OK)
        *ret = result;
    return version < 0 ? crn_err_context(ei, rc, "%s", g->name)
                       : crn_err_context(ei, rc, "%s@%" PRId64, g->name, version);
}
