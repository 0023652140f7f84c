/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn doctor: tries what a job needs on this machine, and recommends a fix for each failure.
 * It leaves no files. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"

#define PROBE_SECONDS 30

enum verdict { FINE, WARN, FAIL };

struct doctor {
    struct cli *cli;
    const struct crn_fs *fs;
    int worst;
};

/* One line of the report. */
static void doctor_say(struct doctor *d, enum verdict v, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void doctor_say(struct doctor *d, enum verdict v, const char *what, const char *fmt, ...)
{
    static const char *const names[] = {"ok", "warn", "FAIL"};
    static const char *const ids[] = {"ok", "warning", "failure"};
    static const enum cli_colour colours[] = {CLI_GOOD, CLI_BUSY, CLI_BAD};
    struct crn_json *j = &d->cli->json;
    char text[700];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if ((int)v > d->worst)
        d->worst = (int)v;
    if (d->cli->is_json) {
        crn_json_object(j, NULL);
        crn_json_str(j, "check", what);
        crn_json_str(j, "verdict", ids[v]);
        crn_json_str(j, "text", text);
        crn_json_end_object(j);
    } else {
        (void)printf("%s%-4s%s  %-13s %s\n", crn_output_colour(colours[v]), names[v],
                     crn_output_colour(CLI_PLAIN), what, text);
    }
}

/* Directories. --------------------------------------------------------------------------------- */

/* Does everything that a commit does, on a small file. */
static cairn_err try_writing(struct doctor *d, int dfd, struct crn_errinfo *ei)
{
    static const char name[] = ".cairn-doctor";
    cairn_err rc;

    rc = crn_fs_replace(d->fs, dfd, name, "doctor", 6, ei);
    if (d->fs->unlinkat(d->fs, dfd, name, 0) < 0 && rc == CAIRN_OK)
        rc = crn_fail(ei, CAIRN_EPERM, 0, "files cannot be removed");
    return rc;
}

static int has_locks(struct doctor *d, int dfd)
{
    static const char name[] = ".cairn-doctor-lock";
    int fd = d->fs->openat(d->fs, dfd, name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    int r;

    if (fd < 0)
        return 0;
    r = d->fs->lock(d->fs, fd);
    (void)d->fs->close(d->fs, fd);
    (void)d->fs->unlinkat(d->fs, dfd, name, 0);
    return r >= 0;
}

static void check_open_dir(struct doctor *d, const char *key, const char *path, int dfd,
                           uint64_t reserve)
{
    struct crn_errinfo ei = {0};
    struct crn_room space = {.text = "free"};
    char text[32];
    enum verdict v = FINE;
    const char *more = "";

    if (try_writing(d, dfd, &ei) != CAIRN_OK) {
        doctor_say(d, FAIL, key, "'%s': %s. Choose another directory for %s", path, ei.msg, key);
        return;
    }
    (void)d->fs->space(d->fs, dfd, &space);
    crn_human_bytes(space.bytes, text, sizeof(text));
    if (space.bytes <= reserve) {
        v = FAIL;
        more = "; less than free_reserve_bytes: flushes would wait";
    } else if (strcmp(key, "persistent") == 0 && crn_fs_type_of(dfd)->is_memory) {
        v = WARN;
        more = "; this is memory: checkpoints do not survive the node";
    } else if (strcmp(key, "persistent") == 0 && !has_locks(d, dfd)) {
        v = WARN;
        more = "; no file locks: two jobs that write one name at once are not noticed";
    }
    doctor_say(d, v, key, "'%s' (%s): %s %s, fsync and rename work%s", path,
               crn_fs_type_of(dfd)->name, text, space.text, more);
}

/* A directory that does not exist yet: can it be created in its nearest existing parent? */
static void check_missing_dir(struct doctor *d, const char *key, const char *path)
{
    char parent[CRN_PATH_MAX];
    static const char name[] = ".cairn-doctor-dir";
    char *slash;
    int fd, made;

    (void)snprintf(parent, sizeof(parent), "%s", path);
    do {
        slash = strrchr(parent, '/');
        if (slash == NULL)
            return;
        slash[slash == parent] = '\0';
        fd = d->fs->openat(d->fs, AT_FDCWD, parent, O_RDONLY | O_DIRECTORY, 0);
    } while (fd == -ENOENT && strcmp(parent, "/") != 0);
    made = fd >= 0 ? d->fs->mkdirat(d->fs, fd, name, 0700) : fd; /* root may, says access() */
    if (made >= 0)
        (void)d->fs->unlinkat(d->fs, fd, name, AT_REMOVEDIR);
    if (fd >= 0)
        (void)d->fs->close(d->fs, fd);
    if (made < 0 && made != -EEXIST)
        doctor_say(d, FAIL, key, "'%s' is not there and cannot be created in '%s': %s. Set %s",
                   path, parent, strerror(-made), key);
    else
        doctor_say(d, FINE, key, "'%s' is not there yet; it will be created", path);
}

static void check_dir(struct doctor *d, const char *key, const char *path, uint64_t reserve)
{
    int dfd = d->fs->openat(d->fs, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);

    if (dfd == -ENOENT) {
        check_missing_dir(d, key, path);
    } else if (dfd < 0) {
        doctor_say(d, FAIL, key, "'%s': %s. Set %s", path, strerror(-dfd), key);
    } else {
        check_open_dir(d, key, path, dfd, reserve);
        (void)d->fs->close(d->fs, dfd);
    }
}

static void check_dirs(struct doctor *d)
{
    const struct crn_config *cfg = &d->cli->cfg;

    check_dir(d, "persistent", cfg->persistent, cfg->free_reserve_bytes);
    if (cfg->local[0] != '\0')
        check_dir(d, "local", cfg->local, 0);
    else
        doctor_say(d, FINE, "local",
                   "not set: checkpoints go from memory straight to the file system");
    check_dir(d, "shm_dir", cfg->shm_dir, cfg->arena_bytes);
}

/* The same directory that a session would use. */
static void check_run_dir(struct doctor *d)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct crn_errinfo ei = {0};
    char path[CRN_PATH_MAX];
    struct stat st;
    int was_there, fd;

    if (d->cli->cfg.run_dir[0] != '\0')
        (void)snprintf(path, sizeof(path), "%s", d->cli->cfg.run_dir);
    else if (runtime != NULL && runtime[0] == '/')
        (void)snprintf(path, sizeof(path), "%s/cairn", runtime);
    else
        (void)snprintf(path, sizeof(path), "/tmp/cairn-%u", (unsigned)geteuid());
    was_there = d->fs->fstatat(d->fs, AT_FDCWD, path, &st) >= 0;
    if (crn_fs_private_dir(d->fs, path, &fd, &ei) != CAIRN_OK) {
        doctor_say(d, FAIL, "run_dir", "%s", ei.msg);
        return;
    }
    (void)d->fs->close(d->fs, fd);
    if (!was_there)
        (void)d->fs->unlinkat(d->fs, AT_FDCWD, path, AT_REMOVEDIR);
    doctor_say(d, FINE, "run_dir", "'%s' is private", path);
}

/* The machine. --------------------------------------------------------------------------------- */

static void check_limits(struct doctor *d)
{
    struct rlimit files = {0}, size = {0};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_FSIZE, &size);
    if (files.rlim_cur < 256)
        doctor_say(d, WARN, "limits", "only %llu open files are allowed: ulimit -n 1024",
                   (unsigned long long)files.rlim_cur);
    else if (size.rlim_cur != RLIM_INFINITY)
        doctor_say(d, WARN, "limits", "files may have %llu bytes only: ulimit -f unlimited",
                   (unsigned long long)size.rlim_cur);
    else
        doctor_say(d, FINE, "limits", "%llu open files, any file size",
                   (unsigned long long)files.rlim_cur);
}

