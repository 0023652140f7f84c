/* SPDX-License-Identifier: BSD-3-Clause */
/* There are few groups with at most some thousand ids, so sorted arrays suffice. */
#include "regions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "veloc.h"

_Static_assert(VELOC_CKPT_ALL == VELOC_RECOVER_ALL && VELOC_CKPT_SOME == VELOC_RECOVER_SOME &&
                   VELOC_CKPT_REST == VELOC_RECOVER_REST,
               "one function serves both");

static struct crn_vlc_group *find_group(const struct crn_vlc_regions *all, const char *name)
{
    struct crn_vlc_group *g = all->groups;

    while (g != NULL && strcmp(g->name, name) != 0)
        g = g->next;
    return g;
}

static struct crn_vlc_group *add_group(struct crn_vlc_regions *all, const char *name)
{
    struct crn_vlc_group *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return NULL;
    g->name = strdup(name);
    if (g->name == NULL) {
        free(g);
        return NULL;
    }
    g->next = all->groups;
    all->groups = g;
    return g;
}

/* The index of the id, or where it would be inserted. */
static size_t regions_place(const struct crn_vlc_group *g, int id)
{
    size_t low = 0;
    size_t high = g->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (g->region[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

cairn_err crn_vlc_protect(struct crn_vlc_regions *all, const char *group,
                          const struct crn_vlc_region *region, struct crn_errinfo *ei)
{
    struct crn_vlc_group *g = find_group(all, group);
    struct crn_vlc_region *grown;
    size_t at;

    if (g == NULL)
        g = add_group(all, group);
    if (g == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "protected region %d", region->id);
    at = regions_place(g, region->id);
    grown = g->region;
    if (grown == NULL || at == g->n || grown[at].id != region->id) {
        grown = realloc(g->region, (g->n + 1) * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "protected region %d", region->id);
        g->region = grown;
        memmove(&grown[at + 1], &grown[at], (g->n - at) * sizeof(*grown));
        g->n++;
    }
    grown[at] = *region;
    return CAIRN_OK;
}

int crn_vlc_unprotect(struct crn_vlc_regions *all, const char *group, int id)
{
    struct crn_vlc_group *g = find_group(all, group);
    size_t at;

    if (g == NULL)
        return -1;
    at = regions_place(g, id);
    if (at == g->n || g->region[at].id != id)
        return -1;
    g->n--;
    memmove(&g->region[at], &g->region[at + 1], (g->n - at) * sizeof(*g->region));
    return 0;
}

void crn_vlc_clear(struct crn_vlc_regions *all, const char *group)
{
    struct crn_vlc_group *g = find_group(all, group);

    if (g != NULL)
        g->n = 0;
}

void crn_vlc_regions_free(struct crn_vlc_regions *all)
{
    while (all->groups != NULL) {
        struct crn_vlc_group *g = all->groups;

        all->groups = g->next;
        free(g->region);
        free(g->name);
        free(g);
    }
}

const struct crn_vlc_group *crn_vlc_group_of(const struct crn_vlc_regions *all, const char *name)
{
    const struct crn_vlc_group *own = find_group(all, name);

    return own != NULL && own->n > 0 ? own : find_group(all, "");
}

cairn_type crn_vlc_type(const struct crn_vlc_region *region)
{
    switch (region->base_size) {
    case 4:
        return CAIRN_F32;
    case 8:
        return CAIRN_F64;
    case 16:
        return CAIRN_C128;
    default:
        return CAIRN_BYTES;
    }
}

const struct crn_vlc_region *crn_vlc_find(const struct crn_vlc_group *g, int id)
{
    size_t at;

    if (g == NULL)
        return NULL;
    at = regions_place(g, id);
    return at < g->n && g->region[at].id == id ? &g->region[at] : NULL;
}

cairn_err crn_vlc_check_mode(int mode, const int *ids, int n, struct crn_errinfo *ei)
{
    if (mode < VELOC_CKPT_ALL || mode > VELOC_CKPT_REST)
        return crn_fail(ei, CAIRN_EINVAL, 0, "unknown mode %d", mode);
    if (mode != VELOC_CKPT_ALL && ids == NULL && n > 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the list of %d ids is NULL", n);
    return CAIRN_OK;
}

int crn_vlc_takes(int mode, const int *ids, int n, int id)
{
    int i = 0;

    if (mode == VELOC_CKPT_ALL)
        return 1;
    while (i < n && ids[i] != id)
        i++;
    return (i < n) == (mode == VELOC_CKPT_SOME);
}
