/* SPDX-License-Identifier: BSD-3-Clause */
/* Striping of files on Lustre, through liblustreapi, which is loaded at run time if installed. */
#ifndef CRN_LUSTRE_H
#define CRN_LUSTRE_H

#include <stdint.h>
#include "base/fs_type.h"

/* How the file system is queried; tests substitute a fake. */
struct crn_lustre {
    const struct crn_fs_type *(*type)(int fd); /* type of the file system of fd */
    const char *const *libraries;              /* names for dlopen, NULL at the end */
};
extern const struct crn_lustre crn_lustre_real;

/* Stripes files that are created in the directory later over count targets, in units of bytes. 0
 * leaves count or bytes unchanged. Returns 0, -ENOTSUP on other file systems, -ELIBACC without the
 * library, or the library's error. */
int crn_lustre_stripe(const struct crn_lustre *l, int dfd, uint64_t count, uint64_t bytes);

#endif
