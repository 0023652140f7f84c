/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn drain: flushes the checkpoints that dead jobs left in the arenas and on the local disk
 * of this node. */
#include "cli/cli.h"

#include <inttypes.h>

#include "service/drain.h"

struct report {
    struct cli *cli;
    struct cli_table table;
    unsigned count[CRN_DRAIN_ALIVE + 1];
};

static void on_event(void *arg, const struct crn_drain_event *ev)
{
    struct report *r = arg;
    struct crn_json *j = &r->cli->json;

    r->count[ev->what]++;
    if (r->cli->is_json) {
        crn_json_object(j, NULL);
        crn_json_str(j, "run", ev->run[0] != '\0' ? ev->run : NULL);
        crn_json_str(j, "what", crn_drain_what_name(ev->what));
        crn_json_str(j, "name", ev->name[0] != '\0' ? ev->name : NULL);
        crn_json_i64(j, "version", ev->version);
        crn_json_u64(j, "missing_files", ev->missing);
        crn_json_str(j, "error",
                     ev->text[0] != '\0' && ev->what != CRN_DRAIN_COMMITTED ? ev->text : NULL);
        crn_json_str(j, "rebuilt",
                     ev->text[0] != '\0' && ev->what == CRN_DRAIN_COMMITTED ? ev->text : NULL);
        crn_json_end_object(j);
        return;
    }
    crn_table_add(&r->table, "%.8s", ev->run[0] != '\0' ? ev->run : "-");
    if (ev->name[0] != '\0' && ev->version >= 0)
        crn_table_add(&r->table, "%s@%" PRId64, ev->name, ev->version);
    else if (ev->name[0] != '\0')
        crn_table_add(&r->table, "%s", ev->name);
    else
        crn_table_add(&r->table, "-");
    crn_table_add(&r->table, "%s", crn_drain_what_name(ev->what));
    if (ev->what == CRN_DRAIN_WAITING && ev->text[0] != '\0')
        crn_table_add(&r->table, "%" PRIu32 " file%s missing: %s", ev->missing,
                      ev->missing == 1 ? " is" : "s are", ev->text);
    else if (ev->what == CRN_DRAIN_WAITING)
        crn_table_add(&r->table, "%" PRIu32 " file%s of other nodes %s missing: drain there too",
                      ev->missing, CLI_S(ev->missing), ev->missing == 1 ? "is" : "are");
    else if (ev->what == CRN_DRAIN_COMMITTED && ev->text[0] != '\0')
        crn_table_add(&r->table, "rebuilt: %s", ev->text);
    else
        crn_table_add(&r->table, "%s", ev->text);
}

static int drain_run(struct cli *cli, int argc, char **argv)
{
    struct report r = {.cli = cli};
    cairn_err rc;
    unsigned i, n = 0;

    if (crn_cli_option(cli, argc, argv, "", NULL) != -1)
        return CLI_USAGE;
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (cli->is_json) {
        crn_json_array(crn_cli_json(cli), "drained");
    } else {
        crn_table_begin(&r.table, "llll");
        crn_table_add(&r.table, "RUN");
        crn_table_add(&r.table, "CHECKPOINT");
        crn_table_add(&r.table, "STATE");
        crn_table_add(&r.table, "%s", "");
    }
    rc = crn_drain_host(crn_fs_default(), &cli->cfg, 0, on_event, &r, cli->ei);
    for (i = 0; i <= CRN_DRAIN_ALIVE; i++)
        n += r.count[i];
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        crn_json_bool(&cli->json, "ok", rc == CAIRN_OK);
        return crn_cli_json_end(cli, rc == CAIRN_OK ? CLI_OK : CLI_PROBLEM);
    }
    if (n > 0)
        crn_table_print(&r.table);
    else
        (void)printf("nothing to drain on this node\n");
    crn_table_free(&r.table);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    return crn_cli_end(cli, CLI_OK);
}

const struct cli_command crn_cmd_drain = {
    .name = "drain",
    .args = "",
    .help = "Saves what dead jobs left in this node's memory and local disk",
    .about = "Saves what dead jobs left in the memory and on the local disk of this "
             "node, and publishes checkpoints in the store that lack only their "
             "manifest. What cannot be saved now stays where it is: it is listed with "
             "the reason, the exit status is 1, and the next drain tries again.",
    .run = drain_run,
};
