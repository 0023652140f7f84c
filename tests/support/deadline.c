/* SPDX-License-Identifier: BSD-3-Clause */
/* deadline SECONDS COMMAND...: runs a command, and all processes that it starts, until a
 * deadline. In time: its exit status, or 125 if it leaves processes behind. Late: shows the
 * stacks of all its processes (gdb, else /proc), kills them all and exits with 124.
 *
 * The command finds SECONDS in $CAIRN_TEST_SECONDS. It need not guard itself against hanging,
 * and must not do so any earlier, because durations prove nothing.
 *
 * $TMPDIR and $CAIRN_TEST_MEMORY are directories that are made for the command, on a disk and in
 * memory. They are removed with all files, however it ended. $CAIRN_SHM_DIR and $CAIRN_RUN_DIR
 * point into the latter, so a test that sets neither shares nothing with other jobs of the user.
 *
 * Launchers put ranks into process groups of their own, daemons leave the session. A subreaper
 * therefore keeps the tree together: orphans become its children. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCS  512
#define GRACE_S    5.0 /* for the rest of a tree whose root has ended */
#define STACKS_S   20.0
#define MAX_STACKS 16 /* processes shown; enough to see which waits for which */

struct procs {
    pid_t pid[MAX_PROCS];
    size_t n;
};

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Parent of a process; -1 if it is gone or a zombie. */
static pid_t parent_of(pid_t pid)
{
    char path[64], line[512];
    const char *p;
    char state = 'Z';
    int ppid = -1;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (f == NULL)
        return -1;
    p = fgets(line, sizeof(line), f) != NULL ? strrchr(line, ')') : NULL; /* names hold anything */
    (void)fclose(f);
    if (p == NULL || sscanf(p + 1, " %c %d", &state, &ppid) != 2 || state == 'Z')
        return -1;
    return ppid;
}

static int contains(const struct procs *set, pid_t pid)
{
    size_t i;

    for (i = 0; i < set->n; i++)
        if (set->pid[i] == pid)
            return 1;
    return 0;
}

/* Adds the processes whose parent is in the set (or is us). Returns how many are new. */
static size_t add_children(struct procs *set)
{
    size_t before = set->n;
    struct dirent *e;
    DIR *dir = opendir("/proc");

    if (dir == NULL)
        return 0;
    while ((e = readdir(dir)) != NULL && set->n < MAX_PROCS) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        pid_t parent;

        if (pid <= 0 || contains(set, pid))
            continue;
        parent = parent_of(pid);
        if (parent == getpid() || contains(set, parent))
            set->pid[set->n++] = pid;
    }
    (void)closedir(dir);
    return set->n - before;
}

static void find_tree(struct procs *set)
{
    set->n = 0;
    while (add_children(set) > 0)
        ;
}

static void show_file(pid_t pid, const char *name)
{
    char path[64], text[512];
    size_t n, i;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    f = fopen(path, "r");
    if (f == NULL)
        return;
    n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f);
    for (i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[n] = '\0';
    (void)fprintf(stderr, "%s: %s\n", name, text);
}

