/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective read. First readers learn what ranks want of them (wishes.c). Then they read and send
 * while every rank receives, until it has all that it asked for or has heard that the rest will not come.
 * All steps that can run out of memory come first and end in an agreement, so that afterwards no
 * rank leaves the call alone. */
#include "restart/scatter_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "restart/version_impl.h"

struct crn_buffer *crn_buffer_take(struct crn_buffer *buffers)
{
    int i;

    for (i = 0; i < CRN_SCATTER_BUFFERS; i++)
        if (!buffers[i].is_used) {
            buffers[i].is_used = 1;
            return &buffers[i];
        }
    return NULL;
}

/* The reader number of this rank; -1 if it is not a reader. */
static int reader_no(const struct crn_readers *team)
{
    uint32_t i;

    for (i = 0; i < team->nreaders; i++)
        if (team->readers[i] == team->comm->rank)
            return (int)i;
    return -1;
}

cairn_err crn_scatter_agree(struct crn_comm *comm, cairn_err rc, struct crn_errinfo *ei)
{
    struct crn_errinfo mpi = {0};
    int64_t worst = rc;

    if (comm->ops->allreduce(comm, &worst, 1, CRN_COMM_MIN, &mpi) != CAIRN_OK) {
        crn_err_keep(ei, &mpi);
        return mpi.code;
    }
    if (worst == CAIRN_OK || rc != CAIRN_OK)
        return rc;
    return crn_fail(ei, (cairn_err)worst, 0, "another rank could not prepare the read");
}

/* Preparation. --------------------------------------------------------------------------------- */

static int scatter_wants(void *arg, uint32_t rank, uint32_t region, uint64_t begin, uint64_t end)
{
    const struct crn_scatter_run *r = arg;
    size_t i;

    for (i = crn_wishes_first(r, rank, region);
         i < r->nwishes && crn_wish_is_for(&r->wishes[i], rank, region); i++)
        if (r->wishes[i].p.from < end && crn_slice_end(&r->wishes[i].p) > begin)
            return 1;
    return 0;
}

/* What only this process wants, in one run, is read straight into its place. */
static unsigned char *scatter_place(void *arg, uint32_t rank, uint32_t region, uint64_t begin,
                                    uint64_t end)
{
    const struct crn_scatter_run *r = arg;
    size_t i = crn_wishes_first(r, rank, region);
    const struct crn_wish *w = i < r->nwishes ? &r->wishes[i] : NULL;

    if (w == NULL || !crn_wish_is_for(w, rank, region) || !r->wishers[w->who].is_self ||
        (i + 1 < r->nwishes && crn_wish_is_for(w + 1, rank, region)))
        return NULL;
    if (w->p.ndims > 0 || w->p.from > begin || w->p.from + w->p.run < end)
        return NULL;
    return r->c->memory + w->p.to + (begin - w->p.from);
}

static cairn_err open_pass(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    struct crn_pass_options o = crn_wishes_options(r->c, r->team);

    o.share = (uint32_t)r->reader;
    if (!r->c->is_check)
        o.wants = scatter_wants;
    o.place = scatter_place;
    o.arg = r;
    return crn_pass_open(&o, &r->pass, ei);
}

static cairn_err make_buffers(struct crn_buffer *b, uint64_t bytes, struct crn_errinfo *ei)
{
    int i;

    for (i = 0; i < CRN_SCATTER_BUFFERS && bytes > 0; i++) {
        b[i].data = malloc(bytes);
        if (b[i].data == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%llu bytes to gather runs in",
                            (unsigned long long)bytes);
    }
    return CAIRN_OK;
}

/* The most bytes of a part in one message, if its runs need a buffer. */
static uint64_t buffer_bytes(const struct crn_scatter_run *r, const struct crn_slice *p,
                             uint64_t most)
{
    uint64_t bytes = p->ndims > 0 ? crn_slice_bytes(p) : 0;

    bytes = bytes < r->message_bytes ? bytes : r->message_bytes;
    return bytes > most ? bytes : most;
}

