/* SPDX-License-Identifier: BSD-3-Clause */
/* A mapped arena with hostile bytes in its header, its slots and its images. The input changes a
 * valid arena: u8 where (header, one of four slots, data), u16 offset there, u8 count, the
 * bytes; repeated to its end. Slot 0 holds an image with checksums, slot 1 one in a spill file,
 * slot 2 one that was moved to the area, slot 3 is free. Everything accepted lies inside the
 * arena. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "service/source.h"

#define UNIT  4096U
#define SLOTS 4U

static struct {
    int fd;
    size_t bytes, head_bytes;
    size_t first, stride;    /* of the slots: 8 bytes before their descriptions */
    unsigned char *map;      /* of the file */
    unsigned char *pristine; /* a copy of it */
    char dir[64];
} t;

static void need(int is_true)
{
    if (!is_true)
        abort();
}

/* An image of two regions at the start of the memory, followed by its checksums. */
static void fill_image(struct crn_arena *a, struct crn_slot_info *info)
{
    struct crn_region regions[2] = {
        {.name = "u", .type = CAIRN_F64, .ndims = 1, .dims = {1200}, .bytes = 9600},
        {.name = "n", .type = CAIRN_I32, .ndims = 1, .dims = {3}, .bytes = 12}};
    struct crn_shard shard = {.rank = 3, .nregions = 2, .regions = regions};
    struct crn_buf b = {0};
    struct crn_image image;
    uint32_t slot;
    uint64_t *words;

    need(crn_shard_encode(&shard, &b, NULL) == CAIRN_OK);
    need(crn_image_layout(&shard, b.len, &image, NULL) == CAIRN_OK);
    info->descriptor_bytes = b.len;
    info->image_bytes = image.bytes;
    info->hash_chunk_bytes = UNIT;
    info->bytes = image.bytes + 8 * crn_image_hash_words(&shard, UNIT);
    need(crn_arena_take(a, CRN_SLOT_WRITING, info, &slot, NULL) == CAIRN_OK && slot == 0);
    memcpy(crn_slot_memory(a, info), b.data, b.len);
    words = (uint64_t *)(void *)(crn_slot_memory(a, info) + image.bytes);
    words[0] = words[4] = 1;
    need(crn_slot_move(a, 0, info->id.seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
    crn_image_free(&image);
    crn_buf_free(&b);
}

static void take(struct crn_arena *a, struct crn_slot_info *info, uint32_t expected)
{
    uint32_t slot;

    info->id.seq++;
    need(crn_arena_take(a, CRN_SLOT_WRITING, info, &slot, NULL) == CAIRN_OK && slot == expected);
    need(crn_slot_move(a, slot, info->id.seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
}

/* Where the description of a capture begins in the header. */
static size_t find_info(uint64_t seq)
{
    struct crn_slot_info info = {.id = {.seq = seq}, .name = "x"};
    const unsigned char *p = memmem(t.map, t.head_bytes, &info,
                                    offsetof(struct crn_slot_info, name) + sizeof(info.name));

    need(p != NULL);
    return (size_t)(p - t.map);
}

static void find_slots(void)
{
    t.first = find_info(1) - sizeof(uint64_t);
    t.stride = find_info(2) - find_info(1);
    need(find_info(3) == find_info(2) + t.stride && t.stride > sizeof(struct crn_slot_info));
}

static void setup(void)
{
    static const uint8_t run[16] = {1, 2, 3};
    const struct crn_arena_size size = {.bytes = (uint64_t)8 * UNIT, .threads = 1};
    struct crn_slot_info info = {.id = {.seq = 1}, .name = "x", .version = 1, .created_ns = 1};
    struct crn_arena *a = NULL;
    struct stat st;
    int dfd;

    (void)snprintf(t.dir, sizeof(t.dir), "/tmp/cairn-fuzz-XXXXXX");
    need(mkdtemp(t.dir) != NULL);
    dfd = open(t.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(dfd >= 0 && crn_arena_create(dfd, "arena", run, 3, &size, &a, NULL) == CAIRN_OK);
    fill_image(a, &info);
    info.is_spilled = 1;
    info.bytes = 0;
    take(a, &info, 1);
    info.is_spilled = 0;
    info.bytes = UNIT;
    info.image_bytes = info.descriptor_bytes = 100;
    take(a, &info, 2);
    need(crn_slot_put_out(a, 2, info.id.seq, 4096));
    t.fd = dup(crn_arena_fd(a));
    need(fstat(t.fd, &st) == 0);
    t.bytes = (size_t)st.st_size;
    t.head_bytes = t.bytes - (size_t)crn_arena_bytes(a);
    crn_arena_close(a);
    t.map = mmap(NULL, t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t.fd, 0);
    t.pristine = malloc(t.bytes);
    need(t.map != MAP_FAILED && t.pristine != NULL);
    memcpy(t.pristine, t.map, t.bytes);
    find_slots();
    need(unlinkat(dfd, "arena", 0) == 0 && rmdir(t.dir) == 0);
    (void)close(dfd);
}

/* The destination of a change, and how many bytes fit there. */
static size_t place(unsigned where, size_t offset, size_t *ret_room)
{
    size_t size = t.stride;
    size_t at;

    where %= SLOTS + 2;
    if (where == 0) {
        at = 0;
        size = t.first;
    } else if (where <= SLOTS) {
        at = t.first + (where - 1) * t.stride;
    } else {
        at = t.head_bytes;
        size = t.bytes - t.head_bytes;
    }
    *ret_room = size - offset % size;
    return at + offset % size;
}

static void read_source(const struct crn_source *s, const unsigned char *data, uint64_t bytes)
{
    uint64_t sum = 0;
    uint64_t k;
    uint32_t i;

    if (s->memory == NULL)
        return;
    for (i = 0; i < s->shard.nregions; i++) {
        const struct crn_region *r = &s->shard.regions[i];

        if (r->kind == CRN_REGION_FILE)
            continue;
        need(s->at[i] + r->bytes <= bytes - (uint64_t)(s->memory - data));
        for (k = 0; k < r->bytes; k++)
            sum += s->memory[s->at[i] + k];
        for (k = 0; s->hashes != NULL && s->hashes[i] != NULL && k < r->bytes;
             k += s->hash_chunk_bytes) {
            const uint64_t *h = &s->hashes[i][k / s->hash_chunk_bytes];

            need((const unsigned char *)(h + 1) <= data + bytes);
            sum += *h;
        }
    }
    __asm__ volatile("" : : "r"(sum)); /* forces the reads */
}

static void look_at(struct crn_arena *a, uint32_t slot)
{
    uint64_t bytes;
    const unsigned char *data = crn_arena_memory(a, &bytes);
    struct crn_rundir nowhere = {.fs = crn_fs_posix(), .dfd = -1, .spool_dfd = -1};
    struct crn_source source;
    struct crn_slot_info info;
    struct crn_open_shard held;

    need(bytes <= t.bytes - t.head_bytes);
    if (crn_slot_info(a, slot, &info, NULL) != CAIRN_OK)
        return;
    need(slot < crn_arena_slots(a) && info.offset <= bytes && info.bytes <= bytes - info.offset &&
         crn_check_name("name", info.name, NULL) == CAIRN_OK && info.version >= 0);
    (void)crn_arena_find(a, &info.id);
    if (crn_sources_open(&a, &slot, 1, &nowhere, &held, &source, NULL) == CAIRN_OK) {
        read_source(&source, data, bytes);
        crn_sources_close(&held, &source, 1);
    }
}

/* Applies the changes, or reverts them. */
static void change(const uint8_t *data, size_t size, const unsigned char *pristine)
{
    struct crn_view v = crn_view_of(data, size);

    while (crn_view_left(&v) > 0) {
        unsigned where = crn_view_u8(&v);
        size_t offset = crn_view_u16(&v);
        size_t n = crn_view_u8(&v);
        size_t room;
        size_t at = place(where, offset, &room);
        const void *bytes;

        n = n < crn_view_left(&v) ? n : crn_view_left(&v);
        bytes = crn_view_take(&v, n);
        if (v.failed || n == 0)
            break;
        memcpy(t.map + at, pristine != NULL ? pristine + at : bytes, n < room ? n : room);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t slots[] = {0,         1, 2, 3, 4, CRN_ARENA_SLOTS, CRN_ARENA_SLOTS_MAX,
                                     UINT32_MAX};
    struct crn_arena *a = NULL;
    size_t i;

    if (t.map == NULL)
        setup();
    change(data, size, NULL);
    if (crn_arena_map(crn_fs_posix(), dup(t.fd), "fuzz", &a, NULL) == CAIRN_OK) {
        for (i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
            look_at(a, slots[i]);
        (void)crn_arena_area_is_free(a, 0, UINT64_MAX);
        crn_arena_close(a);
    }
    change(data, size, t.pristine);
    return 0;
}
