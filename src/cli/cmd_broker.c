/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn broker: which jobs hold the token, which wait, why and until when; and what
 * administrators can change. Users see their own requests, administrators all. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/admin.h"
#include "policy/policy.h"

#define TIMEOUT_NS 10000000000LL
#define MAX_ROWS   10000

struct broker_options {
    struct crn_bp_query query;
    unsigned watch_s; /* 0: print once */
};

struct view {
    struct cli *cli;
    struct cli_table tokens, requests, users;
    size_t ntokens, nrequests, nusers;
    enum crn_bp_type in; /* JSON: the array that is open has such rows */
};

static cairn_err connect_broker(struct cli *cli, struct crn_admin **ret)
{
    struct crn_broker_link_config link;
    const struct crn_config *cfg = &cli->cfg;

    if (cfg->broker[0] == '\0')
        return crn_fail(cli->ei, CAIRN_ECONFIG, 0,
                        "no broker is configured; name it with --at ADDRESS or the key broker");
    crn_broker_link_configure(&link, cfg);
    link.timeout_ns = TIMEOUT_NS;
    return crn_admin_open(&link, ret, cli->ei);
}

/* Status. -------------------------------------------------------------------------------------- */

static void time_cell(struct cli_table *t, uint64_t ns)
{
    char text[32] = "-";

    if (ns != CRN_BP_UNKNOWN)
        crn_human_time((double)ns * 1e-9, text, sizeof(text));
    crn_table_add(t, "%s", text);
}

static void add_token(struct cli_table *t, const struct crn_bp_token_row *row)
{
    crn_table_add(t, "%s", row->token);
    crn_table_add(t, "%s", row->policy);
    crn_table_add(t, "%" PRIu32 "/%" PRIu32, row->holders, row->slots);
    crn_table_add(t, "%" PRIu32, row->waiting);
    time_cell(t, row->waiting > 0 ? row->oldest_ns : CRN_BP_UNKNOWN);
    crn_table_add(t, "%" PRIu64, row->granted);
    crn_table_add(t, "%s",
                  row->is_draining   ? "drained"
                  : row->is_dry      ? "dry run"
                  : row->is_settling ? "settling"
                                     : "open");
}

static void add_request(struct cli_table *t, const struct crn_bp_request_row *row)
{
    char size[32] = "-";

    if (row->bytes > 0)
        crn_human_bytes(row->bytes, size, sizeof(size));
    crn_table_add(t, "%" PRIu64, row->id);
    crn_table_add(t, "%s", row->token);
    crn_table_add(t, "%s", row->user);
    crn_table_add(t, "%s", row->job[0] != '\0' ? row->job : "-");
    crn_table_add(t, "%" PRIu32, row->nodes);
    crn_table_add(t, "%s", crn_io_kind_name((enum crn_io_kind)row->kind));
    crn_table_add(t, "%s", size);
    if (row->state == CRN_BP_WAITING) {
        crn_table_add(t, "waits, place %" PRIu32, row->place);
        time_cell(t, row->age_ns);
        time_cell(t, row->start_ns);
    } else {
        if (row->bytes > 0 && row->done != CRN_BP_UNKNOWN)
            crn_table_add(t, "holds, %.0f %%", 100.0 * (double)row->done / (double)row->bytes);
        else
            crn_table_add(t, "holds");
        time_cell(t, row->held_ns);
        crn_table_add(t, "-");
    }
    crn_table_add(t, "%s", crn_bp_why_text(row->why));
}

static void add_user(struct cli_table *t, const struct crn_bp_user_row *row)
{
    crn_table_add(t, "%s", row->user);
    crn_table_add(t, "%.1f %%", (double)row->share * 1e-4);
    crn_table_add(t, "%g", (double)row->weight * 1e-3);
    crn_table_add(t, "%" PRIu32, row->jobs);
}

