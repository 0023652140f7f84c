/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn extract: writes a region or file of a rank, or an assembled global array, to a file. The
 * output appears complete, by rename, or not at all. Memory stays bounded. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "cli/sink.h"

#define PIECE_BYTES ((uint64_t)64 << 20)

static const struct cli_sink_ops *const sinks[] = {
    &crn_sink_raw,
    &crn_sink_npy,
#ifdef CRN_HAVE_HDF5
    &crn_sink_hdf5,
#endif
};
#define NSINKS (sizeof(sinks) / sizeof(sinks[0]))

enum which { EITHER, REGION, STORED_FILE };

struct extract_options {
    const char *region;
    enum which which;
    int64_t rank;       /* -1: none */
    const char *slice;  /* NULL: all */
    const char *output; /* "-": standard output */
    const char *format; /* NULL: by the suffix of the output; a stored file is raw */
};

static const struct cli_sink_ops *sink_by_format(const char *format)
{
    size_t i;

    for (i = 0; i < NSINKS; i++)
        if (strcmp(format, sinks[i]->name) == 0)
            return sinks[i];
    return NULL;
}

static const struct cli_sink_ops *sink_by_suffix(const char *output)
{
    size_t n = strlen(output);
    size_t i;

    for (i = 0; i < NSINKS; i++) {
        const char *suffix = sinks[i]->suffix;

        if (suffix != NULL && n > strlen(suffix) &&
            strcmp(output + n - strlen(suffix), suffix) == 0)
            return sinks[i];
    }
    return &crn_sink_raw;
}

/* A stored file is written unchanged, whatever its name, unless a format is requested. */
static const struct cli_sink_ops *find_sink(const struct extract_options *o,
                                            const struct cli_array *a)
{
    if (o->format != NULL)
        return sink_by_format(o->format);
    return a->region.kind == CRN_REGION_FILE ? &crn_sink_raw : sink_by_suffix(o->output);
}

/* The first item of the requested region or file. */
static cairn_err find_item(const struct cli_items *items, const struct extract_options *o,
                           size_t *ret, struct crn_errinfo *ei)
{
    size_t region = crn_items_find(items, o->region, 0);
    size_t file = crn_items_find(items, o->region, 1);

    if (o->which == EITHER && region < items->n && file < items->n)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "there are a region and a file '%s': choose with --region or --file",
                        o->region);
    if (o->which == STORED_FILE || (o->which == EITHER && file < items->n))
        region = file;
    *ret = region;
    if (region == items->n)
        return crn_fail(ei, CAIRN_ENOENT, 0, "there is no %s '%s'; see `cairn show`",
                        o->which == EITHER   ? "region or file"
                        : o->which == REGION ? "region"
                                             : "file",
                        o->region);
    return CAIRN_OK;
}

/* Chooses the requested array. */
static cairn_err extract_choose(struct crn_version *v, const struct cli_items *items,
                                const struct extract_options *o, struct cli_array *a,
                                struct crn_errinfo *ei)
{
    size_t first = 0;
    size_t n, i;
    cairn_err rc;

    rc = find_item(items, o, &first, ei);
    if (rc != CAIRN_OK)
        return rc;
    n = crn_items_group(items, first);
    if (o->rank < 0 && items->item[first].region->is_global)
        return crn_array_whole(a, v, &items->item[first], ei);
    if (o->rank < 0 && n > 1)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "%zu ranks have a region '%s' of their own: choose one with --rank", n,
                        o->region);
    for (i = first; i < first + n; i++)
        if (o->rank < 0 || items->item[i].rank == (uint64_t)o->rank) {
            crn_array_of_rank(a, v, &items->item[i]);
            return CAIRN_OK;
        }
    return crn_fail(ei, CAIRN_ENOENT, 0, "rank %lld has no region '%s'", (long long)o->rank,
                    o->region);
}

