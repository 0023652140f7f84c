/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that no rank received do not reach later communicators. Without settle, a message
 * that arrives after its communicator was freed blocks the next one. */
#include <unistd.h>

#include "comm/comm_mpi.h"
#include "mpi_test.h"

enum { ROUNDS = 10, LATE_US = 50000 };

/* Rank 0 is late, so that the others have reached the end by then. */
static void leave_messages(struct crn_comm *c)
{
    struct crn_errinfo ei = {0};
    int64_t i;

    if (c->rank != 0)
        return;
    (void)usleep(LATE_US);
    for (i = 0; i < 3 * c->size; i++)
        OK(c->ops->post(c, (int)(i % c->size), &i, sizeof(i), &ei));
}

static void use(struct crn_comm *c)
{
    struct crn_errinfo ei = {0};
    struct crn_comm *part;
    size_t bytes;
    void *buf;
    int from;
    int i;

    for (i = 0; i < 20; i++) {
        int64_t sum = 1;

        OK(c->ops->allreduce(c, &sum, 1, CRN_COMM_SUM, &ei));
        REQUIRE(sum == c->size);
    }
    OK(c->ops->poll(c, &from, &buf, &bytes, &ei));
    REQUIRE(buf == NULL);
    OK(c->ops->split(c, c->rank % 2, 0, &part, &ei));
    part->ops->free(part);
}

int main(int argc, char **argv)
{
    struct crn_errinfo ei = {0};
    struct crn_comm *all, *c;
    int level, i;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    OK(crn_comm_mpi(MPI_COMM_WORLD, &all, &ei));
    for (i = 0; i < ROUNDS; i++) {
        OK(all->ops->split(all, 0, 0, &c, &ei));
        use(c);
        leave_messages(c);
        c->ops->settle(c);
        c->ops->free(c);
    }
    all->ops->free(all);
    MPI_Finalize();
    return 0;
}
