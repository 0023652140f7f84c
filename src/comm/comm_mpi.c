/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements comm.h with MPI. Every communicator here is a duplicate or a split of one, so its
 * traffic never mixes with the application's. MPI errors come back as codes. */
#include "comm/comm_mpi.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG          1
#define TAG_DATA     16     /* first tag of transfers */
#define SETTLE_TRIES 200000 /* each at least 50 us */

struct posted {
    struct posted *next;
    MPI_Request request;
    unsigned char data[];
};

struct mpi_comm {
    struct crn_comm c;
    MPI_Comm comm;
    struct posted *posted; /* service thread only, as all below */
    int64_t *sent;         /* messages posted to each rank; NULL: none yet */
    int64_t received;
    int64_t transfers; /* in flight */
    int is_unsettled;  /* a message may still arrive: never free comm, its id would be reused */
};

static cairn_err comm_mpi_check(int r, struct crn_errinfo *ei, const char *what)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int len = 0;

    if (r == MPI_SUCCESS)
        return CAIRN_OK;
    (void)MPI_Error_string(r, text, &len);
    return crn_fail(ei, CAIRN_EMPI, 0, "%s: %.300s", what, text);
}

static MPI_Comm comm_mpi_handle(const struct crn_comm *c)
{
    return ((const struct mpi_comm *)c)->comm;
}

static cairn_err mpi_wrap(MPI_Comm comm, struct crn_comm **ret, struct crn_errinfo *ei);

static cairn_err mpi_split(struct crn_comm *c, int color, int key, struct crn_comm **ret,
                           struct crn_errinfo *ei)
{
    MPI_Comm part;
    cairn_err rc;

    rc = comm_mpi_check(
        MPI_Comm_split(comm_mpi_handle(c), color < 0 ? MPI_UNDEFINED : color, key, &part), ei,
        "MPI_Comm_split");
    if (rc != CAIRN_OK)
        return rc;
    if (part == MPI_COMM_NULL) {
        *ret = NULL;
        return CAIRN_OK;
    }
    return mpi_wrap(part, ret, ei);
}

static cairn_err mpi_split_host(struct crn_comm *c, struct crn_comm **ret, struct crn_errinfo *ei)
{
    MPI_Comm part;
    cairn_err rc;

    rc = comm_mpi_check(MPI_Comm_split_type(comm_mpi_handle(c), MPI_COMM_TYPE_SHARED, c->rank,
                                            MPI_INFO_NULL, &part),
                        ei, "MPI_Comm_split_type");
    return rc != CAIRN_OK ? rc : mpi_wrap(part, ret, ei);
}

static cairn_err mpi_barrier(struct crn_comm *c, struct crn_errinfo *ei)
{
    return comm_mpi_check(MPI_Barrier(comm_mpi_handle(c)), ei, "MPI_Barrier");
}

static cairn_err mpi_bcast(struct crn_comm *c, void *buf, size_t bytes, int root,
                           struct crn_errinfo *ei)
{
    if (bytes > INT_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a broadcast of %zu bytes", bytes);
    return comm_mpi_check(MPI_Bcast(buf, (int)bytes, MPI_BYTE, root, comm_mpi_handle(c)), ei,
                          "MPI_Bcast");
}

static cairn_err mpi_allgather(struct crn_comm *c, const void *in, size_t bytes, void *out,
                               struct crn_errinfo *ei)
{
    if (bytes > INT_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a gather of %zu bytes a rank", bytes);
    return comm_mpi_check(
        MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, comm_mpi_handle(c)), ei,
        "MPI_Allgather");
}

static cairn_err mpi_allreduce(struct crn_comm *c, int64_t *values, int n, enum crn_comm_op op,
                               struct crn_errinfo *ei)
{
    MPI_Op what = op == CRN_COMM_MIN ? MPI_MIN : op == CRN_COMM_MAX ? MPI_MAX : MPI_SUM;

