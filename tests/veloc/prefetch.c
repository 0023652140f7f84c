/* SPDX-License-Identifier: BSD-3-Clause */
/* The program of the paper's listing 1: hints, a forward pass, a backward pass; then another run that
 * reads what the first one left, and reads that deviate. */
#include "veloc_test.h"

enum { VERSIONS = 12, N = 100000 };

static unsigned char memory[N];

static void forward(void)
{
    int v;

    for (v = 0; v < VERSIONS; v++) {
        fill(memory, N, v, rank, 1);
        OK(VELOC_Checkpoint("shot", v));
    }
}

static void restore(int version)
{
    memset(memory, 0xee, N);
    OK(VELOC_Restart("shot", version));
    REQUIRE(holds(memory, N, version, rank, 1));
}

static void shot(void)
{
    int v;

    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    for (v = VERSIONS - 1; v >= 0; v--)
        OK(VELOC_Prefetch_enqueue(v)); /* of no name yet */
    OK(VELOC_Mem_protect(1, memory, N, 1));
    forward();
    OK(VELOC_Prefetch_start());
    for (v = VERSIONS - 1; v >= 0; v--)
        restore(v);
    OK(VELOC_Finalize(1));
}

static void again(void)
{
    int v;

    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    OK(VELOC_Mem_protect(1, memory, N, 1));
    OK(VELOC_Prefetch_start());
    FAILS(VELOC_Prefetch_enqueue(-1));
    OK(VELOC_Prefetch_enqueue(1000)); /* never taken */
    for (v = 0; v < VERSIONS; v++)
        OK(VELOC_Prefetch_enqueue(v));
    for (v = 0; v < VERSIONS; v++)
        restore(v * 5 % VERSIONS); /* all of them, in another order */
    FAILS(VELOC_Restart("shot", 1000));
    OK(VELOC_Finalize(1));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    (void)setenv("CAIRN_ARENA_BYTES", "500K", 1); /* five images */
    configure("mode = async");
    FAILS(VELOC_Prefetch_enqueue(1));
    FAILS(VELOC_Prefetch_start());
    shot();
    again();
    finish();
    return 0;
}
