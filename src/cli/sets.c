/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/sets.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "format/format.h"

/* Patterns. ------------------------------------------------------------------------------------ */

enum placeholder { PLACE_NONE, PLACE_STEP, PLACE_RANK, PLACE_ANY, PLACES };

static const char *const placeholders[PLACES] = {"", "{step}", "{rank}", "{any}"};

/* The placeholder at p, and the length of its text. */
static enum placeholder placeholder_at(const char *p, size_t *ret_n)
{
    enum placeholder i;

    for (i = PLACE_STEP; i < PLACES; i++) {
        *ret_n = strlen(placeholders[i]);
        if (strncmp(p, placeholders[i], *ret_n) == 0)
            return i;
    }
    *ret_n = 0;
    return PLACE_NONE;
}

/* Are its directories all below the one that is watched? */
static int has_bad_part(const char *text)
{
    size_t n;

    for (;; text += n + 1) {
        n = strcspn(text, "/");
        if (n == 0 || (n == 1 && text[0] == '.') || (n == 2 && memcmp(text, "..", 2) == 0))
            return 1;
        if (text[n] == '\0')
            return 0;
    }
}

static const char *pattern_fault(const char *text)
{
    int seen[PLACES] = {0};
    const char *p = text;
    size_t n;

    if (has_bad_part(text))
        return "it is a name below a directory, without '.' and '..'";
    while (*p != '\0') {
        enum placeholder place = placeholder_at(p, &n);

        if (place == PLACE_NONE && (*p == '{' || *p == '}'))
            return "only {step}, {rank} and {any} stand in braces";
        if (place != PLACE_NONE &&
            (p[n] == '{' || (place != PLACE_ANY && isdigit((unsigned char)p[n]))))
            return "a digit or brace after a number cannot be distinguished from it";
        if (place == PLACE_ANY && seen[PLACE_ANY])
            return "{any} stands in it once";
        seen[place] = 1;
        p += n > 0 ? n : 1;
    }
    return seen[PLACE_STEP] && seen[PLACE_ANY] ? "{any} is for names without {step}" : NULL;
}

int crn_sets_have_steps(const struct cli_patterns *p)
{
    return p->n > 0 && strstr(p->text[0], "{step}") != NULL;
}

