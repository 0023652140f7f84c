/* SPDX-License-Identifier: BSD-3-Clause */
/* The protector thread of a job: parity.h. It has a few blocks in flight, one that adds up, and no
 * other memory, however large the data is. The loop carries its requests; see flow.c. */
#include "service/parity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protect/field.h"
#include "service/flow.h"

#define WINDOW    4 /* blocks in flight */
#define CELL_MOST ((uint64_t)4 << 20)

/* Names. --------------------------------------------------------------------------------------- */

void crn_parity_file_name(uint64_t seq, char ret[CRN_PARITY_FILE])
{
    (void)snprintf(ret, CRN_PARITY_FILE, "parity-%" PRIu64, seq);
}

/* The number in such a name: 0 or -1. */
static int parity_file_parse(const char *name, uint64_t *ret_seq)
{
    char again[CRN_PARITY_FILE];

    if (strncmp(name, "parity-", 7) != 0)
        return -1;
    *ret_seq = strtoull(name + 7, NULL, 10);
    crn_parity_file_name(*ret_seq, again);
    return strcmp(name, again) == 0 ? 0 : -1;
}

/* The stream. ---------------------------------------------------------------------------------- */

/* The index of a node's stream, as its service and a drain describe it. */
void crn_ward_head(const struct crn_job *job, const struct crn_item *item, struct crn_index *head)
{
    *head = (struct crn_index){.id = {.seq = item->seq, .generation = item->generation},
                               .version = item->version,
                               .file_no = job->node,
                               .files = job->nodes,
                               .ranks = job->ranks,
                               .nodes = job->nodes,
                               .created_ns = item->created_ns};
    memcpy(head->id.run, job->run, sizeof(head->id.run));
    memcpy(head->name, item->name, sizeof(head->name));
}

static cairn_err open_ward(struct crn_job *job, struct crn_item *item, struct crn_ward *ward,
                           struct crn_errinfo *ei)
{
    struct crn_index head;
    uint32_t *slots = NULL;
    cairn_err rc;

