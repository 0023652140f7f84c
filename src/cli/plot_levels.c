/* SPDX-License-Identifier: BSD-3-Clause */
/* How long each version of a name took to each level. */
#include <inttypes.h>

#include "cli/level_times.h"
#include "cli/plot.h"

static void put_time(FILE *out, double seconds)
{
    if (seconds < 0)
        (void)fprintf(out, " NaN");
    else
        (void)fprintf(out, " %.6g", seconds);
}

static void put_versions(FILE *out, const struct cli_level_history *h)
{
    size_t i;

    (void)fprintf(out, "# version copy_s captured_s local_s persistent_s flush_s bytes\n");
    for (i = 0; i < h->n; i++) {
        const struct cli_level_times *t = &h->v[i];

        (void)fprintf(out, "%" PRId64, t->version);
        put_time(out, t->copy_s);
        put_time(out, t->captured_s);
        put_time(out, t->local_s);
        put_time(out, t->persistent_s);
        put_time(out, t->flush_s);
        (void)fprintf(out, " %" PRIu64 "\n", t->bytes);
    }
}

#define USING(column) "'levels.dat' using 1:" column " with linespoints ps 0.8 "

static const char *const script[] = {
    "set logscale y\n",
    "set key outside top center horizontal\n",
    "set xlabel 'version'\n",
    "set ylabel 'after the capture (s)'\n",
    "set format y '%g'\n",
    "plot " USING("5") "pt 7 lc rgb '#D55E00' title 'persistent', \\\n",
    "  " USING("4") "pt 5 lc rgb '#E69F00' title 'local', \\\n",
    "  " USING("3") "pt 9 lc rgb '#0072B2' title 'captured by all ranks', \\\n",
    "  " USING("2") "pt 1 lc rgb '#999999' title 'copy (duration)'\n",
};

int crn_plot_levels(struct plot *p, int argc, char **argv)
{
    struct cli *cli = p->cli;
    struct cli_level_history h = {0};
    struct cli_target t;
    cairn_err rc;
    size_t i;

    if (argc != 2)
        return crn_cli_usage(cli, "plot levels needs the name of a checkpoint");
    rc = crn_store_open(crn_fs_default(), cli->cfg.persistent, 0, &cli->store, cli->ei);
    if (rc != CAIRN_OK)
        return crn_cli_fail(cli);
    rc = crn_cli_target(argv[1], &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_level_times_load(&cli->store, t.name, &h, cli->ei);
    crn_store_close(&cli->store);
    if (rc == CAIRN_OK)
        rc = crn_plot_begin(p, "levels", cli->ei);
    if (rc == CAIRN_OK) {
        put_versions(p->data, &h);
        for (i = 0; i < sizeof(script) / sizeof(script[0]); i++)
            (void)fputs(script[i], p->script);
    }
    crn_level_times_free(&h);
    return rc == CAIRN_OK ? crn_plot_end(p) : crn_cli_fail(cli);
}
