/* SPDX-License-Identifier: BSD-3-Clause */
/* See restore_files.h. The threads of the pass read and decode; this thread writes what they hand it.
 * Pieces of many files arrive interleaved where their data is merged, so files stay open until they
 * are complete, up to a limit; one that was closed early is opened again for its next piece. */
#include "cli/restore_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/thread.h"
#include "cli/ingest.h"
#include "restart/pass.h"

#define BLOCK        ((size_t)4 << 20)
#define MOST_THREADS 8
#define MOST_OPEN    4096
#define OTHERS       64 /* descriptors for everything else */

/* Recorded attributes of a file. */
struct known {
    mode_t mode;
    struct timespec mtime;
    int is_known;
};

struct restored {
    const struct cli_item *item;
    struct known known;
    uint64_t bytes; /* written so far */
    int fd;         /* -1: not open */
    int is_made;    /* the temporary file exists */
};

struct writing {
    struct cli_restore *r;
    struct restored *file; /* by rank, then region */
    size_t n;
    size_t open, most_open;
    size_t hand;     /* where the search for a file to close continues */
    unsigned suffix; /* of the temporary names */
    struct cli_progress progress;
};

/* Attributes. ---------------------------------------------------------------------------------- */

/* Looks for a line of the description, which is hostile input. */
static void find_line(const char *text, const char *name, struct known *ret)
{
    const char *line = text;
    size_t n;

    for (; *line != '\0'; line += n + (line[n] == '\n')) {
        long long size, seconds;
        long nanoseconds;
        unsigned mode;
        int at = 0;

        n = strcspn(line, "\n");
        if (sscanf(line, "%o %lld %lld.%9ld%n", &mode, &size, &seconds, &nanoseconds, &at) != 4 ||
            (size_t)at >= n || n - (size_t)at - 1 != strlen(name) ||
            memcmp(line + at + 1, name, strlen(name)) != 0)
            continue;
        ret->mode = (mode_t)(mode & 0777U);
        ret->mtime.tv_sec = seconds;
        ret->mtime.tv_nsec = nanoseconds >= 0 ? nanoseconds : 0;
        ret->is_known = 1;
        return;
    }
}

/* The description of the files of a rank; NULL if it has none. */
static cairn_err read_description(struct crn_version *v, uint32_t rank, char **ret,
                                  struct crn_errinfo *ei)
{
    const struct crn_shard *shard;
    uint64_t bytes;
    cairn_err rc;
    int64_t at;
    char *text;

    *ret = NULL;
    rc = crn_version_shard(v, rank, &shard, ei);
    at = rc == CAIRN_OK ? crn_shard_find(shard, CRN_REGION_MEMORY, CLI_FILES_REGION) : -1;
    if (at < 0)
        return rc;
    bytes = shard->regions[at].bytes;
    text = malloc(bytes + 1);
    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a description of %" PRIu64 " bytes", bytes);
    rc = crn_version_read(v, rank, (uint32_t)at, 0, bytes, text, ei);
    if (rc != CAIRN_OK) {
        free(text);
        return rc;
    }
    text[bytes] = '\0';
    *ret = text;
    return CAIRN_OK;
}

static cairn_err describe_all(struct writing *w, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    char *text = NULL;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < w->n; i++) {
        const struct cli_item *item = w->file[i].item;

        if (i == 0 || item->rank != w->file[i - 1].item->rank) {
            free(text);
            rc = read_description(w->r->v, item->rank, &text, ei);
        }
        if (rc == CAIRN_OK && text != NULL)
            find_line(text, item->region->name, &w->file[i].known);
    }
    free(text);
    return rc;
}

/* Names. --------------------------------------------------------------------------------------- */

/* A stored name must not lead outside the directory. */
static cairn_err check_file_name(const char *name, struct crn_errinfo *ei)
{
    const char *p = name;
    size_t n;

    for (;; p += n + 1) {
        n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is not a valid file name", name);
        if (p[n] == '\0')
            return CAIRN_OK;
    }
}

/* Opens the directory of a file, after making it. */
static cairn_err open_dir(const struct cli_restore *r, const struct cli_item *item, int *ret,
                          struct crn_errinfo *ei)
{
    const char *name = item->region->name;
    const char *slash = strrchr(name, '/');
    char path[CAIRN_MAX_NAME + 16] = ".";
    int at = 0;

    if (r->by_rank)
        at = snprintf(path, sizeof(path), "%" PRIu32 "%s", item->rank, slash != NULL ? "/" : "");
    if (slash != NULL)
        (void)snprintf(path + at, sizeof(path) - (size_t)at, "%.*s", (int)(slash - name), name);
    return crn_fs_make_dirs(r->fs, r->dfd, path, 0777, ret, ei);
}

static const char *last_name(const struct cli_item *item)
{
    const char *slash = strrchr(item->region->name, '/');

    return slash != NULL ? slash + 1 : item->region->name;
}

static void temporary_name(const struct writing *w, const struct cli_item *item,
                           char ret[CAIRN_MAX_NAME + 16])
{
    (void)snprintf(ret, CAIRN_MAX_NAME + 16, ".%s.%08x", last_name(item), w->suffix);
}

