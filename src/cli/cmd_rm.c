/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn rm, pin, unpin: change the status of versions, one at a time. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "cli/select.h"

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

/* A dry run. */
static cairn_err rm_nothing(const struct crn_store *st, const char *name, int64_t version,
                            struct crn_errinfo *ei)
{
    (void)st;
    (void)name;
    (void)version;
    (void)ei;
    return CAIRN_OK;
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

static cairn_err change_one(struct cli *cli, const struct cli_target *t,
                            const struct change *change, struct crn_errinfo *ei)
{
    cairn_err rc = change->apply(&cli->store, t->name, t->version, ei);

    if (rc == CAIRN_OK)
        rm_report(cli, t, change);
    return rc;
}

/* Retries busy versions while others succeed: a busy one may be the base of a version removed
 * later. */
static int change_list(struct cli *cli, struct cli_selection *sel, const struct change *change)
{
    int status = CLI_OK;
    size_t left = sel->n;
    size_t before, n, i;

    do {
        before = left;
        n = left;
        for (left = 0, i = 0; i < n; i++) {
            struct crn_errinfo why = {0};
            cairn_err rc = change_one(cli, &sel->target[i], change, &why);

            if (rc == CAIRN_EBUSY)
                sel->target[left++] = sel->target[i];
            if (rc == CAIRN_OK || rc == CAIRN_EBUSY)
                continue;
            crn_err_keep(cli->ei, &why);
            status = crn_cli_fail(cli);
        }
    } while (left > 0 && left < before);
    for (i = 0; i < left; i++)
        if (change_one(cli, &sel->target[i], change, cli->ei) != CAIRN_OK)
            status = crn_cli_fail(cli);
    return status;
}

static int change_words(struct cli *cli, int n, char **words, const struct cli_rule *rule,
                        const struct change *change)
{
    struct cli_selection sel = {0};
    int status = CLI_OK;
    int i;

    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), change->done);
    for (i = 0; i < n; i++)
        if (crn_select_word(&cli->store, words[i], rule, &sel, cli->ei) != CAIRN_OK)
            status = crn_cli_fail(cli);
    if (change_list(cli, &sel, change) != CLI_OK)
        status = CLI_PROBLEM;
    if (sel.pinned > 0)
        crn_cli_note(cli, "cairn: %zu pinned version%s; `cairn unpin` frees %s", sel.pinned,
                     sel.pinned == 1 ? " stays" : "s stay", sel.pinned == 1 ? "it" : "them");
    crn_select_free(&sel);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, status);
    }
    return crn_cli_end(cli, status);
}

static int change_all(struct cli *cli, int argc, char **argv, const struct change *change)
{
    static const struct cli_rule no_rule = {.keep = -1};

    if (crn_cli_option(cli, argc, argv, "", NULL) != -1)
        return CLI_USAGE;
    if (optind == argc)
        return crn_cli_usage(cli, "which version?");
    return change_words(cli, argc - optind, argv + optind, &no_rule, change);
}

static int rm_age(struct cli *cli, struct cli_rule *rule)
{
    struct crn_errinfo ei = {0};

    if (crn_parse_time(optarg, &rule->min_age_ns, &ei) != CAIRN_OK)
        return crn_cli_usage(cli, "--older-than: %s", ei.msg);
    return CLI_OK;
}

static int run_rm(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"keep", required_argument, NULL, 'k'},
                                          {"keep-every", required_argument, NULL, 'e'},
                                          {"older-than", required_argument, NULL, 'o'},
                                          {"dry-run", no_argument, NULL, 'n'},
                                          {0}};
    static const struct change remove = {"removed", crn_store_remove};
    static const struct change nothing = {"would remove", rm_nothing};
    struct cli_rule rule = {.keep = -1};
    const struct change *change = &remove;
    int c;

    rule.now_ns = (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
    while ((c = crn_cli_option(cli, argc, argv, "nk:", longs)) != -1) {
        if (c == 'n')
            change = &nothing;
        else if (c == '?' || (c == 'o' && rm_age(cli, &rule) != CLI_OK) ||
                 (c == 'k' && crn_cli_number_of(cli, longs, 'k', &rule.keep) != 0) ||
                 (c == 'e' && crn_cli_number_of(cli, longs, 'e', &rule.keep_every) != 0))
            return CLI_USAGE;
    }
    if (optind == argc)
        return crn_cli_usage(cli, "which version?");
    return change_words(cli, argc - optind, argv + optind, &rule, change);
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
    .args = "[-n] [--keep N] [--keep-every N] [--older-than TIME] NAME@VERSION | NAME@A..B | "
            "NAME...",
    .help = "Removes versions; refuses pinned ones, and those that others need",
    .about =
        "NAME@10..20 means the versions from 10 to 20, NAME@..20 and NAME@10.. have one bound. "
        "A NAME alone needs a rule that says which of its versions go; several rules spare "
        "what any of them spares. Ranges and rules leave pinned versions alone.\n"
        "Copies that nodes keep of a removed version are not brought back by a later start "
        "or drain. A version that others were encoded against is removed together with them "
        "or not at all; the order does not matter.",
    .needs_store = 1,
    .run = run_rm,
    .options = "  -k, --keep N      spare the N newest whole versions, and what they need\n"
               "  --keep-every N    spare versions whose number is a multiple of N\n"
               "  --older-than TIME spare versions that were committed since: 7d, 12h\n"
               "  -n, --dry-run     only say what would go\n",
};
const struct cli_command crn_cmd_pin = {
    .name = "pin",
    .args = "NAME@VERSION...",
    .help = "Protects versions from being removed or replaced",
    .about = "Retention, a later checkpoint and `cairn rm` all leave a pinned version alone.",
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