static void begin_tables(struct view *v)
{
    static const char *const tokens[] = {"TOKEN",       "POLICY", "HOLDERS", "WAITING",
                                         "OLDEST WAIT", "GIVEN",  "STATE"};
    static const char *const requests[] = {"ID",   "TOKEN", "USER", "JOB",    "NODES", "KIND",
                                           "SIZE", "STATE", "FOR",  "STARTS", "WHY"};
    static const char *const users[] = {"USER", "SHARE", "WEIGHT", "JOBS"};
    size_t i;

    crn_table_begin(&v->tokens, "llrrrrl");
    for (i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        crn_table_add(&v->tokens, "%s", tokens[i]);
    crn_table_begin(&v->requests, "rlllrlrlrrl");
    for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        crn_table_add(&v->requests, "%s", requests[i]);
    crn_table_begin(&v->users, "lrrr");
    for (i = 0; i < sizeof(users) / sizeof(users[0]); i++)
        crn_table_add(&v->users, "%s", users[i]);
}

static void on_row(void *arg, const struct crn_bp_msg *row)
{
    struct view *v = arg;

    if (row->type == CRN_BP_TOKEN_ROW) {
        add_token(&v->tokens, &row->u.token_row);
        v->ntokens++;
    } else if (row->type == CRN_BP_USER_ROW) {
        add_user(&v->users, &row->u.user_row);
        v->nusers++;
    } else {
        add_request(&v->requests, &row->u.request_row);
        v->nrequests++;
    }
}

static void json_token(struct crn_json *j, const struct crn_bp_token_row *row)
{
    crn_json_object(j, NULL);
    crn_json_str(j, "token", row->token);
    crn_json_str(j, "policy", row->policy);
    crn_json_u64(j, "slots", row->slots);
    crn_json_u64(j, "holders", row->holders);
    crn_json_u64(j, "waiting", row->waiting);
    crn_json_bool(j, "draining", row->is_draining);
    crn_json_bool(j, "settling", row->is_settling);
    crn_json_bool(j, "dry_run", row->is_dry);
    crn_json_u64(j, "granted", row->granted);
    crn_json_u64(j, "returned", row->returned);
    crn_json_u64(j, "taken", row->taken);
    crn_json_u64(j, "canceled", row->canceled);
    crn_json_f64(j, "oldest_wait_s", (double)row->oldest_ns * 1e-9);
    crn_json_end_object(j);
}

static void json_request(struct crn_json *j, const struct crn_bp_request_row *row)
{
    crn_json_object(j, NULL);
    crn_json_u64(j, "id", row->id);
    crn_json_str(j, "token", row->token);
    crn_json_str(j, "user", row->user);
    crn_json_str(j, "job", row->job);
    crn_json_u64(j, "nodes", row->nodes);
    crn_json_str(j, "kind", crn_io_kind_name((enum crn_io_kind)row->kind));
    crn_json_str(j, "state", row->state == CRN_BP_WAITING ? "waiting" : "holding");
    crn_json_str(j, "why", crn_bp_why_text(row->why));
    crn_json_u64(j, "place", row->place);
    if (row->start_ns == CRN_BP_UNKNOWN)
        crn_json_str(j, "starts_in_s", NULL);
    else
        crn_json_f64(j, "starts_in_s", (double)row->start_ns * 1e-9);
    crn_json_f64(j, "waited_s", (double)(row->age_ns - row->held_ns) * 1e-9);
    crn_json_f64(j, "held_s", (double)row->held_ns * 1e-9);
    crn_json_u64(j, "bytes", row->bytes);
    if (row->done == CRN_BP_UNKNOWN)
        crn_json_str(j, "done", NULL);
    else
        crn_json_u64(j, "done", row->done);
    crn_json_f64(j, "duration_s", (double)row->duration_ns * 1e-9);
    crn_json_end_object(j);
}

static void json_user(struct crn_json *j, const struct crn_bp_user_row *row)
{
    crn_json_object(j, NULL);
    crn_json_str(j, "user", row->user);
    crn_json_f64(j, "share", (double)row->share * 1e-6);
    crn_json_f64(j, "weight", (double)row->weight * 1e-3);
    crn_json_u64(j, "jobs", row->jobs);
    crn_json_end_object(j);
}

/* Opens the array of these rows, and those before it that had none. */
static void json_rows(struct view *v, enum crn_bp_type type)
{
    struct crn_json *j = &v->cli->json;

    if (v->in == CRN_BP_TOKEN_ROW && type != v->in) {
        crn_json_end_array(j);
        crn_json_array(j, "requests");
        v->in = CRN_BP_REQUEST_ROW;
    }
    if (v->in == CRN_BP_REQUEST_ROW && type != v->in) {
        crn_json_end_array(j);
        crn_json_array(j, "users");
        v->in = CRN_BP_USER_ROW;
    }
}

/* Token rows come first, then requests, then users. */
static void on_json_row(void *arg, const struct crn_bp_msg *row)
{
    struct view *v = arg;
    struct crn_json *j = &v->cli->json;

    json_rows(v, row->type);
    if (row->type == CRN_BP_TOKEN_ROW)
        json_token(j, &row->u.token_row);
    else if (row->type == CRN_BP_REQUEST_ROW)
        json_request(j, &row->u.request_row);
    else
        json_user(j, &row->u.user_row);
}

static int show_json(struct cli *cli, struct crn_admin *admin, const struct broker_options *opt)
{
    const struct crn_bp_welcome *welcome = crn_admin_welcome(admin);
    struct view v = {.cli = cli, .in = CRN_BP_TOKEN_ROW};
    struct crn_json *j = crn_cli_json(cli);
    int status = CLI_OK;

    crn_json_str(j, "broker", cli->cfg.broker);
    crn_json_str(j, "user", welcome->user);
    crn_json_bool(j, "is_admin", welcome->is_admin);
    crn_json_array(j, "tokens");
    if (crn_admin_query(admin, &opt->query, on_json_row, &v, cli->ei) != CAIRN_OK)
        status = crn_cli_fail(cli);
    json_rows(&v, CRN_BP_USER_ROW);
    crn_json_end_array(j);
    status = crn_cli_json_end(cli, status);
    cli->has_json = 0; /* --watch starts another document */
    return status;
}

static int show_text(struct cli *cli, struct crn_admin *admin, const struct broker_options *opt)
{
    struct view v = {.cli = cli};
    cairn_err rc;

    begin_tables(&v);
    rc = crn_admin_query(admin, &opt->query, on_row, &v, cli->ei);
    if (rc == CAIRN_OK && v.ntokens == 0)
        rc = crn_fail(cli->ei, CAIRN_ENOENT, 0, "the broker has no token '%s'", opt->query.token);
    if (rc == CAIRN_OK) {
        if (opt->watch_s > 0 && isatty(STDOUT_FILENO))
            (void)fputs("\033[H\033[2J", stdout);
        crn_table_print(&v.tokens);
        if (v.nrequests > 0) {
            (void)putchar('\n');
            crn_table_print(&v.requests);
        }
        if (v.nusers > 0) {
            (void)putchar('\n');
            crn_table_print(&v.users);
        }
    }
    crn_table_free(&v.tokens);
    crn_table_free(&v.requests);
    crn_table_free(&v.users);
    return rc == CAIRN_OK ? crn_cli_end(cli, CLI_OK) : crn_cli_fail(cli);
}

static int show_once(struct cli *cli, const struct broker_options *opt)
{
    struct crn_admin *admin = NULL;
    int status;

    if (connect_broker(cli, &admin) != CAIRN_OK)
        return crn_cli_fail(cli);
    status = cli->is_json ? show_json(cli, admin, opt) : show_text(cli, admin, opt);
    crn_admin_close(admin);
    return status;
}

/* --watch continues while the broker is away, which is worth showing too. */
static int broker_show(struct cli *cli, const struct broker_options *opt)
{
    int status = show_once(cli, opt);

    while (opt->watch_s > 0 && !ferror(stdout)) {
        (void)sleep(opt->watch_s);
        crn_err_clear(cli->ei);
        status = show_once(cli, opt);
    }
    return status;
}

/* Changes. ------------------------------------------------------------------------------------- */

static int broker_control(struct cli *cli, const struct crn_bp_control *c, const char *done)
{
    struct crn_admin *admin = NULL;
    cairn_err rc;

    rc = connect_broker(cli, &admin);
    if (rc == CAIRN_OK)
        rc = crn_admin_control(admin, c, cli->ei);
    crn_admin_close(admin);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    if (cli->is_json) {
        crn_json_str(crn_cli_json(cli), "done", done);
        return crn_cli_json_end(cli, CLI_OK);
    }
    (void)printf("%s\n", done);
    return crn_cli_end(cli, CLI_OK);
}

static int copy_name(struct cli *cli, const char *from, char *to)
{
    if (strlen(from) >= CRN_BP_NAME)
        return crn_cli_usage(cli, "'%.20s...' is too long", from);
    memcpy(to, from, strlen(from) + 1);
    return CLI_OK;
}

static int do_drain(struct cli *cli, int argc, char **argv, const struct broker_options *opt)
{
    struct crn_bp_control c = {.op = CRN_BP_OP_DRAIN};
    int is_resume = strcmp(argv[0], "resume") == 0;

    (void)opt;
    if (is_resume)
        c.op = CRN_BP_OP_RESUME;
    if (argc > 2)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[2]);
    if (argc == 2 && copy_name(cli, argv[1], c.token) != CLI_OK)
        return CLI_USAGE;
    return broker_control(cli, &c,
                          is_resume ? "resumed" : "drained: holders end, nobody else starts");
}

