/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn restore: writes the files of a version, byte for byte, with mode and modification time.
 * Each is written under a temporary name and renamed, so it appears complete or not at all. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "cli/ingest.h"
#include "cli/items.h"

#define BLOCK ((size_t)4 << 20)
#define KEEP  ((size_t)512 << 20) /* of decoded chunks: files of all ranks share them */

struct restore_options {
    const char *to;
    int64_t rank; /* -1: all */
    int is_forced;
};

struct restore {
    const struct cli *cli;
    const struct crn_fs *fs;
    struct crn_version *v;
    const struct restore_options *o;
    int dfd;     /* of the directory */
    int by_rank; /* ranks have files of the same name: one directory per rank */
    unsigned char *block;
    uint64_t files, bytes;
    struct cli_progress progress;
};

/* Recorded attributes of a file. */
struct known {
    mode_t mode;
    struct timespec mtime;
    int is_known;
};

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

static cairn_err restore_describe(struct restore *r, const struct cli_item *item, struct known *ret,
                                  struct crn_errinfo *ei)
{
    const struct crn_shard *shard;
    uint64_t bytes;
    cairn_err rc;
    int64_t at;
    char *text;

    memset(ret, 0, sizeof(*ret));
    rc = crn_version_shard(r->v, item->rank, &shard, ei);
    at = rc == CAIRN_OK ? crn_shard_find(shard, CRN_REGION_MEMORY, CLI_FILES_REGION) : -1;
    if (at < 0)
        return rc;
    bytes = shard->regions[at].bytes;
    text = malloc(bytes + 1);
    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a description of %" PRIu64 " bytes", bytes);
    rc = crn_version_read(r->v, item->rank, (uint32_t)at, 0, bytes, text, ei);
    text[rc == CAIRN_OK ? bytes : 0] = '\0';
    find_line(text, item->region->name, ret);
    free(text);
    return rc;
}

static cairn_err copy_bytes(struct restore *r, const struct cli_item *item, int fd,
                            struct crn_errinfo *ei)
{
    uint64_t bytes = item->region->bytes;
    cairn_err rc = CAIRN_OK;
    uint64_t at;
    size_t n;

    for (at = 0; rc == CAIRN_OK && at < bytes; at += n) {
        n = bytes - at < BLOCK ? (size_t)(bytes - at) : BLOCK;
        rc = crn_version_read(r->v, item->rank, item->index, at, n, r->block, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(r->fs, fd, r->block, n, at, item->region->name, ei);
        crn_progress_add(&r->progress, n);
    }
    return rc;
}

/* Writes tmp, sets its mode and time, renames it. */
static cairn_err write_file(struct restore *r, const struct cli_item *item, int dfd,
                            const char *name, const char *tmp, struct crn_errinfo *ei)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    struct known known;
    cairn_err rc, closed;
    int fd;

