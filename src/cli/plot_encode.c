/* SPDX-License-Identifier: BSD-3-Clause */
/* What merging and compression save, on computed data (figures 6 to 9 of Islam et al., SC 2012): the
 * ratio over schemes with one and two passes, over the ranks that are merged, over the size of blocks
 * and over time steps. Bytes are those of the chunks and 24 bytes for each in the index. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/plot_encode.h"
#include "encode/chunk.h"
#include "encode/stream.h"
#include "encode/work.h"

enum { RANKS = PLOTTED_RANKS, REGIONS = PLOTTED_REGIONS, SIDE = 64, STEPS = 8, ROWS = SIDE * SIDE };

static const struct plotted_method methods[] = {
    {"agnostic", CRN_AGNOSTIC, "gzip:6"}, {"agnostic-block", CRN_AGNOSTIC_BLOCK, "gzip:6"},
    {"aware", CRN_AWARE, "paper"},        {"aware-block", CRN_AWARE_BLOCK, "paper"},
    {"adaptive", CRN_AWARE, NULL},
};
#define NMETHODS (sizeof(methods) / sizeof(methods[0]))

/* Data. ---------------------------------------------------------------------------------------- */

static double plot_encode_hashed(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9U;
    return (double)((x ^ (x >> 32)) >> 11) * 0x1p-53;
}

/* Fields begin with one value everywhere and get rougher as waves spread. Region 3 belongs to rows of
 * one mesh that go to the ranks in turn; all others are blocks. */
static double plot_encode_field(uint32_t rank, uint32_t r, uint32_t i, unsigned step)
{
    uint32_t row = i / SIDE;
    uint32_t column = i % SIDE;
    uint32_t block_row = rank / 4;
    double x = (double)(column + rank % 4 * SIDE);
    double y = (double)(row + block_row * SIDE);
    double rough =
        1e-9 * plot_encode_hashed(((uint64_t)rank * REGIONS + r) * ROWS + i + 977 * step);

    if (r == 3)
        y = (double)(row * RANKS + rank);
    return 1 + 0.1 * step * (sin((0.02 + 0.004 * r) * x + 0.1 * step) * cos(0.03 * y) + rough);
}

static void data_free(struct plotted_data *d)
{
    uint32_t rank, r;

    for (rank = 0; rank < RANKS; rank++)
        for (r = 0; r < REGIONS; r++)
            free(d->bytes[rank][r]);
}

static cairn_err data_region(struct plotted_data *d, uint32_t rank, uint32_t r, unsigned step,
                             struct crn_errinfo *ei)
{
    static const char *const names[REGIONS] = {"density", "velocity", "pressure",
                                               "mesh",    "ids",      "energy"};
    static const cairn_type types[REGIONS] = {CAIRN_F64, CAIRN_F64, CAIRN_F64,
                                              CAIRN_F64, CAIRN_I32, CAIRN_F32};
    struct crn_region *region = &d->region[rank][r];
    uint32_t i;
    cairn_err rc;

    *region = (struct crn_region){.type = (uint8_t)types[r], .ndims = 2, .dims = {SIDE, SIDE}};
    (void)snprintf(region->name, sizeof(region->name), "%s", names[r]);
    rc = crn_region_check(region, ei);
    d->bytes[rank][r] = rc == CAIRN_OK ? malloc(region->bytes) : NULL;
    if (rc == CAIRN_OK && d->bytes[rank][r] == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, 0, "data to draw");
    for (i = 0; rc == CAIRN_OK && i < ROWS; i++) {
        unsigned char *at = d->bytes[rank][r] + i * cairn_type_size(types[r]);
        double value = plot_encode_field(rank, r, i, step);
        float single = (float)value;
        int32_t id = (int32_t)(rank * ROWS + i + (plot_encode_hashed(i + rank) > 0.9));

        if (types[r] == CAIRN_F64)
            memcpy(at, &value, sizeof(value));
        else
            memcpy(at, types[r] == CAIRN_F32 ? (const void *)&single : &id, 4);
    }
    return rc;
}

