/* SPDX-License-Identifier: BSD-3-Clause */
/* From files to a version: opens them, writes them with the flush engine, checks that none has changed
 * meanwhile, commits. What is in the store is never older than what is removed: files go only after the
 * commit, and only if they are still what was read. */
#include "cli/ingest.h"

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
#include "encode/parts.h"
#include "restart/version.h"

#define SWEEP_AGE_NS  (24 * 3600 * 1000000000LL)
#define COMPARE_BYTES ((size_t)1 << 20)

/* The open files of a set, as the engine reads them. */
struct load {
    struct crn_source *sources; /* for each rank */
    uint32_t ranks;
    uint64_t bytes;
    uint64_t newest_ns; /* modification time of the file written last */
};

/* Every file of a set is open at once. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

cairn_err crn_ingest_open(const struct crn_config *cfg, const char *name, const char *hdf5,
                          struct cli_ingest *ret, struct crn_errinfo *ei)
{
    struct crn_engine_options opt = {
        .blocks = cfg->blocks,
        .block_bytes = cfg->block_bytes,
        .chunk_bytes = cfg->chunk_bytes,
        .align_bytes = cfg->align_bytes,
        .writers = crn_engine_threads(cfg),
        .nice = (int)cfg->nice,
        .outlet = {.io = (enum crn_io)cfg->io,
                   .preallocate = (enum crn_preallocate)cfg->preallocate,
                   .stripe_count = cfg->stripe_count,
                   .stripe_bytes = cfg->stripe_bytes}};
    struct cli_ingest g = {.cfg = cfg, .fs = crn_fs_default(), .hdf5 = hdf5};
    cairn_err rc;

    rc = crn_check_name("checkpoint name", name, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(g.name, name, strlen(name) + 1);
    g.is_encoding = crn_config_name(cfg, name)->encode != CRN_ENCODE_NONE;
    crn_random_bytes(g.id.run, sizeof(g.id.run));
    (void)signal(SIGIO, SIG_IGN); /* of a lease that is asked back while it is tried */
    raise_file_limit();
    rc = crn_store_open(g.fs, cfg->persistent, 1, &g.store, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_engine_open(&opt, &g.engine, ei);
    if (rc == CAIRN_OK)
        rc = crn_engine_encode(g.engine, cfg, name, ei);
    if (rc != CAIRN_OK)
        crn_ingest_close(&g);
    else
        *ret = g;
    return rc;
}

void crn_ingest_close(struct cli_ingest *g)
{
    crn_engine_close(g->engine);
    crn_store_close(&g->store);
}

/* Opening. ------------------------------------------------------------------------------------------ */

/* Whether a process of this host has the file open for writing. Other hosts, file systems without leases
 * and other people's files cannot be asked; what has changed by the end tells those. */
static int is_being_written(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}

static cairn_err open_file(const struct cli_ingest *g, struct cli_file *f, struct crn_region *r,
                           int *ret_fd, struct crn_errinfo *ei)
{
    int fd =
        g->fs->openat(g->fs, AT_FDCWD, f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    cairn_err rc = crn_fs_check(fd, ei, "open '%s'", f->path);

    if (rc != CAIRN_OK)
        return rc;
    *ret_fd = fd;
    rc = crn_fs_check(g->fs->fstat(g->fs, fd, &f->st), ei, "look at '%s'", f->path);
    if (rc != CAIRN_OK)
        return rc;
    if (!S_ISREG(f->st.st_mode))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is no regular file", f->path);
    if (is_being_written(fd))
        return crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is open for writing: wait until it is finished",
                        f->path);
    if (strlen(f->name) >= sizeof(r->name))
        return crn_fail(ei, CAIRN_EINVAL, 0, "the name of '%s' is longer than %zu bytes", f->path,
                        sizeof(r->name) - 1);
    memcpy(r->name, f->name, strlen(f->name) + 1);
    r->kind = CRN_REGION_FILE;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = (uint64_t)f->st.st_size;
    return crn_region_check(r, ei);
}

static uint64_t mtime_ns(const struct cli_file *f)
{
    return (uint64_t)f->st.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)f->st.st_mtim.tv_nsec;
}

/* The text of the region that describes n files. */
static cairn_err describe(const struct cli_file *f, size_t n, char **ret, size_t *ret_bytes,
                          struct crn_errinfo *ei)
{
    FILE *out = open_memstream(ret, ret_bytes);
    size_t i;

