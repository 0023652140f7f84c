/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads through the streams of an encoded data file. One stream is open at a time; a caller that
 * reads in stream order decodes every chunk once. Other orders find chunks in a cache: small variables
 * of all ranks share them.
 *
 * A chunk that needs the older version is decoded through the chain. The decoder descends from the
 * nearest base to the first one whose chunk needs no older version. It then decodes upwards; each
 * result is the older version of the next. So it reads every chunk of every file once, and two
 * buffers suffice for a chain of any length. */
#include "store/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "encode/chunk.h"
#include "encode/stream.h"
#include "encode/work.h"
#include "store/base_chain.h"

#define CACHE    ((size_t)32 << 20) /* bytes of decoded chunks, unless the caller wants more */
#define BASE_FDS 16                 /* open at most; bases of longer chains share these slots */

struct crn_decoder {
    struct crn_encode_work *work;
    struct crn_chunk_cache *cache;
    /* The open stream; NULL: none. */
    const struct crn_stream *stream;
    struct crn_chunk_record *records;
    uint64_t *places; /* file offsets of the chunks */
    struct crn_map map;
    struct crn_reader *reader;
    /* Base i of a chain is open in bases[i % BASE_FDS]. */
    struct {
        const struct crn_base_chain *chain; /* NULL: nothing is open here */
        uint32_t link;
        int fd;
    } bases[BASE_FDS];
    const struct crn_fs *fs;
    const struct crn_data_file *file; /* of the current call */
};

static void close_stream(struct crn_decoder *d)
{
    crn_reader_close(d->reader);
    crn_map_free(&d->map);
    free(d->records);
    free(d->places);
    d->reader = NULL;
    d->records = NULL;
    d->places = NULL;
    d->stream = NULL;
}

static void close_base(struct crn_decoder *d, uint32_t i)
{
    if (d->bases[i].chain != NULL)
        (void)d->fs->close(d->fs, d->bases[i].fd); /* was only read */
    d->bases[i].chain = NULL;
}

void crn_decoder_free(struct crn_decoder *d)
{
    uint32_t i;

    if (d == NULL)
        return;
    close_stream(d);
    for (i = 0; i < BASE_FDS; i++)
        close_base(d, i);
    crn_chunk_cache_free(d->cache);
    crn_work_free(d->work);
    free(d);
}

cairn_err crn_decoder_open(size_t cache_bytes, struct crn_decoder **ret, struct crn_errinfo *ei)
{
    struct crn_decoder *d = calloc(1, sizeof(*d));
    cairn_err rc;

    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a decoder");
    rc = crn_work_new(&d->work, ei);
    d->cache = crn_chunk_cache_new(cache_bytes);
    if (rc == CAIRN_OK && d->cache == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a decoder");
    if (rc != CAIRN_OK) {
        crn_decoder_free(d);
        return rc;
    }
    *ret = d;
    return CAIRN_OK;
}

static cairn_err decode_fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    struct crn_decoder *d = ctx;

    return crn_fs_read_all(d->fs, d->file->fd, buf, d->records[chunk].encoded, d->places[chunk],
                           d->file->what, ei);
}

static cairn_err open_base(struct crn_decoder *d, uint32_t link, const char *where, int *ret,
                           struct crn_errinfo *ei)
{
    const struct crn_base_chain *c = d->file->chain;
    uint32_t i = link % BASE_FDS;
    char path[CRN_BASE_PATH];
    int fd;

