/* SPDX-License-Identifier: BSD-3-Clause */
/* One algorithm covers all four schemes. A stream has strands, a strand is a sequence of regions,
 * and the stream takes a block of each strand in turn until all are empty. Concatenation has
 * unlimited blocks. Agnostic: a strand is a rank with all its regions. Aware: a strand is one
 * region, and a stream has those with the same key. Small streams are then joined, because each
 * needs a chunk and an entry of the index, and small chunks compress less. */
#include "encode/merge.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"

#define DEFAULT_BLOCK ((uint64_t)4 << 10)
#define DEFAULT_MIN   ((uint64_t)100)
#define NO_STREAM     UINT32_MAX

struct merge_strand {
    uint32_t shard;
    uint32_t first; /* region */
    uint32_t n;
    uint32_t stream;
    uint64_t bytes;
    /* index in the plan's starts of its regions' starts; unused for strands of one region */
    size_t starts;
};

struct merge_stream {
    struct crn_merge_stream pub;
    char *key;
    size_t first_strand;
};

struct crn_merge {
    const struct crn_shard *shards; /* borrowed */
    uint64_t block;
    size_t nstrands;
    struct merge_strand *strands; /* by stream, then by rank */
    uint64_t *starts; /* agnostic schemes: offset of every region in the checkpoint of its rank */
    uint32_t nstreams;
    uint32_t streams_room;
    struct merge_stream *streams;
    uint32_t
        *table; /* streams by hash of the key; table_size is a power of two above their number */
    size_t table_size;
};

const char *crn_merge_scheme_name(enum crn_scheme scheme)
{
    static const char *const names[CRN_SCHEMES] = {"agnostic", "agnostic-block", "aware",
                                                   "aware-block"};

    return (unsigned)scheme < CRN_SCHEMES ? names[scheme] : "unknown";
}

void crn_merge_free(struct crn_merge *m)
{
    uint32_t i;

    if (m == NULL)
        return;
    for (i = 0; i < m->nstreams; i++)
        free(m->streams[i].key);
    free(m->streams);
    free(m->strands);
    free(m->starts);
    free(m->table);
    free(m);
}

static cairn_err no_memory(struct crn_errinfo *ei)
{
    return crn_fail(ei, CAIRN_ENOMEM, 0, "plan of merging");
}

/* The slot of the key, or the free one where it belongs. */
static size_t table_place(const struct crn_merge *m, const char *key)
{
    size_t i = (size_t)crn_hash(key, strlen(key)) & (m->table_size - 1);

    while (m->table[i] != NO_STREAM && strcmp(m->streams[m->table[i]].key, key) != 0)
        i = (i + 1) & (m->table_size - 1);
    return i;
}

static cairn_err table_grow(struct crn_merge *m, struct crn_errinfo *ei)
{
    size_t size = m->table_size > 0 ? 2 * m->table_size : 64;
    uint32_t *grown = malloc(size * sizeof(*grown));
    uint32_t i;

    if (grown == NULL)
        return no_memory(ei);
    memset(grown, 0xff, size * sizeof(*grown));
    free(m->table);
    m->table = grown;
    m->table_size = size;
    for (i = 0; i < m->nstreams; i++)
        m->table[table_place(m, m->streams[i].key)] = i;
    return CAIRN_OK;
}

static cairn_err add_stream(struct crn_merge *m, const char *key, cairn_type type,
                            struct crn_errinfo *ei)
{
    struct merge_stream *s;

    if (m->nstreams == m->streams_room) {
        uint32_t room = m->streams_room > 0 ? 2 * m->streams_room : 16;
        struct merge_stream *grown = realloc(m->streams, room * sizeof(*grown));

        if (grown == NULL)
            return no_memory(ei);
        m->streams = grown;
        m->streams_room = room;
    }
    s = &m->streams[m->nstreams];
    memset(s, 0, sizeof(*s));
    s->key = strdup(key);
    if (s->key == NULL)
        return no_memory(ei);
    s->pub.key = s->key;
    s->pub.type = type;
    m->nstreams++;
    return CAIRN_OK;
}

/* The stream of a key; creates it if new. */
static cairn_err find_stream(struct crn_merge *m, const char *key, cairn_type type, uint32_t *ret,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t place;

    if (2 * ((size_t)m->nstreams + 1) > m->table_size)
        rc = table_grow(m, ei);
    if (rc != CAIRN_OK)
        return rc;
    place = table_place(m, key);
    if (m->table[place] == NO_STREAM) {
        rc = add_stream(m, key, type, ei);
        if (rc != CAIRN_OK)
            return rc;
        m->table[place] = m->nstreams - 1;
    }
    *ret = m->table[place];
    return CAIRN_OK;
}

