/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_dead_run.h"

#include <fcntl.h>

#include "tier/image.h"

uint32_t dead_rank(const struct dead *d, uint32_t local)
{
    return d->place.node * d->place.nlocal + local;
}

void dead_begin(struct dead *d, const struct crn_config *cfg, uint8_t id,
                struct crn_run_place place)
{
    const struct crn_arena_size size = {.bytes = 1 << 16, .threads = 1};
    struct crn_errinfo info = {0}, *ei = &info;
    char name[CRN_SPOOL_NAME];
    uint32_t i;

    memset(d, 0, sizeof(*d));
    memset(d->run, id, sizeof(d->run));
    d->place = place;
    assert_ok(crn_rundir_open(crn_fs_posix(), cfg, d->run, place.node, 1, &d->dir, ei));
    assert_ok(crn_rundir_lock_service(&d->dir, &d->lock_fd, ei));
    assert_ok(crn_runfile_write(d->dir.dfd, &place, cfg, ei));
    for (i = 0; i < place.nlocal; i++) {
        crn_rundir_arena_name(dead_rank(d, i), name);
        assert_ok(
            crn_arena_create(d->dir.dfd, name, d->run, dead_rank(d, i), &size, &d->arena[i], ei));
    }
}

void dead_end(struct dead *d)
{
    uint32_t i;

    for (i = 0; i < d->place.nlocal; i++)
        crn_arena_close(d->arena[i]);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd);
    crn_rundir_close(&d->dir);
}

void dead_put(const struct dead *d, const char *name, const void *bytes, size_t n)
{
    int fd = openat(d->dir.spool_dfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, 0), (ssize_t)n);
    assert_int_equal(close(fd), 0);
}

unsigned char *dead_image(const struct dead *d, const struct tv *t, uint32_t rank,
                          struct crn_slot_info *info)
{
    struct crn_errinfo errors = {0}, *ei = &errors;
    struct crn_region regions[TV_REGIONS];
    struct crn_shard shard = {.rank = rank, .nregions = TV_REGIONS, .regions = regions};
    struct crn_buf head = {0};
    struct crn_image image;
    unsigned char *bytes, file[256];
    char name[CRN_SPOOL_NAME];
    uint32_t r;

    for (r = 0; r < TV_REGIONS; r++)
        regions[r] = tv_region(t, rank, r);
    assert_ok(crn_shard_encode(&shard, &head, ei));
    assert_ok(crn_image_layout(&shard, head.len, &image, ei));
    bytes = calloc(1, image.bytes);
    assert_non_null(bytes);
    memcpy(bytes, head.data, head.len);
    for (r = 0; r < TV_REGIONS; r++)
        if (regions[r].kind == CRN_REGION_MEMORY) {
            (void)tv_content(t, rank, r, bytes + image.at[r]);
        } else {
            crn_rundir_spool_file_name(rank, info->id.seq, r, name);
            dead_put(d, name, file, tv_content(t, rank, r, file));
            info->nfiles++;
        }
    info->descriptor_bytes = head.len;
    info->image_bytes = image.bytes;
    crn_image_free(&image);
    crn_buf_free(&head);
    return bytes;
}

void dead_capture(struct dead *d, uint32_t local, const struct tv *t, int is_spilled)
{
    struct crn_slot_info info = {
        .id = {.seq = t->seq}, .version = t->version, .created_ns = 1000 + t->seq};
    struct crn_errinfo errors = {0}, *ei = &errors;
    struct crn_arena *a = d->arena[local];
    uint32_t rank = dead_rank(d, local);
    char name[CRN_SPOOL_NAME];
    unsigned char *bytes;
    uint32_t slot;

    memcpy(info.id.run, d->run, sizeof(d->run));
    (void)snprintf(info.name, sizeof(info.name), "%s", t->name);
    bytes = dead_image(d, t, rank, &info);
    info.is_spilled = is_spilled != 0;
    info.bytes = is_spilled ? 0 : info.image_bytes;
    assert_ok(crn_arena_take(a, CRN_SLOT_WRITING, &info, &slot, ei));
    if (is_spilled) {
        crn_rundir_spill_name(rank, info.id.seq, name);
        dead_put(d, name, bytes, info.image_bytes);
    } else {
        memcpy(crn_slot_memory(a, &info), bytes, info.image_bytes);
    }
    assert_true(crn_slot_move(a, slot, info.id.seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN));
    free(bytes);
}
