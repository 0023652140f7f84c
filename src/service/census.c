/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what the runs of a node keep in shared memory. Every byte may belong to another user or
 * another release: it is bounded and checked, and what cannot be read is said in the run's error. */
#include "service/census.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/rundir.h"

/* Items. --------------------------------------------------------------------------------------- */

static struct crn_census_item *item_of(struct crn_census_run *r, const struct crn_slot_info *info)
{
    struct crn_census_item *grown;
    size_t i, k;

    for (i = 0; i < r->nitems; i++) {
        k = (r->next + i) % r->nitems; /* arenas of one run have their slots in similar order */
        if (r->item[k].seq == info->id.seq && r->item[k].version == info->version &&
            strcmp(r->item[k].name, info->name) == 0) {
            r->next = k + 1;
            return &r->item[k];
        }
    }
    grown = realloc(r->item, (r->nitems + 1) * sizeof(*grown));
    if (grown == NULL)
        return NULL;
    r->item = grown;
    grown += r->nitems++;
    memset(grown, 0, sizeof(*grown));
    memcpy(grown->name, info->name, sizeof(grown->name));
    grown->version = info->version;
    grown->seq = info->id.seq;
    grown->created_ns = info->created_ns;
    return grown;
}

static int is_evictable(enum crn_slot_state state)
{
    return state == CRN_SLOT_FLUSHED || state == CRN_SLOT_FAILED || state == CRN_SLOT_READ;
}

static void on_slot(void *arg, enum crn_slot_state state, const struct crn_slot_info *info)
{
    struct crn_census_run *r = arg;
    struct crn_census_item *item;

    if (state >= CRN_SLOT_STATES)
        return;
    item = item_of(r, info);
    if (item == NULL)
        return;
    item->ranks[state]++;
    item->bytes += info->image_bytes;
    if (info->created_ns < item->created_ns)
        item->created_ns = info->created_ns;
    if (!is_evictable(state))
        r->in_use_bytes += info->bytes;
}

uint32_t crn_census_ranks(const struct crn_census_item *item)
{
    uint32_t n = 0;
    size_t i;

    for (i = 0; i < CRN_SLOT_STATES; i++)
        n += item->ranks[i];
    return n;
}