    ward->held = calloc(job->nlocal, sizeof(*ward->held));
    ward->sources = calloc(job->nlocal, sizeof(*ward->sources));
    if (ward->held == NULL || ward->sources == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u shards", job->nlocal);
    rc = crn_job_check_arenas(job, ei);
    if (rc == CAIRN_OK)
        rc = crn_slots_claim(job, item, &slots, ei);
    if (rc != CAIRN_OK)
        return rc;
    ward->is_claimed = 1;
    rc =
        crn_sources_open(job->arenas, slots, job->nlocal, &job->dir, ward->held, ward->sources, ei);
    free(slots);
    if (rc != CAIRN_OK)
        return rc;
    crn_ward_head(job, item, &head);
    rc = crn_nodefile_open(crn_fs_default(), &head, ward->sources, job->nlocal,
                           job->cfg.block_bytes, job->cfg.chunk_bytes, &ward->file, ei);
    if (rc != CAIRN_OK)
        crn_sources_close(ward->held, ward->sources, job->nlocal);
    return rc;
}

static cairn_err work_stream(struct crn_job *job, struct crn_work *w)
{
    struct crn_ward *ward = calloc(1, sizeof(*ward));
    cairn_err rc;

    if (ward == NULL)
        return crn_fail(&w->error, CAIRN_ENOMEM, ENOMEM, "a stream");
    rc = open_ward(job, w->item, ward, &w->error);
    ward->is_open = rc == CAIRN_OK;
    w->bytes = ward->file.bytes;
    w->hash = ward->file.index_hash;
    crn_data(w->item)->ward = ward; /* the loop reads it after the result is back */
    return rc;
}

const struct crn_nodefile *crn_ward_file(const struct crn_item *item)
{
    const struct crn_ward *ward = crn_data(item)->ward;

    return ward != NULL && ward->is_open ? &ward->file : NULL;
}

void crn_ward_done(struct crn_job *job, struct crn_item *item)
{
    struct crn_ward *ward = crn_data(item)->ward;

    if (ward == NULL || !ward->is_claimed)
        return;
    ward->is_claimed = 0;
    crn_slots_unclaim(job, item);
}

void crn_ward_free(struct crn_job *job, struct crn_item *item)
{
    struct crn_ward *ward = crn_data(item)->ward;

    if (ward == NULL)
        return;
    if (ward->is_open)
        crn_sources_close(ward->held, ward->sources, job->nlocal);
    crn_nodefile_close(&ward->file);
    free(ward->held);
    free(ward->sources);
    free(ward);
}

/* Blocks of other members. --------------------------------------------------------------------- */

void crn_ticket_done(struct crn_ticket *t, void *block, const struct crn_errinfo *error)
{
    struct crn_job *job = t->job;

    crn_lock(&job->mu);
    t->block = block;
    if (error != NULL)
        t->error = *error;
    t->is_done = 1;
    crn_cond_broadcast(&job->wake);
    crn_unlock(&job->mu);
}

void crn_ticket_await(struct crn_ticket *t)
{
    struct crn_job *job = t->job;

    crn_lock(&job->mu);
    while (!t->is_done)
        crn_cond_wait(&job->wake, &job->mu);
    crn_unlock(&job->mu);
}

/* A part of a segment that goes into a cell of a row. */
struct parity_piece {
    uint32_t row, column, member;
    uint64_t off;           /* of the cell in the row */
    uint64_t offset, bytes; /* in the member's stream */
    int has_begun;          /* 0: before the first piece */
};

/* The file being made. */
struct parity_make {
    struct crn_job *job;
    struct crn_item *item;
    const struct crn_parity *like; /* NULL: it is made for the first time */
    struct crn_stripes plan;
    struct crn_parity head;
    uint32_t place;
    uint64_t cell_bytes;
    struct parity_piece asked, taken; /* where the two walks are */
    int is_all_asked;
    struct crn_ticket ticket[WINDOW];
    void *block[WINDOW];
    uint64_t nasked, ntaken;
    unsigned char *cell;
    uint64_t cell_row, cell_off; /* of the cell that is being added up */
    uint64_t filled;             /* its bytes; 0: none */
    uint64_t at;                 /* of the file: next cell */
    int fd;
};

/* Goes to the next column, cell or row. Returns 0 at the end. */
static int step_piece(const struct parity_make *m, struct parity_piece *p)
{
    uint64_t row;

    if (!p->has_begun) {
        p->has_begun = 1;
        return 1;
    }
    row = crn_stripes_row_bytes(&m->plan, crn_stripes_kept(&m->plan, m->place, p->row));
    if (++p->column < m->plan.columns)
        return 1;
    p->column = 0;
    p->off += m->cell_bytes;
    if (p->off < row)
        return 1;
    p->off = 0;
    return ++p->row < m->plan.scheme.parity;
}

/* Steps to the next piece that has bytes. Returns 0 at the end. */
static int next_piece(const struct parity_make *m, struct parity_piece *p)
{
    struct crn_segment x;

    while (step_piece(m, p)) {
        crn_stripes_segment(&m->plan, crn_stripes_kept(&m->plan, m->place, p->row), p->column, &x);
        if (x.bytes <= p->off)
            continue;
        p->member = x.member;
        p->offset = x.offset + p->off;
        p->bytes = x.bytes - p->off < m->cell_bytes ? x.bytes - p->off : m->cell_bytes;
        return 1;
    }
    return 0;
}

/* Has the loop request the next piece. */
static cairn_err ask_piece(struct parity_make *m, struct crn_errinfo *ei)
{
    uint32_t i = (uint32_t)(m->nasked % WINDOW);
    struct crn_work *w;

    if (m->is_all_asked || !next_piece(m, &m->asked)) {
        m->is_all_asked = 1;
        return CAIRN_OK;
    }
    if (m->block[i] == NULL)
        m->block[i] = malloc(m->cell_bytes);
    w = calloc(1, sizeof(*w));
    if (w == NULL || m->block[i] == NULL) {
        free(w);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a block of parity");
    }
    m->ticket[i] = (struct crn_ticket){.job = m->job};
    *w = (struct crn_work){.kind = CRN_WORK_FETCH_STREAM,
                           .job = m->job,
                           .item = m->item,
                           .ticket = &m->ticket[i],
                           .block = m->block[i],
                           .node = m->job->member[m->asked.member],
                           .offset = m->asked.offset,
                           .bytes = m->asked.bytes};
    m->block[i] = NULL; /* until the ticket is done */
    m->nasked++;
    crn_service_result(m->job->svc, w);
    return CAIRN_OK;
}

/* Waits for the oldest piece. */
static cairn_err await_piece(struct parity_make *m, struct crn_errinfo *ei)
{
    uint32_t i = (uint32_t)(m->ntaken % WINDOW);
    struct crn_ticket *t = &m->ticket[i];

    crn_ticket_await(t);
    m->block[i] = t->block;
    m->ntaken++;
    if (t->error.code != CAIRN_OK)
        crn_err_keep(ei, &t->error);
    return t->error.code;
}

/* The file. ------------------------------------------------------------------------------------ */

/* The cell is complete: its checksum, and into the file. */
static cairn_err end_cell(struct parity_make *m, struct crn_errinfo *ei)
{
    cairn_err rc;

    if (m->filled == 0)
        return CAIRN_OK;
    m->head.hashes[m->head.nhashes++] = crn_hash(m->cell, m->filled);
    rc = crn_fs_write_all(crn_fs_default(), m->fd, m->cell, m->filled, m->at, "parity", ei);
    m->at += m->filled;
    m->filled = 0;
    return rc;
}

/* Begins a cell with its first piece: takes the block itself, if it is not to be multiplied. */
static void begin_cell(struct parity_make *m, const struct parity_piece *p, void **block,
                       uint8_t factor)
{
    unsigned char *taken = *block;

    if (factor == 1) {
        *block = m->cell;
        m->cell = taken;
        memset(m->cell + p->bytes, 0, m->filled - p->bytes);
        return;
    }
    memset(m->cell, 0, m->filled);
    crn_field_add(m->cell, *block, factor, p->bytes);
}

static cairn_err add_piece(struct parity_make *m, const struct parity_piece *p, void **block,
                           struct crn_errinfo *ei)
{
    uint64_t row = crn_stripes_row_bytes(&m->plan, crn_stripes_kept(&m->plan, m->place, p->row));
    uint8_t factor = crn_scheme_factor(m->plan.scheme, m->plan.columns, p->row, p->column);
    cairn_err rc;

