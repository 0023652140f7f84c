/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides where captures lie in a process's shared memory and who owns a slot. The header has
 * native byte order (both processes run on one host). Its magic and sizes are checked nevertheless,
 * because another build may have left the file. */
#include "tier/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "base/guard.h"
#include "base/touch.h"
#include "tier/arena_layout.h"
#include "tier/arena_rest.h"
#include "tier/window.h"

/* Where an image lies, or where it lay before its slot was freed. */
struct span {
    uint64_t offset, bytes;
};

/* State of the process that takes slots. Indexed by slot, except for the scratch of a search for
 * space. */
struct arena_search {
    struct span *span;
    struct crn_fragment *taken;
    struct crn_fragment *f;      /* one for each slot, and for the gaps around it */
    size_t *scratch;             /* two for each fragment */
    _Atomic uint32_t first_free; /* no slot before it is free */
};

struct crn_arena {
    struct arena_header *head;
    unsigned char *data;
    size_t map_bytes;
    uint64_t data_bytes;  /* own copy: another process shares the header */
    uint64_t made;        /* reserved so far, of data_bytes */
    struct crn_rest rest; /* while made < data_bytes */
    uint32_t rank;
    int fd;
    uint32_t nslots;
    uint32_t nused;              /* no slot from here on was ever taken */
    struct arena_search *search; /* owned; NULL in a process that takes no slots */
    struct crn_guard *guard;     /* of another process's arena; NULL: not installed */
};

/* Life. ---------------------------------------------------------------------------------------- */

static cairn_err map_file(const struct crn_fs *fs, int fd, size_t bytes, struct crn_arena **ret,
                          struct crn_errinfo *ei)
{
    struct crn_arena *a = calloc(1, sizeof(*a));
    void *head = NULL;
    int r;

    if (a == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "an arena");
    r = fs->map(fs, fd, bytes, PROT_READ | PROT_WRITE, &head);
    if (r < 0) {
        free(a);
        return crn_fail_errno(ei, -r, "map an arena of %zu bytes", bytes);
    }
    a->head = head;
    (void)madvise(a->head, bytes, MADV_HUGEPAGE); /* if tmpfs has huge pages */
    (void)madvise(a->head, bytes, MADV_DONTFORK); /* a child must not use it */
    a->map_bytes = bytes;
    a->fd = fd;
    *ret = a;
    return CAIRN_OK;
}

static void free_search(struct arena_search *s)
{
    if (s == NULL)
        return;
    free(s->span);
    free(s->taken);
    free(s->f);
    free(s->scratch);
    free(s);
}

static void free_arena(struct crn_arena *a)
{
    (void)munmap(a->head, a->map_bytes);
    free_search(a->search);
    free(a);
}

/* Allocates the per-slot state; memory that is never touched costs nothing. */
static cairn_err make_slots(struct crn_arena *a, uint32_t nslots, int is_taker,
                            struct crn_errinfo *ei)
{
    size_t nf = 2 * (size_t)nslots + 1;
    struct arena_search *s = is_taker ? calloc(1, sizeof(*s)) : NULL;

    a->nslots = nslots;
    a->search = s;
    if (s != NULL) {
        s->span = calloc(nslots, sizeof(*s->span));
        s->taken = calloc(nslots, sizeof(*s->taken));
        s->f = calloc(nf, sizeof(*s->f));
        s->scratch = calloc(2 * nf, sizeof(*s->scratch));
    }
    if ((is_taker &&
         (s == NULL || s->span == NULL || s->taken == NULL || s->f == NULL || s->scratch == NULL)))
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "an arena of %u slots", nslots);
    return CAIRN_OK;
}

