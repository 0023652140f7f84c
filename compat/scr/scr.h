/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of SCR 3.1, implemented by Cairn: programs written for SCR compile against this
 * header, link -lscr and run unchanged. Names, types and values are SCR's; the text is Cairn's.
 * docs/scr.md lists the differences. New programs should use cairn/cairn.h.
 *
 * Functions return SCR_SUCCESS or another value; the reason of a failure goes to standard error. No
 * function ends the process. All processes of MPI_COMM_WORLD make every call, in the same order,
 * except those marked local. */
#ifndef SCR_H
#define SCR_H

#ifdef __cplusplus
extern "C" {
#endif

#define SCR_MAJOR_VERSION   "3"
#define SCR_MINOR_VERSION   "1"
#define SCR_PATCH_VERSION   "0"
#define SCR_VERSION         "v3.1.0"

#define SCR_SUCCESS         (0)
#define SCR_MAX_FILENAME    1024 /* bytes of a buffer for a path or name, with the final 0 */

#define SCR_FLAG_NONE       (0)
#define SCR_FLAG_CHECKPOINT (1 << 0) /* the dataset can be restarted from */
#define SCR_FLAG_OUTPUT     (1 << 1) /* the dataset must end in the prefix directory */

/* Between MPI_Init and MPI_Finalize, once. */
int SCR_Init(void);
int SCR_Finalize(void);

/* "KEY=VALUE [CHILD=VALUE ...]" sets, "KEY=" unsets, both return NULL. "KEY" and "PARENT=VALUE
 * CHILD" ask, and return text that the caller frees, or NULL. Setting is for before SCR_Init. */
const char *SCR_Config(const char *config);
const char *SCR_Configf(const char *format, ...);

/* Local. The path at which to write (in an output) or read (in a restart) a file. Elsewhere the
 * name itself. file has room for SCR_MAX_FILENAME bytes. */
int SCR_Route_file(const char *name, char *file);

/* Restart. name has room for SCR_MAX_FILENAME bytes, or is NULL. */
int SCR_Have_restart(int *flag, char *name);
int SCR_Start_restart(char *name);
/* Succeeds if every process passes 1. Otherwise the checkpoint is marked as bad, and
 * SCR_Have_restart offers the next older one. */
int SCR_Complete_restart(int valid);

/* Output. */
int SCR_Need_checkpoint(int *flag);
int SCR_Start_checkpoint(void);
int SCR_Complete_checkpoint(int valid);
int SCR_Start_output(const char *name, int flags);
int SCR_Complete_output(int valid);

/* Datasets by name: restart from this one; forget it but keep its files; remove it. */
int SCR_Current(const char *name);
int SCR_Drop(const char *name);
int SCR_Delete(const char *name);

/* Local. */
char *SCR_Get_version(void);

int SCR_Should_exit(int *flag);

#ifdef __cplusplus
}
#endif
#endif