    if (m->filled > 0 && m->cell_row == p->row && m->cell_off == p->off) {
        crn_field_add(m->cell, *block, factor, p->bytes);
        return CAIRN_OK;
    }
    rc = end_cell(m, ei);
    m->cell_row = p->row;
    m->cell_off = p->off;
    m->filled = row - p->off < m->cell_bytes ? row - p->off : m->cell_bytes;
    begin_cell(m, p, block, factor);
    return rc;
}

static int is_over(const struct parity_make *m)
{
    return atomic_load(&crn_data(m->item)->is_over);
}

/* All rows. Every request that was made is awaited, also after a failure or when the checkpoint has
 * ended: a send that nobody receives would never end. */
static cairn_err make_rows(struct parity_make *m, struct crn_errinfo *ei)
{
    struct crn_errinfo later = {0};
    cairn_err rc = CAIRN_OK;

    do {
        while (rc == CAIRN_OK && !m->is_all_asked && m->nasked - m->ntaken < WINDOW)
            rc = ask_piece(m, ei);
        if (m->nasked == m->ntaken)
            break;
        if (rc == CAIRN_OK && is_over(m))
            rc = crn_fail(ei, CAIRN_ECANCELED, 0, "the checkpoint has ended");
        if (rc != CAIRN_OK) {
            (void)!await_piece(m, &later);
            continue;
        }
        rc = await_piece(m, ei);
        if (rc == CAIRN_OK) {
            uint32_t i = (uint32_t)((m->ntaken - 1) % WINDOW);

            (void)next_piece(m, &m->taken);
            rc = add_piece(m, &m->taken, &m->block[i], ei);
        }
    } while (m->nasked > m->ntaken || (rc == CAIRN_OK && !m->is_all_asked));
    return rc == CAIRN_OK ? end_cell(m, ei) : rc;
}

/* Describes the file, but for its checksums. */
static cairn_err describe_parity(struct parity_make *m, struct crn_errinfo *ei)
{
    const struct crn_item *item = m->item;
    const struct crn_nodefile *file = crn_ward_file(item);
    struct crn_parity *p = &m->head;
    struct crn_index head;
    uint64_t cells = 0;
    uint32_t i;

    crn_ward_head(m->job, item, &head);
    p->id = head.id;
    memcpy(p->name, head.name, sizeof(p->name));
    p->version = head.version;
    p->created_ns = head.created_ns;
    p->ranks = head.ranks;
    p->nodes = head.nodes;
    p->scheme = m->plan.scheme.kind;
    p->rows = m->plan.scheme.parity;
    p->place = (uint8_t)m->place;
    p->nmembers = (uint8_t)m->plan.members;
    for (i = 0; i < m->plan.members; i++)
        p->member[i] = (struct crn_parity_member){m->job->member[i], item->streams->bytes[i],
                                                  item->streams->index_hash[i]};
    for (i = 0; i < p->rows; i++) {
        p->row_bytes[i] = crn_stripes_row_bytes(&m->plan, crn_stripes_kept(&m->plan, m->place, i));
        cells += p->row_bytes[i] / m->cell_bytes + 1;
    }
    p->cell_bytes = m->cell_bytes;
    p->tail_bytes = file->tail_bytes;
    p->tail = malloc(file->tail_bytes);
    p->hashes = calloc(cells + 1, sizeof(*p->hashes));
    m->cell = malloc(m->cell_bytes);
    if (p->tail == NULL || p->hashes == NULL || m->cell == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a block of parity");
    memcpy(p->tail, file->tail, file->tail_bytes);
    return CAIRN_OK;
}

/* The head and the mark, after the rows; then the file is whole. */
static cairn_err finish_file(struct parity_make *m, const char *temp, const char *name,
                             struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    struct crn_buf buf = {0};
    cairn_err rc;

    rc = crn_parity_encode(&m->head, &buf, ei);
    if (rc == CAIRN_OK) {
        crn_buf_u64(&buf, buf.len);
        if (buf.failed)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a block of parity");
    }
    if (rc == CAIRN_OK)
        rc = crn_fs_write_all(fs, m->fd, buf.data, buf.len, m->at, name, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->fsync(fs, m->fd), ei, "fsync '%s'", name);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->renameat(fs, m->job->dir.dfd, temp, m->job->dir.dfd, name), ei,
                          "rename '%s'", temp);
    crn_buf_free(&buf);
    return rc;
}

/* Is it what was made before? */
static int is_alike(const struct parity_make *m)
{
    const struct crn_parity *p = m->like;

    return p == NULL || (p->nhashes == m->head.nhashes && p->cell_bytes == m->head.cell_bytes &&
                         memcmp(p->hashes, m->head.hashes, p->nhashes * sizeof(*p->hashes)) == 0);
}

static cairn_err make_file(struct parity_make *m, struct crn_errinfo *ei)
{
    uint64_t bytes = crn_stripes_row_at(&m->plan, m->place, m->plan.scheme.parity);
    const struct crn_fs *fs = crn_fs_default();
    char name[CRN_PARITY_FILE];
    char temp[CRN_PARITY_FILE + 8];
    cairn_err rc;
    int r;

    crn_parity_file_name(m->item->seq, name);
    (void)snprintf(temp, sizeof(temp), ".%s.tmp", name);
    m->fd = fs->openat(fs, m->job->dir.dfd, temp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (m->fd < 0)
        return crn_fail_errno(ei, -m->fd, "create '%s/%s'", m->job->dir.path, temp);
    r = bytes > 0 ? fs->fallocate(fs, m->fd, 0, (off_t)bytes) : 0;
    if (r == -EOPNOTSUPP)
        r = 0;
    rc = crn_fs_check(r, ei, "reserve %" PRIu64 " bytes for parity in '%s'", bytes,
                      m->job->dir.path);
    if (rc == CAIRN_OK)
        rc = make_rows(m, ei);
    if (rc == CAIRN_OK)
        rc = crn_job_check_arenas(m->job, ei); /* what other members fetched may be zeros */
    if (rc == CAIRN_OK && !is_alike(m))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "data of its set is damaged, too");
    if (rc == CAIRN_OK)
        rc = finish_file(m, temp, name, ei);
    (void)fs->close(fs, m->fd);
    if (rc != CAIRN_OK)
        (void)fs->unlinkat(fs, m->job->dir.dfd, temp, 0);
    return rc;
}

cairn_err crn_parity_make(struct crn_job *job, struct crn_item *item, const struct crn_parity *like,
                          struct crn_errinfo *ei)
{
    uint64_t block = job->cfg.block_bytes < CELL_MOST ? job->cfg.block_bytes : CELL_MOST;
    struct parity_make m = {.job = job, .item = item, .like = like, .cell_bytes = block};
    cairn_err rc;
    int i;

