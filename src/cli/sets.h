/* SPDX-License-Identifier: BSD-3-Clause */
/* Which files belong together: patterns such as "out.{step}.{rank}.h5" sort files into sets, one
 * per step, with the files of every rank. Pure: names in, sets out. */
#ifndef CRN_CLI_SETS_H
#define CRN_CLI_SETS_H

#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"

#define CLI_MAX_PATTERNS 16

/* {step} and {rank} stand for digits. A file whose pattern has no {rank} belongs to rank 0. */
struct cli_patterns {
    const char *text[CLI_MAX_PATTERNS]; /* owned by the caller */
    size_t n;
};
/* CAIRN_EINVAL describes the error in a pattern. */
CAIRN_CHECKED cairn_err crn_sets_add_pattern(struct cli_patterns *p, const char *text,
                                             struct crn_errinfo *ei);
/* Does a file name match the pattern? *ret_step is -1 if the pattern has no {step}. */
int crn_sets_match(const char *pattern, const char *name, int64_t *ret_step, uint32_t *ret_rank);

struct cli_file {
    char *path;       /* owned */
    const char *name; /* last component of path */
    uint32_t rank;
    uint32_t pattern; /* index of the matching pattern */
    struct stat st;   /* attributes when it was read */
};

/* The files of one version. */
struct cli_set {
    int64_t step; /* -1: unknown */
    uint32_t ranks;
    struct cli_file *file; /* owned; by rank, then name */
    size_t n;
};
struct cli_sets {
    struct cli_set *set; /* owned; by step */
    size_t n;
};

/* Sorts paths into sets; omits those that match no pattern. ranks: their number; 0: as many as
 * found. */
CAIRN_CHECKED cairn_err crn_sets_sort(const struct cli_patterns *p, char *const *path, size_t n,
                                      uint32_t ranks, struct cli_sets *ret, struct crn_errinfo *ei);
/* One set of all paths, in rank order: the i-th belongs to rank i. */
CAIRN_CHECKED cairn_err crn_sets_list(char *const *path, size_t n, struct cli_sets *ret,
                                      struct crn_errinfo *ei);
void crn_sets_free(struct cli_sets *s);

/* Does each rank have its file of each pattern, and are the names within a rank unique? If not,
 * text says what is wrong. */
int crn_set_is_complete(const struct cli_set *s, const struct cli_patterns *p, char *text,
                        size_t size);

#endif
