/* SPDX-License-Identifier: BSD-3-Clause */
/* Tries merging schemes and pipelines on a sample of real data; advice on intervals. */
#ifndef CRN_CLI_ADVISE_H
#define CRN_CLI_ADVISE_H

#include "cli/cli.h"
#include "encode/merge.h"
#include "encode/parts.h"
#include "restart/version.h"

#define ADVISE_RANKS 16 /* at most, spread over all ranks */

/* Slabs from the middle of each variable of some ranks, in memory. */
struct advise_sample {
    struct crn_shard *shards; /* owned */
    unsigned char ***bytes;   /* owned; per region of each shard */
    uint32_t n, room;
    uint64_t all;       /* total bytes */
    uint64_t ranks;     /* total ranks */
    uint64_t looked_at; /* bytes of the chosen ranks */
    uint64_t variables; /* of those: bytes of recognised variables */
    uint64_t sampled;
};

/* From files, one per rank; hdf5 as for crn_extents_read. Takes about `limit` bytes. */
CAIRN_CHECKED cairn_err crn_advise_files(char *const *path, size_t n, uint64_t limit,
                                         const char *hdf5, struct advise_sample *ret,
                                         struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_advise_version(struct crn_version *v, uint64_t limit, const char *hdf5,
                                           struct advise_sample *ret, struct crn_errinfo *ei);
void crn_advise_free(struct advise_sample *s);

/* How the streams of a sample are encoded. */
struct advise_method {
    enum crn_scheme scheme;
    const char *pipe; /* stages; "adaptive", "paper" */
};
struct advise_result {
    const struct advise_method *method;
    double ratio;
    double encode_mbps, decode_mbps; /* per core: CPU time, 10^6 bytes */
};

const struct advise_method *crn_advise_methods(size_t *ret_n);
/* Encodes, decodes and compares. CAIRN_ENOTSUP: this build lacks a library for it. */
CAIRN_CHECKED cairn_err crn_advise_try(const struct advise_sample *s,
                                       const struct advise_method *method,
                                       struct advise_result *ret, struct crn_errinfo *ei);

/* advise_levels.c: seconds for each level; negative: not given. */
struct advise_levels_times {
    double captured_s, local_s, persistent_s;
};
struct advise_levels_options {
    struct advise_levels_times cost; /* copy, local copy and flush; else as measured */
    struct advise_levels_times mtbf; /* between failures that the level is the first to survive */
    double slowdown_percent;         /* of the application, by what happens in the background */
};
/* Parses LEVEL=TIME. */
CAIRN_CHECKED cairn_err crn_advise_levels_time(struct advise_levels_times *t, const char *text,
                                               struct crn_errinfo *ei);
/* Returns cli_exit. */
int crn_advise_levels(struct cli *cli, const struct advise_levels_options *o, const char *name);

#endif