    if (d->bases[i].chain != c || d->bases[i].link != link) {
        close_base(d, i);
        crn_base_chain_path(&c->bases[link], path);
        fd = d->fs->openat(d->fs, d->file->dfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
        if (fd == -ENOENT) /* its index was readable before, so the file has vanished */
            return crn_fail(ei, CAIRN_EDAMAGED, ENOENT, "open '%s'", where);
        if (fd < 0)
            return crn_fail_errno(ei, -fd, "open '%s'", where);
        d->bases[i].chain = c;
        d->bases[i].link = link;
        d->bases[i].fd = fd;
    }
    *ret = d->bases[i].fd;
    return CAIRN_OK;
}

/* Decodes a chunk of a base. previous is the decoded chunk of the next older base (NULL: not
 * needed). */
static cairn_err decode_base(struct crn_decoder *d, uint32_t link, uint32_t chunk,
                             const void *previous, void *dst, struct crn_errinfo *ei)
{
    const struct crn_base_chain_link *l = &d->file->chain->links[link];
    size_t stream = (size_t)(d->stream - d->file->index->streams);
    const struct crn_stream_chunk *c = &l->index.streams[stream].chunks[chunk];
    const struct crn_base *b = &d->file->chain->bases[link];
    struct crn_base_where where = crn_base_where(d->file->what, b);
    unsigned char *encoded = NULL;
    cairn_err rc;
    int fd = -1;

    rc = open_base(d, link, where.text, &fd, ei);
    if (rc == CAIRN_OK)
        rc = crn_work_scratch(d->work, CRN_SLOT_BASE, c->encoded, &encoded, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(d->fs, fd, encoded, c->encoded, l->places[l->first[stream] + chunk],
                             where.text, ei);
    if (rc == CAIRN_OK && crn_hash(encoded, c->encoded) != c->hash)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "chunk %u of stream %zu has a wrong checksum",
                      (unsigned)chunk, stream);
    if (rc == CAIRN_OK)
        rc = crn_chunk_decode(d->work, encoded, c->encoded, previous, dst, c->bytes, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "encoded against version %lld, '%s'", (long long)b->version,
                               where.text);
    return CAIRN_OK;
}

/* The chunk that starts at an offset of the open stream. */
static uint32_t chunk_at(const struct crn_decoder *d, uint64_t offset)
{
    uint32_t lo = 0;
    uint32_t hi = d->stream->nchunks;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (d->records[mid].offset <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Decodes the older version of a chunk of the open stream. */
static cairn_err fetch_previous(void *ctx, uint64_t offset, size_t n, void *buf,
                                struct crn_errinfo *ei)
{
    struct crn_decoder *d = ctx;
    const struct crn_base_chain *c = d->file->chain;
    size_t stream = (size_t)(d->stream - d->file->index->streams);
    uint32_t chunk = chunk_at(d, offset);
    const void *previous = NULL;
    unsigned char *other = NULL;
    uint32_t link = 0;
    cairn_err rc = CAIRN_OK;

    while (link < c->n &&
           crn_base_chain_needs_older(&c->links[link].index.streams[stream].chunks[chunk]))
        link++;
    if (link == c->n || !crn_base_chain_needs_older(&d->stream->chunks[chunk]))
        return crn_fail(ei, CAIRN_EDAMAGED, 0,
                        "a chunk needs more older versions than its chain has");
    if (link > 0)
        rc = crn_work_scratch(d->work, CRN_SLOT_OLDER, n, &other, ei);
    for (link++; rc == CAIRN_OK && link > 0; link--) {
        void *dst = link % 2 != 0 ? buf : other; /* the nearest base decodes into buf */

        rc = decode_base(d, link - 1, chunk, previous, dst, ei);
        previous = dst;
    }
    return rc;
}

static void fill_records(struct crn_decoder *d, const struct crn_stream *s)
{
    uint64_t place = s->file_offset;
    uint64_t offset = 0;
    uint32_t i;
    int k;

    for (i = 0; i < s->nchunks; i++) {
        const struct crn_stream_chunk *c = &s->chunks[i];
        struct crn_chunk_record *r = &d->records[i];

        *r = (struct crn_chunk_record){
            .offset = offset, .bytes = c->bytes, .encoded = c->encoded, .hash = c->hash};
        r->pipe.n = c->nstages;
        for (k = 0; k < c->nstages; k++) {
            r->pipe.stage[k].id = c->stages[2 * k];
            r->pipe.stage[k].arg = c->stages[2 * k + 1];
        }
        d->places[i] = place;
        offset += c->bytes;
        place += c->encoded;
    }
}

static cairn_err take_map(struct crn_decoder *d, const struct crn_stream *s, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(s->map, s->map_bytes);
    cairn_err rc;

    if (s->map_bytes == 0)
        return CAIRN_OK;
    rc = crn_map_decode(&v, &d->map, ei);
    if (rc == CAIRN_OK && (crn_view_left(&v) != 0 || d->map.bytes != s->bytes))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the map of a stream does not match its bytes",
                      d->file->what);
    return rc;
}

/* What a decoded chunk is known by beside its hash: the capture, the file and the stream. Equal bytes
 * elsewhere are not taken for it, so that a reader sees what is wrong with its own. */
static uint64_t domain_of(const struct crn_data_file *f, const struct crn_stream *s)
{
    const struct crn_index *x = f->index;
    struct {
        uint8_t run[sizeof(x->id.run)];
        uint64_t seq, file_no, stream;
    } text = {.seq = x->id.seq, .file_no = x->file_no, .stream = (uint64_t)(s - x->streams)};

    memcpy(text.run, x->id.run, sizeof(text.run));
    return crn_hash(&text, sizeof(text));
}

static cairn_err open_stream(struct crn_decoder *d, const struct crn_stream *s,
                             struct crn_errinfo *ei)
{
    struct crn_reader_options options = {.n = s->nchunks,
                                         .fetch = decode_fetch,
                                         .ctx = d,
                                         .cache = d->cache,
                                         .domain = domain_of(d->file, s)};
    cairn_err rc;

    close_stream(d);
    d->records = calloc(s->nchunks, sizeof(*d->records));
    d->places = calloc(s->nchunks, sizeof(*d->places));
    if (d->records == NULL || d->places == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a stream of %u chunks", (unsigned)s->nchunks);
    fill_records(d, s);
    rc = take_map(d, s, ei);
    options.records = d->records;
    options.map = &d->map;
    if (d->file->chain != NULL)
        options.fetch_previous = fetch_previous;
    if (rc == CAIRN_OK)
        rc = crn_reader_open(&options, d->work, &d->reader, ei);
    if (rc == CAIRN_OK)
        d->stream = s;
    return rc;
}

cairn_err crn_data_decoded(const struct crn_data_file *f, uint64_t at, void *dst, size_t n,
                           struct crn_decoder **decoder, struct crn_errinfo *ei)
{
    const struct crn_stream *s = crn_index_stream(f->index, at); /* exists: the index was checked */
    struct crn_errinfo why = {0};
    cairn_err rc = CAIRN_OK;
    struct crn_decoder *d;

    if (*decoder == NULL)
        rc = crn_decoder_open(CACHE, decoder, ei);
    if (rc != CAIRN_OK)
        return rc;
    d = *decoder;
    d->fs = f->fs;
    d->file = f;
    if (d->stream != s)
        rc = open_stream(d, s, &why);
    if (rc == CAIRN_OK)
        rc = crn_reader_read(d->reader, at - s->start, dst, n, &why);
    if (rc == CAIRN_ESTATE) /* a chunk head needs an older version, the index does not */
        why.code = rc = CAIRN_EDAMAGED;
    if (rc != CAIRN_OK) {
        close_stream(d); /* a failed read may have cached a wrong chunk */
        crn_err_keep(ei, &why);
    }
    d->file = NULL;
    return rc;
}
