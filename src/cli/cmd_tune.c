/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn tune: measures a directory and writes a suitable configuration. SIGINT, SIGTERM and
 * SIGHUP end it early; its files in the directory are removed in any case. */
#include "cli/plot_tune.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/fs.h"

struct tune_args {
    const char *dir, *out, *figures;
    int is_png;
    struct crn_tuner tuner;
    struct crn_tuning *result; /* owned */
    struct cli_progress progress;
};

/* The signal that ended it; set by the handler, read by the writers of a probe. */
static atomic_int stopped;

static void on_signal(int sig)
{
    atomic_store(&stopped, sig);
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    size_t i;

    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        (void)sigaction(signals[i], &act, NULL);
}

static void on_progress(void *arg, const struct crn_probe *p)
{
    (void)p;
    crn_progress_add(arg, 1);
}

/* Output. -------------------------------------------------------------------------------------- */

static void json_probe(struct crn_json *j, const struct crn_probe *p)
{
    crn_json_u64(j, "writers", p->writers);
    crn_json_u64(j, "files", p->files);
    crn_json_str(j, "layout", crn_layout_name(p->layout));
    crn_json_str(j, "method", crn_method_name(p->method));
    crn_json_u64(j, "block_bytes", p->block_bytes);
    crn_json_u64(j, "received_percent", p->received);
    crn_json_u64(j, "bytes", p->bytes);
}

static void json_measure(struct crn_json *j, const struct crn_measure *m)
{
    uint32_t i;

    crn_json_object(j, NULL);
    crn_json_str(j, "stage", crn_stage_name(m->stage));
    json_probe(j, &m->probe);
    crn_json_u64(j, "n", m->n);
    if (m->n > 0) {
        crn_json_f64(j, "median", m->median);
        crn_json_f64(j, "min", m->min);
        crn_json_f64(j, "max", m->max);
        crn_json_array(j, "rates");
        for (i = 0; i < m->n; i++)
            crn_json_f64(j, NULL, m->rate[i]);
        crn_json_end_array(j);
    } else {
        crn_json_str(j, "problem", m->problem[0] != '\0' ? m->problem : "no time or bytes left");
    }
    crn_json_end_object(j);
}

static void put_json(struct cli *cli, const struct tune_args *a)
{
    const struct crn_tuning *t = a->result;
    struct crn_json *j = crn_cli_json(cli);
    size_t i;

    crn_json_str(j, "directory", a->dir);
    crn_json_bool(j, "full", a->tuner.opt.is_full);
    crn_json_u64(j, "repeats", a->tuner.opt.repeats);
    crn_json_u64(j, "written_bytes", t->written);
    crn_json_f64(j, "seconds", t->seconds);
    crn_json_str(j, "cut_by", t->cut_by);
    crn_json_array(j, "results");
    for (i = 0; i < t->n; i++)
        json_measure(j, &t->m[i]);
    crn_json_end_array(j);
    crn_json_object(j, "recommended");
    json_probe(j, &t->best);
    crn_json_f64(j, "throughput", t->best_rate);
    crn_json_end_object(j);
    crn_json_f64(j, "one_writer", t->one_rate);
}

static void table_row(struct cli_table *t, const struct crn_measure *m)
{
    char block[32];

    crn_human_bytes(m->probe.block_bytes, block, sizeof(block));
    crn_table_add(t, "%s", crn_stage_name(m->stage));
    crn_table_add(t, "%u", m->probe.writers);
    crn_table_add(t, "%u", m->probe.files);
    crn_table_add(t, "%s", crn_layout_name(m->probe.layout));
    crn_table_add(t, "%s", crn_method_name(m->probe.method));
    crn_table_add(t, "%s", block);
    crn_table_add(t, "%u %%", m->probe.received);
    if (m->n == 0) {
        crn_table_add(t, "-");
        crn_table_add(t, "%s", m->problem[0] != '\0' ? m->problem : "no time or bytes left");
        return;
    }
    crn_table_add(t, "%.3f", m->median / 0x1p30);
    crn_table_add(t, "%.3f .. %.3f", m->min / 0x1p30, m->max / 0x1p30);
}

