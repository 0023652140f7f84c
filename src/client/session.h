/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of libcairn: the state of a session. One thread at a time uses a session; the service,
 * the copier's helpers and the engine have threads of their own. */
#ifndef CRN_CLIENT_SESSION_H
#define CRN_CLIENT_SESSION_H

#include "base/clock.h"
#include "base/config.h"
#include "base/level.h"
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

#define CRN_TRACKED 512 /* how many checkpoints a session remembers */

struct crn_protected {
    struct crn_region region;
    struct crn_place place;
    int is_replicated; /* region is the whole; a capture takes this rank's share of it */
};

/* A file for which the application was given a path. */
struct crn_routed {
    struct crn_routed *next;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    char file[CAIRN_MAX_NAME];
};

/* The state of a checkpoint name, from its first restore or checkpoint on (claim.c). */
struct crn_name_state {
    struct crn_name_state *next;
    char name[CAIRN_MAX_NAME];
    int is_successor;         /* a version was restored, or the application decided to start over */
    uint64_t generation;      /* of this run; 0 until granted */
    int is_answered;          /* the last claim was answered, ... */
    struct crn_errinfo error; /* ... with this */
};

/* A checkpoint that this session took. */
struct crn_track {
    uint64_t seq;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t levels; /* reached, as a set */
    struct crn_errinfo error;
    int is_reported;          /* a call has returned the failure */
    int is_rejected;          /* by the application: never restore it from memory */
    struct crn_target target; /* what the caller asked for */
    cairn_level insisted; /* the service was told that a caller waits for this level of this one */
    char remark[CRN_ERR_TEXT]; /* why it does not progress, such as a full disk */
    uint64_t bytes;
    double copy_seconds, blocked_seconds;
    uint64_t captured_ns, committed_ns; /* wall clock */
};

/* This rank's share of a checkpoint, from the copy to the hand-over to the service (take.c). */
struct crn_capture {
    struct crn_shard shard;
    struct crn_place *places; /* indexed by region; files come last and have none */
    uint32_t nmemory;
    struct crn_buf descriptor;
    struct crn_image image;
    struct crn_slot_info info;
    uint32_t slot;
    struct crn_tiered *held; /* in the session's tiers; NULL: in the slot, or spilled */
    int has_slot;            /* we own the slot (WRITING), or held is set */
    int is_complete;         /* crn_capture_complete has run */
    uint32_t flags;          /* CAIRN_LAZY, CAIRN_STREAM_ORDERED */
    struct crn_early *early; /* owned: samples of the source, taken by the call; NULL: none */
};

/* What to capture, and how. */
struct crn_take {
    const char *name;
    int64_t version;
    const char *const *regions;
    uint32_t flags;
};

struct crn_deferred; /* opaque: deferred.c */

/* Does the node service map the arena? */
enum crn_share { CRN_SHARE_NONE, CRN_SHARE_ASKED, CRN_SHARE_DONE, CRN_SHARE_REFUSED };

/* How often the ranks agree in the calls for one name (agree.c); the same on all ranks, but for
 * cost_ns. */
#define CRN_PACES 16
struct crn_pace_of {
    char name[CAIRN_MAX_NAME]; /* empty: cairn_should_stop */
    int is_used;
    uint64_t every;    /* calls from one agreement to the next */
    uint64_t calls;    /* since the last agreement */
    int64_t agreed_ns; /* monotonic; end of the last agreement */
    int64_t cost_ns;   /* that it took on this rank */
};

/* The turn that the first rank has asked its node service for. */
enum crn_wish { CRN_WISH_NONE, CRN_WISH_ASKED, CRN_WISH_COME };

struct crn_advice {
    int64_t opened_ns, last_ns; /* monotonic: session, last checkpoint */
    int64_t cost_ns;            /* what the last checkpoint cost the application */
    int64_t flush_ns;           /* what its flush took */
    int64_t reading_ns;         /* start of the restart read; 0: none */
    int64_t recovery_ns;        /* what the last one took */
    int has_cost;
    int64_t stop;                /* as the ranks agreed last: advice.c */
    int has_stopped;             /* a checkpoint was taken after the stop request */
    struct crn_outside *outside; /* first rank, once the application has asked; see outside.h */
    uint64_t next_after; /* seq of the checkpoint after which to stop; 0: none was requested */
    enum crn_wish wish;
    struct crn_pace_of pace[CRN_PACES];
};