    if (atomic_load(&crn_data(item)->is_over))
        return crn_fail(ei, CAIRN_ECANCELED, 0, "the checkpoint has ended");
    while (job->member[m.place] != job->node)
        m.place++;
    crn_stripes_plan(item->scheme, job->nmembers, item->streams->bytes, &m.plan);
    rc = describe_parity(&m, ei);
    if (rc == CAIRN_OK)
        rc = make_file(&m, ei);
    for (i = 0; i < WINDOW; i++)
        free(m.block[i]);
    free(m.cell);
    crn_parity_free(&m.head);
    return crn_err_context(ei, rc, "protection of %s@%" PRId64 " on node %u", item->name,
                           item->version, job->node);
}

void *crn_parity_main(void *arg)
{
    struct crn_job *job = arg;
    struct crn_work *w;

    crn_thread_background(CRN_BACKGROUND_NICE);
    while ((w = crn_queue_pop(&job->protect_queue)) != NULL) {
        w->error.code = w->kind == CRN_WORK_STREAM ? work_stream(job, w)
                                                   : crn_parity_make(job, w->item, NULL, &w->error);
        crn_service_result(job->svc, w);
    }
    crn_job_worker_ended(job);
    return NULL;
}

cairn_err crn_parity_read(const struct crn_job *job, uint64_t seq, uint64_t at, uint64_t bytes,
                          void *dst, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    char name[CRN_PARITY_FILE];
    cairn_err rc;
    int fd;

    crn_parity_file_name(seq, name);
    fd = fs->openat(fs, job->dir.dfd, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s'", job->dir.path, name);
    rc = crn_fs_read_all(fs, fd, dst, bytes, at, name, ei);
    (void)fs->close(fs, fd);
    return rc;
}

/* Old parity. ---------------------------------------------------------------------------------- */

/* May an arena still hold the capture, and a drain want it? One that is not mapped may. */
static int is_held(const struct crn_job *job, uint64_t seq)
{
    uint32_t i, s;

    for (i = 0; i < job->nlocal; i++) {
        if (job->arenas[i] == NULL)
            return 1;
        for (s = 0; s < crn_arena_slots(job->arenas[i]); s++) {
            enum crn_slot_state state = crn_slot_state_of(job->arenas[i], s, seq);

            if (state == CRN_SLOT_WRITING || state == CRN_SLOT_WRITTEN ||
                state == CRN_SLOT_FLUSHING || state == CRN_SLOT_KEPT)
                return 1;
        }
    }
    return 0;
}

void crn_parity_retire(struct crn_job *job)
{
    const struct crn_fs *fs = crn_fs_default();
    struct crn_names names = {0};
    struct crn_errinfo ei = {0};
    uint64_t seq;
    size_t i;

    if (job->nmembers == 0)
        return;
    if (crn_fs_names(fs, job->dir.dfd, job->dir.path, &names, &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "old parity stays, continuing: %s", ei.msg);
    for (i = 0; i < names.n; i++)
        if (parity_file_parse(names.name[i], &seq) == 0 && !is_held(job, seq))
            (void)fs->unlinkat(fs, job->dir.dfd, names.name[i], 0); /* the next time, if not now */
    crn_names_free(&names);
}
