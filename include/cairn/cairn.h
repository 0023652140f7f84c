/* SPDX-License-Identifier: BSD-3-Clause */
/* Cairn: checkpoints at memory speed.
 *
 *     check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s));       // cairn_mpi.h; or cairn_open()
 *     check(cairn_protect_array(s, "temperature", t, &part)); // this rank's part of a global array
 *     rc = cairn_restart(s, "heat", NULL, &step);            // newest good version
 *     if (rc == CAIRN_ENOENT)
 *         step = 0;                                          // there is none: start
 *     else
 *         check(rc);                                         // anything else: stop, do not start over
 *     while (step < last) {
 *         compute(t);
 *         if (++step % 10 == 0)
 *             check(cairn_checkpoint(s, "heat", step, NULL)); // returns after one memcpy
 *     }
 *     check(cairn_close(s));                                 // waits until all is on the PFS
 *
 * check() prints cairn_last_error() and ends the program; README.md has the whole of it.
 *
 * Threads: one session is used by one thread at a time; different sessions are independent.
 * "Collective" functions are called by all ranks of the session, in the same order; all others are
 * local. No function exits, aborts or prints on standard output. Every function that can fail
 * returns a code; cairn_last_error() then tells what, where and what to do.
 *
 * Arguments: pointers must not be NULL unless this file allows it. A NULL session or another wrong
 * argument gives CAIRN_EINVAL (-1 from functions that return int) and changes nothing.
 *
 * fork(): a session belongs to the process that opened it. In a forked child every call on it returns
 * CAIRN_ESTATE (-1) and touches nothing; the parent's session is not affected by the child, its exit
 * or how long it lives. A child may open a session of its own. */
#ifndef CAIRN_H
#define CAIRN_H

#include <stddef.h>
#include <stdint.h>
#include "cairn_errors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CAIRN_VERSION_MAJOR 0
#define CAIRN_VERSION_MINOR 1
#define CAIRN_VERSION_PATCH 0
#define CAIRN_VERSION       "0.1.0"

#if defined(__GNUC__)
#define CAIRN_API     __attribute__((visibility("default")))
#define CAIRN_CHECKED __attribute__((warn_unused_result))
#else
#define CAIRN_API
#define CAIRN_CHECKED
#endif

#define CAIRN_MAX_DIMS    8
#define CAIRN_MAX_NAME    128 /* bytes of a checkpoint, region or file name, with the final 0 */
#define CAIRN_NEWEST      INT64_MAX /* "not newer than" without a bound */
#define CAIRN_OWN_RANK    (-1)
#define CAIRN_WAIT_CONFIG (-1) /* timeout: the configuration key wait_timeout */

typedef struct cairn_session cairn_session;

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
    CAIRN_C64 = 11, /* two f32 */
    CAIRN_C128 = 12 /* two f64 */
} cairn_type;

/* How safe a checkpoint is. A level includes all lower ones. */
typedef enum cairn_level {
    CAIRN_LEVEL_NONE = 0,
    CAIRN_CAPTURED = 1,  /* in memory: survives the death of the application's processes */
    CAIRN_LOCAL = 2,     /* on the node's own disk: survives a restart of the node */
    CAIRN_PERSISTENT = 3 /* committed on the parallel file system: survives the nodes */
} cairn_level;

/* Texts. ---------------------------------------------------------------------------------------- */

/* Name of a code, such as "CAIRN_ENOSPC". Never NULL. */
CAIRN_API const char *cairn_error_name(cairn_err code);
/* The last error of this thread: what failed, where, why and what to do. Never NULL; valid until
 * the next failing call of this thread. */
CAIRN_API const char *cairn_last_error(void);
CAIRN_API const char *cairn_version_string(void);
/* Bytes of one element; 0 for an unknown type. */
CAIRN_API size_t cairn_type_size(cairn_type type);

/* Session. -------------------------------------------------------------------------------------- */

/* Zero means default everywhere; size must be sizeof(struct cairn_options). */
struct cairn_options {
    size_t size;
    const char *config_file;     /* INI file; NULL: $CAIRN_CONFIG, or no file */
    const char *const *settings; /* "key=value" strings, NULL at the end; win over all else */
};

/* Opens a session of a single process, without MPI. Starts the node service as a thread, or
 * connects to cairnd (configuration key service). options may be NULL. The directory named by the
 * configuration key persistent is made where it is missing. If checkpoints cannot be written there,
 * that is an error here and not at the first flush; there is no session for a read-only store. On
 * failure *ret_session is NULL, and the error is logged, by one rank. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_open(const struct cairn_options *options,
                                             cairn_session **ret_session);
/* Collective. Waits until every checkpoint is persistent or has failed (at most wait_timeout),
 * stops the service and frees the session, also when it returns an error. What is not persistent
 * then (CAIRN_ETIMEDOUT) stays in memory for the next start or `cairn drain`. NULL is allowed. */
