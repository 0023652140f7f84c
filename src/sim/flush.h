/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of the flush: C nodes, K files, leaders that receive into a pool of blocks and write.
 * A leader's pipeline is a closed form. The shared file system is a fluid model whose rates
 * change when a leader ends. Pure: the same seed gives the same result. */
#ifndef CRN_SIM_FLUSH_H
#define CRN_SIM_FLUSH_H

#include <stdint.h>
#include "sim/machine.h"

struct crn_flush {
    uint32_t nodes;            /* C */
    uint32_t files;            /* K, 1 .. nodes */
    uint32_t leaders_per_file; /* capped at the nodes of a group */
    uint32_t stripes;          /* OSTs of a file; 0: one for each of its leaders */
    uint32_t writers;          /* threads of a leader */
    uint32_t blocks;           /* of a leader's pool */
    double block_bytes;
    double rank_bytes;
    double imbalance; /* a rank has 1 - imbalance to 1 + imbalance of rank_bytes */
    /* the last block of each rank is a separate write; otherwise tails share blocks */
    int own_tails;
    uint64_t seed;
};

/* The bottleneck of the slowest leader. */
enum crn_flush_limit {
    CRN_LIMIT_NODE,    /* a node's outgoing bandwidth */
    CRN_LIMIT_WRITERS, /* the writer threads: their number or their latency */
    CRN_LIMIT_RECEIVE, /* incoming bandwidth, or the pool */
    CRN_LIMIT_OSTS,    /* the targets of its file */
    CRN_LIMIT_PFS,     /* the file system as a whole */
    CRN_LIMITS
};
const char *crn_flush_limit_name(enum crn_flush_limit limit);

struct crn_flush_result {
    double seconds;    /* until the last leader has ended */
    double bytes;      /* of all nodes */
    double throughput; /* bytes / seconds */
    double peak;       /* share of the leaders' bandwidth, or of the file system's if less */
    double mean_leader_s, slowest_leader_s;
    double received;   /* share of the bytes that crosses the network first */
    double pool_bytes; /* of one leader */
    uint32_t leaders;
    uint64_t writes;
    enum crn_flush_limit limit;
};

/* Settings for a machine: all its nodes, one file per node, 8 writers, blocks of 64 MiB. */
struct crn_flush crn_flush_defaults(const struct crn_machine *m);
/* OSTs of each file in the prediction: the stripe_count that the configuration needs for it. 0: only
 * the total bandwidth of the file system matters. */
uint32_t crn_flush_stripes(const struct crn_machine *m, const struct crn_flush *f);
CAIRN_CHECKED cairn_err crn_flush_predict(const struct crn_machine *m, const struct crn_flush *f,
                                          struct crn_flush_result *ret, struct crn_errinfo *ei);

/* The fewest files, and for them the fewest leaders, with which a flush takes at most 1 + slack
 * times as long as with the best setting; at most max_files and max_leaders_per_file. */
struct crn_recommend {
    uint32_t max_files; /* 0: one per node */
    uint32_t max_leaders_per_file;
    double slack;
};
CAIRN_CHECKED cairn_err crn_flush_recommend(const struct crn_machine *m, const struct crn_flush *f,
                                            const struct crn_recommend *opt, struct crn_flush *ret,
                                            struct crn_flush_result *ret_result,
                                            struct crn_errinfo *ei);

#endif