static cairn_err copy_pieces(const struct cli_array *a, const struct cli_sink_ops *ops, void *ctx,
                             struct cli *cli)
{
    struct cli_progress progress;
    struct cli_piece p;
    cairn_err rc = CAIRN_OK;
    size_t room = 0;
    void *buf = NULL;
    int more;

    crn_progress_begin(&progress, cli, "extract", a->bytes);
    for (more = crn_array_piece(a, PIECE_BYTES, 1, &p); more && rc == CAIRN_OK;
         more = crn_array_piece(a, PIECE_BYTES, 0, &p)) {
        if (p.bytes > room) { /* the first section is the largest */
            free(buf);
            room = p.bytes;
            buf = malloc(room);
        }
        if (buf == NULL)
            rc = crn_fail(cli->ei, CAIRN_ENOMEM, ENOMEM, "a buffer of %zu bytes", room);
        if (rc == CAIRN_OK)
            rc = crn_array_read(a, &p, buf, cli->ei);
        if (rc == CAIRN_OK)
            rc = ops->write(ctx, &p, buf, cli->ei);
        crn_progress_add(&progress, p.bytes);
    }
    crn_progress_end(&progress);
    free(buf);
    return rc;
}

/* path NULL: standard output. */
static cairn_err write_array(const struct cli_array *a, const struct cli_sink_ops *ops,
                             const char *path, struct cli *cli)
{
    void *ctx = calloc(1, ops->ctx_size);
    cairn_err rc, end;

    if (ctx == NULL)
        return crn_fail(cli->ei, CAIRN_ENOMEM, ENOMEM, "extract");
    rc = ops->open(ctx, path, a, cli->ei);
    if (rc == CAIRN_OK)
        rc = copy_pieces(a, ops, ctx, cli);
    end = ops->finish(ctx, rc == CAIRN_OK, cli->ei);
    free(ctx);
    return rc != CAIRN_OK ? rc : end;
}

static cairn_err extract_to(const struct cli_array *a, const struct cli_sink_ops *ops,
                            const char *output, struct cli *cli)
{
    char *tmp = NULL;
    cairn_err rc;

    if (strcmp(output, "-") == 0)
        return write_array(a, ops, NULL, cli);
    if (asprintf(&tmp, "%s.%08x.tmp", output, (unsigned)crn_random_u64()) < 0)
        return crn_fail(cli->ei, CAIRN_ENOMEM, ENOMEM, "extract");
    rc = write_array(a, ops, tmp, cli);
    if (rc == CAIRN_OK && rename(tmp, output) != 0)
        rc = crn_fail_errno(cli->ei, errno, "rename '%s' to '%s'", tmp, output);
    if (rc != CAIRN_OK)
        (void)unlink(tmp); /* may not exist */
    free(tmp);
    return rc;
}

static int extract_report(struct cli *cli, const struct cli_array *a,
                          const struct extract_options *o, const char *format)
{
    char shape[200], size[32];
    struct crn_json *j;
    unsigned d;

    if (strcmp(o->output, "-") == 0)
        return CLI_OK;
    if (!cli->is_json) {
        crn_output_shape(a->region.dims, a->region.ndims, shape, sizeof(shape));
        crn_human_bytes(a->bytes, size, sizeof(size));
        (void)printf("%s: %s %s, %s, %s\n", o->output, crn_output_type(a->region.type), shape, size,
                     format);
        return crn_cli_end(cli, CLI_OK);
    }
    j = crn_cli_json(cli);
    crn_json_str(j, "output", o->output);
    crn_json_str(j, "format", format);
    crn_json_str(j, "region", a->region.name);
    crn_json_str(j, "type", crn_output_type(a->region.type));
    crn_json_bool(j, "global", a->is_whole);
    crn_json_array(j, "dims");
    for (d = 0; d < a->region.ndims; d++)
        crn_json_u64(j, NULL, a->region.dims[d]);
    crn_json_end_array(j);
    crn_json_u64(j, "bytes", a->bytes);
    return crn_cli_json_end(cli, CLI_OK);
}

