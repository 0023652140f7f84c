/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn show: the contents of a version. Regions are summed up over the ranks; --ranks lists
 * each. With --stats, how it was flushed. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/flush_stats.h"
#include "cli/items.h"
#include "cli/values.h"
#include "cli/variables.h"

/* One region name over all ranks. */
struct group {
    const struct cli_item *item;
    size_t n;
    uint64_t min, max, total;
    int same_shape;
};

static struct group sum_up(const struct cli_items *items, size_t first)
{
    struct group g = {.item = &items->item[first], .min = UINT64_MAX, .same_shape = 1};
    const struct crn_region *head = g.item->region;
    size_t i;

    g.n = crn_items_group(items, first);
    for (i = 0; i < g.n; i++) {
        const struct crn_region *r = g.item[i].region;

        g.total += r->bytes;
        g.min = r->bytes < g.min ? r->bytes : g.min;
        g.max = r->bytes > g.max ? r->bytes : g.max;
        if (r->ndims != head->ndims || memcmp(r->dims, head->dims, sizeof(r->dims)) != 0)
            g.same_shape = 0;
    }
    return g;
}

static void shape_of(const struct group *g, char *buf, size_t size)
{
    const struct crn_region *r = g->item->region;
    char dims[200];

    if (r->kind == CRN_REGION_FILE) {
        (void)snprintf(buf, size, "-");
    } else if (r->is_global) {
        crn_output_shape(r->global_dims, r->ndims, dims, sizeof(dims));
        (void)snprintf(buf, size, "%s, global", dims);
    } else if (g->same_shape) {
        crn_output_shape(r->dims, r->ndims, buf, size);
    } else {
        (void)snprintf(buf, size, "varies");
    }
}

static const char *kind_of(const struct crn_region *r)
{
    return r->kind == CRN_REGION_FILE ? "file" : crn_output_type(r->type);
}

static void print_regions(const struct cli_items *items)
{
    struct cli_table t;
    char text[256], max[32];
    size_t i;

    crn_table_begin(&t, "lllrrr");
    for (i = 0; i < 6; i++)
        crn_table_add(&t, "%s",
                      (const char *[]){"REGION", "TYPE", "SHAPE", "RANKS", "PER RANK", "TOTAL"}[i]);
    for (i = 0; i < items->n; i += crn_items_group(items, i)) {
        struct group g = sum_up(items, i);

        crn_table_add(&t, "%s", g.item->region->name);
        crn_table_add(&t, "%s", kind_of(g.item->region));
        shape_of(&g, text, sizeof(text));
        crn_table_add(&t, "%s", text);
        crn_table_add(&t, "%zu", g.n);
        crn_human_bytes(g.min, text, sizeof(text));
        crn_human_bytes(g.max, max, sizeof(max));
        if (strcmp(text, max) == 0)
            crn_table_add(&t, "%s", text);
        else
            crn_table_add(&t, "%s to %s", text, max);
        crn_human_bytes(g.total, text, sizeof(text));
        crn_table_add(&t, "%s", text);
    }
    crn_table_print(&t);
}

static void print_ranks(const struct crn_manifest *m, const struct cli_items *items, int64_t only)
{
    struct cli_table t;
    char text[256];
    size_t i;

    crn_table_begin(&t, "lrllrlr");
    for (i = 0; i < 7; i++)
        crn_table_add(
            &t, "%s",
            (const char *[]){"REGION", "RANK", "SHAPE", "PLACE", "BYTES", "FILE", "OFFSET"}[i]);
    for (i = 0; i < items->n; i++) {
        const struct cli_item *item = &items->item[i];
        const struct crn_region *r = item->region;

        if (only >= 0 && item->rank != (uint64_t)only)
            continue;
        crn_table_add(&t, "%s", r->name);
        crn_table_add(&t, "%" PRIu32, item->rank);
        crn_output_shape(r->dims, r->ndims, text, sizeof(text));
        crn_table_add(&t, "%s", text);
        crn_output_shape(r->offset, r->ndims, text, sizeof(text));
        crn_table_add(&t, "%s", r->is_global ? text : "-");
        crn_table_add(&t, "%" PRIu64, r->bytes);
        crn_table_add(&t, "%s", m->files[item->file_no].name);
        if (item->is_encoded)
            crn_table_add(&t, "encoded");
        else
            crn_table_add(&t, "%" PRIu64, item->file_offset);
    }
    crn_table_print(&t);
}

