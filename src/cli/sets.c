/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/sets.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

/* Patterns. ------------------------------------------------------------------------------------ */

/* Length of the placeholder at p; 0 if there is none. */
static size_t sets_placeholder(const char *p, int *ret_is_rank)
{
    *ret_is_rank = strncmp(p, "{rank}", 6) == 0;
    return *ret_is_rank || strncmp(p, "{step}", 6) == 0 ? 6 : 0;
}

static const char *pattern_fault(const char *text)
{
    int seen[2] = {0, 0};
    const char *p = text;
    int is_rank;

    if (strchr(text, '/') != NULL)
        return "it is the name of a file, without directories";
    while (*p != '\0') {
        size_t n = sets_placeholder(p, &is_rank);

        if (n == 0 && (*p == '{' || *p == '}'))
            return "only {step} and {rank} stand in braces";
        if (n > 0 && seen[is_rank]++)
            return "{step} and {rank} stand in it once";
        if (n > 0 && (isdigit((unsigned char)p[n]) || p[n] == '{'))
            return "a digit or brace behind a number cannot be told from it";
        p += n > 0 ? n : 1;
    }
    return seen[0] ? NULL : "it needs {step}";
}

cairn_err crn_sets_add_pattern(struct cli_patterns *p, const char *text, struct crn_errinfo *ei)
{
    const char *fault = pattern_fault(text);

    if (fault != NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "pattern '%s': %s; write 'out.{step}.{rank}.h5'", text,
                        fault);
    if (p->n == CLI_MAX_PATTERNS)
        return crn_fail(ei, CAIRN_EINVAL, 0, "more than %d patterns", CLI_MAX_PATTERNS);
    p->text[p->n++] = text;
    return CAIRN_OK;
}

/* The number at *name; -1 if there are no digits or too many. */
static int64_t sets_number(const char **name)
{
    int64_t v = 0;

    if (!isdigit((unsigned char)**name))
        return -1;
    for (; isdigit((unsigned char)**name); (*name)++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, **name - '0', &v))
            return -1;
    return v;
}

int crn_sets_match(const char *pattern, const char *name, int64_t *ret_step, uint32_t *ret_rank)
{
    int64_t step = -1;
    int64_t rank = 0;
    int is_rank;

    while (*pattern != '\0') {
        size_t n = sets_placeholder(pattern, &is_rank);

        if (n == 0 && *pattern++ != *name++)
            return 0;
        if (n == 0)
            continue;
        *(is_rank ? &rank : &step) = sets_number(&name);
        if ((is_rank ? rank : step) < 0 || rank >= CRN_MAX_RANKS)
            return 0;
        pattern += n;
    }
    if (*name != '\0')
        return 0;
    *ret_step = step;
    *ret_rank = (uint32_t)rank;
    return 1;
}

/* Sets. ---------------------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

struct sets_found {
    int64_t step;
    struct cli_file file;
};

static int by_step_and_rank(const void *a, const void *b)
{
    const struct sets_found *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->file.rank != y->file.rank)
        return x->file.rank < y->file.rank ? -1 : 1;
    return strcmp(x->file.name, y->file.name);
}

static int sets_fits(const struct cli_patterns *p, const char *path, struct sets_found *f)
{
    for (f->file.pattern = 0; f->file.pattern < p->n; f->file.pattern++)
        if (crn_sets_match(p->text[f->file.pattern], last_part(path), &f->step, &f->file.rank))
            return 1;
    return 0;
}

/* Moves n sorted files into sets; frees them on failure. */
static cairn_err sets_group(struct sets_found *found, size_t n, uint32_t ranks,
                            struct cli_sets *ret, struct crn_errinfo *ei)
{
    struct cli_sets sets = {.set = calloc(n + 1, sizeof(*sets.set))};
    size_t i, k;

    for (i = 0; sets.set != NULL && i < n; i += k) {
        struct cli_set *s = &sets.set[sets.n];

        for (k = 0; i + k < n && found[i + k].step == found[i].step;)
            k++;
        s->file = calloc(k, sizeof(*s->file));
        if (s->file == NULL)
            break;
        s->step = found[i].step;
        for (; s->n < k; s->n++)
            s->file[s->n] = found[i + s->n].file;
        s->ranks = ranks != 0 ? ranks : s->file[k - 1].rank + 1;
        sets.n++;
    }
    if (sets.set == NULL || i < n) {
        for (; i < n; i++)
            free(found[i].file.path);
        crn_sets_free(&sets);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", n);
    }
    *ret = sets;
    return CAIRN_OK;
}