static void put_table(const struct tune_args *a)
{
    static const char *const head[] = {"STAGE", "WRITERS",  "FILES", "LAYOUT",    "METHOD",
                                       "BLOCK", "RECEIVED", "GIB/S", "MIN .. MAX"};
    const struct crn_tuning *t = a->result;
    struct cli_table table;
    char written[32];
    size_t i;

    crn_table_begin(&table, "lrrllrrrl");
    for (i = 0; i < sizeof(head) / sizeof(head[0]); i++)
        crn_table_add(&table, "%s", head[i]);
    for (i = 0; i < t->n; i++)
        table_row(&table, &t->m[i]);
    crn_table_print(&table);
    crn_human_bytes(t->written, written, sizeof(written));
    (void)printf("\n%s written in %.1f s%s%s%s\n", written, t->seconds,
                 t->cut_by != NULL ? "; the limit of " : "", t->cut_by != NULL ? t->cut_by : "",
                 t->cut_by != NULL ? " left some out" : "");
}

/* Replaces the file atomically. */
static cairn_err write_config(const char *path, const char *text, size_t n, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    cairn_err rc;
    int dfd;

    if (dir == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "the configuration");
    dfd = fs->openat(fs, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    rc = crn_fs_check(dfd, ei, "open directory '%s'", dir);
    if (rc == CAIRN_OK) {
        rc = crn_fs_replace(fs, dfd, slash == NULL ? path : slash + 1, text, n, ei);
        (void)fs->close(fs, dfd);
    }
    free(dir);
    return rc;
}

/* Writes the configuration to the named file, and after the tables also to standard output. */
static cairn_err put_config(struct cli *cli, const struct tune_args *a)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    int failed = f == NULL || crn_tune_config(a->result, a->dir, f) != 0;
    cairn_err rc = CAIRN_OK;

    if (f != NULL && fclose(f) != 0)
        failed = 1;
    if (failed)
        rc = crn_fail(cli->ei, CAIRN_ENOMEM, 0, "the configuration");
    if (rc == CAIRN_OK && !cli->is_json)
        (void)printf("\n%s", text);
    if (rc == CAIRN_OK && a->out != NULL)
        rc = write_config(a->out, text, n, cli->ei);
    free(text);
    return rc;
}

static int put_all(struct cli *cli, struct tune_args *a)
{
    struct plot p = {.cli = cli,
                     .dir = a->figures,
                     .format = a->is_png ? "png" : "svg",
                     .is_part = 1,
                     .width = 900,
                     .height = 480};
    int status = CLI_OK;

    if (cli->is_json)
        put_json(cli, a);
    else
        put_table(a);
    if (put_config(cli, a) != CAIRN_OK)
        status = crn_cli_fail(cli);
    if (a->figures != NULL && crn_plot_tuning(&p, a->result) != CLI_OK)
        status = CLI_PROBLEM;
    return cli->is_json ? crn_cli_json_end(cli, status) : crn_cli_end(cli, status);
}

/* Options. ------------------------------------------------------------------------------------- */

enum { FULL = 256, QUICK, REPEATS, TIME, SPACE, BYTES, FIGURES, PNG };

static const struct option longs[] = {
    {"full", no_argument, NULL, FULL},
    {"quick", no_argument, NULL, QUICK},
    {"repeats", required_argument, NULL, REPEATS},
    {"time", required_argument, NULL, TIME},
    {"space", required_argument, NULL, SPACE},
    {"bytes", required_argument, NULL, BYTES},
    {"out", required_argument, NULL, 'o'},
    {"figures", required_argument, NULL, FIGURES},
    {"png", no_argument, NULL, PNG},
    {0},
};

/* Texts of the options; parsed once it is known whether the run is a full one. */
struct tune_words {
    const char *time, *space, *bytes;
    int64_t repeats; /* 0: not given */
    int is_full;
};

static int take_option(struct cli *cli, int c, struct tune_words *w, struct tune_args *a)
{
    switch (c) {
    case FULL:
    case QUICK:
        w->is_full = c == FULL;
        return 0;
    case REPEATS:
        return crn_cli_number(cli, "--repeats", optarg, &w->repeats);
    case TIME:
        w->time = optarg;
        return 0;
    case SPACE:
        w->space = optarg;
        return 0;
    case BYTES:
        w->bytes = optarg;
        return 0;
    case 'o':
        a->out = optarg;
        return 0;
    case FIGURES:
        a->figures = optarg;
        return 0;
    case PNG:
        a->is_png = 1;
        return 0;
    default:
        return -1;
    }
}

