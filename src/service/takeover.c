/* SPDX-License-Identifier: BSD-3-Clause */
/* A restarted service takes over the jobs of a dead one, whose ranks still run. The arenas say what
 * has been captured, the store says what has been committed; the rest is agreed on again:
 *
 *   cairnd   finds the runs of its node whose ranks live (living.c), locks their directories and
 *            maps their arenas: slots that the dead service owned change hands (FLUSHING becomes
 *            WRITTEN, LENT becomes FLUSHED)
 *   node     NODE_HERE to all services; the answers tell where the job's other nodes are now. Once
 *            all nodes have the job, every WRITTEN slot counts as captured, as if its rank had said
 *            so; the node asks the root whether it is committed already: node/adopt.c
 *   rank     HELLO, as one that rejoins, and ARENA; the answers come once all nodes have the job.
 *            Then CAPTURED for each undecided slot, which is answered with its state.
 *
 * No rank need call Cairn for that: it may wait in MPI for one that waits here. Where no arena could
 * be found, or not all of them, the first HELLO opens the job, and ARENA and CAPTURED do the rest.
 * A rank that died while there was no service is found by its lock; the checkpoints that need it
 * fail, and the directory stays for a drain. On the loop thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "service/job.h"

struct crn_taken {
    uint32_t nhere;            /* nodes that have the job again */
    unsigned char *is_here;    /* by node */
    unsigned char *has_joined; /* by local index: got its READY */
    unsigned char *reports;    /* by local index: has sent CAPTURED */
    unsigned char *is_known;   /* by local index: its arena says its rank */
};

