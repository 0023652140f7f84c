/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of cairn-broker. Contradictory settings are refused before it listens. */
#include "broker/conf.h"

#include <string.h>

#include "base/config_impl.h"
#include "base/log.h"
#include "broker/address.h"

#define K         ((uint64_t)1 << 10)
#define M         ((uint64_t)1 << 20)
#define SEC       UINT64_C(1000000000)
#define DAY       (86400 * SEC)
#define AT(f)     offsetof(struct crn_broker_conf, f), 0
#define AT_T(f)   offsetof(struct crn_token_conf, f), 0
#define SIZE(f)   sizeof(((struct crn_broker_conf *)0)->f)
#define SIZE_T(f) sizeof(((struct crn_token_conf *)0)->f)

static const char *const log_values[] = {"error", "warn", "info", "debug", "trace", NULL};

static const char *const page_values[] = {"off", "totals", "details", NULL};

static const char *const share_values[] = {"user", "account", NULL};

static const char *const switch_values[] = {"off", "on", NULL};

static const struct crn_key broker_keys[] = {
    {"listen", CRN_KEY_TEXT, "0.0.0.0:" CRN_BROKER_PORT, 0, SIZE(listen), NULL,
     "Where jobs connect: host:port, [v6]:port or unix:/path, several separated by commas.",
     AT(listen)},
    {"auth", CRN_KEY_TEXT, "munge", 0, SIZE(auth), NULL,
     "Accepted ways to log in: munge, key, peer (Unix sockets only).", AT(auth)},
    {"key_file", CRN_KEY_TEXT, "", 0, SIZE(login.key_file), NULL,
     "Keys of all users, one line \"user 64-hex-digits\" each. Only the broker may be able to read "
     "it.",
     AT(login.key_file)},
    {"munge_socket", CRN_KEY_TEXT, "", 0, SIZE(login.munge_socket), NULL,
     "Socket of munged. Empty: MUNGE's default.", AT(login.munge_socket)},
    {"admins", CRN_KEY_TEXT, "root", 0, SIZE(admins), NULL,
     "Users that may see and cancel all requests, drain tokens and choose policies.", AT(admins)},
    {"state", CRN_KEY_TEXT, "", 0, SIZE(state), NULL,
     "File that keeps drained tokens and chosen policies over a restart. Empty: a restart "
     "forgets them.",
     AT(state)},
    {"peers", CRN_KEY_TEXT, "", 0, SIZE(peers), NULL,
     "Addresses at which the site's brokers serve jobs, separated by commas; this one's own may be "
     "among them. One broker serves, the others stand by. Empty: there is only this one.",
     AT(peers)},
    {"takeover", CRN_KEY_TIME, "3s", SEC / 10, 1 * DAY, NULL,
     "If none of the peers has answered for this time, this broker serves.", AT(takeover_ns)},
    {"decisions", CRN_KEY_TEXT, "", 0, SIZE(decisions), NULL,
     "File to which each decision is appended as a line of JSON. Empty: none.", AT(decisions)},
    {"metrics", CRN_KEY_TEXT, "", 0, SIZE(metrics), NULL,
     "host:port of the HTTP server with OpenMetrics at /metrics. Empty: none. It has no login: "
     "bind it where only your monitoring reaches it.",
     AT(metrics)},
    {"page", CRN_KEY_ENUM, "totals", 0, 0, page_values,
     "The status page at / of that server: off, totals, or details with the names of users and "
     "jobs.",
     AT(page)},
    {"history", CRN_KEY_TIME, "6h", SEC, 366 * DAY, NULL, "Time that the page's pictures show.",
     AT(history_ns)},
    {"lease", CRN_KEY_TIME, "30s", SEC / 20, 1 * DAY, NULL,
     "A job that is silent this long loses its token and its place in the queue.", AT(lease_ns)},
    {"grace", CRN_KEY_TIME, "15s", SEC / 20, 1 * DAY, NULL,
     "The same for a job whose connection broke.", AT(grace_ns)},
    {"settle", CRN_KEY_TIME, "15s", 0, 1 * DAY, NULL,
     "For this time after its start the broker grants nothing, so that jobs can report the tokens "
     "that they hold.",
     AT(settle_ns)},
    {"stall", CRN_KEY_TIME, "10m", 0, 366 * DAY, NULL,
     "A holder that moves no bytes this long loses its token. 0: never.", AT(stall_ns)},
    {"hold", CRN_KEY_TIME, "0", 0, 366 * DAY, NULL, "Longest time to hold a token. 0: no limit.",
     AT(hold_ns)},
    {"starve", CRN_KEY_TIME, "6h", 0, 366 * DAY, NULL,
     "A job that has waited this long is next, whatever the policy says. 0: never.", AT(starve_ns)},
    {"forecast", CRN_KEY_TIME, "2s", 0, 1 * DAY, NULL,
     "Minimum time between two computations of places in the queue and expected starts.",
     AT(forecast_ns)},
    {"max_connections", CRN_KEY_U64, "16384", 1, 1 << 20, NULL,
     "Logged-in connections at a time; also the most jobs.", AT(max_connections)},
    {"max_user_connections", CRN_KEY_U64, "4096", 1, 1 << 20, NULL,
     "Connections of one user at a time.", AT(max_user_connections)},
    {"admin_connections", CRN_KEY_U64, "16", 0, 65536, NULL,
     "Connections of max_connections that are reserved for administrators.", AT(admin_connections)},
    {"idle", CRN_KEY_TIME, "1h", SEC / 10, 366 * DAY, NULL,
     "A connection without a request is closed after this time of silence.", AT(idle_ns)},
    {"user_share", CRN_KEY_U64, "100", 1, 100, NULL,
     "Percentage of a token's time, over about the last hour, that one user gets while others "
     "wait. "
     "Within that the policy decides.",
     AT(user_share)},
    {"shares", CRN_KEY_TEXT, "", 0, SIZE(shares), NULL,
     "Weights, such as alice:4,bob:2, or with share_by = account @physics:4: multiples of "
     "user_share. The others have 1.",
     AT(shares)},
    {"share_by", CRN_KEY_ENUM, "user", 0, 0, share_values,
     "Who has a share: each user, or each account of Slurm (needs slurm = on).", AT(share_by)},
    {"slurm", CRN_KEY_ENUM, "off", 0, 0, switch_values,
     "on: squeue tells the nodes and the account of each job. A job that is no running job of its "
     "user in Slurm counts as one node.",
     AT(slurm)},
    {"max_nodes", CRN_KEY_U64, "0", 0, UINT64_C(1) << 32, NULL,
     "Nodes of the largest job; a larger claim counts as this number. 0: any number.",
     AT(max_nodes)},
    {"alone", CRN_KEY_TIME, "10m", 0, 366 * DAY, NULL,
     "Jobs that write without a grant, because the broker was away, count as holders: for this "
     "time in total per user, and afterwards for a tenth of the time. 0: always.",
     AT(alone_ns)},
    {"max_user_jobs", CRN_KEY_U64, "4096", 1, 1 << 20, NULL, "Jobs of one user at a time.",
     AT(max_user_jobs)},
    {"max_logins", CRN_KEY_U64, "256", 1, 65536, NULL,
     "Logins in progress; a further one replaces the oldest of the busiest address.",
     AT(max_logins)},
    {"max_address_logins", CRN_KEY_U64, "64", 1, 65536, NULL,
     "Logins in progress from one address; a further one replaces an older one.",
     AT(max_address_logins)},
    {"login_timeout", CRN_KEY_TIME, "5s", SEC / 100, 600 * SEC, NULL,
     "A connection that has not logged in after this time is closed.", AT(login_timeout_ns)},
    {"messages_per_second", CRN_KEY_U64, "20", 1, 1 << 20, NULL,
     "Messages that the broker reads from one connection per second; the rest waits in the socket.",
     AT(messages_per_second)},
    {"backlog_bytes", CRN_KEY_BYTES, "4M", 64 * K, 1024 * M, NULL,
     "A peer that leaves this much unread is dropped.", AT(backlog_bytes)},
    {"log_level", CRN_KEY_ENUM, "info", 0, 0, log_values,
     "Least severe lines that are logged, to standard error.", AT(log_level)},
};

