/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn rm, pin, unpin: change the status of versions, one at a time. */
#include "cli/cli.h"

#include <inttypes.h>

struct change {
    const char *done; /* past tense, for the report */
    cairn_err (*apply)(const struct crn_store *st, const char *name, int64_t version,
                       struct crn_errinfo *ei);
};

static cairn_err rm_pin(const struct crn_store *st, const char *name, int64_t version,
                        struct crn_errinfo *ei)
{
    return crn_store_pin(st, name, version, 1, ei);
}

static cairn_err rm_unpin(const struct crn_store *st, const char *name, int64_t version,
                          struct crn_errinfo *ei)
{
    return crn_store_pin(st, name, version, 0, ei);
}

static void rm_report(struct cli *cli, const struct cli_target *t, const struct change *change)
{
    if (cli->is_json) {
        crn_json_object(&cli->json, NULL);
        crn_json_str(&cli->json, "name", t->name);
        crn_json_i64(&cli->json, "version", t->version);
        crn_json_end_object(&cli->json);
    } else {
        (void)printf("%s %s@%" PRId64 "\n", change->done, t->name, t->version);
    }
}

static cairn_err change_one(struct cli *cli, const char *text, const struct change *change,
                            struct crn_errinfo *ei)
{
    struct cli_target t;
    cairn_err rc;

    rc = crn_cli_target(text, &t, ei);
    if (rc == CAIRN_OK && t.version < 0) /* never guess which version to change */
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "'%s' names no version: write %s@12", text, t.name);
    if (rc == CAIRN_OK)
        rc = change->apply(&cli->store, t.name, t.version, ei);
    if (rc == CAIRN_OK)
        rm_report(cli, &t, change);
    return rc;
}

/* Retries busy versions while others succeed: a busy one may be the base of a version removed
 * later. */
static int change_list(struct cli *cli, int n, char **words, const struct change *change)
{
    int status = CLI_OK;
    int left = n;
    int before, i;

    do {
        before = left;
        n = left;
        for (left = 0, i = 0; i < n; i++) {
            struct crn_errinfo why = {0};
            cairn_err rc = change_one(cli, words[i], change, &why);

            if (rc == CAIRN_EBUSY)
                words[left++] = words[i];
            if (rc == CAIRN_OK || rc == CAIRN_EBUSY)
                continue;
            crn_err_keep(cli->ei, &why);
            status = crn_cli_fail(cli);
        }
    } while (left > 0 && left < before);
    for (i = 0; i < left; i++)
        if (change_one(cli, words[i], change, cli->ei) != CAIRN_OK)
            status = crn_cli_fail(cli);
    return status;
}

static int change_all(struct cli *cli, int argc, char **argv, const struct change *change)
{
    int status;

    if (crn_cli_option(cli, argc, argv, "", NULL) != -1)
        return CLI_USAGE;
    if (optind == argc)
        return crn_cli_usage(cli, "which version?");
    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), change->done);
    status = change_list(cli, argc - optind, argv + optind, change);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, status);
    }
    return crn_cli_end(cli, status);
}

static int run_rm(struct cli *cli, int argc, char **argv)
{
    static const struct change change = {"removed", crn_store_remove};

    return change_all(cli, argc, argv, &change);
}

static int run_pin(struct cli *cli, int argc, char **argv)
{
    static const struct change change = {"pinned", rm_pin};

    return change_all(cli, argc, argv, &change);
}

static int run_unpin(struct cli *cli, int argc, char **argv)
{
    static const struct change change = {"unpinned", rm_unpin};

    return change_all(cli, argc, argv, &change);
}

const struct cli_command crn_cmd_rm = {
    .name = "rm",
    .args = "NAME@VERSION...",
    .help = "Removes versions; pinned ones are refused, and those that others need",
    .needs_store = 1,
    .run = run_rm,
};
const struct cli_command crn_cmd_pin = {
    .name = "pin",
    .args = "NAME@VERSION...",
    .help = "Protects versions from being removed or replaced",
    .needs_store = 1,
    .run = run_pin,
};
const struct cli_command crn_cmd_unpin = {
    .name = "unpin",
    .args = "NAME@VERSION...",
    .help = "Takes the protection away",
    .needs_store = 1,
    .run = run_unpin,
};
