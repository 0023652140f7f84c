/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of libcairn: what a session knows. One thread at a time uses it; the service, the copier's
 * helpers and the engine have their own. */
#ifndef CRN_CLIENT_SESSION_H
#define CRN_CLIENT_SESSION_H

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "capture/copier.h"
#include "client/args.h"
#include "client/gpu.h"
#include "client/link.h"
#include "client/open.h"
#include "client/tiers.h"
#include "comm/mail.h"
#include "restart/version.h"
#include "service/proto.h"
#include "service/rundir.h"
#include "service/service.h"
#include "tier/arena.h"
#include "tier/image.h"

#define CRN_TRACKED 512 /* checkpoints whose state is remembered */

struct crn_protected {
    struct crn_region region;
    struct crn_place place;
};

/* A file that the application was given a path for. */
struct crn_routed {
    struct crn_routed *next;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    char file[CAIRN_MAX_NAME];
};

/* A name of checkpoints, from the first restore or checkpoint on (claim.c). */
struct crn_name_state {
    struct crn_name_state *next;
    char name[CAIRN_MAX_NAME];
    int is_successor;         /* a version was restored, or the program has decided to start */
    uint64_t generation;      /* of this run; 0: not granted yet */
    int is_answered;          /* the last claim was, */
    struct crn_errinfo error; /* with this */
};

/* A checkpoint that this session took. */
struct crn_track {
    uint64_t seq;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    cairn_level level;
    struct crn_errinfo error;
    int is_reported;           /* the failure was returned by some call */
    int is_rejected;           /* by the application: not to be restored from memory */
    char remark[CRN_ERR_TEXT]; /* why it is not further, such as a full disk */
    uint64_t bytes;
    double copy_seconds, blocked_seconds;
    uint64_t captured_ns, committed_ns; /* wall clock */
};

/* What this rank contributes to a checkpoint, from its copy to its hand-over (take.c). */
struct crn_capture {
    struct crn_shard shard;
    struct crn_place *places; /* by region; files come last and have none */
    uint32_t nmemory;
    struct crn_buf descriptor;
    struct crn_image image;
    struct crn_slot_info info;
    uint32_t slot;
    struct crn_tiered *held; /* in the session's tiers; NULL: in the slot, or spilled */
    int has_slot;            /* it was taken: the slot is ours, WRITING, or held is */
    int is_complete;         /* crn_capture_complete */
};

/* Does the node service map the arena? */
enum crn_share { CRN_SHARE_NONE, CRN_SHARE_ASKED, CRN_SHARE_DONE, CRN_SHARE_REFUSED };

struct crn_advice {
    int64_t opened_ns, last_ns; /* monotonic: session, last checkpoint */
    int64_t cost_ns;            /* what the last checkpoint cost the application */
    int64_t flush_ns;           /* what its flush took */
    int has_cost;
    int has_stopped; /* a checkpoint was taken after the stop was seen */
};

struct cairn_session {
    unsigned process; /* crn_fork_process() of the one that opened it */
    struct crn_config cfg;
    const struct crn_fs *fs;
    const struct crn_clock *clock;
    struct crn_log log;
    struct crn_comm *comm;      /* all ranks; application's thread only, as the next three */
    struct crn_mail *mail;      /* parts of comm */
    struct crn_comm *all;       /* of mail: all ranks; for collectives that may wait for long */
    struct crn_comm *node_comm; /* ranks of this node */
    uint8_t run[16];
    uint32_t rank, ranks, node, nodes, local, nlocal;
    uint32_t teams;              /* that have read together so far; the same on all ranks */
    uint32_t *node_of;           /* by rank */
    struct crn_service *service; /* embedded, in the first rank of the node; else NULL */
    struct crn_link link;        /* to the node service */
    unsigned char *packet;       /* CRN_PROTO_MAX bytes */
    struct crn_rundir dir;
    struct crn_rundir made;  /* paths, of the rank whose service is its own */
    struct crn_arena *arena; /* NULL until its size is known */
    enum crn_share arena_share;
    struct crn_errinfo arena_error; /* why it was refused */
    uint32_t phase;                 /* cairn_phase_kind, as the application told */
    struct crn_copier *copier;
    struct crn_gpu *gpu;     /* NULL: no device memory was protected */
    struct crn_tiers *tiers; /* NULL: nobody asked for them */
    struct crn_protected *regions;
    uint32_t nregions;
    struct crn_routed *routed;
    struct crn_name_state *names;
    struct crn_capture held; /* captured and not submitted yet, if it has a slot */
    uint64_t seq;            /* of the last checkpoint call */
    int has_heard;           /* what the service has said, since that call began: crn_hear */
    uint64_t wanted; /* of the last that the service was told somebody waits for: crn_want */
    struct crn_track track[CRN_TRACKED];
    uint32_t ntracked;                /* ever; the ring index is modulo CRN_TRACKED */
    int may_have_failures;            /* 0: no track has a failure that nobody was told of */
    struct crn_version *open_version; /* the one read last */
    int is_repair_told;               /* that a copy of it was damaged */
    uint32_t repairs;                 /* versions of which that was so */
    int64_t waited_ns;                /* the application, for flushes and for room in the arena */
    struct crn_shard own_shard;       /* of crn_own_shard */
    struct crn_advice advice;
    int has_signals;
};

