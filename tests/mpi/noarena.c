/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank whose arena cannot be made restarts anyway, as do all others: it reads data without
 * space itself. Its checkpoints fail with the reason, on all ranks, until there is space. */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mpi_test.h"

enum { WORDS = 200000, VICTIM = 1 };

static int rank, ranks;
static char dir[200];

static cairn_session *open_session(void)
{
    static const char *const settings[] = {"log_level=error",  "ranks_per_node=2", "files=1",
                                           "block_bytes=512K", "chunk_bytes=64K",  NULL};

    return open_below(MPI_COMM_WORLD, dir, settings, NULL);
}

/* Full: no file of this process can grow, as on a full memory file system. Taken: another file
 * has the name of the arena. */
enum hindrance { FULL, TAKEN };

static void hinder(enum hindrance h, int is_there)
{
    struct rlimit l;
    char path[400];
    glob_t found;
    int fd;

    if (rank != VICTIM)
        return;
    if (h == FULL) {
        REQUIRE(getrlimit(RLIMIT_FSIZE, &l) == 0);
        l.rlim_cur = is_there ? 64 << 10 : RLIM_INFINITY;
        REQUIRE(setrlimit(RLIMIT_FSIZE, &l) == 0);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/cairn-*/*-n0", dir);
    REQUIRE(glob(path, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    (void)snprintf(path, sizeof(path), "%s/arena-%d", found.gl_pathv[0], VICTIM);
    globfree(&found);
    if (!is_there) {
        REQUIRE(unlink(path) == 0);
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && close(fd) == 0);
}

static cairn_session *open_with(uint64_t *a)
{
    cairn_session *s = open_session();

    memset(a, 0, WORDS * sizeof(*a));
    OK(cairn_protect(s, "a", a, CAIRN_U64, WORDS));
    return s;
}

/* Restarts from one version, fails to take the next, takes the one after it. */
static void live_without(enum hindrance h, uint64_t *a, int64_t version)
{
    cairn_session *s = open_with(a);
    int64_t v = -1;
    cairn_err rc;

    hinder(h, 1);
    OK(cairn_restart(s, "x", NULL, &v));
    REQUIRE(v == version && holds(a, WORDS, (uint64_t)v, (uint64_t)rank));
    rc = cairn_checkpoint(s, "x", v + 1, NULL);
    REQUIRE(rank == VICTIM ? rc != CAIRN_OK && strstr(cairn_last_error(), "arena-1") != NULL
                           : rc == CAIRN_OK);
    REQUIRE(cairn_wait(s, "x", v + 1, CAIRN_PERSISTENT, 60000) != CAIRN_OK);
    REQUIRE(strstr(cairn_last_error(), "arena-1") != NULL);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    hinder(h, 0);
    fill(a, WORDS, (uint64_t)v + 2, (uint64_t)rank);
    OK(cairn_checkpoint(s, "x", v + 2, NULL));
    OK(cairn_wait(s, "x", v + 2, CAIRN_PERSISTENT, 60000));
    (void)cairn_close(s); /* may report the failure again */
}

int main(int argc, char **argv)
{
    uint64_t *a = malloc(WORDS * sizeof(*a));
    cairn_session *s;
    int64_t v = -1;
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    REQUIRE(ranks > VICTIM && a != NULL && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    shared_dir(dir, sizeof(dir));
    s = open_with(a);
    fill(a, WORDS, 1, (uint64_t)rank);
    OK(cairn_checkpoint(s, "x", 1, NULL));
    OK(cairn_close(s));
    live_without(FULL, a, 1);
    live_without(TAKEN, a, 3);
    s = open_with(a);
    OK(cairn_restart(s, "x", NULL, &v));
    REQUIRE(v == 5 && holds(a, WORDS, 5, (uint64_t)rank));
    OK(cairn_close(s));
    remove_dir(dir);
    free(a);
    (void)MPI_Finalize();
    return 0;
}
