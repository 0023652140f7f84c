/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoint sets for bench/encode, computed: no data files. Each has the shards of some ranks at two
 * time steps. */
#ifndef ENCODE_SETS_H
#define ENCODE_SETS_H

#include "format/format.h"

struct bench_set {
    const char *name;
    uint32_t ranks;
    struct crn_shard *shards;
    unsigned char *
        *data[2]; /* [0] the step before, [1] the one to encode: by first_region[rank] + i */
    uint32_t *first_region;
    uint64_t bytes; /* of one step */
};

/* The size of a set: 1 for quick runs (about 5 MB), larger for more. */
struct bench_set *bench_set_make(const char *name, unsigned scale);
void bench_set_free(struct bench_set *s);
const char *const *bench_set_names(size_t *ret_n);

const unsigned char *bench_set_region(const struct bench_set *s, int step, uint32_t rank,
                                      uint32_t region);

/* The implosion of Liska and Wendroff on n x n cells: density, two velocities and pressure, each of
 * n * n, after `steps` steps from where the state is; a negative density[0] starts it. */
void bench_euler(size_t n, unsigned steps, double *density, double *u, double *v, double *pressure);

#endif