static uint64_t available_memory(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    if (f != NULL)
        (void)fclose(f);
    return kib << 10;
}

static void check_memory(struct doctor *d)
{
    const struct crn_config *cfg = &d->cli->cfg;
    uint64_t pool = cfg->blocks * cfg->block_bytes;
    uint64_t have = available_memory();
    char need[32], there[32];

    crn_human_bytes(cfg->arena_bytes + pool, need, sizeof(need));
    crn_human_bytes(have, there, sizeof(there));
    if (have != 0 && cfg->arena_bytes + pool > have)
        doctor_say(d, FAIL, "memory",
                   "%s for one arena and the block pool, but %s are available: lower "
                   "arena_bytes, blocks or block_bytes",
                   need, there);
    else
        doctor_say(d, FINE, "memory", "%s available, %s for the block pool%s, %d core%s", there,
                   need, cfg->arena_bytes != 0 ? " and one arena" : "", crn_cores(),
                   CLI_S(crn_cores()));
}

/* MPI. ----------------------------------------------------------------------------------------- */

/* Runs the program beside this one and returns its output in text. 0, or -1 if it is missing or
 * failed. */
static int run_probe(char *text, size_t size)
{
    char path[CRN_PATH_MAX + 32];
    size_t used = 0;
    int ends[2];
    int status = -1;
    ssize_t n;
    pid_t pid;

    if (crn_cli_program("cairn-mpi-probe", path, sizeof(path)) == NULL || pipe(ends) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        (void)alarm(PROBE_SECONDS); /* survives the exec */
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)execl(path, path, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    while (pid > 0 && used + 1 < size && (n = read(ends[0], text + used, size - used - 1)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status == 0 && used > 0 ? 0 : -1;
}

static void check_mpi(struct doctor *d)
{
    char text[300];

    if (run_probe(text, sizeof(text)) != 0)
        doctor_say(d, WARN, "MPI",
                   "no answer: built without MPI, or MPI does not start here. Try "
                   "`mpirun -n 2 cairn-mpi-probe`");
    else if (strstr(text, "MPI_THREAD_MULTIPLE") == NULL)
        doctor_say(d, WARN, "MPI", "%s. On several nodes use service = daemon and start cairnd",
                   text);
    else
        doctor_say(d, FINE, "MPI", "%s", text);
}

static int doctor_run(struct cli *cli, int argc, char **argv)
{
    struct doctor d = {.cli = cli, .fs = crn_fs_default()};
    int status;

    if (crn_cli_option(cli, argc, argv, "", NULL) != -1)
        return CLI_USAGE;
    if (optind < argc)
        return crn_cli_usage(cli, "unexpected argument '%s'", argv[optind]);
    if (cli->is_json)
        crn_json_array(crn_cli_json(cli), "checks");
    check_dirs(&d);
    check_run_dir(&d);
    check_memory(&d);
    check_limits(&d);
    check_mpi(&d);
    status = d.worst == FAIL ? CLI_PROBLEM : CLI_OK;
    if (cli->is_json) {
        crn_json_end_array(&cli->json);
        return crn_cli_json_end(cli, status);
    }
    return crn_cli_end(cli, status);
}

const struct cli_command crn_cmd_doctor = {
    .name = "doctor",
    .args = "",
    .help = "Checks this machine: directories, space, memory, limits, MPI; says what to do",
    .about = "Writes, locks, renames and removes a file in each directory as a job would. Compares "
             "free space, memory and limits with what the configuration needs, and looks whether "
             "MPI starts with threads. It leaves no files.",
    .run = doctor_run,
};
