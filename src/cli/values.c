/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a region of all ranks (or of one) twice, piece by piece: for the bounds and the mean, then
 * for the histogram between the bounds. Complex numbers count by their magnitude, bytes and 8-bit
 * floats as unsigned bytes. */
#include "cli/values.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/compare.h"

#define BINS        16
#define PIECE_BYTES ((uint64_t)8 << 20)
#define BAR         40

struct values {
    uint64_t n, nan; /* numbers, and what is none */
    uint64_t infinite;
    double min, max, sum; /* of the finite ones */
    uint64_t bin[BINS];
    int is_binning; /* the second pass */
};

static double value_at(uint8_t type, const char *p)
{
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32[2];
        double f64[2];
    } x;

    memcpy(&x, p, cairn_type_size((cairn_type)type));
    switch (type) {
    case CAIRN_I8:
        return x.i8;
    case CAIRN_I16:
        return x.i16;
    case CAIRN_U16:
        return x.u16;
    case CAIRN_I32:
        return x.i32;
    case CAIRN_U32:
        return x.u32;
    case CAIRN_I64:
        return (double)x.i64;
    case CAIRN_U64:
        return (double)x.u64;
    case CAIRN_F32:
        return (double)x.f32[0];
    case CAIRN_F64:
        return x.f64[0];
    case CAIRN_F16:
        return crn_compare_from_f16(x.u16);
    case CAIRN_BF16:
        return crn_compare_from_bf16(x.u16);
    case CAIRN_C64:
        return hypot((double)x.f32[0], (double)x.f32[1]);
    case CAIRN_C128:
        return hypot(x.f64[0], x.f64[1]);
    default:
        return x.u8;
    }
}

static void count_value(struct values *v, double x)
{
    if (v->is_binning) {
        double width = v->max - v->min;
        int bin = isfinite(width) && width > 0 ? (int)((x - v->min) / width * BINS) : 0;

        if (isfinite(x))
            v->bin[bin < BINS ? bin : BINS - 1]++;
        return;
    }
    v->n++;
    if (isnan(x)) {
        v->nan++;
    } else if (isinf(x)) {
        v->infinite++;
    } else {
        v->min = x < v->min ? x : v->min;
        v->max = x > v->max ? x : v->max;
        v->sum += x;
    }
}

static cairn_err values_of_rank(struct crn_version *version, const struct cli_item *item,
                                struct values *v, char *buf, struct crn_errinfo *ei)
{
    uint8_t type = item->region->type;
    uint64_t element = cairn_type_size((cairn_type)type);
    struct cli_array a;
    struct cli_piece piece;
    cairn_err rc = CAIRN_OK;
    int more;

    crn_array_of_rank(&a, version, item);
    for (more = crn_array_piece(&a, PIECE_BYTES, 1, &piece); more && rc == CAIRN_OK;
         more = crn_array_piece(&a, PIECE_BYTES, 0, &piece)) {
        uint64_t at;

        rc = crn_array_read(&a, &piece, buf, ei);
        for (at = 0; rc == CAIRN_OK && at < piece.bytes; at += element)
            count_value(v, value_at(type, buf + at));
    }
    return rc;
}

static cairn_err values_of_region(struct crn_version *version, const struct cli_item *item,
                                  size_t n, int64_t rank, struct values *v, char *buf,
                                  struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    memset(v, 0, sizeof(*v));
    v->min = INFINITY;
    v->max = -INFINITY;
    for (v->is_binning = 0; v->is_binning < 2; v->is_binning++)
        for (i = 0; i < n && rc == CAIRN_OK; i++)
            if (rank < 0 || item[i].rank == (uint64_t)rank)
                rc = values_of_rank(version, &item[i], v, buf, ei);
    return rc;
}

static double values_mean(const struct values *v)
{
    return v->sum / (double)(v->n - v->nan - v->infinite);
}

static void values_json(struct crn_json *j, const char *name, const struct values *v)
{
    unsigned b;

    crn_json_object(j, NULL);
    crn_json_str(j, "region", name);
    crn_json_u64(j, "values", v->n);
    crn_json_u64(j, "nan", v->nan);
    crn_json_u64(j, "infinite", v->infinite);
    if (v->max >= v->min) {
        crn_json_f64(j, "min", v->min);
        crn_json_f64(j, "max", v->max);
        crn_json_f64(j, "mean", values_mean(v));
        crn_json_array(j, "histogram");
        for (b = 0; b < BINS; b++)
            crn_json_u64(j, NULL, v->bin[b]);
        crn_json_end_array(j);
    }
    crn_json_end_object(j);
}