/* Ends a public call: publishes the error, if any, and returns its code. */
cairn_err crn_api_end(const struct crn_errinfo *ei, cairn_err rc);

/* told.c: what people hear, once for all ranks. */
/* The level of a warning that all ranks have: only the first rank warns. */
enum crn_log_level crn_told_level(const cairn_session *s);
/* A warning that several ranks may have, each for itself: the first rank of the node that has it warns. */
void crn_warn_once(const cairn_session *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A restart takes an older version, or ends with an error at this one. On all ranks; the first one writes the
 * journal. */
void crn_told_passed_over(const cairn_session *s, const char *name, int64_t version,
                          const char *why);
void crn_told_refused(const cairn_session *s, const char *name, int64_t version, const char *why);
/* Collective, after the open version was read on all ranks: was a damaged copy made good? */
void crn_told_repaired(cairn_session *s, const char *name, int64_t version);
/* The same on one rank. */
void crn_told_repaired_here(cairn_session *s, const char *name, int64_t version);

/* service_link.c: the connection. */
/* Connects; the address is that of the service among those of all nodes. */
CAIRN_CHECKED cairn_err crn_node_open(cairn_session *s, const char *socket_path,
                                      uint32_t *ret_address, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_node_hello(cairn_session *s, const uint32_t *peers,
                                       struct crn_errinfo *ei);
/* Has the service map the arena, unless it does already. CAIRN_ETIMEDOUT: it has not answered yet; any other error:
 * it cannot. */
CAIRN_CHECKED cairn_err crn_node_share_arena(cairn_session *s, struct crn_errinfo *ei);
/* Takes the state changes that have arrived; waits for the first at most timeout_ns (0: not at
 * all). CAIRN_ESERVICE when the service is gone. */
CAIRN_CHECKED cairn_err crn_node_pump(cairn_session *s, int64_t timeout_ns, struct crn_errinfo *ei);
/* The same without waiting, for callers that make do with what was told before. */
void crn_node_listen(cairn_session *s);
/* Never waits; see link.h. */
CAIRN_CHECKED cairn_err crn_node_send(cairn_session *s, const struct crn_msg *n,
                                      struct crn_errinfo *ei);

/* claim.c: asks the node services for the name before its first capture: CAIRN_EEXIST, CAIRN_EPINNED or
 * CAIRN_EBUSY, alike on all ranks. Later calls cost nothing. */
CAIRN_CHECKED cairn_err crn_claim(cairn_session *s, const char *name, int64_t version,
                                  uint64_t *ret_generation, struct crn_errinfo *ei);
void crn_claim_heard(cairn_session *s, const struct crn_msg *m);
void crn_names_forget(cairn_session *s);

/* wait.c: somebody waits for the checkpoints up to this number: the service flushes them as fast as it can. */
void crn_want(cairn_session *s, uint64_t seq);

/* phase.c: tells the node service what the application is at now. */
void crn_phase_show(cairn_session *s, uint32_t phase);

/* track.c */
struct crn_track *crn_track_new(cairn_session *s, const char *name, int64_t version);
struct crn_track *crn_track_find(cairn_session *s, const char *name, int64_t version);
struct crn_track *crn_track_seq(cairn_session *s, uint64_t seq);

/* checkpoint.c: what the service has said so far, once for each checkpoint; CAIRN_ESERVICE when it is
 * gone, or a failure that a strict name has to hear of. */
CAIRN_CHECKED cairn_err crn_hear(cairn_session *s, const char *name, struct crn_errinfo *ei);

/* take.c */
/* What a capture needs, but not its copy: its descriptor, and to hear the service. Once, when there is
 * time; the tiers do it while the GPU copies. */
CAIRN_CHECKED cairn_err crn_capture_complete(cairn_session *s, struct crn_capture *c,
                                             struct crn_errinfo *ei);
/* Makes the arena if there is none: as configured, or for images of this size. */
CAIRN_CHECKED cairn_err crn_arena_ensure(cairn_session *s, uint64_t image_bytes,
                                         struct crn_errinfo *ei);
/* The same for an image that is read to there: what it does not need is made beside the read. */
CAIRN_CHECKED cairn_err crn_arena_ensure_read(cairn_session *s, uint64_t image_bytes,
                                              struct crn_errinfo *ei);
/* Copies the regions, all or those named, under the session's present number. */
CAIRN_CHECKED cairn_err crn_capture_take(cairn_session *s, const char *name, int64_t version,
                                         const char *const *regions, struct crn_track *t,
                                         struct crn_capture *ret, struct crn_errinfo *ei);
/* Takes the files over and gives all of it to the service. c is empty afterwards, also on failure. */
CAIRN_CHECKED cairn_err crn_capture_submit(cairn_session *s, struct crn_capture *c,
                                           struct crn_track *t, struct crn_errinfo *ei);
void crn_capture_drop(cairn_session *s, struct crn_capture *c);

/* regions.c */
/* The protected regions, or those named, as a shard; frees with crn_shard_free. places (owned) tells
 * where their memory is. */
CAIRN_CHECKED cairn_err crn_select(const cairn_session *s, const char *const *names,
                                   struct crn_shard *ret, struct crn_place **ret_places,
                                   struct crn_errinfo *ei);

/* files.c */
/* Appends the routed files of a checkpoint to its shard, by name only. */
CAIRN_CHECKED cairn_err crn_files_announce(cairn_session *s, const char *name, int64_t version,
                                           struct crn_shard *shard, uint32_t *ret_n,
                                           struct crn_errinfo *ei);
/* Moves the files that the regions from first on announce into the spool, and puts their sizes in. */
CAIRN_CHECKED cairn_err crn_files_take(cairn_session *s, const char *name, int64_t version,
                                       uint64_t seq, uint32_t first, struct crn_shard *shard,
                                       struct crn_errinfo *ei);
/* Forgets the files routed for a checkpoint, and removes what was written. */
void crn_files_abandon(cairn_session *s, const char *name, int64_t version);
void crn_files_free(cairn_session *s);

/* restart.c */
/* A version opened for reading; kept until another one is asked for. */
CAIRN_CHECKED cairn_err crn_session_version(cairn_session *s, const char *name, int64_t version,
                                            struct crn_version **ret, struct crn_errinfo *ei);

/* Data files of the local tier that belong to this version. Best effort; any thread. */
void crn_add_local_copies(const cairn_session *s, struct crn_version *v, const char *name,
                          int64_t version);
/* Makes it the session's open version; with the node's copies of its files. */
void crn_session_keep(cairn_session *s, struct crn_version *v);

/* restore.c */
/* The parts of a checkpoint that this session took, has not failed and is in memory; NULL if there is
 * none. Valid until the next call. */
const struct crn_shard *crn_own_shard(cairn_session *s, const char *name, int64_t version);
CAIRN_CHECKED cairn_err crn_restore(cairn_session *s, const char *name, int64_t version,
                                    int old_rank, const char *const *regions,
                                    struct crn_errinfo *ei);

/* advice.c */
CAIRN_CHECKED cairn_err crn_signals_install(cairn_session *s, struct crn_errinfo *ei);
void crn_signals_remove(cairn_session *s);

/* Threads that a large copy in memory, or between memory and the node's disk, is shared by; how many
 * sessions of the node share the idle cores, 0 if they do not count. */
int crn_copy_threads(const cairn_session *s, int *ret_sharers);

/* All ranks fail if one does. Collective. */
CAIRN_CHECKED cairn_err crn_agree(cairn_session *s, cairn_err rc, const char *what,
                                  struct crn_errinfo *ei);

#endif
