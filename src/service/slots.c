/* SPDX-License-Identifier: BSD-3-Clause */
/* The slots of an item: workers claim them when they begin to read, and the loop releases them when
 * the item has ended. On the loop thread, except crn_slots_claim and crn_slots_unclaim. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "service/job.h"

/* Moves the slots of all ranks. Returns how many moved before the first failure. */
static uint32_t move_slots(struct crn_job *job, const struct crn_item *item,
                           enum crn_slot_state from, enum crn_slot_state to)
{
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (!crn_slot_move(job->arenas[i], item->part[i].slot, item->seq, from, to))
            break;
    return i;
}

/* Flusher and sender may both read the slots, the flusher for a local copy. */
cairn_err crn_slots_claim(struct crn_job *job, struct crn_item *item, uint32_t **ret_slots,
                          struct crn_errinfo *ei)
{
    uint32_t *slots = calloc(job->nlocal, sizeof(*slots));
    uint32_t n = job->nlocal;
    uint32_t i;

    if (slots == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a flush of %u shards", job->nlocal);
    crn_lock(&job->mu);
    if (crn_data(item)->claims == 0)
        n = move_slots(job, item, CRN_SLOT_WRITTEN, CRN_SLOT_FLUSHING);
    crn_data(item)->claims += n == job->nlocal;
    crn_unlock(&job->mu);
    if (n < job->nlocal) {
        free(slots);
        return crn_fail(ei, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint on rank %u",
                        job->rank_of[n]);
    }
    for (i = 0; i < job->nlocal; i++)
        slots[i] = item->part[i].slot;
    *ret_slots = slots;
    return CAIRN_OK;
}

void crn_slots_unclaim(struct crn_job *job, struct crn_item *item)
{
    crn_lock(&job->mu);
    if (--crn_data(item)->claims == 0)
        (void)move_slots(job, item, CRN_SLOT_FLUSHING, CRN_SLOT_WRITTEN);
    crn_unlock(&job->mu);
}

/* The end. ------------------------------------------------------------------------------------- */

/* Not kept: captures with data in the spool, which is removed now. */
static enum crn_slot_state state_of_end(const struct crn_job *job, const struct crn_item *item,
                                        uint32_t local, enum crn_outcome outcome)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;

    if (outcome == CRN_OUT_FLUSHED)
        return CRN_SLOT_FLUSHED;
    if (outcome == CRN_OUT_FAILED ||
        crn_slot_info(job->arenas[local], item->part[local].slot, &info, &ignored) != CAIRN_OK ||
        info.is_spilled || info.nfiles > 0)
        return CRN_SLOT_FAILED;
    return CRN_SLOT_KEPT;
}

void crn_slots_release(struct crn_job *job, struct crn_item *item, uint32_t first, uint32_t end,
                       enum crn_outcome outcome)
{
    enum crn_slot_state to;
    uint32_t i;

    for (i = first; i < end; i++) {
        if (job->arenas[i] == NULL)
            continue;
        (void)crn_slot_move(job->arenas[i], item->part[i].slot, item->seq, CRN_SLOT_WRITTEN,
                            CRN_SLOT_FLUSHING); /* fails if a worker or the rank was faster */
        to = state_of_end(job, item, i, outcome);
        (void)crn_slot_move(job->arenas[i], item->part[i].slot, item->seq, CRN_SLOT_FLUSHING, to);
        job->has_kept |= to == CRN_SLOT_KEPT;
    }
}

/* Where a drain will find the capture; NULL: nowhere. A local copy in progress may still be
 * finished. */
static const char *kept_where(const struct crn_job *job, const struct crn_action *end)
{
    const struct crn_item *item = end->item;
    int is_copied =
        job->cfg.local[0] != '\0' && crn_level_has(item->levels, CAIRN_CAPTURED) && end->number > 0;
    uint32_t i;

    if (crn_level_has(item->levels, CAIRN_LOCAL) || is_copied)
        return is_copied ? "perhaps on their disks: a later" : "on their disks: a later";
    for (i = 0; i < job->nlocal; i++)
        if (!item->part[i].is_captured || job->arenas[i] == NULL ||
            state_of_end(job, item, i, end->outcome) != CRN_SLOT_KEPT)
            return NULL;
    return "in memory: should this run die, a";
}

/* The first node logs for all; a node that cannot hear it logs for itself. */
void crn_slots_log_end(const struct crn_job *job, const struct crn_action *end)
{
    const struct crn_item *item = end->item;
    enum crn_log_level level =
        item->error.code == CAIRN_OK || item->error.code == CAIRN_ECANCELED ? CRN_INFO : CRN_ERROR;
    const char *where = kept_where(job, end);

    if (job->node != CRN_ROOT && !end->first)
        level = CRN_DEBUG;
    if (item->error.code == CAIRN_OK)
        crn_log(&job->log, level, "%s@%" PRId64 " is persistent", item->name, item->version);
    else if (item->error.code == CAIRN_ECANCELED)
        crn_log(&job->log, level, "%s@%" PRId64 ": %s", item->name, item->version, item->error.msg);
    else if (where != NULL)
        crn_log(&job->log, level,
                "%s@%" PRId64
                " is not saved: %s; its nodes keep it %s start there or 'cairn drain' "
                "saves it",
                item->name, item->version, item->error.msg, where);
    else
        crn_log(&job->log, level, "%s@%" PRId64 " is lost: %s", item->name, item->version,
                item->error.msg);
}
