/* SPDX-License-Identifier: BSD-3-Clause */
/* The copies are divided into pieces. The caller and the helpers take the next few, so a slow
 * helper delays the end by these at most. A helper without a core may be descheduled in the middle
 * of a piece, so no more helpers take part than cores are idle. A capture below split_bytes wakes
 * none. */
#include "capture/copier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/hashed.h"
#include "capture/stream.h"

#define PIECE       ((uint64_t)1 << 20)
#define CHUNK_MIN   ((uint64_t)64 << 10) /* smaller chunks do not pay for copies side by side */
#define CHUNK_MAX   ((uint64_t)4 << 20)
#define STREAM_MIN  ((uint64_t)2 << 20) /* smaller lists are copied through the caches */
#define MAX_HELPERS 31

struct crn_copier {
    uint64_t split_bytes;
    uint64_t chunk_bytes;
    enum crn_hashed_way way;
    struct crn_team *team; /* owned */
};

/* One list of copies; constant while the copier runs. */
struct copier_work {
    const struct crn_copier *c;
    const struct crn_copy *copies;
    uint32_t n;
    int has_hashes; /* all copies have hashes, or none has */
    uint64_t piece_bytes;
    uint64_t pieces;
    uint64_t take; /* pieces in a part of the team's job */
};

/* The copy that piece k belongs to: the last one whose first piece is not after k. Empty copies
 * have no pieces; their first is that of the next copy. */
static uint32_t copy_of(const struct copier_work *w, uint64_t k)
{
    uint32_t lo = 0;
    uint32_t hi = w->n;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (w->copies[mid].first > k)
            hi = mid;
        else
            lo = mid;
    }
    return lo;
}

static struct crn_hashed_copy copier_piece(const struct copier_work *w, uint64_t k)
{
    const struct crn_copy *copy = &w->copies[copy_of(w, k)];
    uint64_t done = (k - copy->first) * w->piece_bytes;
    uint64_t left = copy->bytes - done;

    return (struct crn_hashed_copy){.dst = (char *)copy->dst + done,
                                    .src = (const char *)copy->src + done,
                                    .bytes = left < w->piece_bytes ? left : w->piece_bytes,
                                    .hash = w->has_hashes ? &copy->hashes[k - copy->first] : NULL};
}

/* Part i of the team's job. */
static cairn_err copy_part(void *arg, uint64_t i, struct crn_errinfo *ei)
{
    const struct copier_work *w = arg;
    struct crn_hashed_copy copies[CRN_HASHED_COPIES];
    uint64_t k = i * w->take;
    int n = 0;

    (void)ei;
    while (n < (int)w->take && k < w->pieces)
        copies[n++] = copier_piece(w, k++);
    if (w->has_hashes)
        crn_hashed_copy_by(w->c->way, copies, n);
    else
        crn_stream_copy(copies[0].dst, copies[0].src, copies[0].bytes);
    return CAIRN_OK;
}

cairn_err crn_copier_open(int threads, uint64_t split_bytes, int sharers, uint64_t chunk_bytes,
                          struct crn_copier **ret, struct crn_errinfo *ei)
{
    struct crn_team_options team = {.name = "cairn-copy",
                                    .helpers =
                                        threads - 1 < MAX_HELPERS ? threads - 1 : MAX_HELPERS,
                                    .sharers = sharers,
                                    .stay = 1};
    struct crn_copier *c = calloc(1, sizeof(*c));
    cairn_err rc;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copier");
    c->split_bytes = split_bytes;
    c->chunk_bytes = chunk_bytes;
    c->way = crn_hashed_way();
    rc = crn_team_open(&team, &c->team, ei);
    if (rc != CAIRN_OK) {
        free(c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

void crn_copier_close(struct crn_copier *c)
{
    if (c != NULL)
        crn_team_close(c->team);
    free(c);
}

int crn_copier_hashes(const struct crn_copier *c, uint64_t bytes)
{
    return bytes >= STREAM_MIN && c->way != CRN_HASHED_PLAIN && c->chunk_bytes >= CHUNK_MIN &&
           c->chunk_bytes <= CHUNK_MAX;
}

static void copy_cached(const struct crn_copy *copies, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        if (copies[i].bytes > 0) /* the pointers of an empty copy may be NULL */
            memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
}

void crn_copier_run(const struct crn_copier *c, struct crn_copy *copies, uint32_t n)
{
    int has_hashes = n > 0 && copies[0].hashes != NULL;
    struct copier_work w = {.c = c,
                            .copies = copies,
                            .n = n,
                            .has_hashes = has_hashes,
                            .piece_bytes = has_hashes ? c->chunk_bytes : PIECE,
                            .take = has_hashes ? CRN_HASHED_COPIES : 1};
    struct crn_errinfo none = {0};
    uint64_t bytes = 0;
    uint64_t parts;
    uint64_t k;
    uint32_t i;

    for (i = 0; i < n; i++) {
        copies[i].first = w.pieces;
        w.pieces += (copies[i].bytes + w.piece_bytes - 1) / w.piece_bytes;
        bytes += copies[i].bytes;
    }
    parts = (w.pieces + w.take - 1) / w.take;
    if (bytes < STREAM_MIN && !has_hashes)
        copy_cached(copies, n);
    else if (bytes >= c->split_bytes)
        (void)!crn_team_run(c->team, parts, copy_part, &w, &none); /* no part fails */
    else
        for (k = 0; k < parts; k++)
            (void)!copy_part(&w, k, &none);
}
