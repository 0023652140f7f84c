/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn verify: reads every byte and checks every checksum, several files at a time. Reports
 * damage by version, rank and region. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

#define MAX_THREADS 64

struct bad_place {
    uint32_t rank;
    char region[CAIRN_MAX_NAME];
    char text[200];
};

/* A version being verified; the workers take one file after another. */
struct check {
    struct crn_version *v;
    uint32_t nfiles;
    unsigned char *skip; /* by file: its index is damaged */
    atomic_uint next_file;
    struct cli_progress *progress;
    struct crn_mutex mu;
    struct bad_place *bad; /* CRN_GUARDED_BY(mu), like all fields below */
    size_t nbad, cap;
    int failed; /* damage was found, whether listed or not */
};

struct totals {
    int threads;
    uint64_t versions, damaged, bytes;
};

#define LOOKS 3 /* at a version that its job replaces meanwhile */

/* A worker's view of its current file. */
struct verify_worker {
    struct check *check;
    uint64_t seen; /* bytes of this file, for the progress bar */
    int has_bad;
};

static void add_bad(struct check *c, uint32_t rank, const char *region, const char *text)
{
    crn_lock(&c->mu);
    c->failed = 1;
    if (c->nbad == c->cap) {
        size_t cap = c->cap == 0 ? 16 : 2 * c->cap;
        struct bad_place *grown = realloc(c->bad, cap * sizeof(*grown));

        if (grown != NULL) {
            c->bad = grown;
            c->cap = cap;
        }
    }
    if (c->nbad < c->cap) {
        struct bad_place *b = &c->bad[c->nbad++];

        b->rank = rank;
        (void)snprintf(b->region, sizeof(b->region), "%s", region != NULL ? region : "");
        (void)snprintf(b->text, sizeof(b->text), "%s", text);
    }
    crn_unlock(&c->mu);
}

static void on_bad(void *arg, uint32_t rank, const char *region, const char *text)
{
    struct verify_worker *w = arg;

    w->has_bad = 1;
    add_bad(w->check, rank, region, text);
}

static void on_progress(void *arg, uint64_t bytes)
{
    struct verify_worker *w = arg;

    crn_progress_add(w->check->progress, bytes - w->seen);
    w->seen = bytes;
}

static void *verify_work(void *arg)
{
    struct check *c = arg;
    uint32_t f;

    while ((f = atomic_fetch_add(&c->next_file, 1)) < c->nfiles) {
        struct verify_worker w = {.check = c};
        struct crn_check_events ev = {.bad = on_bad, .progress = on_progress, .arg = &w};
        struct crn_errinfo ei = {0};

        if (!c->skip[f] && crn_version_check_file(c->v, f, &ev, &ei) != CAIRN_OK && !w.has_bad)
            add_bad(c, UINT32_MAX, NULL, ei.msg);
    }
    return NULL;
}

static void run_workers(struct check *c, int threads)
{
    pthread_t thread[MAX_THREADS];
    int n = 0;

    while (n + 1 < threads && n < (int)c->nfiles - 1 &&
           crn_thread_start(&thread[n], "cairn-verify", verify_work, c, NULL) == CAIRN_OK)
        n++;
    (void)verify_work(c);
    while (n > 0)
        (void)pthread_join(thread[--n], NULL);
}

/* Indexes first: one thread reads them, and a file with a damaged one is skipped afterwards. */
static void check_version(struct check *c, int threads)
{
    struct crn_errinfo ei = {0};
    const struct crn_index *x;
    uint32_t f;

    c->nfiles = crn_version_manifest(c->v)->nfiles;
    c->skip = calloc(c->nfiles + 1, 1);
    if (c->skip == NULL) {
        add_bad(c, UINT32_MAX, NULL, "out of memory");
        return;
    }
    for (f = 0; f < c->nfiles; f++) {
        crn_err_clear(&ei);
        c->skip[f] = crn_version_index(c->v, f, &x, &ei) != CAIRN_OK;
        if (c->skip[f])
            add_bad(c, UINT32_MAX, NULL, ei.msg);
    }
    run_workers(c, threads);
    free(c->skip);
}

