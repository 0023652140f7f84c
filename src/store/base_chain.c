/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the chain of a data file: the streams of each base, which is all that decoding needs.
 * Decides what a valid base is: exactly the file that the chain names (size, hash, capture), with
 * the same streams split into the same chunks where they are needed. A missing base counts as
 * damage of the file that needs it. */
#include "store/base_chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode/pipe.h"

void crn_base_chain_path(const struct crn_base *b, char ret[CRN_BASE_PATH])
{
    (void)snprintf(ret, CRN_BASE_PATH, "../%lld/%s", (long long)b->version, b->file);
}

struct crn_base_where crn_base_where(const char *what, const struct crn_base *b)
{
    struct crn_base_where w;
    size_t n = strlen(what);
    int slashes = 0;

    while (n > 0 && slashes < 2) /* <root>/<name> of <root>/<name>/<version>/<file> */
        slashes += what[--n] == '/';
    (void)snprintf(w.text, sizeof(w.text), "%.*s%s%lld/%s", (int)n, what,
                   slashes == 2 ? "/" : "../", (long long)b->version, b->file);
    return w;
}

int crn_base_chain_needs_older(const struct crn_stream_chunk *c)
{
    struct crn_pipe pipe = {.n = c->nstages};
    unsigned i;

    for (i = 0; i < c->nstages; i++) {
        pipe.stage[i].id = c->stages[2 * i];
        pipe.stage[i].arg = c->stages[2 * i + 1];
    }
    return crn_pipe_needs_previous(&pipe);
}

void crn_base_chain_free(struct crn_base_chain *c)
{
    uint32_t i;

    for (i = 0; c != NULL && i < c->n; i++) {
        crn_index_free(&c->links[i].index);
        free(c->links[i].first);
        free(c->links[i].places);
    }
    free(c);
}

static cairn_err chain_make(const struct crn_index *x, struct crn_base_chain **ret,
                            struct crn_errinfo *ei)
{
    struct crn_base_chain *c = calloc(1, sizeof(*c) + x->nbases * sizeof(c->links[0]));

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chain of %u", (unsigned)x->nbases);
    c->bases = x->bases;
    *ret = c;
    return CAIRN_OK;
}

/* Keeps the streams only: shards, extents and hashes of a base are not needed. */
static void chain_strip(struct crn_index *x)
{
    struct crn_index kept = *x;

    x->streams = NULL;
    x->nstreams = 0;
    crn_index_free(x);
    kept.nshards = 0;
    kept.shards = NULL;
    kept.nextents = 0;
    kept.extents = NULL;
    kept.nhashes = 0;
    kept.hashes = NULL;
    kept.nbases = 0;
    kept.bases = NULL;
    *x = kept;
}

/* Computes where each chunk of a base lies in its file. */
static cairn_err place_chunks(struct crn_base_chain_link *l, struct crn_errinfo *ei)
{
    const struct crn_index *x = &l->index;
    size_t n = 0;
    uint32_t s, i;

    for (s = 0; s < x->nstreams; s++)
        n += x->streams[s].nchunks;
    l->first = calloc((size_t)x->nstreams + 1, sizeof(*l->first));
    l->places = calloc(n + 1, sizeof(*l->places));
    if (l->first == NULL || l->places == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the places of %zu chunks", n);
    for (s = 0, n = 0; s < x->nstreams; s++) {
        uint64_t place = x->streams[s].file_offset;

        l->first[s] = n;
        for (i = 0; i < x->streams[s].nchunks; i++) {
            l->places[n++] = place;
            place += x->streams[s].chunks[i].encoded;
        }
    }
    return CAIRN_OK;
}

/* Can chunks of s be decoded against those of older? */
static int is_older(const struct crn_stream *s, const struct crn_stream *older)
{
    uint32_t i;

    if (s->map_bytes > 0 || older->map_bytes > 0 || s->type != older->type ||
        s->bytes != older->bytes || s->nchunks != older->nchunks)
        return 0;
    for (i = 0; i < s->nchunks; i++)
        if (s->chunks[i].bytes != older->chunks[i].bytes)
            return 0;
    return 1;
}

static int needs_older(const struct crn_stream *s)
{
    uint32_t i;

    for (i = 0; i < s->nchunks; i++)
        if (crn_base_chain_needs_older(&s->chunks[i]))
            return 1;
    return 0;
}

/* Checks the streams of a file against those of the next file in its chain. */
static cairn_err check_streams(const struct crn_index *x, const struct crn_index *older,
                               struct crn_errinfo *ei)
{
    uint32_t i;

    if (x->nstreams != older->nstreams)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "it has %u streams instead of %u",
                        (unsigned)older->nstreams, (unsigned)x->nstreams);
    for (i = 0; i < x->nstreams; i++)
        if (needs_older(&x->streams[i]) && !is_older(&x->streams[i], &older->streams[i]))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "its stream %u ('%s') is not of the same shape",
                            (unsigned)i, older->streams[i].key);
    return CAIRN_OK;
}

