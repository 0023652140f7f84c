/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn diff: which regions of two versions differ, where first and by how much. Global arrays
 * are compared as a whole, regardless of the number of ranks; other regions rank by rank. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/compare.h"

#define PIECE_BYTES ((uint64_t)16 << 20)

struct side {
    struct crn_store store;
    int has_store; /* a separate one */
    struct cli_target target;
    struct crn_version *v;
    struct cli_items items;
};

struct diff_job {
    struct side a, b;
    struct cli_tolerance tolerance;
    void *buf[2];
    size_t room;
    struct cli_table table;
    uint64_t regions, differing; /* names */
};

/* The result for one region name. */
struct diff_finding {
    const char *name;
    struct cli_difference d; /* over all ranks */
    char first[160];         /* position of the first difference */
    char note[200];          /* why something cannot be compared */
    uint64_t problems;       /* number of such cases */
};

static void diff_note(struct diff_finding *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void diff_note(struct diff_finding *f, const char *fmt, ...)
{
    va_list ap;

    if (f->problems++ > 0)
        return; /* the first is enough */
    va_start(ap, fmt);
    (void)vsnprintf(f->note, sizeof(f->note), fmt, ap);
    va_end(ap);
}

static cairn_err make_room(struct diff_job *job, uint64_t bytes, struct crn_errinfo *ei)
{
    int i;

    if (bytes <= job->room)
        return CAIRN_OK;
    for (i = 0; i < 2; i++) {
        free(job->buf[i]);
        job->buf[i] = malloc(bytes);
    }
    job->room = bytes;
    if (job->buf[0] == NULL || job->buf[1] == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "two buffers of %" PRIu64 " bytes", bytes);
    return CAIRN_OK;
}

static int same_shape(const struct cli_array *a, const struct cli_array *b)
{
    return a->region.type == b->region.type && a->region.ndims == b->region.ndims &&
           memcmp(a->region.dims, b->region.dims, sizeof(a->region.dims)) == 0;
}

static void note_shapes(struct diff_finding *f, const struct cli_array *a,
                        const struct cli_array *b)
{
    char x[80], y[80];

    crn_output_shape(a->region.dims, a->region.ndims, x, sizeof(x));
    crn_output_shape(b->region.dims, b->region.ndims, y, sizeof(y));
    diff_note(f, "%s %s against %s %s", crn_output_type(a->region.type), x,
              crn_output_type(b->region.type), y);
}

/* Compares two arrays and adds the result to the finding. */
static cairn_err compare_arrays(struct diff_job *job, const struct cli_array *a,
                                const struct cli_array *b, struct diff_finding *f,
                                struct crn_errinfo *ei)
{
    size_t size = cairn_type_size((cairn_type)a->region.type);
    uint64_t before = f->d.differing;
    struct cli_piece p;
    cairn_err rc = CAIRN_OK;
    char position[100];
    int more;

    if (!same_shape(a, b)) {
        note_shapes(f, a, b);
        return CAIRN_OK;
    }
    for (more = crn_array_piece(a, PIECE_BYTES, 1, &p); more;
         more = crn_array_piece(a, PIECE_BYTES, 0, &p)) {
        rc = make_room(job, p.bytes, ei);
        if (rc == CAIRN_OK)
            rc = crn_array_read(a, &p, job->buf[0], ei);
        if (rc == CAIRN_OK)
            rc = crn_array_read(b, &p, job->buf[1], ei);
        if (rc != CAIRN_OK)
            return rc;
        crn_compare(a->region.type, job->buf[0], job->buf[1], p.bytes / size, p.offset / size,
                    &job->tolerance, &f->d);
    }
    if (before == 0 && f->d.differing > 0) {
        crn_array_position(a, f->d.first, position, sizeof(position));
        if (a->is_whole)
            (void)snprintf(f->first, sizeof(f->first), "%s", position);
        else
            (void)snprintf(f->first, sizeof(f->first), "rank %" PRIu32 " %s", a->rank, position);
    }
    return CAIRN_OK;
}

/* Merges the ascending ranks of both sides. */
static cairn_err compare_ranks(struct diff_job *job, size_t ia, size_t na, size_t ib, size_t nb,
                               struct diff_finding *f, struct crn_errinfo *ei)
{
    const struct cli_item *x = &job->a.items.item[ia], *y = &job->b.items.item[ib];
    const struct cli_item *xend = x + na, *yend = y + nb;
    struct cli_array a, b;
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && (x < xend || y < yend)) {
        if (y == yend || (x < xend && x->rank < y->rank)) {
            diff_note(f, "rank %" PRIu32 " is in the first only", x++->rank);
        } else if (x == xend || y->rank < x->rank) {
            diff_note(f, "rank %" PRIu32 " is in the second only", y++->rank);
        } else {
            crn_array_of_rank(&a, job->a.v, x++);
            crn_array_of_rank(&b, job->b.v, y++);
            rc = compare_arrays(job, &a, &b, f, ei);
        }
    }
    return rc;
}

