/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass over all checkpoints of the job is cut into slices of a fraction of a second. The loop starts
 * one a second, and only while the service is idle, so that no checkpoint waits for more than a slice.
 *
 * Reading claims no slot: a rank may drop its capture at any time. Only if a checksum is wrong are the
 * slots claimed, and the chunk is read again. */
#include "service/held_scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/mend.h"
#include "service/parity.h"
#include "service/rebuild.h"
#include "store/journal.h"

#define SLICE_NS ((int64_t)100 * 1000000)

enum held_stage { HELD_MEMORY, HELD_PARITY, HELD_LOCAL, HELD_DONE };

/* A slice: one stage of a checkpoint, from a position on. */
struct held {
    struct crn_job *job;
    struct crn_work *work;
    struct crn_item *item;
    int64_t until_ns;
    /* The captures of this node. */
    struct crn_open_shard *shards;
    struct crn_source *sources;
    struct crn_nodefile own;         /* if it is not protected */
    const struct crn_nodefile *file; /* NULL: the captures have no checksums of their own */
    const struct crn_source *source; /* nlocal entries */
    /* The local copy; -1: none. */
    struct crn_manifest_file local_file;
    struct crn_index local;
    int local_fd;
    unsigned char *chunk; /* chunk_bytes */
    /* What was found. */
    uint32_t nbad, nmended;
    enum held_stage what; /* the last one: where it was */
    const char *from;     /* what the last one was repaired from */
    struct crn_errinfo why;
};

static int64_t held_now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* Each slice goes at least one step on. */
static int is_cut_short(const struct held *h, uint64_t at)
{
    return atomic_load(&crn_data(h->item)->is_over) ||
           (at > h->work->offset && held_now() >= h->until_ns);
}

static void held_next_stage(struct held *h)
{
    h->work->stage++;
    h->work->offset = 0;
}

/* Opening. ------------------------------------------------------------------------------------- */

static cairn_err open_own(struct held *h, struct crn_errinfo *ei)
{
    struct crn_job *job = h->job;
    struct crn_index head;
    uint32_t *slots = calloc(job->nlocal, sizeof(*slots));
    cairn_err rc;
    uint32_t i;

    h->shards = calloc(job->nlocal, sizeof(*h->shards));
    h->sources = calloc(job->nlocal, sizeof(*h->sources));
    if (slots == NULL || h->shards == NULL || h->sources == NULL) {
        free(slots);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u shards", job->nlocal);
    }
    for (i = 0; i < job->nlocal; i++)
        slots[i] = h->item->part[i].slot;
    rc = crn_sources_open(job->arenas, slots, job->nlocal, &job->dir, h->shards, h->sources, ei);
    free(slots);
    if (rc != CAIRN_OK) {
        free(h->sources);
        h->sources = NULL;
        return rc;
    }
    h->source = h->sources;
    for (i = 0; i < job->nlocal; i++)
        if (h->sources[i].hashes == NULL)
            return CAIRN_OK;
    crn_ward_head(job, h->item, &head);
    rc = crn_nodefile_open(crn_fs_default(), &head, h->sources, job->nlocal, job->cfg.block_bytes,
                           job->cfg.chunk_bytes, &h->own, ei);
    h->file = &h->own;
    return rc;
}

/* A copy that cannot be read is none. */
static void open_local(struct held *h)
{
    const char *file = crn_data(h->item)->local;
    const struct crn_fs *fs = crn_fs_default();
    struct crn_errinfo ignored = {0};
    char root[CRN_PATH_MAX];
    struct crn_store st;
    int dfd = -1;

    if (file[0] == '\0' ||
        crn_rundir_local_root(fs, &h->job->cfg, root, sizeof(root), &ignored) != CAIRN_OK ||
        crn_store_open(fs, root, 0, &st, &ignored) != CAIRN_OK)
        return;
    if (crn_store_describe_data(&st, h->item->name, h->item->version, file, &h->local_file,
                                &h->local, &ignored) == CAIRN_OK &&
        h->local.id.seq == h->item->seq && h->local.nstreams == 0 &&
        h->local.chunk_bytes <= h->job->cfg.block_bytes &&
        crn_store_version_dir(&st, h->item->name, h->item->version, &dfd, &ignored) == CAIRN_OK) {
        h->local_fd = fs->openat(fs, dfd, file, O_RDWR | O_NOFOLLOW, 0);
        (void)fs->close(fs, dfd);
    }
    crn_store_close(&st);
}

