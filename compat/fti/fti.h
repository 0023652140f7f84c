/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of FTI 1.6, implemented by Cairn: programs written for FTI compile against this
 * header, link -lfti and run unchanged. Names, types and values are FTI's; the text is Cairn's.
 * docs/fti.md lists the differences. New programs should use cairn/cairn.h.
 *
 * Functions return FTI_SCES, or FTI_NSCS after a message on standard error, unless stated otherwise.
 * "Collective" functions are called by all processes of FTI_COMM_WORLD, in the same order. */
#ifndef FTI_H
#define FTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FTI_BUFS 256
#define FTI_WORD 16

#define FTI_DONE 1 /* a checkpoint was taken */
#define FTI_SCES 0
#define FTI_HEAD 2
#define FTI_NSCS (-1)
#define FTI_NREC (-2) /* a recovery failed */

/* Verbosity. */
#define FTI_DBUG 1
#define FTI_INFO 2
#define FTI_WARN 3
#define FTI_EROR 4
#define FTI_IDCP 5

/* Messages between heads and others. Cairn uses FTI_ENDW only. */
#define FTI_BASE     990
#define FTI_CKTW     991
#define FTI_XORW     992
#define FTI_RSEW     993
#define FTI_PFSW     994
#define FTI_ENDW     995
#define FTI_REJW     996

#define FTI_IO_POSIX 1001
#define FTI_IO_MPI   1002
#define FTI_IO_FTIFF 1003
#define FTI_IO_HDF5  1005

/* States of FTI_GetStageStatus. */
#define FTI_SI_NINI 0x0
#define FTI_SI_PEND 0x1
#define FTI_SI_ACTV 0x2
#define FTI_SI_SCES 0x3
#define FTI_SI_FAIL 0x4

typedef int fti_id_t;
#define FTIT_type fti_id_t
typedef unsigned long long FTIT_hsize_t;

typedef enum FTIT_level {
    FTI_L1 = 1,
    FTI_L2,
    FTI_L3,
    FTI_L4,
    FTI_L1_DCP,
    FTI_L2_DCP,
    FTI_L3_DCP,
    FTI_L4_DCP,
    FTI_L4_H5_SINGLE,
    FTI_MIN_LEVEL_ID = FTI_L1,
    FTI_MAX_LEVEL_ID = FTI_L4_H5_SINGLE
} FTIT_level;

typedef struct FTIT_H5Group {
    int id;
    char name[FTI_BUFS];
} FTIT_H5Group;

typedef enum FTIT_attributeFlag {
    FTI_ATTRIBUTE_NONE = 0,
    FTI_ATTRIBUTE_NAME = 1,
    FTI_ATTRIBUTE_DIM = 2
} FTIT_attributeFlag;

typedef struct FTIT_dimension {
    int ndims;
    int64_t count[32];
} FTIT_dimension;

typedef struct FTIT_attribute {
    FTIT_dimension dim;
    char name[FTI_BUFS];
} FTIT_attribute;

typedef struct FTIT_configuration {
    char cfgFile[FTI_BUFS];
    char localDir[FTI_BUFS], glbalDir[FTI_BUFS], metadDir[FTI_BUFS], stageDir[FTI_BUFS];
    char h5SingleFileDir[FTI_BUFS], h5SingleFilePrefix[FTI_BUFS];
    bool stagingEnabled, dcpEnabled, keepL4Ckpt, keepHeadsAlive;
    bool h5SingleFileEnable, h5SingleFileKeep;
    int saveLastCkpt, verbosity, ioMode, test;
    int blockSize, transferSize, dcpMode, dcpBlockSize;
    int generalTag, ckptTag, stageTag, finalTag;
} FTIT_configuration;

typedef struct FTIT_checkpoint {
    int isInline;
    int ckptIntv; /* minutes; 0: none */
    int ckptDcpIntv;
} FTIT_checkpoint;

typedef struct FTIT_topology {
    int nbProc, nbNodes, nodeSize, nbHeads, nbApprocs, groupSize;
    int myRank, splitRank, amIaHead, headRank;
} FTIT_topology;

typedef struct FTIT_execution {
    char id[FTI_BUFS];
    int reco;
    int ckptId;
} FTIT_execution;

typedef struct FTIT_injection {
    int rank, index, position, number, frequency, counter;
    double timer;
} FTIT_injection;

