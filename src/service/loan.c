/* SPDX-License-Identifier: BSD-3-Clause */
#include "service/loan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/elect.h"
#include "service/flow.h"

/* Length of a chain: every so many versions, one is encoded without a base. */
static uint64_t full_every(const struct crn_job *job, const char *name)
{
    const struct crn_name_config *nc = crn_config_name(&job->cfg, name);

    return nc->encode != CRN_ENCODE_NONE ? nc->encode_full_every : 1;
}

/* Root. ---------------------------------------------------------------------------------------- */

static int is_candidate(const struct crn_job *job, const struct crn_item *item,
                        const struct crn_slot_info *info)
{
    return info->id.seq < item->seq && memcmp(info->id.run, job->run, 16) == 0 &&
           strcmp(info->name, item->name) == 0 && info->version != item->version &&
           !info->is_spilled && !info->is_out && info->nfiles == 0;
}

uint64_t crn_loan_newest(struct crn_job *job, const struct crn_item *item, int64_t *ret_version)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint64_t best = 0;
    uint32_t i;

    if (full_every(job, item->name) <= 1)
        return 0;
    for (i = 0; i < crn_arena_slots(job->arenas[0]); i++)
        if (crn_slot_state(job->arenas[0], i) == CRN_SLOT_FLUSHED &&
            crn_slot_info(job->arenas[0], i, &info, &ignored) == CAIRN_OK &&
            is_candidate(job, item, &info) && info.id.seq >= best) {
            best = info.id.seq + 1;
            *ret_version = info.version;
        }
    return best;
}

/* Slots. --------------------------------------------------------------------------------------- */

/* Lends the slot of a capture of this name. Returns 1, or 0 if it cannot be lent. */
static int loan_lend(const struct crn_job *job, const struct crn_item *item, uint32_t local,
                     struct crn_loan *loan)
{
    struct crn_capture_id id = {.seq = loan->seq};
    struct crn_arena *a = job->arenas[local];
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    int slot;

    memcpy(id.run, job->run, sizeof(id.run));
    slot = a != NULL ? crn_arena_find(a, &id) : -1;
    if (slot < 0 || crn_slot_info(a, (uint32_t)slot, &info, &ignored) != CAIRN_OK ||
        !is_candidate(job, item, &info) || (local > 0 && info.version != loan->version) ||
        !crn_slot_move(a, (uint32_t)slot, loan->seq, CRN_SLOT_FLUSHED, CRN_SLOT_LENT))
        return 0;
    loan->version = info.version;
    loan->slots[local] = (uint32_t)slot;
    return 1;
}

static void give_back(struct crn_job *job, struct crn_loan *loan, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        (void)crn_slot_move(job->arenas[i], loan->slots[i], loan->seq, CRN_SLOT_LENT,
                            CRN_SLOT_FLUSHED);
    if (loan->is_open)
        crn_sources_close(loan->held, loan->sources, job->nlocal);
    free(loan->held);
    free(loan->sources);
    free(loan->slots);
    free(loan);
}

void crn_loan_take(struct crn_job *job, struct crn_item *item, uint64_t base)
{
    struct crn_loan *loan;
    uint32_t i = 0;

    if (base == 0 || crn_data(item)->loan != NULL)
        return;
    loan = calloc(1, sizeof(*loan));
    if (loan == NULL)
        return;
    loan->seq = base - 1;
    loan->slots = calloc(job->nlocal, sizeof(*loan->slots));
    while (loan->slots != NULL && i < job->nlocal && loan_lend(job, item, i, loan))
        i++;
    if (i == job->nlocal) {
        crn_data(item)->loan = loan;
        return;
    }
    crn_log(&job->log, CRN_DEBUG,
            "%s@%" PRId64 " is encoded without a base: rank %u does not have the previous version",
            item->name, item->version, job->rank_of[i]);
    give_back(job, loan, i);
}

void crn_loan_give_back(struct crn_job *job, struct crn_item *item)
{
    if (crn_data(item)->loan != NULL)
        give_back(job, crn_data(item)->loan, job->nlocal);
    crn_data(item)->loan = NULL;
}

int crn_loan_open(struct crn_job *job, struct crn_loan *loan, const struct crn_source *sources)
{
    struct crn_errinfo why = {0};
    uint32_t i;

    if (loan == NULL)
        return 0;
    loan->held = calloc(job->nlocal, sizeof(*loan->held));
    loan->sources = calloc(job->nlocal, sizeof(*loan->sources));
    if (loan->held == NULL || loan->sources == NULL)
        return 0;
    if (crn_sources_open(job->arenas, loan->slots, job->nlocal, &job->dir, loan->held,
                         loan->sources, &why) != CAIRN_OK) {
        crn_log(&job->log, CRN_DEBUG, "the previous version is not used: %s", why.msg);
        return 0;
    }
    loan->is_open = 1;
    for (i = 0; i < job->nlocal; i++)
        if (loan->sources[i].memory == NULL ||
            !crn_older_is_like(&loan->sources[i].shard, &sources[i].shard))
            return 0;
    return 1;
}

