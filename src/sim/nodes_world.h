/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the simulation of nodes.h: the world around the cores. */
#ifndef CRN_SIM_NODES_WORLD_H
#define CRN_SIM_NODES_WORLD_H

#include "base/rng.h"
#include "node/node.h"
#include "protect/sets.h"
#include "sim/nodes.h"

#define SECOND       1000000000LL
#define MILLI        1000000LL
#define MAX_VERSIONS 8
#define CRN_SIM_NAME "sim"

enum event_kind {
    EV_TICK,      /* node */
    EV_CAPTURE,   /* rank, seq: the application takes a checkpoint */
    EV_FROM_RANK, /* rank: a packet for its service */
    EV_TO_RANK,   /* rank: a packet of its service */
    EV_MESSAGE,   /* node: from another service */
    EV_RESULT,    /* node: of a worker */
    EV_TURN,      /* node: the broker */
    EV_LEAVE,     /* rank: says BYE, or dies */
    EV_DIE,       /* node: its service dies, and its ranks if the host does */
    EV_RESTART,   /* node: a new service, which does not know the job */
    EV_STOP,      /* the services of all nodes die */
    EV_REOPEN,    /* they are restarted, and open the job again */
    EV_ADOPT,     /* node: all nodes are here */
    EV_REJOIN,    /* rank: it is connected again */
};

struct event {
    int64_t at_ns;
    uint64_t no; /* earlier ones first, at the same time */
    enum event_kind kind;
    uint32_t node, rank, from;
    uint64_t seq;
    uint64_t life;            /* of the node, or the sending rank: its service has not died since */
    uint32_t epoch;           /* MESSAGE: no restart of all services since */
    struct crn_action action; /* RESULT */
    unsigned char *packet;    /* owned */
    size_t bytes;
    int flag;
};

enum slot { SLOT_NONE, SLOT_WRITTEN, SLOT_FLUSHED, SLOT_KEPT, SLOT_FAILED };

/* A rank's view of one checkpoint. */
struct capture {
    unsigned char slot; /* enum slot */
    unsigned char is_promised;
    unsigned char was_local;     /* told of the level */
    unsigned char was_protected; /* the same */
    unsigned char ends;          /* final states it was told */
    unsigned char is_ok;         /* PERSISTENT */
    unsigned char is_canceled;
    unsigned char is_made;     /* captured, and not withdrawn */
    unsigned char was_made;    /* captured, even if withdrawn later */
    unsigned char is_insisted; /* the rank waits for this very one */
    int64_t made_ns;
    uint64_t bytes;
};

struct rank {
    uint32_t node, local;
    int is_gone; /* 1: it has left, or its node is dead; 2: it has died */
    int is_claimed;
    uint64_t life;          /* of the service that it is connected to */
    uint64_t captured;      /* checkpoints it has taken, or failed to take */
    uint64_t claims;        /* number of the checkpoint that waits for the claim of the name */
    int64_t to_ns, from_ns; /* last packet on its socket, for their order */
    struct capture capture[MAX_VERSIONS];
};

/* Data on the file system, of a node and version. */
struct data {
    unsigned char is_durable, is_removed, has_local;
    unsigned char has_stream, has_parity;
    uint64_t life; /* of the service that has written it */
};

struct sim_node {
    struct crn_node *core; /* NULL: dead, or has ended */
    uint64_t life;
    int is_dead, is_lost, has_died; /* its service is down; with its host; was down once */
    int64_t cut_ns, healed_ns;      /* no message passes in between */
    int64_t free_ns[4];             /* keeper, flusher, sender, protector */
    int64_t to_root_ns, from_root_ns, out_ns; /* last deliveries, for their order */
    int was_leader;
    int fails;      /* its next task does */
    int is_adopted; /* restarted, and all nodes are here */
    struct crn_nodes_role load;
    struct data data[MAX_VERSIONS];
    uint32_t nmembers; /* of its set */
    uint32_t member[CRN_SET_MAX];
};

struct version {
    int is_committed; /* its manifest is visible */
    int is_ended;     /* the root decided */
    int is_protected; /* the root told all nodes */
    int is_given_up;  /* nobody wants it any more */
    int has_failed;   /* a root that has died since decided so */
    int is_unknown;   /* the keeper could not look whether it is committed */
};

struct world {
    struct crn_nodes set;
    struct crn_nodes_result *res;
    struct crn_rng rng;
    struct crn_config cfg;
    struct crn_actions actions;
    struct sim_node *nodes;
    struct rank *ranks;
    struct version version[MAX_VERSIONS];
    struct event **heap;
    size_t nheap, cap;
    uint64_t next_no;
    int64_t now_ns;
    uint32_t nfiles, nranks, nversions;
    int64_t interval_ns;
    double p_fail; /* of a task */
    int is_out_of_memory;
    uint32_t epoch; /* how often all services have died */
    int bugs_left;  /* how often the bug still strikes */
};

/* nodes.c */
void crn_world_problem(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int crn_world_chance(struct world *w, double p);
int64_t crn_world_between(struct world *w, int64_t least, int64_t most);
struct event *crn_world_at(struct world *w, int64_t at_ns, enum event_kind kind, uint32_t node);
int crn_world_is_cut(const struct world *w, uint32_t node, int64_t at_ns);
CAIRN_CHECKED cairn_err crn_world_open_node(struct world *w, uint32_t node, struct crn_errinfo *ei);

/* nodes_shell.c: carries out what the cores decide. */
void crn_shell_act(struct world *w, uint32_t node);
void crn_shell_message(struct world *w, const struct event *ev);
void crn_shell_result(struct world *w, struct event *ev);
void crn_shell_turn(struct world *w, const struct event *ev);
void crn_shell_die(struct world *w, uint32_t node);
void crn_shell_free(struct world *w, uint32_t node);

/* nodes_rank.c: the ranks. */
void crn_rank_capture(struct world *w, const struct event *ev);
void crn_rank_to_service(struct world *w, const struct event *ev);
void crn_rank_told(struct world *w, const struct event *ev);
void crn_rank_leave(struct world *w, uint32_t rank, int is_dead);
void crn_rank_tell(struct world *w, uint32_t rank, const struct crn_msg *m);
void crn_rank_send(struct world *w, uint32_t rank, const struct crn_msg *m);
void crn_rank_resume(struct world *w, uint32_t rank); /* it is connected to a new service */
struct crn_msg crn_rank_message(enum crn_msg_type type, uint64_t seq, uint64_t created_ns);

/* nodes_restart.c */
void crn_nodes_restart_stop(struct world *w);
CAIRN_CHECKED cairn_err crn_nodes_restart_open(struct world *w, struct crn_errinfo *ei);
int crn_nodes_restart_is_news(struct world *w, uint32_t rank, uint64_t seq);
void crn_nodes_restart_adopt(struct world *w, uint32_t node);
void crn_nodes_restart_rejoin(struct world *w, uint32_t rank);

/* nodes_check.c */
void crn_nodes_check_commit(struct world *w, uint64_t seq);
void crn_nodes_check_protected(struct world *w, uint64_t seq);
void crn_nodes_check_failure(struct world *w, uint64_t seq, const struct crn_errinfo *error);
void crn_nodes_check_removal(struct world *w, uint32_t node, uint64_t seq);
void crn_nodes_check_late(struct world *w);
void crn_nodes_check_end(struct world *w);

#endif