static cairn_err held_open(struct held *h, struct crn_errinfo *ei)
{
    cairn_err rc = crn_job_check_arenas(h->job, ei);

    h->chunk = malloc(h->job->cfg.block_bytes);
    if (rc == CAIRN_OK && h->chunk == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chunk");
    if (rc != CAIRN_OK)
        return rc;
    if (h->work->is_stream) {
        h->file = crn_ward_file(h->item);
        h->source = h->file->sources;
    } else {
        rc = open_own(h, ei);
    }
    if (rc == CAIRN_OK)
        open_local(h);
    return rc;
}

static void held_close(struct held *h)
{
    const struct crn_fs *fs = crn_fs_default();

    crn_nodefile_close(&h->own);
    if (h->sources != NULL)
        crn_sources_close(h->shards, h->sources, h->job->nlocal);
    free(h->shards);
    free(h->sources);
    if (h->local_fd >= 0)
        (void)fs->close(fs, h->local_fd);
    crn_manifest_file_free(&h->local_file);
    crn_index_free(&h->local);
    free(h->chunk);
}

/* Repairs. ------------------------------------------------------------------------------------- */

static void note_bad(struct held *h, const char *from, const struct crn_errinfo *why)
{
    h->nbad++;
    h->nmended += from != NULL;
    if (from != NULL)
        h->from = from;
    else
        crn_err_keep(&h->why, why);
}

/* The same bytes in the local copy. */
static cairn_err read_local(const struct held *h, uint32_t rank, uint32_t region, uint64_t offset,
                            uint64_t bytes, unsigned char *dst, struct crn_errinfo *ei)
{
    uint64_t got = 0;
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    for (i = 0; h->local_fd >= 0 && rc == CAIRN_OK && i < h->local.nextents; i++) {
        const struct crn_extent *e = &h->local.extents[i];
        uint64_t first = e->offset > offset ? e->offset : offset;
        uint64_t end =
            e->offset + e->bytes < offset + bytes ? e->offset + e->bytes : offset + bytes;

        if (e->region != region || h->local.shards[e->shard].rank != rank || first >= end)
            continue;
        rc = crn_fs_read_all(crn_fs_default(), h->local_fd, dst + (first - offset), end - first,
                             e->file_offset + (first - e->offset), "the local copy", ei);
        got += end - first;
    }
    if (rc == CAIRN_OK && got < bytes)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "it has no local copy");
    return rc;
}

/* The chunk's slots are claimed. */
static void mend_memory(struct held *h, const struct crn_node_chunk *c, uint64_t at)
{
    unsigned char *memory = (unsigned char *)(uintptr_t)crn_nodefile_memory(h->file, at, c->bytes);
    struct crn_errinfo why = {0}, ignored = {0};
    const char *from = NULL;

    if (memory == NULL) {
        (void)!crn_fail(&why, CAIRN_ENOTSUP, 0, "it is not in memory");
    } else if (read_local(h, c->rank, c->extent.region, c->extent.offset, c->bytes, h->chunk,
                          &ignored) == CAIRN_OK &&
               crn_hash(h->chunk, c->bytes) == c->hash) {
        from = "its local copy";
    } else if (!h->work->is_stream) {
        (void)!crn_fail(&why, CAIRN_ENOENT, 0, "there is no other copy of it");
    } else if (crn_mend_chunk(h->job, h->item, at, c->bytes, c->hash, h->chunk, &why) == CAIRN_OK) {
        from = "the other nodes of its set";
    }
    if (from != NULL)
        memcpy(memory, h->chunk, c->bytes);
    note_bad(h, from, &why);
}

/* A checksum is wrong: is it still, when no rank can take the slots? */
static cairn_err look_again(struct held *h, const struct crn_node_chunk *c, uint64_t at,
                            struct crn_errinfo *ei)
{
    uint32_t *slots = NULL;
    cairn_err rc;

    rc = crn_slots_claim(h->job, h->item, &slots, ei);
    if (rc != CAIRN_OK)
        return rc; /* a rank has dropped its capture */
    free(slots);
    rc = crn_nodefile_read(h->file, at, c->bytes, h->chunk, ei);
    if (rc == CAIRN_OK && crn_hash(h->chunk, c->bytes) != c->hash)
        mend_memory(h, c, at);
    crn_slots_unclaim(h->job, h->item);
    return rc;
}

