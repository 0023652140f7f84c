/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory belongs to the checkpoints of a session. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "client/session.h"

static struct crn_protected *regions_find(const cairn_session *s, const char *region)
{
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        if (strcmp(s->regions[i].region.name, region) == 0)
            return &s->regions[i];
    return NULL;
}

static cairn_err regions_protect(cairn_session *s, const struct crn_region *wanted, void *ptr,
                                 int is_replicated, struct crn_errinfo *ei)
{
    struct crn_region r = *wanted;
    struct crn_place place = {.ptr = ptr};
    struct crn_protected *p;
    cairn_err rc;

    rc = crn_region_check(&r, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (ptr == NULL && r.bytes > 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region '%s' has %llu bytes, but ptr is NULL", r.name,
                        (unsigned long long)r.bytes);
    rc = crn_gpu_owner(s, ptr, &place.device, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "region '%s'", r.name);
    p = regions_find(s, r.name);
    if (p != NULL)
        crn_deferred_wait(s); /* the memory may be freed after this call */
    if (p == NULL) {
        p = realloc(s->regions, (s->nregions + (size_t)1) * sizeof(*p));
        if (p == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "region '%s'", r.name);
        s->regions = p;
        p = &s->regions[s->nregions++];
    }
    p->region = r;
    p->place = place;
    p->is_replicated = is_replicated;
    return CAIRN_OK;
}

static cairn_err set_name(const cairn_session *s, struct crn_region *r, const char *region,
                          struct crn_errinfo *ei)
{
    cairn_err rc = crn_arg_session(s, ei);

    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("region", region, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (region[0] == '\0' || strlen(region) >= sizeof(r->name))
        return crn_fail(ei, CAIRN_EINVAL, 0, "the name of a region has 1 to %zu bytes",
                        sizeof(r->name) - 1);
    memcpy(r->name, region, strlen(region) + 1);
    return CAIRN_OK;
}

cairn_err cairn_protect(cairn_session *s, const char *region, void *ptr, cairn_type type,
                        uint64_t count)
{
    struct crn_region r = {.type = (uint8_t)type, .ndims = 1, .dims = {count}};
    struct crn_errinfo ei = {0};
    cairn_err rc;

    rc = set_name(s, &r, region, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_range("type", type, CAIRN_BYTES, CRN_TYPES - 1, &ei);
    if (rc == CAIRN_OK)
        rc = regions_protect(s, &r, ptr, 0, &ei);
    return crn_api_end(&ei, rc);
}

static cairn_err protect_array(cairn_session *s, const char *region, void *ptr,
                               const struct cairn_array *array, int is_replicated)
{
    struct crn_errinfo ei = {0};
    struct crn_region r = {0};
    const struct cairn_array *a = array;
    cairn_err rc;

    rc = set_name(s, &r, region, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_struct("array", a, "cairn_array", sizeof(*a), &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_range("array->ndims", a->ndims, 1, CAIRN_MAX_DIMS, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_range("array->type", a->type, CAIRN_BYTES, CRN_TYPES - 1, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    r.type = (uint8_t)a->type;
    r.ndims = (uint8_t)a->ndims;
    memcpy(r.dims, a->dims, (size_t)a->ndims * sizeof(r.dims[0]));
    r.is_global = a->global_dims[0] != 0;
    if (r.is_global) {
        memcpy(r.global_dims, a->global_dims, (size_t)a->ndims * sizeof(r.dims[0]));
        memcpy(r.offset, a->offset, (size_t)a->ndims * sizeof(r.dims[0]));
    }
    if (is_replicated && r.is_global)
        return crn_api_end(&ei, crn_fail(&ei, CAIRN_EINVAL, 0,
                                         "array->global_dims: region '%s' is replicated, so that "
                                         "every rank has all of it",
                                         r.name));
    if (is_replicated) {
        r.is_global = 1;
        memcpy(r.global_dims, r.dims, sizeof(r.dims));
    }
    return crn_api_end(&ei, regions_protect(s, &r, ptr, is_replicated, &ei));
}

cairn_err cairn_protect_array(cairn_session *s, const char *region, void *ptr,
                              const struct cairn_array *array)
{
    return protect_array(s, region, ptr, array, 0);
}

cairn_err cairn_protect_replicated(cairn_session *s, const char *region, void *ptr,
                                   const struct cairn_array *array)
{
    return protect_array(s, region, ptr, array, 1);
}

cairn_err cairn_unprotect(cairn_session *s, const char *region)
{
    struct crn_errinfo ei = {0};
    struct crn_protected *p;
    size_t after;
    cairn_err rc;

    rc = crn_arg_session(s, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("region", region, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    p = regions_find(s, region);
    if (p == NULL)
        return crn_api_end(&ei,
                           crn_fail(&ei, CAIRN_ENOENT, 0, "region '%s' is not protected", region));
    crn_deferred_wait(s);
    after = (size_t)(&s->regions[s->nregions] - p) - 1;
    memmove(p, p + 1, after * sizeof(*p));
    s->nregions--;
    return CAIRN_OK;
}

/* This rank's share of data that all ranks hold alike: of many rows a part, of few rows all, for
 * one rank that the name chooses, so that many small regions are spread, too. */
static void take_share(const cairn_session *s, struct crn_region *r, struct crn_place *place)
{
    uint64_t rows = r->dims[0];
    uint64_t first = rows * s->rank / s->ranks;
    uint64_t end = rows * (s->rank + 1) / s->ranks;

    if (r->bytes == 0)
        return;
    if (rows < s->ranks) {
        first = 0;
        end = crn_hash(r->name, strlen(r->name)) % s->ranks == s->rank ? rows : 0;
    }
    place->ptr = (char *)place->ptr + first * (r->bytes / rows);
    r->bytes = r->bytes / rows * (end - first);
    r->dims[0] = end - first;
    r->offset[0] = first;
}

cairn_err crn_regions_select(const cairn_session *s, const char *const *names, int is_capture,
                             struct crn_shard *ret, struct crn_place **ret_places,
                             struct crn_errinfo *ei)
{
    struct crn_shard shard = {.rank = s->rank};
    struct crn_place *places;
    uint32_t n = 0;

    if (names == NULL)
        n = s->nregions;
    else
        while (names[n] != NULL)
            n++;
    shard.regions = malloc((n != 0 ? n : 1) * sizeof(*shard.regions)); /* quicker than calloc */
    places = malloc((n != 0 ? n : 1) * sizeof(*places));
    if (shard.regions == NULL || places == NULL) {
        free(shard.regions);
        free(places);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", n);
    }
    for (; shard.nregions < n; shard.nregions++) {
        uint32_t i = shard.nregions;
        const struct crn_protected *p = names == NULL ? &s->regions[i] : regions_find(s, names[i]);

        if (p == NULL) {
            crn_shard_free(&shard);
            free(places);
            return crn_fail(ei, CAIRN_ENOENT, 0, "region '%s' is not protected",
                            names != NULL ? names[i] : "");
        }
        shard.regions[i] = p->region;
        places[i] = p->place;
        if (is_capture && p->is_replicated)
            take_share(s, &shard.regions[i], &places[i]);
    }
    *ret = shard;
    *ret_places = places;
    return CAIRN_OK;
}