static cairn_err scatter_prepare(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    uint64_t most = 0;
    cairn_err rc;
    uint32_t i;
    size_t k;

    r->message_bytes = r->c->block_bytes;
    for (i = 0; i < r->team->nfiles; i++) {
        const struct crn_index *x = &r->c->v->files[r->team->files[i]].index;

        if (x->chunk_bytes > r->message_bytes)
            r->message_bytes = (size_t)x->chunk_bytes;
    }
    for (i = 0; i < r->c->nparts; i++) {
        r->expected += crn_slice_bytes(&r->c->parts[i]);
        most = buffer_bytes(r, &r->c->parts[i], most);
    }
    rc = make_buffers(r->scratch, most, ei);
    if (rc != CAIRN_OK || r->reader < 0)
        return rc;
    for (k = 0, most = 0; k < r->nwishes; k++)
        if (!r->wishers[r->wishes[k].who].is_self)
            most = buffer_bytes(r, &r->wishes[k].p, most);
    rc = make_buffers(r->pack, most, ei);
    return rc == CAIRN_OK ? open_pass(r, ei) : rc;
}

/* Transfer. ------------------------------------------------------------------------------------ */

static cairn_err read_on(struct crn_scatter_run *r, int *busy, struct crn_errinfo *ei)
{
    struct crn_pass_block *b = crn_pass_next(r->pass, r->team->comm->size == 1);
    cairn_err rc = CAIRN_OK;

    if (b != NULL) {
        *busy = 1;
        rc = crn_send_block(r, b, ei);
    }
    if (rc == CAIRN_OK && crn_pass_is_over(r->pass) && !r->has_told_end) {
        r->has_told_end = 1;
        rc = crn_send_end(r, ei);
    }
    return rc;
}

static int is_done(const struct crn_scatter_run *r)
{
    return r->got + r->missed == r->expected && r->sending == NULL &&
           (r->pass == NULL || (crn_pass_is_over(r->pass) && r->has_told_end));
}

static cairn_err scatter_move(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    unsigned tries = 0;

    while (rc == CAIRN_OK && !is_done(r)) {
        int busy = 0;

        rc = crn_receive(r, &busy, ei);
        if (rc == CAIRN_OK)
            rc = crn_send_progress(r, &busy, ei);
        if (rc == CAIRN_OK && r->pass != NULL)
            rc = read_on(r, &busy, ei);
        if (busy)
            tries = 0;
        else if (!is_done(r))
            crn_comm_nap(tries++);
    }
    return rc;
}

/* is_cut_off: a rank hangs, so transfers with it never complete. */
static void scatter_finish(struct crn_scatter_run *r, int is_cut_off)
{
    struct crn_errinfo ignored = {0};
    int busy = 0;
    int i;

    while (!is_cut_off && r->sending != NULL) /* after an error MPI may still read it */
        if (crn_send_progress(r, &busy, &ignored) != CAIRN_OK)
            crn_err_clear(&ignored);
    if (is_cut_off)
        crn_send_abandon(r);
    crn_receive_fini(r);
    crn_pass_close(r->pass);
    for (i = 0; i < CRN_SCATTER_BUFFERS && !is_cut_off; i++) { /* else MPI may use them */
        free(r->pack[i].data);
        free(r->scratch[i].data);
    }
    free(r->wishes);
    free(r->wishers);
    crn_mate_shut(&r->gate);
}

cairn_err crn_scatter_run(const struct crn_scatter *c, const struct crn_readers *team,
                          int *ret_whole, struct crn_errinfo *ei)
{
    struct crn_scatter_run r = {.c = c, .team = team, .reader = reader_no(team)};
    const struct crn_errinfo *failure;
    cairn_err rc;

    r.coming_end = &r.coming;
    *ret_whole = 0;
    rc = crn_wishes_exchange(&r, ei);
    if (rc == CAIRN_OK)
        rc = scatter_prepare(&r, ei);
    if (rc != CAIRN_EMPI && rc != CAIRN_EPEER)
        rc = crn_scatter_agree(team->comm, rc, ei);
    if (rc == CAIRN_OK)
        rc = scatter_move(&r, ei);
    if (rc == CAIRN_OK) {
        *ret_whole = r.missed == 0;
        failure = r.pass != NULL ? crn_pass_failure(r.pass) : NULL;
        if (failure != NULL) {
            crn_err_keep(ei, failure);
            rc = failure->code;
        }
    }
    scatter_finish(&r, rc == CAIRN_EPEER);
    return rc;
}
