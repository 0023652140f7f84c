/* SPDX-License-Identifier: BSD-3-Clause */
/* What the Fortran module (fti.f90) cannot say in Fortran: communicators, and structs by value. */
#include "common/face.h"
#include "fti.h"

int fti_init_fortran_(const char *file, MPI_Fint *comm);
int fti_set_attribute_fortran_(int id, const FTIT_attribute *attribute, int flag);

/* comm becomes FTI_COMM_WORLD. */
CRN_FACE_API int fti_init_fortran_(const char *file, MPI_Fint *comm)
{
    int rc = FTI_Init(file, MPI_Comm_f2c(*comm));

    if (rc == FTI_SCES)
        *comm = MPI_Comm_c2f(FTI_COMM_WORLD);
    return rc;
}

CRN_FACE_API int fti_set_attribute_fortran_(int id, const FTIT_attribute *attribute, int flag)
{
    return FTI_SetAttribute(id, *attribute, (FTIT_attributeFlag)flag);
}