CAIRN_API cairn_err cairn_close(cairn_session *session);

/* -1 for a NULL session. */
CAIRN_API int cairn_rank(const cairn_session *session);
CAIRN_API int cairn_ranks(const cairn_session *session);

/* Regions: what a checkpoint holds. -------------------------------------------------------------- */

/* A local block of dims[0] x .. x dims[ndims-1] elements, row-major (C order). Where global_dims[0]
 * is not 0 the block lies at offset[] inside a global array that all ranks share, and Cairn can
 * redistribute it to another number of ranks. */
struct cairn_array {
    size_t size; /* sizeof(struct cairn_array) */
    cairn_type type;
    int32_t ndims; /* 1 .. CAIRN_MAX_DIMS */
    uint64_t dims[CAIRN_MAX_DIMS];
    uint64_t global_dims[CAIRN_MAX_DIMS];
    uint64_t offset[CAIRN_MAX_DIMS];
};

/* Registers count elements at ptr under a name; ptr may be NULL if count is 0. Protecting a known name replaces it (after a
 * realloc, say). The memory stays the application's; it is read inside cairn_checkpoint and written
 * inside cairn_restore and cairn_restart only. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_protect(cairn_session *session, const char *region,
                                                void *ptr, cairn_type type, uint64_t count);
CAIRN_API CAIRN_CHECKED cairn_err cairn_protect_array(cairn_session *session, const char *region,
                                                      void *ptr, const struct cairn_array *array);
CAIRN_API CAIRN_CHECKED cairn_err cairn_unprotect(cairn_session *session, const char *region);

/* Local. Memory of a GPU (CUDA or HIP) is recognised by its pointer: protect, checkpoint and restore it
 * like any other. Cairn copies it on streams of its own. By default such a copy comes after all work that
 * the process gave to the GPU before the call, on whatever stream, non-blocking ones included; the call
 * waits for that work and for Cairn's own background copies on the GPU.
 *
 * cairn_gpu_stream is the fast way: it names the stream (CUstream, cudaStream_t or hipStream_t) that
 * computes the data on its GPU. From then on copies of that GPU's memory come after what was given to
 * this stream before the call, and the call waits for nothing else. Work on other streams is then the
 * application's to order. One stream for each GPU: naming one leaves those of other GPUs as they are. (void *)1
 * names the legacy default stream (CU_STREAM_LEGACY, cudaStreamLegacy) and (void *)2 the per-thread one of the
 * thread that takes the checkpoint, both of the calling thread's current GPU. NULL returns all GPUs to the
 * default. A stream must belong to the GPU's primary context, as all streams of the CUDA runtime do, and
 * outlive the session or be replaced.
 *
 * Graphs: any thread may capture one, in any mode, at any time; no call of Cairn and no background copy
 * invalidates the capture. While a graph is captured from the named stream itself (or, where it is the
 * legacy one, from any blocking stream), cairn_checkpoint, cairn_capture and cairn_restore return
 * CAIRN_EBUSY; call again when the capture has ended.
 *
 * CAIRN_ENOTSUP if the application has loaded no GPU driver, CAIRN_EINVAL if the stream belongs to no
 * GPU. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_gpu_stream(cairn_session *session, void *stream);

/* Checkpoint. ------------------------------------------------------------------------------------ */

/* Collective. Captures the protected regions (all, or the NULL-terminated list of names) and the
 * files routed for this name and version. When it returns CAIRN_OK the memory may change: the copy
 * is made; everything else happens in the background and needs no further call. Versions are >= 0;
 * taking one again replaces it, atomically. Names are [A-Za-z0-9_.-]+ and do not begin with '.'.
 *
 * The first checkpoint of a name looks at what is stored, once, and fails on all ranks alike before anything
 * is captured: CAIRN_EEXIST where versions of another run are there and this run has restored none of
 * them (cairn_restart and cairn_restore make it their successor; `fresh = on` lets it replace and retire
 * them), CAIRN_EBUSY where another run is writing the name, CAIRN_EPINNED for a pinned version. Later
 * checkpoints look at nothing; a pinned version fails their flush.
 *
 * A failure of an earlier checkpoint of this name that was not reported yet is returned here when
 * the name's policy is strict (CAIRN_E...; nothing is captured then). */
CAIRN_API CAIRN_CHECKED cairn_err cairn_checkpoint(cairn_session *session, const char *name,
                                                   int64_t version, const char *const *regions);

/* cairn_checkpoint in two steps, for callers who learn after the copy whether it shall count; all
 * collective. cairn_capture copies the memory, which may change then; for the same name and version
 * again it replaces the copy. cairn_submit hands the copy over, with the files that were routed
 * before the capture, as they are now. cairn_abandon gives the checkpoint up instead, also without a
 * capture, and its files: it fails on all ranks. reason may be NULL. One checkpoint at a time
 * (CAIRN_ESTATE). */