static int extract_checkpoint(struct cli *cli, const char *checkpoint,
                              const struct extract_options *o)
{
    const struct cli_sink_ops *ops = NULL;
    struct crn_version *v = NULL;
    struct cli_items items = {0};
    struct cli_target t;
    struct cli_array a;
    cairn_err rc;
    int status;

    if (o->format != NULL && (ops = sink_by_format(o->format)) == NULL)
        return crn_cli_usage(cli, "format '%s' is unknown or not in this build", o->format);
    if (ops != NULL && strcmp(o->output, "-") == 0 && !ops->can_stream)
        return crn_cli_usage(cli, "%s cannot go to standard output", ops->name);
    rc = crn_cli_pick(&cli->store, checkpoint, &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_open(&cli->store, t.name, t.version, &v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_keep(v, CLI_KEPT_CHUNKS, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_items_load(v, &items, cli->ei);
    if (rc == CAIRN_OK)
        rc = extract_choose(v, &items, o, &a, cli->ei);
    if (rc == CAIRN_OK && o->slice != NULL)
        rc = crn_array_slice(&a, o->slice, cli->ei);
    if (rc == CAIRN_OK) {
        ops = find_sink(o, &a);
        rc = extract_to(&a, ops, o->output, cli);
    }
    status =
        rc != CAIRN_OK ? crn_cli_fail_reading(cli, v, NULL) : extract_report(cli, &a, o, ops->name);
    crn_items_free(&items);
    crn_version_close(v);
    return status;
}

static int extract_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"rank", required_argument, NULL, 'r'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"format", required_argument, NULL, 'f'},
                                          {"file", no_argument, NULL, 'F'},
                                          {"region", no_argument, NULL, 'R'},
                                          {"slice", required_argument, NULL, 's'},
                                          {0}};
    struct extract_options o = {.rank = -1};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "r:o:f:s:", longs)) != -1) {
        if (c == 'o')
            o.output = optarg;
        else if (c == 'f')
            o.format = optarg;
        else if (c == 's')
            o.slice = optarg;
        else if (c == 'F')
            o.which = STORED_FILE;
        else if (c == 'R')
            o.which = REGION;
        else if (c == '?' || crn_cli_number(cli, "rank", optarg, &o.rank) != 0)
            return CLI_USAGE;
    }
    if (argc - optind != 2)
        return crn_cli_usage(cli, "a checkpoint and a region are needed");
    if (o.output == NULL)
        return crn_cli_usage(cli, "where to? use -o FILE, or -o - for standard output");
    o.region = argv[optind + 1];
    return extract_checkpoint(cli, argv[optind], &o);
}

const struct cli_command crn_cmd_extract = {
    .name = "extract",
    .args = "[-r RANK] [-s SLICE] [-f FORMAT] [--file | --region] -o FILE NAME[@VERSION] REGION",
    .help = "Writes a region or file of a rank, or a whole global array, to a file",
    .about = "Writes the region or file of a rank, or a global array put together from "
             "all ranks, to a file: raw bytes, .npy, or HDF5 (.h5). The suffix of the "
             "output chooses the format of a region. A stored file comes out byte for "
             "byte, whatever its name and the output's. `--file` and `--region` choose "
             "between a region and a file of the same name.",
    .needs_store = 1,
    .run = extract_run,
    .options =
        "  -o, --output FILE where to; - is standard output\n"
        "  -r, --rank RANK   the region of this rank; else a global array as a whole\n"
        "  -s, --slice S     a part of it: 0:10,: is the first ten rows, 3,: the fourth alone\n"
        "  -f, --format F    raw, npy or hdf5; default by the suffix .npy or .h5, else raw;\n"
        "                    a stored file is raw, whatever it is called\n"
        "  --file, --region  where a region and a file have the same name\n",
};
