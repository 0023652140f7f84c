/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of the program that reads HDF5 files: it may have crashed half way, or been
 * compromised. */
#include "fuzz_extents.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct crn_file_extents x;

    if (crn_extents_decode(data, size, &x) != 0 && x.n != 0)
        abort();
    crn_extents_finish(&x, 1 << 20);
    fuzz_extents_check(&x, 1 << 20);
    crn_extents_free(&x);
    return 0;
}