static const struct crn_key token_keys[] = {
    {"paths", CRN_KEY_TEXT, "", 0, SIZE_T(paths), NULL,
     "Directories of its file system, such as /lustre/scratch, separated by commas. A job that "
     "names no token and writes there uses this one.",
     AT_T(paths)},
    {"slots", CRN_KEY_U64, "1", 1, 65536, NULL, "Jobs that may hold the token at a time.",
     AT_T(slots)},
    {"budget", CRN_KEY_BYTES, "0", 0, UINT64_C(1) << 60, NULL,
     "Bytes per second that all holders together are expected to use. The next job starts when "
     "its rate fits, up to slots. 0: only slots counts.",
     AT_T(budget)},
    {"bandwidth", CRN_KEY_BYTES, "0", 0, UINT64_C(1) << 60, NULL,
     "Bytes per second that one holder gets. Predicts the length of transfers that the job cannot "
     "predict. 0: unknown.",
     AT_T(bandwidth)},
    {"policy", CRN_KEY_TEXT, "delay-cost", 0, SIZE_T(policy), NULL,
     "Which job is next: delay-cost, least-waste, ordered-nb, ordered, oblivious, ...",
     AT_T(policy)},
    {"node_mtbf", CRN_KEY_TIME, "1825d", 0, 366000 * DAY, NULL,
     "Mean time between failures of one node. 0: nodes do not fail.", AT_T(node_mtbf_ns)},
    {"dry_run", CRN_KEY_ENUM, "off", 0, 0, switch_values,
     "on: every job starts at once, and the broker notes what it would have decided.",
     AT_T(is_dry)},
};

