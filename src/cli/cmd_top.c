/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn top: the checkpoints of the jobs on this node, as they are captured and flushed. Reads what
 * the jobs keep in shared memory, no file system of the site, so that it also works while that hangs. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/top.h"
#include "service/census.h"

#define SECOND   INT64_C(1000000000)
#define FEW      4 /* checkpoints of a run that are shown, besides those in flight */
#define SHORTEST ((uint64_t)SECOND / 10)
#define LONGEST  ((uint64_t)SECOND * 3600)

struct top {
    struct cli *cli;
    int everyone; /* all users */
    int all;      /* all checkpoints of each run */
    int is_paused;
    int has_help;
    uint64_t every_ns; /* between two looks */
    struct crn_census now, before;
    int64_t now_ns, before_ns; /* monotonic; 0: there is none */
    char host[65];
};

static cairn_err top_look(struct top *t)
{
    struct crn_census c;
    cairn_err rc = crn_census_take(crn_fs_posix(), &t->cli->cfg, t->everyone, &c, t->cli->ei);

    if (rc != CAIRN_OK)
        return rc;
    crn_census_free(&t->before);
    t->before = t->now;
    t->before_ns = t->now_ns;
    t->now = c;
    t->now_ns = crn_clock_real()->mono_ns(crn_clock_real());
    return CAIRN_OK;
}

static int is_persistent(const struct crn_census_item *item)
{
    return strcmp(crn_census_state(item), "persistent") == 0;
}

/* Bytes that became persistent since the look before, a second; negative: unknown. */
static double rate_of(const struct top *t, const struct crn_census_run *r)
{
    const struct crn_census_run *old = NULL;
    uint64_t bytes = 0;
    size_t i, k;

    for (i = 0; i < t->before.n; i++)
        if (strcmp(t->before.run[i].run, r->run) == 0)
            old = &t->before.run[i];
    if (old == NULL || t->now_ns <= t->before_ns)
        return -1;
    for (i = 0; i < r->nitems; i++) {
        for (k = 0; k < old->nitems; k++)
            if (old->item[k].seq == r->item[i].seq)
                break;
        if (is_persistent(&r->item[i]) && (k == old->nitems || !is_persistent(&old->item[k])))
            bytes += r->item[i].bytes;
    }
    return (double)bytes / ((double)(t->now_ns - t->before_ns) / (double)SECOND);
}

/* Text. ---------------------------------------------------------------------------------------- */

static const char *life_of(const struct crn_census_run *r)
{
    if (r->has_ranks)
        return r->has_service ? "running" : "running, its service is dead";
    return r->has_service ? "ranks ended" : "dead: `cairn drain` saves what it left";
}

static enum cli_colour colour_of(const char *state)
{
    if (strcmp(state, "persistent") == 0 || strcmp(state, "restored") == 0)
        return CLI_GOOD;
    if (strcmp(state, "failed") == 0 || strcmp(state, "kept") == 0)
        return CLI_BAD;
    return CLI_BUSY;
}

/* A version that some ranks of the node have captured and others not yet is being captured. */
static const char *state_of(const struct crn_census_run *r, const struct crn_census_item *item)
{
    const char *state = crn_census_state(item);

    return strcmp(state, "captured") == 0 && crn_census_ranks(item) < r->place.nlocal ? "capturing"
                                                                                      : state;
}

static void put_run(FILE *out, const struct top *t, const struct crn_census_run *r)
{
    char use[32], all[32], rate[40] = "-", number[32], age[32];
    double bytes = rate_of(t, r);
    struct passwd *pw = t->everyone ? getpwuid(r->uid) : NULL;

    crn_human_bytes(r->in_use_bytes, use, sizeof(use));
    crn_human_bytes(r->arena_bytes, all, sizeof(all));
    if (bytes >= 0)
        crn_human_bytes((uint64_t)bytes, number, sizeof(number));
    if (bytes >= 0)
        (void)snprintf(rate, sizeof(rate), "%s/s", number);
    crn_output_age((uint64_t)r->since_ns, age, sizeof(age));
    (void)fprintf(out, "%s%s%s  run %.8s", crn_output_colour(CLI_BOLD),
                  r->job[0] != '\0' ? r->job : "(no job name)", crn_output_colour(CLI_PLAIN),
                  r->run);
    if (t->everyone)
        (void)fprintf(out, "  user %s", pw != NULL ? pw->pw_name : "?");
    (void)fprintf(out,
                  "  %u of %u ranks, node %u of %u  %s for %s\n"
                  "  memory %s of %s in use, %s committed, to %s\n",
                  r->place.nlocal, r->place.ranks, r->place.node + 1, r->place.nodes, life_of(r),
                  age, use, all, rate, r->persistent);
    if (r->error[0] != '\0')
        (void)fprintf(out, "  %s%s%s\n", crn_output_colour(CLI_BAD), r->error,
                      crn_output_colour(CLI_PLAIN));
}