static cairn_err compare_whole(struct diff_job *job, size_t ia, size_t ib, struct diff_finding *f,
                               struct crn_errinfo *ei)
{
    struct cli_array a, b;
    cairn_err rc;

    rc = crn_array_whole(&a, job->a.v, &job->a.items.item[ia], ei);
    if (rc == CAIRN_OK)
        rc = crn_array_whole(&b, job->b.v, &job->b.items.item[ib], ei);
    return rc != CAIRN_OK ? rc : compare_arrays(job, &a, &b, f, ei);
}

/* Output. -------------------------------------------------------------------------------------- */

static void report_json(struct crn_json *j, const struct diff_finding *f)
{
    crn_json_object(j, NULL);
    crn_json_str(j, "region", f->name);
    crn_json_bool(j, "same", f->d.differing == 0 && f->problems == 0);
    crn_json_u64(j, "elements", f->d.elements);
    crn_json_u64(j, "differing", f->d.differing);
    if (f->d.differing > 0) {
        crn_json_str(j, "first", f->first);
        crn_json_f64(j, "max_absolute", f->d.max_absolute);
        crn_json_f64(j, "max_relative", f->d.max_relative);
    }
    if (f->problems > 0)
        crn_json_str(j, "note", f->note);
    crn_json_end_object(j);
}

static void diff_report(struct cli *cli, struct diff_job *job, const struct diff_finding *f)
{
    struct cli_table *t = &job->table;
    int same = f->d.differing == 0 && f->problems == 0;

    job->regions++;
    job->differing += !same;
    if (cli->is_json) {
        report_json(&cli->json, f);
        return;
    }
    crn_table_add(t, "%s", f->name);
    if (f->d.differing > 0) {
        crn_table_add(t, "%" PRIu64 " of %" PRIu64, f->d.differing, f->d.elements);
        crn_table_add(t, "%s", f->first);
        crn_table_add(t, "%.3g", f->d.max_absolute);
        crn_table_add(t, "%.3g", f->d.max_relative);
    } else {
        crn_table_add(t, "%s", same ? "same" : "-");
        crn_table_add(t, "-");
        crn_table_add(t, "-");
        crn_table_add(t, "-");
    }
    crn_table_add(t, "%s", f->note);
}

/* The command. --------------------------------------------------------------------------------- */

/* Items have the same order on both sides, so one merge suffices. */
static cairn_err compare_names(struct cli *cli, struct diff_job *job, struct crn_errinfo *ei)
{
    const struct cli_items *x = &job->a.items, *y = &job->b.items;
    cairn_err rc = CAIRN_OK;
    size_t i = 0, k = 0;

    while (rc == CAIRN_OK && (i < x->n || k < y->n)) {
        struct diff_finding f = {0};
        size_t ni = i < x->n ? crn_items_group(x, i) : 0;
        size_t nk = k < y->n ? crn_items_group(y, k) : 0;
        int c = ni == 0 ? 1 : nk == 0 ? -1 : crn_items_compare(&x->item[i], &y->item[k]);

        f.name = c <= 0 ? x->item[i].region->name : y->item[k].region->name;
        if (c != 0)
            diff_note(&f, "in the %s only", c < 0 ? "first" : "second");
        else if (x->item[i].region->is_global && y->item[k].region->is_global)
            rc = compare_whole(job, i, k, &f, ei);
        else
            rc = compare_ranks(job, i, ni, k, nk, &f, ei);
        i += c <= 0 ? ni : 0;
        k += c >= 0 ? nk : 0;
        if (rc == CAIRN_OK)
            diff_report(cli, job, &f);
    }
    return rc;
}

