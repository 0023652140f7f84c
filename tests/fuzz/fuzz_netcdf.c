/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of netCDF classic files. The last byte determines the length of the file, so that
 * extents are inside or truncated. */
#include "encode/extents.h"
#include "fuzz.h"
#include "fuzz_extents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t bytes = size < 8 ? size : 4096 + (uint64_t)data[size - 1] * 256;
    unsigned char *copy = malloc(size + 1);
    struct crn_file_extents x;

    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    (void)crn_extents_netcdf(copy, size, bytes, &x);
    crn_extents_finish(&x, bytes);
    fuzz_extents_check(&x, bytes);
    crn_extents_free(&x);
    free(copy);
    return 0;
}