    rc = restore_describe(r, item, &known, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = r->fs->openat(r->fs, dfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    rc = crn_fs_check(fd, ei, "create '%s' in '%s'", tmp, r->o->to);
    if (rc != CAIRN_OK)
        return rc;
    rc = copy_bytes(r, item, fd, ei);
    times[1] = known.mtime;
    if (rc == CAIRN_OK && known.is_known &&
        (fchmod(fd, known.mode) != 0 || futimens(fd, times) != 0))
        rc = crn_fail_errno(ei, errno, "mode and time of '%s'", name);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(r->fs->fsync(r->fs, fd), ei, "fsync of '%s'", name);
    closed = crn_fs_check(r->fs->close(r->fs, fd), rc == CAIRN_OK ? ei : NULL, "close '%s'", name);
    if (rc == CAIRN_OK)
        rc = closed;
    if (rc == CAIRN_OK)
        rc = crn_fs_check(r->fs->renameat(r->fs, dfd, tmp, dfd, name), ei, "rename '%s' to '%s'",
                          tmp, name);
    return rc;
}

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
static cairn_err open_dir(struct restore *r, const struct cli_item *item, int *ret,
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

/* Restores one file; with is_trial only checks that nothing is in the way. */
static cairn_err restore_file(struct restore *r, const struct cli_item *item, int is_trial,
                              struct crn_errinfo *ei)
{
    const char *slash = strrchr(item->region->name, '/');
    const char *name = slash != NULL ? slash + 1 : item->region->name;
    char tmp[CAIRN_MAX_NAME + 16];
    struct stat st;
    cairn_err rc;
    int dfd;

    rc = check_file_name(item->region->name, ei);
    if (rc == CAIRN_OK)
        rc = open_dir(r, item, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (!r->o->is_forced && r->fs->fstatat(r->fs, dfd, name, &st) == 0)
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "'%s' is in '%s' already; --force replaces it", name,
                      r->o->to);
    if (rc == CAIRN_OK && !is_trial) {
        (void)snprintf(tmp, sizeof(tmp), ".%s.%08x", name, (unsigned)crn_random_u64());
        rc = write_file(r, item, dfd, name, tmp, ei);
        if (rc != CAIRN_OK)
            (void)r->fs->unlinkat(r->fs, dfd, tmp, 0); /* may not exist */
        r->files++;
        r->bytes += item->region->bytes;
    }
    (void)r->fs->close(r->fs, dfd);
    return rc;
}

static int is_wanted(const struct restore_options *o, const struct cli_item *item)
{
    return item->region->kind == CRN_REGION_FILE &&
           (o->rank < 0 || item->rank == (uint32_t)o->rank);
}

/* Items are sorted by name, then rank. */
static cairn_err restore_all(struct restore *r, const struct cli_items *items,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint64_t total = 0;
    const char *last = "";
    int is_trial;
    size_t i;

    for (i = 0; i < items->n; i++) {
        const struct cli_item *item = &items->item[i];

        if (!is_wanted(r->o, item))
            continue;
        total += item->region->bytes;
        r->by_rank |= strcmp(item->region->name, last) == 0;
        last = item->region->name;
    }
    crn_progress_begin(&r->progress, r->cli, "restore", total);
    for (is_trial = 1; is_trial >= 0; is_trial--)
        for (i = 0; rc == CAIRN_OK && i < items->n; i++)
            if (is_wanted(r->o, &items->item[i]))
                rc = restore_file(r, &items->item[i], is_trial, ei);
    crn_progress_end(&r->progress);
    if (rc == CAIRN_OK && r->files == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "it has no files; `cairn extract` extracts regions");
    return rc;
}

static int restore_report(struct cli *cli, const struct cli_target *t, const struct restore *r)
{
    char size[32];

    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "name", t->name);
        crn_json_i64(j, "version", t->version);
        crn_json_str(j, "to", r->o->to);
        crn_json_u64(j, "files", r->files);
        crn_json_u64(j, "bytes", r->bytes);
        crn_json_bool(j, "by_rank", r->by_rank);
        return crn_cli_json_end(cli, CLI_OK);
    }
    crn_human_bytes(r->bytes, size, sizeof(size));
    (void)printf("%s@%" PRId64 ": %" PRIu64 " files, %s in '%s'%s\n", t->name, t->version, r->files,
                 size, r->o->to, r->by_rank ? ", a directory for each rank" : "");
    return crn_cli_end(cli, CLI_OK);
}

static int restore_checkpoint(struct cli *cli, const char *text, const struct restore_options *o)
{
    struct restore r = {
        .cli = cli, .fs = crn_fs_default(), .o = o, .dfd = -1, .block = malloc(BLOCK)};
    struct cli_items items = {0};
    struct cli_target t = {.version = -1};
    cairn_err rc;
    int status;

    rc = r.block == NULL ? crn_fail(cli->ei, CAIRN_ENOMEM, ENOMEM, "restore")
                         : crn_cli_pick(&cli->store, text, &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_open(&cli->store, t.name, t.version, &r.v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_keep(r.v, KEEP, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_items_load(r.v, &items, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_make_dirs(r.fs, AT_FDCWD, o->to, 0777, &r.dfd, cli->ei);
    if (rc == CAIRN_OK)
        rc = restore_all(&r, &items, cli->ei);
    rc = crn_err_context(cli->ei, rc, "restore of '%s'", text);
    status = rc != CAIRN_OK ? crn_cli_fail(cli) : restore_report(cli, &t, &r);
    if (r.dfd >= 0)
        (void)r.fs->close(r.fs, r.dfd);
    crn_items_free(&items);
    crn_version_close(r.v);
    free(r.block);
    return status;
}

static int restore_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"to", required_argument, NULL, 't'},
                                          {"rank", required_argument, NULL, 'r'},
                                          {"force", no_argument, NULL, 'f'},
                                          {0}};
    struct restore_options o = {.rank = -1};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "t:r:f", longs)) != -1) {
        if (c == 't')
            o.to = optarg;
        else if (c == 'f')
            o.is_forced = 1;
        else if (c == '?' || crn_cli_number(cli, "rank", optarg, &o.rank) != 0)
            return CLI_USAGE;
    }
    if (argc - optind != 1)
        return crn_cli_usage(cli, "which checkpoint?");
    if (o.to == NULL)
        return crn_cli_usage(cli, "where to? use --to DIR");
    return restore_checkpoint(cli, argv[optind], &o);
}

const struct cli_command crn_cmd_restore = {
    .name = "restore",
    .args = "--to DIR [-r RANK] [-f] NAME[@VERSION]",
    .help = "Puts the files of a version back, byte by byte, with mode and time",
    .about = "Puts the files of a version back, byte by byte, with permissions and "
             "modification time.",
    .needs_store = 1,
    .run = restore_run,
    .options = "  -t, --to DIR      where to; made if it is not there\n"
               "  -r, --rank RANK   the files of this rank only\n"
               "  -f, --force       replace files that are there\n",
};
