/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn scrub: verifies committed versions slowly and repairs what it can from local copies. */
#include "cli/cli.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "service/scrub.h"

#define DEFAULT_RATE ((uint64_t)100 << 20)

/* POSIX with reads at a limited rate; first, so that the table leads to it. */
struct paced_fs {
    struct crn_fs fs;
    uint64_t rate, bytes;
    int64_t began_ns;
};

struct scrub_totals {
    struct cli *cli;
    struct crn_store store;
    int is_dry;
    uint64_t versions, repaired, damaged; /* data files, but for the first */
    const char *name;                     /* of the version in hand */
    int64_t version;
};

static int64_t scrub_now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

static ssize_t scrub_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    struct paced_fs *p = (struct paced_fs *)(uintptr_t)fs;
    const struct crn_fs *posix = crn_fs_posix();
    ssize_t got = posix->pread(posix, fd, buf, n, off);
    int64_t ahead;

    p->bytes += got > 0 ? (uint64_t)got : 0;
    ahead = p->began_ns + (int64_t)((double)p->bytes / (double)p->rate * 1e9) - scrub_now();
    if (ahead > 0) {
        struct timespec pause = {ahead / 1000000000, ahead % 1000000000};

        (void)nanosleep(&pause, NULL);
    }
    return got;
}

static void on_file(void *arg, enum crn_scrub_what what, const char *file, const char *text)
{
    struct scrub_totals *t = arg;
    struct crn_json *j = &t->cli->json;

    t->repaired += what == CRN_SCRUB_REPAIRED;
    t->damaged += what == CRN_SCRUB_DAMAGED;
    if (!t->cli->is_json) {
        (void)printf("%s@%" PRId64 ": %s\n", t->name, t->version, text);
        return;
    }
    crn_json_object(j, NULL);
    crn_json_str(j, "name", t->name);
    crn_json_i64(j, "version", t->version);
    crn_json_str(j, "file", file);
    crn_json_str(j, "what", what == CRN_SCRUB_REPAIRED ? "repaired" : "damaged");
    crn_json_str(j, "text", text);
    crn_json_end_object(j);
}

static int on_version(struct cli *cli, const char *name, const struct crn_version_entry *e,
                      void *arg)
{
    struct scrub_totals *t = arg;
    struct crn_scrub s = {
        .st = &t->store, .cfg = &cli->cfg, .is_dry = t->is_dry, .fn = on_file, .arg = t};
    cairn_err rc;

    if (e->state == CRN_VERSION_PARTIAL)
        return CLI_OK;
    t->name = name;
    t->version = e->version;
    rc = crn_scrub_version(&s, name, e->version, cli->ei);
    if (rc == CAIRN_ENOENT) { /* its job has removed it since it was listed */
        crn_err_clear(cli->ei);
        return CLI_OK;
    }
    t->versions++;
    if (rc != CAIRN_OK && rc != CAIRN_EDAMAGED)
        return crn_cli_fail(cli);
    if (rc == CAIRN_EDAMAGED && t->damaged == 0) { /* the manifest itself */
        t->damaged++;
        return crn_cli_fail(cli);
    }
    crn_err_clear(cli->ei);
    return rc == CAIRN_OK ? CLI_OK : CLI_PROBLEM;
}

static int scrub_all(struct cli *cli, int argc, char **argv, struct scrub_totals *t)
{
    int status;

    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "files");
    status = crn_cli_each(cli, argc, argv, on_version, t);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        crn_json_u64(&cli->json, "versions", t->versions);
        crn_json_u64(&cli->json, "repaired", t->repaired);
        crn_json_u64(&cli->json, "damaged", t->damaged);
        return crn_cli_json_end(cli, status);
    }
    (void)printf("%" PRIu64 " version%s, %" PRIu64 " data file%s repaired, %" PRIu64 " damaged\n",
                 t->versions, CLI_S(t->versions), t->repaired, CLI_S(t->repaired), t->damaged);
    return crn_cli_end(cli, status);
}

static int scrub_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"bandwidth", required_argument, NULL, 'b'}, {"dry-run", no_argument, NULL, 'n'}, {0}};
    struct paced_fs paced = {.fs = *crn_fs_posix(), .rate = DEFAULT_RATE, .began_ns = scrub_now()};
    struct scrub_totals t = {.cli = cli};
    int status;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "b:n", longs)) != -1) {
        if (c == 'n')
            t.is_dry = 1;
        else if (c != 'b')
            return CLI_USAGE;
        else if (crn_parse_bytes(optarg, &paced.rate, cli->ei) != CAIRN_OK || paced.rate == 0)
            return crn_cli_usage(cli, "--bandwidth: '%s' is no rate, such as 100M", optarg);
    }
    paced.fs.pread = scrub_pread;
    if (crn_store_open(&paced.fs, cli->store.path, 0, &t.store, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    status = scrub_all(cli, argc - optind, argv + optind, &t);
    crn_store_close(&t.store);
    return status;
}

const struct cli_command crn_cmd_scrub = {
    .name = "scrub",
    .args = "[-b RATE] [-n] [NAME[@VERSION]...]",
    .help = "Verifies slowly, and repairs from local copies",
    .about =
        "Reads every byte of the committed versions at a limited rate and compares checksums. A "
        "data "
        "file that is damaged is made again from what of it is good and from the copies in the "
        "local "
        "directory of this host (`local`), so run it on the nodes that have them. Encoded files "
        "are "
        "not repaired. What was found and repaired is written to the journal (`cairn explain`).",
    .needs_store = 1,
    .run = scrub_run,
    .options = "  -b, --bandwidth RATE  bytes a second; default: 100M\n"
               "  -n, --dry-run         report damage, repair nothing\n",
};