/* Creates a file and reserves its first bytes. */
static cairn_err create_file(int dfd, const char *file, size_t total, size_t first, int *ret,
                             struct crn_errinfo *ei)
{
    int fd = openat(dfd, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r;

    if (fd < 0)
        return crn_fail_errno(ei, errno, "create the arena '%s'", file);
    r = ftruncate(fd, (off_t)total) < 0 ? errno : crn_rest_reserve(fd, 0, first);
    if (r == 0) {
        *ret = fd;
        return CAIRN_OK;
    }
    (void)close(fd);
    (void)unlinkat(dfd, file, 0);
    return crn_fail(ei, crn_errno_code(r), r,
                    "reserve %zu bytes of shared memory for the arena '%s'; lower arena_bytes, or "
                    "give the tmpfs at shm_dir more room",
                    first, file);
}

static uint32_t slots_of(const struct crn_arena_size *size)
{
    return size->slots < CRN_ARENA_SLOTS       ? CRN_ARENA_SLOTS
           : size->slots > CRN_ARENA_SLOTS_MAX ? CRN_ARENA_SLOTS_MAX
                                               : size->slots;
}

cairn_err crn_arena_create(int dfd, const char *file, const uint8_t run[16], uint32_t rank,
                           const struct crn_arena_size *size, struct crn_arena **ret,
                           struct crn_errinfo *ei)
{
    size_t bytes = (size_t)(size->bytes + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
    size_t first = (size_t)(size->first + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
    uint32_t nslots = slots_of(size);
    size_t head = arena_head_bytes(nslots);
    struct crn_arena *a = NULL;
    cairn_err rc;
    int fd = -1;

    if (first == 0 || first > bytes)
        first = bytes;
    rc = create_file(dfd, file, head + bytes, head + first, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = map_file(crn_fs_posix(), fd, head + bytes, &a, ei);
    if (rc == CAIRN_OK) {
        rc = make_slots(a, nslots, 1, ei);
        if (rc != CAIRN_OK)
            free_arena(a);
    }
    if (rc != CAIRN_OK) {
        (void)close(fd);
        (void)unlinkat(dfd, file, 0);
        return rc;
    }
    if (size->first == 0)
        crn_touch(a->head, a->map_bytes, size->threads);
    a->head->header_bytes = head;
    a->head->data_bytes = bytes;
    memcpy(a->head->run, run, 16);
    a->head->rank = rank;
    a->head->nslots = nslots;
    a->data = (unsigned char *)a->head + head;
    a->data_bytes = bytes;
    a->made = first;
    a->rank = rank;
    atomic_thread_fence(memory_order_release);
    a->head->magic = ARENA_MAGIC; /* last: an arena without it was never finished */
    if (a->made < bytes) {
        a->rest = (struct crn_rest){
            .fd = fd, .at = head + first, .start = a->data + first, .bytes = bytes - first};
    }
    *ret = a;
    return CAIRN_OK;
}

void crn_arena_go_on(struct crn_arena *a)
{
    if (a != NULL && a->made < a->data_bytes)
        crn_rest_start(&a->rest);
}

/* Waits for the rest of the arena. If memory runs out, the arena stays smaller. */
static void arena_finish(struct crn_arena *a)
{
    if (a->made == a->data_bytes)
        return;
    crn_rest_end(&a->rest, 0);
    a->made = a->data_bytes = a->made + a->rest.done;
}

/* Is there an arena in the file? Reads instead of mapping: a page that a full tmpfs cannot provide
 * would raise SIGBUS. */
static cairn_err look_at_file(const struct crn_fs *fs, int fd, const char *what, size_t *ret_bytes,
                              struct crn_errinfo *ei)
{
    uint64_t magic = 0;
    struct stat st;
    cairn_err rc;

    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "stat %s", what);
    if (rc != CAIRN_OK)
        return rc;
    if (st.st_size > 0 && (uint64_t)st.st_size < arena_head_bytes(CRN_ARENA_SLOTS))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s is cut short, to %lld bytes", what,
                        (long long)st.st_size);
    if (st.st_size > 0)
        rc = crn_fs_read_all(fs, fd, &magic, sizeof(magic), 0, what, ei);
    if (rc == CAIRN_OK && magic == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "%s was never finished", what);
    *ret_bytes = (size_t)st.st_size;
    return rc;
}

cairn_err crn_arena_map(const struct crn_fs *fs, int fd, const char *what, struct crn_arena **ret,
                        struct crn_errinfo *ei)
{
    struct crn_arena *a;
    uint32_t nslots;
    size_t bytes = 0;
    cairn_err rc;