    return comm_mpi_check(
        MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_INT64_T, what, comm_mpi_handle(c)), ei,
        "MPI_Allreduce");
}

static cairn_err mpi_post(struct crn_comm *c, int to, const void *buf, size_t bytes,
                          struct crn_errinfo *ei)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    struct posted *p;
    cairn_err rc;

    if (m->sent == NULL)
        m->sent = calloc((size_t)c->size, sizeof(*m->sent));
    p = bytes <= INT_MAX && m->sent != NULL ? malloc(sizeof(*p) + bytes) : NULL;
    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", bytes);
    memcpy(p->data, buf, bytes);
    rc = comm_mpi_check(MPI_Isend(p->data, (int)bytes, MPI_BYTE, to, TAG, m->comm, &p->request), ei,
                        "MPI_Isend");
    if (rc != CAIRN_OK) {
        free(p);
        return rc;
    }
    p->next = m->posted;
    m->posted = p;
    m->sent[to]++;
    return CAIRN_OK;
}

static cairn_err retire_posted(struct mpi_comm *m, struct crn_errinfo *ei)
{
    struct posted **link = &m->posted;
    cairn_err rc = CAIRN_OK;

    while (*link != NULL && rc == CAIRN_OK) {
        struct posted *p = *link;
        int done = 0;

        rc = comm_mpi_check(MPI_Test(&p->request, &done, MPI_STATUS_IGNORE), ei, "MPI_Test");
        if (done) {
            *link = p->next;
            free(p);
        } else {
            link = &p->next;
        }
    }
    return rc;
}

static cairn_err mpi_poll(struct crn_comm *c, int *ret_from, void **ret_buf, size_t *ret_bytes,
                          struct crn_errinfo *ei)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    MPI_Status status;
    void *buf;
    cairn_err rc;
    int there = 0;
    int bytes = 0;

    *ret_buf = NULL;
    rc = retire_posted(m, ei);
    if (rc == CAIRN_OK)
        rc = comm_mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, TAG, m->comm, &there, &status), ei,
                            "MPI_Iprobe");
    if (rc != CAIRN_OK || !there)
        return rc;
    rc = comm_mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes), ei, "MPI_Get_count");
    if (rc != CAIRN_OK)
        return rc;
    buf = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (buf == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %d bytes", bytes);
    rc = comm_mpi_check(
        MPI_Recv(buf, bytes, MPI_BYTE, status.MPI_SOURCE, TAG, m->comm, MPI_STATUS_IGNORE), ei,
        "MPI_Recv");
    if (rc != CAIRN_OK) {
        free(buf);
        return rc;
    }
    m->received++;
    *ret_from = status.MPI_SOURCE;
    *ret_buf = buf;
    *ret_bytes = (size_t)bytes;
    return CAIRN_OK;
}

/* What comm.h calls a transfer. */
struct mpi_transfer {
    MPI_Request request;
};

static cairn_err comm_mpi_started(struct crn_comm *c, int r, struct mpi_transfer *t,
                                  struct crn_transfer **ret, const char *what,
                                  struct crn_errinfo *ei)
{
    cairn_err rc = comm_mpi_check(r, ei, what);

    if (rc != CAIRN_OK) {
        free(t);
        return rc;
    }
    ((struct mpi_comm *)c)->transfers++;
    *ret = (struct crn_transfer *)t;
    return CAIRN_OK;
}

static cairn_err mpi_send_start(struct crn_comm *c, int to, int tag, const void *buf, size_t bytes,
                                struct crn_transfer **ret, struct crn_errinfo *ei)
{
    struct mpi_transfer *t = bytes <= INT_MAX ? calloc(1, sizeof(*t)) : NULL;

    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a transfer of %zu bytes", bytes);
    return comm_mpi_started(
        c,
        MPI_Isend(buf, (int)bytes, MPI_BYTE, to, TAG_DATA + tag, comm_mpi_handle(c), &t->request),
        t, ret, "MPI_Isend", ei);
}

