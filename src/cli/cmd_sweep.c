/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn sweep: removes debris: files that no manifest names and no live writer owns. */
#include "cli/cli.h"

#include <inttypes.h>

struct sweep_options {
    uint64_t min_age_ns;
    int force, dry_run;
};

static void sweep_report(struct cli *cli, const char *name, const struct crn_sweep_result *r,
                         int dry_run)
{
    char size[32];

    if (cli->is_json) {
        struct crn_json *j = &cli->json;

        crn_json_object(j, NULL);
        crn_json_str(j, "name", name);
        crn_json_bool(j, "busy", r->busy);
        crn_json_u64(j, "files", r->files);
        crn_json_u64(j, "directories", r->dirs);
        crn_json_u64(j, "bytes", r->bytes);
        crn_json_u64(j, "kept", r->kept);
        crn_json_u64(j, "complete", r->complete);
        crn_json_end_object(j);
        return;
    }
    if (r->busy) {
        (void)printf("%s: in use by a running job, left alone\n", name);
        return;
    }
    crn_human_bytes(r->bytes, size, sizeof(size));
    if (r->files > 0 || r->dirs > 0)
        (void)printf("%s: %s %" PRIu32 " file%s and %" PRIu32 " director%s, %s\n", name,
                     dry_run ? "would remove" : "removed", r->files, CLI_S(r->files), r->dirs,
                     r->dirs == 1 ? "y" : "ies", size);
    if (r->kept > 0)
        (void)printf("%s: kept %" PRIu32 " whole data files that a drain may still complete; "
                     "--force removes them\n",
                     name, r->kept);
    if (r->complete > 0)
        (void)printf("%s: %" PRIu32 " of its checkpoints are complete but not published: "
                     "'cairn drain' publishes them\n",
                     name, r->complete);
}

static int sweep_name(struct cli *cli, const char *name, const struct sweep_options *o)
{
    struct crn_sweep_result r = {0};
    cairn_err rc;

    rc = crn_check_name("checkpoint name", name, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_store_sweep(&cli->store, name, -1, (int64_t)o->min_age_ns, o->force, o->dry_run,
                             crn_clock_real(), &r, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    sweep_report(cli, name, &r, o->dry_run);
    return CLI_OK;
}

static int sweep_names(struct cli *cli, int argc, char **argv, const struct sweep_options *o)
{
    struct crn_names names = {0};
    int status = CLI_OK;
    size_t n;
    size_t i;

    if (argc == 0 && crn_store_names(&cli->store, &names, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    n = argc == 0 ? names.n : (size_t)argc;
    for (i = 0; i < n; i++)
        if (sweep_name(cli, argc == 0 ? names.name[i] : argv[i], o) != CLI_OK)
            status = CLI_PROBLEM;
    crn_names_free(&names);
    return status;
}

static int sweep_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"force", no_argument, NULL, 'f'},
                                          {"dry-run", no_argument, NULL, 'n'},
                                          {"min-age", required_argument, NULL, 'a'},
                                          {0}};
    struct sweep_options o = {.min_age_ns = UINT64_C(86400000000000)};
    int status;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "fn", longs)) != -1) {
        if (c == 'f')
            o.force = 1;
        else if (c == 'n')
            o.dry_run = 1;
        else if (c != 'a')
            return CLI_USAGE;
        else if (crn_parse_time(optarg, &o.min_age_ns, cli->ei) != CAIRN_OK ||
                 o.min_age_ns > INT64_MAX)
            return crn_cli_usage(cli, "--min-age '%s' is not a time", optarg);
    }
    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "swept");
    status = sweep_names(cli, argc - optind, argv + optind, &o);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, status);
    }
    return crn_cli_end(cli, status);
}

const struct cli_command crn_cmd_sweep = {
    .name = "sweep",
    .args = "[-n] [-f] [--min-age TIME] [NAME...]",
    .help = "Removes files that crashed jobs left in the store",
    .about = "Removes what crashed jobs left: only what is provably debris, never "
             "under a running job. A checkpoint whose data files are all there and "
             "which lacks only its manifest is kept and reported: `cairn drain` "
             "publishes it. `-f` removes it.",
    .needs_store = 1,
    .run = sweep_run,
    .options = "  -n, --dry-run     only say what would go\n"
               "  --min-age TIME    whole data files of uncommitted versions go after this time "
               "(1d)\n"
               "  -f, --force       remove those now\n",
};