#define NBROKER (sizeof(broker_keys) / sizeof(broker_keys[0]))
#define NTOKEN  (sizeof(token_keys) / sizeof(token_keys[0]))

static cairn_err set_key(const struct crn_key *keys, size_t n, void *base, const char *name,
                         const char *value, struct crn_errinfo *ei)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (strcmp(keys[i].name, name) == 0)
            return crn_err_context(ei, crn_key_set(&keys[i], base, value, ei), "%s", name);
    return crn_fail(ei, CAIRN_ECONFIG, 0, "unknown key '%s'", name);
}

static void set_defaults(const struct crn_key *keys, size_t n, void *base)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (crn_key_set(&keys[i], base, keys[i].def, NULL) != CAIRN_OK)
            memset(base, 0xff, 1); /* a bug in the table; the unit test detects it */
}

void crn_broker_conf_defaults(struct crn_broker_conf *conf)
{
    memset(conf, 0, sizeof(*conf));
    set_defaults(broker_keys, NBROKER, conf);
}

static cairn_err find_token(struct crn_broker_conf *conf, const char *name,
                            struct crn_token_conf **ret, struct crn_errinfo *ei)
{
    struct crn_token_conf *token;
    cairn_err rc;
    size_t i;

    for (i = 0; i < conf->ntokens; i++) {
        *ret = &conf->token[i];
        if (strcmp(conf->token[i].name, name) == 0)
            return CAIRN_OK;
    }
    rc = crn_check_name("token name", name, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (conf->ntokens == CRN_BROKER_TOKENS || strlen(name) >= sizeof(token->name))
        return crn_fail(ei, CAIRN_ECONFIG, 0, "token '%s': too many, or the name is too long",
                        name);
    token = &conf->token[conf->ntokens++];
    set_defaults(token_keys, NTOKEN, token);
    memcpy(token->name, name, strlen(name) + 1);
    *ret = token;
    return CAIRN_OK;
}

static cairn_err set_in_section(void *arg, const char *section, const char *key, const char *value,
                                const char *where, struct crn_errinfo *ei)
{
    struct crn_broker_conf *conf = arg;
    struct crn_token_conf *token;
    cairn_err rc;

    if (section[0] == '\0' || strcmp(section, "broker") == 0) {
        rc = key != NULL ? set_key(broker_keys, NBROKER, conf, key, value, ei) : CAIRN_OK;
    } else if (strncmp(section, "token ", 6) == 0) {
        rc = find_token(conf, section + 6, &token, ei);
        if (rc == CAIRN_OK && key != NULL)
            rc = set_key(token_keys, NTOKEN, token, key, value, ei);
    } else {
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "unknown section; known are [broker], [token NAME]");
    }
    return crn_err_context(ei, rc, "%s", where);
}