static int do_policy(struct cli *cli, int argc, char **argv, const struct broker_options *opt)
{
    struct crn_bp_control c = {.op = CRN_BP_OP_POLICY};

    if (argc == 1)
        return broker_show(cli, opt);
    if (argc > 3)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[3]);
    if (copy_name(cli, argv[argc - 1], c.argument) != CLI_OK ||
        (argc == 3 && copy_name(cli, argv[1], c.token) != CLI_OK))
        return CLI_USAGE;
    return broker_control(cli, &c, "policy changed");
}

static int do_cancel(struct cli *cli, int argc, char **argv, const struct broker_options *opt)
{
    struct crn_bp_control c = {.op = CRN_BP_OP_CANCEL};
    int64_t id;

    (void)opt;
    if (argc != 2)
        return crn_cli_usage(cli, "cancel needs the ID of a request");
    if (crn_cli_number(cli, "ID", argv[1], &id) != 0)
        return CLI_USAGE;
    c.id = (uint64_t)id;
    return broker_control(cli, &c, "canceled");
}

static int do_status(struct cli *cli, int argc, char **argv, const struct broker_options *opt)
{
    struct broker_options one = *opt;

    if (argc > 2)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[2]);
    if (argc == 2 && copy_name(cli, argv[1], one.query.token) != CLI_OK)
        return CLI_USAGE;
    return broker_show(cli, &one);
}

