/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of VELOC, implemented by Cairn: programs written for VELOC compile against this
 * header, link -lveloc-client and run unchanged. Names, types and values are VELOC's; the text is
 * Cairn's. docs/veloc.md lists the differences. New programs should use cairn/cairn.h.
 *
 * Every function returns VELOC_SUCCESS or VELOC_FAILURE unless stated otherwise; the reason of a
 * failure goes to standard error. No function ends the process. One thread at a time.
 *
 * "Collective" functions are called by all processes of the communicator, in the same order.
 * After VELOC_Init_single a process is alone, and nothing is collective. */
#ifndef VELOC_H
#define VELOC_H

#include <string.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef VELOC_SUCCESS
#define VELOC_SUCCESS (0)
#endif
#ifndef VELOC_FAILURE
#define VELOC_FAILURE (-1)
#endif

#define VELOC_MAX_NAME         (1024) /* bytes of a buffer for a path, including the final 0 */

#define VELOC_RECOVER_ALL      (0) /* every id of the checkpoint */
#define VELOC_RECOVER_SOME     (1) /* those in the list */
#define VELOC_RECOVER_REST     (2) /* those not in the list */

#define VELOC_CKPT_ALL         (0)
#define VELOC_CKPT_SOME        (1)
#define VELOC_CKPT_REST        (2)

#define VELOC_OBSERVE_CKPT_END (0)

/* Initialisation and finalisation. ------------------------------------------------------------- */

/* Collective. The configuration file is VELOC's. Every key may also be given as the variable
 * VELOC_<KEY>, which takes precedence. NULL or "" for no file. */
int VELOC_Init(MPI_Comm comm, const char *cfg_file);
/* For a single process; the id distinguishes its checkpoints from those of others. */
int VELOC_Init_single(unsigned int id, const char *cfg_file);
/* Collective. When it returns, every checkpoint is on the persistent path or has failed. A
 * failure is reported only if drain is not 0. */
int VELOC_Finalize(int drain);

/* Memory. -------------------------------------------------------------------------------------- */

/* Includes count elements of base_size bytes at ptr in later checkpoints, under this id. A known
 * id is replaced. */
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
/* VELOC_FAILURE if the id is unknown. */
int VELOC_Mem_unprotect(int id);
int VELOC_Mem_clear(void);

/* The same for the checkpoints of one name only. A name with regions of its own does not include
 * those of VELOC_Mem_protect. */
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);
int VELOC_Region_unprotect(int id, const char *name);
int VELOC_Region_clear(const char *name);

/* Files. --------------------------------------------------------------------------------------- */

/* Inside a checkpoint: the path in scratch to which this process writes its one file of this
 * version, before VELOC_Checkpoint_end. The file is copied to original in the background. Inside
 * a restart: the path of the restored file. routed has space for VELOC_MAX_NAME bytes and may be
 * the same buffer. */
int VELOC_Route_file(const char *original, char *routed);

/* Removes the checkpoints of this name from scratch; those on the persistent path stay. */
int VELOC_Cleanup(const char *name);

/* Checkpoint. ---------------------------------------------------------------------------------- */

/* Collective. Names are [A-Za-z0-9_.]+; versions are not negative. Taking a version again
 * replaces it. */
int VELOC_Checkpoint_begin(const char *name, int version);
/* Copies protected memory: all of it, or as selected by mode and ids. It may be modified
 * afterwards. */
int VELOC_Checkpoint_selective(int mode, int *ids, int id_count);
int VELOC_Checkpoint_mem(void);
/* Collective. success 0 says that this process has no valid data: the version fails for all.
 * With mode = sync, returns the result of the checkpoint; otherwise VELOC_SUCCESS, and
 * VELOC_Checkpoint_wait returns the result. */
int VELOC_Checkpoint_end(int success);
/* Waits until this process has no checkpoint in flight. VELOC_FAILURE if one has failed since
 * the last call; each failure is reported once. */
int VELOC_Checkpoint_wait(void);
/* 0 while a checkpoint is in flight, 1 if there is none, VELOC_FAILURE before VELOC_Init. */
int VELOC_Checkpoint_finished(void);
/* Collective. Wait, begin, all memory, end. */
int VELOC_Checkpoint(const char *name, int version);

/* Restart. ------------------------------------------------------------------------------------- */

/* Collective. The highest version up to this one (0: of all) that every process can restore,
 * verified; negative if there is none. */
int VELOC_Restart_test(const char *name, int version);
/* Collective. */
int VELOC_Restart_begin(const char *name, int version);
/* Reads the checkpoint, all of it or as selected by mode and ids, into protected memory. Every
 * id read must be protected with enough memory, or nothing is written. Other ids do not matter. */
int VELOC_Recover_selective(int mode, int *ids, int id_count);
/* Bytes stored under an id; -1 if it is unknown (or over INT_MAX). */
int VELOC_Recover_size(int id);
int VELOC_Recover_mem(void);
/* Collective. */
int VELOC_Restart_end(int success);
/* Collective. Begin, all memory, end. */
int VELOC_Restart(const char *name, int version);

/* Prefetching. --------------------------------------------------------------------------------- */

/* Local hints: this process will restore that version. Any number, in the order of the reads, at
 * any time. The name is that of the last checkpoint or restart begun, or of the next one if
 * there was none yet. After VELOC_Prefetch_start, they are fetched into memory in the
 * background. Reads may deviate from the hints. */
int VELOC_Prefetch_enqueue(int version);
int VELOC_Prefetch_start(void);

#ifdef __cplusplus
}
#endif
#endif
