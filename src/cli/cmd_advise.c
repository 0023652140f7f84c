/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn advise: what merging and compression would do to this data. It tries every scheme and
 * pipeline on a sample, decodes and compares. It prints and draws ratio and speed, and
 * recommends one of them. */
#include "cli/advise.h"
#include "cli/plot.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define METHODS_MAX 64

struct advise_options {
    struct advise_levels_options levels;
    uint64_t sample;
    uint64_t bandwidth; /* bytes per second for each encoding core; 0: best ratio */
    const char *plot;
};

struct advice {
    struct cli *cli;
    const struct advise_options *o;
    struct advise_sample sample;
    struct advise_result result[METHODS_MAX];
    size_t n;
    double baseline; /* ratio of the paper's baseline: agnostic, gzip -6; 0 if not tried */
    size_t best;
};

static cairn_err take_version(struct cli *cli, const char *text, uint64_t limit, const char *hdf5,
                              struct advise_sample *ret)
{
    struct crn_version *v = NULL;
    struct crn_store st;
    struct cli_target t;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), cli->cfg.persistent, 0, &st, cli->ei);
    if (rc != CAIRN_OK)
        return crn_err_context(cli->ei, rc, "there is no file '%s', and", text);
    rc = crn_cli_pick(&st, text, &t, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_version_open(&st, t.name, t.version, &v, cli->ei);
    if (rc == CAIRN_OK)
        rc = crn_advise_version(v, limit, hdf5, ret, cli->ei);
    crn_version_close(v);
    crn_store_close(&st);
    return rc;
}

static cairn_err try_all(struct advice *a)
{
    const struct advise_method *methods;
    struct cli_progress progress = {0};
    struct crn_errinfo *ei = a->cli->ei;
    cairn_err rc = CAIRN_OK;
    size_t n, i;

    methods = crn_advise_methods(&n);
    crn_progress_begin_count(&progress, a->cli, "trials", n);
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        rc = crn_advise_try(&a->sample, &methods[i], &a->result[a->n], ei);
        if (rc == CAIRN_ENOTSUP) { /* not in this build */
            crn_err_clear(ei);
            rc = CAIRN_OK;
            continue;
        }
        if (rc == CAIRN_OK && methods[i].scheme == CRN_AGNOSTIC &&
            strcmp(methods[i].pipe, "gzip:6") == 0)
            a->baseline = a->result[a->n].ratio;
        a->n++;
        crn_progress_add(&progress, 1);
    }
    crn_progress_end(&progress);
    return rc;
}

/* Seconds until 10^6 bytes are on the file system: encoding and writing overlap. */
static double advise_seconds(const struct advise_result *r, uint64_t bandwidth)
{
    double encode = 1 / r->encode_mbps;
    double write = 1e6 / r->ratio / (double)bandwidth;

    return encode > write ? encode : write;
}

/* The least time at the given bandwidth; otherwise the best ratio, and among those within 2 %
 * the fastest. */
static size_t advise_choose(const struct advice *a)
{
    double most = 0;
    size_t best = 0;
    size_t i;

    for (i = 0; i < a->n; i++)
        most = a->result[i].ratio > most ? a->result[i].ratio : most;
    for (i = 0; i < a->n; i++)
        if (a->o->bandwidth > 0 ? advise_seconds(&a->result[i], a->o->bandwidth) <
                                      advise_seconds(&a->result[best], a->o->bandwidth)
                                : a->result[i].ratio >= 0.98 * most &&
                                      (a->result[best].ratio < 0.98 * most ||
                                       a->result[i].encode_mbps > a->result[best].encode_mbps))
            best = i;
    return best;
}

/* Output. -------------------------------------------------------------------------------------- */

