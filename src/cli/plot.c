/* SPDX-License-Identifier: BSD-3-Clause */
/* Data and script are built in memory and written at once; gnuplot then runs in their folder. */
#include "cli/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fs.h"

extern char **environ;

/* Colours that are distinguishable with any colour vision (Okabe and Ito), each with a shape. */
static const char linetypes[] = "set linetype 1 lc rgb '#0072B2' lw 2 pt 7\n"
                                "set linetype 2 lc rgb '#D55E00' lw 2 pt 5\n"
                                "set linetype 3 lc rgb '#009E73' lw 2 pt 9\n"
                                "set linetype 4 lc rgb '#E69F00' lw 2 pt 13\n"
                                "set linetype 5 lc rgb '#CC79A7' lw 2 pt 11\n"
                                "set linetype 6 lc rgb '#56B4E9' lw 2 pt 4\n";

/* A PDF is as large on paper as the other pictures are on a screen of 96 dots an inch. */
static void plot_terminal(struct plot *p)
{
    if (strcmp(p->format, "pdf") == 0)
        (void)fprintf(p->script, "set terminal pdfcairo size %.2fin,%.2fin font 'sans,10'\n",
                      p->width / 96.0, p->height / 96.0);
    else if (strcmp(p->format, "png") == 0)
        (void)fprintf(p->script, "set terminal pngcairo size %d,%d font 'sans,11'\n", p->width,
                      p->height);
    else
        (void)fprintf(p->script,
                      "set terminal svg size %d,%d font 'sans,14' dynamic background '#ffffff'\n",
                      p->width, p->height);
}

static void plot_preamble(struct plot *p)
{
    (void)fprintf(p->script, "# gnuplot %s.gp draws %s.%s from %s.dat\n", p->name, p->name,
                  p->format, p->name);
    plot_terminal(p);
    (void)fprintf(p->script,
                  "set output '%s.%s'\n"
                  "set encoding utf8\n"
                  "set grid lc rgb '#dddddd' lt 1 lw 1\n"
                  "set border 3 lc rgb '#444444'\n"
                  "set tics nomirror textcolor rgb '#222222'\n",
                  p->name, p->format);
    (void)fputs(linetypes, p->script);
}

cairn_err crn_plot_begin(struct plot *p, const char *name, struct crn_errinfo *ei)
{
    p->name = name;
    p->data = open_memstream(&p->data_text, &p->data_bytes);
    p->script = open_memstream(&p->script_text, &p->script_bytes);
    if (p->data == NULL || p->script == NULL) {
        crn_plot_drop(p);
        return crn_fail(ei, CAIRN_ENOMEM, 0, "plot '%s'", name);
    }
    plot_preamble(p);
    return CAIRN_OK;
}

static int close_stream(FILE **f)
{
    int failed = *f != NULL && fclose(*f) != 0;

    *f = NULL;
    return failed;
}

void crn_plot_drop(struct plot *p)
{
    (void)close_stream(&p->data);
    (void)close_stream(&p->script);
    free(p->data_text);
    free(p->script_text);
    p->data_text = p->script_text = NULL;
}

/* Permissions follow the umask. Not durable: it can be drawn again. */
static cairn_err write_file(const struct plot *p, int dfd, const char *suffix, const char *text,
                            size_t n, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    char name[128];
    cairn_err rc, closed;
    int fd;

    (void)snprintf(name, sizeof(name), "%s.%s", p->name, suffix);
    fd = fs->openat(fs, dfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return crn_fs_check(fd, ei, "create '%s/%s'", p->dir, name);
    rc = crn_fs_write_all(fs, fd, text, n, 0, name, ei);
    closed = crn_fs_check(fs->close(fs, fd), ei, "close '%s/%s'", p->dir, name);
    return rc != CAIRN_OK ? rc : closed;
}

static cairn_err write_files(struct plot *p, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    int failed = close_stream(&p->data);
    cairn_err rc;
    int dfd;

    if (close_stream(&p->script) || failed)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "plot '%s'", p->name);
    rc = crn_fs_make_dirs(fs, AT_FDCWD, p->dir, 0777, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = write_file(p, dfd, "dat", p->data_text, p->data_bytes, ei);
    if (rc == CAIRN_OK)
        rc = write_file(p, dfd, "gp", p->script_text, p->script_bytes, ei);
    (void)fs->close(fs, dfd);
    return rc;
}

/* 0 if gnuplot drew it, ENOENT if there is no gnuplot, another errno, or -1 if it failed. */
static int run_gnuplot(const struct plot *p)
{
    posix_spawn_file_actions_t actions;
    char script[128];
    char *argv[] = {(char *)"gnuplot", script, NULL};
    pid_t pid;
    int status = 0;
    int rc;

    (void)snprintf(script, sizeof(script), "%s.gp", p->name);
    rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return rc;
    rc = posix_spawn_file_actions_addchdir_np(&actions, p->dir);
    if (rc == 0)
        rc = posix_spawnp(&pid, "gnuplot", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        return rc;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int plot_tell(struct plot *p, int rc)
{
    struct cli *cli = p->cli;

    if (rc == ENOENT)
        return crn_cli_problem(cli, CAIRN_ENOENT,
                               "gnuplot is not installed: '%s/%s.gp' and its data are left for it",
                               p->dir, p->name);
    if (rc != 0)
        return crn_cli_problem(cli, CAIRN_EIO, "gnuplot failed on '%s/%s.gp'", p->dir, p->name);
    if (cli->is_json && p->is_part)
        return CLI_OK;
    if (cli->is_json) {
        struct crn_json *j = crn_cli_json(cli);

        crn_json_str(j, "directory", p->dir);
        crn_json_str(j, "name", p->name);
        crn_json_str(j, "format", p->format);
        return crn_cli_json_end(cli, CLI_OK);
    }
    (void)printf("%s/%s.%s\n", p->dir, p->name, p->format);
    return crn_cli_end(cli, CLI_OK);
}

int crn_plot_end(struct plot *p)
{
    cairn_err rc = write_files(p, p->cli->ei);
    int status = rc == CAIRN_OK ? plot_tell(p, run_gnuplot(p)) : crn_cli_fail(p->cli);

    crn_plot_drop(p);
    return status;
}
