/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/mates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* A slot of another rank's arena, mapped. */
struct crn_lent {
    struct crn_lent *next;
    struct crn_arena *arena;
    struct crn_image image; /* of a whole shard; otherwise at is NULL */
};

static cairn_err map_arena(const cairn_session *s, uint32_t rank, struct crn_arena **ret,
                           struct crn_errinfo *ei)
{
    char name[CRN_SPOOL_NAME];
    int fd;

    crn_rundir_arena_name(rank, name);
    fd = openat(s->dir.dfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return crn_fail_errno(ei, errno, "open '%s' in '%s'", name, s->dir.path);
    return crn_arena_map(crn_fs_posix(), fd, name, ret, ei);
}

/* Is this the slot into which the rank reads this version? */
static cairn_err check_slot(const struct crn_mates *m, const struct crn_arena *a, uint32_t slot,
                            struct crn_slot_info *ret, struct crn_errinfo *ei)
{
    const struct crn_manifest *version = crn_version_manifest(m->v);
    cairn_err rc = crn_slot_info(a, slot, ret, ei);

    if (rc == CAIRN_OK && (crn_slot_state_of(a, slot, version->id.seq) != CRN_SLOT_READING ||
                           !crn_capture_id_equal(&ret->id, &version->id)))
        rc = crn_fail(ei, CAIRN_EBUG, 0, "slot %u of the arena of rank %u is not lent", slot,
                      crn_arena_rank(a));
    return rc;
}

/* Lays out the regions of a whole shard; leaves ret empty for an image assembled from blocks. */
static cairn_err lay_out(const struct crn_mates *m, uint32_t rank, const struct crn_slot_info *info,
                         struct crn_image *ret, struct crn_errinfo *ei)
{
    const struct crn_shard *shard;
    cairn_err rc;
    uint32_t i;

    if (crn_version_manifest(m->v)->ranks != m->s->ranks)
        return CAIRN_OK;
    rc = crn_version_shard(m->v, rank, &shard, ei);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(shard, info->descriptor_bytes, ret, ei);
    if (rc == CAIRN_OK && ret->bytes != info->image_bytes)
        rc = crn_fail(ei, CAIRN_EBUG, 0, "rank %u lends a slot of another image", rank);
    for (i = 0; rc == CAIRN_OK && i < shard->nregions; i++)
        if (shard->regions[i].kind != CRN_REGION_MEMORY)
            ret->at[i] = UINT64_MAX;
    return rc;
}

static void give_back(struct crn_lent *l)
{
    crn_image_free(&l->image);
    crn_arena_close(l->arena);
    free(l);
}

int crn_mates_reach(void *arg, uint32_t rank, uint32_t where, struct crn_mate *ret)
{
    struct crn_mates *m = arg;
    struct crn_lent *l = calloc(1, sizeof(*l));
    struct crn_errinfo why = {0};
    struct crn_slot_info info;
    cairn_err rc;

    if (l == NULL)
        return 0;
    rc = map_arena(m->s, rank, &l->arena, &why);
    if (rc == CAIRN_OK)
        rc = check_slot(m, l->arena, where, &info, &why);
    if (rc == CAIRN_OK)
        rc = lay_out(m, rank, &info, &l->image, &why);
    if (rc != CAIRN_OK) {
        crn_log(&m->s->log, CRN_DEBUG, "rank %u gets its data in messages: %s", rank, why.msg);
        give_back(l);
        return 0;
    }
    l->next = m->first;
    m->first = l;
    *ret = (struct crn_mate){.memory = crn_slot_memory(l->arena, &info), .at = l->image.at};
    return 1;
}

void crn_mates_close(struct crn_mates *m)
{
    while (m->first != NULL) {
        struct crn_lent *l = m->first;

        m->first = l->next;
        give_back(l);
    }
}