/* rejoin.c. Application's thread. */
enum crn_rejoin_step {
    CRN_REJOIN_CONNECT,
    CRN_REJOIN_WELCOME, /* connected; the service speaks first */
    CRN_REJOIN_READY,   /* HELLO is sent; the service may wait for the other nodes */
    CRN_REJOIN_ARENA,   /* ARENA is sent */
};

struct crn_rejoin {
    enum crn_rejoin_step step;
    int fd;                 /* -1 in the first step */
    int64_t lost_ns;        /* monotonic; 0: the service is there */
    int64_t next_ns;        /* of the next attempt to connect */
    int64_t pause_ns;       /* until the one after that */
    uint32_t times;         /* how often the session has joined a service again */
    uint64_t seq;           /* the checkpoint calls up to this number have ended */
    uint32_t *peers;        /* owned: of the first HELLO */
    struct crn_errinfo why; /* why the service is gone, or the last attempt failed */
};

struct cairn_session {
    unsigned process; /* crn_fork_process() of the process that opened it */
    struct crn_config cfg;
    const struct crn_fs *fs;
    const struct crn_clock *clock;
    struct crn_log log;
    struct crn_comm *comm;      /* all ranks; application's thread only, like the next three */
    struct crn_mail *mail;      /* makes sub-communicators of comm */
    struct crn_comm *all;       /* from mail: all ranks; for collectives that may wait long */
    struct crn_comm *node_comm; /* ranks of this node */
    uint8_t run[16];
    uint32_t rank, ranks, node, nodes, local, nlocal;
    uint32_t host;      /* first rank on it */
    uint32_t nmembers;  /* of this node's set; 0: nothing is protected. sets.c */
    uint32_t strongest; /* nodes whose loss the best scheme for the sets survives; on all ranks */
    uint32_t member[CRN_SET_MAX];
    uint32_t teams;              /* how many teams have read together so far; same on all ranks */
    uint32_t *node_of;           /* by rank */
    struct crn_service *service; /* embedded, in the first rank of the node; else NULL */
    struct crn_link link;        /* to the node service */
    char service_path[108];      /* of its socket */
    struct crn_rejoin rejoin;    /* how the session gets back to a restarted service */
    unsigned char *packet;       /* CRN_PROTO_MAX bytes */
    struct crn_rundir dir;
    int life_fd;             /* holds our lock on the run's lock file: proves that we live; -1 */
    struct crn_rundir made;  /* its paths; only in the rank that runs the service */
    struct crn_arena *arena; /* NULL until its size is known */
    enum crn_share arena_share;
    struct crn_errinfo arena_error; /* why it was refused */
    uint32_t phase;                 /* cairn_phase_kind, set by the application */
    struct crn_copier *copier;
    struct crn_gpu *gpu; /* NULL: no device memory was protected */
    uint64_t gpu_loads;  /* libraries the process had loaded when a driver was last looked for */
    struct crn_tiers *tiers; /* NULL: not in use */
    struct crn_protected *regions;
    uint32_t nregions;
    struct crn_routed *routed;
    struct crn_name_state *names;
    struct crn_capture held;       /* captured but not submitted yet; valid if has_slot */
    struct crn_deferred *deferred; /* NULL: no checkpoint had a flag */
    uint64_t seq;                  /* of the last checkpoint call */
    int has_heard;                 /* crn_checkpoint_hear has run since that call began */
    uint64_t wanted;               /* highest number passed to the service by crn_wait_want */
    struct crn_track track[CRN_TRACKED];
    uint32_t ntracked;                /* total; the ring index is modulo CRN_TRACKED */
    int may_have_failures;            /* 0: no track has an unreported failure */
    struct crn_version *open_version; /* the version read last */
    int is_repair_told;               /* its damaged copy was reported */
    uint32_t repairs;                 /* versions with a damaged copy */
    struct crn_recheck *recheck;      /* recheck.c; NULL: nothing is checked */
    int64_t waited_ns;                /* application's wait for flushes and arena space */
    struct crn_shard own_shard;       /* of crn_restore_own_shard */
    struct crn_advice advice;
    int has_signals;
};