typedef struct FTIT_allConfiguration {
    FTIT_configuration configuration;
    FTIT_execution execution;
    FTIT_topology topology;
    FTIT_checkpoint ckpt[5];
    FTIT_injection injection;
} FTIT_allConfiguration;

/* All processes without the heads; set by FTI_Init. */
extern MPI_Comm FTI_COMM_WORLD;
extern fti_id_t FTI_CHAR, FTI_SHRT, FTI_INTG, FTI_LONG;
extern fti_id_t FTI_UCHR, FTI_USHT, FTI_UINT, FTI_ULNG;
extern fti_id_t FTI_SFLT, FTI_DBLE, FTI_LDBE;

/* Beginning and end. --------------------------------------------------------------------------- */

/* Collective over globalComm. With head = 1 it does not return on the first process of each node:
 * that one waits until the others have finalized, calls MPI_Finalize and exits. FTI_NREC if there
 * should be a checkpoint and none can be used. */
int FTI_Init(const char *configFile, MPI_Comm globalComm);
/* 0: a first run; 1: a restart; 2: a restart from a kept checkpoint; 3: from a single file. */
int FTI_Status(void);
int FTI_Finalize(void);
FTIT_allConfiguration FTI_GetConfig(const char *configFile, MPI_Comm globalComm);

/* Variables. ----------------------------------------------------------------------------------- */

int FTI_InitType(fti_id_t *type, int size);
fti_id_t FTI_InitCompositeType(const char *name, size_t size, FTIT_H5Group *h5group);
int FTI_AddScalarField(fti_id_t id, const char *name, fti_id_t fid, int64_t offset);
int FTI_AddVectorField(fti_id_t id, const char *name, fti_id_t tid, int64_t offset, int ndims,
                       int64_t *dims);
int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid);
int FTI_SetAttribute(int id, FTIT_attribute attribute, FTIT_attributeFlag flag);
int FTI_DefineDataset(int id, int rank, int64_t *dims, const char *name, FTIT_H5Group *h5group);
/* Bytes that the checkpoint to restart from has of a variable; 0: none. */
int64_t FTI_GetStoredSize(int id);
/* Reallocates to the stored size and protects the result. NULL: no memory. */
void *FTI_Realloc(int id, void *ptr);
/* An id for a name, new or known; the id of a known name, or -1. */
int FTI_setIDFromString(const char *name);
int FTI_getIDFromString(const char *name);
int FTI_BitFlip(int datasetID);

/* Checkpoint: collective. ---------------------------------------------------------------------- */

/* FTI_DONE on success. */
int FTI_Checkpoint(int id, int level);
/* A recovery if one is due, or a checkpoint if an interval has passed (FTI_DONE). */
int FTI_Snapshot(void);
/* In steps: each variable is copied when it is added. */
int FTI_InitICP(int id, int level, bool activate);
int FTI_AddVarICP(int varID);
int FTI_FinalizeICP(void);

/* Recovery: local. FTI_NREC if it fails. ------------------------------------------------------- */

int FTI_Recover(void);
int FTI_RecoverVarInit(void);
int FTI_RecoverVar(int id);
int FTI_RecoverVarFinalize(void);

/* Arrays shared by all processes, for another number of them. ---------------------------------- */

int FTI_InitGroup(FTIT_H5Group *h5group, const char *name, FTIT_H5Group *parent);
int FTI_RenameGroup(FTIT_H5Group *h5group, const char *name);
int FTI_DefineGlobalDataset(int id, int rank, FTIT_hsize_t *dims, const char *name,
                            FTIT_H5Group *h5group, fti_id_t tid);
int FTI_AddSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did);
int FTI_UpdateGlobalDataset(int id, int rank, FTIT_hsize_t *dims);
int FTI_UpdateSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did);
int FTI_RecoverDatasetDimension(int did);
FTIT_hsize_t *FTI_GetDatasetSpan(int did, int rank);
int FTI_GetDatasetRank(int did);

/* Files, moved to their place in the background. ----------------------------------------------- */

int FTI_GetStageDir(char *stageDir, int maxLen);
/* A number for FTI_GetStageStatus. The local file is removed when the copy is complete. */
int FTI_SendFile(const char *lpath, const char *rpath);
int FTI_GetStageStatus(int ID);

#ifdef __cplusplus
}
#endif
#endif