static void add_strand(struct crn_merge *m, struct merge_strand strand)
{
    m->strands[m->nstrands++] = strand;
    m->streams[strand.stream].pub.bytes += strand.bytes;
    m->streams[strand.stream].pub.strands++;
}

static cairn_err plan_agnostic(struct crn_merge *m, uint32_t nshards, struct crn_errinfo *ei)
{
    cairn_err rc = add_stream(m, "", CAIRN_BYTES, ei);
    size_t regions = 0;
    uint32_t i;
    uint32_t k;

    for (i = 0; i < nshards; i++)
        regions += m->shards[i].nregions;
    m->starts = malloc((regions + 1) * sizeof(*m->starts));
    if (m->starts == NULL && rc == CAIRN_OK)
        rc = no_memory(ei);
    regions = 0;
    for (i = 0; rc == CAIRN_OK && i < nshards; i++) {
        struct merge_strand strand = {.shard = i, .n = m->shards[i].nregions, .starts = regions};

        for (k = 0; k < strand.n; k++) {
            m->starts[regions++] = strand.bytes;
            strand.bytes += m->shards[i].regions[k].bytes;
        }
        if (strand.bytes > 0)
            add_strand(m, strand);
    }
    return rc;
}

/* Keys begin with the name of a region, so "" is free for the small ones. */
static cairn_err plan_aware(struct crn_merge *m, uint32_t nshards,
                            const struct crn_merge_options *o, struct crn_errinfo *ei)
{
    uint64_t min_bytes = o->min_bytes > 0 ? o->min_bytes : DEFAULT_MIN;
    char key[CRN_SIMILAR_TEXT];
    uint32_t i;
    uint32_t k;

    for (i = 0; i < nshards; i++)
        for (k = 0; k < m->shards[i].nregions; k++) {
            const struct crn_region *r = &m->shards[i].regions[k];
            struct merge_strand strand = {.shard = i, .first = k, .n = 1, .bytes = r->bytes};
            int is_small = r->bytes < min_bytes;
            cairn_err rc;

            if (r->bytes == 0)
                continue;
            key[0] = '\0';
            if (!is_small)
                crn_similar_key(o->similar, r, key);
            rc = find_stream(m, key, is_small ? CAIRN_BYTES : r->type, &strand.stream, ei);
            if (rc != CAIRN_OK)
                return rc;
            assert(m->streams != NULL);
            m->streams[strand.stream].pub.is_small = is_small;
            add_strand(m, strand);
        }
    return CAIRN_OK;
}

/* Groups the strands by stream; stable, so that ranks stay in order. */
static cairn_err sort_strands(struct crn_merge *m, struct crn_errinfo *ei)
{
    struct merge_strand *sorted = malloc((m->nstrands + 1) * sizeof(*sorted));
    size_t at = 0;
    size_t i;

    if (sorted == NULL)
        return no_memory(ei);
    for (i = 0; i < m->nstreams; i++) {
        m->streams[i].first_strand = at;
        at += m->streams[i].pub.strands;
    }
    for (i = 0; i < m->nstrands; i++)
        sorted[m->streams[m->strands[i].stream].first_strand++] = m->strands[i];
    for (i = 0; i < m->nstreams; i++)
        m->streams[i].first_strand -= m->streams[i].pub.strands;
    free(m->strands);
    m->strands = sorted;
    return CAIRN_OK;
}

/* Is the region a slab of a global array: all of each dimension but the slowest? Then *ret is the place of
 * its first element in that array. */
static int is_slab(const struct crn_region *r, uint64_t *ret)
{
    uint64_t before = r->offset[0];
    int d;

    if (!r->is_global)
        return 0;
    for (d = 1; d < r->ndims; d++) {
        if (r->dims[d] != r->global_dims[d])
            return 0;
        before *= r->dims[d];
    }
    *ret = before;
    return 1;
}

/* Where a strand begins in a global array; 0 for all others, which stay in the order of their ranks. */
static uint64_t strand_place(const struct crn_merge *m, const struct merge_strand *l)
{
    uint64_t place = 0;

    return is_slab(&m->shards[l->shard].regions[l->first], &place) ? place : 0;
}

