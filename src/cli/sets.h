/* SPDX-License-Identifier: BSD-3-Clause */
/* Which files belong together: patterns such as "out.{step}.{rank}.h5" sort files into sets, one for each
 * step, with the files of every rank. Pure: names in, sets out. */
#ifndef CRN_CLI_SETS_H
#define CRN_CLI_SETS_H

#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"

#define CLI_MAX_PATTERNS 16

/* {step} and {rank} stand for digits. A file whose pattern has no {rank} is rank 0's. */
struct cli_patterns {
    const char *text[CLI_MAX_PATTERNS]; /* of the caller */
    size_t n;
};
/* CAIRN_EINVAL says what is wrong with a pattern. */
CAIRN_CHECKED cairn_err crn_patterns_add(struct cli_patterns *p, const char *text,
                                         struct crn_errinfo *ei);
/* Whether a file name fits the pattern; -1 for a step that it does not name. */
int crn_pattern_match(const char *pattern, const char *name, int64_t *ret_step, uint32_t *ret_rank);

struct cli_file {
    char *path;       /* owned */
    const char *name; /* its last part */
    uint32_t rank;
    uint32_t pattern; /* index of the one that it fits */
    struct stat st;   /* as it was when it was read */
};

/* What becomes one version. */
struct cli_set {
    int64_t step; /* -1: not known */
    uint32_t ranks;
    struct cli_file *file; /* owned; by rank, then name */
    size_t n;
};
struct cli_sets {
    struct cli_set *set; /* owned; by step */
    size_t n;
};

/* Sorts paths into sets; those that fit no pattern are left out. ranks: how many there are, 0: as many
 * as were found. */
CAIRN_CHECKED cairn_err crn_sets_sort(const struct cli_patterns *p, char *const *path, size_t n,
                                      uint32_t ranks, struct cli_sets *ret, struct crn_errinfo *ei);
/* One set of all the paths, in the order of ranks: the i-th is rank i's. */
CAIRN_CHECKED cairn_err crn_sets_list(char *const *path, size_t n, struct cli_sets *ret,
                                      struct crn_errinfo *ei);
void crn_sets_free(struct cli_sets *s);

/* Whether each rank has its file of each pattern, and no two files of a rank have one name; text says
 * what is missing. */
int crn_set_is_complete(const struct cli_set *s, const struct cli_patterns *p, char *text,
                        size_t size);

#endif