static cairn_err open_side(struct side *s, const struct crn_store *st, const char *text,
                           struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_cli_pick(st, text, &s->target, ei);
    if (rc == CAIRN_OK)
        rc = crn_version_open(st, s->target.name, s->target.version, &s->v, ei);
    if (rc == CAIRN_OK)
        rc = crn_version_keep(s->v, CLI_KEPT_CHUNKS, ei);
    if (rc == CAIRN_OK)
        rc = crn_items_load(s->v, &s->items, ei);
    return rc;
}

static void close_side(struct side *s)
{
    crn_items_free(&s->items);
    crn_version_close(s->v);
    if (s->has_store)
        crn_store_close(&s->store);
}

static cairn_err open_both(struct cli *cli, struct diff_job *job, char **argv, const char *other)
{
    cairn_err rc;

    rc = open_side(&job->a, &cli->store, argv[0], cli->ei);
    if (rc == CAIRN_OK && other != NULL) {
        rc = crn_store_open(crn_fs_default(), other, 0, &job->b.store, cli->ei);
        job->b.has_store = rc == CAIRN_OK;
    }
    if (rc == CAIRN_OK)
        rc = open_side(&job->b, job->b.has_store ? &job->b.store : &cli->store, argv[1], cli->ei);
    return rc;
}

static int diff_finish(struct cli *cli, struct diff_job *job, cairn_err rc)
{
    int status = job->differing > 0 ? CLI_PROBLEM : CLI_OK;

    if (rc != CAIRN_OK)
        status = crn_cli_fail_reading(cli, job->a.v, job->b.v);
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        crn_json_bool(&cli->json, "same", job->differing == 0 && rc == CAIRN_OK);
        return crn_cli_json_end(cli, status);
    }
    crn_table_print(&job->table);
    if (rc == CAIRN_OK)
        (void)printf("%" PRIu64 " region%s compared, %" PRIu64 " differ\n", job->regions,
                     CLI_S(job->regions), job->differing);
    return crn_cli_end(cli, status);
}

static int diff_compare(struct cli *cli, struct diff_job *job)
{
    static const char *const head[] = {"REGION", "DIFFERING", "FIRST", "MAX ABS", "MAX REL", ""};
    size_t i;

    if (cli->is_json) {
        crn_json_array(crn_cli_json(cli), "regions");
    } else {
        crn_table_begin(&job->table, "lrlrrl");
        for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
            crn_table_add(&job->table, "%s", head[i]);
    }
    return diff_finish(cli, job, compare_names(cli, job, cli->ei));
}

static int parse_tolerance(struct cli *cli, double *ret)
{
    char *end;

    *ret = strtod(optarg, &end);
    if (end == optarg || *end != '\0' || !(*ret >= 0))
        return crn_cli_usage(cli, "'%s' is not a tolerance", optarg);
    return CLI_OK;
}

static int diff_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"absolute", required_argument, NULL, 'a'},
                                          {"relative", required_argument, NULL, 'r'},
                                          {"other", required_argument, NULL, 'o'},
                                          {0}};
    struct diff_job job = {0};
    const char *other = NULL;
    int status;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "", longs)) != -1) {
        if (c == 'o')
            other = optarg;
        else if (c == '?' || parse_tolerance(cli, c == 'a' ? &job.tolerance.absolute
                                                           : &job.tolerance.relative) != CLI_OK)
            return CLI_USAGE;
    }
    if (argc - optind != 2)
        return crn_cli_usage(cli, "two checkpoints are needed");
    if (open_both(cli, &job, argv + optind, other) != CAIRN_OK)
        status = crn_cli_fail(cli);
    else
        status = diff_compare(cli, &job);
    close_side(&job.a);
    close_side(&job.b);
    free(job.buf[0]);
    free(job.buf[1]);
    return status;
}

const struct cli_command crn_cmd_diff = {
    .name = "diff",
    .args = "[--absolute X] [--relative X] [--other DIR] NAME[@VERSION] NAME[@VERSION]",
    .help = "Compares two versions: which regions differ, where first, by how much",
    .about = "Which regions of two versions differ, in how many elements, where first, "
             "and by how much at most. Without tolerances every bit counts. Global "
             "arrays are compared whatever the number of ranks.",
    .needs_store = 1,
    .run = diff_run,
    .options = "  --absolute X      differences up to X are none\n"
               "  --relative X      nor up to X times the larger magnitude; both add up\n"
               "  --other DIR       store of the second checkpoint\n",
};