static cairn_err data_make(struct plotted_data *d, unsigned step, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t rank, r;

    memset(d, 0, sizeof(*d));
    for (rank = 0; rank < RANKS; rank++) {
        d->shard[rank] =
            (struct crn_shard){.rank = rank, .nregions = REGIONS, .regions = d->region[rank]};
        for (r = 0; rc == CAIRN_OK && r < REGIONS; r++)
            rc = data_region(d, rank, r, step, ei);
    }
    return rc;
}

/* Ratios. -------------------------------------------------------------------------------------- */

/* Where the chunks of a measurement go. */
struct counted {
    struct plotted_result *result;
    struct crn_encode_work *work; /* for decoding */
    unsigned char *decoded;
};

static double cpu_seconds(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Counts a chunk, and the time to decode it. */
static cairn_err count_chunk(void *ctx, const struct crn_chunk_record *record, const void *encoded,
                             struct crn_errinfo *ei)
{
    struct counted *c = ctx;
    double start = cpu_seconds();
    cairn_err rc = CAIRN_OK;

    if (record->encoded == record->bytes)
        memcpy(c->decoded, encoded, record->bytes);
    else
        rc = crn_chunk_decode(c->work, encoded, record->encoded, NULL, c->decoded, record->bytes,
                              ei);
    c->result->out += record->encoded + 24;
    c->result->decode_s += cpu_seconds() - start;
    return rc;
}

static cairn_err pipe_for(const char *text, cairn_type type, struct crn_pipe *ret,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    if (strcmp(text, "paper") != 0 && strcmp(text, "first") != 0)
        return crn_pipe_parse(text, ret, ei);
    rc = crn_pipe_parse(crn_pipe_paper(type, 0), ret, ei);
    if (rc == CAIRN_OK && strcmp(text, "first") == 0 && ret->n > 1)
        ret->n--;
    return rc;
}

static cairn_err encode_stream(const struct plotted_data *d, const struct crn_merge *plan,
                               uint32_t stream, struct crn_stream_options *o,
                               struct crn_encode_work *work, struct counted *counted,
                               struct crn_errinfo *ei)
{
    struct crn_encoder *e = NULL;
    struct crn_merge_cursor c;
    struct crn_merge_piece p;
    struct crn_map map = {0};
    cairn_err rc = crn_encoder_open(o, work, count_chunk, counted, &e, ei);

    crn_merge_start(plan, stream, &c);
    while (rc == CAIRN_OK && crn_merge_next(&c, UINT64_MAX, &p)) {
        struct crn_run run = crn_merge_run(plan, &p);

        rc = crn_encoder_put(e, d->bytes[p.shard][p.region] + p.offset, (size_t)p.bytes,
                             o->type == CAIRN_BYTES ? NULL : &run, NULL, ei);
    }
    if (rc == CAIRN_OK)
        rc = crn_encoder_finish(e, &map, ei);
    crn_map_free(&map);
    crn_encoder_close(e);
    return rc;
}

static cairn_err measure_group(const struct plotted_data *d, const struct plotted_method *m,
                               const struct crn_merge *plan, struct crn_chooser *chooser,
                               struct crn_encode_work *work, struct counted *counted,
                               struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < crn_merge_streams(plan); i++) {
        const struct crn_merge_stream *s = crn_merge_stream(plan, i);
        struct crn_stream_options o = {.type = s->type,
                                       .bytes = s->bytes,
                                       .key = s->key,
                                       .chooser = chooser,
                                       .dedup = chooser != NULL};

        if (m->pipe != NULL)
            rc = pipe_for(m->pipe, s->type, &o.pipe, ei);
        if (rc == CAIRN_OK)
            rc = encode_stream(d, plan, i, &o, work, counted, ei);
        counted->result->in += s->bytes;
    }
    return rc;
}