/* The file with the longest chain; NULL: all are full. */
static const struct crn_manifest_file *most_bases(const struct crn_manifest *m)
{
    const struct crn_manifest_file *most = NULL;
    uint32_t f;

    for (f = 0; f < m->nfiles; f++)
        if (m->files[f].nbases > (most != NULL ? most->nbases : 0))
            most = &m->files[f];
    return most;
}

static void print_files(const struct crn_manifest *m)
{
    int has_bases = most_bases(m) != NULL;
    struct cli_table t;
    char size[32];
    uint32_t f, r;

    crn_table_begin(&t, has_bases ? "lrll" : "lrl");
    crn_table_add(&t, "FILE");
    crn_table_add(&t, "SIZE");
    crn_table_add(&t, "RANKS");
    if (has_bases)
        crn_table_add(&t, "ENCODED AGAINST");
    for (f = 0; f < m->nfiles; f++) {
        char ranks[200] = "";
        size_t used = 0;

        for (r = 0; r < m->files[f].nranges && used < sizeof(ranks); r++) {
            const struct crn_rank_range *range = &m->files[f].ranges[r];

            used +=
                (size_t)snprintf(ranks + used, sizeof(ranks) - used,
                                 range->count > 1 ? "%s%" PRIu32 "-%" PRIu32 : "%s%" PRIu32,
                                 r > 0 ? "," : "", range->first, range->first + range->count - 1);
        }
        crn_human_bytes(m->files[f].bytes, size, sizeof(size));
        crn_table_add(&t, "%s", m->files[f].name);
        crn_table_add(&t, "%s", size);
        crn_table_add(&t, "%s", ranks);
        if (m->files[f].nbases > 0)
            crn_table_add(&t, "%" PRId64 "/%s", m->files[f].bases[0].version,
                          m->files[f].bases[0].file);
        else if (has_bases)
            crn_table_add(&t, "-");
    }
    crn_table_print(&t);
}

static void print_head(const struct crn_manifest *m)
{
    const struct crn_manifest_file *most = most_bases(m);
    char age[32], date[32], later[32], size[32], run[CRN_RUN_HEX];
    char chain[80];

    crn_output_age(m->created_ns, age, sizeof(age));
    crn_output_date(m->created_ns, date, sizeof(date));
    crn_human_time(((double)m->committed_ns - (double)m->created_ns) * 1e-9, later, sizeof(later));
    crn_human_bytes(m->data_bytes, size, sizeof(size));
    crn_run_hex(m->id.run, run);
    (void)printf("%s@%" PRId64 ": %s of %" PRIu32 " rank%s on %" PRIu32 " node%s in %" PRIu32
                 " file%s\n",
                 m->name, m->version, size, m->ranks, CLI_S(m->ranks), m->nodes, CLI_S(m->nodes),
                 m->nfiles, CLI_S(m->nfiles));
    (void)printf("taken %s (%s ago), committed %s later\n", date, age, later);
    (void)printf("job %s, run %s, checkpoint %" PRIu64 " of it\n", m->job[0] != '\0' ? m->job : "-",
                 run, m->id.seq);
    if (most != NULL) {
        crn_cli_chain_text(most->bases[0].version, most->nbases, chain, sizeof(chain));
        (void)printf("%s\n", chain);
    }
    (void)printf("\n");
}

/* JSON. ---------------------------------------------------------------------------------------- */

static void json_dims(struct crn_json *j, const char *key, const uint64_t *dims, unsigned n)
{
    unsigned i;

    crn_json_array(j, key);
    for (i = 0; i < n; i++)
        crn_json_u64(j, NULL, dims[i]);
    crn_json_end_array(j);
}