/* Lists. --------------------------------------------------------------------------------------- */

int crn_broker_list_has(const char *list, const char *item)
{
    char one[CRN_PATH_MAX];

    while (crn_address_next(&list, one, sizeof(one)))
        if (strcmp(one, item) == 0)
            return 1;
    return 0;
}

/* Checks. -------------------------------------------------------------------------------------- */

static cairn_err check_auth(const struct crn_broker_conf *conf, struct crn_errinfo *ei)
{
    const char *at = conf->auth;
    char name[CRN_BP_NAME];
    int n = 0;

    for (; crn_address_next(&at, name, sizeof(name)); n++) {
        if (crn_auth_by_name(name) == NULL)
            return crn_fail(ei, CAIRN_ECONFIG, 0, "auth: '%s' is not one of munge, key, peer",
                            name);
        if (strcmp(name, "key") == 0 && conf->login.key_file[0] == '\0')
            return crn_fail(ei, CAIRN_ECONFIG, 0, "auth = key needs a key_file");
    }
    return n > 0 ? CAIRN_OK : crn_fail(ei, CAIRN_ECONFIG, 0, "auth: no user could log in");
}

static cairn_err check_token(const struct crn_token_conf *token, struct crn_errinfo *ei)
{
    const char *at = token->paths;
    char path[CRN_TURNS_PATHS];

    if (crn_policy_find(token->policy) == NULL)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "token %s: no policy '%s'", token->name,
                        token->policy);
    if (token->budget > 0 && token->slots == 1)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "token %s: with slots = 1 a budget says nothing; set slots to the most "
                        "jobs that may write at a time",
                        token->name);
    while (crn_address_next(&at, path, sizeof(path)))
        if (path[0] != '/')
            return crn_fail(ei, CAIRN_ECONFIG, 0, "token %s: paths: '%s' is not absolute",
                            token->name, path);
    return CAIRN_OK;
}

static cairn_err check_listen(const struct crn_broker_conf *conf, struct crn_errinfo *ei)
{
    unsigned n;
    cairn_err rc = crn_err_context(ei, crn_address_check(conf->listen, &n, ei), "listen");

    if (rc == CAIRN_OK && n == 0)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "listen: an address is needed");
    if (rc == CAIRN_OK)
        rc = crn_err_context(ei, crn_address_check(conf->peers, &n, ei), "peers");
    /* Two brokers that begin at once find each other before one of them grants anything. */
    if (rc == CAIRN_OK && n > 0 && conf->settle_ns < conf->takeover_ns)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "with peers, settle must be at least takeover");
    return rc;
}

cairn_err crn_broker_conf_check(const struct crn_broker_conf *conf, struct crn_errinfo *ei)
{
    cairn_err rc;
    size_t i;

    rc = check_auth(conf, ei);
    if (rc == CAIRN_OK && conf->share_by && !conf->slurm)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "share_by = account needs slurm = on");
    if (rc == CAIRN_OK)
        rc = check_listen(conf, ei);
    for (i = 0; rc == CAIRN_OK && i < conf->ntokens; i++)
        rc = check_token(&conf->token[i], ei);
    return rc;
}