static pid_t start(char *const *argv, int quiet)
{
    pid_t pid = fork();
    sigset_t none;

    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (quiet) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(127);
    }
    (void)execvp(argv[0], argv);
    if (!quiet)
        (void)fprintf(stderr, "deadline: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Reaps until child has ended or the time is over, or only until a signal asks for a stop.
 * Returns 1 when child has ended. */
static int reap_until(pid_t child, double end, int *ret_status)
{
    sigset_t watched;
    int status;
    pid_t got;

    (void)sigemptyset(&watched);
    (void)sigaddset(&watched, SIGCHLD);
    (void)sigaddset(&watched, SIGTERM);
    (void)sigaddset(&watched, SIGINT);
    for (;;) {
        double left = end - now();
        struct timespec t;

        while ((got = waitpid(-1, &status, WNOHANG)) > 0)
            if (got == child) {
                *ret_status = status;
                return 1;
            }
        if (left <= 0)
            return 0;
        t.tv_sec = (time_t)left;
        t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
        got = sigtimedwait(&watched, NULL, &t);
        if (got == SIGTERM || got == SIGINT)
            return 0;
    }
}

static void show_stack(pid_t pid)
{
    char number[16];
    char *const gdb[] = {
        "gdb", "-p", number, "-batch", "-nx", "-ex", "set width 0", "-ex", "thread apply all bt",
        NULL};
    int status;
    pid_t child;

    (void)fprintf(stderr, "\n== process %d\n", (int)pid);
    show_file(pid, "cmdline");
    show_file(pid, "wchan");
    (void)snprintf(number, sizeof(number), "%d", (int)pid);
    child = start(gdb, 1);
    if (child > 0 && !reap_until(child, now() + STACKS_S, &status))
        (void)kill(child, SIGKILL);
}

static void show_stacks(void)
{
    struct procs set;
    size_t i;

    find_tree(&set);
    for (i = 0; i < set.n && i < MAX_STACKS; i++)
        show_stack(set.pid[i]);
    if (set.n > MAX_STACKS)
        (void)fprintf(stderr, "\n(and %zu more processes)\n", set.n - MAX_STACKS);
}

/* The tree may fork while it is killed: repeat until no process is left. */
static void kill_tree(void)
{
    struct procs set;
    double end = now() + 10;
    int status;
    size_t i;

    do {
        find_tree(&set);
        for (i = 0; i < set.n; i++)
            (void)kill(set.pid[i], SIGKILL);
        (void)reap_until(-1, now() + 0.05, &status);
    } while (set.n > 0 && now() < end);
}

/* Processes that the command left: they get a moment to end, and are then named. Returns their
 * number. */
static size_t leftovers(void)
{
    struct procs set;
    double end = now() + GRACE_S;
    int status;
    size_t i;

    for (find_tree(&set); set.n > 0 && now() < end; find_tree(&set))
        (void)reap_until(-1, now() + 0.05, &status);
    for (i = 0; i < set.n; i++) {
        (void)fprintf(stderr, "deadline: left behind: process %d\n", (int)set.pid[i]);
        show_file(set.pid[i], "cmdline");
    }
    return set.n;
}

/* Directories of its own. -------------------------------------------------------------------------------- */

struct places {
    char disk[256], memory[256]; /* empty: none */
};

static void make_place(const char *parent, const char *variable, char place[256])
{
    if (snprintf(place, 256, "%s/ct-XXXXXX", parent) >= 256 || mkdtemp(place) == NULL)
        place[0] = '\0';               /* the test runs without it */
    else if (chmod(place, 01777) == 0) /* like their parents: tests may change the user */
        (void)setenv(variable, place, 1);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    (void)remove(path); /* files that stay are mounts, or another user's */
    return 0;
}

static void remove_places(const struct places *p)
{
    if (p->disk[0] != '\0')
        (void)nftw(p->disk, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (p->memory[0] != '\0')
        (void)nftw(p->memory, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* The place of the test's arenas and sockets, unless the test sets another one. */
static void set_default(const char *variable, const char *place, const char *folder)
{
    char path[300];

    if (place[0] == '\0')
        return;
    (void)snprintf(path, sizeof(path), "%s/%s", place, folder);
    (void)setenv(variable, path, 1);
}

static int run(char **argv, double seconds)
{
    sigset_t watched;
    int status = 0;
    pid_t child;

    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)sigemptyset(&watched);
    (void)sigaddset(&watched, SIGCHLD);
    (void)sigaddset(&watched, SIGTERM);
    (void)sigaddset(&watched, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &watched, NULL);
    child = start(argv, 0);
    if (child < 0) {
        perror("deadline: fork");
        return 2;
    }
    if (!reap_until(child, now() + seconds, &status)) {
        (void)fprintf(stderr, "\ndeadline: not finished after %.0f s: %s\n", seconds, argv[0]);
        show_stacks();
        kill_tree();
        return 124;
    }
    if (leftovers() > 0) {
        kill_tree();
        return 125;
    }
    if (WIFSIGNALED(status)) {
        (void)fprintf(stderr, "deadline: ended by signal %d (%s)\n", WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? strtod(argv[1], NULL) : 0;
    const char *tmp = getenv("TMPDIR");
    const char *memory =
        getenv("CAIRN_TEST_MEMORY"); /* of a deadline around this one, which may kill it */
    struct places places = {0};
    int status;

    if (seconds <= 0) {
        (void)fprintf(stderr, "usage: deadline SECONDS COMMAND [ARGUMENT...]\n");
        return 2;
    }
    (void)setenv("CAIRN_TEST_SECONDS", argv[1], 1);
    make_place(tmp != NULL ? tmp : "/tmp", "TMPDIR", places.disk);
    if (memory == NULL)
        memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    make_place(memory, "CAIRN_TEST_MEMORY", places.memory);
    set_default("CAIRN_SHM_DIR", places.memory, "shm");
    set_default("CAIRN_RUN_DIR", places.memory, "run");
    status = run(argv + 2, seconds);
    remove_places(&places);
    return status;
}
