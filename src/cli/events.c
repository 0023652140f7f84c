/* SPDX-License-Identifier: BSD-3-Clause */
/* The history of versions, from the journals of the names. Damaged records are not shown. */
#include "cli/events.h"

#include <inttypes.h>
#include <string.h>

cairn_err crn_events_read(struct cli *cli, const char *name, int64_t version,
                          struct crn_journal *ret)
{
    cairn_err rc = crn_journal_read(&cli->store, name, ret, cli->ei);
    size_t kept = 0;
    size_t i;

    if (rc != CAIRN_OK || version < 0)
        return rc;
    for (i = 0; i < ret->n; i++)
        if (ret->v[i].version == version)
            ret->v[kept++] = ret->v[i];
    ret->n = kept;
    return CAIRN_OK;
}

uint64_t crn_events_count(const struct crn_journal *j, const char *kind)
{
    uint64_t n = 0;
    size_t i;

    for (i = 0; i < j->n; i++)
        n += strcmp(j->v[i].kind, kind) == 0;
    return n;
}

static void add_json(struct crn_json *json, const char *name, const struct crn_journal *j)
{
    size_t i;

    for (i = 0; i < j->n; i++) {
        const struct crn_event *e = &j->v[i];

        crn_json_object(json, NULL);
        crn_json_str(json, "name", name);
        crn_json_i64(json, "version", e->version);
        crn_json_str(json, "kind", e->kind);
        crn_json_u64(json, "time_ns", e->time_ns);
        crn_json_str(json, "job", e->job);
        crn_json_str(json, "run", e->run);
        crn_json_str(json, "text", e->text);
        crn_json_end_object(json);
    }
}

void crn_events_json(struct cli *cli, const char *key, const char *name,
                     const struct crn_journal *j)
{
    crn_json_array(&cli->json, key);
    add_json(&cli->json, name, j);
    crn_json_end_array(&cli->json);
}

static void add_rows(struct cli_table *t, const char *name, const struct crn_journal *j)
{
    char date[64];
    size_t i;

    for (i = 0; i < j->n; i++) {
        const struct crn_event *e = &j->v[i];

        crn_output_date(e->time_ns, date, sizeof(date));
        crn_table_add(t, "%s", date);
        crn_table_add(t, "%s", name);
        crn_table_add(t, "%" PRId64, e->version);
        crn_table_add(t, "%s", e->job[0] != '\0' ? e->job : "-");
        crn_table_add(t, "%s", e->kind);
        crn_table_add(t, "%s", e->text);
    }
}

struct event_list {
    struct cli_table table;
    size_t n;
};

static int list_name(struct cli *cli, const char *name, int64_t version, struct event_list *l)
{
    struct crn_journal j;

    if (crn_events_read(cli, name, version, &j) != CAIRN_OK)
        return crn_cli_fail(cli);
    l->n += j.n;
    if (cli->is_json)
        add_json(&cli->json, name, &j);
    else
        add_rows(&l->table, name, &j);
    crn_journal_free(&j);
    return CLI_OK;
}

static int list_all(struct cli *cli, struct event_list *l)
{
    struct crn_names names;
    int status = CLI_OK;
    size_t i;

    if (crn_journal_names(&cli->store, &names, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    for (i = 0; i < names.n; i++)
        if (list_name(cli, names.name[i], -1, l) != CLI_OK)
            status = CLI_PROBLEM;
    crn_names_free(&names);
    return status;
}

static int list_named(struct cli *cli, int argc, char **argv, struct event_list *l)
{
    int status = CLI_OK;
    int i;

    for (i = 0; i < argc; i++) {
        struct cli_target t;
        int one = crn_cli_target(argv[i], &t, cli->ei) != CAIRN_OK
                      ? crn_cli_fail(cli)
                      : list_name(cli, t.name, t.version, l);

        if (one != CLI_OK)
            status = CLI_PROBLEM;
    }
    return status;
}

int crn_events_list(struct cli *cli, int argc, char **argv)
{
    static const char *const head[] = {"TIME", "NAME", "VERSION", "JOB", "WHAT", "WHY"};
    struct event_list l = {0};
    int status;
    size_t i;

    if (cli->is_json) {
        (void)crn_cli_json(cli);
        crn_json_str(&cli->json, "directory", cli->cfg.persistent);
        crn_json_array(&cli->json, "events");
    }
    crn_table_begin(&l.table, "llrlll");
    for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
        crn_table_add(&l.table, "%s", head[i]);
    status = argc > 0 ? list_named(cli, argc, argv, &l) : list_all(cli, &l);
    if (cli->is_json) {
        crn_table_free(&l.table);
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, status);
    }
    if (l.n > 0)
        crn_table_print(&l.table);
    else if (status == CLI_OK)
        crn_cli_note(cli, "nothing is recorded in '%s'", cli->cfg.persistent);
    crn_table_free(&l.table);
    return crn_cli_end(cli, status);
}
