/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/piece.h"

#include "aggregate/coder.h"

static struct crn_extent *piece_segment(const struct crn_pieces *all, const struct crn_write *w,
                                        uint32_t i)
{
    return &all->plan->extents[all->plan->order[w->first + i]];
}

/* The address of a write that is contiguous in memory and acceptable to the file; NULL if it has
 * to be gathered. */
static const unsigned char *in_place(const struct crn_pieces *all, const struct crn_write *w)
{
    const struct crn_extent *x = piece_segment(all, w, 0);

    const unsigned char *p = NULL;

    if (w->nsegments == 1)
        p = crn_source_memory(&all->sources[x->shard], x);
    return p != NULL && crn_outfile_takes(all->out, p) ? p : NULL;
}

int crn_piece_in_place(const struct crn_pieces *all, const struct crn_write *w)
{
    return all->encoding == NULL && in_place(all, w) != NULL;
}

static uint64_t place_of(struct crn_pieces *all, uint64_t bytes)
{
    return all->has_place ? all->place : crn_outfile_reserve(all->out, bytes);
}

/* An errand whose data has arrived has no sources. */
static uint64_t hash_of(const struct crn_pieces *all, const struct crn_extent *x, uint64_t at,
                        const unsigned char *p, uint64_t n)
{
    return all->sources != NULL ? crn_source_hash(&all->sources[x->shard], x, at, p, n)
                                : crn_hash(p, n);
}

/* Checksums and writes chunk by chunk, so that the second access to each byte hits the cache. */
static cairn_err write_in_place(struct crn_pieces *all, struct crn_extent *x,
                                const unsigned char *p, struct crn_errinfo *ei)
{
    uint64_t step = all->chunk_bytes;
    uint64_t i = x->first_hash;
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    x->file_offset = place_of(all, x->bytes);
    for (at = 0; rc == CAIRN_OK && at < x->bytes; at += step) {
        uint64_t n = x->bytes - at < step ? x->bytes - at : step;

        all->hashes[i++] = hash_of(all, x, at, p + at, n);
        rc = crn_outfile_write(all->out, p + at, n, x->file_offset + at, ei);
    }
    return rc != CAIRN_OK ? rc : crn_outfile_pad(all->out, x->bytes, x->file_offset, ei);
}

static void hash_chunks(struct crn_pieces *all, const struct crn_extent *x, const unsigned char *p)
{
    uint64_t step = all->chunk_bytes;
    uint64_t i = x->first_hash;
    uint64_t at;

    for (at = 0; at < x->bytes; at += step)
        all->hashes[i++] = hash_of(all, x, at, p + at, x->bytes - at < step ? x->bytes - at : step);
}

/* Checksums the segments of a block, records their offsets, and writes it. */
static cairn_err write_block(struct crn_pieces *all, const struct crn_write *w,
                             const unsigned char *block, struct crn_errinfo *ei)
{
    uint64_t off = place_of(all, w->bytes);
    uint64_t at = 0;
    cairn_err rc;
    uint32_t i;

    for (i = 0; i < w->nsegments; i++) {
        struct crn_extent *x = piece_segment(all, w, i);

        hash_chunks(all, x, block + at);
        x->file_offset = off + at;
        at += x->bytes;
    }
    rc = crn_outfile_write(all->out, block, w->bytes, off, ei);
    return rc != CAIRN_OK ? rc : crn_outfile_pad(all->out, w->bytes, off, ei);
}

static cairn_err piece_gather(struct crn_pieces *all, const struct crn_write *w,
                              unsigned char *block, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint64_t at = 0;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < w->nsegments; i++) {
        const struct crn_extent *x = piece_segment(all, w, i);

        rc = crn_source_read(&all->sources[x->shard], x, all->out->st->fs, block + at, ei);
        at += x->bytes;
    }
    return rc;
}

cairn_err crn_piece_write(struct crn_pieces *all, const struct crn_piece *p, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (all->encoding != NULL)
        rc = crn_coder_write(p->coder, all, p, ei);
    else if (p->block != NULL && !p->has_arrived)
        rc = piece_gather(all, p->w, p->block, ei);
    if (rc == CAIRN_OK && all->encoding == NULL && p->block == NULL)
        rc = write_in_place(all, piece_segment(all, p->w, 0), in_place(all, p->w), ei);
    else if (rc == CAIRN_OK && all->encoding == NULL)
        rc = write_block(all, p->w, p->block, ei);
    return rc;
}