/* Is this the file that the chain names as base i? */
static cairn_err check_base(const struct crn_index *x, uint32_t i, const struct crn_index *base,
                            uint64_t bytes, uint64_t index_hash, struct crn_errinfo *ei)
{
    const struct crn_base *b = &x->bases[i];

    if (bytes != b->bytes || index_hash != b->index_hash ||
        !crn_capture_id_equal(&base->id, &b->id) || strcmp(base->name, x->name) != 0 ||
        base->version != b->version || base->file_no != x->file_no ||
        !crn_bases_equal(base->bases, base->nbases, b + 1, x->nbases - i - 1))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "it has been replaced since");
    return CAIRN_OK;
}

/* Reads base i; newer is the file that is encoded against it. */
static cairn_err load_link(const struct crn_fs *fs, int dfd, const struct crn_index *x, uint32_t i,
                           const struct crn_index *newer, const char *where,
                           struct crn_base_chain_link *l, struct crn_errinfo *ei)
{
    char path[CRN_BASE_PATH];
    struct crn_trailer t;
    uint64_t bytes;
    cairn_err rc;
    int fd;

    crn_base_chain_path(&x->bases[i], path);
    rc = crn_data_open(fs, dfd, path, where, &fd, &bytes, &t, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_data_index(fs, fd, &t, where, &l->index, ei);
    (void)fs->close(fs, fd);
    if (rc == CAIRN_OK)
        rc = check_base(x, i, &l->index, bytes, t.index_hash, ei);
    if (rc == CAIRN_OK)
        rc = check_streams(newer, &l->index, ei);
    if (rc == CAIRN_OK) {
        chain_strip(&l->index);
        rc = place_chunks(l, ei);
    }
    return rc;
}

cairn_err crn_base_chain_load(const struct crn_fs *fs, int dfd, const struct crn_index *x,
                              const char *what, struct crn_base_chain **ret, struct crn_errinfo *ei)
{
    const struct crn_index *newer = x;
    struct crn_errinfo why = {0};
    struct crn_base_chain *c = NULL;
    cairn_err rc;

    *ret = NULL;
    if (x->nbases == 0)
        return CAIRN_OK;
    rc = chain_make(x, &c, ei);
    if (rc != CAIRN_OK)
        return rc;
    while (rc == CAIRN_OK && c->n < x->nbases) {
        struct crn_base_where where = crn_base_where(what, &x->bases[c->n]);
        struct crn_base_chain_link *l = &c->links[c->n++];

        rc = load_link(fs, dfd, x, c->n - 1, newer, where.text, l, &why);
        if (rc == CAIRN_ENOENT)
            why.code = rc = CAIRN_EDAMAGED;
        if (rc != CAIRN_OK)
            rc = crn_err_context(&why, rc, "%s was encoded against version %lld, '%s'", what,
                                 (long long)x->bases[c->n - 1].version, where.text);
        newer = &l->index;
    }
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        crn_base_chain_free(c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

cairn_err crn_base_chain_encode(const struct crn_base_chain *c, struct crn_buf *buf,
                                struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && c != NULL && i < c->n; i++) {
        size_t at = buf->len;

        crn_buf_u64(buf, 0);
        rc = crn_index_encode(&c->links[i].index, buf, ei);
        if (rc == CAIRN_OK)
            crn_buf_set_u64(buf, at, buf->len - at - sizeof(uint64_t));
    }
    return rc;
}

cairn_err crn_base_chain_decode(struct crn_view *v, const struct crn_index *x, const char *what,
                                struct crn_base_chain **ret, struct crn_errinfo *ei)
{
    struct crn_base_chain *c = NULL;
    cairn_err rc;

    *ret = NULL;
    if (x->nbases == 0)
        return CAIRN_OK;
    rc = chain_make(x, &c, ei);
    if (rc != CAIRN_OK)
        return rc;
    while (rc == CAIRN_OK && c->n < x->nbases) {
        uint64_t n = crn_view_u64(v);
        const void *p = n <= crn_view_left(v) ? crn_view_take(v, (size_t)n) : NULL;
        const struct crn_index *newer = c->n > 0 ? &c->links[c->n - 1].index : x;
        struct crn_base_chain_link *l = &c->links[c->n++];

        rc = p == NULL ? crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: its chain is truncated", what)
                       : crn_index_decode(p, (size_t)n, what, &l->index, ei);
        if (rc == CAIRN_OK)
            rc = check_streams(newer, &l->index, ei);
        if (rc == CAIRN_OK)
            rc = place_chunks(l, ei);
    }
    if (rc != CAIRN_OK) {
        crn_base_chain_free(c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}