    rc = look_at_file(fs, fd, what, &bytes, ei);
    if (rc == CAIRN_OK)
        rc = map_file(fs, fd, bytes, &a, ei);
    if (rc != CAIRN_OK) {
        (void)fs->close(fs, fd);
        return rc;
    }
    a->guard = crn_guard_add(a->head, a->map_bytes);
    nslots = a->head->nslots;
    a->data_bytes = a->made = a->head->data_bytes;
    if (!arena_is_sound(a->head, nslots, a->map_bytes) ||
        a->data_bytes > a->map_bytes - arena_head_bytes(nslots))
        rc = crn_fail(ei, CAIRN_EFORMAT, 0, "%s is not an arena of this version of Cairn", what);
    if (rc == CAIRN_OK)
        rc = make_slots(a, nslots, 0, ei);
    if (rc != CAIRN_OK) {
        crn_arena_close(a);
        return rc;
    }
    a->data = (unsigned char *)a->head + arena_head_bytes(nslots);
    a->rank = a->head->rank;
    a->nused = nslots;
    *ret = a;
    return CAIRN_OK;
}

void crn_arena_close(struct crn_arena *a)
{
    if (a == NULL)
        return;
    if (a->made < a->data_bytes)
        crn_rest_end(&a->rest, 1);
    crn_guard_remove(a->guard);
    (void)close(a->fd);
    free_arena(a);
}

uint32_t crn_arena_slots(const struct crn_arena *a)
{
    return a->nslots;
}

int crn_arena_is_torn(const struct crn_arena *a)
{
    struct stat st;

    return crn_guard_was_hit(a->guard) || fstat(a->fd, &st) < 0 ||
           (uint64_t)st.st_size < a->map_bytes;
}

int crn_arena_fd(const struct crn_arena *a)
{
    return a->fd;
}

uint64_t crn_arena_bytes(struct crn_arena *a)
{
    arena_finish(a);
    return a->data_bytes;
}

void *crn_arena_memory(struct crn_arena *a, uint64_t *ret_bytes)
{
    arena_finish(a);
    *ret_bytes = a->data_bytes;
    return a->data;
}

uint32_t crn_arena_rank(const struct crn_arena *a)
{
    return a->rank;
}

void crn_arena_set_phase(struct crn_arena *a, uint32_t phase)
{
    atomic_store_explicit(&a->head->phase, phase, memory_order_relaxed);
}

uint32_t crn_arena_phase(const struct crn_arena *a)
{
    return atomic_load_explicit(&a->head->phase, memory_order_relaxed);
}

/* Slots. --------------------------------------------------------------------------------------- */

static uint64_t word_in(const struct crn_arena *a, uint32_t slot)
{
    return atomic_load_explicit(&a->head->slot[slot].word, memory_order_acquire);
}

/* Does it take space in the arena? */
static int in_memory(const struct crn_arena *a, uint32_t slot)
{
    uint64_t word = word_in(a, slot);

    return slot_state_in(word) != CRN_SLOT_FREE && (word & SLOT_OUT) == 0 &&
           a->head->slot[slot].info.bytes != 0;
}

enum crn_slot_state crn_slot_state(const struct crn_arena *a, uint32_t slot)
{
    return slot_state_in(word_in(a, slot));
}

enum crn_slot_state crn_slot_state_of(const struct crn_arena *a, uint32_t slot, uint64_t seq)
{
    uint64_t word = word_in(a, slot);

    return word >> 8 == (seq & UINT64_MAX >> 8) ? slot_state_in(word) : CRN_SLOT_FREE;
}

int crn_slot_copy(const struct slot *slot, uint64_t data_bytes, struct crn_slot_info *ret)
{
    struct crn_slot_info info = slot->info;

    info.name[sizeof(info.name) - 1] = '\0';
    info.is_out = (atomic_load_explicit(&slot->word, memory_order_acquire) & SLOT_OUT) != 0;
    info.is_promised =
        atomic_load_explicit(&slot->promised, memory_order_acquire) == info.id.seq + 1;
    if (info.is_out) {
        info.is_spilled = 1;
        info.area_bytes = info.bytes;
        info.offset = info.bytes = 0;
    }
    if (info.offset > data_bytes || info.bytes > data_bytes - info.offset ||
        info.descriptor_bytes > info.image_bytes ||
        (!info.is_spilled && info.image_bytes > info.bytes) ||
        info.offset % sizeof(uint64_t) != 0 || info.version < 0 ||
        crn_check_name("name", info.name, NULL) != CAIRN_OK)
        return 0;
    *ret = info;
    return 1;
}

cairn_err crn_slot_info(const struct crn_arena *a, uint32_t slot, struct crn_slot_info *ret,
                        struct crn_errinfo *ei)
{
    if (slot >= a->nslots)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "slot %u of the arena of rank %u does not exist",
                        slot, a->rank);
    if (!crn_slot_copy(&a->head->slot[slot], a->data_bytes, ret))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "slot %u of the arena of rank %u is damaged", slot,
                        a->rank);
    return CAIRN_OK;
}

