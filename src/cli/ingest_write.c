/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a version from open files. As the key `files` says, neighbouring ranks share a data file;
 * each data file has an engine and a thread, and looks for variables in its files by itself. */
#include "cli/ingest_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/elect.h"
#include "base/clock.h"
#include "base/thread.h"

/* A data file and the ranks whose shards it gets. */
struct ingest_part {
    struct cli_ingest *g;
    struct crn_engine *engine;
    struct cli_load *load;
    uint32_t first, ranks;
    struct crn_index head;
    struct crn_manifest_file file;
    struct crn_flush_stats stats;
    int is_written;
    cairn_err rc;
    struct crn_errinfo info;
};

/* A number of data files; a ratio of files to nodes means one, because this is one node. */
static cairn_err count_parts(const struct cli_ingest *g, uint32_t ranks, uint32_t *ret,
                             struct crn_errinfo *ei)
{
    int is_ratio = strchr(g->cfg->files, ':') != NULL;

    return crn_elect_files(g->cfg->files, is_ratio ? 1 : ranks, ret, ei);
}

/* Opens engines until there are so many. They share the memory that is configured for one. */
static cairn_err open_engines(struct cli_ingest *g, uint32_t n, struct crn_errinfo *ei)
{
    struct crn_engine_options opt = crn_engine_configured(g->cfg);
    cairn_err rc = CAIRN_OK;
    void *grown;

    if (g->nengines >= n)
        return CAIRN_OK;
    grown = realloc(g->engines, n * sizeof(struct crn_engine *));
    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u data files", (unsigned)n);
    g->engines = grown;
    opt.nice = CRN_BACKGROUND_NICE;
    opt.blocks = opt.blocks / n > 2 ? opt.blocks / n : 2;
    while (rc == CAIRN_OK && g->nengines < n) {
        rc = crn_engine_open(&opt, &g->engines[g->nengines], ei);
        if (rc == CAIRN_OK)
            rc = crn_engine_encode(g->engines[g->nengines++], g->cfg, g->name, ei);
    }
    return rc;
}

void crn_ingest_close_engines(struct cli_ingest *g)
{
    while (g->nengines > 0)
        crn_engine_close(g->engines[--g->nengines]);
    free(g->engines);
    g->engines = NULL;
}

static struct crn_source *part_sources(const struct ingest_part *p)
{
    return p->load->sources + p->first;
}

static void *part_look(void *arg)
{
    struct ingest_part *p = arg;

    p->rc = crn_load_variables(p->g, part_sources(p), p->ranks, &p->info);
    return NULL;
}

static void *part_write(void *arg)
{
    struct ingest_part *p = arg;

    p->rc = crn_engine_write(p->engine, &p->g->store, &p->head, part_sources(p), p->ranks, NULL,
                             &p->file, &p->stats, &p->info);
    p->is_written = p->rc == CAIRN_OK;
    return NULL;
}

/* Calls fn for all parts at once. Returns the first failure. */
static cairn_err for_all(struct ingest_part *parts, uint32_t n, void *(*fn)(void *),
                         struct crn_errinfo *ei)
{
    pthread_t *threads = calloc(n + 1U, sizeof(*threads));
    uint32_t started = 1; /* this thread has the first part */
    uint32_t i;

    while (threads != NULL && started < n &&
           crn_thread_start(&threads[started], "cairn-ingest", fn, &parts[started], NULL) ==
               CAIRN_OK)
        started++;
    (void)fn(&parts[0]);
    for (i = started; i < n; i++) /* for which no thread could be started */
        (void)fn(&parts[i]);
    for (i = 1; i < started && threads != NULL; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
    for (i = 0; i < n; i++)
        if (parts[i].rc != CAIRN_OK) {
            crn_err_keep(ei, &parts[i].info);
            return parts[i].rc;
        }
    return CAIRN_OK;
}

static cairn_err check_room(const struct cli_ingest *g, const struct ingest_part *parts, uint32_t n,
                            struct crn_errinfo *ei)
{
    uint64_t need = g->cfg->free_reserve_bytes;
    char want[32], have[32];
    struct crn_room room = {0};
    cairn_err rc;
    uint32_t i;

