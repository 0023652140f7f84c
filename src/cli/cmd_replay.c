/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn replay: runs a recorded trace of requests through the tiers' core, for every eviction
 * policy. The tiers are given as SIZE@SPEED, fastest first; the trace does not contain them. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/replay.h"

#define DEFAULT_TIERS "4G@1500G,32G@50G,inf@2G"

/* "4G@1500G": this many bytes, copied at this many bytes per second. */
static cairn_err parse_tier(const char *text, struct crn_replay_tier *ret, struct crn_errinfo *ei)
{
    const char *at = strchr(text, '@');
    char size[32];
    uint64_t bps;
    cairn_err rc;

    if (at == NULL || (size_t)(at - text) >= sizeof(size))
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "'%s' is not a tier: write SIZE@SPEED, such as 32G@50G", text);
    memcpy(size, text, (size_t)(at - text));
    size[at - text] = '\0';
    ret->capacity = UINT64_MAX;
    rc = strcmp(size, "inf") == 0 ? CAIRN_OK : crn_parse_bytes(size, &ret->capacity, ei);
    if (rc == CAIRN_OK)
        rc = crn_parse_bytes(at + 1, &bps, ei);
    if (rc == CAIRN_OK && (bps == 0 || ret->capacity == 0))
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "'%s': size and speed must be above 0", text);
    if (rc == CAIRN_OK)
        ret->bps = (double)bps;
    return rc;
}

static cairn_err parse_tiers(const char *text, struct crn_replay_options *ret,
                             struct crn_errinfo *ei)
{
    char *copy = strdup(text);
    char *rest = NULL;
    cairn_err rc = CAIRN_OK;
    char *word;

    if (copy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the tiers");
    ret->ntiers = 0;
    for (word = strtok_r(copy, ",", &rest); rc == CAIRN_OK && word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        if (ret->ntiers == CRN_TIERS_MAX)
            rc = crn_fail(ei, CAIRN_ELIMIT, 0, "more than %d tiers", CRN_TIERS_MAX);
        else
            rc = parse_tier(word, &ret->tier[ret->ntiers++], ei);
    }
    free(copy);
    if (rc == CAIRN_OK && ret->ntiers == 0)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "at least one tier is needed");
    return rc;
}

static cairn_err replay_load(const char *path, struct crn_trace *ret, struct crn_errinfo *ei)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    cairn_err rc;

    if (in == NULL)
        return crn_fail_errno(ei, errno, "open the trace '%s'", path);
    rc = crn_trace_read(in, path, ret, ei);
    if (in != stdin)
        (void)fclose(in);
    return rc;
}

/* Output. -------------------------------------------------------------------------------------- */

static void add_time(struct cli_table *t, int64_t ns)
{
    char text[32];

    crn_human_time((double)ns * 1e-9, text, sizeof(text));
    crn_table_add(t, "%s", text);
}

static void add_row(struct cli_table *t, const struct crn_replay_options *opt,
                    const struct crn_replay_result *r)
{
    uint32_t i;

    crn_table_add(t, "%s", crn_evict_name(opt->policy));
    for (i = 0; i < opt->ntiers; i++)
        crn_table_add(t, "%llu", (unsigned long long)r->hits[i]);
    crn_table_add(t, "%llu", (unsigned long long)r->waits);
    add_time(t, r->write_wait_ns);
    add_time(t, r->read_wait_ns);
    add_time(t, r->write_ns);
    add_time(t, r->read_ns);
    crn_table_add(t, "%.1f", r->reads > 0 ? (double)r->distance / (double)r->reads : 0.0);
    for (i = 0; i + 1 < opt->ntiers; i++)
        crn_table_add(t, "%.1f %%", 100 * r->fragmentation[i]);
}

