/* SPDX-License-Identifier: BSD-3-Clause */
/* Cairn: checkpoints at memory speed.
 *
 *     check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s));       // cairn_mpi.h; or cairn_open()
 *     check(cairn_protect_array(s, "temperature", t, &part)); // its block of a global array
 *     rc = cairn_restart(s, "heat", NULL, &step);            // newest good version
 *     if (rc == CAIRN_ENOENT)
 *         step = 0;                                          // nothing stored: start
 *     else
 *         check(rc);                                         // other error: never start over
 *     while (step < last) {
 *         compute(t);
 *         if (++step % 10 == 0)
 *             check(cairn_checkpoint(s, "heat", step, NULL)); // returns after one memcpy
 *     }
 *     check(cairn_close(s));                                 // waits until all is on the PFS
 *
 * check() prints cairn_last_error() and ends the program; docs/tutorial.md has the whole one.
 *
 * Threads: only one thread at a time may use a session; different sessions are independent. All
 * ranks of the session call a "collective" function, in the same order; all other functions are
 * local. No function exits, aborts or prints on standard output. Every function that can fail
 * returns a code; cairn_last_error() then says what failed, where, and what to do.
 *
 * Arguments: a pointer must not be NULL unless this file allows it. A NULL session or any other
 * invalid argument gives CAIRN_EINVAL (-1 from functions that return int) and changes nothing.
 *
 * fork(): a session belongs to the process that opened it. In a forked child every call on it
 * returns CAIRN_ESTATE (-1 from functions that return int) and touches nothing. Neither the child,
 * nor its exit, nor its lifetime affects the parent's session. A child may open a session of its
 * own. */
#ifndef CAIRN_H
#define CAIRN_H

#include <stddef.h>
#include <stdint.h>
#include "cairn_errors.h"