static void put_item(FILE *out, const struct crn_census_run *r, const struct crn_census_item *item)
{
    const char *state = state_of(r, item);
    char text[CAIRN_MAX_NAME + 32], size[32], age[32];

    (void)snprintf(text, sizeof(text), "%s@%" PRId64, item->name, item->version);
    crn_human_bytes(item->bytes, size, sizeof(size));
    crn_output_age(item->created_ns, age, sizeof(age));
    (void)fprintf(out, "  %-28s %s%-11s%s %5u/%-5u %10s %10s\n", text,
                  crn_output_colour(colour_of(state)), state, crn_output_colour(CLI_PLAIN),
                  crn_census_ranks(item), r->place.nlocal, size, age);
}

static void put_items(FILE *out, const struct top *t, const struct crn_census_run *r)
{
    size_t shown = 0, left = 0;
    size_t i;

    if (r->nitems > 0)
        (void)fprintf(out, "  %-28s %-11s %11s %10s %10s\n", "CHECKPOINT", "STATE", "RANKS HERE",
                      "SIZE", "AGE");
    for (i = 0; i < r->nitems; i++) {
        int is_over = is_persistent(&r->item[i]) || r->item[i].ranks[CRN_SLOT_READ] > 0;

        if (!t->all && is_over && shown >= FEW) {
            left++;
            continue;
        }
        put_item(out, r, &r->item[i]);
        shown++;
    }
    if (left > 0)
        (void)fprintf(out, "  and %zu older ones in memory\n", left);
}

static void put_all(FILE *out, const struct top *t, int is_live)
{
    char date[40], every[32];
    size_t i;

    crn_output_date((uint64_t)crn_clock_real()->wall_ns(crn_clock_real()), date, sizeof(date));
    crn_human_time((double)t->every_ns / (double)SECOND, every, sizeof(every));
    (void)fprintf(out, "cairn top  %s  %s  %zu run%s", t->host, date, t->now.n,
                  t->now.n == 1 ? "" : "s");
    if (is_live)
        (void)fprintf(out, "  every %s%s  h: keys", every, t->is_paused ? ", paused" : "");
    (void)fputc('\n', out);
    if (t->has_help)
        (void)fputs("  q quit   space look now   p pause   + - faster, slower\n"
                    "  a all checkpoints, or the newest and those in flight   u all users\n",
                    out);
    if (t->now.n == 0)
        (void)fprintf(out, "\nno run of %s on this node\n",
                      t->everyone ? "anybody whose files can be read" : "yours");
    for (i = 0; i < t->now.n; i++) {
        (void)fputc('\n', out);
        put_run(out, t, &t->now.run[i]);
        put_items(out, t, &t->now.run[i]);
    }
}

/* JSON. ---------------------------------------------------------------------------------------- */

static void json_item(struct crn_json *j, const struct crn_census_run *r,
                      const struct crn_census_item *item)
{
    crn_json_object(j, NULL);
    crn_json_str(j, "name", item->name);
    crn_json_i64(j, "version", item->version);
    crn_json_u64(j, "seq", item->seq);
    crn_json_str(j, "state", state_of(r, item));
    crn_json_u64(j, "ranks", crn_census_ranks(item));
    crn_json_u64(j, "bytes", item->bytes);
    crn_json_u64(j, "created_ns", item->created_ns);
    crn_json_end_object(j);
}

static void json_run(struct crn_json *j, const struct crn_census_run *r)
{
    size_t i;

    crn_json_object(j, NULL);
    crn_json_str(j, "run", r->run);
    crn_json_str(j, "job", r->job);
    crn_json_u64(j, "uid", r->uid);
    crn_json_u64(j, "node", r->place.node);
    crn_json_u64(j, "nodes", r->place.nodes);
    crn_json_u64(j, "ranks", r->place.ranks);
    crn_json_u64(j, "ranks_here", r->place.nlocal);
    crn_json_bool(j, "ranks_alive", r->has_ranks);
    crn_json_bool(j, "service_alive", r->has_service);
    crn_json_i64(j, "since_ns", r->since_ns);
    crn_json_str(j, "persistent", r->persistent);
    crn_json_u64(j, "arenas", r->arenas);
    crn_json_u64(j, "arena_bytes", r->arena_bytes);
    crn_json_u64(j, "in_use_bytes", r->in_use_bytes);
    crn_json_str(j, "error", r->error[0] != '\0' ? r->error : NULL);
    crn_json_array(j, "checkpoints");
    for (i = 0; i < r->nitems; i++)
        json_item(j, r, &r->item[i]);
    crn_json_end_array(j);
    crn_json_end_object(j);
}