void crn_slot_promise(struct crn_arena *a, uint32_t slot, uint64_t seq)
{
    atomic_store_explicit(&a->head->slot[slot].promised, seq + 1, memory_order_release);
}

/* Any thread of the process that takes slots may call it. */
static void note_free(struct crn_arena *a, uint32_t slot)
{
    uint32_t first = a->search != NULL ? atomic_load(&a->search->first_free) : 0;

    while (slot < first && !atomic_compare_exchange_weak(&a->search->first_free, &first, slot))
        ;
}

int crn_slot_move(struct crn_arena *a, uint32_t slot, uint64_t seq, enum crn_slot_state from,
                  enum crn_slot_state to)
{
    uint64_t word = word_in(a, slot);

    while ((word & ~(uint64_t)SLOT_OUT) ==
           slot_word(seq, from)) /* retry only if it went out meanwhile */
        if (atomic_compare_exchange_weak_explicit(&a->head->slot[slot].word, &word,
                                                  slot_word(seq, to) | (word & SLOT_OUT),
                                                  memory_order_acq_rel, memory_order_acquire)) {
            if (to == CRN_SLOT_FREE)
                note_free(a, slot);
            return 1;
        }
    return 0;
}

int crn_slot_put_out(struct crn_arena *a, uint32_t slot, uint64_t seq, uint64_t area_at)
{
    uint64_t expected = slot_word(seq, CRN_SLOT_WRITTEN);

    if (word_in(a, slot) != expected)
        return 0;
    a->head->slot[slot].info.area_at = area_at; /* not read before the slot is out */
    return atomic_compare_exchange_strong_explicit(&a->head->slot[slot].word, &expected,
                                                   expected | SLOT_OUT, memory_order_acq_rel,
                                                   memory_order_acquire);
}

int crn_arena_area_is_free(const struct crn_arena *a, uint64_t at, uint64_t bytes)
{
    uint32_t i;

    for (i = 0; i < a->nused; i++) {
        uint64_t word = word_in(a, i);
        const struct crn_slot_info *info = &a->head->slot[i].info;

        if ((word & SLOT_OUT) != 0 &&
            (slot_state_in(word) == CRN_SLOT_WRITTEN || slot_state_in(word) == CRN_SLOT_FLUSHING) &&
            info->area_at < at + bytes && at < info->area_at + info->bytes)
            return 0;
    }
    return 1;
}

unsigned char *crn_slot_memory(const struct crn_arena *a, const struct crn_slot_info *info)
{
    return a->data + info->offset;
}

/* Free space. ---------------------------------------------------------------------------------- */

