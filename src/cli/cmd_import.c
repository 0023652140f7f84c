/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn import: makes versions of the checkpoints that another runtime has left, as the drop-in
 * library for its programs would have stored them. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ingest_impl.h"

#define MAX_REGIONS (1 << 20)

/* VELOC: one file for each rank and version. Memory: the number of regions, for each its id and
 * size, then their bytes; numbers as the machine has them. Or a file that the program wrote. --- */

struct veloc_head {
    uint64_t n;
    int32_t *id;
    uint64_t *bytes;
};

static void head_free(struct veloc_head *h)
{
    free(h->id);
    free(h->bytes);
}

/* Reads the table of regions. *ret_is_memory: the file is as long as the table says. */
static cairn_err veloc_head(const struct cli_ingest *g, int fd, const struct cli_file *f,
                            struct veloc_head *h, int *ret_is_memory, struct crn_errinfo *ei)
{
    uint64_t size = (uint64_t)f->st.st_size;
    uint64_t want = sizeof(h->n);
    unsigned char row[12];
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    *ret_is_memory = 0;
    if (size < want)
        return CAIRN_OK;
    rc = crn_fs_read_all(g->fs, fd, (unsigned char *)&h->n, sizeof(h->n), 0, f->path, ei);
    if (rc != CAIRN_OK || h->n == 0 || h->n > MAX_REGIONS || h->n > (size - want) / sizeof(row))
        return rc;
    h->id = calloc(h->n, sizeof(*h->id));
    h->bytes = calloc(h->n, sizeof(*h->bytes));
    if (h->id == NULL || h->bytes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%" PRIu64 " regions of '%s'", h->n, f->path);
    for (i = 0; rc == CAIRN_OK && i < h->n; i++, want += sizeof(row)) {
        rc = crn_fs_read_all(g->fs, fd, row, sizeof(row), want, f->path, ei);
        memcpy(&h->id[i], row, 4);
        memcpy(&h->bytes[i], row + 4, 8);
    }
    for (i = 0; rc == CAIRN_OK && i < h->n; i++)
        if (__builtin_add_overflow(want, h->bytes[i], &want) || want > size)
            return CAIRN_OK;
    *ret_is_memory = rc == CAIRN_OK && want == size;
    return rc;
}

static cairn_err veloc_describe(const struct cli_file *f, const struct veloc_head *h,
                                struct crn_region *regions, uint64_t *at, struct crn_errinfo *ei)
{
    uint64_t offset = sizeof(h->n) + 12 * h->n;
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    for (i = 0; rc == CAIRN_OK && i < h->n; i++) {
        struct crn_region *r = &regions[i];

        (void)snprintf(r->name, sizeof(r->name), "%" PRId32, h->id[i]);
        if (i > 0 && h->id[i] <= h->id[i - 1]) /* VELOC writes them in this order */
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s': region %s is not in its place", f->path,
                            r->name);
        r->kind = CRN_REGION_MEMORY;
        r->type = CAIRN_BYTES;
        r->ndims = 1;
        r->dims[0] = h->bytes[i];
        at[i] = offset;
        offset += h->bytes[i];
        rc = crn_region_check(r, ei);
    }
    return rc;
}

static cairn_err veloc_file(const struct cli_file *f, struct crn_region *r, struct crn_errinfo *ei)
{
    (void)snprintf(r->name, sizeof(r->name), "routed.dat"); /* compat/veloc: CRN_VLC_FILE */
    r->kind = CRN_REGION_FILE;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = (uint64_t)f->st.st_size;
    return crn_region_check(r, ei);
}

static cairn_err veloc_open(const struct cli_ingest *g, struct cli_file *f, size_t n,
                            struct crn_source *s, struct crn_errinfo *ei)
{
    struct veloc_head h = {0};
    struct crn_region *regions;
    int is_memory = 0;
    uint64_t *at;
    int *fds;
    cairn_err rc;
    int fd;

