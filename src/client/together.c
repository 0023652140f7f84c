/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks share the reading. Ranks whose shards lie in one file form a team that reads this
 * file; if the number of ranks differs, all ranks form one team for all files. Readers are the ranks of
 * a node, or some of them if they are many: each reads the large extents of its own shard straight into
 * the application's memory. A rank whose shard is in its arena or in a file on the node's disk reads it
 * alone. An error of a single rank is reported only at the end, so that the other ranks are not left
 * waiting. */
#include "client/together.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include "client/restoring.h"
#include "restart/scatter.h"

#define READ_THREADS 4  /* of each node, at least */
#define READERS      16 /* of each node, at most */
#define READ_BLOCK   ((uint64_t)16 << 20)
#define SECOND       1000000000LL

/* Teams. --------------------------------------------------------------------------------------- */

struct room {
    struct crn_readers team;
    uint32_t *files;
    int *readers;
    int *reader_of;   /* NULL: the number of ranks differs */
    unsigned threads; /* of a reader of this node */
};

static void together_leave(struct room *r)
{
    if (r->team.comm != NULL)
        r->team.comm->ops->free(r->team.comm);
    free(r->files);
    free(r->readers);
    free(r->reader_of);
}

/* All ranks, or those whose shards lie in the same file as this one's; ascending. */
static cairn_err list_members(const cairn_session *s, const struct crn_version *v, int **ret,
                              int *ret_n, struct crn_errinfo *ei)
{
    int is_same = crn_version_manifest(v)->ranks == s->ranks;
    int *ranks = calloc(s->ranks, sizeof(*ranks));
    uint32_t i;
    int n = 0;

    if (ranks == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of up to %u ranks", s->ranks);
    for (i = 0; i < s->ranks; i++)
        if (!is_same || crn_version_file_of(v, i) == crn_version_file_of(v, s->rank))
            ranks[n++] = (int)i;
    *ret = ranks;
    *ret_n = n;
    return CAIRN_OK;
}

/* Of the n ranks of a team on each node every step-th is a reader, and reads for those that follow it. */
static cairn_err choose_readers(const cairn_session *s, struct room *r, const int *ranks, int n,
                                struct crn_errinfo *ei)
{
    uint32_t *on_node = calloc(s->nodes, sizeof(*on_node)); /* ranks of the team */
    uint32_t *seen = calloc(s->nodes, sizeof(*seen));
    int *last = calloc(s->nodes, sizeof(*last)); /* reader of the node, as an index */
    cairn_err rc = CAIRN_OK;
    int i;

    r->readers = calloc((size_t)n + 1, sizeof(*r->readers));
    if (on_node == NULL || seen == NULL || last == NULL || r->readers == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of %d ranks", n);
        goto out;
    }
    for (i = 0; i < n; i++)
        on_node[s->node_of[ranks[i]]]++;
    for (i = 0; i < n; i++) {
        uint32_t node = s->node_of[ranks[i]];
        uint32_t step = (on_node[node] + READERS - 1) / READERS;

        if (seen[node]++ % step == 0) {
            last[node] = (int)r->team.nreaders;
            r->readers[r->team.nreaders++] = i;
        }
        if (r->reader_of != NULL)
            r->reader_of[ranks[i]] = last[node];
    }
    r->team.readers = r->readers;
    r->team.reader_of = r->reader_of;
    i = (int)((on_node[s->node] + READERS - 1) / READERS); /* its readers share the threads */
    i = i > 0 ? (int)on_node[s->node] / i : 1;
    r->threads = i < READ_THREADS ? (unsigned)(READ_THREADS + i - 1) / (unsigned)i : 1;
out:
    free(on_node);
    free(seen);
    free(last);
    return rc;
}

/* Local: the manifest determines the teams. */
static cairn_err together_join(const cairn_session *s, const struct crn_version *v, struct room *r,
                               struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    int is_same = m->ranks == s->ranks;
    uint32_t first = is_same ? crn_version_file_of(v, s->rank) : 0;
    int *ranks = NULL;
    cairn_err rc;
    uint32_t i;
    int n = 0;

    r->team.nfiles = is_same ? 1 : m->nfiles;
    r->files = calloc(r->team.nfiles, sizeof(*r->files));
    if (r->files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u files", r->team.nfiles);
    for (i = 0; i < r->team.nfiles; i++)
        r->files[i] = first + i;
    r->team.files = r->files;
    if (is_same) {
        r->reader_of = malloc(m->ranks * sizeof(*r->reader_of));
        if (r->reader_of == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u ranks", m->ranks);
        memset(r->reader_of, 0xff, m->ranks * sizeof(*r->reader_of)); /* -1 */
    }
    rc = list_members(s, v, &ranks, &n, ei);
    if (rc == CAIRN_OK)
        rc = choose_readers(s, r, ranks, n, ei);
    if (rc == CAIRN_OK)
        rc = crn_mail_part(s->mail, s->teams, ranks, n, &r->team.comm, ei);
    free(ranks);
    return rc;
}

/* The timeout is the one for a silent node in a flush. */
void crn_together_watch(cairn_session *s, int is_on)
{
    crn_mail_watch(s->mail, is_on ? (int64_t)s->cfg.commit_timeout_ns / 4 * 5 + 3 * SECOND : 0);
}

/* What this rank wants. ------------------------------------------------------------------------ */

struct wanted {
    struct crn_restoring t;
    int is_alone; /* this rank reads by itself, after the others: from its arena, its node's disk, ... */
    struct crn_slice *parts;
    uint32_t nparts, cap;
    unsigned char *memory; /* from which the parts count */
    unsigned char *bounce; /* for regions in GPU memory, one after another */
    uint64_t bounce_bytes;
};

/* After an MPI error, or if a rank hangs, the state of the other ranks is unknown and they cannot
 * be reached. */
static int is_cut_off(cairn_err rc)
{
    return rc == CAIRN_EMPI || rc == CAIRN_EPEER;
}

/* If cut off, leaks what other processes may still write to. */
static void together_forget(struct wanted *w, cairn_err rc)
{
    if (w->bounce != NULL && !is_cut_off(rc))
        (void)munmap(w->bounce, w->bounce_bytes);
    crn_restoring_close(&w->t);
    free(w->parts);
}

static cairn_err add_part(void *arg, const struct crn_slice *p, struct crn_errinfo *ei)
{
    struct wanted *w = arg;
    struct crn_slice *grown;
    uint32_t cap;

    if (w->nparts == w->cap) {
        cap = w->cap > 0 ? 2 * w->cap : 16;
        grown = realloc(w->parts, cap * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u parts", cap);
        w->parts = grown;
        w->cap = cap;
    }
    w->parts[w->nparts++] = *p;
    return CAIRN_OK;
}

static cairn_err ignore_part(void *arg, const struct crn_slice *p, struct crn_errinfo *ei)
{
    (void)arg;
    (void)p;
    (void)ei;
    return CAIRN_OK;
}

/* Is this very capture still in the memory of this rank, and fits? */
static int is_held(cairn_session *s, const struct crn_manifest *m, struct crn_restoring *t)
{
    const struct crn_track *mine = crn_track_find(s, m->name, m->version);
    const struct crn_shard *own;

    if (mine == NULL || mine->seq != m->id.seq || memcmp(m->id.run, s->run, sizeof(s->run)) != 0)
        return 0;
    own = crn_restore_own_shard(s, m->name, m->version);
    return own != NULL && crn_restoring_fits(t, own);
}

/* One read of an encoded file decodes it for all ranks: regions of GPUs then take part through host
 * memory. Elsewhere their rank reads them, piece by piece. */
static int make_bounce(const struct crn_version *v, uint32_t file, struct wanted *w)
{
    uint64_t bytes = 0;
    void *memory;
    uint32_t i;

    for (i = 0; i < w->t.want.nregions; i++)
        if (w->t.places[i].device != NULL)
            bytes += w->t.want.regions[i].bytes;
    if (bytes == 0)
        return 1;
    if (!crn_version_is_encoded(v, file))
        return 0;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    w->bounce = memory;
    w->bounce_bytes = bytes;
    return 1;
}

/* Lists the parts of all regions. Their `to` is an address until all are known. */
static cairn_err list_parts(struct crn_version *v, struct wanted *w, struct crn_errinfo *ei)
{
    const struct crn_restoring *t = &w->t;
    unsigned char *next = w->bounce;
    uint64_t low = UINT64_MAX;
    cairn_err rc = CAIRN_OK;
    uint32_t i, k;

    for (i = 0; rc == CAIRN_OK && i < t->want.nregions; i++) {
        const struct crn_region *r = &t->want.regions[i];
        unsigned char *to = t->places[i].device != NULL ? next : t->places[i].ptr;
        struct crn_slice whole = {.rank = t->old_rank, .run = r->bytes};

        if (r->bytes == 0)
            continue;
        next += t->places[i].device != NULL ? r->bytes : 0;
        k = w->nparts;
        whole.region = t->from[i] >= 0 ? (uint32_t)t->from[i] : 0;
        rc = t->from[i] >= 0 ? add_part(w, &whole, ei)
                             : crn_version_plan_block(v, r, add_part, w, ei);
        for (; k < w->nparts; k++)
            w->parts[k].to += (uint64_t)(uintptr_t)to;
        low = (uint64_t)(uintptr_t)to < low ? (uint64_t)(uintptr_t)to : low;
    }
    for (k = 0; k < w->nparts; k++)
        w->parts[k].to -= low;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the lowest of these addresses */
    w->memory = (unsigned char *)(uintptr_t)low;
    return rc;
}

/* What cannot be restored here is found before a byte is written anywhere. */
static cairn_err check_blocks(struct crn_version *v, const struct crn_restoring *t,
                              struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < t->want.nregions; i++)
        if (t->from[i] < 0)
            rc = crn_version_plan_block(v, &t->want.regions[i], ignore_part, NULL, ei);
    return rc;
}

static int has_blocks(const struct crn_restoring *t)
{
    uint32_t i;

    for (i = 0; i < t->want.nregions; i++)
        if (t->from[i] < 0)
            return 1;
    return 0;
}

static cairn_err together_want(cairn_session *s, struct crn_version *v, const char *const *regions,
                               struct wanted *w, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    int is_same = m->ranks == s->ranks;
    struct crn_restoring *t = &w->t;
    cairn_err rc;

    rc = crn_restoring_open(s, m->name, m->version, CAIRN_OWN_RANK, regions, t, ei);
    if (rc != CAIRN_OK)
        return rc;
    t->v = v;
    w->is_alone = is_held(s, m, t);
    if (w->is_alone)
        return CAIRN_OK;
    if (s->rank < m->ranks)
        rc = crn_version_shard(v, s->rank, &t->have, ei);
    if (rc == CAIRN_OK)
        rc = crn_restoring_match(s, t, 0, ei);
    if (rc != CAIRN_OK)
        return rc;
    /* The team of a version of as many ranks reads the files of its own shards only. */
    w->is_alone = is_same && (crn_version_has_copy(v, s->rank) || has_blocks(t));
    if (w->is_alone || !make_bounce(v, is_same ? crn_version_file_of(v, s->rank) : 0, w)) {
        w->is_alone = 1;
        return check_blocks(v, t, ei);
    }
    return list_parts(v, w, ei);
}

/* Reading. ------------------------------------------------------------------------------------- */

static cairn_err together_scatter(cairn_session *s, struct crn_version *v, const struct room *r,
                                  const struct wanted *w, int is_check, int *ret_whole,
                                  struct crn_errinfo *ei)
{
    struct crn_scatter c = {.v = v,
                            .parts = w->parts,
                            .nparts = w->nparts,
                            .memory = w->memory,
                            .node = s->node,
                            .is_check = is_check,
                            .threads = r->threads,
                            .cores = (enum crn_background_cores)s->cfg.background_cores,
                            .block_bytes = (size_t)s->cfg.block_bytes};

    if (c.block_bytes > READ_BLOCK)
        c.block_bytes = READ_BLOCK;
    return crn_scatter_run(&c, &r->team, ret_whole, ei);
}

/* What this rank has not read together. */
static cairn_err read_rest(cairn_session *s, const struct wanted *w, const char *const *regions,
                           int is_alone, struct crn_errinfo *ei)
{
    const struct crn_restoring *t = &w->t;
    const unsigned char *next = w->bounce;
    struct crn_errinfo late = {0};
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (is_alone || w->is_alone)
        return crn_restore(s, t->name, t->version, CAIRN_OWN_RANK, regions, ei);
    for (i = 0; rc == CAIRN_OK && w->bounce != NULL && i < t->want.nregions; i++) {
        if (t->places[i].device == NULL)
            continue;
        rc = crn_gpu_restore(s, &t->places[i], next, t->want.regions[i].bytes, ei);
        next += t->want.regions[i].bytes;
    }
    if (w->bounce != NULL && crn_gpu_wait(s, &late) != CAIRN_OK && rc == CAIRN_OK) {
        crn_err_keep(ei, &late);
        rc = late.code;
    }
    if (rc == CAIRN_OK) {
        crn_restoring_done(s, t);
        crn_session_succeeds(s, t->name);
    }
    return rc;
}

/* If a file of the store is damaged, nodes may have what is needed in copies: every rank reads by itself
 * then. All ranks have failed, and get the same answer. */
static int may_read_alone(cairn_session *s, const struct crn_version *v, cairn_err rc)
{
    int64_t state[2] = {rc == CAIRN_EDAMAGED, crn_version_copies(v) > 0};
    struct crn_errinfo ignored = {0};

    return crn_version_manifest(v)->ranks != s->ranks &&
           s->all->ops->allreduce(s->all, state, 2, CRN_COMM_MAX, &ignored) == CAIRN_OK &&
           state[0] && state[1];
}

static cairn_err read_all(cairn_session *s, struct crn_version *v, const struct room *r,
                          const char *const *regions, struct crn_errinfo *ei)
{
    struct crn_errinfo own = {0};
    struct crn_errinfo index = {0};
    struct wanted w = {0};
    cairn_err loaded, rc;
    int is_alone = 0;
    int is_whole = 0;

    loaded = crn_version_load_together(v, &r->team, &index);
    if (is_cut_off(loaded)) {
        crn_err_keep(ei, &index);
        return loaded;
    }
    rc = together_want(s, v, regions, &w, &own);
    if (rc == CAIRN_OK && !w.is_alone && loaded != CAIRN_OK) {
        rc = loaded;
        own = index;
    }
    rc = crn_session_agree(s, rc, "matching the regions", &own);
    /* The files of a team may be damaged although its ranks have what they need elsewhere. */
    if (rc == CAIRN_OK && loaded == CAIRN_OK)
        rc = together_scatter(s, v, r, &w, 0, &is_whole, &own);
    if (!is_cut_off(rc)) /* after this, no rank writes into another's memory */
        rc = crn_session_agree(s, rc, "reading the version", &own);
    if (rc != CAIRN_OK && !is_cut_off(rc) && may_read_alone(s, v, rc)) {
        crn_err_clear(&own);
        is_alone = 1;
        rc = CAIRN_OK;
    }
    crn_together_watch(s, 0);
    s->is_repair_told = 1; /* all ranks report it together */
    if (rc == CAIRN_OK)
        rc = crn_session_agree(s, read_rest(s, &w, regions, is_alone, &own), "restoring", &own);
    together_forget(&w, rc);
    crn_err_keep(ei, &own);
    return rc;
}

/* Can this rank read what it needs? Its index, or the one of a copy, says what there is. */
static cairn_err look_all(cairn_session *s, struct crn_version *v, const struct room *r,
                          struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    const struct crn_shard *shard;
    struct crn_errinfo own = {0};
    cairn_err rc;
    uint32_t i;

    rc = crn_version_load_together(v, &r->team, &own);
    if (is_cut_off(rc)) {
        crn_err_keep(ei, &own);
        return rc;
    }
    if (rc != CAIRN_OK && crn_restore_own_shard(s, m->name, m->version) != NULL)
        rc = CAIRN_OK;
    if (rc != CAIRN_OK && crn_version_copies(v) > 0) {
        crn_err_clear(&own);
        rc = CAIRN_OK;
        for (i = m->ranks == s->ranks ? s->rank : 0; rc == CAIRN_OK && i < m->ranks;
             i = m->ranks == s->ranks ? m->ranks : i + 1)
            rc = crn_version_shard(v, i, &shard, &own);
    }
    rc = crn_session_agree(s, rc, "reading the indexes", &own);
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &own);
    return rc;
}

/* Each rank verifies its share of the shards, from copies where its node has them. */
static cairn_err verify_alone(cairn_session *s, struct crn_version *v, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = s->rank; rc == CAIRN_OK && i < m->ranks; i += s->ranks) {
        crn_mail_beat(s->mail);
        rc = crn_version_check_rank(v, i, NULL, ei);
    }
    return rc;
}

static cairn_err verify_all(cairn_session *s, struct crn_version *v, const struct room *r,
                            struct crn_errinfo *ei)
{
    int is_same = crn_version_manifest(v)->ranks == s->ranks;
    int64_t all_have = is_same && crn_version_has_copy(v, s->rank);
    int64_t alone[2] = {0, crn_version_copies(v) > 0}; /* a rank met damage; a rank has copies */
    struct crn_errinfo own = {0};
    struct wanted none = {0};
    int is_whole = 0;
    cairn_err rc;

    rc = s->all->ops->allreduce(s->all, &all_have, 1, CRN_COMM_MIN, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (!all_have)
        rc = crn_version_load_together(v, &r->team, &own);
    if (rc == CAIRN_OK && !all_have)
        rc = together_scatter(s, v, r, &none, 1, &is_whole, &own);
    if (!is_cut_off(rc)) {
        rc = crn_session_agree(s, rc, "verifying the version", &own);
        alone[0] = all_have || rc == CAIRN_EDAMAGED;
    }
    if (is_cut_off(rc) ||
        s->all->ops->allreduce(s->all, alone, 2, CRN_COMM_MAX, &own) != CAIRN_OK) {
        crn_err_keep(ei, &own);
        return own.code;
    }
    if (alone[0] && alone[1]) {
        crn_err_clear(&own);
        crn_together_watch(s, 0); /* it may take as long as it takes */
        rc = crn_session_agree(s, verify_alone(s, v, &own), "verifying the version", &own);
    }
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &own);
    return rc;
}

cairn_err crn_together_read(cairn_session *s, const char *name, int64_t version,
                            enum crn_together_how how, const char *const *regions,
                            struct crn_errinfo *ei)
{
    struct crn_version *v = NULL;
    struct room r = {0};
    cairn_err rc;

    s->teams++;
    crn_together_watch(s, 1);
    crn_version_close(s->open_version); /* reopen: it may have been replaced or repaired */
    s->open_version = NULL;
    rc = crn_version_open_together(s->all, s->fs, s->cfg.persistent, name, version, &v, ei);
    if (rc == CAIRN_OK) {
        crn_session_keep(s, v);
        rc = together_join(s, v, &r, ei);
    }
    rc = crn_session_agree(s, rc, "opening the version", ei);
    if (rc == CAIRN_OK)
        rc = how == CRN_TOGETHER_RESTORE  ? read_all(s, v, &r, regions, ei)
             : how == CRN_TOGETHER_VERIFY ? verify_all(s, v, &r, ei)
                                          : look_all(s, v, &r, ei);
    if (rc == CAIRN_OK && how != CRN_TOGETHER_VERIFY)
        crn_told_repaired(s, name, version);
    crn_together_watch(s, 0);
    together_leave(&r);
    return rc;
}