cairn_err crn_takeover(struct crn_job *job, struct crn_errinfo *ei)
{
    struct crn_taken *a = calloc(1, sizeof(*a));
    uint32_t i;

    job->taken = a;
    if (a != NULL) {
        a->is_here = calloc(job->nodes, 1);
        a->has_joined = calloc(job->nlocal, 1);
        a->reports = calloc(job->nlocal, 1);
        a->is_known = calloc(job->nlocal, 1);
    }
    if (a == NULL || a->is_here == NULL || a->has_joined == NULL || a->reports == NULL ||
        a->is_known == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job of %u nodes", job->nodes);
    for (i = 0; i < job->nodes; i++) /* the services have new addresses */
        job->peers[i] = CRN_NOWHERE;
    job->peers[job->node] = (uint32_t)job->svc->comm->rank;
    return CAIRN_OK;
}

void crn_takeover_free(struct crn_job *job)
{
    if (job->taken == NULL)
        return;
    free(job->taken->is_here);
    free(job->taken->has_joined);
    free(job->taken->reports);
    free(job->taken->is_known);
    free(job->taken);
}

/* The nodes of the job. ------------------------------------------------------------------------ */

static void say_here(const struct crn_job *job, uint32_t address, int wants_answer)
{
    struct crn_msg m = {.type = CRN_MSG_NODE_HERE, .node = job->node};

    memcpy(m.run, job->run, 16);
    m.here.address = (uint32_t)job->svc->comm->rank;
    m.here.wants_answer = wants_answer != 0;
    crn_service_tell(job->svc, address, &m);
}

static void takeover_admit(struct crn_job *job, struct crn_client *c)
{
    static const struct crn_errinfo ok = {0};

    c->waits = 0;
    job->taken->has_joined[c->local] = 1;
    crn_ranks_ready(job->svc, c, &ok);
}

/* Captures. ------------------------------------------------------------------------------------- */

/* A slot says the end of a checkpoint that the core has forgotten. */
static void tell_end(struct crn_job *job, uint32_t local, const struct crn_msg *m, int is_flushed)
{
    struct crn_msg end = {.type = CRN_MSG_STATE, .seq = m->seq, .ckpt = m->ckpt};

    memcpy(end.run, job->run, sizeof(end.run));
    if (is_flushed)
        end.state.levels = crn_level_set(CAIRN_PERSISTENT);
    else
        (void)!crn_fail(&end.state.error, CAIRN_ESERVICE, 0,
                        "its flush failed while the rank had no service");
    crn_job_tell_rank(job, local, &end);
}

static int is_news(struct crn_job *job, uint32_t local, const struct crn_msg *m)
{
    const struct crn_arena *arena = job->arenas[local];
    const struct crn_item *item;
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    enum crn_slot_state state;

    if (arena == NULL || m->captured.slot >= crn_arena_slots(arena))
        return 1;
    state = crn_slot_state_of(arena, m->captured.slot, m->seq);
    item = crn_node_find(job->core, m->seq);
    if (item != NULL && item->part[local].is_captured)
        return 1; /* the core answers */
    if (crn_slot_is_flushed(state) || crn_slot_has_failed(state)) {
        tell_end(job, local, m, crn_slot_is_flushed(state));
        return 0;
    }
    if (crn_slot_info(arena, m->captured.slot, &info, &ignored) == CAIRN_OK &&
        info.id.seq == m->seq)
        crn_node_granted(job->core, m->ckpt.name, info.id.generation);
    return 1;
}

/* The captures of ranks that do not report them yet. A rank may say HELLO or send its arena, and
 * then wait in MPI before it reads the answer. */

struct written {
    uint64_t seq;
    uint32_t slot;
};

static int by_seq(const void *a, const void *b)
{
    uint64_t x = ((const struct written *)a)->seq;
    uint64_t y = ((const struct written *)b)->seq;

    return x < y ? -1 : x > y;
}

/* As the rank itself would report it (client/rejoin.c). */
static void adopt_slot(struct crn_job *job, uint32_t local, uint32_t slot)
{
    const struct crn_arena *arena = job->arenas[local];
    struct crn_msg m = {.type = CRN_MSG_CAPTURED, .captured.slot = slot};
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;

    if (crn_slot_info(arena, slot, &info, &ignored) != CAIRN_OK ||
        crn_slot_state_of(arena, slot, info.id.seq) != CRN_SLOT_WRITTEN ||
        memcmp(info.id.run, job->run, sizeof(info.id.run)) != 0)
        return;
    memcpy(m.run, job->run, sizeof(m.run));
    memcpy(m.ckpt.name, info.name, sizeof(m.ckpt.name));
    m.seq = info.id.seq;
    m.ckpt.version = info.version;
    m.ckpt.created_ns = info.created_ns;
    m.captured.bytes = info.image_bytes - info.descriptor_bytes;
    if (is_news(job, local, &m))
        crn_node_from_rank(job->core, crn_clock_real()->mono_ns(crn_clock_real()), local,
                           crn_arena_slots(arena), &m);
}

/* Oldest first. Those adopted before are no news to the core. */
static void adopt_rank(struct crn_job *job, uint32_t local)
{
    const struct crn_arena *arena = job->arenas[local];
    uint32_t slots = crn_arena_slots(arena);
    struct written *list = calloc(slots, sizeof(*list));
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint32_t n = 0;
    uint32_t i;

    for (i = 0; list != NULL && i < slots; i++)
        if (crn_slot_state(arena, i) == CRN_SLOT_WRITTEN &&
            crn_slot_info(arena, i, &info, &ignored) == CAIRN_OK)
            list[n++] = (struct written){info.id.seq, i};
    if (n > 1)
        qsort(list, n, sizeof(*list), by_seq);
    for (i = 0; i < n; i++)
        adopt_slot(job, local, list[i].slot);
    free(list); /* without memory: at the next tick */
}

static void takeover_adopt(struct crn_job *job)
{
    uint32_t i;

    for (i = 0; i < job->nlocal && job->taken->nhere == job->nodes; i++)
        if (job->arenas[i] != NULL && !job->taken->reports[i] && !crn_node_has_left(job->core, i))
            adopt_rank(job, i);
}

static void node_is_here(struct crn_job *job, uint32_t node)
{
    struct crn_taken *a = job->taken;
    uint32_t i;

    if (a->is_here[node])
        return;
    a->is_here[node] = 1;
    a->nhere++;
    if (a->nhere < job->nodes)
        return;
    crn_log(&job->log, CRN_INFO, "the job continues with a restarted service");
    for (i = 0; i < job->nlocal; i++)
        if (job->clients[i] != NULL && job->clients[i]->waits)
            takeover_admit(job, job->clients[i]);
    takeover_adopt(job);
}

void crn_takeover_here(struct crn_job *job, const struct crn_msg *n)
{
    if (job->taken == NULL || n->node >= job->nodes || n->node == job->node)
        return;
    job->peers[n->node] = n->here.address;
    if (n->here.wants_answer)
        say_here(job, n->here.address, 0);
    node_is_here(job, n->node);
}

static void this_is_here(struct crn_job *job)
{
    int i;

    if (job->taken->is_here[job->node])
        return;
    for (i = 0; i < job->svc->comm->size; i++)
        if (i != job->svc->comm->rank)
            say_here(job, (uint32_t)i, 1);
    node_is_here(job, job->node);
}

void crn_takeover_hello(struct crn_job *job, struct crn_client *c, const struct crn_hello *h)
{
    crn_node_rejoined(job->core, h->local, h->rank, h->seq);
    c->waits = 1;
    if (job->taken->nhere == job->nodes)
        takeover_admit(job, c);
    this_is_here(job);
}

/* The ranks of this node. ---------------------------------------------------------------------- */

int crn_takeover_left(struct crn_job *job, struct crn_client *c)
{
    if (job->taken == NULL || !c->waits)
        return 0;
    job->clients[c->local] = NULL;
    return 1;
}

void crn_takeover_arena(struct crn_job *job, uint32_t local)
{
    struct crn_arena *arena = job->arenas[local];
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint32_t i;

    if (job->taken == NULL)
        return;
    for (i = 0; i < crn_arena_slots(arena); i++) {
        if (crn_slot_state(arena, i) == CRN_SLOT_FREE ||
            crn_slot_info(arena, i, &info, &ignored) != CAIRN_OK)
            continue;
        (void)crn_slot_move(arena, i, info.id.seq, CRN_SLOT_FLUSHING, CRN_SLOT_WRITTEN);
        (void)crn_slot_move(arena, i, info.id.seq, CRN_SLOT_LENT, CRN_SLOT_FLUSHED);
    }
}

int crn_takeover_fits(const struct crn_job *job, const struct crn_hello *h)
{
    return job->taken == NULL || !job->taken->is_known[h->local] ||
           job->rank_of[h->local] == h->rank;
}

int crn_takeover_has_arena(const struct crn_job *job, uint32_t local, int fd)
{
    struct stat mine, theirs;

    return job->taken != NULL && fstat(crn_arena_fd(job->arenas[local]), &mine) == 0 &&
           fstat(fd, &theirs) == 0 && mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

/* The newest capture that the dead service may have known of. */
static uint64_t newest_seq(const struct crn_arena *arena)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    uint64_t seq = 0;
    uint32_t i;

    for (i = 0; i < crn_arena_slots(arena); i++) {
        enum crn_slot_state state = crn_slot_state(arena, i);

        if ((state == CRN_SLOT_WRITTEN || crn_slot_is_flushed(state) ||
             crn_slot_has_failed(state)) &&
            crn_slot_info(arena, i, &info, &ignored) == CAIRN_OK && info.id.seq > seq)
            seq = info.id.seq;
    }
    return seq;
}

static void find_arena(struct crn_job *job, uint32_t local, uint32_t rank)
{
    struct crn_errinfo why = {0};
    char name[CRN_SPOOL_NAME];
    int fd;

    crn_rundir_arena_name(rank, name);
    fd = openat(job->dir.dfd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        (void)!crn_fail_errno(&why, errno, "open '%s/%s'", job->dir.path, name);
    else
        (void)!crn_arena_map(crn_fs_posix(), fd, name, &job->arenas[local], &why);
    if (why.code != CAIRN_OK) { /* when the rank calls, it sends its arena */
        crn_log(&job->log, CRN_WARN, "the captures of rank %u wait for its next call: %s", rank,
                why.msg);
        return;
    }
    crn_takeover_arena(job, local);
    job->rank_of[local] = rank;
    job->taken->is_known[local] = 1;
    crn_node_rejoined(job->core, local, rank, newest_seq(job->arenas[local]));
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* The ranks that have an arena here, in the order of their local indices. Returns how many, but
 * nlocal at most, or 0 if they cannot be listed. */
static uint32_t list_ranks(const struct crn_job *job, uint32_t *ranks)
{
    struct crn_errinfo ignored = {0};
    struct crn_names names = {0};
    char back[CRN_SPOOL_NAME];
    uint32_t n = 0;
    size_t i;

    if (crn_fs_names(job->dir.fs, job->dir.dfd, job->dir.path, &names, &ignored) != CAIRN_OK)
        return 0;
    for (i = 0; i < names.n && n < job->nlocal; i++) {
        if (sscanf(names.name[i], "arena-%u", &ranks[n]) != 1)
            continue;
        crn_rundir_arena_name(ranks[n], back);
        n += strcmp(back, names.name[i]) == 0;
    }
    crn_names_free(&names);
    qsort(ranks, n, sizeof(*ranks), by_rank);
    return n;
}

/* If a rank has no arena yet, no checkpoint is complete here, and local indices are unknown. */
void crn_takeover_found(struct crn_job *job)
{
    uint32_t *ranks = calloc(job->nlocal, sizeof(*ranks));
    uint32_t n = ranks != NULL ? list_ranks(job, ranks) : 0;
    uint32_t i;

    for (i = 0; n == job->nlocal && i < n; i++)
        find_arena(job, i, ranks[i]);
    free(ranks);
    this_is_here(job);
}

int crn_takeover_captured(struct crn_job *job, uint32_t local, const struct crn_msg *m)
{
    if (job->taken == NULL)
        return 1;
    job->taken->reports[local] = 1;
    return is_news(job, local, m);
}

/* Ranks on a node are numbered in the order of their local indices, usually without gaps. */
static uint32_t likely_rank(const struct crn_job *job, uint32_t local)
{
    uint32_t i;

    if (job->taken->is_known[local])
        return job->rank_of[local];
    for (i = 0; i < job->nlocal; i++)
        if (job->taken->has_joined[i])
            return job->rank_of[i] + local - i;
    return local;
}

static int has_living_rank(const struct crn_job *job)
{
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (job->clients[i] != NULL || !crn_rundir_rank_is_dead(&job->dir, job->lock_fd, i))
            return 1;
    return 0;
}

void crn_takeover_tick(struct crn_job *job)
{
    uint32_t i;

    if (job->taken == NULL)
        return;
    takeover_adopt(job);
    if (job->taken->nhere < job->nodes && has_living_rank(job))
        return; /* the captures of a dead rank count, too: they are adopted first */
    for (i = 0; i < job->nlocal; i++) {
        struct crn_client ghost = {.fd = -1, .job = job, .local = i};

        if (job->clients[i] != NULL || job->taken->has_joined[i] ||
            crn_node_has_left(job->core, i) || !crn_rundir_rank_is_dead(&job->dir, job->lock_fd, i))
            continue;
        ghost.rank = job->rank_of[i] = likely_rank(job, i);
        crn_node_joined(job->core, i, ghost.rank);
        crn_job_rank_left(job, &ghost, 1);
    }
}

/* Is there nothing in the arena that a drain would save? */
static int is_drained(const struct crn_arena *arena)
{
    uint32_t i;

    for (i = 0; i < crn_arena_slots(arena); i++) {
        enum crn_slot_state state = crn_slot_state(arena, i);

        if (state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING || state == CRN_SLOT_KEPT)
            return 0;
    }
    return 1;
}

/* A rank whose captures are all saved may end without having called the new service. */
int crn_takeover_is_whole(const struct crn_job *job)
{
    uint32_t i;

    if (job->taken == NULL)
        return 1;
    for (i = 0; job->has_dead && i < job->nlocal; i++)
        if (job->arenas[i] == NULL || !is_drained(job->arenas[i]))
            return 0;
    return crn_node_is_done(job->core);
}