/* Stages. -------------------------------------------------------------------------------------- */

static cairn_err scrub_memory(struct held *h, struct crn_errinfo *ei)
{
    struct crn_node_chunk c;
    uint64_t at = h->work->offset;
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && h->file != NULL && crn_nodefile_chunk(h->file, at, &c)) {
        if (is_cut_short(h, at)) {
            h->work->offset = at;
            return CAIRN_OK;
        }
        rc = crn_nodefile_read(h->file, at, c.bytes, h->chunk, ei);
        if (rc == CAIRN_OK && crn_hash(h->chunk, c.bytes) != c.hash)
            rc = look_again(h, &c, at, ei);
        at += c.bytes;
    }
    held_next_stage(h);
    return rc;
}

/* Reads cells from the position on. CAIRN_EDAMAGED for the first bad one; *ret_at: where it stopped,
 * UINT64_MAX at the end. */
static cairn_err check_cells(struct held *h, const struct crn_parity *p, int fd, uint64_t *ret_at,
                             struct crn_errinfo *ei)
{
    unsigned char *cell = malloc(p->cell_bytes);
    uint64_t position = 0, number = 0;
    cairn_err rc = cell != NULL ? CAIRN_OK : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a cell");
    uint32_t r;

    for (r = 0; rc == CAIRN_OK && r < p->rows; r++) {
        uint64_t off, n;

        for (off = 0; rc == CAIRN_OK && off < p->row_bytes[r]; off += n, position += n, number++) {
            n = p->row_bytes[r] - off < p->cell_bytes ? p->row_bytes[r] - off : p->cell_bytes;
            if (position < h->work->offset)
                continue;
            *ret_at = position;
            if (is_cut_short(h, position)) {
                free(cell);
                return CAIRN_OK;
            }
            rc = crn_fs_read_all(crn_fs_default(), fd, cell, n, position, "parity", ei);
            if (rc == CAIRN_OK && crn_hash(cell, n) != p->hashes[number])
                rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "a checksum of its parity is wrong");
        }
    }
    free(cell);
    *ret_at = UINT64_MAX;
    return rc;
}

/* Damaged parity is made again as a whole, like the first time. If its head is whole, it says what must
 * come out: data of the set may be damaged, too. */
static void mend_parity(struct held *h, const struct crn_parity *head)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    if (atomic_load(&crn_data(h->item)->is_over))
        return;
    rc = crn_parity_make(h->job, h->item, head, &why);
    if (rc != CAIRN_ECANCELED)
        note_bad(h, rc == CAIRN_OK ? "the data of its set" : NULL, &why);
}

static cairn_err scrub_parity(struct held *h, struct crn_errinfo *ei)
{
    char name[CRN_PARITY_FILE];
    struct crn_errinfo why = {0};
    struct crn_parity p = {0};
    uint64_t at = UINT64_MAX;
    int has_head;
    cairn_err rc;
    int fd = -1;

    if (!h->work->is_stream) {
        held_next_stage(h);
        return CAIRN_OK;
    }
    crn_parity_file_name(h->item->seq, name);
    rc = crn_rebuild_load(crn_fs_default(), h->job->dir.dfd, name, name, &p, &fd, &why);
    has_head = rc == CAIRN_OK;
    if (has_head) {
        rc = check_cells(h, &p, fd, &at, &why);
        (void)crn_fs_default()->close(crn_fs_default(), fd);
    }
    if (rc == CAIRN_OK && at != UINT64_MAX) {
        h->work->offset = at;
    } else {
        held_next_stage(h);
        if (rc == CAIRN_EDAMAGED || rc == CAIRN_EFORMAT || rc == CAIRN_ENOENT) {
            rc = CAIRN_OK;
            mend_parity(h, has_head ? &p : NULL);
        }
    }
    crn_parity_free(&p);
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &why);
    return rc;
}

