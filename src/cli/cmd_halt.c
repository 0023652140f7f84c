/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn halt: asks running jobs to stop, through a file in the store that cairn_should_stop sees. */
#include <pwd.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "store/halt.h"

/* "+30m", "18:30" (the next one), "2026-01-31 18:30". */
static cairn_err parse_when(const char *text, uint64_t *ret_ns, struct crn_errinfo *ei)
{
    static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
                                          "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%H:%M"};
    uint64_t now = (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
    time_t seconds = (time_t)(now / 1000000000U);
    size_t i;

    if (text[0] == '+') {
        cairn_err rc = crn_parse_time(text + 1, ret_ns, ei);

        *ret_ns += now;
        return rc;
    }
    for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct tm tm;
        const char *end;
        time_t at;

        (void)localtime_r(&seconds, &tm);
        tm.tm_sec = 0;
        end = strptime(text, formats[i], &tm);
        if (end == NULL || *end != '\0')
            continue;
        tm.tm_isdst = -1;
        at = mktime(&tm);
        if (at <= seconds && strcmp(formats[i], "%H:%M") == 0) {
            tm.tm_mday++;
            tm.tm_isdst = -1;
            at = mktime(&tm);
        }
        *ret_ns = (uint64_t)at * 1000000000U;
        return CAIRN_OK;
    }
    return crn_fail(ei, CAIRN_EINVAL, 0,
                    "'%s' is not a time: write +30m, 18:30 or '2026-01-31 18:30'", text);
}

static void note_who(struct crn_halt *h, const char *reason)
{
    const struct passwd *pw = getpwuid(geteuid());
    char date[32];

    crn_output_date((uint64_t)crn_clock_real()->wall_ns(crn_clock_real()), date, sizeof(date));
    (void)snprintf(h->who, sizeof(h->who), "requested by %s, %s%s%.80s",
                   pw != NULL ? pw->pw_name : "?", date, reason != NULL ? ": " : "",
                   reason != NULL ? reason : "");
    h->who[strcspn(h->who, "\n")] = '\0';
}

static int halt_status(struct cli *cli, const char *job)
{
    static const char *const kinds[] = {"none", "now", "checkpoint", "at"};
    struct crn_halt h;
    char text[300];

    if (crn_halt_read(cli->store.fs, cli->cfg.persistent, job, &h, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "request", kinds[h.kind]);
        if (h.kind == CRN_HALT_AT)
            crn_json_u64(j, "at_ns", h.at_ns);
        crn_json_str(j, "who", h.who);
        return crn_cli_json_end(cli, CLI_OK);
    }
    crn_halt_text(&h, text, sizeof(text));
    (void)printf("%s: %s\n", cli->cfg.persistent, text);
    return crn_cli_end(cli, CLI_OK);
}

static int halt_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"job", required_argument, NULL, 'j'}, {"reason", required_argument, NULL, 'r'}, {0}};
    struct crn_halt h = {0};
    const char *job = "";
    const char *reason = NULL;
    const char *what;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "j:r:", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        *(c == 'j' ? &job : &reason) = optarg;
    }
    what = optind < argc ? argv[optind++] : "status";
    if (strcmp(what, "at") == 0) {
        if (optind == argc)
            return crn_cli_usage(cli, "at what time?");
        h.kind = CRN_HALT_AT;
        if (parse_when(argv[optind++], &h.at_ns, cli->ei) != CAIRN_OK)
            return crn_cli_fail(cli);
    } else if (strcmp(what, "now") == 0) {
        h.kind = CRN_HALT_NOW;
    } else if (strcmp(what, "checkpoint") == 0) {
        h.kind = CRN_HALT_CHECKPOINT;
    } else if (strcmp(what, "undo") != 0 && strcmp(what, "status") != 0) {
        return crn_cli_usage(cli, "'%s' is not one of now, checkpoint, at, undo, status", what);
    }
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    note_who(&h, reason);
    if (strcmp(what, "status") != 0 && crn_halt_write(&cli->store, job, &h, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    return halt_status(cli, job);
}

const struct cli_command crn_cmd_halt = {
    .name = "halt",
    .args = "[--job ID] [--reason TEXT] now | checkpoint | at TIME | undo | status",
    .words = "now checkpoint at undo status",
    .help = "Asks the jobs of a store to stop; shows or withdraws such a request",
    .about = "Jobs see the request through cairn_should_stop and cairn_should_checkpoint, within "
             "seconds. `now` means a last checkpoint, then stop; `checkpoint` stops after the next "
             "checkpoint that is due anyway; `at` stops so that all is done by a time (+30m, "
             "18:30, '2026-01-31 18:30'), `wall_margin` before it.\n"
             "The request holds, for jobs that start later too, until `undo`. `cairn run` does not "
             "start or restart a job while it holds.",
    .needs_store = 1,
    .run = halt_run,
    .options = "  -j, --job ID      only this job (key job; its Slurm number by default)\n"
               "  -r, --reason TEXT for people who wonder why\n",
};
