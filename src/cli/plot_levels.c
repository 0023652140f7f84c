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

    (void)fprintf(out,
                  "# version copy_s captured_s local_s protected_s persistent_s flush_s bytes\n");
    for (i = 0; i < h->n; i++) {
        const struct cli_level_times *t = &h->v[i];

        (void)fprintf(out, "%" PRId64, t->version);
        put_time(out, t->copy_s);
        put_time(out, t->captured_s);
        put_time(out, t->local_s);
        put_time(out, t->protected_s);
        put_time(out, t->persistent_s);
        put_time(out, t->flush_s);
        (void)fprintf(out, " %" PRIu64 "\n", t->bytes);
    }
}

/* What was measured of some version. The axis of times ends at decades and has units: 10 us, 1 ms. */
static void put_script(FILE *out, const struct cli_level_history *h)
{
    static const char *const lines[] = {"pt 1 lc rgb '#666666' title 'copy (how long)'",
                                        "pt 9 lc rgb '#0072B2' title 'captured by all ranks'",
                                        "pt 5 lc rgb '#E69F00' title 'local'",
                                        "pt 11 lc rgb '#009E73' title 'protected'",
                                        "pt 7 lc rgb '#D55E00' title 'persistent'"};
    int has[5] = {0};
    const char *comma = "plot";
    size_t i;
    int k;

    for (i = 0; i < h->n; i++) {
        has[0] |= h->v[i].copy_s >= 0;
        has[1] |= h->v[i].captured_s >= 0;
        has[2] |= h->v[i].local_s >= 0;
        has[3] |= h->v[i].protected_s >= 0;
        has[4] |= h->v[i].persistent_s >= 0;
    }
    (void)fprintf(out, "set logscale y\nset offsets graph 0.03, graph 0.03, 0, 0\n"
                       "set key tmargin center horizontal\nset xlabel 'version'\n"
                       "set ylabel 'time since the capture'\nset ytics ()\n"
                       "set for [i=-9:-7] ytics add (sprintf('%%g ns',10.**(i+9)) 10.**i)\n"
                       "set for [i=-6:-4] ytics add (sprintf('%%g µs',10.**(i+6)) 10.**i)\n"
                       "set for [i=-3:-1] ytics add (sprintf('%%g ms',10.**(i+3)) 10.**i)\n"
                       "set for [i=0:6] ytics add (sprintf('%%g s',10.**i) 10.**i)\n"
                       "set mytics 10\nset grid ytics mytics lc rgb '#dddddd' lt 1 lw 1, "
                       "lc rgb '#f0f0f0' lt 1 lw 1\n"
                       "stats 'levels.dat' using 1 nooutput\n"
                       "if (STATS_max - STATS_min < 16) { set xtics 1 }\n");
    for (k = 4; k >= 0; k--)
        if (has[k]) {
            (void)fprintf(out, "%s 'levels.dat' using 1:%d with linespoints ps 0.8 lw 2 %s", comma,
                          k + 2, lines[k]);
            comma = ", \\\n ";
        }
    (void)fputc('\n', out);
}

int crn_plot_levels(struct plot *p, int argc, char **argv)
{
    struct cli *cli = p->cli;
    struct cli_level_history h = {0};
    struct cli_target t;
    cairn_err rc;

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
        put_script(p->script, &h);
    }
    crn_level_times_free(&h);
    return rc == CAIRN_OK ? crn_plot_end(p) : crn_cli_fail(cli);
}