static int by_place(const void *a, const void *b, void *merge)
{
    const struct merge_strand *x = a;
    const struct merge_strand *y = b;
    uint64_t at_x = strand_place(merge, x);
    uint64_t at_y = strand_place(merge, y);

    if (at_x != at_y)
        return at_x < at_y ? -1 : 1;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Slabs of a global array in the order of the array, so that one continues the other. Only where a stream is
 * one variable: streams are joined later. */
static void place_strands(struct crn_merge *m)
{
    uint32_t i;

    for (i = 0; i < m->nstreams; i++)
        if (m->streams[i].pub.strands > 1)
            qsort_r(m->strands + m->streams[i].first_strand, m->streams[i].pub.strands,
                    sizeof(*m->strands), by_place, m);
}

/* The key of a stream after joining. */
static void joined_key(const struct crn_merge_stream *s, uint64_t limit, int by_type,
                       char ret[CRN_SIMILAR_TEXT])
{
    if (s->bytes >= limit || s->is_small)
        (void)snprintf(ret, CRN_SIMILAR_TEXT, "%s", s->key);
    else if (by_type)
        crn_similar_type(s->type, ret);
    else
        crn_similar_family(s->key, s->type, ret);
}

/* A stream that found none to join keeps its name. */
static void keep_names(struct crn_merge *m, struct merge_stream *old, uint32_t n,
                       const uint32_t *to)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        struct merge_stream *s = &m->streams[to[i]];
        char *key = s->key;

        if (s->pub.strands != old[i].pub.strands)
            continue;
        s->key = old[i].key;
        s->pub.key = s->key;
        old[i].key = key;
    }
}

/* Joins streams below the limit that have a key in common, by building the list of streams again. */
static cairn_err join_streams(struct crn_merge *m, uint64_t limit, int by_type,
                              struct crn_errinfo *ei)
{
    struct merge_stream *old = m->streams;
    uint32_t n = m->nstreams;
    uint32_t *to = malloc((n + (size_t)1) * sizeof(*to));
    char key[CRN_SIMILAR_TEXT];
    cairn_err rc = to != NULL ? CAIRN_OK : no_memory(ei);
    size_t strand;
    uint32_t i;

    m->streams = NULL;
    m->nstreams = m->streams_room = 0;
    free(m->table);
    m->table = NULL;
    m->table_size = 0;
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        joined_key(&old[i].pub, limit, by_type, key);
        rc = find_stream(m, key, old[i].pub.type, &to[i], ei);
        assert(rc != CAIRN_OK || m->streams != NULL);
        if (rc == CAIRN_OK)
            m->streams[to[i]].pub.is_small = old[i].pub.is_small;
    }
    assert(m->nstrands == 0 || rc != CAIRN_OK || m->streams != NULL);
    for (strand = 0; rc == CAIRN_OK && strand < m->nstrands; strand++) {
        m->strands[strand].stream = to[m->strands[strand].stream];
        m->streams[m->strands[strand].stream].pub.bytes += m->strands[strand].bytes;
        m->streams[m->strands[strand].stream].pub.strands++;
    }
    if (rc == CAIRN_OK)
        keep_names(m, old, n, to);
    for (i = 0; i < n; i++)
        free(old[i].key);
    free(old);
    free(to);
    return rc == CAIRN_OK ? sort_strands(m, ei) : rc;
}

cairn_err crn_merge_plan(const struct crn_shard *shards, uint32_t nshards,
                         const struct crn_merge_options *options, struct crn_merge **ret,
                         struct crn_errinfo *ei)
{
    int is_block = options->scheme == CRN_AGNOSTIC_BLOCK || options->scheme == CRN_AWARE_BLOCK;
    int is_aware = options->scheme == CRN_AWARE || options->scheme == CRN_AWARE_BLOCK;
    struct crn_merge *m;
    size_t strands = nshards;
    int by_type;
    uint32_t i;
    cairn_err rc;