/* Is the name valid, and nothing in the way? */
static cairn_err check_place(const struct cli_restore *r, const struct cli_item *item,
                             struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc;
    int dfd;

    rc = check_file_name(item->region->name, ei);
    if (rc == CAIRN_OK)
        rc = open_dir(r, item, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (!r->is_forced && r->fs->fstatat(r->fs, dfd, last_name(item), &st) == 0)
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is in '%s' already; --force replaces it",
                      item->region->name, r->to);
    (void)r->fs->close(r->fs, dfd);
    return rc;
}

/* Writing. ------------------------------------------------------------------------------------- */

static cairn_err close_file(struct writing *w, struct restored *f, struct crn_errinfo *ei)
{
    int fd = f->fd;

    if (fd < 0)
        return CAIRN_OK;
    f->fd = -1;
    w->open--;
    return crn_fs_check(w->r->fs->close(w->r->fs, fd), ei, "close '%s'", f->item->region->name);
}

static cairn_err make_space(struct writing *w, struct crn_errinfo *ei)
{
    if (w->open < w->most_open)
        return CAIRN_OK;
    while (w->file[w->hand % w->n].fd < 0)
        w->hand++;
    return close_file(w, &w->file[w->hand++ % w->n], ei);
}

static cairn_err open_file(struct writing *w, struct restored *f, struct crn_errinfo *ei)
{
    int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (f->is_made ? 0 : O_CREAT | O_EXCL);
    char tmp[CAIRN_MAX_NAME + 16];
    cairn_err rc;
    int dfd;

    if (f->fd >= 0)
        return CAIRN_OK;
    rc = make_space(w, ei);
    if (rc == CAIRN_OK)
        rc = open_dir(w->r, f->item, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    temporary_name(w, f->item, tmp);
    f->fd = w->r->fs->openat(w->r->fs, dfd, tmp, flags, 0666);
    rc = crn_fs_check(f->fd, ei, "create '%s' in '%s'", tmp, w->r->to);
    (void)w->r->fs->close(w->r->fs, dfd);
    if (rc != CAIRN_OK)
        return rc;
    f->is_made = 1;
    w->open++;
    return CAIRN_OK;
}

/* Sets mode and time, makes the file durable, and gives it its name. */
static cairn_err finish_file(struct writing *w, struct restored *f, struct crn_errinfo *ei)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, f->known.mtime};
    const struct crn_fs *fs = w->r->fs;
    const char *name = f->item->region->name;
    char tmp[CAIRN_MAX_NAME + 16];
    cairn_err rc = open_file(w, f, ei);
    int dfd;

    if (rc == CAIRN_OK && f->known.is_known &&
        (fchmod(f->fd, f->known.mode) != 0 || futimens(f->fd, times) != 0))
        rc = crn_fail_errno(ei, errno, "mode and time of '%s'", name);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, f->fd), ei, "fsync of '%s'", name);
    if (rc == CAIRN_OK)
        rc = close_file(w, f, ei);
    if (rc == CAIRN_OK)
        rc = open_dir(w->r, f->item, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    temporary_name(w, f->item, tmp);
    rc = crn_fs_check(fs->renameat(fs, dfd, tmp, dfd, last_name(f->item)), ei,
                      "rename '%s' to '%s'", tmp, name);
    (void)fs->close(fs, dfd);
    if (rc != CAIRN_OK)
        return rc;
    f->is_made = 0;
    w->r->files++;
    w->r->bytes += f->item->region->bytes;
    return CAIRN_OK;
}