static int by_offset(const void *x, const void *y)
{
    const struct crn_fragment *a = x;
    const struct crn_fragment *b = y;

    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* May the application evict a slot in this state? */
static int may_go(enum crn_slot_state s)
{
    return s == CRN_SLOT_FLUSHED || crn_slot_has_failed(s) || s == CRN_SLOT_READ;
}

static int is_evictable(const struct crn_arena *a, uint32_t slot)
{
    return may_go(crn_slot_state(a, slot));
}

/* Returns 1, or 0 if the service has borrowed it since the check. */
static int arena_evict(struct crn_arena *a, uint32_t slot)
{
    enum crn_slot_state s = crn_slot_state(a, slot);

    return may_go(s) && crn_slot_move(a, slot, a->head->slot[slot].info.id.seq, s, CRN_SLOT_FREE);
}

/* Lists the arena as fragments, with gaps between the slots. */
static size_t arena_fragments(struct crn_arena *a)
{
    struct crn_fragment *taken = a->search->taken;
    struct crn_fragment *f = a->search->f;
    uint64_t at = 0;
    size_t n = 0;
    size_t k = 0;
    uint32_t i;

    for (i = 0; i < a->nused; i++) {
        struct slot *s = &a->head->slot[i];

        if (!in_memory(a, i))
            continue;
        taken[k++] = (struct crn_fragment){.offset = s->info.offset,
                                           .bytes = s->info.bytes,
                                           .owner = s,
                                           .wait_ns = is_evictable(a, i) ? 0 : CRN_PINNED,
                                           .age = s->info.created_ns};
    }
    qsort(taken, k, sizeof(taken[0]), by_offset);
    for (i = 0; i < k; i++) {
        if (taken[i].offset > at)
            f[n++] = (struct crn_fragment){.offset = at, .bytes = taken[i].offset - at};
        f[n++] = taken[i];
        at = taken[i].offset + taken[i].bytes;
    }
    if (at < a->made)
        f[n++] = (struct crn_fragment){.offset = at, .bytes = a->made - at};
    return n;
}

/* Is there so much room without an eviction? */
static int has_gap(struct crn_arena *a, uint64_t bytes)
{
    size_t n = arena_fragments(a);
    size_t i;

    for (i = 0; i < n; i++)
        if (a->search->f[i].owner == NULL && a->search->f[i].bytes >= bytes)
            return 1;
    return 0;
}

/* Evicts the best window of evictable slots. Returns its offset, or UINT64_MAX if there is none
 * now. */
static uint64_t make_room(struct crn_arena *a, uint64_t bytes)
{
    struct crn_fragment *f = a->search->f;
    struct crn_space space = {.f = f,
                              .scratch = a->search->scratch,
                              .n = arena_fragments(a),
                              .cap = 2 * (size_t)a->nslots + 1,
                              .capacity = a->made};
    struct crn_window w;
    size_t i;

    if (bytes == 0)
        return 0;
    if (!crn_window_find(&space, CRN_EVICT_SCORE, bytes, &w))
        return UINT64_MAX;
    for (i = w.first; i < w.first + w.count; i++)
        if (f[i].owner != NULL &&
            !arena_evict(a, (uint32_t)((struct slot *)f[i].owner - a->head->slot)))
            return UINT64_MAX;
    return w.offset;
}

/* Frees the oldest evictable slot or, with is_lean, the oldest that takes no memory. 1 if there was
 * one. */
static int evict_oldest(struct crn_arena *a, int is_lean)
{
    uint64_t oldest = UINT64_MAX;
    uint32_t victim = 0;
    uint32_t i;

    for (i = 0; i < a->nused; i++) {
        if (is_evictable(a, i) && !(is_lean && in_memory(a, i)) &&
            a->head->slot[i].info.created_ns < oldest) {
            oldest = a->head->slot[i].info.created_ns;
            victim = i;
        }
    }
    return oldest != UINT64_MAX && arena_evict(a, victim);
}

/* The first free slot before limit; -1. */
static int find_free(struct crn_arena *a, uint32_t limit)
{
    uint32_t from = atomic_load(&a->search->first_free);
    uint32_t i = from;

    while (i < a->nused && crn_slot_state(a, i) != CRN_SLOT_FREE)
        i++;
    /* Fails if an earlier slot was freed meanwhile, which is fine. */
    (void)atomic_compare_exchange_strong(&a->search->first_free, &from, i);
    return i < limit ? (int)i : -1;
}

static int free_slot(struct crn_arena *a, int is_lean, uint32_t limit)
{
    int slot = find_free(a, limit);

    return slot < 0 && evict_oldest(a, is_lean) ? find_free(a, limit) : slot;
}

/* Without a tier cache every search for space sorts all images, so their number is limited. */
static uint32_t limit_of(const struct crn_arena *a, const struct crn_slot_info *info)
{
    return info->bytes == 0 || a->nused > CRN_ARENA_SLOTS ? a->nslots : CRN_ARENA_SLOTS;
}

static void arena_describe(struct crn_arena *a, uint32_t slot, enum crn_slot_state state,
                           const struct crn_slot_info *info)
{
    a->head->slot[slot].info = *info;
    a->search->span[slot] = (struct span){info->offset, info->bytes};
    a->nused = slot < a->nused ? a->nused : slot + 1;
    atomic_store_explicit(&a->head->slot[slot].word, slot_word(info->id.seq, state),
                          memory_order_release);
}

cairn_err crn_arena_take(struct crn_arena *a, enum crn_slot_state state, struct crn_slot_info *info,
                         uint32_t *ret_slot, struct crn_errinfo *ei)
{
    uint64_t at;
    int slot;

    /* Nothing is evicted as long as the rest has room: a restart or the next version may need it. */
    if (a->made < a->data_bytes &&
        (crn_rest_is_over(&a->rest) || (info->bytes > 0 && !has_gap(a, info->bytes))))
        arena_finish(a);
    if (!info->is_spilled && info->bytes > a->data_bytes)
        return crn_fail(
            ei, CAIRN_ENOSPC, 0,
            "the checkpoint needs %llu bytes, the arena has %llu: raise arena_bytes, or "
            "set local and arena_full=spill",
            (unsigned long long)info->bytes, (unsigned long long)a->data_bytes);
    slot = free_slot(a, 0, limit_of(a, info));
    at = slot >= 0 && !info->is_spilled ? make_room(a, info->bytes) : 0;
    if (slot < 0 || at == UINT64_MAX)
        return crn_fail(ei, CAIRN_EBUSY, 0, "the arena is full of checkpoints not flushed yet");
    info->offset = at;
    arena_describe(a, (uint32_t)slot, state, info);
    *ret_slot = (uint32_t)slot;
    return CAIRN_OK;
}

cairn_err crn_arena_take_at(struct crn_arena *a, enum crn_slot_state state,
                            const struct crn_slot_info *info, uint32_t *ret_slot,
                            struct crn_errinfo *ei)
{
    uint64_t end = info->offset + info->bytes;
    uint32_t i;
    int slot;

    if (end > a->made)
        arena_finish(a);
    if (info->offset > a->data_bytes || info->bytes > a->data_bytes - info->offset)
        return crn_fail(ei, CAIRN_EBUG, 0, "an image beyond the end of the arena");
    for (i = 0; i < a->nused; i++) {
        const struct span *there = &a->search->span[i];

        if (there->offset >= end || info->offset >= there->offset + there->bytes ||
            !in_memory(a, i))
            continue;
        if (!is_evictable(a, i) || !arena_evict(a, i))
            return crn_fail(ei, CAIRN_EBUSY, 0, "the place in the arena is not free yet");
    }
    slot = free_slot(a, 1, a->nslots);
    if (slot < 0)
        return crn_fail(ei, CAIRN_EBUSY, 0, "all slots of the arena are taken");
    arena_describe(a, (uint32_t)slot, state, info);
    *ret_slot = (uint32_t)slot;
    return CAIRN_OK;
}

int crn_arena_supersede(struct crn_arena *a, crn_slot_may may, const void *arg,
                        struct crn_slot_info *ret_info)
{
    uint64_t oldest = UINT64_MAX;
    uint32_t victim = 0;
    uint32_t i;

    for (i = 0; i < a->nused; i++) {
        if (crn_slot_state(a, i) == CRN_SLOT_WRITTEN && a->head->slot[i].info.id.seq < oldest &&
            (may == NULL || may(arg, &a->head->slot[i].info))) {
            oldest = a->head->slot[i].info.id.seq;
            victim = i;
        }
    }
    if (oldest == UINT64_MAX)
        return 0;
    *ret_info = a->head->slot[victim].info;
    return crn_slot_move(a, victim, oldest, CRN_SLOT_WRITTEN, CRN_SLOT_FREE);
}

int crn_arena_find(const struct crn_arena *a, const struct crn_capture_id *id)
{
    uint32_t i;

    for (i = 0; i < a->nused; i++) {
        enum crn_slot_state s = crn_slot_state(a, i);

        if ((s == CRN_SLOT_WRITTEN || s == CRN_SLOT_FLUSHING || crn_slot_is_flushed(s) ||
             crn_slot_has_failed(s) || s == CRN_SLOT_READ) &&
            in_memory(a, i) && crn_capture_id_equal(&a->head->slot[i].info.id, id))
            return (int)i;
    }
    return -1;
}