    for (i = 0; out != NULL && i < n; i++)
        (void)fprintf(out, "%04o %lld %lld.%09ld %s\n", (unsigned)f[i].st.st_mode & 07777U,
                      (long long)f[i].st.st_size, (long long)f[i].st.st_mtim.tv_sec,
                      f[i].st.st_mtim.tv_nsec, f[i].name);
    if (out == NULL || fclose(out) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the description of %zu files", n);
    return CAIRN_OK;
}

/* Looks for the variables inside the n files of a rank; what is not understood stays bytes. */
static cairn_err find_variables(const struct cli_ingest *g, size_t n, struct crn_source *s,
                                struct crn_errinfo *ei)
{
    struct crn_file_extents *files = calloc(n + 1, sizeof(*files));
    struct crn_parts *parts = calloc(1, sizeof(*parts));
    cairn_err rc;
    size_t i;

    if (files == NULL || parts == NULL) {
        free(files);
        free(parts);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the variables of %zu files", n);
    }
    for (i = 0; i < n; i++) {
        crn_extents_read(g->fs, s->region_fd[i], g->hdf5, &files[i]);
        crn_extents_finish(&files[i], s->shard.regions[i].bytes); /* it may have grown */
    }
    rc = crn_parts_make(&s->shard, files, parts, ei);
    for (i = 0; i < n; i++)
        crn_extents_free(&files[i]);
    free(files);
    if (rc == CAIRN_OK)
        s->parts = parts;
    else
        free(parts);
    return rc;
}

/* The shard of a rank: its n files, then their description. */
static cairn_err open_rank(const struct cli_ingest *g, struct cli_file *f, size_t n,
                           struct crn_source *s, struct crn_errinfo *ei)
{
    struct crn_region *regions = calloc(n + 1, sizeof(*regions));
    uint64_t *at = calloc(n + 1, sizeof(*at));
    int *fds = malloc((n + 1) * sizeof(*fds));
    cairn_err rc = CAIRN_OK;
    char *text = NULL;
    size_t bytes = 0;
    size_t i;

