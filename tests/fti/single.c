/* SPDX-License-Identifier: BSD-3-Clause */
/* An array of all processes, written by some and read by another number of them.
 * usage: single DIRECTORY write|read */
#include "fti_test.h"

#define ROWS    60 /* divisible by every number of ranks that is used */
#define COLUMNS 7

static double value(FTIT_hsize_t row, FTIT_hsize_t column)
{
    return (double)(row * 100 + column);
}

int main(int argc, char **argv)
{
    int is_write = strcmp(argv[2], "write") == 0;
    FTIT_hsize_t dims[2] = {ROWS, COLUMNS}, offset[2] = {0, 0}, count[2] = {0, COLUMNS};
    FTIT_hsize_t *span, i, k;
    FTIT_H5Group group;
    double *part;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (void)snprintf(dir, sizeof(dir), "%s", argv[1]);
    (void)snprintf(conf, sizeof(conf), "%s/config.fti", dir);
    if (is_write)
        configure("h5_single_file_enable = 1\nh5_single_file_keep = 1", "");
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    REQUIRE(FTI_Status() == (is_write ? 0 : 3));
    OK(FTI_InitGroup(&group, "fields", NULL));
    if (!is_write)
        dims[0] = 1; /* to be learnt */
    OK(FTI_DefineGlobalDataset(5, 2, dims, "t", &group, FTI_DBLE));
    FAILS(FTI_UpdateGlobalDataset(6, 2, dims));
    if (is_write) { /* it grows, and is what it was again */
        FTIT_hsize_t more[2] = {2 * ROWS, COLUMNS};

        OK(FTI_UpdateGlobalDataset(5, 2, more));
        span = FTI_GetDatasetSpan(5, 2);
        REQUIRE(span != NULL && span[0] == 2 * ROWS && span[1] == COLUMNS);
        OK(FTI_UpdateGlobalDataset(5, 2, dims));
    } else {
        OK(FTI_RecoverDatasetDimension(5));
    }
    REQUIRE(FTI_GetDatasetRank(5) == 2 && FTI_GetDatasetRank(6) < 0);
    span = FTI_GetDatasetSpan(5, 2);
    REQUIRE(span != NULL && span[0] == ROWS && span[1] == COLUMNS);
    count[0] = ROWS / (FTIT_hsize_t)ranks;
    offset[0] = count[0] * (FTIT_hsize_t)rank;
    part = (double *)calloc(count[0] * COLUMNS, sizeof(*part));
    REQUIRE(part != NULL);
    OK(FTI_Protect(1, part, (int64_t)(count[0] * COLUMNS), FTI_DBLE));
    FAILS(FTI_AddSubset(1, 2, offset, dims, 6));
    OK(FTI_AddSubset(1, 2, offset, count, 5));
    OK(FTI_UpdateSubset(1, 2, offset, count, 5));
    for (i = 0; is_write && i < count[0]; i++)
        for (k = 0; k < COLUMNS; k++)
            part[i * COLUMNS + k] = value(offset[0] + i, k);
    if (is_write)
        DONE(FTI_Checkpoint(1, FTI_L4_H5_SINGLE));
    else
        OK(FTI_Recover());
    for (i = 0; i < count[0]; i++)
        for (k = 0; k < COLUMNS; k++)
            REQUIRE(part[i * COLUMNS + k] == value(offset[0] + i, k));
    OK(FTI_Finalize());
    REQUIRE(failure() == 3 || !is_write);
    free(part);
    (void)MPI_Finalize();
    return 0;
}