cairn_err crn_plotted_measure(const struct plotted_data *d, const struct plotted_method *m,
                              uint32_t group, uint64_t block, struct plotted_result *ret,
                              struct crn_errinfo *ei)
{
    struct crn_choose_options choose = {.aim = CRN_AIM_RATIO};
    struct crn_merge_options merge = {.scheme = m->scheme,
                                      .block_bytes = block,
                                      .group_bytes = m->pipe == NULL ? CRN_STREAM_CHUNK : 0};
    struct counted counted = {.result = ret, .decoded = malloc(CRN_STREAM_CHUNK)};
    struct crn_chooser *chooser = NULL;
    struct crn_encode_work *work = NULL;
    double start = cpu_seconds();
    uint32_t first;
    cairn_err rc;

    *ret = (struct plotted_result){0};
    rc = counted.decoded == NULL ? crn_fail(ei, CAIRN_ENOMEM, 0, "data to draw")
                                 : crn_work_new(&work, ei);
    if (rc == CAIRN_OK)
        rc = crn_work_new(&counted.work, ei);
    if (rc == CAIRN_OK && m->pipe == NULL)
        rc = crn_chooser_open(&choose, &chooser, ei);
    for (first = 0; rc == CAIRN_OK && first < RANKS; first += group) {
        struct crn_merge *plan = NULL;
        struct plotted_data part = *d;

        memmove(part.bytes, d->bytes[first], group * sizeof(part.bytes[0]));
        rc = crn_merge_plan(d->shard + first, group, &merge, &plan, ei);
        if (rc == CAIRN_OK)
            rc = measure_group(&part, m, plan, chooser, work, &counted, ei);
        crn_merge_free(plan);
    }
    crn_chooser_close(chooser);
    crn_work_free(work);
    crn_work_free(counted.work);
    free(counted.decoded);
    ret->encode_s = cpu_seconds() - start - ret->decode_s;
    return rc;
}

/* The ratio of all ranks, merged in groups of `group`. */
static cairn_err plot_encode_ratio(const struct plotted_data *d, const struct plotted_method *m,
                                   uint32_t group, uint64_t block, double *ret,
                                   struct crn_errinfo *ei)
{
    struct plotted_result result;
    cairn_err rc = crn_plotted_measure(d, m, group, block, &result, ei);

    *ret = result.out > 0 ? (double)result.in / (double)result.out : 0;
    return rc;
}

/* Panels. -------------------------------------------------------------------------------------- */

static cairn_err put_passes(struct plot *p, const struct plotted_data *d)
{
    static const struct plotted_method one[] = {{"", CRN_AGNOSTIC, "gzip:6"},
                                                {"", CRN_AWARE, "first"},
                                                {"", CRN_AWARE_BLOCK, "first"},
                                                {"", CRN_AWARE, NULL}};
    static const struct plotted_method two[] = {{"agnostic", CRN_AGNOSTIC, "gzip:6,gzip:6"},
                                                {"aware", CRN_AWARE, "paper"},
                                                {"aware-block", CRN_AWARE_BLOCK, "paper"},
                                                {"adaptive", CRN_AWARE, NULL}};
    size_t i;

    (void)fprintf(p->data, "# scheme, ratio with one pass, with two\n");
    for (i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
        double a, b;
        cairn_err rc = plot_encode_ratio(d, &one[i], RANKS, 0, &a, p->cli->ei);

        if (rc == CAIRN_OK)
            rc = plot_encode_ratio(d, &two[i], RANKS, 0, &b, p->cli->ei);
        if (rc != CAIRN_OK)
            return rc;
        (void)fprintf(p->data, "%s %.4f %.4f\n", two[i].label, a, b);
    }
    (void)fprintf(p->data, "\n\n");
    return CAIRN_OK;
}

/* A line: x, and the ratio of every method. */
static cairn_err put_line(struct plot *p, const struct plotted_data *d, double x, uint32_t group,
                          uint64_t block)
{
    size_t i;

    (void)fprintf(p->data, "%g", x);
    for (i = 0; i < NMETHODS; i++) {
        double value;
        cairn_err rc = plot_encode_ratio(d, &methods[i], group, block, &value, p->cli->ei);

        if (rc != CAIRN_OK)
            return rc;
        (void)fprintf(p->data, " %.4f", value);
    }
    (void)fprintf(p->data, "\n");
    return CAIRN_OK;
}