    for (i = 0; i < n; i++)
        need += crn_engine_estimate(parts[i].engine, part_sources(&parts[i]), parts[i].ranks);
    rc = crn_fs_check(g->fs->space(g->fs, g->store.dfd, &room), ei, "free space of '%s'",
                      g->store.path);
    if (rc != CAIRN_OK || room.bytes >= need)
        return rc;
    crn_human_bytes(need, want, sizeof(want));
    crn_human_bytes(room.bytes, have, sizeof(have));
    return crn_fail(ei, CAIRN_ENOSPC, ENOSPC, "it needs %s in '%s' and %s are %s", want,
                    g->store.path, have, room.text);
}

static cairn_err ingest_publish(struct cli_ingest *g, const struct ingest_part *parts, uint32_t n,
                                struct cli_ingested *ret, struct crn_errinfo *ei)
{
    const struct crn_name_config *nc = crn_config_name(g->cfg, g->name);
    const struct crn_clock *clock = crn_clock_real();
    struct crn_manifest_file *files = calloc(n + 1U, sizeof(*files));
    struct crn_manifest m = {.id = parts[0].head.id,
                             .version = parts[0].head.version,
                             .created_ns = parts[0].head.created_ns,
                             .committed_ns = (uint64_t)clock->wall_ns(clock),
                             .data_bytes = parts[0].load->bytes,
                             .ranks = parts[0].load->ranks,
                             .nodes = 1,
                             .nfiles = n,
                             .files = files};
    struct crn_retention policy = {.keep_last = nc->keep_last, .keep_every = nc->keep_every};
    cairn_err rc;
    uint32_t i;

    if (files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a manifest of %u files", (unsigned)n);
    for (i = 0; i < n; i++)
        files[i] = parts[i].file; /* which owns what it points to */
    memcpy(m.name, g->name, sizeof(m.name));
    memcpy(m.job, g->cfg->job, sizeof(m.job));
    rc = crn_store_publish(&g->store, &m, ei);
    free(files);
    /* Failing to remove old versions does not fail this one. */
    if (rc == CAIRN_OK && nc->keep_last > 0 &&
        crn_store_retain(&g->store, g->name, &policy, &ret->retired, NULL) != CAIRN_OK)
        ret->retired = 0;
    return rc;
}

static cairn_err write_parts(struct cli_ingest *g, struct cli_set *set, struct ingest_part *parts,
                             uint32_t n, struct cli_ingested *ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int64_t longest = 0;
    uint32_t i;

    if (g->is_encoding)
        rc = for_all(parts, n, part_look, ei);
    if (rc == CAIRN_OK)
        rc = check_room(g, parts, n, ei);
    if (rc == CAIRN_OK)
        rc = for_all(parts, n, part_write, ei);
    if (rc == CAIRN_OK)
        rc = crn_load_check(g, set, parts[0].load, ei);
    if (rc == CAIRN_OK)
        rc = ingest_publish(g, parts, n, ret, ei);
    for (i = 0; i < n; i++) {
        struct ingest_part *p = &parts[i];

        if (!p->is_written)
            continue;
        if (rc != CAIRN_OK && crn_store_discard_data(&g->store, g->name, p->head.version,
                                                     p->file.name, NULL) != CAIRN_OK)
            rc = crn_err_context(ei, rc, "'%s' is left over, a sweep removes it", p->file.name);
        ret->file_bytes += p->file.bytes;
        longest = p->stats.total_ns > longest ? p->stats.total_ns : longest;
        crn_flush_stats_free(&p->stats);
        crn_manifest_file_free(&p->file);
    }
    ret->seconds = (double)longest * 1e-9;
    return rc;
}

cairn_err crn_ingest_write(struct cli_ingest *g, struct cli_set *set, int64_t version,
                           struct cli_load *l, struct cli_ingested *ret, struct crn_errinfo *ei)
{
    struct crn_index head = {
        .version = version, .ranks = l->ranks, .nodes = 1, .created_ns = l->newest_ns};
    struct ingest_part *parts = NULL;
    uint32_t n = 0;
    uint32_t i;
    cairn_err rc;

    rc = count_parts(g, l->ranks, &n, ei);
    if (rc == CAIRN_OK)
        rc = open_engines(g, n, ei);
    if (rc == CAIRN_OK)
        parts = calloc(n, sizeof(*parts));
    if (rc == CAIRN_OK && parts == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u data files", (unsigned)n);
    if (rc != CAIRN_OK)
        return rc;
    g->id.seq++;
    head.id = g->id;
    head.files = n;
    memcpy(head.name, g->name, sizeof(head.name));
    for (i = 0; i < n; i++) {
        struct ingest_part *p = &parts[i];

        p->g = g;
        p->engine = g->engines[i];
        p->load = l;
        p->first = crn_elect_group_first(i, l->ranks, n);
        p->ranks = crn_elect_group_first(i + 1, l->ranks, n) - p->first;
        p->head = head;
        p->head.file_no = i;
    }
    rc = write_parts(g, set, parts, n, ret, ei);
    free(parts);
    return rc;
}
