/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank wrote into a dataset: a table that travels with every version, as the region
 * CRN_SCR_REGION. */
#ifndef CRN_SCR_DATASET_H
#define CRN_SCR_DATASET_H

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "cairn/cairn.h"

#define CRN_SCR_REGION "scr.files"
#define CRN_SCR_NAME   1024 /* SCR_MAX_FILENAME */

struct crn_scr_file {
    char *path;                  /* inside of the prefix, as the program named it; owned */
    char stored[CAIRN_MAX_NAME]; /* Cairn's name of the file */
    uint64_t bytes, hash;        /* hash: only of files in the prefix that this rank owns */
    int is_owned;                /* no other rank wrote the same file, or this one checks it */
};

struct crn_scr_dataset {
    char name[CRN_SCR_NAME];
    int flags;      /* SCR_FLAG_... */
    int is_direct;  /* the files were written in the prefix; otherwise the version has them */
    int is_flushed; /* the files were to appear in the prefix */
    struct crn_scr_file *file; /* owned */
    size_t n;
};

void crn_scr_dataset_free(struct crn_scr_dataset *d);
/* The file of this path, added if it is new. NULL without memory. */
struct crn_scr_file *crn_scr_dataset_add(struct crn_scr_dataset *d, const char *path);
struct crn_scr_file *crn_scr_dataset_find(const struct crn_scr_dataset *d, const char *path);
/* To text and back. The text is malloc'd. */
CAIRN_CHECKED cairn_err crn_scr_dataset_text(const struct crn_scr_dataset *d, char **ret,
                                             size_t *ret_len, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_scr_dataset_parse(const char *text, size_t len,
                                              struct crn_scr_dataset *ret, struct crn_errinfo *ei);

/* An absolute path inside of the prefix, without ".", ".." and double slashes, from a name as the
 * program gives it: relative to cwd, or absolute. *ret_inside points into ret, after the prefix. */
CAIRN_CHECKED cairn_err crn_scr_path(const char *prefix, const char *cwd, const char *name,
                                     char ret[PATH_MAX], const char **ret_inside,
                                     struct crn_errinfo *ei);

#endif