static void json_item(struct crn_json *j, const struct crn_manifest *m, const struct cli_item *item)
{
    const struct crn_region *r = item->region;

    crn_json_object(j, NULL);
    crn_json_str(j, "region", r->name);
    crn_json_u64(j, "rank", item->rank);
    crn_json_str(j, "kind", r->kind == CRN_REGION_FILE ? "file" : "memory");
    crn_json_str(j, "type", crn_output_type(r->type));
    json_dims(j, "dims", r->dims, r->ndims);
    if (r->is_global) {
        json_dims(j, "global_dims", r->global_dims, r->ndims);
        json_dims(j, "offset", r->offset, r->ndims);
    }
    crn_json_u64(j, "bytes", r->bytes);
    crn_json_str(j, "file", m->files[item->file_no].name);
    crn_json_u64(j, item->is_encoded ? "stream_offset" : "file_offset", item->file_offset);
    crn_json_end_object(j);
}

static void json_file(struct crn_json *j, const struct crn_manifest_file *f)
{
    uint32_t i;

    crn_json_object(j, NULL);
    crn_json_str(j, "name", f->name);
    crn_json_u64(j, "bytes", f->bytes);
    crn_json_array(j, "bases"); /* what it was encoded against, nearest first */
    for (i = 0; i < f->nbases; i++) {
        crn_json_object(j, NULL);
        crn_json_i64(j, "version", f->bases[i].version);
        crn_json_str(j, "file", f->bases[i].file);
        crn_json_end_object(j);
    }
    crn_json_end_array(j);
    crn_json_end_object(j);
}

static int print_json(struct cli *cli, const struct crn_manifest *m, const struct cli_items *items,
                      const struct cli_variables *variables, int64_t only)
{
    struct crn_json *j = crn_cli_json(cli);
    char run[CRN_RUN_HEX];
    uint32_t f;
    size_t i;

    crn_run_hex(m->id.run, run);
    crn_json_str(j, "name", m->name);
    crn_json_i64(j, "version", m->version);
    crn_json_str(j, "job", m->job);
    crn_json_str(j, "run", run);
    crn_json_u64(j, "seq", m->id.seq);
    crn_json_u64(j, "created_ns", m->created_ns);
    crn_json_u64(j, "committed_ns", m->committed_ns);
    crn_json_u64(j, "ranks", m->ranks);
    crn_json_u64(j, "nodes", m->nodes);
    crn_json_u64(j, "bytes", m->data_bytes);
    crn_json_array(j, "files");
    for (f = 0; f < m->nfiles; f++)
        json_file(j, &m->files[f]);
    crn_json_end_array(j);
    crn_json_array(j, "regions");
    for (i = 0; i < items->n; i++)
        if (only < 0 || items->item[i].rank == (uint64_t)only)
            json_item(j, m, &items->item[i]);
    crn_json_end_array(j);
    if (variables->n > 0)
        crn_variables_json(j, variables);
    return crn_cli_json_end(cli, CLI_OK);
}

/* How it was flushed. -------------------------------------------------------------------------- */

static int show_stats(struct cli *cli, const struct cli_target *t)
{
    struct crn_manifest m = {0};
    struct cli_flush f = {0};
    int status;
    cairn_err rc;

    rc = crn_store_manifest(&cli->store, t->name, t->version, &m, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_cli_flush_load(&cli->store, &m, &f, cli->ei);
    if (rc != CAIRN_OK) {
        crn_manifest_free(&m);
        return crn_cli_fail(cli);
    }
    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "name", m.name);
        crn_json_i64(j, "version", m.version);
        crn_json_u64(j, "nodes", m.nodes);
        crn_cli_flush_json(j, &f);
        status = crn_cli_json_end(cli, CLI_OK);
    } else {
        print_head(&m);
        crn_cli_flush_print(&f);
        status = crn_cli_end(cli, CLI_OK);
    }
    crn_cli_flush_free(&f);
    crn_manifest_free(&m);
    return status;
}