static cairn_err tune_understand(struct cli *cli, const struct tune_words *w, struct tune_args *a)
{
    struct crn_tune_options *opt = &a->tuner.opt;
    uint64_t ns = 0;
    cairn_err rc = CAIRN_OK;

    *opt = crn_tune_defaults(w->is_full);
    opt->reserve_bytes = cli->cfg.free_reserve_bytes;
    if (w->repeats > 0)
        opt->repeats = w->repeats < CRN_MAX_REPEATS ? (uint32_t)w->repeats : CRN_MAX_REPEATS;
    if (w->space != NULL)
        rc = crn_parse_bytes(w->space, &opt->space_bytes, cli->ei);
    if (rc == CAIRN_OK && w->bytes != NULL)
        rc = crn_parse_bytes(w->bytes, &opt->written_bytes, cli->ei);
    if (rc == CAIRN_OK && w->time != NULL) {
        rc = crn_parse_time(w->time, &ns, cli->ei);
        opt->seconds = (double)ns * 1e-9;
    }
    return rc;
}

static int tune_directory(struct cli *cli, struct tune_args *a)
{
    struct crn_tuner *t = &a->tuner;
    int status;
    cairn_err rc;

    t->fs = crn_fs_default();
    t->stop = &stopped;
    t->progress = on_progress;
    t->progress_arg = &a->progress;
    a->result = calloc(1, sizeof(*a->result));
    if (a->result == NULL)
        return crn_cli_problem(cli, CAIRN_ENOMEM, "no memory for the results");
    catch_signals();
    crn_progress_begin_count(&a->progress, cli, a->dir, crn_tune_runs(&t->opt));
    rc = crn_tune_run(t, a->dir, a->result, cli->ei);
    crn_progress_end(&a->progress);
    if (rc == CAIRN_OK)
        status = put_all(cli, a);
    else if (rc == CAIRN_ECANCELED)
        status = crn_cli_problem(cli, rc, "stopped by signal %d; '%s' is clean",
                                 atomic_load(&stopped), a->dir);
    else
        status = crn_cli_fail(cli);
    free(a->result);
    return status;
}

static int tune_run(struct cli *cli, int argc, char **argv)
{
    struct tune_args a = {0};
    struct tune_words w = {0};
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "o:", longs)) != -1)
        if (take_option(cli, c, &w, &a) != 0)
            return CLI_USAGE;
    if (optind + 1 != argc)
        return crn_cli_usage(cli, "name one directory");
    a.dir = argv[optind];
    if (tune_understand(cli, &w, &a) != CAIRN_OK)
        return crn_cli_fail(cli);
    return tune_directory(cli, &a);
}

const struct cli_command crn_cmd_tune = {
    .name = "tune",
    .args = "DIR [OPTION...]",
    .help = "Measures how fast a directory takes a flush and tells what to configure",
    .about = "Measures how fast a directory takes a flush, durably, by the number of "
             "writer threads, contiguous or interleaved writes, the number of files, "
             "the way to write (buffered, written behind, O_DIRECT), the size of "
             "blocks and the share of received data; prints medians with spread and "
             "the recommended configuration, and writes it to FILE for `-C` or "
             "`CAIRN_CONFIG`. Takes under a minute, `--full` a quarter of an hour. "
             "`--space` and `--bytes` limit what is in the directory at any time and "
             "what is written in all. What it writes is removed, also after SIGINT; "
             "what a killed run left is removed by the next. A full file system is "
             "refused. `--figures` draws the measurements.",
    .run = tune_run,
    .options = "  --quick           under a minute; so it is if nothing is said\n"
               "  --full            15 minutes instead, more settings and repetitions\n"
               "  --repeats N       of each measurement (3; full: 5)\n"
               "  --time TIME       no measurement starts later (45s; full: 15m)\n"
               "  --space SIZE      in DIR at any time, at most (1G; full: 8G)\n"
               "  --bytes SIZE      written in all, at most (16G; full: 256G)\n"
               "  -o, --out FILE    writes the configuration, for -C and CAIRN_CONFIG\n"
               "  --figures DIR     draws the measurements\n"
               "  --png             PNG instead of SVG\n",
};