static void advise_print(const struct advice *a)
{
    const struct advise_sample *s = &a->sample;
    const struct advise_result *best = &a->result[a->best];
    char all[32], sampled[32];
    struct cli_table t;
    size_t i;

    crn_human_bytes(s->all, all, sizeof(all));
    crn_human_bytes(s->sampled, sampled, sizeof(sampled));
    (void)printf("%" PRIu64 " ranks, %s; tried on %s of %" PRIu32
                 " ranks; %.0f %% of the bytes are variables\n\n",
                 s->ranks, all, sampled, s->n,
                 100 * (double)s->variables / (double)(s->looked_at + (s->looked_at == 0)));
    crn_table_begin(&t, "llrrrrl");
    crn_table_add(&t, "SCHEME");
    crn_table_add(&t, "PIPELINE");
    crn_table_add(&t, "RATIO");
    crn_table_add(&t, "TO gzip -6");
    crn_table_add(&t, "ENCODE MB/s");
    crn_table_add(&t, "DECODE MB/s");
    crn_table_add(&t, "%s", "");
    for (i = 0; i < a->n; i++) {
        const struct advise_result *r = &a->result[i];

        crn_table_add(&t, "%s", crn_merge_scheme_name(r->method->scheme));
        crn_table_add(&t, "%s", r->method->pipe);
        crn_table_add(&t, "%.3f", r->ratio);
        if (a->baseline > 0)
            crn_table_add(&t, "%+.0f %%", 100 * (r->ratio / a->baseline - 1));
        else
            crn_table_add(&t, "-");
        crn_table_add(&t, "%.0f", r->encode_mbps);
        crn_table_add(&t, "%.0f", r->decode_mbps);
        crn_table_add(&t, "%s", i == a->best ? "<- recommended" : "");
    }
    crn_table_print(&t);
    crn_table_free(&t);
    (void)printf("\n%s, %s: 1 / %.2f of the bytes, %.0f MB/s for each core",
                 crn_merge_scheme_name(best->method->scheme), best->method->pipe, best->ratio,
                 best->encode_mbps);
    if (a->o->bandwidth > 0)
        (void)printf("; the least time at %.0f MB/s a core to the file system\n",
                     (double)a->o->bandwidth / 1e6);
    else
        (void)printf("; the fastest of the best ratios\n");
}

static void json_result(struct crn_json *j, const char *key, const struct advise_result *r,
                        double baseline)
{
    crn_json_object(j, key);
    crn_json_str(j, "scheme", crn_merge_scheme_name(r->method->scheme));
    crn_json_str(j, "pipeline", r->method->pipe);
    crn_json_f64(j, "ratio", r->ratio);
    if (baseline > 0)
        crn_json_f64(j, "improvement_percent", 100 * (r->ratio / baseline - 1));
    crn_json_f64(j, "encode_mbps", r->encode_mbps);
    crn_json_f64(j, "decode_mbps", r->decode_mbps);
    crn_json_end_object(j);
}

static void print_json(const struct advice *a)
{
    struct crn_json *j = crn_cli_json(a->cli);
    size_t i;

    crn_json_u64(j, "ranks", a->sample.ranks);
    crn_json_u64(j, "bytes", a->sample.all);
    crn_json_u64(j, "sampled_ranks", a->sample.n);
    crn_json_u64(j, "sampled_bytes", a->sample.sampled);
    crn_json_f64(j, "variables_share",
                 (double)a->sample.variables / (double)(a->sample.looked_at + 1));
    crn_json_array(j, "methods");
    for (i = 0; i < a->n; i++)
        json_result(j, NULL, &a->result[i], a->baseline);
    crn_json_end_array(j);
    json_result(j, "recommended", &a->result[a->best], a->baseline);
}

/* Labels results that no other beats in both ratio and speed, and the paper's two extremes. */
static int is_labelled(const struct advice *a, size_t i)
{
    const struct advise_result *r = &a->result[i];
    size_t k;

    if (r->method->scheme == CRN_AGNOSTIC ? strcmp(r->method->pipe, "gzip:6") == 0
                                          : strcmp(r->method->pipe, "paper") == 0)
        return r->method->scheme != CRN_AWARE_BLOCK;
    for (k = 0; k < a->n; k++)
        if (k != i && a->result[k].ratio >= r->ratio && a->result[k].encode_mbps >= r->encode_mbps)
            return 0;
    return 1;
}

