/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of VELOC, served by Cairn: programs written for VELOC compile against this header,
 * link -lveloc-client and run unchanged. Names, types and values are VELOC's; the text is Cairn's.
 * docs/veloc.md tells what is different. New programs are better off with cairn/cairn.h.
 *
 * Every function returns VELOC_SUCCESS or VELOC_FAILURE unless it says otherwise; the reason of a
 * failure goes to standard error. No function ends the process. One thread at a time.
 *
 * "Collective" functions are called by all processes of the communicator, in the same order. After
 * VELOC_Init_single a process is alone, and nothing is collective. */
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

#define VELOC_MAX_NAME         (1024) /* bytes of a buffer for a path, with the final 0 */

#define VELOC_RECOVER_ALL      (0) /* every id of the checkpoint */
#define VELOC_RECOVER_SOME     (1) /* those in the list */
#define VELOC_RECOVER_REST     (2) /* those not in the list */

#define VELOC_CKPT_ALL         (0)
#define VELOC_CKPT_SOME        (1)
#define VELOC_CKPT_REST        (2)

#define VELOC_OBSERVE_CKPT_END (0)

/* Begin and end. --------------------------------------------------------------------------------- */

/* Collective. The configuration file is VELOC's; every key may also be given as the variable
 * VELOC_<KEY>, which wins. NULL or "" for no file. */
int VELOC_Init(MPI_Comm comm, const char *cfg_file);
/* For a process on its own: its checkpoints are told from those of others by the id. */
int VELOC_Init_single(unsigned int id, const char *cfg_file);
/* Collective. All checkpoints are on the persistent path when it returns, or have failed; that is
 * reported if drain is not 0. */
int VELOC_Finalize(int drain);

/* Memory. ----------------------------------------------------------------------------------------- */

/* count elements of base_size bytes at ptr belong to the checkpoints from now on, under this id. A
 * known id is replaced. */
int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size);
/* VELOC_FAILURE if the id is not known. */
int VELOC_Mem_unprotect(int id);
int VELOC_Mem_clear(void);

/* The same for the checkpoints of one name only. A name that has regions of its own does not take
 * those of VELOC_Mem_protect. */
int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name);
int VELOC_Region_unprotect(int id, const char *name);
int VELOC_Region_clear(const char *name);

/* Files. ------------------------------------------------------------------------------------------ */

/* Inside a checkpoint: the path in scratch where this process writes its one file of this version,
 * before VELOC_Checkpoint_end; it is copied to original in the background. Inside a restart: the path
 * where the file lies again. routed has room for VELOC_MAX_NAME bytes and may be the same buffer. */
int VELOC_Route_file(const char *original, char *routed);

/* Removes the checkpoints of this name from scratch; those on the persistent path stay. */
int VELOC_Cleanup(const char *name);

/* Checkpoint. ------------------------------------------------------------------------------------- */

/* Collective. Names are [A-Za-z0-9_.]+; versions are not negative, and taking one again replaces
 * it. */
int VELOC_Checkpoint_begin(const char *name, int version);
/* Copies protected memory: all of it, or as mode and the list of ids say. It may change then. */
int VELOC_Checkpoint_selective(int mode, int *ids, int id_count);
int VELOC_Checkpoint_mem(void);
/* Collective. success 0 says that this process has nothing valid: the version fails for all. With
 * mode = sync the result of the checkpoint; otherwise VELOC_SUCCESS, and VELOC_Checkpoint_wait
 * tells. */
int VELOC_Checkpoint_end(int success);
/* Waits until this process has no checkpoint on its way. VELOC_FAILURE if one has failed since the
 * last call: once. */
int VELOC_Checkpoint_wait(void);
/* 0 while a checkpoint is on its way, 1 if there is none, VELOC_FAILURE before VELOC_Init. */
int VELOC_Checkpoint_finished(void);
/* Collective. Wait, begin, all memory, end. */
int VELOC_Checkpoint(const char *name, int version);

/* Restart. ---------------------------------------------------------------------------------------- */

/* Collective. The highest version up to this one (0: of all) that every process can restore,
 * verified; negative if there is none. */
int VELOC_Restart_test(const char *name, int version);
/* Collective. */
int VELOC_Restart_begin(const char *name, int version);
/* Reads what the checkpoint holds, all of it or as mode and the list say, into protected memory.
 * Every id read must be protected with enough room, or nothing is written; other ids do not
 * matter. */
int VELOC_Recover_selective(int mode, int *ids, int id_count);
/* Bytes stored under an id; -1 if it is not there (or over INT_MAX). */
int VELOC_Recover_size(int id);
int VELOC_Recover_mem(void);
/* Collective. */
int VELOC_Restart_end(int success);
/* Collective. Begin, all memory, end. */
int VELOC_Restart(const char *name, int version);

/* Prefetching. ------------------------------------------------------------------------------------ */

/* Hints, local: this process will restore that version; any number, in the order of the reads, at any
 * time. The name is that of the last checkpoint or restart that was begun, or of the next one where none
 * was yet. From VELOC_Prefetch_start on they are brought into memory in the background. Reads may
 * deviate. */
int VELOC_Prefetch_enqueue(int version);
int VELOC_Prefetch_start(void);

#ifdef __cplusplus
}
#endif
#endif