    if (options->block_bytes % 16 != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a merging block must be a multiple of 16 bytes");
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return no_memory(ei);
    m->shards = shards;
    m->block = UINT64_MAX;
    if (is_block)
        m->block = options->block_bytes > 0 ? options->block_bytes : DEFAULT_BLOCK;
    for (i = 0; is_aware && i < nshards; i++)
        strands += shards[i].nregions;
    m->strands = malloc((strands + 1) * sizeof(*m->strands));
    rc = m->strands == NULL ? no_memory(ei) : CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = is_aware ? plan_aware(m, nshards, options, ei) : plan_agnostic(m, nshards, ei);
    if (rc == CAIRN_OK)
        rc = sort_strands(m, ei);
    if (rc == CAIRN_OK && options->scheme == CRN_AWARE)
        place_strands(m);
    for (by_type = 0; rc == CAIRN_OK && is_aware && options->group_bytes > 0 && by_type < 2;
         by_type++)
        rc = join_streams(m, options->group_bytes, by_type, ei);
    if (rc != CAIRN_OK) {
        crn_merge_free(m);
        return rc;
    }
    *ret = m;
    return CAIRN_OK;
}

uint32_t crn_merge_streams(const struct crn_merge *m)
{
    return m->nstreams;
}

const struct crn_merge_stream *crn_merge_stream(const struct crn_merge *m, uint32_t stream)
{
    return &m->streams[stream].pub;
}

void crn_merge_start(const struct crn_merge *m, uint32_t stream, struct crn_merge_cursor *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->m = m;
    ret->stream = stream;
}

/* The region of a strand that contains a byte, the last of those that begin there (empty ones may
 * too); offset becomes relative to the region. */
static uint32_t region_at(const struct crn_merge *m, const struct merge_strand *strand,
                          uint64_t *offset)
{
    const uint64_t *starts = m->starts + strand->starts;
    uint32_t low = 0;
    uint32_t high = strand->n;

    if (strand->n == 1)
        return strand->first;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;

        if (starts[middle] <= *offset)
            low = middle;
        else
            high = middle;
    }
    *offset -= starts[low];
    return low;
}

static uint64_t merge_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Advances to the next strand with bytes in this round or a later one; 0 if there is none. */
static int next_block(struct crn_merge_cursor *c, const struct merge_strand *strands, uint32_t n)
{
    const uint64_t block = c->m->block;
    uint32_t seen;

    for (seen = 0; seen <= n; seen++) {
        if (c->strand == n) {
            c->strand = 0;
            c->round++;
            if (block == UINT64_MAX)
                return 0; /* concatenation has one round */
        }
        if (strands[c->strand].bytes / block >= c->round &&
            strands[c->strand].bytes - c->round * block > c->done)
            return 1;
        c->strand++;
        c->done = 0;
    }
    return 0;
}

int crn_merge_next(struct crn_merge_cursor *c, uint64_t most, struct crn_merge_piece *ret)
{
    const struct merge_stream *s = &c->m->streams[c->stream];
    const struct merge_strand *strands = c->m->strands + s->first_strand;
    const struct merge_strand *strand;
    const struct crn_region *region;
    uint64_t start;
    uint64_t in_block;

    if (s->pub.strands == 0 || !next_block(c, strands, s->pub.strands))
        return 0;
    strand = &strands[c->strand];
    start = c->m->block == UINT64_MAX ? 0 : c->round * c->m->block;
    in_block = merge_least(c->m->block, strand->bytes - start) - c->done;
    ret->shard = strand->shard;
    ret->offset = start + c->done;
    ret->region = region_at(c->m, strand, &ret->offset);
    region = &c->m->shards[strand->shard].regions[ret->region];
    ret->bytes = merge_least(merge_least(in_block, region->bytes - ret->offset), most);
    c->done += ret->bytes;
    if (c->done == merge_least(c->m->block, strand->bytes - start)) {
        c->strand++;
        c->done = 0;
    }
    return 1;
}

struct crn_run crn_merge_run(const struct crn_merge *m, const struct crn_merge_piece *p)
{
    const struct crn_region *r = &m->shards[p->shard].regions[p->region];
    size_t size = cairn_type_size(r->type);
    struct crn_run run = {
        .elements = p->bytes / size, .stride = {1, 0, 0}, .place = p->offset / size};
    uint64_t longest = run.elements; /* nothing can be predicted from farther away */
    uint64_t stride = 1;
    uint64_t first;
    int k = 1;
    int d;

    if (is_slab(r, &first)) { /* the slab before it may continue here */
        run.place += first;
        longest = UINT32_MAX;
    }
    for (d = r->ndims - 1; d > 0 && k < CRN_STRIDES; d--) {
        if (r->dims[d] >= longest || stride * r->dims[d] >= longest)
            break;
        stride *= r->dims[d];
        if (r->dims[d] > 1)
            run.stride[k++] = (uint32_t)stride;
    }
    return run;
}