/* Would its label lie on one that is drawn before it? The recommended one's is the first. */
static int is_crowded(const struct advice *a, size_t i)
{
    double low = a->result[0].ratio;
    double high = low;
    size_t k;

    for (k = 0; k < a->n; k++) {
        low = fmin(low, a->result[k].ratio);
        high = fmax(high, a->result[k].ratio);
    }
    for (k = 0; i != a->best && k < a->n; k++)
        if ((k == a->best || k < i) && k != i && is_labelled(a, k) &&
            fabs(a->result[k].ratio - a->result[i].ratio) < 0.05 * (high - low) &&
            fabs(log10(a->result[k].encode_mbps / a->result[i].encode_mbps)) < 0.7)
            return 1;
    return 0;
}

/* Ratio against speed, one colour per scheme, the recommended one circled. */
static int advise_draw(const struct advice *a)
{
    static const char *const colors[CRN_SCHEMES] = {"#999999", "#E69F00", "#0072B2", "#D55E00"};
    struct plot p = {.cli = a->cli,
                     .dir = a->o->plot,
                     .format = "svg",
                     .is_part = 1,
                     .width = 900,
                     .height = 560};
    size_t scheme, i;

    if (crn_plot_begin(&p, "advise", a->cli->ei) != CAIRN_OK)
        return crn_cli_fail(a->cli);
    (void)fprintf(p.data,
                  "# a block for each scheme, then the recommended one: encode MB/s, ratio, "
                  "pipeline\n");
    (void)fprintf(p.script,
                  "set xlabel 'encoding, MB/s for each core'\n"
                  "set ylabel 'ratio'\nset logscale x\nset key tmargin center horizontal\n"
                  "set title 'Ratio against speed'\nset offsets graph 0.02, graph 0.15, "
                  "graph 0.05, graph 0.02\n"
                  "plot \\\n");
    for (scheme = 0; scheme <= CRN_SCHEMES; scheme++) {
        for (i = 0; i < a->n; i++)
            if (scheme < CRN_SCHEMES ? a->result[i].method->scheme == (enum crn_scheme)scheme
                                     : i == a->best)
                (void)fprintf(
                    p.data, "%.6g %.6g \"%s\"\n", a->result[i].encode_mbps, a->result[i].ratio,
                    is_labelled(a, i) && !is_crowded(a, i) ? a->result[i].method->pipe : "");
        (void)fprintf(p.data, "NaN NaN \"\"\n\n\n"); /* an empty block would not count */
        if (scheme < CRN_SCHEMES)
            (void)fprintf(p.script,
                          "  'advise.dat' index %zu using 1:2 with points pt 7 ps 0.8 lc rgb '%s' "
                          "title '%s', \\\n"
                          "  'advise.dat' index %zu using 1:2:3 with labels left offset 0.6,0.3 "
                          "font ',9' tc rgb '%s' notitle, \\\n",
                          scheme, colors[scheme], crn_merge_scheme_name((enum crn_scheme)scheme),
                          scheme, colors[scheme]);
    }
    (void)fprintf(p.script,
                  "  'advise.dat' index %d using 1:2 with points pt 6 ps 2.5 lw 2 lc rgb '#009E73' "
                  "title 'recommended'\n",
                  CRN_SCHEMES);
    return crn_plot_end(&p);
}

static int advise_try_all(struct cli *cli, const struct advise_options *o, char **args, size_t n)
{
    struct advice a = {.cli = cli, .o = o};
    char path[CRN_PATH_MAX];
    const char *hdf5 = crn_cli_hdf5(cli, path, sizeof(path));
    int status = CLI_OK;
    cairn_err rc;

    if (n == 1 && strchr(args[0], '/') == NULL && access(args[0], F_OK) != 0)
        rc = take_version(cli, args[0], o->sample, hdf5, &a.sample);
    else
        rc = crn_advise_files(args, n, o->sample, hdf5, &a.sample, cli->ei);
    if (rc == CAIRN_OK)
        rc = try_all(&a);
    if (rc == CAIRN_OK) {
        a.best = advise_choose(&a);
        if (cli->is_json)
            print_json(&a);
        else
            advise_print(&a);
        if (o->plot != NULL)
            status = advise_draw(&a);
        status = cli->is_json ? crn_cli_json_end(cli, status) : crn_cli_end(cli, status);
    } else {
        status = crn_cli_fail(cli);
    }
    crn_advise_free(&a.sample);
    return status;
}