static const struct action {
    const char *name;
    int (*run)(struct cli *cli, int argc, char **argv, const struct broker_options *opt);
} actions[] = {
    {"status", do_status}, {"drain", do_drain},   {"resume", do_drain},
    {"policy", do_policy}, {"cancel", do_cancel},
};

static int read_options(struct cli *cli, int argc, char **argv, struct broker_options *opt)
{
    static const struct option longs[] = {
        {"watch", optional_argument, NULL, 'w'}, {"at", required_argument, NULL, 'a'}, {0}};
    int64_t seconds = 2;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "w", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (c == 'a' && crn_config_set(&cli->cfg, "broker", optarg, "--at", cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
        if (c != 'w')
            continue;
        if (optarg != NULL && crn_cli_number(cli, "--watch", optarg, &seconds) != 0)
            return CLI_USAGE;
        opt->watch_s = seconds < 1 ? 1 : (unsigned)seconds;
    }
    return CLI_OK;
}

static int broker_run(struct cli *cli, int argc, char **argv)
{
    struct broker_options opt = {.query = {.max_requests = MAX_ROWS}};
    int status = read_options(cli, argc, argv, &opt);
    size_t i;

    if (status != CLI_OK)
        return status;
    if (optind == argc)
        return crn_cli_usage(cli, "expected status, drain, resume, policy or cancel");
    for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(actions[i].name, argv[optind]) == 0)
            return actions[i].run(cli, argc - optind, argv + optind, &opt);
    return crn_cli_usage(cli, "'%s' is not one of status, drain, resume, policy, cancel",
                         argv[optind]);
}

const struct cli_command crn_cmd_broker = {
    .name = "broker",
    .args = "status [TOKEN] | drain [TOKEN] | resume [TOKEN] | policy [TOKEN] [NAME] | cancel ID",
    .words = "status drain resume policy cancel",
    .help = "Shows who holds and who waits for the file system, and changes it",
    .about = "`status` tells who holds the token of the file system and who waits: "
             "since when, in which place, why, and when each may expect to start; and "
             "the share of the tokens' time that each user has had in about the last "
             "hour. You see your own requests and share, administrators all. `cancel` takes back a "
             "request: your own, or any as an administrator.\n"
             "For administrators: after `drain` no new job starts, until `resume`; "
             "`policy` changes the order.",
    .run = broker_run,
    .options = "  --at ADDRESS      the broker (key broker): host:port or unix:/path\n"
               "  --watch[=SECONDS] again and again\n",
};
