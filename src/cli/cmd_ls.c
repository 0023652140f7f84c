/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn ls: which versions exist, and in which state. Reads manifests and sizes, no data. */
#include "cli/events.h"

#include <inttypes.h>
#include <string.h>

struct ls_list {
    struct cli_table table;
    int is_long;
    size_t rows;
};

/* "ok, pinned", and notes for the reader. */
static void add_state(struct cli_table *t, const struct crn_version_entry *e)
{
    char chain[80];

    crn_cli_chain_text(e->against, e->chain, chain, sizeof(chain));
    crn_table_add(t, "%s%s%s%s%s%s%s%s",
                  crn_output_colour(e->state == CRN_VERSION_OK ? CLI_GOOD : CLI_BAD),
                  crn_version_state_name(e->state), crn_output_colour(CLI_PLAIN),
                  e->is_pinned ? ", pinned" : "", chain[0] != '\0' ? ", " : "", chain,
                  e->state != CRN_VERSION_OK ? ": " : "", e->state != CRN_VERSION_OK ? e->why : "");
}

static void add_row(struct ls_list *l, const char *name, const struct crn_version_entry *e)
{
    struct cli_table *t = &l->table;
    char text[64];

    l->rows++;
    crn_table_add(t, "%s", name);
    crn_table_add(t, "%" PRId64, e->version);
    crn_output_age(e->created_ns, text, sizeof(text));
    crn_table_add(t, "%s", text);
    crn_table_add(t, "%" PRIu32, e->ranks);
    crn_table_add(t, "%" PRIu32, e->files);
    crn_human_bytes(e->data_bytes, text, sizeof(text));
    crn_table_add(t, "%s", text);
    if (l->is_long) {
        crn_human_bytes(e->file_bytes, text, sizeof(text));
        crn_table_add(t, "%s", text);
        crn_output_date(e->created_ns, text, sizeof(text));
        crn_table_add(t, "%s", e->created_ns != 0 ? text : "-");
        crn_table_add(t, "%s", e->job[0] != '\0' ? e->job : "-");
    }
    add_state(t, e);
}

static void add_json(struct crn_json *j, const char *name, const struct crn_version_entry *e)
{
    char run[CRN_RUN_HEX];
    uint32_t i;

    crn_run_hex(e->id.run, run);
    crn_json_object(j, NULL);
    crn_json_str(j, "name", name);
    crn_json_i64(j, "version", e->version);
    crn_json_str(j, "state", crn_version_state_name(e->state));
    crn_json_str(j, "why", e->state != CRN_VERSION_OK ? e->why : NULL);
    crn_json_bool(j, "pinned", e->is_pinned);
    crn_json_u64(j, "ranks", e->ranks);
    crn_json_u64(j, "nodes", e->nodes);
    crn_json_u64(j, "files", e->files);
    crn_json_u64(j, "bytes", e->data_bytes);
    crn_json_u64(j, "file_bytes", e->file_bytes);
    crn_json_u64(j, "created_ns", e->created_ns);
    crn_json_u64(j, "committed_ns", e->committed_ns);
    crn_json_str(j, "job", e->job);
    crn_json_str(j, "run", run);
    crn_json_u64(j, "seq", e->id.seq);
    crn_json_u64(j, "chain", e->chain);
    crn_json_array(j, "needs"); /* versions */
    for (i = 0; i < e->nneeds; i++)
        crn_json_i64(j, NULL, e->needs[i].version);
    crn_json_end_array(j);
    crn_json_end_object(j);
}

static int on_version(struct cli *cli, const char *name, const struct crn_version_entry *e,
                      void *arg)
{
    if (cli->is_json)
        add_json(&cli->json, name, e);
    else
        add_row(arg, name, e);
    return CLI_OK;
}

static void begin_table(struct ls_list *l)
{
    static const char *const head[] = {"NAME", "VERSION", "AGE", "RANKS", "FILES", "SIZE"};
    static const char *const head_long[] = {"ON DISK", "TAKEN", "JOB"};
    size_t i;

    crn_table_begin(&l->table, l->is_long ? "lrrrrrrlll" : "lrrrrrl");
    for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
        crn_table_add(&l->table, "%s", head[i]);
    for (i = 0; l->is_long && i < sizeof(head_long) / sizeof(head_long[0]); i++)
        crn_table_add(&l->table, "%s", head_long[i]);
    crn_table_add(&l->table, "STATE");
}

static int ls_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"long", no_argument, NULL, 'l'}, {"failed", no_argument, NULL, 'F'}, {0}};
    struct ls_list l = {0};
    int is_failed = 0;
    int status;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "l", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (c == 'F')
            is_failed = 1;
        else
            l.is_long = 1;
    }
    if (is_failed)
        return crn_events_list(cli, argc - optind, argv + optind);
    if (cli->is_json) {
        (void)crn_cli_json(cli);
        crn_json_str(&cli->json, "directory", cli->cfg.persistent);
        crn_json_array(&cli->json, "versions");
        status = crn_cli_each(cli, argc - optind, argv + optind, on_version, NULL);
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, status);
    }
    begin_table(&l);
    status = crn_cli_each(cli, argc - optind, argv + optind, on_version, &l);
    if (l.rows == 0 && status == CLI_OK)
        crn_cli_note(cli, "no checkpoints in '%s'", cli->cfg.persistent);
    else if (l.rows > 0)
        crn_table_print(&l.table);
    crn_table_free(&l.table);
    return crn_cli_end(cli, status);
}

const struct cli_command crn_cmd_ls = {
    .name = "ls",
    .args = "[-l | --failed] [NAME[@VERSION]...]",
    .help = "Lists names and versions with age, ranks, files, size and state",
    .about = "Names and versions with age, ranks, data files, size and state: ok, "
             "damaged, rejected (marked as bad) or partial (being written, or left by "
             "a crash). The state tells which version one was encoded against, and how "
             "many it needs in all. With `--failed` the journals of the names instead: "
             "when which version failed, paused for room, was passed over by a restart "
             "or was repaired from another copy, in which job, and why. Each name "
             "keeps its last few hundred records.",
    .needs_store = 1,
    .run = ls_run,
    .options = "  -l, --long        also size on disk, time and job\n"
               "  --failed          instead, what failed, paused, was passed over or repaired\n",
};