static void values_print(const char *name, const struct values *v)
{
    static const char bar[BAR + 1] = "########################################";
    uint64_t most = 0;
    unsigned b;

    (void)printf("%s: %" PRIu64 " values", name, v->n);
    if (v->nan > 0)
        (void)printf(", %" PRIu64 " NaN", v->nan);
    if (v->infinite > 0)
        (void)printf(", %" PRIu64 " infinite", v->infinite);
    if (v->max < v->min) {
        (void)printf("\n");
        return;
    }
    (void)printf(", min %g, max %g, mean %g\n", v->min, v->max, values_mean(v));
    for (b = 0; b < BINS; b++)
        most = v->bin[b] > most ? v->bin[b] : most;
    for (b = 0; b < BINS && v->max > v->min; b++) {
        double width = (v->max - v->min) / BINS;
        double share = (double)v->bin[b] / (double)most;

        (void)printf("  %12g .. %-12g %12" PRIu64 "  %.*s\n", v->min + b * width,
                     v->min + (b + 1) * width, v->bin[b], (int)ceil(share * BAR), bar);
    }
}

static int is_wanted(const char *name, int n, char **names)
{
    int i;

    for (i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return n == 0;
}

static cairn_err values_all(struct cli *cli, struct crn_version *version,
                            const struct cli_items *items, int nnames, char **names, int64_t rank)
{
    char *buf = malloc(PIECE_BYTES);
    cairn_err rc =
        buf == NULL ? crn_fail(cli->ei, CAIRN_ENOMEM, ENOMEM, "show --values") : CAIRN_OK;
    size_t i;

    for (i = 0; i < items->n && rc == CAIRN_OK; i += crn_items_group(items, i)) {
        const struct crn_region *r = items->item[i].region;
        struct values v;

        if (r->kind == CRN_REGION_FILE || !is_wanted(r->name, nnames, names))
            continue;
        rc = values_of_region(version, &items->item[i], crn_items_group(items, i), rank, &v, buf,
                              cli->ei);
        if (rc == CAIRN_OK && cli->is_json)
            values_json(&cli->json, r->name, &v);
        else if (rc == CAIRN_OK)
            values_print(r->name, &v);
    }
    free(buf);
    return rc;
}

/* Every word must name a region, and the rank must be there. */
static cairn_err values_check(struct crn_version *version, const struct cli_items *items, int n,
                              char **names, int64_t rank, struct crn_errinfo *ei)
{
    uint32_t ranks = crn_version_manifest(version)->ranks;
    int i;

    for (i = 0; i < n; i++)
        if (crn_items_find(items, names[i], 0) == items->n)
            return crn_fail(ei, CAIRN_ENOENT, 0, "there is no region '%s'; see `cairn show`",
                            names[i]);
    if (rank >= (int64_t)ranks)
        return crn_fail(ei, CAIRN_ENOENT, 0, "there is no rank %lld: the version has %u ranks",
                        (long long)rank, (unsigned)ranks);
    return CAIRN_OK;
}

int crn_values_show(struct cli *cli, int nwords, char **words, int64_t rank)
{
    struct crn_version *v = NULL;
    struct cli_items items = {0};
    struct cli_target t;
    cairn_err rc;
    int status;

    rc = crn_cli_pick(&cli->store, words[0], &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_open(&cli->store, t.name, t.version, &v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_items_load(v, &items, cli->ei);
    if (rc == CAIRN_OK)
        rc = values_check(v, &items, nwords - 1, words + 1, rank, cli->ei);
    if (rc == CAIRN_OK && cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "name", t.name);
        crn_json_i64(j, "version", t.version);
        crn_json_array(j, "regions");
    }
    if (rc == CAIRN_OK)
        rc = values_all(cli, v, &items, nwords - 1, words + 1, rank);
    status = rc == CAIRN_OK ? CLI_OK : crn_cli_fail_reading(cli, v, NULL);
    if (cli->has_json && rc == CAIRN_OK) {
        crn_json_end_array(&cli->json);
        status = crn_cli_json_end(cli, status);
    } else if (rc == CAIRN_OK) {
        status = crn_cli_end(cli, status);
    }
    crn_items_free(&items);
    crn_version_close(v);
    return status;
}
