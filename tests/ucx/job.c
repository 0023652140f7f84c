/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_job DIR: a job of several processes without MPI takes checkpoints over UCX, on virtual
 * nodes, restarts on another number of ranks, and names a rank that is killed. */
#include <signal.h>

#include "ranks.h"

#define CELLS    100000
#define VERSIONS 3
#define WEIGHTS  1000 /* the same on all ranks, like one number */

struct spec {
    const char *dir;
    const char *ranks_per_node;
    int is_restart;
    int victim; /* killed before the restart; -1: none */
};

static double weights[WEIGHTS], number;

static double value(int64_t version, uint64_t cell)
{
    return (double)version * 1e6 + (double)cell;
}

static cairn_session *open_here(struct attendance *a, const struct spec *s)
{
    char persistent[300], shm[300], run[300], nodes[64];
    const char *settings[] = {persistent, shm, run, nodes, "files=2", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *session;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", s->dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", s->dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", s->dir);
    (void)snprintf(nodes, sizeof(nodes), "ranks_per_node=%s", s->ranks_per_node);
    REQUIRE(cairn_open_ucx(a->rank, a->ranks, meet, a, &opt, &session) == CAIRN_OK);
    REQUIRE(cairn_rank(session) == a->rank && cairn_ranks(session) == a->ranks);
    return session;
}

static double *protect(struct attendance *a, cairn_session *s, uint64_t *ret_first, uint64_t *ret_n)
{
    uint64_t first = (uint64_t)CELLS * (uint64_t)a->rank / (uint64_t)a->ranks;
    uint64_t n = (uint64_t)CELLS * (uint64_t)(a->rank + 1) / (uint64_t)a->ranks - first;
    struct cairn_array part = {.size = sizeof(part),
                               .type = CAIRN_F64,
                               .ndims = 1,
                               .dims = {n},
                               .global_dims = {CELLS},
                               .offset = {first}};
    double *t = calloc(n, sizeof(*t));

    struct cairn_array alike = {
        .size = sizeof(alike), .type = CAIRN_F64, .ndims = 1, .dims = {WEIGHTS}};

    REQUIRE(t != NULL);
    REQUIRE(cairn_protect_replicated(s, "weights", weights, &alike) == CAIRN_OK);
    alike.dims[0] = 1;
    REQUIRE(cairn_protect_replicated(s, "number", &number, &alike) == CAIRN_OK);
    REQUIRE(cairn_protect_array(s, "t", t, &part) == CAIRN_OK);
    *ret_first = first;
    *ret_n = n;
    return t;
}

static void check(const double *t, uint64_t first, uint64_t n, int64_t version)
{
    uint64_t i;

    for (i = 0; i < n; i++)
        REQUIRE(t[i] == value(version, first + i));
    for (i = 0; i < WEIGHTS; i++)
        REQUIRE(weights[i] == value(version, i) / 3);
    REQUIRE(number == (double)version / 7);
}

static void take_all(cairn_session *s, double *t, uint64_t first, uint64_t n)
{
    int64_t version;
    uint64_t i;

    for (version = 1; version <= VERSIONS; version++) {
        for (i = 0; i < n; i++)
            t[i] = value(version, first + i);
        for (i = 0; i < WEIGHTS; i++)
            weights[i] = value(version, i) / 3;
        number = (double)version / 7;
        REQUIRE(cairn_checkpoint(s, "heat", version, NULL) == CAIRN_OK);
    }
    REQUIRE(cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) == CAIRN_OK);
}

/* The survivors learn which rank died, and end. */
static void lose_a_rank(struct attendance *a, cairn_session *s, int victim)
{
    char expected[64];
    int64_t found;
    cairn_err rc;

    (void)pthread_barrier_wait(&a->m->barrier); /* no rank is in a collective call */
    if (a->rank == victim)
        (void)raise(SIGKILL);
    rc = cairn_restart(s, "heat", NULL, &found);
    REQUIRE(rc == CAIRN_EPEER);
    (void)snprintf(expected, sizeof(expected), "rank %d (process ", victim);
    REQUIRE(strstr(cairn_last_error(), expected) != NULL);
    REQUIRE(cairn_close(s) != CAIRN_OK); /* and the message says so */
}

static void job(struct attendance *a, void *arg)
{
    const struct spec *spec = arg;
    cairn_session *s = open_here(a, spec);
    uint64_t first, n;
    double *t = protect(a, s, &first, &n);
    struct cairn_version_info info = {.size = sizeof(info)};
    int64_t found = 0;

    if (!spec->is_restart)
        take_all(s, t, first, n);
    if (spec->victim >= 0) {
        lose_a_rank(a, s, spec->victim);
        free(t);
        return;
    }
    memset(t, 0, n * sizeof(*t));
    memset(weights, 0, sizeof(weights));
    number = 0;
    REQUIRE(cairn_restart(s, "heat", NULL, &found) == CAIRN_OK);
    REQUIRE(found == VERSIONS);
    check(t, first, n, found);
    REQUIRE(cairn_version_info(s, "heat", found, &info) == CAIRN_OK);
    REQUIRE(info.bytes == (CELLS + WEIGHTS + 1) * sizeof(double)); /* each written once */
    REQUIRE(cairn_close(s) == CAIRN_OK);
    free(t);
}

int main(int argc, char **argv)
{
    struct spec spec = {.victim = -1};

    if (argc != 2)
        return 2;
    spec.dir = argv[1];
    spec.ranks_per_node = "2";
    REQUIRE(run_ranks(5, job, &spec) == 0);
    spec.is_restart = 1;
    REQUIRE(run_ranks(3, job, &spec) == 0);
    spec.ranks_per_node = "1";
    spec.victim = 2;
    REQUIRE(run_ranks(4, job, &spec) == 1); /* the victim alone */
    (void)puts("ok");
    return 0;
}