static cairn_err put_panels(struct plot *p, const struct plotted_data *d)
{
    cairn_err rc = put_passes(p, d);
    uint32_t group;
    uint64_t block;
    unsigned step;

    (void)fprintf(p->data, "# ranks merged, ratio of each scheme\n");
    for (group = 1; rc == CAIRN_OK && group <= RANKS; group *= 2)
        rc = put_line(p, d, group, group, 0);
    (void)fprintf(p->data, "\n\n# bytes of a block, ratio of each scheme\n");
    for (block = 256; rc == CAIRN_OK && block <= 32768; block *= 4)
        rc = put_line(p, d, (double)block, RANKS, block);
    (void)fprintf(p->data, "\n\n# time step, ratio of each scheme\n");
    for (step = 0; rc == CAIRN_OK && step < STEPS; step++) {
        struct plotted_data now;

        rc = data_make(&now, step, p->cli->ei);
        if (rc == CAIRN_OK)
            rc = put_line(p, &now, step, RANKS, 0);
        data_free(&now);
    }
    return rc;
}

static void put_script(FILE *out)
{
    static const char *const axes[] = {
        "set title 'more ranks merged'\nset xlabel 'ranks'\nset logscale x 2\n",
        "set title 'larger blocks'\nset xlabel 'bytes of a block'\nset logscale x 2\n",
        "set title 'along a run'\nset xlabel 'time step'\nunset logscale x\nset logscale y\n"};
    size_t panel, i;

    /* One key for the panels with lines. Schemes with and without blocks nearly coincide: the one below has
     * larger points. */
    (void)fprintf(out, "set multiplot layout 2,2 margins 0.07,0.97,0.08,0.86 spacing 0.08,0.16\n"
                       "set ylabel 'compression ratio' offset 1,0\n"
                       "set title 'codecs, once or twice' offset 0,1.2\n"
                       "set style data histograms\nset style fill solid 0.7\nset yrange [0:*]\n"
                       "set key at graph 0.5,1.02 center bottom horizontal samplen 2\n"
                       "plot 'encode.dat' index 0 using 2:xtic(1) title 'one pass', "
                       "'' index 0 using 3 title 'two passes'\n"
                       "set style data linespoints\nset yrange [*:*]\n"
                       "set title offset 0,0\n"
                       "set key at screen 0.75,0.99 center top horizontal samplen 3\n");
    for (panel = 0; panel < sizeof(axes) / sizeof(axes[0]); panel++) {
        (void)fprintf(out, "%splot", axes[panel]);
        for (i = 0; i < NMETHODS; i++)
            (void)fprintf(out, "%s 'encode.dat' index %zu using 1:%zu ps %s title '%s'",
                          i > 0 ? "," : "", panel + 1, i + 2, i % 2 == 0 ? "1.6" : "0.8",
                          methods[i].label);
        (void)fprintf(out, "\nunset key\n");
    }
    (void)fprintf(out, "unset multiplot\n");
}

int crn_plot_encode(struct plot *p, int argc, char **argv)
{
    struct plotted_data d;
    cairn_err rc;
    int status;

    (void)argv;
    if (argc != 1)
        return crn_cli_usage(p->cli, "plot encode computes its data and takes no arguments");
    p->width = 1100;
    p->height = 800;
    rc = data_make(&d, STEPS - 1, p->cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_plot_begin(p, "encode", p->cli->ei);
    if (rc == CAIRN_OK) {
        put_script(p->script);
        rc = put_panels(p, &d);
        if (rc != CAIRN_OK)
            crn_plot_drop(p);
    }
    status = rc == CAIRN_OK ? crn_plot_end(p) : crn_cli_fail(p->cli);
    if (rc == CAIRN_OK && crn_plot_encode_io(p, &d) != CLI_OK)
        status = CLI_PROBLEM;
    data_free(&d);
    return status;
}