    s->image_fd = -1;
    if (n != 1)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a rank has %zu files", n);
    fd = g->fs->openat(g->fs, AT_FDCWD, f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    rc = crn_fs_check(fd, ei, "open '%s'", f->path);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_check(g->fs->fstat(g->fs, fd, &f->st), ei, "look at '%s'", f->path);
    if (rc == CAIRN_OK)
        rc = veloc_head(g, fd, f, &h, &is_memory, ei);
    n = is_memory ? h.n : 1;
    regions = calloc(n, sizeof(*regions));
    at = calloc(n, sizeof(*at));
    fds = malloc(n * sizeof(*fds));
    s->shard.regions = regions;
    s->at = at;
    s->region_fd = fds;
    if (regions == NULL || at == NULL || fds == NULL) {
        (void)g->fs->close(g->fs, fd);
        head_free(&h);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu regions of '%s'", n, f->path);
    }
    memset(fds, -1, n * sizeof(*fds));
    fds[0] = s->image_fd = fd; /* closed with the regions' files */
    s->shard.nregions = (uint32_t)n;
    if (rc == CAIRN_OK)
        rc = is_memory ? veloc_describe(f, &h, regions, at, ei) : veloc_file(f, regions, ei);
    head_free(&h);
    return rc;
}

/* The command. --------------------------------------------------------------------------------- */

static const struct import_format {
    const char *name, *suffix; /* of its files, behind the name of the checkpoint */
    cairn_err (*open_rank)(const struct cli_ingest *g, struct cli_file *f, size_t n,
                           struct crn_source *s, struct crn_errinfo *ei);
} formats[] = {{"veloc", "-{rank}-{step}.dat", veloc_open}};

static void import_report(struct cli *cli, const struct cli_ingest *g, const struct cli_set *set,
                          const struct cli_ingested *done)
{
    char size[32];

    if (cli->is_json) {
        crn_json_object(&cli->json, NULL);
        crn_json_str(&cli->json, "name", g->name);
        crn_json_i64(&cli->json, "version", set->step);
        crn_json_u64(&cli->json, "ranks", set->ranks);
        crn_json_u64(&cli->json, "bytes", done->bytes);
        crn_json_end_object(&cli->json);
        return;
    }
    crn_human_bytes(done->bytes, size, sizeof(size));
    (void)printf("%s@%" PRId64 ": %" PRIu32 " ranks, %s\n", g->name, set->step, set->ranks, size);
}

static int import_sets(struct cli *cli, struct cli_ingest *g, const struct cli_patterns *patterns,
                       struct cli_sets *sets, int is_forced)
{
    int status = CLI_OK;
    size_t i;

