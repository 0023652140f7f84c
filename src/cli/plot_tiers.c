/* SPDX-License-Identifier: BSD-3-Clause */
/* The history of a tier cache, from its log of operations (figure 7 of Maurya et al., HPDC 2023,
 * and more): the speed of each call, the prefetch distance, and the occupancy of the tiers. */
#include "cli/plot.h"

#include <errno.h>
#include <stdlib.h>

#include "tier/cache.h"

struct history {
    struct crn_cache_op *op; /* owned */
    size_t n, cap;
};

static cairn_err add_op(struct history *h, const struct crn_cache_op *op, struct crn_errinfo *ei)
{
    if (h->n == h->cap) {
        size_t cap = h->cap != 0 ? 2 * h->cap : 256;
        struct crn_cache_op *grown = realloc(h->op, cap * sizeof(*grown));

        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu operations", cap);
        h->op = grown;
        h->cap = cap;
    }
    h->op[h->n++] = *op;
    return CAIRN_OK;
}

static cairn_err plot_tiers_load(const char *path, struct history *h, struct crn_errinfo *ei)
{
    FILE *in = fopen(path, "re");
    cairn_err rc = CAIRN_OK;
    struct crn_cache_op op;
    size_t line_no = 0;
    size_t cap = 0;
    char *line = NULL;

    if (in == NULL)
        return crn_fail_errno(ei, errno, "open '%s'", path);
    while (rc == CAIRN_OK && getline(&line, &cap, in) >= 0) {
        line_no++;
        if (line[0] == '#')
            continue;
        if (!crn_cache_op_parse(line, &op))
            rc = crn_fail(ei, CAIRN_EFORMAT, 0, "%s, line %zu is not a line of an operation log",
                          path, line_no);
        else if (op.rc == CAIRN_OK)
            rc = add_op(h, &op, ei);
    }
    free(line);
    (void)fclose(in);
    if (rc == CAIRN_OK && h->n == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "'%s' has no operations", path);
    return rc;
}

/* A block of writes, one of reads: number, GB/s, distance, tier; then the occupancy. */
static void write_data(const struct history *h, FILE *out)
{
    int kind;
    size_t i;
    int t;

    for (kind = CRN_CACHE_WRITE; kind <= CRN_CACHE_READ; kind++) {
        size_t number = 0;

        (void)fprintf(out, "# %s: number GB/s distance tier\n",
                      kind == CRN_CACHE_WRITE ? "writes" : "reads");
        for (i = 0; i < h->n; i++) {
            const struct crn_cache_op *op = &h->op[i];
            int64_t ns = op->wait_ns + op->copy_ns;

            if ((int)op->kind == kind)
                (void)fprintf(out, "%zu %.6g %u %d\n", ++number,
                              (double)op->bytes / (double)(ns > 0 ? ns : 1), op->distance,
                              op->tier);
        }
        if (number == 0)
            (void)fprintf(out, "NaN NaN NaN NaN\n"); /* gnuplot wants a line */
        (void)fprintf(out, "\n\n");
    }
    (void)fprintf(out, "# occupancy: s, GB of each tier\n");
    for (i = 0; i < h->n; i++) {
        (void)fprintf(out, "%.6f", (double)(h->op[i].start_ns - h->op[0].start_ns) * 1e-9);
        for (t = 0; t < CRN_TIERS_MAX; t++)
            (void)fprintf(out, " %.6g", (double)h->op[i].used[t] * 1e-9);
        (void)fprintf(out, "\n");
    }
}

static const char script[] =
    "set multiplot layout 3,1 margins 0.12,0.95,0.07,0.95 spacing 0.09\n"
    "set key at graph 1,1.14 right top horizontal maxrows 1 samplen 1\n"
    "set logscale y\n"
    "set xlabel 'call' offset 0,0.7\n"
    "set ylabel 'seen by the application (GB/s)'\n"
    "plot 'tiers.dat' index 0 using 1:2 with points pt 7 ps 0.5 lc rgb '#0072B2' title 'written', "
    "\\\n"
    "  '' index 1 using 1:($4==0?$2:NaN) with points pt 7 ps 0.5 lc rgb '#009E73' "
    "title 'read from tier 0', \\\n"
    "  '' index 1 using 1:($4==1?$2:NaN) with points pt 5 ps 0.5 lc rgb '#E69F00' "
    "title 'tier 1', \\\n"
    "  '' index 1 using 1:($4>=2?$2:NaN) with points pt 9 ps 0.5 lc rgb '#D55E00' title 'below'\n"
    "unset logscale y\n"
    "set yrange [0:*]\n"
    "set xlabel 'read' offset 0,0.7\n"
    "set ylabel 'next ones ready'\n"
    "plot 'tiers.dat' index 1 using 1:3 with steps lw 2 lc rgb '#009E73' notitle\n"
    "set xlabel 'time (s)' offset 0,0.7\n"
    "set ylabel 'in the tier (GB)'\n"
    "plot for [t=0:2] 'tiers.dat' index 2 using 1:(column(2+t)) with steps lw 2 "
    "lc rgb word('#0072B2 #E69F00 #D55E00', t+1) title sprintf('tier %d', t)\n"
    "unset multiplot\n";

int crn_plot_tiers(struct plot *p, int argc, char **argv)
{
    struct history h = {0};
    cairn_err rc;

    if (argc != 2)
        return crn_cli_usage(p->cli, "plot tiers needs the operation log of a tier cache");
    p->height = 900;
    rc = plot_tiers_load(argv[1], &h, p->cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_plot_begin(p, "tiers", p->cli->ei);
    if (rc == CAIRN_OK) {
        write_data(&h, p->data);
        (void)fputs(script, p->script);
    }
    free(h.op);
    return rc == CAIRN_OK ? crn_plot_end(p) : crn_cli_fail(p->cli);
}