static int top_once(struct top *t)
{
    struct crn_json *j;
    size_t i;

    if (top_look(t) != CAIRN_OK)
        return crn_cli_fail(t->cli);
    if (!t->cli->is_json) {
        put_all(stdout, t, 0);
        return crn_cli_end(t->cli, CLI_OK);
    }
    j = crn_cli_json(t->cli);
    crn_json_str(j, "host", t->host);
    crn_json_i64(j, "time_ns", crn_clock_real()->wall_ns(crn_clock_real()));
    crn_json_array(j, "runs");
    for (i = 0; i < t->now.n; i++)
        json_run(j, &t->now.run[i]);
    crn_json_end_array(j);
    return crn_cli_json_end(t->cli, CLI_OK);
}

/* Live. ---------------------------------------------------------------------------------------- */

static cairn_err top_draw(struct top *t)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (out != NULL)
        put_all(out, t, 1);
    if (out == NULL || fclose(out) != 0) {
        free(text);
        return crn_fail(t->cli->ei, CAIRN_ENOMEM, ENOMEM, "a screen");
    }
    crn_screen_draw(text);
    free(text);
    return CAIRN_OK;
}

/* Returns 0 when the user wants to leave. */
static int on_key(struct top *t, int key)
{
    switch (key) {
    case 'q':
    case 'Q':
        return 0;
    case 'p':
        t->is_paused = !t->is_paused;
        break;
    case 'a':
        t->all = !t->all;
        break;
    case 'u':
        t->everyone = !t->everyone;
        break;
    case 'h':
    case '?':
        t->has_help = !t->has_help;
        break;
    case '+':
        t->every_ns = t->every_ns / 2 < SHORTEST ? SHORTEST : t->every_ns / 2;
        break;
    case '-':
        t->every_ns = t->every_ns * 2 > LONGEST ? LONGEST : t->every_ns * 2;
        break;
    default:
        break;
    }
    return 1;
}

static int top_live(struct top *t)
{
    cairn_err rc = top_look(t);
    int key = 0;

    if (rc != CAIRN_OK)
        return crn_cli_fail(t->cli); /* before the screen is taken: the message stays */
    if (crn_screen_begin() != 0)
        return top_once(t);
    while (rc == CAIRN_OK) {
        rc = top_draw(t);
        key = rc == CAIRN_OK ? crn_screen_key((int64_t)(t->every_ns / 1000000)) : -1;
        if (key < 0 || !on_key(t, key))
            break;
        if (!t->is_paused || key == ' ' || key == 'u')
            rc = top_look(t);
    }
    crn_screen_end();
    return rc == CAIRN_OK ? CLI_OK : crn_cli_fail(t->cli);
}

static int top_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"once", no_argument, NULL, '1'},
                                          {"interval", required_argument, NULL, 'i'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"users", no_argument, NULL, 'u'},
                                          {0}};
    struct top t = {.cli = cli, .every_ns = (uint64_t)SECOND};
    int is_once = cli->is_json || !isatty(STDOUT_FILENO);
    int status;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "1i:au", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (c == 'i' && crn_parse_time(optarg, &t.every_ns, cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
        is_once |= c == '1';
        t.all |= c == 'a';
        t.everyone |= c == 'u';
    }
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (t.every_ns < SHORTEST || t.every_ns > LONGEST)
        return crn_cli_usage(cli, "--interval must be between 0.1 s and 1 h");
    if (gethostname(t.host, sizeof(t.host) - 1) != 0)
        (void)snprintf(t.host, sizeof(t.host), "?");
    status = is_once ? top_once(&t) : top_live(&t);
    crn_census_free(&t.now);
    crn_census_free(&t.before);
    return status;
}

const struct cli_command crn_cmd_top = {
    .name = "top",
    .args = "[--once] [--interval TIME] [--all] [--users]",
    .help = "Shows the checkpoints of the running jobs on this node, live",
    .about =
        "For each run on this node: how many of its ranks are here, whether they and their node "
        "service live, the memory for captures, and its checkpoints with their states. "
        "capturing: a rank still copies. captured: all ranks of this node have, and the flush "
        "has not begun. flushing: it is being written. persistent: it is committed. failed: "
        "the log says why; kept: failed, and kept in memory for a drain. reading and "
        "restored: a restart reads it.\n"
        "The numbers are this node's; `cairn ls` lists what is committed. Nothing but the "
        "node's shared memory is read, so that it works while a file system hangs.\n"
        "Keys: q quits, space looks at once, p pauses, + and - look more or less often, a "
        "shows all checkpoints, u all users, h the keys. Where standard output is no "
        "terminal, and with --json, it looks once.",
    .run = top_run,
    .options = "  -1, --once        look once and end\n"
               "  -i, --interval TIME  time between two looks (1s)\n"
               "  -a, --all         all checkpoints, not only the newest and those in flight\n"
               "  -u, --users       the runs of all users whose files can be read\n",
};
