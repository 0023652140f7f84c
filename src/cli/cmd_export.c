/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn export, and cairn import with --to: files of NumPy and PyTorch. The Python package does the
 * work (bindings/python/cairn/files.py), and runs this program to read the store. */
#include "cli/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *python(void)
{
    const char *named = getenv("CAIRN_PYTHON");

    return named != NULL && named[0] != '\0' ? named : "python3";
}

int crn_export_python(struct cli *cli, const char *command, const struct cli_conversion *c)
{
    const char *argv[20] = {python(), "-m", "cairn", "--dir", cli->cfg.persistent};
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t n = 5;

    if (cli->is_json)
        return crn_cli_usage(cli, "%s of such files has no --json", command);
    argv[n++] = command;
    argv[n++] = c->source;
    argv[n++] = "--to";
    argv[n++] = c->to;
    if (c->prefix != NULL) {
        argv[n++] = "--prefix";
        argv[n++] = c->prefix;
    }
    if (c->rank != NULL) {
        argv[n++] = "--rank";
        argv[n++] = c->rank;
    }
    if (length > 0) {
        self[length] = '\0';
        (void)setenv("CAIRNPY_PROGRAM", self, 0);
    }
    (void)execvp(argv[0], (char *const *)argv);
    return crn_cli_problem(cli, CAIRN_EIO,
                           "cannot start '%s': %s; name the Python that has the package cairn in "
                           "CAIRN_PYTHON",
                           argv[0], strerror(errno));
}

static int export_run(struct cli *cli, int argc, char **argv)
{
    static const struct option longs[] = {{"to", required_argument, NULL, 't'},
                                          {"prefix", required_argument, NULL, 'p'},
                                          {"rank", required_argument, NULL, 'r'},
                                          {0}};
    struct cli_conversion conversion = {0};
    int64_t rank;
    int c;

    while ((c = crn_cli_option(cli, argc, argv, "t:p:r:", longs)) != -1) {
        if (c == 't')
            conversion.to = optarg;
        else if (c == 'p')
            conversion.prefix = optarg;
        else if (c != 'r' || crn_cli_number(cli, "rank", optarg, &rank) != 0)
            return CLI_USAGE;
        if (c == 'r')
            conversion.rank = optarg;
    }
    if (optind + 1 != argc || conversion.to == NULL)
        return crn_cli_usage(cli, "which version, and to which file? NAME@VERSION --to FILE");
    conversion.source = argv[optind];
    return crn_export_python(cli, "export", &conversion);
}

const struct cli_command crn_cmd_export = {
    .name = "export",
    .args = "NAME[@VERSION] --to FILE [--prefix TEXT] [--rank N]",
    .help = "Writes the regions of a version to a file of NumPy or PyTorch",
    .about =
        "Writes the regions of a version to a `.safetensors`, `.npz` or `.pt` file. Global arrays "
        "and replicated regions are whole. Without a version, the newest. The Python package "
        "`cairn` does it (Debian: python3-cairn); `CAIRN_PYTHON` names a Python other than "
        "python3. `cairn import FILE --to NAME@VERSION` goes the other way.",
    .run = export_run,
    .options =
        "  -t, --to FILE      the file; its suffix is the format: .safetensors, .npz or .pt\n"
        "  -p, --prefix TEXT  only regions whose names begin with it, such as 'model.'; the file\n"
        "                     has them without it\n"
        "  -r, --rank N       of regions that every rank has for itself, those of rank N (0)\n",
};
