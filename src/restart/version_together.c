/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank reads manifest, indexes and chains and broadcasts them. They travel in their on-disk
 * encoding. A failure travels as its text, so that every rank can report it. */
#include "restart/scatter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "restart/version_impl.h"

#define PIECE ((size_t)1 << 28) /* of one broadcast call */
#define FIRST 8192

struct told {
    struct crn_errinfo failure;
    uint64_t bytes;
    unsigned char first[FIRST]; /* most payloads fit, so one message suffices */
};

/* Broadcasts a payload longer than FIRST. If one rank has no memory for it, all ranks fail. */
static cairn_err tell_rest(struct crn_comm *comm, int root, struct crn_buf *buf, size_t bytes,
                           struct crn_errinfo *ei)
{
    int64_t worst = buf->failed ? CAIRN_ENOMEM : CAIRN_OK;
    cairn_err rc = comm->ops->allreduce(comm, &worst, 1, CRN_COMM_MIN, ei);
    size_t at;

    if (rc == CAIRN_OK && worst != CAIRN_OK)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu bytes that one rank has read for all", bytes);
    for (at = 0; rc == CAIRN_OK && at < bytes; at += PIECE)
        rc = comm->ops->bcast(comm, buf->data + at, bytes - at < PIECE ? bytes - at : PIECE, root,
                              ei);
    return rc;
}

cairn_err crn_together_tell_all(struct crn_comm *comm, int root, cairn_err rc, struct crn_buf *buf,
                                struct crn_errinfo *ei)
{
    struct told t = {.bytes = buf->len};

    if (comm->rank == root && rc == CAIRN_OK && buf->failed)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the data that one rank has read for all");
    if (rc != CAIRN_OK)
        t.failure = *ei;
    else if (buf->len > 0 && buf->len <= FIRST)
        memcpy(t.first, buf->data, buf->len);
    rc = comm->ops->bcast(comm, &t, sizeof(t), root, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (t.failure.code != CAIRN_OK) {
        crn_err_keep(ei, &t.failure);
        return t.failure.code;
    }
    if (comm->rank != root) {
        crn_buf_free(buf);
        if (t.bytes <= FIRST)
            crn_buf_put(buf, t.first, t.bytes);
        else
            crn_buf_zero(buf, t.bytes);
    }
    if (t.bytes > FIRST)
        return tell_rest(comm, root, buf, t.bytes, ei);
    return buf->failed ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu bytes", (size_t)t.bytes)
                       : CAIRN_OK;
}

cairn_err crn_version_open_together(struct crn_comm *comm, const struct crn_fs *fs,
                                    const char *root, const char *name, int64_t version,
                                    struct crn_version **ret, struct crn_errinfo *ei)
{
    struct crn_version *v = NULL;
    struct crn_manifest m = {0};
    struct crn_buf buf = {0};
    struct crn_store st;
    cairn_err rc = CAIRN_OK;

    if (comm->rank == 0) {
        rc = crn_store_open(fs, root, 0, &st, ei);
        if (rc == CAIRN_OK) {
            rc = crn_version_open(&st, name, version, &v, ei);
            crn_store_close(&st);
        }
        if (rc == CAIRN_OK)
            rc = crn_manifest_encode(&v->m, &buf, ei);
    }
    rc = crn_together_tell_all(comm, 0, rc, &buf, ei);
    if (rc == CAIRN_OK && comm->rank != 0)
        rc = crn_manifest_decode(buf.data, buf.len, "the manifest of rank 0", &m, ei);
    if (rc == CAIRN_OK && comm->rank != 0)
        rc = crn_version_adopt(fs, root, &m, &v, ei);
    crn_buf_free(&buf);
    if (rc != CAIRN_OK) {
        crn_version_close(v);
        return rc;
    }
    *ret = v;
    return CAIRN_OK;
}

/* Encodes the size of the index, the index and the chain. */
static cairn_err pack_index(const struct crn_version_file *s, struct crn_buf *buf,
                            struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_buf_u64(buf, 0);
    rc = crn_index_encode(&s->index, buf, ei);
    if (rc == CAIRN_OK)
        crn_buf_set_u64(buf, 0, buf->len - sizeof(uint64_t));
    return rc == CAIRN_OK ? crn_base_chain_encode(s->chain, buf, ei) : rc;
}

static cairn_err unpack_index(struct crn_version *v, uint32_t file, const struct crn_buf *buf,
                              struct crn_errinfo *ei)
{
    struct crn_view view = crn_view_of(buf->data, buf->len);
    const char *what = v->files[file].what;
    size_t n = (size_t)crn_view_u64(&view);
    const void *p = crn_view_take(&view, n);
    struct crn_base_chain *chain;
    struct crn_index x;
    cairn_err rc;

    rc = crn_index_decode(p, p != NULL ? n : 0, what, &x, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_base_chain_decode(&view, &x, what, &chain, ei);
    if (rc != CAIRN_OK)
        crn_index_free(&x);
    else
        crn_version_tell(v, file, &x, chain);
    return rc;
}

static cairn_err share_index(struct crn_version *v, struct crn_comm *comm, int root, uint32_t file,
                             struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_buf buf = {0};
    cairn_err rc = CAIRN_OK;

    if (comm->rank == root) {
        rc = crn_version_load(v, file, &why);
        if (rc == CAIRN_OK)
            rc = pack_index(&v->files[file], &buf, &why);
    }
    rc = crn_together_tell_all(comm, root, rc, &buf, &why);
    if (rc == CAIRN_OK && comm->rank != root)
        rc = unpack_index(v, file, &buf, &why);
    crn_buf_free(&buf);
    if (rc != CAIRN_OK) {
        crn_version_tell_failure(v, file, &why);
        crn_err_keep(ei, &why);
    }
    return rc;
}

cairn_err crn_version_load_together(struct crn_version *v, const struct crn_readers *team,
                                    struct crn_errinfo *ei)
{
    struct crn_errinfo mpi = {0};
    int64_t worst = CAIRN_OK;
    cairn_err rc;
    uint32_t i;

    for (i = 0; i < team->nfiles; i++) { /* all readers read in parallel */
        struct crn_errinfo why = {0};

        if (team->comm->rank == team->readers[i % team->nreaders] &&
            crn_version_load(v, team->files[i], &why) != CAIRN_OK)
            crn_version_tell_failure(v, team->files[i], &why);
    }
    for (i = 0; i < team->nfiles; i++) {
        rc = share_index(v, team->comm, team->readers[i % team->nreaders], team->files[i], ei);
        if (rc == CAIRN_EMPI)
            return rc;
        if (worst == CAIRN_OK)
            worst = rc;
    }
    if (team->comm->ops->allreduce(team->comm, &worst, 1, CRN_COMM_MIN, &mpi) != CAIRN_OK) {
        crn_err_keep(ei, &mpi);
        return mpi.code;
    }
    if (worst != CAIRN_OK && (ei == NULL || ei->code == CAIRN_OK))
        return crn_fail(ei, (cairn_err)worst, 0, "another rank could not decode an index");
    return (cairn_err)worst;
}