    for (i = 0; i < sets->n; i++) {
        struct cli_ingested done;
        char why[CRN_ERR_TEXT];

        if (!crn_set_is_complete(&sets->set[i], patterns, why, sizeof(why))) {
            status = crn_cli_problem(cli, CAIRN_EINVAL, "%s@%" PRId64 ": %s", g->name,
                                     sets->set[i].step, why);
            continue;
        }
        if (crn_ingest_set(g, &sets->set[i], sets->set[i].step,
                           is_forced ? CLI_REPLACE_ANY : CLI_REPLACE_NEVER, 0, &done,
                           cli->ei) == CAIRN_OK)
            import_report(cli, g, &sets->set[i], &done);
        else
            status = crn_cli_fail(cli);
    }
    return status;
}

/* The files of a directory, with their paths. */
static cairn_err list_dir(const char *dir, struct crn_names *ret, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_posix();
    int dfd = fs->openat(fs, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    cairn_err rc = crn_fs_check(dfd, ei, "open '%s'", dir);
    size_t i;

    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_names(fs, dfd, dir, ret, ei);
    (void)fs->close(fs, dfd);
    for (i = 0; rc == CAIRN_OK && i < ret->n; i++) {
        char *path = NULL;

        if (asprintf(&path, "%s/%s", dir, ret->name[i]) < 0)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the files of '%s'", dir);
        free(ret->name[i]);
        ret->name[i] = path;
    }
    return rc;
}

static int import_checkpoint(struct cli *cli, const struct import_format *format, const char *name,
                             const char *dir, int64_t ranks, int is_forced)
{
    struct cli_patterns patterns = {0};
    char pattern[CAIRN_MAX_NAME + 32];
    struct crn_names files = {0};
    struct cli_sets sets = {0};
    struct cli_ingest g;
    int status;
    cairn_err rc;

    (void)snprintf(pattern, sizeof(pattern), "%s%s", name, format->suffix);
    rc = crn_sets_add_pattern(&patterns, pattern, cli->ei);
    if (rc == CAIRN_OK)
        rc = list_dir(dir, &files, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_sets_sort(&patterns, files.name, files.n, (uint32_t)ranks, &sets, cli->ei);
    if (rc == CAIRN_OK && sets.n == 0)
        rc = crn_fail(cli->ei, CAIRN_ENOENT, 0, "'%s' has no files %s", dir, pattern);
    if (rc == CAIRN_OK)
        rc = crn_ingest_open(&cli->cfg, name, NULL, &g, cli->ei);
    if (rc == CAIRN_OK) {
        g.open_rank = format->open_rank;
        if (cli->is_json)
            crn_json_array(crn_cli_json(cli), "versions");
        status = import_sets(cli, &g, &patterns, &sets, is_forced);
        crn_ingest_close(&g);
    } else {
        status = crn_cli_fail(cli);
    }
    crn_sets_free(&sets);
    crn_names_free(&files);
    if (!cli->is_json || rc != CAIRN_OK)
        return rc == CAIRN_OK ? crn_cli_end(cli, status) : status;
    crn_json_end_array(&cli->json);
    return crn_cli_json_end(cli, status);
}

static int import_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"from", required_argument, NULL, 'F'},
                                          {"as", required_argument, NULL, 'a'},
                                          {"ranks", required_argument, NULL, 'n'},
                                          {"force", no_argument, NULL, 'f'},
                                          {0}};
    const struct import_format *format = NULL;
    const char *name = NULL;
    int64_t ranks = 0;
    int is_forced = 0;
    size_t i;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "a:n:f", longs)) != -1) {
        if (c == 'F')
            for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
                format = strcmp(formats[i].name, optarg) == 0 ? &formats[i] : format;
        else if (c == 'a')
            name = optarg;
        else if (c == 'f')
            is_forced = 1;
        else if (c != 'n' || crn_cli_number(cli, "ranks", optarg, &ranks) != 0)
            return CLI_USAGE;
    }
    if (format == NULL)
        return crn_cli_usage(cli, "which runtime has left the checkpoints? use --from veloc");
    if (name == NULL || optind + 1 != argc || ranks >= CRN_MAX_RANKS)
        return crn_cli_usage(cli, "which checkpoint, and in which directory? use --as NAME DIR");
    return import_checkpoint(cli, format, name, argv[optind], ranks, is_forced);
}

const struct cli_command crn_cmd_import = {
    .name = "import",
    .args = "--from veloc --as NAME [--ranks N] [-f] DIR",
    .help = "Makes versions of the checkpoints that another runtime has left",
    .about =
        "Makes versions of the checkpoints that VELOC has left in its persistent (or scratch) "
        "directory, so that a program goes on from them with Cairn's libveloc-client. Each "
        "version NAME-RANK-VERSION.dat of all ranks becomes a version of NAME. The files stay.",
    .run = import_run,
    .options = "  --from R          the runtime: veloc\n"
               "  -a, --as NAME     the checkpoint's name, as the program has it\n"
               "  -n, --ranks N     as many ranks took it; default: as many as are found\n"
               "  -f, --force       replace a version that holds something else\n",
};
