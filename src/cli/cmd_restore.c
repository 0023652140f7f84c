/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn restore: writes the files of a version, byte for byte, with mode and modification time. */
#include "cli/cli.h"

#include <fcntl.h>
#include <inttypes.h>

#include "cli/restore_files.h"

struct restore_options {
    const char *to;
    int64_t rank; /* -1: all */
    int is_forced;
};

static int restore_report(struct cli *cli, const struct cli_target *t, const struct cli_restore *r)
{
    char size[32];

    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "name", t->name);
        crn_json_i64(j, "version", t->version);
        crn_json_str(j, "to", r->to);
        crn_json_u64(j, "files", r->files);
        crn_json_u64(j, "bytes", r->bytes);
        crn_json_bool(j, "by_rank", r->by_rank);
        return crn_cli_json_end(cli, CLI_OK);
    }
    crn_human_bytes(r->bytes, size, sizeof(size));
    (void)printf("%s@%" PRId64 ": %" PRIu64 " files, %s in '%s'%s\n", t->name, t->version, r->files,
                 size, r->to, r->by_rank ? ", a directory for each rank" : "");
    return crn_cli_end(cli, CLI_OK);
}

static int restore_checkpoint(struct cli *cli, const char *text, const struct restore_options *o)
{
    struct cli_restore r = {.cli = cli,
                            .fs = crn_fs_default(),
                            .to = o->to,
                            .dfd = -1,
                            .rank = o->rank,
                            .is_forced = o->is_forced};
    struct cli_items items = {0};
    struct cli_target t = {.version = -1};
    cairn_err rc;
    int status;

    rc = crn_cli_pick(&cli->store, text, &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_open(&cli->store, t.name, t.version, &r.v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_items_load(r.v, &items, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_make_dirs(r.fs, AT_FDCWD, o->to, 0777, &r.dfd, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_restore_files(&r, &items, cli->ei);
    rc = crn_err_context(cli->ei, rc, "restore of '%s'", text);
    status = rc != CAIRN_OK ? crn_cli_fail_reading(cli, r.v, NULL) : restore_report(cli, &t, &r);
    if (r.dfd >= 0)
        (void)r.fs->close(r.fs, r.dfd);
    crn_items_free(&items);
    crn_version_close(r.v);
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