cairn_err crn_broker_conf_text(struct crn_broker_conf *conf, const char *text, const char *what,
                               struct crn_errinfo *ei)
{
    return crn_config_ini_text(text, what, set_in_section, conf, ei);
}

cairn_err crn_broker_conf_load(struct crn_broker_conf *conf, const char *file,
                               struct crn_errinfo *ei)
{
    struct crn_token_conf *token;
    cairn_err rc = CAIRN_OK;

    crn_broker_conf_defaults(conf);
    if (file != NULL)
        rc = crn_config_ini_file(file, set_in_section, conf, ei);
    if (rc == CAIRN_OK && conf->ntokens == 0)
        rc = find_token(conf, "default", &token, ei);
    if (rc == CAIRN_OK)
        rc = crn_broker_conf_check(conf, ei);
    return rc;
}

/* Dump. ---------------------------------------------------------------------------------------- */

static void dump_keys(const struct crn_key *keys, size_t n, const void *base, FILE *out,
                      int with_help)
{
    char value[CRN_BROKER_LIST];
    size_t i;

    for (i = 0; i < n; i++) {
        crn_key_format(&keys[i], base, value, sizeof(value));
        if (with_help)
            (void)fprintf(out, "# %s\n", keys[i].help);
        (void)fprintf(out, "%s = %s\n", keys[i].name, value);
    }
}

int crn_broker_conf_dump(const struct crn_broker_conf *conf, FILE *out, int with_help)
{
    size_t i;

    (void)fprintf(out, "[broker]\n");
    dump_keys(broker_keys, NBROKER, conf, out, with_help);
    for (i = 0; i < conf->ntokens; i++) {
        (void)fprintf(out, "\n[token %s]\n", conf->token[i].name);
        dump_keys(token_keys, NTOKEN, &conf->token[i], out, with_help);
    }
    return ferror(out) ? -1 : 0;
}

void crn_broker_conf_turns(const struct crn_broker_conf *conf, uint64_t epoch,
                           struct crn_turns_token *token, struct crn_turns_config *ret)
{
    size_t i;

    for (i = 0; i < conf->ntokens; i++) {
        const struct crn_token_conf *c = &conf->token[i];

        token[i] = (struct crn_turns_token){.slots = (uint32_t)c->slots,
                                            .bandwidth = c->bandwidth,
                                            .budget = c->budget,
                                            .is_dry = c->is_dry != 0,
                                            .policy = crn_policy_find(c->policy),
                                            .node_mtbf_s = (double)c->node_mtbf_ns * 1e-9};
        memcpy(token[i].name, c->name, sizeof(token[i].name));
        memcpy(token[i].paths, c->paths, sizeof(token[i].paths));
    }
    *ret = (struct crn_turns_config){
        .token = token,
        .ntokens = conf->ntokens,
        .epoch = epoch,
        .lease_ns = (int64_t)conf->lease_ns,
        .grace_ns = (int64_t)conf->grace_ns,
        .settle_ns = (int64_t)conf->settle_ns,
        .stall_ns = (int64_t)conf->stall_ns,
        .hold_ns = (int64_t)conf->hold_ns,
        .starve_ns = (int64_t)conf->starve_ns,
        .forecast_ns = (int64_t)conf->forecast_ns,
        .alone_ns = (int64_t)conf->alone_ns,
        .max_conns = (uint32_t)(conf->max_connections + conf->max_logins),
        .max_jobs = (uint32_t)conf->max_connections,
        .max_user_jobs = (uint32_t)conf->max_user_jobs,
        .max_nodes = conf->max_nodes > UINT32_MAX ? UINT32_MAX : (uint32_t)conf->max_nodes,
        .user_share = (double)conf->user_share / 100,
        .shares = conf->shares,
        .is_confirming = conf->slurm != 0,
        .by_account = conf->share_by != 0,
    };
}
