/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole HDF5 files through the program that reads them. That program may crash, this one may
 * not. */
#include <fcntl.h>
#include <unistd.h>

#include "fuzz.h"
#include "fuzz_extents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/cairn-fuzz-XXXXXX"; /* libhdf5 needs a named file */
    int fd = mkostemp(path, O_CLOEXEC);
    struct crn_file_extents x;

    if (fd < 0)
        exit(1);
    if (write(fd, data, size) == (ssize_t)size) {
        crn_extents_read(crn_fs_posix(), fd, FUZZ_PROGRAM, &x);
        fuzz_extents_check(&x, size);
        crn_extents_free(&x);
    }
    (void)unlink(path);
    (void)close(fd);
    return 0;
}