/* Ends a public call: publishes the error, if any, and returns its code. */
cairn_err crn_api_end(const struct crn_errinfo *ei, cairn_err rc);

/* told.c: messages for users, once for all ranks. */
/* The log level of a warning that all ranks have in common: only the first rank warns. */
enum crn_log_level crn_told_level(const cairn_session *s);
/* A warning that several ranks may hit independently: the first rank of the node to hit it
 * warns. */
void crn_told_warn_once(const cairn_session *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A restart skips this version for an older one, or stops with an error at it. All ranks call
 * these; the first rank writes the journal. */
void crn_told_passed_over(const cairn_session *s, const char *name, int64_t version,
                          const char *why);
void crn_told_refused(const cairn_session *s, const char *name, int64_t version, const char *why);
/* Collective, after all ranks have read the open version: reports a damaged copy that was replaced
 * by a good one. */
void crn_told_repaired(cairn_session *s, const char *name, int64_t version);
/* The same for one rank. */
void crn_told_repaired_here(cairn_session *s, const char *name, int64_t version);

/* service_link.c: the connection. */
/* Connects to the service. *ret_address is its address among the services of all nodes. */
CAIRN_CHECKED cairn_err crn_service_link_open(cairn_session *s, const char *socket_path,
                                              uint32_t *ret_address, struct crn_errinfo *ei);
/* s->rejoin.peers are the addresses of the services of all nodes. */
CAIRN_CHECKED cairn_err crn_service_link_hello(cairn_session *s, struct crn_errinfo *ei);
/* Asks the service to map the arena, unless it already does. CAIRN_ETIMEDOUT: it has not answered
 * yet; any other error: it cannot. */
CAIRN_CHECKED cairn_err crn_service_link_share_arena(cairn_session *s, struct crn_errinfo *ei);
/* Processes the state changes that have arrived; waits for the first at most timeout_ns (0: does
 * not wait). CAIRN_ESERVICE if the service is gone. */
CAIRN_CHECKED cairn_err crn_service_link_pump(cairn_session *s, int64_t timeout_ns,
                                              struct crn_errinfo *ei);
/* The same without waiting and without an error, for callers that can use the last known state. */
void crn_service_link_listen(cairn_session *s);
/* Never blocks; see link.h. */
CAIRN_CHECKED cairn_err crn_service_link_send(cairn_session *s, const struct crn_msg *n,
                                              struct crn_errinfo *ei);

CAIRN_CHECKED cairn_err crn_service_link_say_hello(cairn_session *s, int fd, int is_rejoin,
                                                   struct crn_errinfo *ei);

/* rejoin.c: the service is gone. */
void crn_rejoin_begin(cairn_session *s, const struct crn_errinfo *why);
/* Takes the next steps without blocking, then waits for the service at most timeout_ns. CAIRN_OK if
 * there may be one soon; CAIRN_ESERVICE if there is none after service_timeout. */
CAIRN_CHECKED cairn_err crn_rejoin(cairn_session *s, int64_t timeout_ns, struct crn_errinfo *ei);
int crn_rejoin_is_possible(const cairn_session *s);
void crn_rejoin_end(cairn_session *s);

/* claim.c: asks the node services for the name before its first capture: CAIRN_EEXIST,
 * CAIRN_EPINNED or CAIRN_EBUSY, the same on all ranks. Later calls cost nothing. */
CAIRN_CHECKED cairn_err crn_claim(cairn_session *s, const char *name, int64_t version,
                                  uint64_t *ret_generation, struct crn_errinfo *ei);
void crn_claim_heard(cairn_session *s, const struct crn_msg *m);
void crn_claim_forget_names(cairn_session *s);

/* wait.c: tells the service that a caller waits for the checkpoints up to seq, so that it flushes
 * them at full speed. */
void crn_wait_want(cairn_session *s, uint64_t seq);
/* The job may end soon: the newest checkpoint of each name shall be flushed. */
void crn_wait_insist_newest(cairn_session *s);
/* May the nodes hold a checkpoint that nobody waits for? */
int crn_wait_may_hold(const cairn_session *s);

/* phase.c: shows the application's phase to the node service. */
void crn_phase_show(cairn_session *s, uint32_t phase);

/* track.c */
struct crn_track *crn_track_new(cairn_session *s, const char *name, int64_t version);
struct crn_track *crn_track_find(cairn_session *s, const char *name, int64_t version);
struct crn_track *crn_track_seq(cairn_session *s, uint64_t seq);
/* Has it reached a level beyond the capture that no newer one of its name has? */
int crn_track_is_safest(const cairn_session *s, uint64_t seq);

/* deferred.c: checkpoints that return before the memory is read. */
/* Starts the thread, if it does not run yet. */
CAIRN_CHECKED cairn_err crn_deferred_ready(cairn_session *s, struct crn_errinfo *ei);
/* Gives it a capture, which is empty afterwards. The previous one must be settled. */
void crn_deferred_give(cairn_session *s, struct crn_capture *c, const struct crn_track *t);
/* Waits for the capture that it has, if any. The track notes what it cost and how it ended. */
void crn_deferred_wait(cairn_session *s);
void crn_deferred_close(cairn_session *s);

/* early.c: detects by samples that a source changed too early. */
/* NULL if there is no memory for the samples: then nothing is detected. */
struct crn_early *crn_early_sample(const struct crn_capture *c);
/* Submits copies of the samples in device memory, after the copies of the regions. */
CAIRN_CHECKED cairn_err crn_early_give(cairn_session *s, struct crn_capture *c,
                                       struct crn_errinfo *ei);
/* The image is complete: CAIRN_ESTATE if it differs from what the source was or is. */
CAIRN_CHECKED cairn_err crn_early_check(const struct crn_capture *c, const unsigned char *image,
                                        struct crn_errinfo *ei);

/* checkpoint.c */
/* The other ranks must not wait for a capture that failed here. Any thread. */
void crn_checkpoint_tell_failure(cairn_session *s, uint64_t seq, const char *name, int64_t version,
                                 const struct crn_errinfo *why);

/* checkpoint.c: processes the service's messages, once per checkpoint. CAIRN_ESERVICE if the
 * service is gone; or an unreported failure of a name whose policy is strict. */
CAIRN_CHECKED cairn_err crn_checkpoint_hear(cairn_session *s, const char *name,
                                            struct crn_errinfo *ei);

/* take.c */
/* Does what a capture needs besides the copy: writes its descriptor and hears the service. Runs
 * once per capture, when there is time; the tiers run it while the GPU copies. */
CAIRN_CHECKED cairn_err crn_capture_complete(cairn_session *s, struct crn_capture *c,
                                             struct crn_errinfo *ei);
/* How many images the fastest tiers should have space for. */
uint64_t crn_take_images(const struct crn_config *cfg);
/* Creates the arena if there is none: as configured, or sized for images of this size. first: only so
 * many bytes of it are needed now, and crn_arena_go_on makes the others; 0: all. */
CAIRN_CHECKED cairn_err crn_take_ensure_arena(cairn_session *s, uint64_t image_bytes,
                                              uint64_t first, struct crn_errinfo *ei);
/* Copies the regions (all, or those named) under the session's current number; with a flag it only
 * begins to. */
CAIRN_CHECKED cairn_err crn_capture_take(cairn_session *s, const struct crn_take *what,
                                         struct crn_track *t, struct crn_capture *ret,
                                         struct crn_errinfo *ei);
/* Makes or finishes the copies that a flag deferred. Any thread, one at a time. */
CAIRN_CHECKED cairn_err crn_capture_finish(cairn_session *s, struct crn_capture *c,
                                           struct crn_errinfo *ei);
/* Hands a copied image to the service. Any thread. c is empty afterwards. */
CAIRN_CHECKED cairn_err crn_capture_hand_over(cairn_session *s, struct crn_capture *c,
                                              uint64_t bytes, const struct crn_target *target,
                                              int64_t copy_ns, struct crn_errinfo *ei);
/* Takes over the files and hands everything to the service, or to the thread of deferred.c. c is
 * empty afterwards, even on failure. */
CAIRN_CHECKED cairn_err crn_capture_submit(cairn_session *s, struct crn_capture *c,
                                           struct crn_track *t, struct crn_errinfo *ei);
void crn_capture_drop(cairn_session *s, struct crn_capture *c);

/* regions.c */
/* Makes a shard of the protected regions, or of those named; free it with crn_shard_free.
 * *ret_places (owned) says where their memory is. For a capture replicated regions are this rank's
 * share, otherwise all of them. */
CAIRN_CHECKED cairn_err crn_regions_select(const cairn_session *s, const char *const *names,
                                           int is_capture, struct crn_shard *ret,
                                           struct crn_place **ret_places, struct crn_errinfo *ei);

/* files.c */
/* Appends the routed files of a checkpoint to its shard, by name only. */
CAIRN_CHECKED cairn_err crn_files_announce(cairn_session *s, const char *name, int64_t version,
                                           struct crn_shard *shard, uint32_t *ret_n,
                                           struct crn_errinfo *ei);
/* Moves the files announced by regions first and following into the spool, and sets the sizes of
 * these regions. */
CAIRN_CHECKED cairn_err crn_files_take(cairn_session *s, const char *name, int64_t version,
                                       uint64_t seq, uint32_t first, struct crn_shard *shard,
                                       struct crn_errinfo *ei);
/* Forgets the files routed for a checkpoint and removes those already written. */
void crn_files_abandon(cairn_session *s, const char *name, int64_t version);
void crn_files_free(cairn_session *s);

/* restart.c */
/* Opens a version for reading. The session keeps it until another version is asked for. */
CAIRN_CHECKED cairn_err crn_session_version(cairn_session *s, const char *name, int64_t version,
                                            struct crn_version **ret, struct crn_errinfo *ei);

/* Adds the data files in the node's local directory that belong to this version. Best effort; any
 * thread. */
void crn_restart_add_local_copies(const cairn_session *s, struct crn_version *v, const char *name,
                                  int64_t version);
/* Makes v the session's open version, and adds the node's copies of its files. */
void crn_session_keep(cairn_session *s, struct crn_version *v);

/* restore.c */
/* The shard of a checkpoint that this session took, that has not failed and is still in memory;
 * NULL if there is none. Valid until the next call. */
const struct crn_shard *crn_restore_own_shard(cairn_session *s, const char *name, int64_t version);
CAIRN_CHECKED cairn_err crn_restore(cairn_session *s, const char *name, int64_t version,
                                    int old_rank, const char *const *regions,
                                    struct crn_errinfo *ei);

/* agree.c: agreements of all ranks that cost little in every step. */
/* Counts a call for this name, NULL for cairn_should_stop. Returns 1 if the ranks agree in it. */
int crn_agree_is_due(cairn_session *s, const char *name, struct crn_pace_of **ret);
/* Collective. Reduces the values to their maxima, and chooses the call of the next agreement. The
 * last two values belong to this function. begin_ns: what this rank does for it began then. */
#define CRN_PACE_VALUES 2
CAIRN_CHECKED cairn_err crn_agree_now(cairn_session *s, int64_t begin_ns, struct crn_pace_of *p,
                                      int64_t *values, int n, struct crn_errinfo *ei);
/* The longest time from one agreement to the next, as things stand. */
int64_t crn_agree_ns(const struct crn_pace_of *p, int64_t step_ns);

/* wish.c: with a broker, the turn under which the next capture is flushed. First rank. */
void crn_wish_ask(cairn_session *s, int64_t period_ns, int64_t lease_ns);
void crn_wish_heard(cairn_session *s, const struct crn_msg *m);

/* advice.c */
CAIRN_CHECKED cairn_err crn_advice_signals_install(cairn_session *s, struct crn_errinfo *ei);
void crn_advice_signals_remove(cairn_session *s);

/* How many threads share a large copy in memory, or between memory and the node's disk.
 * *ret_sharers: how many sessions of the node share the idle cores; 0 if they do not share. */
int crn_session_copy_threads(const cairn_session *s, int *ret_sharers);

/* Collective. All ranks fail if one does. */
/* sets.c: collective; forms the sets of nodes that protect each other. */
CAIRN_CHECKED cairn_err crn_session_sets(cairn_session *s, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_session_agree(cairn_session *s, cairn_err rc, const char *what,
                                          struct crn_errinfo *ei);

#endif