#ifdef __cplusplus
extern "C" {
#ifdef __GNUC__ /* two structs have the name of a function; C++ has the typedefs with _t */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#endif

#define CAIRN_VERSION_MAJOR 0
#define CAIRN_VERSION_MINOR 2
#define CAIRN_VERSION_PATCH 0
#define CAIRN_VERSION       "0.2.0"

#if defined(__GNUC__)
#define CAIRN_API     __attribute__((visibility("default")))
#define CAIRN_CHECKED __attribute__((warn_unused_result))
#else
#define CAIRN_API
#define CAIRN_CHECKED
#endif

/* Limits, and values with a meaning of their own. */
#define CAIRN_MAX_DIMS    8
#define CAIRN_MAX_NAME    128 /* bytes of a checkpoint, region or file name, with the final 0 */
#define CAIRN_NEWEST      INT64_MAX /* as a bound: any version */
#define CAIRN_OWN_RANK    (-1)
#define CAIRN_WAIT_CONFIG (-1) /* timeout: use the configuration key wait_timeout */

typedef struct cairn_session cairn_session;

/* Types of elements. The numbers are on disk and never change. */
typedef enum cairn_type {
    CAIRN_BYTES = 0,
    CAIRN_I8 = 1,
    CAIRN_U8 = 2,
    CAIRN_I16 = 3,
    CAIRN_U16 = 4,
    CAIRN_I32 = 5,
    CAIRN_U32 = 6,
    CAIRN_I64 = 7,
    CAIRN_U64 = 8,
    CAIRN_F32 = 9,
    CAIRN_F64 = 10,
    CAIRN_C64 = 11,     /* two f32 */
    CAIRN_C128 = 12,    /* two f64 */
    CAIRN_F16 = 13,     /* IEEE 754 binary16 */
    CAIRN_BF16 = 14,    /* the upper half of an f32 */
    CAIRN_BOOL = 15,    /* one byte, 0 or 1 */
    CAIRN_F8_E4M3 = 16, /* 8-bit floats, OCP: 4 bits of exponent, 3 of mantissa; no infinities */
    CAIRN_F8_E5M2 = 17  /* 5 bits of exponent, 2 of mantissa */
} cairn_type;

/* How safe a checkpoint is. Levels are a set, not a ladder: every level includes CAIRN_CAPTURED,
 * CAIRN_PERSISTENT includes all, and CAIRN_LOCAL and CAIRN_PROTECTED do not include each other. A
 * protected checkpoint may lie in the memory of other nodes, and is lost when all lose power. */
typedef enum cairn_level {
    CAIRN_LEVEL_NONE = 0,
    CAIRN_CAPTURED = 10,  /* in memory: survives the death of the application's processes */
    CAIRN_LOCAL = 20,     /* on the node's own disk: survives a restart of the node */
    CAIRN_PROTECTED = 30, /* on other nodes too: survives the loss of as many nodes of a set as the
                           * protection scheme says */
    CAIRN_PERSISTENT = 40 /* committed on the parallel file system: survives the nodes */
} cairn_level;
/* A level as a bit of a set of levels, a uint64_t. */
#define CAIRN_LEVEL_BIT(level) (UINT64_C(1) << (level))

/* Texts. --------------------------------------------------------------------------------------- */

/* Name of a code, such as "CAIRN_ENOSPC". Never NULL. */
CAIRN_API const char *cairn_error_name(cairn_err code);
/* The last error of the calling thread: what failed, where, why and what to do. Never NULL; valid
 * until the next failing call of this thread. */
CAIRN_API const char *cairn_last_error(void);
/* Release of the library that runs, such as "0.2.0"; CAIRN_VERSION is that of this header. */
CAIRN_API const char *cairn_version_string(void);
/* Bytes of one element; 0 for an unknown type. */
CAIRN_API size_t cairn_type_size(cairn_type type);

/* Session. ------------------------------------------------------------------------------------- */

/* A zero field means its default; size must be sizeof(struct cairn_options). */
struct cairn_options {
    size_t size;
    const char *config_file;     /* INI file; NULL: $CAIRN_CONFIG, or no file */
    const char *const *settings; /* "key=value" strings, NULL-terminated; override all else */
};

/* Opens a session for a single process, without MPI. Starts the node service as a thread, or
 * connects to cairnd (configuration key service). options may be NULL. Creates the directory named
 * by the configuration key persistent if it is missing. If checkpoints cannot be written there, the
 * open fails, not the first flush; so a read-only store cannot be opened. On failure *ret_session
 * is NULL, and one rank logs the error. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_open(const struct cairn_options *options,
                                             cairn_session **ret_session);
/* Collective. Waits until every checkpoint is persistent or has failed (at most wait_timeout), or a
 * newer one has taken its place (persistent_every); stops the service and frees the session, even
 * when it returns an error. On CAIRN_ETIMEDOUT, checkpoints that are not persistent yet stay in
 * memory for the next start or for `cairn drain`. NULL is allowed. */
CAIRN_API cairn_err cairn_close(cairn_session *session);

/* Both return -1 for a NULL session. */
CAIRN_API int cairn_rank(const cairn_session *session);
CAIRN_API int cairn_ranks(const cairn_session *session);

/* Regions: what a checkpoint contains. --------------------------------------------------------- */

/* A local block of dims[0] x .. x dims[ndims-1] elements, row-major (C order). If global_dims[0] is
 * not 0, the block lies at offset[] inside a global array that all ranks share, and Cairn can
 * redistribute that array to a different number of ranks. */
struct cairn_array {
    size_t size; /* sizeof(struct cairn_array) */
    cairn_type type;
    int32_t ndims; /* 1 .. CAIRN_MAX_DIMS */
    uint64_t dims[CAIRN_MAX_DIMS];
    uint64_t global_dims[CAIRN_MAX_DIMS];
    uint64_t offset[CAIRN_MAX_DIMS];
};

/* Registers count elements at ptr under a name; ptr may be NULL if count is 0. Protecting a
 * registered name again replaces its entry, for example after a realloc. The memory stays the
 * application's: Cairn reads it only inside cairn_checkpoint and cairn_capture, and writes it only
 * inside cairn_restore, cairn_restore_from and cairn_restart. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_protect(cairn_session *session, const char *region,
                                                void *ptr, cairn_type type, uint64_t count);
CAIRN_API CAIRN_CHECKED cairn_err cairn_protect_array(cairn_session *session, const char *region,
                                                      void *ptr, const struct cairn_array *array);
/* Like cairn_protect_array, for data that all ranks hold alike: parameters of data-parallel
 * training, scalars, the state of a random number generator. Every rank must call it with the same
 * name, type and dims, and without a position in a global array. Each rank captures its share of
 * the rows, so that the data is written once; the stored array is a global one. A restart gives all
 * of it to every rank, whatever their number. A version that is restored in the session that took
 * it must be persistent first: the restore waits for that. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_protect_replicated(cairn_session *session,
                                                           const char *region, void *ptr,
                                                           const struct cairn_array *array);
CAIRN_API CAIRN_CHECKED cairn_err cairn_unprotect(cairn_session *session, const char *region);

/* Local. Cairn recognises GPU memory (CUDA or HIP) by its pointer: protect, checkpoint and restore
 * it like any other memory. Cairn copies it on its own streams. By default such a copy is ordered
 * after everything that the process submitted to the GPU before the call, on any stream,
 * non-blocking ones included. The call waits for those operations and for Cairn's own background
 * copies on the GPU.
 *
 * cairn_gpu_stream is the fast path: it names the stream (CUstream, cudaStream_t or hipStream_t)
 * that computes the data on its GPU. From then on, copies of that GPU's memory are ordered after
 * everything submitted to this stream before the call, and the call waits for nothing else. The
 * application must then order operations on other streams itself. Each GPU has one named stream:
 * naming one leaves those of other GPUs unchanged. (void *)1 names the legacy default stream
 * (CU_STREAM_LEGACY, cudaStreamLegacy). (void *)2 names the per-thread default stream of the thread
 * that takes the checkpoint. Both refer to the calling thread's current GPU. NULL returns all GPUs
 * to the default. A stream must belong to the GPU's primary context, as all streams of the CUDA
 * runtime do, and must outlive the session or be replaced.
 *
 * Graphs: any thread may capture a graph, in any mode, at any time; no Cairn call and no background
 * copy invalidates the capture. While a graph is being captured from the named stream itself,
 * cairn_checkpoint, cairn_capture and cairn_restore return CAIRN_EBUSY; call again when the capture
 * has ended. If the named stream is the legacy one, this applies to a capture from any blocking
 * stream.
 *
 * Returns CAIRN_ENOTSUP if the application has loaded no GPU driver, CAIRN_EINVAL if the stream
 * belongs to no GPU. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_gpu_stream(cairn_session *session, void *stream);

/* Checkpoint. ---------------------------------------------------------------------------------- */

/* Collective. Captures the protected regions (all, or the NULL-terminated list of names) and the
 * files routed for this name and version. When it returns CAIRN_OK the copy is complete and the
 * application may change its memory. The rest happens in the background and needs no further call.
 * Versions are >= 0; taking a version again replaces it atomically. Names match [A-Za-z0-9_.-]+ and
 * do not begin with '.'.
 *
 * The first checkpoint of a name inspects the store, once. It fails on all ranks alike, before
 * anything is captured:
 * - CAIRN_EEXIST if the store has versions of another run and this run has restored none of them.
 *   cairn_restart and cairn_restore make this run their successor; `fresh = on` lets it replace and
 *   retire them.
 * - CAIRN_EBUSY if another run is writing the name.
 * - CAIRN_EPINNED if the version is pinned.
 *
 * Later checkpoints do not inspect the store; if their version is pinned, their flush fails.
 *
 * If the policy of the name is strict, this call returns the failure of an earlier checkpoint of
 * the name that no call has reported yet, and captures nothing. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_checkpoint(cairn_session *session, const char *name,
                                                   int64_t version, const char *const *regions);

/* Flags of a checkpoint: the call returns before the memory has been read. Use one of them or none.
 * Both wait for free space in the arena and for the previous checkpoint with a flag, and copy on the
 * caller's thread where the session has tiers (docs/tiers.md). The checkpoint reaches CAIRN_CAPTURED
 * without a further call. A later checkpoint, cairn_capture, cairn_unprotect, restore, prefetch or
 * close waits until the memory has been read, and so does protecting a region again.
 *
 * CAIRN_LAZY is for memory that does not change for a while: Cairn reads it in the background, and
 * the application must not change it before cairn_source_free has returned. If Cairn detects that it
 * changed earlier, the checkpoint fails with CAIRN_ESTATE. It compares samples, and so detects that
 * an array was computed anew, but not every changed element.
 *
 * CAIRN_STREAM_ORDERED is for GPU memory: the stream named by cairn_gpu_stream, instead of the
 * calling thread, waits for the copy. Operations submitted to it after the call may change the
 * memory. Every GPU with protected memory needs a named stream (CAIRN_ESTATE). Host memory is copied
 * before the call returns. */
#define CAIRN_LAZY           UINT32_C(1)
#define CAIRN_STREAM_ORDERED UINT32_C(2)

/* How to take one checkpoint. A zero field means its default. */
struct cairn_checkpoint_options {
    size_t size;                /* sizeof(struct cairn_checkpoint_options) */
    const char *const *regions; /* NULL-terminated list of names; NULL: all */
    cairn_level level;          /* what it shall reach although nobody waits for it;
                                 * CAIRN_LEVEL_NONE: as the keys say (persistent_every). A level
                                 * that the session lacks is reached with the next one. */
    uint32_t flags;             /* CAIRN_LAZY, CAIRN_STREAM_ORDERED, or 0 */
    const char *protect;        /* "none", "partner", "xor", "rs:2"; NULL: as configured. A scheme
                                 * that the sets of nodes cannot carry is CAIRN_EINVAL. "rs:2|none":
                                 * the first one that they can carry. */
};
/* Collective. cairn_checkpoint with options, the same on all ranks but for the regions. options may
 * be NULL. */
CAIRN_API CAIRN_CHECKED cairn_err
cairn_checkpoint_with(cairn_session *session, const char *name, int64_t version,
                      const struct cairn_checkpoint_options *options);

/* Local. Waits until the memory of a checkpoint with CAIRN_LAZY has been read; then the application
 * may change it. Returns why reading it failed, if it did; the checkpoint has failed then. Returns
 * at once if there is no such checkpoint. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_source_free(cairn_session *session);

/* cairn_checkpoint in two steps, for callers that decide after the copy whether to keep it; all
 * three are collective. cairn_capture copies the memory, which may then change; repeating it for
 * the same name and version replaces the copy. cairn_submit hands over the copy, together with the
 * files that were routed before the capture, in their current state. cairn_abandon discards the
 * checkpoint and its files instead, with or without a capture: the checkpoint fails on all ranks.
 * reason may be NULL. Only one checkpoint at a time may be between the two steps (CAIRN_ESTATE). */
CAIRN_API CAIRN_CHECKED cairn_err cairn_capture(cairn_session *session, const char *name,
                                                int64_t version, const char *const *regions);
CAIRN_API CAIRN_CHECKED cairn_err cairn_submit(cairn_session *session);
CAIRN_API CAIRN_CHECKED cairn_err cairn_abandon(cairn_session *session, const char *name,
                                                int64_t version, const char *reason);

/* Has the checkpoint reached the level? Never blocks. An error means that it never will. Polling
 * does not speed up a flush: a flush that nothing waits for is throttled (calm_bandwidth), to
 * disturb the application little. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_test(cairn_session *session, const char *name,
                                             int64_t version, cairn_level level, int *ret_reached);
/* Waits for the level, at most timeout_ms (0: only test; or CAIRN_WAIT_CONFIG). Unless the call
 * only tests, all nodes flush this checkpoint and those before it at full speed from now on.
 * CAIRN_ETIMEDOUT leaves the checkpoint as it is; its flush continues in the background. A checkpoint
 * that is not due (persistent_every) is flushed if the level needs it. If a newer one has taken its
 * place already, the error is CAIRN_ECANCELED. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_wait(cairn_session *session, const char *name,
                                             int64_t version, cairn_level level,
                                             int64_t timeout_ms);
/* Like cairn_wait, for all checkpoints of the session; returns the first failure that no call has
 * returned before. Of those that are not due, only the newest of each name is flushed, and older ones
 * are superseded. A superseded checkpoint is not a failure. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_wait_all(cairn_session *session, cairn_level level,
                                                 int64_t timeout_ms);
/* A descriptor for poll() and event loops: it becomes readable when the state of a checkpoint has
 * changed. Do not read from it; cairn_test() does. -1 if there is none. */
CAIRN_API int cairn_event_fd(cairn_session *session);

/* How a checkpoint went so far. */
struct cairn_stats {
    size_t size;               /* sizeof(struct cairn_stats), set by the caller */
    cairn_level level;         /* the level with the highest number among those reached */
    cairn_err error;           /* why it failed, or CAIRN_OK */
    uint64_t bytes;            /* of this rank */
    double copy_seconds;       /* the application waited for the copy, ... */
    double blocked_seconds;    /* ... and before it for free space in the arena */
    double persistent_seconds; /* from capture to commit; 0 until committed */
    uint64_t levels;           /* all levels reached so far, as a set of CAIRN_LEVEL_BIT() */
};
/* For C++, where the function of this name hides the struct. */
typedef struct cairn_stats cairn_stats_t;
/* Statistics of a checkpoint that this session took. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_stats(cairn_session *session, const char *name,
                                              int64_t version, struct cairn_stats *ret_stats);

/* Restart. ------------------------------------------------------------------------------------- */

/* Collective. Finds the newest version, not newer than the bound, that every rank can read: present,
 * complete and not rejected. All ranks get the same version. The call is cheap: it reads manifests,
 * indexes and the sizes of files, no data. So damage of the data is found only by the call that reads
 * it: cairn_restart falls back by itself; after cairn_restore the ranks agree, with cairn_reject and
 * another cairn_find. The log and `cairn explain` list the versions that were skipped, and why. Errors:
 * - CAIRN_ENOENT: there is no such version. Always so for a negative bound.
 * - CAIRN_EDAMAGED: there are versions, and none can be restored.
 * - CAIRN_ENOMEM, CAIRN_ELIMIT (descriptors, threads): a version that may be complete could not be
 *   opened. The call does not fall back to an older one.
 * - CAIRN_EUNSAVED: newer checkpoints exist that are not saved. The message says which and where;
 *   the configuration key restart_unsaved = older continues without them.
 * - CAIRN_EPEER: a rank hangs. It was silent for commit_timeout while the ranks listed the versions
 *   or read together. The session can only be closed. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_find(cairn_session *session, const char *name,
                                             int64_t not_newer_than, int64_t *ret_version);
/* Collective. The same check for one version. A version that all ranks of this session took and
 * still have in memory counts as present, even before it is committed. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_find_version(cairn_session *session, const char *name,
                                                     int64_t version);
/* Collective. Reads all data of a version once and verifies it: in the nodes' own copies where there
 * are any, else in the store. CAIRN_EDAMAGED if a rank could not restore it. Nothing is restored, and
 * nothing is marked as bad. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_verify(cairn_session *session, const char *name,
                                               int64_t version);
/* Local. Marks a version as bad, for this and all later runs, until it is taken again. reason may
 * be NULL. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_reject(cairn_session *session, const char *name,
                                               int64_t version, const char *reason);

/* Local. Reads the protected regions (all, or those named) from a version into their memory, and
 * verifies them as they are read. A region comes from the shard of the same rank; a block of a global
 * array comes from whichever stored blocks of that array cover it. The number of ranks may differ from
 * the number that wrote the version; a rank without a shard of its own can restore only global arrays.
 * A version that this session took and still has in memory is read from memory, even before it is
 * committed; then the node's own copy is read, then the store.
 *
 * As with read(2), an error that is found before the first byte is placed leaves the memory as it was:
 * CAIRN_ENOENT, CAIRN_EMISMATCH (type or size), CAIRN_EINVAL, CAIRN_ECONFIG, CAIRN_ESTATE. After any
 * other error its content is undefined: CAIRN_EDAMAGED if data failed its checksum. Then another
 * version can be restored over it. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_restore(cairn_session *session, const char *name,
                                                int64_t version, const char *const *regions);
/* Local. The same, from the shard of any rank of the run that wrote the version. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_restore_from(cairn_session *session, const char *name,
                                                     int64_t version, int old_rank,
                                                     const char *const *regions);
/* Collective. Restores the newest version that every rank can restore, in one pass: data is read,
 * verified and placed in the protected regions at once, and on another number of ranks each byte is
 * read once for all. If data turns out to be damaged, all ranks go on to the next older version, which
 * overwrites it. All ranks get the same version.
 *
 * Only CAIRN_ENOENT means that there is nothing to restore: start from the beginning. After any other
 * error, stop and show cairn_last_error(): a program that starts over would replace versions that
 * another attempt may still restore. CAIRN_EDAMAGED: there are versions, and none can be restored. The
 * errors that cairn_restore names leave the memory of all ranks as it was; after any other error its
 * content is undefined. After CAIRN_EPEER and CAIRN_EMPI a hanging rank may still write to it: end
 * the program. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_restart(cairn_session *session, const char *name,
                                                const char *const *regions, int64_t *ret_version);

/* Local. Hints that this rank will restore a version. Give any number, in the order of the coming
 * reads, at any time, even before the version is taken. Before cairn_prefetch_start, hints only
 * influence what the caches keep. After it, Cairn prefetches the versions in the background as
 * space allows: from the file system to memory and, with device_cache, on to the GPU. A prefetched
 * version stays there until it is restored, unless a new checkpoint needs its space.
 *
 * Reads may come in any other order, and a read needs no hint. If a different number of ranks took
 * the version, Cairn prefetches the blocks that are protected when cairn_prefetch_start is called,
 * or when a later hint is given. A version that cannot be prefetched is read on demand. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_enqueue(cairn_session *session, const char *name,
                                                         int64_t version);
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_start(cairn_session *session);
/* Local. Withdraw hints: all that were given for one version, or all hints. Data in flight or
 * already prefetched stays available to later reads, but may be evicted for other versions.
 * Withdraw hints that will not come true: they keep memory from those that will. Withdrawing a hint
 * that does not exist is no error. Prefetching continues for the remaining and for future hints. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_cancel(cairn_session *session, const char *name,
                                                        int64_t version);
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_clear(cairn_session *session);

/* Local. How many versions this session restored from a good copy although another copy was
 * damaged. The two copies are the file in the node's local directory and the file on the parallel
 * file system; either may be the damaged one. Each case is also logged as a warning and recorded
 * for `cairn explain`. A restart from local copies alone checks the files on the parallel file
 * system afterwards, in the background, at a tenth of the speed (restart_check): damage there counts
 * when it is found, on the lowest rank of the damaged file. */
CAIRN_API int cairn_repairs(const cairn_session *session);

/* Local. What the manifest of a committed version says. */
struct cairn_version_info {
    size_t size; /* sizeof(struct cairn_version_info), set by the caller */
    int64_t version;
    int32_t ranks;
    int32_t files; /* data files */
    uint64_t bytes;
    int64_t created_ns; /* since 1970 */
};
typedef struct cairn_version_info cairn_version_info_t;
CAIRN_API CAIRN_CHECKED cairn_err cairn_version_info(cairn_session *session, const char *name,
                                                     int64_t version,
                                                     struct cairn_version_info *ret_info);
/* Local. Type and shape of a stored region, for allocating memory before protecting it. old_rank
 * may be CAIRN_OWN_RANK. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_region_info(cairn_session *session, const char *name,
                                                    int64_t version, int old_rank,
                                                    const char *region,
                                                    struct cairn_array *ret_array);
/* Local. The index-th memory region of an old rank's shard, and its name (up to CAIRN_MAX_NAME
 * bytes); CAIRN_ENOENT if index is past the last region. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_region_at(cairn_session *session, const char *name,
                                                  int64_t version, int old_rank, uint32_t index,
                                                  char *region, size_t region_size,
                                                  struct cairn_array *ret_array);
/* Local. The committed versions of a name that can be listed as whole, newest first: as many as fit
 * into versions (NULL: none), and in *ret_n how many there are. Reads manifests and sizes, no data. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_list(cairn_session *session, const char *name,
                                             int64_t *versions, size_t max, size_t *ret_n);
/* Local: call it on one rank. Removes a committed version durably, also for drains and restarts
 * that find copies of it later. Errors: CAIRN_ENOENT if it is not committed, CAIRN_EPINNED,
 * CAIRN_EBUSY if another version is encoded against it. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_remove(cairn_session *session, const char *name,
                                               int64_t version);
/* Local. Removes the copies of a name from this node's local directory. Committed versions stay
 * restorable from the file system. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_drop_local(cairn_session *session, const char *name);

/* Files: for data that an I/O library writes. -------------------------------------------------- */

/* Local. Returns a path at which the application creates the file. The next cairn_checkpoint of
 * this name and version takes over the file as it is then; close it before. A rank may route any
 * number of files. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_file_route(cairn_session *session, const char *name,
                                                   int64_t version, const char *file, char *path,
                                                   size_t path_size);
/* Local. Restores a stored file, byte for byte, and returns its path. The file belongs to the
 * application until the session closes. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_file_restore(cairn_session *session, const char *name,
                                                     int64_t version, int old_rank,
                                                     const char *file, char *path,
                                                     size_t path_size);

/* Advice. -------------------------------------------------------------------------------------- */

/* Collective. Is a checkpoint due? It is due by the configured period or MTBF (Young/Daly with the
 * measured cost), within the limit on overhead, or because the allocation ends soon. With a broker
 * the answer is yes when, after that, the job's turn has come: take the checkpoint at once. Call it
 * in every step: the ranks agree only in every n-th call, at most a thousandth of the time, and the
 * other calls cost nothing. A stop signal is seen within a second, unless steps become longer. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_should_checkpoint(cairn_session *session, const char *name,
                                                          int *ret_yes);
/* Collective. Should the program stop: has a stop signal arrived on some rank, is the wall-clock
 * limit near (wall_limit, or what Slurm says), or did somebody request it with `cairn halt`? The
 * first call makes a thread of rank 0 look for the latter two; what it finds is seen by later
 * calls. As cheap as cairn_should_checkpoint. In each step call this first and
 * cairn_should_checkpoint second: then the last checkpoint is due in the step that stops. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_should_stop(cairn_session *session, int *ret_yes);

/* Phases: hints for the background. ------------------------------------------------------------ */

typedef enum cairn_phase_kind {
    CAIRN_PHASE_COMPUTE = 0,     /* network and disks are free; the initial phase */
    CAIRN_PHASE_COMMUNICATE = 1, /* the application needs the network for itself */
    CAIRN_PHASE_IO = 2           /* the application reads or writes files */
} cairn_phase_kind;

/* Says what this rank does until the next call. Local; costs a single store. While any rank of the
 * node is in another phase than COMPUTE, the background starts no new sends or writes. In total
 * this delays a flush by at most phase_patience. While this rank waits for a checkpoint it counts
 * as computing. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_phase(cairn_session *session, cairn_phase_kind phase);

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
}
#endif
#endif
