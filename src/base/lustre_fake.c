/* SPDX-License-Identifier: BSD-3-Clause */
/* A fake liblustreapi for the tests: writes its arguments to the file "layout", and refuses invalid
 * ones as the real library does. */
#include <errno.h>
#include <stdio.h>

int llapi_file_create(const char *path, unsigned long long stripe_bytes, int first_target,
                      int count, int pattern);

__attribute__((visibility("default"))) int llapi_file_create(const char *path,
                                                             unsigned long long stripe_bytes,
                                                             int first_target, int count,
                                                             int pattern)
{
    char file[4200];
    FILE *f;

    if (count > 100)
        return -EINVAL;
    (void)snprintf(file, sizeof(file), "%s/../layout", path);
    f = fopen(file, "w");
    if (f == NULL)
        return -errno;
    (void)fprintf(f, "%llu %d %d %d\n", stripe_bytes, first_target, count, pattern);
    return fclose(f) == 0 ? 0 : -EIO;
}
