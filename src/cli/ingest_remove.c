/* SPDX-License-Identifier: BSD-3-Clause */
/* Removes files whose bytes the store has. Before the first file of a set is removed, all are
 * compared with the committed version, byte by byte. Then each is removed if it is still the
 * compared file and no process of this host has it open for writing. */
#include "cli/cli.h"
#include "cli/ingest_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define SECOND INT64_C(1000000000)
#define TICK_NS                                                                                    \
    (20 * INT64_C(1000000)) /* longer than the time stamp granularity of a local file system */

/* A write within the clock tick of the last one leaves the same time stamp. Waits until the tick
 * is over, so that a change after the comparison is visible. A stamp without a fraction may have
 * a granularity of seconds. */
static void wait_for_tick(const struct stat *st)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t tick = st->st_ctim.tv_nsec == 0 ? SECOND : TICK_NS;
    int64_t age = clock->wall_ns(clock) - st->st_ctim.tv_sec * SECOND - st->st_ctim.tv_nsec;
    int64_t left = age < 0 ? tick : tick - age;
    struct timespec pause = {.tv_sec = left / SECOND, .tv_nsec = left % SECOND};

    if (left > 0)
        (void)nanosleep(&pause, NULL);
}

/* Does the version have the file as it was read? CAIRN_EBUSY: the file has changed. */
static cairn_err compare_file(const struct cli_ingest *g, struct crn_version *v,
                              const struct cli_file *f, int *ret_is_held, struct crn_errinfo *ei)
{
    struct cli_file now = *f; /* its st is that of the compared file */
    cairn_err rc;

    rc = crn_load_check_file(g, f, ei);
    if (rc != CAIRN_OK)
        return rc;
    wait_for_tick(&f->st);
    rc = crn_ingest_holds(g, v, &now, ret_is_held, ei);
    if (rc == CAIRN_OK && *ret_is_held && !crn_load_is_same(&now.st, &f->st))
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' has changed since it was read", f->path);
    return rc;
}

/* Removes a compared file. Under the lease no process of this host can open the file for writing
 * unnoticed. */
static cairn_err remove_file(const struct cli_ingest *g, const struct cli_file *f,
                             struct crn_errinfo *ei)
{
    int fd =
        g->fs->openat(g->fs, AT_FDCWD, f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    cairn_err rc = crn_fs_check(fd, ei, "open '%s'", f->path);
    int has_lease;

    if (rc != CAIRN_OK)
        return rc;
    has_lease = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
    if (!has_lease && errno == EAGAIN)
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is open for writing again", f->path);
    if (rc == CAIRN_OK)
        rc = crn_load_check_file(g, f, ei);
    if (rc == CAIRN_OK && has_lease && fcntl(fd, F_GETLEASE) != F_RDLCK)
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is being opened for writing", f->path);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(g->fs->unlinkat(g->fs, AT_FDCWD, f->path, 0), ei, "remove '%s'", f->path);
    (void)g->fs->close(g->fs, fd); /* also releases the lease */
    return rc;
}

cairn_err crn_ingest_remove(struct cli_ingest *g, const struct cli_set *set, int64_t version,
                            struct crn_errinfo *ei)
{
    struct crn_version *v;
    cairn_err rc;
    int is_held;
    size_t i;

    rc = crn_version_open(&g->store, g->name, version, &v, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_version_keep(v, CLI_KEPT_CHUNKS, ei);
    for (i = 0; rc == CAIRN_OK && i < set->n; i++) {
        rc = compare_file(g, v, &set->file[i], &is_held, ei);
        if (rc == CAIRN_OK && !is_held)
            rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is not what the version holds",
                          set->file[i].path);
    }
    crn_version_close(v);
    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        rc = remove_file(g, &set->file[i], ei);
    return rc;
}

cairn_err crn_ingest_remove_rest(struct cli_ingest *g, struct cli_set *set, int64_t version,
                                 size_t *ret_n, struct crn_errinfo *ei)
{
    struct crn_version *v;
    cairn_err rc;
    int is_held;
    size_t i;

    *ret_n = 0;
    rc = crn_version_open(&g->store, g->name, version, &v, NULL);
    if (rc != CAIRN_OK) /* not committed: nothing to remove */
        return CAIRN_OK;
    rc = crn_ingest_make_durable(g, version, ei);
    for (i = 0; rc == CAIRN_OK && i < set->n; i++) {
        rc = compare_file(g, v, &set->file[i], &is_held, ei);
        if (rc == CAIRN_OK && is_held)
            rc = remove_file(g, &set->file[i], ei);
        *ret_n += rc == CAIRN_OK && is_held;
    }
    crn_version_close(v);
    return rc;
}