/* Takes the chunk from where it is whole to where it is not. The slots are claimed; n bytes of each. */
static cairn_err even_out(struct held *h, const struct crn_source *s, const struct crn_extent *x,
                          uint64_t hash, uint64_t file_at, struct crn_errinfo *ei)
{
    unsigned char *memory = (unsigned char *)(uintptr_t)crn_source_memory(s, x);
    const struct crn_fs *fs = crn_fs_default();
    struct crn_errinfo why = {0};
    const char *from = NULL;
    cairn_err rc;

    rc = crn_source_read(s, x, fs, h->chunk, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (crn_hash(h->chunk, x->bytes) == hash) { /* the local copy is not whole */
        rc = crn_fs_write_all(fs, h->local_fd, h->chunk, x->bytes, file_at, "the local copy", &why);
        if (rc == CAIRN_OK)
            rc = crn_fs_check(fs->fsync(fs, h->local_fd), &why, "fsync the local copy");
        from = rc == CAIRN_OK ? "memory" : NULL;
        h->what = HELD_LOCAL;
    } else {
        rc = crn_fs_read_all(fs, h->local_fd, h->chunk, x->bytes, file_at, "the local copy", &why);
        if (rc == CAIRN_OK && (memory == NULL || crn_hash(h->chunk, x->bytes) != hash))
            (void)!crn_fail(&why, CAIRN_ENOENT, 0, "its local copy is damaged, too");
        else if (rc == CAIRN_OK)
            memcpy(memory, h->chunk, x->bytes);
        from = why.code == CAIRN_OK ? "its local copy" : NULL;
        h->what = HELD_MEMORY;
    }
    note_bad(h, from, &why);
    return CAIRN_OK;
}

/* Compares a chunk of the local copy, and the same in memory, with the checksum of the local copy. */
static cairn_err check_pair(struct held *h, const struct crn_extent *e, uint64_t skip, uint64_t n,
                            struct crn_errinfo *ei)
{
    uint64_t hash = h->local.hashes[e->first_hash + skip / h->local.chunk_bytes];
    struct crn_extent x = {.region = e->region, .offset = e->offset + skip, .bytes = n};
    const struct crn_source *s = h->source;
    const struct crn_fs *fs = crn_fs_default();
    uint32_t *slots = NULL;
    int is_whole;
    cairn_err rc;

    while (s->shard.rank != h->local.shards[e->shard].rank)
        s++;
    rc = crn_fs_read_all(fs, h->local_fd, h->chunk, n, e->file_offset + skip, "the local copy", ei);
    is_whole = rc == CAIRN_OK && crn_hash(h->chunk, n) == hash;
    if (is_whole)
        rc = crn_source_read(s, &x, fs, h->chunk, ei);
    if (rc != CAIRN_OK || (is_whole && crn_hash(h->chunk, n) == hash))
        return rc;
    rc = crn_slots_claim(h->job, h->item, &slots, ei);
    if (rc != CAIRN_OK)
        return rc; /* a rank has dropped its capture */
    free(slots);
    rc = even_out(h, s, &x, hash, e->file_offset + skip, ei);
    crn_slots_unclaim(h->job, h->item);
    return rc;
}

/* Does this node have the capture of each shard of the local copy? */
static int has_sources(const struct held *h)
{
    uint32_t i, k;

    for (i = 0; i < h->local.nshards; i++) {
        for (k = 0; k < h->job->nlocal; k++)
            if (h->source[k].shard.rank == h->local.shards[i].rank)
                break;
        if (k == h->job->nlocal)
            return 0;
    }
    return 1;
}

static cairn_err scrub_local(struct held *h, struct crn_errinfo *ei)
{
    const struct crn_index *x = &h->local;
    uint64_t position = 0;
    cairn_err rc = CAIRN_OK;
    uint64_t i, skip, n;

    for (i = 0; h->local_fd >= 0 && has_sources(h) && i < x->nextents; i++) {
        const struct crn_extent *e = &x->extents[i];

        for (skip = 0; skip < e->bytes; skip += n, position += n) {
            n = e->bytes - skip < x->chunk_bytes ? e->bytes - skip : x->chunk_bytes;
            if (position < h->work->offset)
                continue;
            if (is_cut_short(h, position)) {
                h->work->offset = position;
                return CAIRN_OK;
            }
            rc = check_pair(h, e, skip, n, ei);
            if (rc != CAIRN_OK)
                return rc;
        }
    }
    held_next_stage(h);
    return CAIRN_OK;
}

/* A slice. ------------------------------------------------------------------------------------- */

static void report_found(struct held *h)
{
    static const char *const what[] = {"the capture in memory", "the parity", "the local copy"};
    struct crn_reporter r = {.fs = crn_fs_default(),
                             .log = &h->job->log,
                             .root = h->job->cfg.persistent,
                             .job = h->job->cfg.job,
                             .run = h->job->run};
    int is_mended = h->nmended == h->nbad;
    char text[CRN_ERR_TEXT];

    if (h->nbad == 0 || (!is_mended && crn_data(h->item)->is_told))
        return;
    crn_data(h->item)->is_told |= !is_mended;
    if (is_mended)
        (void)snprintf(text, sizeof(text), "%s of node %u was damaged and was repaired from %s",
                       what[h->what], h->job->node, h->from);
    else
        (void)snprintf(text, sizeof(text), "%s of node %u is damaged; not repaired: %.*s",
                       what[h->what], h->job->node, CRN_ERR_TEXT / 2, h->why.msg);
    crn_log(&h->job->log, CRN_WARN, "%s@%" PRId64 ": %s", h->item->name, h->item->version, text);
    (void)!crn_journal_report(&r, h->item->name, h->item->version, 0,
                              is_mended ? CRN_EVENT_REPAIRED : CRN_EVENT_DAMAGED, text);
}

void crn_held_scrub_work(struct crn_job *job, struct crn_work *w)
{
    struct held h = {
        .job = job, .work = w, .item = w->item, .until_ns = held_now() + SLICE_NS, .local_fd = -1};
    enum held_stage stage = (enum held_stage)w->stage;
    cairn_err rc;

    h.what = stage;
    rc = held_open(&h, &w->error);
    if (rc == CAIRN_OK && stage == HELD_MEMORY)
        rc = scrub_memory(&h, &w->error);
    else if (rc == CAIRN_OK && stage == HELD_PARITY)
        rc = scrub_parity(&h, &w->error);
    else if (rc == CAIRN_OK)
        rc = scrub_local(&h, &w->error);
    report_found(&h);
    held_close(&h);
    if (rc != CAIRN_OK)
        w->stage = HELD_DONE; /* the next pass tries again */
    w->error.code = rc;
}

/* The loop. ------------------------------------------------------------------------------------ */

/* No worker, no transfer and no rank waits for anything. */
static int is_idle(const struct crn_job *job)
{
    const struct crn_item *item;

    for (item = crn_node_items(job->core); item != NULL; item = item->next)
        if (item->users > 0 || item->ncaptured < job->nlocal)
            return 0;
    return 1;
}

/* The first checkpoint from here on that stays on this node. */
static struct crn_item *next_item(const struct crn_job *job)
{
    struct crn_item *item = crn_node_items(job->core);
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (job->arenas[i] == NULL)
            return NULL;
    while (item != NULL &&
           (item->seq < job->scrub.seq || !crn_level_has(item->levels, CAIRN_CAPTURED) ||
            crn_item_has_ended(item->state)))
        item = item->next;
    return item;
}

void crn_held_scrub_tick(struct crn_job *job, int64_t now_ns)
{
    struct crn_scrubbing *s = &job->scrub;
    int64_t period = (int64_t)job->cfg.scrub_ns;
    struct crn_item *item;
    struct crn_work *w;

    if (period == 0 || s->is_running)
        return;
    if (s->next_ns == 0)
        s->next_ns = now_ns + period;
    if (now_ns < s->next_ns || !is_idle(job))
        return;
    if (s->began_ns == 0)
        s->began_ns = now_ns;
    item = next_item(job);
    if (item == NULL) { /* the pass is over */
        *s = (struct crn_scrubbing){.next_ns = s->began_ns + period};
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return;
    w->kind = CRN_WORK_SCRUB;
    w->job = job;
    w->item = item;
    w->stage = item->seq == s->seq ? s->stage : 0;
    w->offset = item->seq == s->seq ? s->at : 0;
    w->is_stream = crn_level_has(item->levels, CAIRN_PROTECTED) && crn_ward_file(item) != NULL;
    if (crn_work_send(w) != 0)
        return;
    s->is_running = 1;
    crn_item_use(item);
}

void crn_held_scrub_done(struct crn_job *job, const struct crn_work *w)
{
    struct crn_scrubbing *s = &job->scrub;

    s->is_running = 0;
    s->seq = w->item->seq + (w->stage == HELD_DONE);
    s->stage = w->stage == HELD_DONE ? 0 : w->stage;
    s->at = w->stage == HELD_DONE ? 0 : w->offset;
    if (w->error.code != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "scrub of %s@%" PRId64 ", continuing: %s", w->item->name,
                w->item->version, w->error.msg);
}
