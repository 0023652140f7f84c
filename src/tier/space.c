/* SPDX-License-Identifier: BSD-3-Clause */
/* A sorted array: searches scan it from end to end, and moving the few hundred fragments of an
 * arena takes a microsecond. */
#include "tier/space.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 64

static cairn_err space_grow(struct crn_space *s, struct crn_errinfo *ei)
{
    size_t cap = s->cap != 0 ? 2 * s->cap : FIRST_CAP;
    struct crn_fragment *f = realloc(s->f, cap * sizeof(*f));
    size_t *scratch;

    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu fragments of a tier", cap);
    s->f = f;
    scratch = realloc(s->scratch, 2 * cap * sizeof(*scratch));
    if (scratch == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu fragments of a tier", cap);
    s->scratch = scratch;
    s->cap = cap;
    return CAIRN_OK;
}

cairn_err crn_space_init(struct crn_space *s, uint64_t capacity, struct crn_errinfo *ei)
{
    cairn_err rc;

    memset(s, 0, sizeof(*s));
    rc = space_grow(s, ei);
    if (rc != CAIRN_OK) {
        crn_space_fini(s);
        return rc;
    }
    s->capacity = capacity < CRN_SPACE_MAX ? capacity : CRN_SPACE_MAX;
    if (s->capacity > 0)
        s->f[s->n++] = (struct crn_fragment){.bytes = s->capacity};
    return CAIRN_OK;
}

void crn_space_fini(struct crn_space *s)
{
    free(s->f);
    free(s->scratch);
    memset(s, 0, sizeof(*s));
}

size_t crn_space_at(const struct crn_space *s, uint64_t offset)
{
    size_t low = 0;
    size_t high = s->n;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;

        if (s->f[mid].offset <= offset)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static void space_insert(struct crn_space *s, size_t i, struct crn_fragment f)
{
    memmove(&s->f[i + 1], &s->f[i], (s->n - i) * sizeof(s->f[0]));
    s->f[i] = f;
    s->n++;
}

static void space_erase(struct crn_space *s, size_t i)
{
    memmove(&s->f[i], &s->f[i + 1], (s->n - i - 1) * sizeof(s->f[0]));
    s->n--;
}

cairn_err crn_space_reserve(struct crn_space *s, struct crn_errinfo *ei)
{
    return s->n + 2 > s->cap ? space_grow(s, ei) : CAIRN_OK; /* a put adds at most two */
}

void crn_space_put(struct crn_space *s, uint64_t offset, uint64_t bytes, void *owner)
{
    size_t i = crn_space_at(s, offset);
    uint64_t before = offset - s->f[i].offset;
    uint64_t after;

    assert(owner != NULL && bytes > 0 && s->f[i].owner == NULL);
    assert(s->f[i].bytes - before >= bytes && s->n + 2 <= s->cap);
    after = s->f[i].bytes - before - bytes;
    if (before == 0 && offset == s->low)
        s->low = offset + bytes;
    if (before > 0) {
        s->f[i].bytes = before;
        space_insert(s, ++i, (struct crn_fragment){0});
    }
    s->f[i] = (struct crn_fragment){.offset = offset, .bytes = bytes, .owner = owner};
    if (after > 0)
        space_insert(s, i + 1, (struct crn_fragment){.offset = offset + bytes, .bytes = after});
    s->used += bytes;
}

void crn_space_drop(struct crn_space *s, uint64_t offset)
{
    size_t i = crn_space_at(s, offset);

    assert(s->f[i].offset == offset && s->f[i].owner != NULL);
    s->used -= s->f[i].bytes;
    s->f[i].owner = NULL;
    if (i + 1 < s->n && s->f[i + 1].owner == NULL) {
        s->f[i].bytes += s->f[i + 1].bytes;
        space_erase(s, i + 1);
    }
    if (i > 0 && s->f[i - 1].owner == NULL) {
        s->f[i - 1].bytes += s->f[i].bytes;
        space_erase(s, i);
        i--;
    }
    s->low = s->f[i].offset < s->low ? s->f[i].offset : s->low;
}

size_t crn_space_gap(const struct crn_space *s, uint64_t bytes)
{
    size_t i = s->n > 0 ? crn_space_at(s, s->low) : 0;

    while (i < s->n && (s->f[i].owner != NULL || s->f[i].bytes < bytes))
        i++;
    return i;
}

uint64_t crn_space_largest_gap(const struct crn_space *s)
{
    uint64_t most = 0;
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->f[i].owner == NULL && s->f[i].bytes > most)
            most = s->f[i].bytes;
    return most;
}