CAIRN_API CAIRN_CHECKED cairn_err cairn_capture(cairn_session *session, const char *name,
                                                int64_t version, const char *const *regions);
CAIRN_API CAIRN_CHECKED cairn_err cairn_submit(cairn_session *session);
CAIRN_API CAIRN_CHECKED cairn_err cairn_abandon(cairn_session *session, const char *name,
                                                int64_t version, const char *reason);

/* Has the checkpoint reached the level? Never blocks. An error means that it never will. Asking makes no
 * hurry: a flush that nobody waits for is calm, and disturbs the application little (calm_bandwidth). */
CAIRN_API CAIRN_CHECKED cairn_err cairn_test(cairn_session *session, const char *name,
                                             int64_t version, cairn_level level, int *ret_reached);
/* Waits for the level, at most timeout_ms (0: test; CAIRN_WAIT_CONFIG). From now on it and those before it
 * are flushed as fast as the nodes can, on all of them. CAIRN_ETIMEDOUT leaves the checkpoint as it is: it
 * goes on in the background. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_wait(cairn_session *session, const char *name,
                                             int64_t version, cairn_level level,
                                             int64_t timeout_ms);
/* As cairn_wait, for all checkpoints of the session; returns the first failure that no call has
 * returned before. Superseded checkpoints are not failures. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_wait_all(cairn_session *session, cairn_level level,
                                                 int64_t timeout_ms);
/* A descriptor that becomes readable when the state of some checkpoint has changed: for poll() and
 * event loops. Do not read from it; cairn_test() does. -1 if there is none. */
CAIRN_API int cairn_event_fd(cairn_session *session);

struct cairn_stats {
    size_t size;               /* sizeof(struct cairn_stats), set by the caller */
    cairn_level level;         /* reached so far */
    cairn_err error;           /* why it failed, or CAIRN_OK */
    uint64_t bytes;            /* of this rank */
    double copy_seconds;       /* the application waited for the copy ... */
    double blocked_seconds;    /* ... and before that for room in the arena */
    double persistent_seconds; /* from the capture to the commit; 0 until then */
};
/* What is known of a checkpoint that this session took. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_stats(cairn_session *session, const char *name,
                                              int64_t version, struct cairn_stats *ret_stats);

/* Restart. --------------------------------------------------------------------------------------- */

/* Collective. The newest version not newer than the bound that every rank can restore: present,
 * whole, its checksums verified, not rejected. The same on all ranks. Brings what this rank will
 * restore into memory, reading every byte of the version once: so protect regions first, at least
 * where the number of ranks is another than that of the version. CAIRN_ENOENT if there is none, as
 * with a negative bound;
 * versions that were passed over, and why, are in the log and in `cairn explain`. CAIRN_ENOMEM and
 * CAIRN_ELIMIT (descriptors, threads): a version that may be whole could not be looked at; no older one is
 * taken for it. CAIRN_EUNSAVED: newer checkpoints are known that are not saved; the message says which and
 * where, and configuration key restart_unsaved = older goes on without them. CAIRN_EPEER: a rank hangs, and was not heard for commit_timeout while the ranks list the versions or read together; the
 * session can only be closed. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_find(cairn_session *session, const char *name,
                                             int64_t not_newer_than, int64_t *ret_version);
/* Collective. The same check for one version. One that all ranks of this session took and have in
 * memory is there, also before it is committed. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_find_version(cairn_session *session, const char *name,
                                                     int64_t version);
/* Local. Marks a version as bad, for this and all later runs (until it is taken again). reason may be
 * NULL. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_reject(cairn_session *session, const char *name,
                                               int64_t version, const char *reason);

/* Local. Reads the protected regions (all, or those named) from a version into their memory: from
 * the shard of the same rank, or, where a region is a block of a global array, from whatever
 * blocks of that array were stored. Ranks may differ in number from those that wrote the version;
 * a rank without a shard of its own can restore global arrays alone. Nothing is written where
 * type or size do not fit. What this session took and still has in memory comes from there, also
 * before it is committed. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_restore(cairn_session *session, const char *name,
                                                int64_t version, const char *const *regions);
/* Local. The same from the shard of any old rank. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_restore_from(cairn_session *session, const char *name,
                                                     int64_t version, int old_rank,
                                                     const char *const *regions);
/* Collective. cairn_find and cairn_restore in one: falls back to the next older version, on all
 * ranks alike, until one has been restored everywhere. CAIRN_ENOENT alone means that there is nothing to
 * restore: start from the beginning. After any other error stop, and show cairn_last_error(): a program
 * that started over would replace versions that another try may still restore. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_restart(cairn_session *session, const char *name,
                                                const char *const *regions, int64_t *ret_version);

/* Local. Hints: this rank will restore that version. Any number, in the order of the reads to come, at
 * any time, also before the version is taken. From cairn_prefetch_start on they are brought close in the
 * background, from the file system to memory and, with device_cache, on to the GPU, as room allows, and
 * stay until they are restored; before it they only tell what to keep. Reads may come in any other
 * order; a read without a hint works as ever. Where another number of ranks took the version, the blocks
 * are prefetched that are protected when cairn_prefetch_start is called, or the hint is given after it. What
 * cannot be prefetched is read when it is asked for. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_enqueue(cairn_session *session, const char *name,
                                                         int64_t version);
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_start(cairn_session *session);
/* Local. Take hints back: all that were given for one version, or all there are. What is on its way or was
 * brought close stays a candidate for later reads, but makes room for others. Hints that will not come true
 * keep memory from those that will: take them back. No hint to take back is no error. Prefetching goes on for
 * the others and for hints to come. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_cancel(cairn_session *session, const char *name,
                                                        int64_t version);
CAIRN_API CAIRN_CHECKED cairn_err cairn_prefetch_clear(cairn_session *session);

/* Local. How many versions this session restored although a copy of them was damaged, since another copy was good
 * (a file of the node's local directory and the file on the parallel file system, either way round). Each is also a
 * warning in the log and a record that `cairn explain` shows. Only bytes that are read are checked: where all
 * ranks have good local copies, damage of the data on the parallel file system is found by `cairn verify`. */
