/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn import: makes versions of the checkpoints that another runtime has left, as the drop-in
 * library for its programs would have stored them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/export.h"
#include "cli/import.h"

/* For the readers. ------------------------------------------------------------------------------ */

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

void crn_import_set(struct cli_import *im, struct cli_ingest *g, struct cli_set *set)
{
    enum cli_replace replace = im->is_forced ? CLI_REPLACE_ANY : CLI_REPLACE_NEVER;
    struct cli_ingested done;

    if (crn_ingest_set(g, set, set->step, replace, 0, &done, im->cli->ei) == CAIRN_OK)
        import_report(im->cli, g, set, &done);
    else
        im->status = crn_cli_fail(im->cli);
}

void crn_import_skip(struct cli_import *im, const char *name, int64_t version, const char *why)
{
    im->status = crn_cli_problem(im->cli, CAIRN_EINVAL, "%s@%" PRId64 ": %s", name, version, why);
}

cairn_err crn_import_store(struct cli_import *im, const char *dir, struct crn_errinfo *ei)
{
    size_t i;

    for (i = 0; i < im->cli->nsettings; i++)
        if (strncmp(im->cli->settings[i], "persistent=", 11) == 0)
            return CAIRN_OK;
    return crn_config_set(&im->cli->cfg, "persistent", dir, im->from, ei);
}

cairn_err crn_import_list(const char *dir, struct crn_names *ret, struct crn_errinfo *ei)
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

cairn_err crn_import_shard(struct crn_source *s, size_t n, struct crn_errinfo *ei)
{
    int *fds = malloc((n + 1) * sizeof(*fds));
    size_t i;

    s->shard.regions = calloc(n + 1, sizeof(*s->shard.regions));
    s->at = calloc(n + 1, sizeof(*s->at));
    s->region_fd = fds;
    if (s->shard.regions == NULL || s->at == NULL || fds == NULL) {
        free(fds); /* its numbers are not set */
        s->region_fd = NULL;
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu regions", n);
    }
    for (i = 0; i <= n; i++)
        fds[i] = -1;
    s->shard.nregions = (uint32_t)n;
    return CAIRN_OK;
}

cairn_err crn_import_open(const struct cli_ingest *g, struct cli_file *f, int *ret_fd,
                          struct crn_errinfo *ei)
{
    int fd = g->fs->openat(g->fs, AT_FDCWD, f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    cairn_err rc = crn_fs_check(fd, ei, "open '%s'", f->path);

    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_check(g->fs->fstat(g->fs, fd, &f->st), ei, "look at '%s'", f->path);
    if (rc == CAIRN_OK)
        *ret_fd = fd;
    else
        (void)g->fs->close(g->fs, fd);
    return rc;
}

cairn_err crn_import_add(struct cli_set *set, size_t *cap, uint32_t rank, char *path,
                         struct crn_errinfo *ei)
{
    if (path != NULL && set->n == *cap) {
        struct cli_file *grown = realloc(set->file, (2 * *cap + 64) * sizeof(*grown));

        if (grown != NULL) {
            set->file = grown;
            *cap = 2 * *cap + 64;
        }
    }
    if (path == NULL || set->n == *cap) {
        free(path);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", set->n);
    }
    set->file[set->n++] =
        (struct cli_file){.path = path,
                          .name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path,
                          .rank = rank};
    return CAIRN_OK;
}

/* The command. --------------------------------------------------------------------------------- */

static const struct import_format {
    const char *name;
    int needs_name;
    cairn_err (*run)(struct cli_import *im, struct crn_errinfo *ei);
} formats[] = {
    {"veloc", 1, crn_import_veloc}, {"scr", 0, crn_import_scr}, {"fti", 0, crn_import_fti}};

static int import_all(const struct import_format *format, struct cli_import *im)
{
    struct cli *cli = im->cli;
    cairn_err rc;

    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "versions");
    rc = format->run(im, cli->ei);
    if (cli->is_json)
        crn_json_end_array(&cli->json);
    if (rc != CAIRN_OK)
        im->status = crn_cli_fail(cli);
    return cli->is_json ? crn_cli_json_end(cli, im->status) : crn_cli_end(cli, im->status);
}