    for (i = 0; fds != NULL && i <= n; i++)
        fds[i] = -1;
    s->shard.regions = regions;
    s->at = at;
    s->region_fd = fds;
    s->image_fd = -1;
    if (regions == NULL || at == NULL || fds == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a shard of %zu files", n);
    s->shard.nregions = (uint32_t)n + 1;
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = open_file(g, &f[i], &regions[i], &fds[i], ei);
    if (rc == CAIRN_OK)
        rc = describe(f, n, &text, &bytes, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->memory = (const unsigned char *)text;
    memcpy(regions[n].name, CLI_FILES_REGION, sizeof(CLI_FILES_REGION));
    regions[n].type = CAIRN_BYTES;
    regions[n].ndims = 1;
    regions[n].dims[0] = bytes;
    return crn_region_check(&regions[n], ei);
}

static void free_parts(struct crn_source *s)
{
    if (s->parts != NULL)
        crn_parts_free((struct crn_parts *)s->parts);
    free((struct crn_parts *)s->parts);
    s->parts = NULL;
}

static void close_rank(const struct cli_ingest *g, struct crn_source *s)
{
    uint32_t k;

    for (k = 0; s->region_fd != NULL && k < s->shard.nregions; k++)
        if (s->region_fd[k] >= 0)
            (void)g->fs->close(g->fs, s->region_fd[k]);
    free_parts(s);
    free((int *)s->region_fd);
    free((uint64_t *)s->at);
    free((unsigned char *)s->memory);
    crn_shard_free(&s->shard);
}

static void load_close(const struct cli_ingest *g, struct load *l)
{
    uint32_t i;

    for (i = 0; l->sources != NULL && i < l->ranks; i++)
        close_rank(g, &l->sources[i]);
    free(l->sources);
}

static cairn_err load_open(const struct cli_ingest *g, struct cli_set *set, struct load *l,
                           struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t at = 0, n, i;
    uint32_t r;

    l->sources = calloc(set->ranks, sizeof(*l->sources));
    if (l->sources == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a set of %" PRIu32 " ranks", set->ranks);
    l->ranks = set->ranks;
    for (r = 0; rc == CAIRN_OK && r < set->ranks; r++, at += n) {
        for (n = 0; at + n < set->n && set->file[at + n].rank == r;)
            n++;
        l->sources[r].shard.rank = r;
        rc = open_rank(g, set->file + at, n, &l->sources[r], ei);
        for (i = 0; rc == CAIRN_OK && i <= n; i++)
            l->bytes += l->sources[r].shard.regions[i].bytes;
    }
    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        if (mtime_ns(&set->file[i]) > l->newest_ns)
            l->newest_ns = mtime_ns(&set->file[i]);
    return rc;
}

static int is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Whether the path still leads to the file as it was read. */
static cairn_err check_unchanged(const struct cli_ingest *g, const struct cli_file *f,
                                 struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc =
        crn_fs_check(g->fs->fstatat(g->fs, AT_FDCWD, f->path, &st), ei, "'%s' is gone", f->path);

    if (rc == CAIRN_OK && !is_same_file(&st, &f->st))
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' has changed since it was read", f->path);
    return rc;
}

static cairn_err check_set(const struct cli_ingest *g, const struct cli_set *set,
                           const struct load *l, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;
    uint32_t r, k;

    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        rc = check_unchanged(g, &set->file[i], ei);
    for (r = 0; rc == CAIRN_OK && r < l->ranks; r++)
        for (k = 0; rc == CAIRN_OK && k + 1 < l->sources[r].shard.nregions; k++)
            if (is_being_written(l->sources[r].region_fd[k]))
                rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' was opened for writing while it was read",
                              l->sources[r].shard.regions[k].name);
    return rc;
}

/* What is there. ------------------------------------------------------------------------------------ */

enum there { THERE_NOT, THERE_SAME, THERE_OTHER, THERE_FOREIGN };

/* Whether the stored bytes of a file, a region of the version, are those of the open one of s. */
static cairn_err compare_file(const struct cli_ingest *g, struct crn_version *v, uint32_t region,
                              const struct crn_source *s, uint32_t of_source, int *ret_is_same,
                              struct crn_errinfo *ei)
{
    const struct crn_region *r = &s->shard.regions[of_source];
    unsigned char *a = malloc(2 * COMPARE_BYTES);
    cairn_err rc = CAIRN_OK;
    uint64_t at;
    size_t n;

    if (a == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a comparison of '%s'", r->name);
    for (at = 0; rc == CAIRN_OK && *ret_is_same && at < r->bytes; at += n) {
        n = r->bytes - at < COMPARE_BYTES ? (size_t)(r->bytes - at) : COMPARE_BYTES;
        rc = crn_version_read(v, s->shard.rank, region, at, n, a, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_read_all(g->fs, s->region_fd[of_source], a + COMPARE_BYTES, n, at, r->name,
                                 ei);
        if (rc == CAIRN_OK)
            *ret_is_same = memcmp(a, a + COMPARE_BYTES, n) == 0;
    }
    free(a);
    return rc;
}

/* Compares the shard of a rank: its description, and the bytes if they are asked for. */
static cairn_err compare_rank(const struct cli_ingest *g, struct crn_version *v,
                              const struct crn_source *s, int bytes_too, enum there *ret,
                              struct crn_errinfo *ei)
{
    uint32_t last = s->shard.nregions - 1; /* the description */
    uint64_t bytes = s->shard.regions[last].bytes;
    const struct crn_shard *old;
    unsigned char *text;
    cairn_err rc;
    int64_t at;
    int is_same;
    uint32_t i;

    rc = crn_version_shard(v, s->shard.rank, &old, ei);
    if (rc != CAIRN_OK)
        return rc;
    at = crn_shard_find(old, CRN_REGION_MEMORY, CLI_FILES_REGION);
    *ret = at < 0 ? THERE_FOREIGN : THERE_OTHER;
    if (at < 0 || old->nregions != s->shard.nregions || at != last ||
        old->regions[at].bytes != bytes)
        return CAIRN_OK;
    text = malloc(bytes + 1);
    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a description of %" PRIu64 " bytes", bytes);
    rc = crn_version_read(v, s->shard.rank, last, 0, bytes, text, ei);
    is_same = rc == CAIRN_OK && memcmp(text, s->memory, bytes) == 0;
    free(text);
    for (i = 0; rc == CAIRN_OK && is_same && bytes_too && i < last; i++)
        rc = compare_file(g, v, i, s, i, &is_same, ei);
    *ret = is_same ? THERE_SAME : THERE_OTHER;
    return rc;
}

/* What the store has under this number. A version that cannot be read is as good as none. */
static enum there look(const struct cli_ingest *g, int64_t version, const struct load *l,
                       int bytes_too)
{
    struct crn_version *v;
    enum there there = THERE_SAME;
    cairn_err rc = CAIRN_OK;
    uint32_t r;

    if (crn_version_open(&g->store, g->name, version, &v, NULL) != CAIRN_OK)
        return THERE_NOT;
    if (crn_version_manifest(v)->ranks != l->ranks) {
        const struct crn_shard *first;

        rc = crn_version_shard(v, 0, &first, NULL);
        there = rc == CAIRN_OK && crn_shard_find(first, CRN_REGION_MEMORY, CLI_FILES_REGION) < 0
                    ? THERE_FOREIGN
                    : THERE_OTHER;
    }
    for (r = 0; rc == CAIRN_OK && there == THERE_SAME && r < l->ranks; r++)
        rc = compare_rank(g, v, &l->sources[r], bytes_too, &there, NULL);
    crn_version_close(v);
    return rc == CAIRN_OK ? there : THERE_NOT;
}

/* Writing. ------------------------------------------------------------------------------------------ */

static cairn_err check_room(const struct cli_ingest *g, const struct load *l,
                            struct crn_errinfo *ei)
{
    uint64_t need =
        crn_engine_estimate(g->engine, l->sources, l->ranks) + g->cfg->free_reserve_bytes;
    char want[32], have[32];
    struct crn_room room = {0};
    cairn_err rc;

    rc = crn_fs_check(g->fs->space(g->fs, g->store.dfd, &room), ei, "free space of '%s'",
                      g->store.path);
    if (rc != CAIRN_OK || room.bytes >= need)
        return rc;
    crn_human_bytes(need, want, sizeof(want));
    crn_human_bytes(room.bytes, have, sizeof(have));
    return crn_fail(ei, CAIRN_ENOSPC, ENOSPC, "it needs %s in '%s' and %s are %s", want,
                    g->store.path, have, room.text);
}

static cairn_err publish(struct cli_ingest *g, const struct crn_index *head, const struct load *l,
                         struct crn_manifest_file *file, struct cli_ingested *ret,
                         struct crn_errinfo *ei)
{
    const struct crn_name_config *nc = crn_config_name(g->cfg, g->name);
    const struct crn_clock *clock = crn_clock_real();
    struct crn_manifest m = {.id = head->id,
                             .version = head->version,
                             .created_ns = head->created_ns,
                             .committed_ns = (uint64_t)clock->wall_ns(clock),
                             .data_bytes = l->bytes,
                             .ranks = l->ranks,
                             .nodes = 1,
                             .nfiles = 1,
                             .files = file};
    cairn_err rc;

    memcpy(m.name, g->name, sizeof(m.name));
    memcpy(m.job, g->cfg->job, sizeof(m.job));
    rc = crn_store_publish(&g->store, &m, ei);
    /* Old versions that stay are no failure of this one. */
    if (rc == CAIRN_OK && nc->keep_last > 0 &&
        crn_store_retain(&g->store, g->name, nc->keep_last, nc->keep_every, &ret->retired, NULL) !=
            CAIRN_OK)
        ret->retired = 0;
    return rc;
}

static cairn_err write_version(struct cli_ingest *g, struct cli_set *set, int64_t version,
                               const struct load *l, struct cli_ingested *ret,
                               struct crn_errinfo *ei)
{
    struct crn_index head = {
        .version = version, .files = 1, .ranks = l->ranks, .nodes = 1, .created_ns = l->newest_ns};
    struct crn_manifest_file file = {0};
    struct crn_flush_stats stats = {0};
    cairn_err rc = CAIRN_OK;
    uint32_t r;

    g->id.seq++;
    head.id = g->id;
    memcpy(head.name, g->name, sizeof(head.name));
    for (r = 0; rc == CAIRN_OK && g->is_encoding && r < l->ranks; r++)
        rc = find_variables(g, l->sources[r].shard.nregions - 1, &l->sources[r], ei);
    if (rc == CAIRN_OK)
        rc = check_room(g, l, ei);
    if (rc == CAIRN_OK)
        rc = crn_engine_write(g->engine, &g->store, &head, l->sources, l->ranks, NULL, &file,
                              &stats, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = check_set(g, set, l, ei);
    if (rc == CAIRN_OK)
        rc = publish(g, &head, l, &file, ret, ei);
    if (rc != CAIRN_OK &&
        crn_store_discard_data(&g->store, g->name, version, file.name, NULL) != CAIRN_OK)
        rc = crn_err_context(ei, rc, "'%s' is left over, a sweep removes it", file.name);
    ret->file_bytes = file.bytes;
    ret->seconds = (double)stats.total_ns * 1e-9;
    crn_flush_stats_free(&stats);
    free(file.ranges);
    return rc;
}

static cairn_err lock_name(const struct cli_ingest *g, int *ret_fd, struct crn_errinfo *ei)
{
    struct crn_sweep_result swept;
    char who[128], host[65] = "";
    cairn_err rc;

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(who, sizeof(who), "cairn ingest, host %s, process %d", host, (int)getpid());
    rc = crn_store_lock_name(&g->store, g->name, who, ret_fd, ei);
    /* The name is ours now: what a killed run left half-written goes; what cannot go now stays. */
    if (rc == CAIRN_OK && crn_store_sweep(&g->store, g->name, *ret_fd, SWEEP_AGE_NS, 0, 0,
                                          crn_clock_real(), &swept, NULL) != CAIRN_OK)
        swept.files = 0;
    return rc;
}

/* A version that is seen may not be durable yet: its writer may have died right after the rename. */
static cairn_err make_durable(const struct cli_ingest *g, int64_t version, struct crn_errinfo *ei)
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

static cairn_err take(struct cli_ingest *g, struct cli_set *set, int64_t version,
                      enum cli_replace replace, int compare, const struct load *l,
                      struct cli_ingested *ret, struct crn_errinfo *ei)
{
    enum there there = look(g, version, l, compare);

    ret->bytes = l->bytes;
    ret->was_there = there == THERE_SAME;
    if (ret->was_there)
        return make_durable(g, version, ei);
    if (there == THERE_FOREIGN && replace != CLI_REPLACE_ANY)
        return crn_fail(ei, CAIRN_EBUSY, 0,
                        "there is a version of this number that was not made from files");
    if (there == THERE_OTHER && replace == CLI_REPLACE_NEVER)
        return crn_fail(ei, CAIRN_EBUSY, 0, "there is a version of this number with other files");
    return write_version(g, set, version, l, ret, ei);
}

cairn_err crn_ingest_set(struct cli_ingest *g, struct cli_set *set, int64_t version,
                         enum cli_replace replace, int compare, struct cli_ingested *ret,
                         struct crn_errinfo *ei)
{
    struct cli_ingested result = {0};
    struct load l = {0};
    cairn_err rc;
    int lock;

    rc = load_open(g, set, &l, ei);
    if (rc == CAIRN_OK)
        rc = lock_name(g, &lock, ei);
    if (rc == CAIRN_OK) {
        rc = take(g, set, version, replace, compare, &l, &result, ei);
        if (lock >= 0)
            (void)g->fs->close(g->fs, lock);
    }
    load_close(g, &l);
    if (rc == CAIRN_OK)
        *ret = result;
    return crn_err_context(ei, rc, "%s@%" PRId64, g->name, version);
}

/* Removing. ----------------------------------------------------------------------------------------- */

static cairn_err remove_file(const struct cli_ingest *g, const struct cli_file *f,
                             struct crn_errinfo *ei)
{
    return crn_fs_check(g->fs->unlinkat(g->fs, AT_FDCWD, f->path, 0), ei, "remove '%s'", f->path);
}

cairn_err crn_ingest_remove(struct cli_ingest *g, const struct cli_set *set, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        rc = check_unchanged(g, &set->file[i], ei);
    for (i = 0; rc == CAIRN_OK && i < set->n; i++)
        rc = remove_file(g, &set->file[i], ei);
    return rc;
}

/* Whether the version holds this file of the rank. */
static cairn_err holds(const struct cli_ingest *g, struct crn_version *v, struct cli_file *f,
                       int *ret, struct crn_errinfo *ei)
{
    struct crn_source s = {0};
    const struct crn_shard *old;
    cairn_err rc;
    int64_t at;

    *ret = 0;
    if (f->rank >= crn_version_manifest(v)->ranks)
        return CAIRN_OK;
    rc = crn_version_shard(v, f->rank, &old, ei);
    at = rc == CAIRN_OK ? crn_shard_find(old, CRN_REGION_FILE, f->name) : -1;
    if (at < 0)
        return rc;
    s.shard.rank = f->rank;
    rc = open_rank(g, f, 1, &s, ei);
    if (rc == CAIRN_OK && s.shard.regions[0].bytes == old->regions[at].bytes) {
        *ret = 1;
        rc = compare_file(g, v, (uint32_t)at, &s, 0, ret, ei);
    }
    close_rank(g, &s);
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
    rc = make_durable(g, version, ei);
    for (i = 0; rc == CAIRN_OK && i < set->n; i++) {
        rc = holds(g, v, &set->file[i], &is_held, ei);
        if (rc == CAIRN_OK && is_held)
            rc = check_unchanged(g, &set->file[i], ei);
        if (rc == CAIRN_OK && is_held)
            rc = remove_file(g, &set->file[i], ei);
        *ret_n += rc == CAIRN_OK && is_held;
    }
    crn_version_close(v);
    return rc;
}
