/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective read. First all ranks learn what each rank wants. Then readers read and send while
 * every rank receives, until it has all that it asked for or has heard that the rest will not come.
 * All steps that can run out of memory come first and end in an agreement, so that afterwards no
 * rank leaves the call alone. */
#include "restart/scatter_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "restart/version_impl.h"

#define DIRECT_BYTES ((uint64_t)256 << 10) /* worth a read of its own */

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

static cairn_err scatter_agree(struct crn_comm *comm, cairn_err rc, struct crn_errinfo *ei)
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

/* Gathers the members and the parts of every member that does not want a whole shard. */
static cairn_err scatter_gather(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    const struct crn_scatter *c = r->c;
    struct crn_comm *comm = r->team->comm;
    struct crn_member me = {.rank = c->rank,
                            .is_whole = c->is_whole != 0,
                            .has_it = c->has_it != 0,
                            .node = c->node,
                            .where = c->where};
    struct crn_slice *mine = NULL;
    cairn_err rc = CAIRN_OK;
    int i;

    if (!c->is_whole)
        me.nparts = c->nparts;
    r->members = calloc((size_t)comm->size, sizeof(*r->members));
    if (r->members == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of %d ranks", comm->size);
    rc = scatter_agree(comm, rc, ei);
    if (rc == CAIRN_OK)
        rc = comm->ops->allgather(comm, &me, sizeof(me), r->members, ei);
    if (rc != CAIRN_OK || r->members == NULL)
        return rc;
    for (i = 0; i < comm->size; i++)
        if (r->members[i].nparts > r->most)
            r->most = r->members[i].nparts;
    if (r->most == 0)
        return CAIRN_OK;
    mine = calloc(r->most, sizeof(*mine));
    r->all = calloc((size_t)comm->size * r->most, sizeof(*r->all));
    if (mine == NULL || r->all == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u parts of %d ranks", r->most, comm->size);
    else if (me.nparts > 0)
        memcpy(mine, c->parts, me.nparts * sizeof(*mine));
    rc = scatter_agree(comm, rc, ei);
    if (rc == CAIRN_OK)
        rc = comm->ops->allgather(comm, mine, r->most * sizeof(*mine), r->all, ei);
    free(mine);
    return rc;
}

static int by_source(const void *a, const void *b)
{
    const struct crn_wish *x = a;
    const struct crn_wish *y = b;

    if (x->p->rank != y->p->rank)
        return x->p->rank < y->p->rank ? -1 : 1;
    if (x->p->region != y->p->region)
        return x->p->region < y->p->region ? -1 : 1;
    return x->who - y->who;
}

static cairn_err list_wishes(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    uint32_t ranks = r->c->v->m.ranks;
    int size = r->team->comm->size;
    size_t n = 0;
    uint32_t k;
    int i;

    for (i = 0; i < size; i++)
        n += r->members[i].nparts;
    r->whole_of = malloc((ranks + (size_t)1) * sizeof(*r->whole_of));
    r->wishes = calloc(n + 1, sizeof(*r->wishes));
    r->lost = calloc((size_t)size, sizeof(*r->lost));
    r->brought = calloc((size_t)size, sizeof(*r->brought));
    if (r->whole_of == NULL || r->wishes == NULL || r->lost == NULL || r->brought == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the wishes of %d ranks", size);
    memset(r->whole_of, 0xff, (ranks + (size_t)1) * sizeof(*r->whole_of));
    for (i = 0; i < size; i++) {
        const struct crn_member *m = &r->members[i];

        if (m->is_whole && m->rank < ranks)
            r->whole_of[m->rank] = i;
        for (k = 0; k < m->nparts; k++)
            r->wishes[r->nwishes++] =
                (struct crn_wish){.who = i, .part = k, .p = &r->all[(size_t)i * r->most + k]};
    }
    if (r->nwishes > 1)
        qsort(r->wishes, r->nwishes, sizeof(*r->wishes), by_source);
    return CAIRN_OK;
}

/* Describes this rank's own memory in the same form as that of the other ranks. */
static cairn_err reach_own(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    const struct crn_scatter *c = r->c;
    struct crn_mate *me = &r->mates[r->team->comm->rank];
    uint32_t i;

    me->memory = c->memory;
    if (!c->is_whole)
        return CAIRN_OK;
    r->own_at = calloc((size_t)c->nparts + 1, sizeof(*r->own_at));
    if (r->own_at == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", c->nparts);
    for (i = 0; i < c->nparts; i++)
        r->own_at[i] = c->parts[i].run > 0 ? c->parts[i].to : UINT64_MAX;
    me->at = r->own_at;
    return CAIRN_OK;
}

static cairn_err reach_mates(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    const struct crn_scatter *c = r->c;
    int size = r->team->comm->size;
    int i;

    r->mates = calloc((size_t)size, sizeof(*r->mates));
    if (r->mates == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of %d ranks", size);
    for (i = 0; c->reach != NULL && i < size; i++) {
        const struct crn_member *m = &r->members[i];

        if (i != r->team->comm->rank && m->node == c->node && m->where != CRN_NOWHERE &&
            !c->reach(c->arg, m->rank, m->where, &r->mates[i]))
            r->mates[i].memory = NULL;
    }
    return reach_own(r, ei);
}

/* Regions of shards that a rank of this node wants whole are read straight into its memory, unless
 * some rank wants parts. */
static unsigned char *scatter_place(void *arg, uint32_t rank, uint32_t region)
{
    const struct crn_scatter_run *r = arg;
    int who = r->nwishes == 0 ? r->whole_of[rank] : -1;
    const struct crn_mate *m = who >= 0 ? &r->mates[who] : NULL;

    if (m == NULL || m->memory == NULL || m->at[region] == UINT64_MAX)
        return NULL;
    return m->memory + m->at[region];
}

/* The number of the reader on a member's node; -1 if the node has none. */
static int reader_of(const struct crn_scatter_run *r, int who)
{
    uint32_t i;

    for (i = 0; i < r->team->nreaders; i++)
        if (r->members[r->team->readers[i]].node == r->members[who].node)
            return (int)i;
    return -1;
}

static cairn_err open_pass(struct crn_scatter_run *r, int no, struct crn_errinfo *ei)
{
    struct crn_pass_options o = {.v = r->c->v,
                                 .files = r->team->files,
                                 .nfiles = r->team->nfiles,
                                 .share = (uint32_t)no,
                                 .shares = r->team->nreaders,
                                 .threads = r->c->threads,
                                 .cores = r->c->cores,
                                 .block_bytes = r->c->block_bytes,
                                 .direct_bytes = DIRECT_BYTES,
                                 .place = scatter_place,
                                 .arg = r};
    uint32_t ranks = r->c->v->m.ranks;
    uint8_t *skip = calloc(ranks, 1);
    int *reader = malloc(ranks * sizeof(*reader));
    cairn_err rc;
    int i;

    if (skip == NULL || reader == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u ranks", ranks);
        goto out;
    }
    memset(reader, 0xff, ranks * sizeof(*reader)); /* -1 */
    for (i = 0; i < r->team->comm->size; i++) {
        const struct crn_member *m = &r->members[i];

        if (m->rank < ranks && m->has_it)
            skip[m->rank] = 1;
        if (m->rank < ranks && m->is_whole)
            reader[m->rank] = reader_of(r, i);
    }
    o.skip = skip;
    o.reader = reader;
    rc = crn_pass_open(&o, &r->pass, ei);
out:
    free(skip); /* only the plan needs them */
    free(reader);
    return rc;
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

/* The most bytes of a part in one message, over the parts whose runs need a buffer. */
static uint64_t buffer_bytes(const struct crn_scatter_run *r, const struct crn_slice *p, size_t n)
{
    uint64_t most = 0;
    size_t i;

    for (i = 0; i < n; i++)
        if (p[i].ndims > 0 && crn_slice_bytes(&p[i]) > most)
            most = crn_slice_bytes(&p[i]);
    return most < r->message_bytes ? most : r->message_bytes;
}

static cairn_err scatter_prepare(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    int no = reader_no(r->team);
    cairn_err rc;
    uint32_t i;

    r->message_bytes = r->c->block_bytes;
    for (i = 0; i < r->team->nfiles; i++) {
        const struct crn_index *x = &r->c->v->files[r->team->files[i]].index;

        if (x->chunk_bytes > r->message_bytes)
            r->message_bytes = (size_t)x->chunk_bytes;
    }
    for (i = 0; i < r->c->nparts; i++)
        r->expected += crn_slice_bytes(&r->c->parts[i]);
    rc = make_buffers(r->scratch, buffer_bytes(r, r->c->parts, r->c->nparts), ei);
    if (rc != CAIRN_OK || no < 0)
        return rc;
    rc = make_buffers(r->pack, buffer_bytes(r, r->all, (size_t)r->team->comm->size * r->most), ei);
    if (rc == CAIRN_OK)
        rc = list_wishes(r, ei);
    if (rc == CAIRN_OK)
        rc = reach_mates(r, ei);
    if (rc == CAIRN_OK)
        rc = open_pass(r, no, ei);
    return rc;
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
    free(r->whole_of);
    free(r->wishes);
    free(r->lost);
    free(r->brought);
    free(r->mates);
    free(r->own_at);
    free(r->all);
    free(r->members);
}

cairn_err crn_scatter_run(const struct crn_scatter *c, const struct crn_readers *team,
                          int *ret_whole, struct crn_errinfo *ei)
{
    struct crn_scatter_run r = {.c = c, .team = team};
    const struct crn_errinfo *failure;
    cairn_err rc;

    r.coming_end = &r.coming;
    *ret_whole = 0;
    rc = scatter_gather(&r, ei);
    if (rc == CAIRN_OK)
        rc = scatter_agree(team->comm, scatter_prepare(&r, ei), ei);
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