/* The leader. ---------------------------------------------------------------------------------- */

/* Do all followers have the same capture? */
static int group_agrees(const struct crn_job *job, const struct crn_item *item)
{
    return crn_data(item)->loan != NULL && item->nlent == crn_node_group_size(job->core) - 1;
}

/* Finds the previous version of each source of the group; those of other nodes stay remote. */
static cairn_err pair_sources(const struct crn_job *job, const struct crn_loan *loan,
                              const struct crn_source *sources, uint32_t n, struct crn_before *b,
                              struct crn_errinfo *ei)
{
    uint32_t i, k;

    b->sources = calloc(n, sizeof(*b->sources));
    if (b->sources == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u shards", n);
    for (i = 0; i < n; i++) {
        b->sources[i] = (struct crn_source){.image_fd = -1, .owner = sources[i].owner};
        for (k = 0; sources[i].owner == 0 && k < job->nlocal; k++)
            if (loan->sources[k].shard.rank == sources[i].shard.rank)
                b->sources[i] = loan->sources[k]; /* borrowed */
    }
    b->older.sources = b->sources;
    b->older.index = &b->index;
    return CAIRN_OK;
}

/* The chain of the new file: the previous version's file, followed by its chain. */
static cairn_err extend_chain(const struct crn_loan *loan, const struct crn_manifest *m,
                              const struct crn_manifest_file *f, struct crn_older *ret,
                              struct crn_errinfo *ei)
{
    ret->bases = calloc((size_t)f->nbases + 1, sizeof(*ret->bases));
    if (ret->bases == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chain of %u", f->nbases + 1);
    ret->bases[0] = (struct crn_base){.version = loan->version,
                                      .id = m->id,
                                      .bytes = f->bytes,
                                      .index_hash = f->trailer.index_hash};
    memcpy(ret->bases[0].file, f->name, sizeof(f->name));
    if (f->nbases > 0)
        memcpy(&ret->bases[1], f->bases, f->nbases * sizeof(*f->bases));
    ret->nbases = f->nbases + 1;
    return CAIRN_OK;
}

/* Reads the index of the previous version. The version on the file system must be the lent capture,
 * and its chain must not be too long. */
static cairn_err read_index(const struct crn_job *job, const struct crn_item *item,
                            const struct crn_store *st, struct crn_before *b,
                            struct crn_errinfo *ei)
{
    uint32_t no = crn_elect_group_of(job->node, job->nodes, job->files);
    const struct crn_loan *loan = crn_data(item)->loan;
    struct crn_capture_id id = {.seq = loan->seq};
    const struct crn_manifest_file *f;
    struct crn_manifest_file found = {0};
    struct crn_manifest m;
    cairn_err rc;

    memcpy(id.run, job->run, sizeof(id.run));
    rc = crn_store_manifest(st, item->name, loan->version, &m, ei);
    if (rc != CAIRN_OK)
        return rc;
    f = no < m.nfiles ? &m.files[no] : NULL;
    if (!crn_capture_id_equal(&m.id, &id) || m.nfiles != job->files || f == NULL)
        rc = crn_fail(ei, CAIRN_ESTATE, 0, "version %" PRId64 " was taken again", loan->version);
    else if (f->nbases + 2 > full_every(job, item->name) || f->nbases >= CRN_MAX_BASES)
        rc = crn_fail(ei, CAIRN_ESTATE, 0, "a version without a base is due");
    if (rc == CAIRN_OK)
        rc = crn_store_describe_data(st, item->name, loan->version, f->name, &found, &b->index, ei);
    if (rc == CAIRN_OK && found.trailer.index_hash != f->trailer.index_hash)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is not the file that its manifest names",
                      f->name);
    if (rc == CAIRN_OK)
        rc = extend_chain(loan, &m, f, &b->older, ei);
    crn_manifest_file_free(&found);
    crn_manifest_free(&m);
    return rc;
}

struct crn_before *crn_before_open(struct crn_job *job, const struct crn_item *item,
                                   const struct crn_source *local, const struct crn_source *sources,
                                   uint32_t nsources)
{
    struct crn_errinfo why = {0};
    struct crn_before *b;
    struct crn_store st;
    cairn_err rc;

    if (!group_agrees(job, item) || !crn_loan_open(job, crn_data(item)->loan, local))
        return NULL;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return NULL;
    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 0, &st, &why);
    if (rc == CAIRN_OK) {
        rc = read_index(job, item, &st, b, &why);
        crn_store_close(&st);
    }
    if (rc == CAIRN_OK)
        rc = pair_sources(job, crn_data(item)->loan, sources, nsources, b, &why);
    if (rc == CAIRN_OK)
        return b;
    crn_log(&job->log, CRN_DEBUG, "%s@%" PRId64 " is encoded without a base: %s", item->name,
            item->version, why.msg);
    crn_before_close(b);
    return NULL;
}

void crn_before_close(struct crn_before *b)
{
    if (b == NULL)
        return;
    crn_index_free(&b->index);
    free(b->older.bases);
    free(b->sources);
    free(b);
}