static void verify_report(struct cli *cli, const char *name, const struct crn_version_entry *e,
                          const struct check *c)
{
    struct crn_json *j = &cli->json;
    char size[32];
    size_t i;

    crn_human_bytes(e->data_bytes, size, sizeof(size));
    if (!cli->is_json) {
        (void)printf("%s@%" PRId64 ": %s%s%s (%s)\n", name, e->version,
                     crn_output_colour(c->failed ? CLI_BAD : CLI_GOOD),
                     c->failed ? "DAMAGED" : "ok", crn_output_colour(CLI_PLAIN), size);
        for (i = 0; i < c->nbad; i++)
            if (c->bad[i].rank == UINT32_MAX)
                (void)printf("  %s\n", c->bad[i].text);
            else
                (void)printf("  rank %" PRIu32 ", region '%s': %s\n", c->bad[i].rank,
                             c->bad[i].region, c->bad[i].text);
        return;
    }
    crn_json_object(j, NULL);
    crn_json_str(j, "name", name);
    crn_json_i64(j, "version", e->version);
    crn_json_bool(j, "ok", !c->failed);
    crn_json_u64(j, "bytes", e->data_bytes);
    crn_json_array(j, "bad");
    for (i = 0; i < c->nbad; i++) {
        crn_json_object(j, NULL);
        if (c->bad[i].rank != UINT32_MAX) {
            crn_json_u64(j, "rank", c->bad[i].rank);
            crn_json_str(j, "region", c->bad[i].region);
        }
        crn_json_str(j, "text", c->bad[i].text);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
    crn_json_end_object(j);
}

/* Returns 0 if the version was removed or replaced meanwhile: what was found says nothing. */
static int verify_look(struct cli *cli, const char *name, int64_t version, int threads,
                       struct check *c)
{
    cairn_err rc;
    int is_there = 1;

    c->nbad = 0;
    c->failed = 0;
    atomic_store(&c->next_file, 0);
    rc = crn_version_open(&cli->store, name, version, &c->v, cli->ei);
    if (rc == CAIRN_OK) {
        check_version(c, threads);
        is_there = !c->failed || crn_version_is_current(c->v);
        crn_version_close(c->v);
    } else {
        is_there = rc != CAIRN_ENOENT;
        add_bad(c, UINT32_MAX, NULL, cli->info.msg);
        crn_err_clear(cli->ei);
    }
    return is_there;
}

static int on_version(struct cli *cli, const char *name, const struct crn_version_entry *e,
                      void *arg)
{
    struct totals *totals = arg;
    struct cli_progress progress;
    struct check c = {.progress = &progress};
    int is_there = 0;
    int status = CLI_OK;
    int looks;

    if (e->state == CRN_VERSION_PARTIAL) /* not complete yet, or debris: nothing to verify */
        return CLI_OK;
    crn_mutex_init(&c.mu, CRN_RANK_LEAF);
    crn_progress_begin(&progress, cli, "verify", e->data_bytes);
    for (looks = 0; !is_there && looks < LOOKS; looks++)
        is_there = verify_look(cli, name, e->version, totals->threads, &c);
    crn_progress_end(&progress);
    if (is_there) {
        verify_report(cli, name, e, &c);
        status = c.failed ? CLI_PROBLEM : CLI_OK;
        totals->versions++;
        totals->damaged += (uint64_t)c.failed;
        totals->bytes += e->data_bytes;
    } else {
        crn_cli_note(cli, "%s@%" PRId64 ": removed or replaced meanwhile, not verified", name,
                     e->version);
    }
    crn_mutex_fini(&c.mu);
    free(c.bad);
    return status;
}

static int verify_verify(struct cli *cli, int argc, char **argv, int threads)
{
    struct totals totals = {.threads = threads};
    int status;

    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "versions");
    status = crn_cli_each(cli, argc, argv, on_version, &totals);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        crn_json_u64(&cli->json, "damaged", totals.damaged);
        return crn_cli_json_end(cli, status);
    }
    (void)printf("%" PRIu64 " version%s, %" PRIu64 " damaged\n", totals.versions,
                 CLI_S(totals.versions), totals.damaged);
    return crn_cli_end(cli, status);
}

static int verify_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"jobs", required_argument, NULL, 'j'}, {0}};
    int64_t threads = crn_cores();
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "j:", longs)) != -1)
        if (c == '?' || crn_cli_number(cli, "number of threads", optarg, &threads) != 0)
            return CLI_USAGE;
    if (threads < 1 || threads > MAX_THREADS)
        threads = threads < 1 ? 1 : MAX_THREADS;
    return verify_verify(cli, argc - optind, argv + optind, (int)threads);
}

const struct cli_command crn_cmd_verify = {
    .name = "verify",
    .args = "[-j THREADS] [NAME[@VERSION]...]",
    .help = "Reads everything and checks every checksum",
    .about = "Reads everything and checks every checksum; names damage by rank and "
             "region. What was encoded against older versions is decoded through them; "
             "a base that is damaged is named. A version that its job removes or replaces "
             "meanwhile is not damaged.",
    .needs_store = 1,
    .run = verify_run,
    .options = "  -j, --jobs N      threads; default: one a core\n",
};
