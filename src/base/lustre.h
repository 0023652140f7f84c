/* SPDX-License-Identifier: BSD-3-Clause */
/* Stripes of files on Lustre, set through liblustreapi, which is loaded at run time if it is there. */
#ifndef CRN_LUSTRE_H
#define CRN_LUSTRE_H

#include <stdint.h>
#include "base/fs_type.h"

/* Where the file system is asked; tests pretend. */
struct crn_lustre {
    const struct crn_fs_type *(*type)(int fd); /* of the file system */
    const char *const *libraries;              /* names for dlopen, NULL at the end */
};
extern const struct crn_lustre crn_lustre_real;

/* Files made later in the directory are striped over count targets (0: as before) by so many bytes
 * (0: as before). 0, -ENOTSUP on other file systems, -ELIBACC without the library, or what it says. */
int crn_lustre_stripe(const struct crn_lustre *l, int dfd, uint64_t count, uint64_t bytes);

#endif
