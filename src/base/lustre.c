/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets a default layout on the directory instead of one on each file: files are created through the
 * one table of file operations and inherit the layout. Setting it twice is harmless. */
#include "base/lustre.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static const char *const real_libraries[] = {"liblustreapi.so.1", "liblustreapi.so", NULL};

const struct crn_lustre crn_lustre_real = {crn_fs_type_of, real_libraries};

/* Takes the path of a file or a directory. Returns 0 or -errno. */
typedef int (*create_fn)(const char *path, unsigned long long stripe_bytes, int first_target,
                         int count, int pattern);

static int stripe_by(void *library, const char *path, uint64_t count, uint64_t bytes)
{
    create_fn create = (create_fn)dlsym(library, "llapi_file_create");
    int r;

    if (create == NULL)
        return -ELIBACC;
    r = create(path, bytes, -1, (int)count, 0);
    return r > 0 ? -r : r;
}

int crn_lustre_stripe(const struct crn_lustre *l, int dfd, uint64_t count, uint64_t bytes)
{
    const char *const *name;
    char link[32], path[PATH_MAX];
    void *library = NULL;
    ssize_t n;
    int r;

    if (l->type(dfd)->magic != CRN_FS_LUSTRE)
        return -ENOTSUP;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dfd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    for (name = l->libraries; library == NULL && *name != NULL; name++)
        library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return -ELIBACC;
    r = stripe_by(library, path, count, bytes);
    (void)dlclose(library);
    return r;
}
