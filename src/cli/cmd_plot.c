/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn plot: pictures by gnuplot, with their data and script beside them. */
#include "cli/plot.h"

#include <string.h>

/* The whole list; a new picture is one function and one line. */
static const struct plot_kind kinds[] = {
    {"slowdown", "how much interference slows checkpoints down", crn_plot_slowdown},
    {"bandwidth", "waste of the strategies against the bandwidth", crn_plot_bandwidth},
    {"mtbf", "waste of the strategies against the MTBF", crn_plot_mtbf},
    {"least-bandwidth", "bandwidth that 80 % efficiency needs", crn_plot_least_bandwidth},
    {"encode", "what merging and compression save and cost, on computed data", crn_plot_encode},
    {"flush", "leaders, writer threads and timeline of a flush", crn_plot_flush},
    {"levels", "how long each version took to each level", crn_plot_levels},
    {"tiers", "speed, prefetching and occupancy of a tier cache", crn_plot_tiers},
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

static int take_option(struct plot *p, int c)
{
    int64_t number = 0;

    switch (c) {
    case 'o':
        p->dir = optarg;
        return 0;
    case 'p':
        p->format = "png";
        return 0;
    case 'd':
        p->format = "pdf";
        return 0;
    case 'r':
    case 's':
        if (crn_cli_number(p->cli, c == 'r' ? "--runs" : "--seed", optarg, &number) != 0)
            return -1;
        *(c == 'r' ? &p->runs : &p->seed) = (uint64_t)number;
        return 0;
    default:
        return -1;
    }
}

static int plot_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {
        {"out", required_argument, NULL, 'o'},  {"png", no_argument, NULL, 'p'},
        {"pdf", no_argument, NULL, 'd'},        {"runs", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 's'}, {0}};
    struct plot p = {
        .cli = cli, .dir = ".", .format = "svg", .seed = 1, .width = 900, .height = 560};
    size_t i;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "o:", longs)) != -1)
        if (take_option(&p, c) != 0)
            return CLI_USAGE;
    if (optind == argc)
        return crn_cli_usage(cli, "which figure?");
    for (i = 0; i < NKINDS; i++)
        if (strcmp(kinds[i].name, argv[optind]) == 0)
            return kinds[i].draw(&p, argc - optind, argv + optind);
    return crn_cli_usage(cli, "unknown figure '%s'", argv[optind]);
}

const struct cli_command crn_cmd_plot = {
    .name = "plot",
    .args = "KIND [OPTION...]",
    .words = "slowdown bandwidth mtbf least-bandwidth encode tiers flush levels",
    .help = "Draws a picture with gnuplot and leaves its data and script beside it",
    .about = "Draws a picture with gnuplot and leaves its data and script beside it. "
             "Kinds: `slowdown`, `bandwidth`, `mtbf`, `least-bandwidth`, `encode`, `tiers` LOG, "
             "`flush` NAME[@VERSION] (leaders, writer threads and timeline of a "
             "flush), `levels` NAME (how long each version took to each level).",
    .run = plot_run,
    .options = "  slowdown          how much interference slows checkpoints down\n"
               "  bandwidth         waste of the strategies against the bandwidth\n"
               "  mtbf              waste of the strategies against the MTBF\n"
               "  least-bandwidth   bandwidth that 80 % efficiency needs\n"
               "  encode            what merging and compression save and cost, on computed data\n"
               "  flush NAME[@VERSION]   leaders, writer threads and timeline of a flush\n"
               "  levels NAME       how long each version took to each level\n"
               "  tiers LOG         speed, prefetching and occupancy, from a log of operations\n"
               "  -o, --out DIR     where the files go (.)\n"
               "  --png, --pdf      PNG or PDF instead of SVG\n"
               "  --runs N          simulations for each point\n"
               "  --seed N          first seed (1)\n",
};