static cairn_err take_percent(const char *text, double *ret, struct crn_errinfo *ei)
{
    char *end;
    double percent = strtod(text, &end);

    if (end == text || *end != '\0' || !(percent > 0) || percent > 100)
        return crn_fail(ei, CAIRN_EINVAL, 0, "--slowdown: '%s' is not between 0 and 100 percent",
                        text);
    *ret = percent;
    return CAIRN_OK;
}

static cairn_err take_option(struct advise_options *o, int c, struct crn_errinfo *ei)
{
    switch (c) {
    case 'p':
        o->plot = optarg;
        return CAIRN_OK;
    case 'm':
        return crn_advise_levels_time(&o->levels.mtbf, optarg, ei);
    case 'c':
        return crn_advise_levels_time(&o->levels.cost, optarg, ei);
    case 'w':
        return take_percent(optarg, &o->levels.slowdown_percent, ei);
    default:
        return crn_parse_bytes(optarg, c == 's' ? &o->sample : &o->bandwidth, ei);
    }
}

static int advise_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"sample", required_argument, NULL, 's'},
                                          {"bandwidth", required_argument, NULL, 'b'},
                                          {"plot", required_argument, NULL, 'p'},
                                          {"mtbf", required_argument, NULL, 'm'},
                                          {"cost", required_argument, NULL, 'c'},
                                          {"slowdown", required_argument, NULL, 'w'},
                                          {0}};
    struct advise_options o = {.sample = (uint64_t)32 << 20,
                               .levels = {.cost = {-1, -1, -1}, .mtbf = {-1, -1, -1}, 5}};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "s:b:p:", longs)) != -1) {
        if (c == '?')
            return CLI_USAGE;
        if (take_option(&o, c, cli->ei) != CAIRN_OK)
            return crn_cli_usage(cli, "%s", cli->info.msg);
    }
    if (argc - optind == 2 && strcmp(argv[optind], "levels") == 0)
        return crn_advise_levels(cli, &o.levels, argv[optind + 1]);
    if (optind == argc)
        return crn_cli_usage(cli, "which checkpoint, or which files?");
    if (o.sample == 0)
        return crn_cli_usage(cli, "the sample must have at least 1 byte");
    return advise_try_all(cli, &o, argv + optind, (size_t)(argc - optind));
}

const struct cli_command crn_cmd_advise = {
    .name = "advise",
    .args = "[OPTION...] NAME[@VERSION] | FILE... | levels NAME",
    .help = "Tries compression on a sample and recommends one; recommends intervals",
    .about =
        "Tries merging schemes and compression on a sample of a version, or of "
        "files of one rank each; prints ratio and speed of each, and which is "
        "recommended: the best ratio, or the least time at so many bytes a second "
        "to the file system for each core.\n"
        "`advise levels` recommends `period` and `persistent_every` for a name: what a copy and "
        "a flush take is measured by its versions, how often what fails is said with "
        "`--mtbf`. A failure counts for the first level that survives it: `captured` (the "
        "processes die), `local` (the node restarts), `persistent` (a node is lost). Without "
        "`--mtbf` all failures of the key `mtbf` need the file system.",
    .run = advise_run,
    .options =
        "  -s, --sample SIZE about so many bytes are tried (32M)\n"
        "  -b, --bandwidth S bytes a second to the file system for each encoding core: the\n"
        "                    recommended one takes the least time; else: has the best ratio\n"
        "  -p, --plot DIR    draw ratio against speed there\n"
        "  --mtbf LEVEL=TIME levels: time between failures that this level is the first to "
        "survive\n"
        "  --cost LEVEL=TIME levels: what a copy (captured), a local copy, a flush takes; else as\n"
        "                    measured\n"
        "  --slowdown PERCENT  levels: of the application, while it is flushed (5)\n",
};