static int import_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"from", required_argument, NULL, 'F'},
                                          {"as", required_argument, NULL, 'a'},
                                          {"ranks", required_argument, NULL, 'n'},
                                          {"force", no_argument, NULL, 'f'},
                                          {"to", required_argument, NULL, 't'},
                                          {"prefix", required_argument, NULL, 'p'},
                                          {0}};
    struct cli_conversion conversion = {0};
    const struct import_format *format = NULL;
    struct cli_import im = {.cli = cli, .status = CLI_OK};
    int64_t ranks = 0;
    size_t i;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "a:n:f", longs)) != -1) {
        if (c == 'F')
            for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
                format = strcmp(formats[i].name, optarg) == 0 ? &formats[i] : format;
        else if (c == 'a')
            im.name = optarg;
        else if (c == 'f')
            im.is_forced = 1;
        else if (c == 't')
            conversion.to = optarg;
        else if (c == 'p')
            conversion.prefix = optarg;
        else if (c != 'n' || crn_cli_number(cli, "ranks", optarg, &ranks) != 0)
            return CLI_USAGE;
    }
    if (conversion.to != NULL && format == NULL && optind + 1 == argc) {
        conversion.source = argv[optind];
        return crn_export_python(cli, "import", &conversion);
    }
    if (format == NULL || conversion.to != NULL || conversion.prefix != NULL)
        return crn_cli_usage(
            cli, "which runtime has left the checkpoints? use --from veloc, scr or fti; for a "
                 "file of NumPy or PyTorch, FILE --to NAME@VERSION");
    if (optind + 1 != argc || ranks >= CRN_MAX_RANKS || (format->needs_name && im.name == NULL))
        return crn_cli_usage(cli,
                             "which checkpoint, and where is it? use --as NAME DIR with veloc, "
                             "PREFIX with scr, FILE with fti");
    if (!format->needs_name && (im.name != NULL || ranks != 0))
        return crn_cli_usage(cli, "--as and --ranks are for --from veloc: %s says both itself",
                             format->name);
    im.from = argv[optind];
    im.ranks = (uint32_t)ranks;
    return import_all(format, &im);
}

const struct cli_command crn_cmd_import = {
    .name = "import",
    .args = "--from veloc|scr|fti [--as NAME] [--ranks N] [-f] WHERE | FILE --to NAME@VERSION",
    .help = "Makes versions of the checkpoints that another runtime or tool has left",
    .about =
        "Makes versions of the checkpoints that VELOC, SCR or FTI has left, so that a program goes "
        "on from them with Cairn's library of the same interface. The files stay.\n"
        "VELOC: each version NAME-RANK-VERSION.dat of all ranks in its persistent (or scratch) "
        "directory becomes a version of NAME.\n"
        "SCR: each complete dataset of the index in `PREFIX/.scr` becomes a version in "
        "`PREFIX/.scr/cairn`. The files of the datasets are neither copied nor changed.\n"
        "FTI: the checkpoint of level 4 that the configuration file FILE names becomes a version "
        "in "
        "`cairn` of its `glbl_dir`. Cairn reads files of `ckpt_io = 1`.\n"
        "With `--to`, a `.safetensors`, `.npz` or `.pt` file becomes a version, as `cairn export` "
        "writes it.",
    .run = import_run,
    .options =
        "  --from R          the runtime: veloc, scr or fti\n"
        "  -a, --as NAME     with veloc: the checkpoint's name, as the program has it\n"
        "  -n, --ranks N     with veloc: as many ranks took it; default: as many as are found\n"
        "  -f, --force       replace a version that holds something else\n"
        "  -t, --to N@V      make version V of N of a .safetensors, .npz or .pt file\n"
        "  -p, --prefix TEXT with --to: goes before the regions' names, such as 'model.'\n",
};
