/* SPDX-License-Identifier: BSD-3-Clause */
/* Which files belong together: patterns such as "out.{step}.{rank}.h5" sort files into sets, one
 * per step, with the files of every rank. Pure: names in, sets out.
 *
 * {step} and {rank} stand for digits, {any} for some text without a slash. A file whose pattern
 * has no {rank} belongs to rank 0. Programs that overwrite their files have patterns without
 * {step}: then files with the same text for {any} are a set. A pattern may name directories, which
 * may have placeholders, too. A placeholder that occurs twice stands for the same number. */
#ifndef CRN_CLI_SETS_H
#define CRN_CLI_SETS_H

#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"

#define CLI_MAX_PATTERNS 16

struct cli_patterns {
    const char *text[CLI_MAX_PATTERNS]; /* owned by the caller */
    size_t n;
};
/* CAIRN_EINVAL describes the error in a pattern. */
CAIRN_CHECKED cairn_err crn_sets_add_pattern(struct cli_patterns *p, const char *text,
                                             struct crn_errinfo *ei);
struct cli_match {
    int64_t step; /* -1: the pattern has no {step} */
    uint32_t rank;
    uint64_t any; /* hash of the text; 0: the pattern has no {any} */
};
/* Does a file name, with as many directories as the pattern, match it? */
int crn_sets_match(const char *pattern, const char *name, struct cli_match *ret);
/* Do files in this directory, or below it, match the pattern? */
int crn_sets_match_dir(const char *pattern, const char *dir);
/* The end of a path that has as many directories as the pattern; NULL if it has fewer. */
const char *crn_sets_tail(const char *pattern, const char *path);
/* Do the patterns have {step}? Either all do or none. */
int crn_sets_have_steps(const struct cli_patterns *p);

struct cli_file {
    char *path;       /* owned */
    const char *name; /* the part of path that matches the pattern; else its last component */
    uint32_t rank;
    uint32_t pattern; /* index of the matching pattern */
    struct stat st;   /* attributes when it was read */
};

/* The files of one version. */
struct cli_set {
    int64_t step; /* -1: unknown */
    uint64_t any; /* of its files' names */
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
