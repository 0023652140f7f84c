/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and messages of parts of a communicator: correct for any part and any root, while
 * faster ranks already use the next part. There are enough ranks for a tree of two levels. */
#include <unistd.h>

#include "comm/comm_mpi.h"
#include "comm/mail.h"
#include "mpi_test.h"

enum { ROUNDS = 12, LARGE = 300000 };

static struct crn_errinfo ei;

static void late(struct crn_comm *whole, int round)
{
    if (whole->rank == round % whole->size)
        (void)usleep(3000);
}

static void reduce(struct crn_comm *c)
{
    int64_t v[2] = {c->rank, -c->rank};

    OK(c->ops->allreduce(c, v, 2, CRN_COMM_MAX, &ei));
    REQUIRE(v[0] == c->size - 1 && v[1] == 0);
    v[0] = v[1] = c->rank + 1;
    OK(c->ops->allreduce(c, v, 2, CRN_COMM_SUM, &ei));
    REQUIRE(v[0] == c->size * (c->size + 1) / 2 && v[1] == v[0]);
    OK(c->ops->allreduce(c, v, 1, CRN_COMM_MIN, &ei));
    REQUIRE(v[0] == v[1]);
    OK(c->ops->barrier(c, &ei));
}

static void tell(struct crn_comm *c, int round)
{
    uint64_t *buf = malloc(LARGE * sizeof(*buf));
    int root = round % c->size;
    size_t n = round % 3 == 0 ? LARGE : (size_t)round;

    memset(buf, 0, LARGE * sizeof(*buf));
    if (c->rank == root)
        fill(buf, n, (uint64_t)round, (uint64_t)root);
    OK(c->ops->bcast(c, buf, n * sizeof(*buf), root, &ei));
    REQUIRE(holds(buf, n, (uint64_t)round, (uint64_t)root));
    free(buf);
}

static void gather(struct crn_comm *c, int round)
{
    uint64_t mine[3];
    uint64_t *all = calloc((size_t)c->size, sizeof(mine));
    int i;

    fill(mine, 3, (uint64_t)round, (uint64_t)c->rank);
    OK(c->ops->allgather(c, mine, sizeof(mine), all, &ei));
    for (i = 0; i < c->size; i++)
        REQUIRE(holds(all + 3 * (size_t)i, 3, (uint64_t)round, (uint64_t)i));
    free(all);
}

/* Each rank sends a message and a transfer to the next one. */
static void ring(struct crn_comm *c, int round)
{
    int to = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    uint64_t out = pattern((uint64_t)round, (uint64_t)c->rank, 0), in = 0;
    struct crn_transfer *t[2];
    void *buf = NULL;
    size_t bytes = 0;
    int from = -1;
    int done, i;

    OK(c->ops->post(c, to, &out, sizeof(out), &ei));
    while (buf == NULL)
        OK(c->ops->poll(c, &from, &buf, &bytes, &ei));
    REQUIRE(from == before && bytes == sizeof(in));
    memcpy(&in, buf, sizeof(in));
    free(buf);
    REQUIRE(in == pattern((uint64_t)round, (uint64_t)before, 0));
    in = 0;
    OK(c->ops->recv_start(c, before, 0, &in, sizeof(in), &t[0], &ei));
    OK(c->ops->send_start(c, to, 0, &out, sizeof(out), &t[1], &ei));
    for (i = 0; i < 2; i++)
        for (done = 0; !done;)
            OK(c->ops->transfer_test(c, t[i], &done, &ei));
    REQUIRE(in == pattern((uint64_t)round, (uint64_t)before, 0));
}

/* The ranks with the same remainder as this one. */
static struct crn_comm *part_of(struct crn_mail *m, const struct crn_comm *whole, uint32_t id,
                                int modulus)
{
    int *ranks = calloc((size_t)whole->size, sizeof(*ranks));
    struct crn_comm *part;
    int i, n = 0;

    for (i = 0; i < whole->size; i++)
        if (i % modulus == whole->rank % modulus)
            ranks[n++] = i;
    OK(crn_mail_part(m, id, ranks, n, &part, &ei));
    REQUIRE(part->size == n && ranks[part->rank] == whole->rank);
    free(ranks);
    return part;
}

/* A rank does not arrive. Its neighbours in the tree notice, and all fail with its number. */
static void hang(struct crn_mail *mail, struct crn_comm *all, int victim)
{
    struct crn_errinfo why = {0};
    char word[64];
    int i, x = 0;

    (void)snprintf(word, sizeof(word), "rank %d was silent", victim);
    REQUIRE(crn_mail_failure(mail) == NULL);
    crn_mail_watch(mail, 2000000000);
    if (all->rank == victim)
        for (i = 0; i < all->size - 1; i++)
            (void)MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    REQUIRE(all->ops->barrier(all, &why) == CAIRN_EPEER);
    REQUIRE(strstr(why.msg, word) != NULL && crn_mail_failure(mail) != NULL);
    if (all->rank != victim)
        (void)MPI_Send(&x, 1, MPI_INT, victim, 0, MPI_COMM_WORLD);
    crn_mail_watch(mail, 0);
    REQUIRE(all->ops->barrier(all, &why) == CAIRN_EPEER); /* forever */
}

int main(int argc, char **argv)
{
    struct crn_comm *whole, *all, *part;
    struct crn_mail *mail;
    int level, i;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    OK(crn_comm_mpi(MPI_COMM_WORLD, &whole, &ei));
    OK(crn_mail_open(whole, &mail, &ei));
    OK(crn_mail_part(mail, 0, NULL, whole->size, &all, &ei));
    for (i = 1; i <= ROUNDS; i++) {
        late(whole, i);
        reduce(all);
        part = part_of(mail, whole, (uint32_t)i, 1 + i % 5);
        tell(part, i);
        gather(part, i);
        ring(part, i); /* ranks that are finished are already in collectives of the whole */
        reduce(part);
        part->ops->free(part);
        tell(all, i);
        gather(all, i);
    }
    crn_mail_watch(mail, 2000000000); /* no rank hangs */
    reduce(all);
    crn_mail_watch(mail, 0);
    hang(mail, all, whole->size - 1);
    all->ops->free(all);
    crn_mail_close(mail);
    whole->ops->settle(whole);
    whole->ops->free(whole);
    (void)MPI_Finalize();
    return 0;
}