static void add_json(struct crn_json *j, const struct crn_replay_options *opt,
                     const struct crn_replay_result *r)
{
    uint32_t i;

    crn_json_object(j, NULL);
    crn_json_str(j, "policy", crn_evict_name(opt->policy));
    crn_json_u64(j, "writes", r->writes);
    crn_json_u64(j, "reads", r->reads);
    crn_json_u64(j, "failed", r->failed);
    crn_json_u64(j, "written_bytes", r->written_bytes);
    crn_json_u64(j, "read_bytes", r->read_bytes);
    crn_json_u64(j, "waits", r->waits);
    crn_json_f64(j, "write_wait_s", (double)r->write_wait_ns * 1e-9);
    crn_json_f64(j, "read_wait_s", (double)r->read_wait_ns * 1e-9);
    crn_json_f64(j, "write_blocked_s", (double)r->write_ns * 1e-9);
    crn_json_f64(j, "read_blocked_s", (double)r->read_ns * 1e-9);
    crn_json_f64(j, "flush_s", (double)r->flush_ns * 1e-9);
    crn_json_f64(j, "total_s", (double)r->total_ns * 1e-9);
    crn_json_f64(j, "distance", r->reads > 0 ? (double)r->distance / (double)r->reads : 0.0);
    crn_json_array(j, "tiers");
    for (i = 0; i < opt->ntiers; i++) {
        crn_json_object(j, NULL);
        crn_json_u64(j, "hits", r->hits[i]);
        crn_json_u64(j, "flushed_bytes", r->flushed_bytes[i]);
        crn_json_u64(j, "prefetched_bytes", r->prefetched_bytes[i]);
        crn_json_f64(j, "fragmentation", r->fragmentation[i]);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
    crn_json_end_object(j);
}

static void begin_table(struct cli_table *t, uint32_t ntiers)
{
    static const char *const middle[] = {"WAITS", "WRITE WAIT", "READ WAIT",
                                         "WRITE", "READ",       "DISTANCE"};
    /* By the number of tiers: policy, hits, the median, fragmentation of all but the last. */
    static const char *const align[CRN_TIERS_MAX + 1] = {"l", "lrrrrrrr", "lrrrrrrrrr",
                                                         "lrrrrrrrrrrr", "lrrrrrrrrrrrrr"};
    uint32_t i;

    crn_table_begin(t, align[ntiers]);
    crn_table_add(t, "POLICY");
    for (i = 0; i < ntiers; i++)
        crn_table_add(t, "HITS %u", i);
    for (i = 0; i < sizeof(middle) / sizeof(middle[0]); i++)
        crn_table_add(t, "%s", middle[i]);
    for (i = 0; i + 1 < ntiers; i++)
        crn_table_add(t, "FRAGM. %u", i);
}

static int replay_trace(struct cli *cli, struct crn_replay_options *opt,
                        const struct crn_trace *trace, enum crn_evict only)
{
    struct crn_replay_result result;
    struct cli_table table;
    cairn_err rc = CAIRN_OK;
    int p;

    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "policies");
    else
        begin_table(&table, opt->ntiers);
    for (p = 0; rc == CAIRN_OK && p < CRN_EVICT_POLICIES; p++) {
        if (only != CRN_EVICT_POLICIES && p != (int)only)
            continue;
        opt->policy = (enum crn_evict)p;
        rc = crn_replay(opt, trace, &result, cli->ei);
        if (rc == CAIRN_OK && cli->is_json)
            add_json(&cli->json, opt, &result);
        else if (rc == CAIRN_OK)
            add_row(&table, opt, &result);
    }
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
    }
    if (rc == CAIRN_OK)
        crn_table_print(&table);
    crn_table_free(&table);
    return crn_cli_end(cli, rc == CAIRN_OK ? CLI_OK : crn_cli_fail(cli));
}

static int replay_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"tiers", required_argument, NULL, 't'},
                                          {"policy", required_argument, NULL, 'p'},
                                          {"discard", no_argument, NULL, 'd'},
                                          {0}};
    struct crn_replay_options opt = {0};
    enum crn_evict only = CRN_EVICT_POLICIES;
    const char *tiers = DEFAULT_TIERS;
    struct crn_trace trace;
    int status;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "t:p:d", longs)) != -1) {
        if (c == 't')
            tiers = optarg;
        else if (c == 'd')
            opt.discard_consumed = 1;
        else if (c == 'p')
            only = crn_evict_parse(optarg);
        else
            return CLI_USAGE;
        if (c == 'p' && only == CRN_EVICT_POLICIES)
            return crn_cli_usage(cli, "'%s' is not a policy: score, lru or fifo", optarg);
    }
    if (optind + 1 != argc)
        return crn_cli_usage(cli, "which trace?");
    if (parse_tiers(tiers, &opt, cli->ei) != CAIRN_OK ||
        replay_load(argv[optind], &trace, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    status = replay_trace(cli, &opt, &trace, only);
    crn_trace_free(&trace);
    return status;
}

const struct cli_command crn_cmd_replay = {
    .name = "replay",
    .args = "[--tiers SIZE@SPEED,...] [--policy P] [--discard] TRACE",
    .help = "Runs a trace of requests through the tiers, for each eviction policy",
    .run = replay_run,
    .options = "  -t, --tiers LIST  tiers, fastest first; default " DEFAULT_TIERS "\n"
               "  -p, --policy P    score, lru or fifo alone\n"
               "  -d, --discard     what was read need not be kept\n",
};