/* The command. --------------------------------------------------------------------------------- */

static int show_show(struct cli *cli, const struct cli_target *t, int ranks, int64_t only)
{
    struct crn_version *v = NULL;
    struct cli_variables variables = {0};
    struct cli_items items = {0};
    const struct crn_manifest *m;
    int status = CLI_OK;
    cairn_err rc;

    rc = crn_version_open(&cli->store, t->name, t->version, &v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_items_load(v, &items, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_variables_load(v, &variables, cli->ei);
    if (rc != CAIRN_OK) {
        status = crn_cli_fail_reading(cli, v, NULL);
        crn_items_free(&items);
        crn_version_close(v);
        return status;
    }
    m = crn_version_manifest(v);
    if (only >= (int64_t)m->ranks) {
        status = crn_cli_problem(cli, CAIRN_ENOENT, "%s@%lld has no rank %lld: it has %u", t->name,
                                 (long long)t->version, (long long)only, (unsigned)m->ranks);
    } else if (cli->is_json) {
        status = print_json(cli, m, &items, &variables, only);
    } else {
        print_head(m);
        if (ranks) {
            print_ranks(m, &items, only);
        } else {
            print_regions(&items);
            (void)printf("\n");
            crn_variables_print(&variables);
            print_files(m);
        }
        status = crn_cli_end(cli, status);
    }
    crn_variables_free(&variables);
    crn_items_free(&items);
    crn_version_close(v);
    return status;
}

static int show_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"ranks", no_argument, NULL, 'a'},
                                          {"rank", required_argument, NULL, 'r'},
                                          {"stats", no_argument, NULL, 's'},
                                          {"values", no_argument, NULL, 'v'},
                                          {0}};
    struct cli_target t;
    int64_t only = -1;
    int ranks = 0;
    int stats = 0;
    int values = 0;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "r:", longs)) != -1) {
        if (c == '?' || (c == 'r' && crn_cli_number(cli, "rank", optarg, &only) != 0))
            return CLI_USAGE;
        *(c == 's' ? &stats : c == 'v' ? &values : &ranks) = 1;
    }
    if (values && !stats && argc - optind >= 1)
        return crn_values_show(cli, argc - optind, argv + optind, only);
    if (stats && ranks)
        return crn_cli_usage(cli, "--stats cannot be combined with --rank or --ranks");
    if (argc - optind != 1)
        return crn_cli_usage(cli, "one checkpoint is shown at a time");
    if (crn_cli_pick(&cli->store, argv[optind], &t, cli->ei) != CAIRN_OK)
        return crn_cli_fail(cli);
    return stats ? show_stats(cli, &t) : show_show(cli, &t, ranks, only);
}

const struct cli_command crn_cmd_show = {
    .name = "show",
    .args = "[--ranks | -r RANK | --stats] NAME[@VERSION] | --values [-r RANK] NAME[@VERSION] "
            "[REGION...]",
    .help = "Shows the regions of a version: type, shape, sizes, where they lie and how encoded",
    .about = "The regions of a version: type, shape, sizes, and with `--ranks` the "
             "file and offset of each rank's part. Where data is encoded: for each "
             "variable how many bytes are stored, and the pipeline of stages that most "
             "of it went through. With `--stats` how it was flushed: for each leader "
             "and each of its writer threads bytes, time and throughput of received "
             "and of local data, index and fsync, waits for free blocks and for "
             "writers, how long the writers were held back (calm while nobody waits, "
             "capped, or in a phase of the application); what its followers sent.",
    .needs_store = 1,
    .run = show_run,
    .options = "  --ranks           each rank's regions, with file and offset\n"
               "  -r, --rank RANK   those of one rank\n"
               "  --values          smallest, largest and mean value of each region, or of those\n"
               "                    named, and how often which values occur\n"
               "  --stats           how it was flushed: leaders, writer threads, followers\n",
};