static cairn_err sets_sort(const struct cli_patterns *p, char *const *path, size_t n,
                           uint32_t ranks, struct cli_sets *ret, struct crn_errinfo *ei)
{
    struct sets_found *found = calloc(n + 1, sizeof(*found));
    size_t used = 0;
    cairn_err rc;
    size_t i;

    for (i = 0; found != NULL && i < n; i++) {
        struct sets_found *f = &found[used];

        f->step = -1;
        f->file.rank = (uint32_t)i;
        if (p != NULL && !sets_fits(p, path[i], f))
            continue;
        f->file.path = strdup(path[i]);
        if (f->file.path == NULL)
            break;
        f->file.name = last_part(f->file.path);
        used++;
    }
    if (found == NULL || i < n) {
        while (used > 0)
            free(found[--used].file.path);
        free(found);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a list of %zu files", n);
    }
    qsort(found, used, sizeof(*found), by_step_and_rank);
    rc = sets_group(found, used, ranks, ret, ei);
    free(found);
    return rc;
}

cairn_err crn_sets_sort(const struct cli_patterns *p, char *const *path, size_t n, uint32_t ranks,
                        struct cli_sets *ret, struct crn_errinfo *ei)
{
    return sets_sort(p, path, n, ranks, ret, ei);
}

cairn_err crn_sets_list(char *const *path, size_t n, struct cli_sets *ret, struct crn_errinfo *ei)
{
    return sets_sort(NULL, path, n, (uint32_t)n, ret, ei);
}

void crn_sets_free(struct cli_sets *s)
{
    size_t i, k;

    for (i = 0; i < s->n; i++) {
        for (k = 0; k < s->set[i].n; k++)
            free(s->set[i].file[k].path);
        free(s->set[i].file);
    }
    free(s->set);
    memset(s, 0, sizeof(*s));
}

/* An earlier file of the same rank with the same name or pattern; NULL if there is none. */
static const struct cli_file *sets_twin(const struct cli_set *s, size_t i)
{
    size_t k;

    for (k = i; k > 0 && s->file[k - 1].rank == s->file[i].rank; k--)
        if (strcmp(s->file[k - 1].name, s->file[i].name) == 0 ||
            (s->step >= 0 && s->file[k - 1].pattern == s->file[i].pattern))
            return &s->file[k - 1];
    return NULL;
}

/* Files are sorted by rank, so a walk finds the first gap. */
static int has_ranks(const struct cli_set *s, uint32_t pattern, uint32_t ranks, uint32_t *ret_rank)
{
    uint32_t next = 0;
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->file[i].pattern == pattern && s->file[i].rank == next)
            next++;
    *ret_rank = next;
    return next >= ranks;
}

/* Describes an error in the present files; 0 if there is none. */
static int has_wrong(const struct cli_set *s, char *text, size_t size)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        const struct cli_file *f = &s->file[i];
        const struct cli_file *other = sets_twin(s, i);

        if (f->rank >= s->ranks)
            (void)snprintf(text, size, "'%s' is of rank %" PRIu32 ", and there are %" PRIu32,
                           f->name, f->rank, s->ranks);
        else if (other != NULL)
            (void)snprintf(text, size, "'%s' and '%s' are both of rank %" PRIu32, other->path,
                           f->path, f->rank);
        else
            continue;
        return 1;
    }
    return 0;
}

int crn_set_is_complete(const struct cli_set *s, const struct cli_patterns *p, char *text,
                        size_t size)
{
    uint32_t k, missing;

    if (has_wrong(s, text, size))
        return 0;
    for (k = 0; k < p->n; k++) {
        uint32_t ranks = strstr(p->text[k], "{rank}") != NULL ? s->ranks : 1;

        if (has_ranks(s, k, ranks, &missing))
            continue;
        (void)snprintf(text, size, "step %" PRId64 ": rank %" PRIu32 " has no file '%s'", s->step,
                       missing, p->text[k]);
        return 0;
    }
    return 1;
}
