/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulates the services of one job: the production core of every node (src/node), in one process,
 * with a virtual clock. Around it are simulated ranks, workers, a network and a broker, all as
 * asynchronous as the real ones, and all faults that a seed draws: late and dead ranks, dead
 * services, restarts of all services, cut and slow links, failed writes, a broker that says no.
 *
 * Checked: every checkpoint ends once on every node, in bounded time; a version is committed only
 * if all its data is there, and stays there; a capture that all ranks have made is committed or
 * kept, unless the ranks replaced it; the death of a rank does not fail what all ranks have
 * captured; the levels `local` and `protected` are true; a version that is not due gives way only to a
 * newer one that all ranks have captured, and that is protected if it is; what is protected can be
 * rebuilt from the nodes that are left. The same seed gives the same run everywhere. */
#ifndef CRN_SIM_NODES_H
#define CRN_SIM_NODES_H

#include <stdint.h>
#include "base/err.h"

#define CRN_NODES_MAX 4096

/* A fault of the simulated shell itself, to show that the checks find it. */
enum crn_nodes_bug {
    CRN_BUG_NONE = 0,
    CRN_BUG_EARLY,     /* a flush reports success before its data is durable */
    CRN_BUG_LOST_END,  /* one END is lost */
    CRN_BUG_TWICE,     /* ranks are told twice */
    CRN_BUG_DROPPED,   /* captures to be kept are dropped */
    CRN_BUG_LOCAL,     /* a failed local copy is reported as made */
    CRN_BUG_UNSETTLED, /* a slot is never released */
    CRN_BUG_REMOVED,   /* a node that is cut off removes its data file */
    CRN_BUG_DEATH,     /* a dead rank is said to have captured nothing */
    CRN_BUG_PARITY,    /* failed parity is reported as made */
    CRN_BUG_UNSAFE,    /* a protected capture is dropped with its parity */
    CRN_BUG_COUNT,
};

/* What happens to a node at an event of the caller's choice. */
enum crn_nodes_strike {
    CRN_STRIKE_NONE = 0,
    CRN_STRIKE_RANK,    /* its first rank dies */
    CRN_STRIKE_SERVICE, /* its service dies */
    CRN_STRIKE_HOST,    /* the same with its ranks */
    CRN_STRIKE_CUT,     /* nobody can reach it any more */
    CRN_STRIKE_LATE,    /* the same for half a minute, less than commit_timeout */
    CRN_STRIKE_WRITE,   /* its next task fails */
    CRN_STRIKE_RESTART, /* all services die and are restarted */
    CRN_STRIKE_COUNT,
};

struct crn_nodes {
    uint32_t nodes;    /* 1 .. CRN_NODES_MAX; with faults: at most so many */
    uint32_t files;    /* 0: with faults, as the seed draws; else one for 8 nodes */
    uint32_t versions; /* 0: with faults, as the seed draws; else 3 */
    uint32_t ranks;    /* per node; 0: with faults, as the seed draws; else 1 */
    uint32_t every;    /* persistent_every; 0: with faults, as the seed draws; else 1 */
    uint64_t seed;
    int has_faults;
    enum crn_nodes_bug bug;
    enum crn_nodes_strike strike;
    uint64_t strike_at; /* number of the event, from 1 */
    uint32_t strike_node;
};

/* Messages between services of the nodes in a role, in all versions. Without bulk data and the
 * requests for it. */
struct crn_nodes_role {
    uint32_t nodes;
    uint64_t sent, sent_bytes, received, received_bytes;
};

struct crn_nodes_result {
    uint32_t nodes, files, versions, ranks;         /* as simulated */
    uint64_t events;                                /* of the cores */
    double seconds;                                 /* virtual */
    uint64_t committed, failed, protected;          /* versions */
    uint64_t dead, late, cut, restarted;            /* faults that were drawn */
    struct crn_nodes_role root, leaders, followers; /* roles of the last version */
    char problem[300];                              /* empty: all checks passed */
};

/* Fails only if memory runs out or a number is out of range. */
CAIRN_CHECKED cairn_err crn_nodes_run(const struct crn_nodes *setup, struct crn_nodes_result *ret,
                                      struct crn_errinfo *ei);

#endif