CAIRN_API int cairn_repairs(const cairn_session *session);

struct cairn_version_info {
    size_t size; /* sizeof(struct cairn_version_info), set by the caller */
    int64_t version;
    int32_t ranks;
    int32_t files; /* data files */
    uint64_t bytes;
    int64_t created_ns; /* since 1970 */
};
CAIRN_API CAIRN_CHECKED cairn_err cairn_version_info(cairn_session *session, const char *name,
                                                     int64_t version,
                                                     struct cairn_version_info *ret_info);
/* Local. Type and shape of a stored region, to allocate before protecting. old_rank may be
 * CAIRN_OWN_RANK. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_region_info(cairn_session *session, const char *name,
                                                    int64_t version, int old_rank,
                                                    const char *region,
                                                    struct cairn_array *ret_array);
/* Local. The index-th memory region of an old rank's shard and its name (up to CAIRN_MAX_NAME bytes);
 * CAIRN_ENOENT behind the last one. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_region_at(cairn_session *session, const char *name,
                                                  int64_t version, int old_rank, uint32_t index,
                                                  char *region, size_t region_size,
                                                  struct cairn_array *ret_array);
/* Local. Removes the copies of a name from this node's local directory. Committed versions stay
 * restorable from the file system. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_drop_local(cairn_session *session, const char *name);

/* Files: for data that an I/O library writes. ----------------------------------------------------- */

/* Local. Gives a path where the application creates the file; the next cairn_checkpoint of this
 * name and version takes the file over, as it is then (closed). Any number per rank. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_file_route(cairn_session *session, const char *name,
                                                   int64_t version, const char *file, char *path,
                                                   size_t path_size);
/* Local. Brings a stored file back and gives the path where it lies, byte for byte; it is the
 * application's until the session closes. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_file_restore(cairn_session *session, const char *name,
                                                     int64_t version, int old_rank,
                                                     const char *file, char *path,
                                                     size_t path_size);

/* Advice. ------------------------------------------------------------------------------------------ */

/* Collective. Is a checkpoint due, by the configured period or MTBF (Young/Daly with the measured
 * cost), within the cap on overhead, or because the allocation ends? */
CAIRN_API CAIRN_CHECKED cairn_err cairn_should_checkpoint(cairn_session *session, const char *name,
                                                          int *ret_yes);
/* Collective. Has a stop signal arrived on some rank, or is the wall-clock limit near? */
CAIRN_API CAIRN_CHECKED cairn_err cairn_should_stop(cairn_session *session, int *ret_yes);

/* Phases: hints for the background. --------------------------------------------------------------- */

typedef enum cairn_phase_kind {
    CAIRN_PHASE_COMPUTE = 0,     /* network and disks are free: as at the start */
    CAIRN_PHASE_COMMUNICATE = 1, /* the application wants the network for itself */
    CAIRN_PHASE_IO = 2           /* the application reads or writes files */
} cairn_phase_kind;

/* Local, a single store. Until the next call, and while a rank of the node is not in COMPUTE, the
 * background starts no new sends and writes; a flush is held back no longer than phase_patience in
 * all. While this rank waits for a checkpoint it counts as computing. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_phase(cairn_session *session, cairn_phase_kind phase);

#ifdef __cplusplus
}
#endif
#endif
