/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn ingest: turns files that a program has written into versions. */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#include "cli/ingest.h"

struct ingest_options {
    struct cli_target as;
    struct cli_patterns patterns;
    int64_t ranks; /* 0: derived from the files */
    int is_forced, is_removing;
};

static void ingest_report(struct cli *cli, const struct cli_ingest *g, const struct cli_set *set,
                          int64_t version, const struct cli_ingested *done)
{
    char size[32], stored[32];

    if (cli->is_json) {
        crn_json_object(&cli->json, NULL);
        crn_json_str(&cli->json, "name", g->name);
        crn_json_i64(&cli->json, "version", version);
        crn_json_u64(&cli->json, "ranks", set->ranks);
        crn_json_u64(&cli->json, "files", set->n);
        crn_json_u64(&cli->json, "bytes", done->bytes);
        crn_json_u64(&cli->json, "stored_bytes", done->file_bytes);
        crn_json_f64(&cli->json, "seconds", done->seconds);
        crn_json_bool(&cli->json, "was_there", done->was_there);
        crn_json_end_object(&cli->json);
        return;
    }
    crn_human_bytes(done->bytes, size, sizeof(size));
    crn_human_bytes(done->file_bytes, stored, sizeof(stored));
    if (done->was_there)
        (void)printf("%s@%" PRId64 ": was there already\n", g->name, version);
    else
        (void)printf("%s@%" PRId64 ": %zu file%s of %" PRIu32 " rank%s, %s, stored as %s\n",
                     g->name, version, set->n, CLI_S(set->n), set->ranks, CLI_S(set->ranks), size,
                     stored);
}

static int take_set(struct cli *cli, struct cli_ingest *g, const struct ingest_options *o,
                    struct cli_set *set)
{
    int64_t version = set->step >= 0 ? set->step : o->as.version;
    struct cli_ingested done;
    char why[CRN_ERR_TEXT];
    cairn_err rc;

    if (!crn_set_is_complete(set, &o->patterns, why, sizeof(why)))
        return crn_cli_problem(cli, CAIRN_EINVAL, "%s", why);
    rc = crn_ingest_set(g, set, version, o->is_forced ? CLI_REPLACE_ANY : CLI_REPLACE_NEVER,
                        o->is_removing, &done, cli->ei);
    if (rc == CAIRN_OK) {
        ingest_report(cli, g, set, done.version, &done);
        if (o->is_removing)
            rc = crn_ingest_remove(g, set, done.version, cli->ei);
    }
    return rc != CAIRN_OK ? crn_cli_fail(cli) : CLI_OK;
}

static cairn_err sort_files(const struct ingest_options *o, char **files, size_t n,
                            struct cli_sets *ret, struct crn_errinfo *ei)
{
    size_t i, k;

    for (i = 0; i < n && o->patterns.n > 0; i++) {
        struct cli_match m;

        for (k = 0; k < o->patterns.n; k++) {
            const char *name = crn_sets_tail(o->patterns.text[k], files[i]);

            if (name != NULL && crn_sets_match(o->patterns.text[k], name, &m))
                break;
        }
        if (k == o->patterns.n)
            return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' fits no pattern", files[i]);
    }
    return o->patterns.n > 0 ? crn_sets_sort(&o->patterns, files, n, (uint32_t)o->ranks, ret, ei)
                             : crn_sets_list(files, n, ret, ei);
}

static int ingest_files(struct cli *cli, const struct ingest_options *o, char **files, size_t n)
{
    struct cli_sets sets = {0};
    struct cli_ingest g;
    char path[CRN_PATH_MAX];
    int status = CLI_OK;
    cairn_err rc;
    size_t i;

    rc = sort_files(o, files, n, &sets, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_ingest_open(&cli->cfg, o->as.name, crn_cli_hdf5(cli, path, sizeof(path)), &g,
                             cli->ei);
    if (rc != CAIRN_OK) {
        crn_sets_free(&sets);
        return crn_cli_fail(cli);
    }
    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "versions");
    for (i = 0; i < sets.n; i++)
        if (take_set(cli, &g, o, &sets.set[i]) != CLI_OK)
            status = CLI_PROBLEM;
    crn_ingest_close(&g);
    crn_sets_free(&sets);
    if (!cli->is_json)
        return crn_cli_end(cli, status);
    crn_json_end_array(&cli->json);
    return crn_cli_json_end(cli, status);
}

/* 0, or -1 after printing the error. */
static int take_option(struct cli *cli, struct ingest_options *o, int c)
{
    cairn_err rc = CAIRN_OK;

    switch (c) {
    case 'a':
        rc = crn_cli_target(optarg, &o->as, cli->ei);
        break;
    case 'p':
        rc = crn_sets_add_pattern(&o->patterns, optarg, cli->ei);
        break;
    case 'n':
        return crn_cli_number(cli, "ranks", optarg, &o->ranks);
    case 'f':
        o->is_forced = 1;
        return 0;
    case 'R':
        o->is_removing = 1;
        return 0;
    default:
        return -1;
    }
    if (rc == CAIRN_OK)
        return 0;
    (void)crn_cli_usage(cli, "%s", cli->info.msg);
    return -1;
}

static int ingest_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"as", required_argument, NULL, 'a'},    {"pattern", required_argument, NULL, 'p'},
        {"ranks", required_argument, NULL, 'n'}, {"force", no_argument, NULL, 'f'},
        {"remove", no_argument, NULL, 'R'},      {0}};
    struct ingest_options o = {.as = {.version = -1}};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "a:p:n:f", longs)) != -1)
        if (take_option(cli, &o, c) != 0)
            return CLI_USAGE;
    if (o.as.name[0] == '\0')
        return crn_cli_usage(cli, "the checkpoint needs a name: use --as NAME[@VERSION]");
    if (optind == argc)
        return crn_cli_usage(cli, "which files?");
    if (o.ranks >= CRN_MAX_RANKS || (o.ranks > 0 && o.patterns.n == 0))
        return crn_cli_usage(cli, o.patterns.n == 0 ? "--ranks needs a --pattern"
                                                    : "so many ranks are not possible");
    if (crn_sets_have_steps(&o.patterns) && o.as.version >= 0)
        return crn_cli_usage(cli, "the pattern determines the version: write --as %s", o.as.name);
    return ingest_files(cli, &o, argv + optind, (size_t)(argc - optind));
}

const struct cli_command crn_cmd_ingest = {
    .name = "ingest",
    .args = "--as NAME[@VERSION] [--pattern P]... [--ranks N] [-f] [--remove] FILE...",
    .help = "Makes versions of files that a program has written",
    .about = "Makes versions of files that a program has written. A pattern such as "
             "out.{step}.{rank}.h5 tells the version and the rank of each; without one "
             "the first file is rank 0's, the next rank 1's. Variables inside HDF5 and "
             "netCDF files are merged over ranks and compressed, as the key `encode` "
             "says. `--remove` removes the files after the commit.",
    .run = ingest_run,
    .options =
        "  -a, --as NAME     what the checkpoint is called; NAME@VERSION: and its version\n"
        "  -p, --pattern P   names of the files, as 'out.{step}.{rank}.h5': the step is the\n"
        "                    version; else the first file is rank 0's, the next rank 1's\n"
        "  -n, --ranks N     as many ranks have files; default: as many as are named\n"
        "  -f, --force       replace a version that holds something else\n"
        "  --remove          remove the files after the commit\n",
};
