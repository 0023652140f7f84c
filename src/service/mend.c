/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing is claimed on the other nodes: a capture or a parity file that changes meanwhile gives bytes
 * with a wrong checksum, and those are discarded. */
#include "service/mend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "protect/field.h"
#include "service/parity.h"

#define NOBODY UINT32_MAX

/* How one attempt makes the bytes: which column and which parity rows it does without. */
struct mend {
    struct crn_job *job;
    struct crn_item *item;
    struct crn_stripes plan;
    uint32_t place;   /* of this node in its set */
    uint32_t row;     /* the only parity row to use; NOBODY: all */
    uint32_t suspect; /* the place of a member whose data is not used; NOBODY: none */
};

/* A part of a member's stream, or of its parity file. */
static cairn_err fetch_part(struct mend *m, uint32_t place, int is_parity, uint64_t offset,
                            uint64_t bytes, void **ret_block, struct crn_errinfo *ei)
{
    struct crn_ticket t = {.job = m->job};
    struct crn_work *w = calloc(1, sizeof(*w));
    void *block = malloc(bytes);

    if (w == NULL || block == NULL) {
        free(w);
        free(block);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a repair");
    }
    *w = (struct crn_work){.kind = CRN_WORK_FETCH_STREAM,
                           .job = m->job,
                           .item = m->item,
                           .ticket = &t,
                           .block = block,
                           .node = m->job->member[place],
                           .is_parity = is_parity,
                           .offset = offset,
                           .bytes = bytes};
    crn_service_result(m->job->svc, w);
    crn_ticket_await(&t);
    if (t.error.code != CAIRN_OK) {
        free(t.block);
        crn_err_keep(ei, &t.error);
        return t.error.code;
    }
    *ret_block = t.block;
    return CAIRN_OK;
}

/* Adds a piece of the stripe, from `off` of its row on, to dst. */
static cairn_err mend_add(struct mend *m, uint32_t stripe, uint32_t piece, uint8_t factor,
                          uint64_t off, uint64_t bytes, unsigned char *dst, struct crn_errinfo *ei)
{
    struct crn_segment x = {0};
    void *block = NULL;
    cairn_err rc;

    if (piece < m->plan.columns) {
        crn_stripes_segment(&m->plan, stripe, piece, &x);
        if (x.bytes <= off)
            return CAIRN_OK;
        bytes = x.bytes - off < bytes ? x.bytes - off : bytes;
        rc = fetch_part(m, x.member, 0, x.offset + off, bytes, &block, ei);
    } else {
        uint32_t row = piece - m->plan.columns;
        uint32_t keeper = crn_stripes_keeper(&m->plan, stripe, row);

        rc = fetch_part(m, keeper, 1, crn_stripes_row_at(&m->plan, keeper, row) + off, bytes,
                        &block, ei);
    }
    if (rc == CAIRN_OK)
        crn_field_add(dst, block, factor, bytes);
    free(block);
    return rc;
}

/* The part of one segment. */
static cairn_err mend_segment(struct mend *m, uint32_t segment, uint64_t off, uint64_t bytes,
                              unsigned char *dst, struct crn_errinfo *ei)
{
    uint32_t stripe = crn_stripes_of(&m->plan, m->place, segment);
    unsigned char has[2 * CRN_SET_MAX];
    uint8_t factors[2 * CRN_SET_MAX];
    cairn_err rc = CAIRN_OK;
    struct crn_segment x;
    uint32_t p;

    for (p = 0; p < m->plan.columns; p++) {
        crn_stripes_segment(&m->plan, stripe, p, &x);
        has[p] = x.member != m->place && x.member != m->suspect;
    }
    for (p = 0; p < m->plan.scheme.parity; p++)
        has[m->plan.columns + p] = m->row == NOBODY || m->row == p;
    if (crn_scheme_rebuild(m->plan.scheme, m->plan.columns, has, segment, factors) != 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "its set cannot do without another member");
    memset(dst, 0, bytes);
    for (p = 0; rc == CAIRN_OK && p < m->plan.columns + m->plan.scheme.parity; p++)
        if (factors[p] != 0)
            rc = mend_add(m, stripe, p, factors[p], off, bytes, dst, ei);
    return rc;
}

static cairn_err mend_attempt(struct mend *m, uint64_t at, uint64_t bytes, uint64_t hash,
                              unsigned char *dst, struct crn_errinfo *ei)
{
    uint64_t unit = m->plan.segment_bytes;
    cairn_err rc = CAIRN_OK;
    uint64_t done, part;

    for (done = 0; rc == CAIRN_OK && done < bytes; done += part) {
        uint64_t off = (at + done) % unit;

        part = unit - off < bytes - done ? unit - off : bytes - done;
        rc = mend_segment(m, (uint32_t)((at + done) / unit), off, part, dst + done, ei);
    }
    if (rc == CAIRN_OK && crn_hash(dst, bytes) != hash)
        rc =
            crn_fail(ei, CAIRN_EDAMAGED, 0, "what the other nodes of its set hold is damaged, too");
    return rc;
}

cairn_err crn_mend_chunk(struct crn_job *job, struct crn_item *item, uint64_t at, uint64_t bytes,
                         uint64_t hash, unsigned char *dst, struct crn_errinfo *ei)
{
    struct mend m = {.job = job, .item = item, .suspect = NOBODY};
    struct crn_errinfo first = {0};
    cairn_err rc = CAIRN_ENOENT;

    crn_stripes_plan(item->scheme, job->nmembers, item->streams->bytes, &m.plan);
    while (job->member[m.place] != job->node)
        m.place++;
    for (m.row = 0; rc != CAIRN_OK && m.row < m.plan.scheme.parity; m.row++) {
        rc = mend_attempt(&m, at, bytes, hash, dst, ei);
        crn_err_keep(&first, ei);
        crn_err_clear(ei);
    }
    m.row = NOBODY; /* two parity rows instead of another member's data, too */
    for (m.suspect = 0; rc != CAIRN_OK && m.plan.scheme.parity > 1 && m.suspect < m.plan.members;
         m.suspect++) {
        rc = mend_attempt(&m, at, bytes, hash, dst, ei);
        crn_err_clear(ei);
    }
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &first);
    return rc;
}