cairn_err crn_sets_add_pattern(struct cli_patterns *p, const char *text, struct crn_errinfo *ei)
{
    const char *fault = pattern_fault(text);

    if (fault == NULL && p->n > 0 && crn_sets_have_steps(p) != (strstr(text, "{step}") != NULL))
        fault = "either all patterns have {step} or none";
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

/* Matches up to the next {any} or the end of the pattern, and moves both beyond it. number: of step
 * and rank, -1 where they have not occurred. */
static int match_until_any(const char **pattern, const char **name, int64_t number[PLACES])
{
    size_t n;

    while (**pattern != '\0') {
        enum placeholder place = placeholder_at(*pattern, &n);
        int64_t v;

        if (place == PLACE_ANY)
            return 1;
        if (place == PLACE_NONE && *(*pattern)++ != *(*name)++)
            return 0;
        if (place == PLACE_NONE)
            continue;
        v = sets_number(name);
        if (v < 0 || (place == PLACE_RANK && v >= CRN_MAX_RANKS) ||
            (number[place] >= 0 && number[place] != v))
            return 0;
        number[place] = v;
        *pattern += n;
    }
    return 1;
}

/* {any} is the shortest text with which the rest matches. */
static int match_any(const char *pattern, const char *name, int64_t number[PLACES], uint64_t *ret)
{
    size_t most = strcspn(name, "/");
    size_t n;

    pattern += strlen(placeholders[PLACE_ANY]);
    for (n = 1; n <= most; n++) {
        int64_t trial[PLACES] = {0, number[PLACE_STEP], number[PLACE_RANK]};
        const char *p = pattern;
        const char *rest = name + n;

        if (!match_until_any(&p, &rest, trial) || *rest != '\0')
            continue;
        memcpy(number, trial, sizeof(trial));
        *ret = crn_hash(name, n) | 1;
        return 1;
    }
    return 0;
}

int crn_sets_match(const char *pattern, const char *name, struct cli_match *ret)
{
    int64_t number[PLACES] = {0, -1, -1};
    uint64_t any = 0;

    if (!match_until_any(&pattern, &name, number) ||
        (*pattern == '\0' ? *name != '\0' : !match_any(pattern, name, number, &any)))
        return 0;
    ret->step = number[PLACE_STEP];
    ret->rank = number[PLACE_RANK] < 0 ? 0 : (uint32_t)number[PLACE_RANK];
    ret->any = any;
    return 1;
}

static size_t slashes_in(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += *text == '/';
    return n;
}

int crn_sets_match_dir(const char *pattern, const char *dir)
{
    size_t left = slashes_in(dir) + 1;
    struct cli_match ignored;
    const char *end = pattern;
    char *start;
    int is_match;

    for (; *end != '\0' && (*end != '/' || --left > 0);)
        end++;
    if (*end == '\0')
        return 0; /* the pattern has fewer directories */
    start = strndup(pattern, (size_t)(end - pattern));
    is_match = start != NULL && crn_sets_match(start, dir, &ignored);
    free(start);
    return is_match;
}

const char *crn_sets_tail(const char *pattern, const char *path)
{
    size_t left = slashes_in(pattern) + 1;
    const char *p = path + strlen(path);

    for (; p > path; p--)
        if (p[-1] == '/' && --left == 0)
            return p;
    return left == 1 ? path : NULL;
}

/* Sets. ---------------------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

struct sets_found {
    int64_t step;
    uint64_t any;
    struct cli_file file;
};

static int by_step_and_rank(const void *a, const void *b)
{
    const struct sets_found *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->any != y->any)
        return x->any < y->any ? -1 : 1;
    if (x->file.rank != y->file.rank)
        return x->file.rank < y->file.rank ? -1 : 1;
    return strcmp(x->file.name, y->file.name);
}

/* The name of the file, if it matches a pattern; otherwise NULL. */
static const char *sets_fits(const struct cli_patterns *p, const char *path, struct sets_found *f)
{
    struct cli_match m;
    uint32_t i;

    for (i = 0; i < p->n; i++) {
        const char *name = crn_sets_tail(p->text[i], path);

        if (name == NULL || !crn_sets_match(p->text[i], name, &m))
            continue;
        f->step = m.step;
        f->any = m.any;
        f->file.rank = m.rank;
        f->file.pattern = i;
        return name;
    }
    return NULL;
}

/* Moves n sorted files into sets; frees them on failure. */
static cairn_err sets_group(struct sets_found *found, size_t n, uint32_t ranks,
                            struct cli_sets *ret, struct crn_errinfo *ei)
{
    struct cli_sets sets = {.set = calloc(n + 1, sizeof(*sets.set))};
    size_t i, k;

    for (i = 0; sets.set != NULL && i < n; i += k) {
        struct cli_set *s = &sets.set[sets.n];

        for (k = 0;
             i + k < n && found[i + k].step == found[i].step && found[i + k].any == found[i].any;)
            k++;
        s->file = calloc(k, sizeof(*s->file));
        if (s->file == NULL)
            break;
        s->step = found[i].step;
        s->any = found[i].any;
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
        const char *name = last_part(path[i]);

        f->step = -1;
        f->file.rank = (uint32_t)i;
        if (p != NULL && (name = sets_fits(p, path[i], f)) == NULL)
            continue;
        f->file.path = strdup(path[i]);
        if (f->file.path == NULL)
            break;
        f->file.name = f->file.path + (name - path[i]);
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
static const struct cli_file *sets_twin(const struct cli_set *s, const struct cli_patterns *p,
                                        size_t i)
{
    size_t k;

    for (k = i; k > 0 && s->file[k - 1].rank == s->file[i].rank; k--)
        if (strcmp(s->file[k - 1].name, s->file[i].name) == 0 ||
            (p->n > 0 && s->file[k - 1].pattern == s->file[i].pattern))
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
static int has_wrong(const struct cli_set *s, const struct cli_patterns *p, char *text, size_t size)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        const struct cli_file *f = &s->file[i];
        const struct cli_file *other = sets_twin(s, p, i);

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

    if (has_wrong(s, p, text, size))
        return 0;
    for (k = 0; k < p->n; k++) {
        uint32_t ranks = strstr(p->text[k], "{rank}") != NULL ? s->ranks : 1;

        if (has_ranks(s, k, ranks, &missing))
            continue;
        if (s->step >= 0)
            (void)snprintf(text, size, "step %" PRId64 ": rank %" PRIu32 " has no file '%s'",
                           s->step, missing, p->text[k]);
        else
            (void)snprintf(text, size, "rank %" PRIu32 " has no file '%s'", missing, p->text[k]);
        return 0;
    }
    return 1;
}