static int by_rank_and_region(const void *a, const void *b)
{
    const struct cli_item *x = ((const struct restored *)a)->item;
    const struct cli_item *y = ((const struct restored *)b)->item;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static cairn_err write_piece(struct writing *w, const struct crn_pass_piece *q,
                             struct crn_errinfo *ei)
{
    struct cli_item item = {.rank = q->rank, .index = q->region};
    struct restored key = {.item = &item};
    struct restored *f = bsearch(&key, w->file, w->n, sizeof(*w->file), by_rank_and_region);
    size_t n = (size_t)(q->end - q->begin);
    cairn_err rc;

    if (f == NULL || q->data == NULL)
        return CAIRN_OK;
    rc = open_file(w, f, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_write_all(w->r->fs, f->fd, q->data, n, q->begin, f->item->region->name, ei);
    f->bytes += n;
    crn_progress_add(&w->progress, n);
    if (rc == CAIRN_OK && f->bytes == f->item->region->bytes)
        rc = finish_file(w, f, ei);
    return rc;
}

static cairn_err take_blocks(struct writing *w, struct crn_pass *p, struct crn_errinfo *ei)
{
    struct crn_pass_block *b;
    struct crn_pass_piece q;
    cairn_err rc = CAIRN_OK;
    size_t i;

    while (rc == CAIRN_OK && (b = crn_pass_next(p, 1)) != NULL) {
        for (i = 0; rc == CAIRN_OK && crn_pass_piece(p, b, i, &q); i++)
            rc = write_piece(w, &q, ei);
        crn_pass_put(p, b);
    }
    if (rc == CAIRN_OK && crn_pass_failure(p) != NULL) {
        crn_err_keep(ei, crn_pass_failure(p));
        rc = ei->code;
    }
    return rc;
}

static int wants_shard(void *arg, uint32_t rank, uint32_t region, uint64_t begin, uint64_t end)
{
    const uint8_t *skip = arg;

    (void)region;
    (void)begin;
    (void)end;
    return !skip[rank];
}

/* Reads the data files that hold the wanted ones. */
static cairn_err pass_over(struct writing *w, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(w->r->v);
    unsigned threads = (unsigned)crn_cores();
    struct crn_pass_options o = {.v = w->r->v,
                                 .shares = 1,
                                 .direct_bytes = UINT64_MAX,
                                 .files_only = 1,
                                 .threads = threads < MOST_THREADS ? threads : MOST_THREADS,
                                 .cores = CRN_CORES_OWN,
                                 .block_bytes = BLOCK};
    uint8_t *skip = malloc(m->ranks + 1U);
    uint32_t *files = calloc(m->nfiles + 1U, sizeof(*files));
    uint8_t *is_wanted = calloc(m->nfiles + 1U, 1);
    struct crn_pass *p = NULL;
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (skip == NULL || files == NULL || is_wanted == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "restore");
    if (rc == CAIRN_OK) {
        memset(skip, 1, m->ranks + 1U);
        for (i = 0; i < w->n; i++) {
            skip[w->file[i].item->rank] = 0;
            is_wanted[w->file[i].item->file_no] = 1;
        }
        for (i = 0; i < m->nfiles; i++)
            if (is_wanted[i])
                files[o.nfiles++] = (uint32_t)i;
        o.wants = wants_shard;
        o.arg = skip;
        o.files = files;
        rc = crn_pass_open(&o, &p, ei);
    }
    if (rc == CAIRN_OK)
        rc = take_blocks(w, p, ei);
    crn_pass_close(p);
    free(skip);
    free(files);
    free(is_wanted);
    return rc;
}

/* Empty files have no pieces. */
static cairn_err make_empty(struct writing *w, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < w->n; i++)
        if (w->file[i].item->region->bytes == 0)
            rc = finish_file(w, &w->file[i], ei);
    return rc;
}

/* Removes the files that did not get all their bytes. */
static void remove_parts(struct writing *w)
{
    const struct crn_fs *fs = w->r->fs;
    size_t i;

    for (i = 0; i < w->n; i++) {
        struct restored *f = &w->file[i];
        char tmp[CAIRN_MAX_NAME + 16];
        int dfd;

        (void)!close_file(w, f, NULL);
        if (!f->is_made || open_dir(w->r, f->item, &dfd, NULL) != CAIRN_OK)
            continue;
        temporary_name(w, f->item, tmp);
        (void)fs->unlinkat(fs, dfd, tmp, 0);
        (void)fs->close(fs, dfd);
    }
}

/* Items are sorted by name, then rank. Finds files of the same name on the way. */
static uint64_t choose_files(struct writing *w, const struct cli_items *items)
{
    const char *last = "";
    uint64_t total = 0;
    size_t i;

    for (i = 0; i < items->n; i++) {
        const struct cli_item *item = &items->item[i];

        if (item->region->kind != CRN_REGION_FILE ||
            (w->r->rank >= 0 && item->rank != (uint32_t)w->r->rank))
            continue;
        w->file[w->n++] = (struct restored){.item = item, .fd = -1};
        total += item->region->bytes;
        w->r->by_rank |= strcmp(item->region->name, last) == 0;
        last = item->region->name;
    }
    if (w->n > 1)
        qsort(w->file, w->n, sizeof(*w->file), by_rank_and_region);
    return total;
}

cairn_err crn_restore_files(struct cli_restore *r, const struct cli_items *items,
                            struct crn_errinfo *ei)
{
    size_t limit = crn_ingest_raise_files();
    struct writing w = {.r = r, .suffix = (unsigned)crn_random_u64()};
    cairn_err rc = CAIRN_OK;
    uint64_t total;
    size_t i;

    w.most_open = limit > 2 * OTHERS ? limit - OTHERS : OTHERS;
    w.most_open = w.most_open < MOST_OPEN ? w.most_open : MOST_OPEN;
    w.file = calloc(items->n + 1, sizeof(*w.file));
    if (w.file == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "restore of %zu files", items->n);
    total = choose_files(&w, items);
    crn_progress_begin(&w.progress, r->cli, "restore", total);
    if (w.n == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "it has no files; `cairn extract` extracts regions");
    for (i = 0; rc == CAIRN_OK && i < w.n; i++)
        rc = check_place(r, w.file[i].item, ei);
    if (rc == CAIRN_OK)
        rc = describe_all(&w, ei);
    if (rc == CAIRN_OK)
        rc = make_empty(&w, ei);
    if (rc == CAIRN_OK)
        rc = pass_over(&w, ei);
    crn_progress_end(&w.progress);
    remove_parts(&w);
    free(w.file);
    return rc;
}
