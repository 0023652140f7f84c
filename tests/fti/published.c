/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants and signatures that FTI 1.6 publishes. A deviation does not compile; libfti.symbols has the
 * names that the library exports. */
#include "fti.h"

_Static_assert(FTI_SCES == 0 && FTI_DONE == 1 && FTI_HEAD == 2, "results");
_Static_assert(FTI_NSCS == -1 && FTI_NREC == -2, "errors");
_Static_assert(FTI_L1 == 1 && FTI_L2 == 2 && FTI_L3 == 3 && FTI_L4 == 4, "levels");
_Static_assert(FTI_L1_DCP == 5 && FTI_L4_DCP == 8 && FTI_L4_H5_SINGLE == 9, "further levels");
_Static_assert(FTI_SI_NINI == 0 && FTI_SI_PEND == 1 && FTI_SI_ACTV == 2, "stages");
_Static_assert(FTI_SI_SCES == 3 && FTI_SI_FAIL == 4, "ended stages");
_Static_assert(FTI_BUFS == 256, "FTI_BUFS");

#define IS(function, type)                                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(function), type), #function)

IS(FTI_Init, int(const char *, MPI_Comm));
IS(FTI_Status, int(void));
IS(FTI_Finalize, int(void));
IS(FTI_GetConfig, FTIT_allConfiguration(const char *, MPI_Comm));
IS(FTI_InitType, int(fti_id_t *, int));
IS(FTI_InitCompositeType, fti_id_t(const char *, size_t, FTIT_H5Group *));
IS(FTI_AddScalarField, int(fti_id_t, const char *, fti_id_t, int64_t));
IS(FTI_AddVectorField, int(fti_id_t, const char *, fti_id_t, int64_t, int, int64_t *));
IS(FTI_Protect, int(int, void *, int64_t, fti_id_t));
IS(FTI_SetAttribute, int(int, FTIT_attribute, FTIT_attributeFlag));
IS(FTI_DefineDataset, int(int, int, int64_t *, const char *, FTIT_H5Group *));
IS(FTI_GetStoredSize, int64_t(int));
IS(FTI_Realloc, void *(int, void *));
IS(FTI_setIDFromString, int(const char *));
IS(FTI_getIDFromString, int(const char *));
IS(FTI_BitFlip, int(int));
IS(FTI_Checkpoint, int(int, int));
IS(FTI_Snapshot, int(void));
IS(FTI_Recover, int(void));
IS(FTI_RecoverVarInit, int(void));
IS(FTI_RecoverVar, int(int));
IS(FTI_RecoverVarFinalize, int(void));
IS(FTI_InitICP, int(int, int, bool));
IS(FTI_AddVarICP, int(int));
IS(FTI_FinalizeICP, int(void));
IS(FTI_InitGroup, int(FTIT_H5Group *, const char *, FTIT_H5Group *));
IS(FTI_RenameGroup, int(FTIT_H5Group *, const char *));
IS(FTI_DefineGlobalDataset, int(int, int, FTIT_hsize_t *, const char *, FTIT_H5Group *, fti_id_t));
IS(FTI_AddSubset, int(int, int, FTIT_hsize_t *, FTIT_hsize_t *, int));
IS(FTI_UpdateSubset, int(int, int, FTIT_hsize_t *, FTIT_hsize_t *, int));
IS(FTI_UpdateGlobalDataset, int(int, int, FTIT_hsize_t *));
IS(FTI_RecoverDatasetDimension, int(int));
IS(FTI_GetDatasetSpan, FTIT_hsize_t *(int, int));
IS(FTI_GetDatasetRank, int(int));
IS(FTI_GetStageDir, int(char *, int));
IS(FTI_SendFile, int(const char *, const char *));
IS(FTI_GetStageStatus, int(int));