/* The checkpoint is where its last rank is. */
const char *crn_census_state(const struct crn_census_item *item)
{
    static const struct {
        enum crn_slot_state state;
        const char *text;
    } order[] = {
        {CRN_SLOT_KEPT, "kept"},          {CRN_SLOT_FAILED, "failed"},
        {CRN_SLOT_WRITING, "capturing"},  {CRN_SLOT_FLUSHING, "flushing"},
        {CRN_SLOT_WRITTEN, "captured"},   {CRN_SLOT_LENT, "persistent"},
        {CRN_SLOT_FLUSHED, "persistent"}, {CRN_SLOT_READING, "reading"},
        {CRN_SLOT_READ, "restored"},
    };
    size_t i;

    for (i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (item->ranks[order[i].state] > 0)
            return order[i].text;
    return "?";
}

static int is_newer(const void *a, const void *b)
{
    const struct crn_census_item *x = a, *y = b;

    if (x->seq != y->seq)
        return x->seq < y->seq ? 1 : -1;
    return (x->version < y->version) - (x->version > y->version);
}

/* Runs. ---------------------------------------------------------------------------------------- */

/* Without waiting for a writer, should a hostile user have put a FIFO there. */
static cairn_err open_plain(const struct crn_fs *fs, int dfd, const char *name, int *ret_fd,
                            struct stat *st, struct crn_errinfo *ei)
{
    int fd = fs->openat(fs, dfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    cairn_err rc;

    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", name);
    rc = crn_fs_check(fs->fstat(fs, fd, st), ei, "stat '%s'", name);
    if (rc == CAIRN_OK && !S_ISREG(st->st_mode))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is not a file", name);
    if (rc != CAIRN_OK) {
        (void)fs->close(fs, fd);
        return rc;
    }
    *ret_fd = fd;
    return CAIRN_OK;
}

static cairn_err read_place(const struct crn_fs *fs, int dfd, struct crn_census_run *r,
                            struct crn_errinfo *ei)
{
    struct crn_config cfg;
    struct stat st;
    cairn_err rc;
    int fd;

    rc = open_plain(fs, dfd, "run.ini", &fd, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)fs->close(fs, fd);
    r->since_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    crn_config_defaults(&cfg);
    rc = crn_runfile_read(fs, dfd, &r->place, &cfg, ei);
    if (rc == CAIRN_OK) {
        (void)snprintf(r->job, sizeof(r->job), "%s", cfg.job);
        (void)snprintf(r->persistent, sizeof(r->persistent), "%s", cfg.persistent);
    }
    crn_config_fini(&cfg);
    return rc;
}

/* A rank that has just died or not yet begun has no arena: no error. */
static void read_arenas(const struct crn_fs *fs, int dfd, struct crn_census_run *r)
{
    struct crn_names names = {0};
    struct crn_errinfo info = {0};
    size_t i;

    if (crn_fs_names(fs, dfd, r->run, &names, &info) != CAIRN_OK)
        (void)snprintf(r->error, sizeof(r->error), "%.190s", info.msg);
    for (i = 0; i < names.n; i++) {
        struct crn_arena_glance glance;
        struct stat st;
        cairn_err rc;
        int fd;

        if (strncmp(names.name[i], "arena-", 6) != 0)
            continue;
        crn_err_clear(&info);
        rc = open_plain(fs, dfd, names.name[i], &fd, &st, &info);
        if (rc == CAIRN_OK) {
            rc = crn_arena_glance(fs, fd, names.name[i], on_slot, r, &glance, &info);
            (void)fs->close(fs, fd);
        }
        if (rc == CAIRN_OK) {
            r->arenas++;
            r->arena_bytes += glance.data_bytes;
        } else if (rc != CAIRN_ENOENT && r->error[0] == '\0') {
            (void)snprintf(r->error, sizeof(r->error), "%.190s", info.msg);
        }
    }
    crn_names_free(&names);
}

/* 1 if there is a run to be shown. */
static int look_at_run(const struct crn_fs *fs, int root, const char *root_path, const char *name,
                       struct crn_census_run *r)
{
    struct crn_rundir rd = {.fs = fs, .spool_dfd = -1};
    struct crn_errinfo info = {0};
    uint8_t id[16];
    int is_gone;
    cairn_err rc;

    memset(r, 0, sizeof(*r));
    if (!crn_rundir_parse(name, id, &r->place.node, &is_gone) || is_gone)
        return 0;
    crn_run_hex(id, r->run);
    rd.dfd = fs->openat(fs, root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (rd.dfd < 0)
        return 0;
    (void)snprintf(rd.path, sizeof(rd.path), "%s/%s", root_path, name);
    rc = read_place(fs, rd.dfd, r, &info);
    r->has_service = crn_rundir_has_service(&rd);
    r->has_ranks = crn_rundir_has_living(&rd);
    if (rc != CAIRN_OK)
        (void)snprintf(r->error, sizeof(r->error), "%.190s", info.msg);
    read_arenas(fs, rd.dfd, r);
    (void)fs->close(fs, rd.dfd);
    if (rc == CAIRN_ENOENT && r->nitems == 0)
        return 0; /* starting, or gone */
    if (r->nitems > 1)
        qsort(r->item, r->nitems, sizeof(*r->item), is_newer);
    return 1;
}

static cairn_err add_run(struct crn_census *c, const struct crn_census_run *r,
                         struct crn_errinfo *ei)
{
    struct crn_census_run *grown = realloc(c->run, (c->n + 1) * sizeof(*grown));

    if (grown == NULL) {
        free(r->item);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu runs", c->n + 1);
    }
    c->run = grown;
    c->run[c->n++] = *r;
    return CAIRN_OK;
}

/* The runs of one user; a directory that is not there has none. */
static cairn_err take_user(const struct crn_fs *fs, const char *base, const char *name,
                           struct crn_census *c, struct crn_errinfo *ei)
{
    char path[CRN_PATH_MAX + 32];
    struct crn_names names = {0};
    cairn_err rc = CAIRN_OK;
    struct stat st;
    size_t i;
    int dfd;

    (void)snprintf(path, sizeof(path), "%s/%s", base, name);
    dfd = fs->openat(fs, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (dfd == -ENOENT)
        return CAIRN_OK;
    if (dfd < 0)
        return crn_fail_errno(ei, -dfd, "open '%s'", path);
    rc = crn_fs_check(fs->fstat(fs, dfd, &st), ei, "stat '%s'", path);
    if (rc == CAIRN_OK)
        rc = crn_fs_names(fs, dfd, path, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++) {
        struct crn_census_run r;

        if (!look_at_run(fs, dfd, path, names.name[i], &r)) {
            free(r.item);
            continue;
        }
        r.uid = (unsigned)st.st_uid;
        rc = add_run(c, &r, ei);
    }
    crn_names_free(&names);
    (void)fs->close(fs, dfd);
    return rc;
}

static cairn_err take_everyone(const struct crn_fs *fs, const char *base, struct crn_census *c,
                               struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;
    int dfd = fs->openat(fs, AT_FDCWD, base, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

    if (dfd < 0)
        return crn_fail_errno(ei, -dfd, "open '%s'", base);
    rc = crn_fs_names(fs, dfd, base, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        if (strncmp(names.name[i], "cairn-", 6) == 0 &&
            take_user(fs, base, names.name[i], c, &ignored) == CAIRN_ENOMEM)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%s", ignored.msg);
    crn_names_free(&names);
    (void)fs->close(fs, dfd);
    return rc;
}

cairn_err crn_census_take(const struct crn_fs *fs, const struct crn_config *cfg, int everyone,
                          struct crn_census *ret, struct crn_errinfo *ei)
{
    struct crn_census c = {0};
    char own[32];
    cairn_err rc;

    (void)snprintf(own, sizeof(own), "cairn-%u", (unsigned)geteuid());
    rc = everyone ? take_everyone(fs, cfg->shm_dir, &c, ei)
                  : take_user(fs, cfg->shm_dir, own, &c, ei);
    if (rc != CAIRN_OK) {
        crn_census_free(&c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

void crn_census_free(struct crn_census *c)
{
    size_t i;

    for (i = 0; i < c->n; i++)
        free(c->run[i].item);
    free(c->run);
    memset(c, 0, sizeof(*c));
}