static cairn_err mpi_recv_start(struct crn_comm *c, int from, int tag, void *buf, size_t bytes,
                                struct crn_transfer **ret, struct crn_errinfo *ei)
{
    struct mpi_transfer *t = bytes <= INT_MAX ? calloc(1, sizeof(*t)) : NULL;

    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a transfer of %zu bytes", bytes);
    return comm_mpi_started(
        c,
        MPI_Irecv(buf, (int)bytes, MPI_BYTE, from, TAG_DATA + tag, comm_mpi_handle(c), &t->request),
        t, ret, "MPI_Irecv", ei);
}

static cairn_err mpi_transfer_test(struct crn_comm *c, struct crn_transfer *transfer, int *ret_done,
                                   struct crn_errinfo *ei)
{
    struct mpi_transfer *t = (struct mpi_transfer *)transfer;
    cairn_err rc;

    *ret_done = 0;
    rc = comm_mpi_check(MPI_Test(&t->request, ret_done, MPI_STATUS_IGNORE), ei, "MPI_Test");
    if (rc != CAIRN_OK)
        *ret_done = 1;
    if (*ret_done) {
        ((struct mpi_comm *)c)->transfers--;
        free(t);
    }
    return rc;
}

static int mpi_transfer_cancel(struct crn_comm *c, struct crn_transfer *transfer)
{
    struct mpi_transfer *t = (struct mpi_transfer *)transfer;
    int done = 0;

    /* No MPI_Wait: a partly received message waits for its sender, which may be unreachable. */
    if (MPI_Cancel(&t->request) != MPI_SUCCESS ||
        MPI_Test(&t->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
        return 0; /* leaked on purpose */
    ((struct mpi_comm *)c)->transfers--;
    free(t);
    return 1; /* cancelled, or completed before */
}

static int mpi_threads_ok(const struct crn_comm *c)
{
    int level = 0;

    (void)c;
    return MPI_Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

/* Counts the messages that all ranks have posted to this one. */
static int count_posted(struct mpi_comm *m, int64_t *ret)
{
    int64_t *none = m->sent == NULL ? calloc((size_t)m->c.size, sizeof(*none)) : NULL;
    int64_t *sent = m->sent != NULL ? m->sent : none;
    int r = sent == NULL ? MPI_ERR_NO_MEM
                         : MPI_Reduce_scatter_block(sent, ret, 1, MPI_INT64_T, MPI_SUM, m->comm);

    free(none);
    return r;
}

static void mpi_settle(struct crn_comm *c)
{
    static const struct timespec moment = {.tv_nsec = 50000};
    struct mpi_comm *m = (struct mpi_comm *)c;
    struct crn_errinfo ei = {0};
    int64_t due = 0;
    int tries = SETTLE_TRIES;
    void *buf = NULL;
    size_t bytes;
    int from;

    m->is_unsettled = 1;
    if (count_posted(m, &due) != MPI_SUCCESS)
        return;
    while ((m->received < due || m->posted != NULL) && tries > 0) {
        if (mpi_poll(c, &from, &buf, &bytes, &ei) != CAIRN_OK)
            return;
        if (buf == NULL && tries-- > 0)
            (void)nanosleep(&moment, NULL);
        free(buf);
    }
    m->is_unsettled = tries == 0 || m->transfers > 0;
}

static void mpi_free(struct crn_comm *c)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    int finalized = 0;

    (void)MPI_Finalized(&finalized);
    while (m->posted != NULL) {
        struct posted *p = m->posted;
        int done = 0;

        m->posted = p->next;
        if (!finalized) {
            (void)MPI_Test(&p->request, &done, MPI_STATUS_IGNORE);
            if (!done && MPI_Cancel(&p->request) == MPI_SUCCESS)
                (void)MPI_Request_free(&p->request);
        }
        if (done)
            free(p); /* MPI may still read an unfinished one: leaked on purpose */
    }
    if (!finalized && !m->is_unsettled)
        (void)MPI_Comm_free(&m->comm);
    free(m->sent);
    free(m);
}

static const struct crn_comm_ops mpi_ops = {
    .abi = CRN_COMM_ABI,
    .name = "mpi",
    .split = mpi_split,
    .split_host = mpi_split_host,
    .barrier = mpi_barrier,
    .bcast = mpi_bcast,
    .allgather = mpi_allgather,
    .allreduce = mpi_allreduce,
    .post = mpi_post,
    .poll = mpi_poll,
    .send_start = mpi_send_start,
    .recv_start = mpi_recv_start,
    .transfer_test = mpi_transfer_test,
    .transfer_cancel = mpi_transfer_cancel,
    .settle = mpi_settle,
    .threads_ok = mpi_threads_ok,
    .free = mpi_free,
};

/* Takes ownership of comm. */
static cairn_err mpi_wrap(MPI_Comm comm, struct crn_comm **ret, struct crn_errinfo *ei)
{
    struct mpi_comm *m = calloc(1, sizeof(*m));

    if (m == NULL) {
        (void)MPI_Comm_free(&comm);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    }
    (void)MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    m->c.ops = &mpi_ops;
    m->comm = comm;
    (void)MPI_Comm_rank(comm, &m->c.rank);
    (void)MPI_Comm_size(comm, &m->c.size);
    *ret = &m->c;
    return CAIRN_OK;
}

/* Open MPI's collective MPI-IO writes in the background, and misses a lock when one of our threads
 * makes progress meanwhile: the application crashes in mca_common_ompio_progress (4.1.4; it happens
 * without Cairn too). Synchronous writes are safe, and faster. Open MPI reads the variable when the
 * first file is opened; a value set by the user stays. */
static void make_files_safe(void)
{
#ifdef OPEN_MPI
    (void)setenv("OMPI_MCA_fcoll_vulcan_async_io", "2", 0);
#endif
}

/* Derivatives of MPICH share its handles; each implementation names itself in its first words. */
#ifdef OPEN_MPI
#define MPI_HERE   "Open MPI"
#define MPI_OTHERS "MPICH", "Intel(R) MPI", "MVAPICH"
#else
#define MPI_HERE   "MPICH"
#define MPI_OTHERS "Open MPI"
#endif

cairn_err crn_comm_mpi_check(struct crn_errinfo *ei)
{
    static const char *const others[] = {MPI_OTHERS};
    char version[16384] = ""; /* as long as any MPI's, not only as this one's */
    int length = 0;
    size_t i;

    (void)MPI_Get_library_version(version, &length);
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strncmp(version, others[i], strlen(others[i])) == 0)
            return crn_fail(ei, CAIRN_ENOTSUP, 0,
                            "this libcairn_mpi is built for " MPI_HERE ", but the program runs "
                            "with %.*s: link the libcairn_mpi of that MPI, or build Cairn with its "
                            "mpicc (make install KIND=mpich)",
                            (int)strcspn(version, ",\n"), version);
    return CAIRN_OK;
}

cairn_err crn_comm_mpi(MPI_Comm comm, struct crn_comm **ret, struct crn_errinfo *ei)
{
    MPI_Comm own;
    cairn_err rc;
    int has_ended = 0;
    int ready = 0;

    rc = crn_comm_mpi_check(ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)MPI_Initialized(&ready);
    (void)MPI_Finalized(&has_ended);
    if (!ready || has_ended)
        return crn_fail(ei, CAIRN_ESTATE, 0,
                        "call cairn_open_mpi after MPI_Init_thread and before MPI_Finalize");
    if (comm == MPI_COMM_NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "comm is MPI_COMM_NULL");
    make_files_safe();
    rc = comm_mpi_check(MPI_Comm_dup(comm, &own), ei, "MPI_Comm_dup");
    return rc != CAIRN_OK ? rc : mpi_wrap(own, ret, ei);
}
