/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of a tier back end: memory or files, and their bandwidths. The chain (chain.h)
 * decides which checkpoint lies where and when it is copied. This file moves the bytes between any
 * two tiers, or between a tier and the application, for all back ends.
 *
 * There are two kinds of tier. A memory tier gives an address, on the host or on a device, and
 * bytes are copied to and from it directly. A block tier (files) reads and writes blocks of host
 * memory; a device reaches it through a bounce buffer. */
#ifndef CRN_TIER_TIER_H
#define CRN_TIER_TIER_H

#include "base/fs.h"
#include "base/team.h"
#include "tier/chain.h"
#include "tier/device.h"

#define CRN_TIER_BLOCK ((uint64_t)4 << 20) /* block tiers: each put and get except the last */

struct crn_tier;

struct crn_tier_ops {
    const char *kind;
    /* The slow steps of starting (touching, pinning), in a thread of its own. NULL: there are none.
     * A tier that fails here counts as lost. */
    cairn_err (*prepare)(struct crn_tier *t, struct crn_errinfo *ei);

    /* Memory tiers: the address of an offset. Any thread. */
    void *(*address)(struct crn_tier *t, uint64_t offset);
    /* Called when a copy to a spot begins, downwards or upwards, and when it has ended; by the
     * thread that copies. If begin fails, the copy fails and end is not called. NULL: not
     * needed. */
    cairn_err (*begin)(struct crn_tier *t, const struct crn_spot *spot, int is_up,
                       struct crn_errinfo *ei);
    cairn_err (*end)(struct crn_tier *t, const struct crn_spot *spot, int is_up, cairn_err rc,
                     struct crn_errinfo *ei);
    /* Copies host memory to host memory, for the application. NULL: memcpy. */
    void (*copy)(struct crn_tier *t, void *dst, const void *src, uint64_t bytes);

    /* Block tiers; any thread, several at once. Each block of a spot is put once, in any order.
     * CAIRN_EDAMAGED: get found other bytes than were put. Only prefetching gets from an external
     * tier, a whole checkpoint at a time. */
    cairn_err (*put)(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, const void *src,
                     uint64_t bytes, struct crn_errinfo *ei);
    cairn_err (*get)(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, void *dst,
                     uint64_t bytes, struct crn_errinfo *ei);

    void (*close)(struct crn_tier *t); /* frees t too */
};

/* Back ends embed this at the start of their own structs. */
struct crn_tier {
    const struct crn_tier_ops *ops;
    struct crn_chain_tier chain; /* capacity and initial bandwidth estimates */
    struct crn_device *device;   /* memory tiers: the memory's device; NULL: host */
    int is_for_device; /* for checkpoints mostly in device memory, even before it has a device */
};

/* Takes bytes of the device's memory. CAIRN_ENOMEM if it has less. The caller keeps ownership of
 * the device. */
CAIRN_CHECKED cairn_err crn_tier_device(struct crn_device *dev, uint64_t bytes,
                                        struct crn_tier **ret, struct crn_errinfo *ei);
/* The same for a device that is not known yet: it has no space until crn_cache_bind. */
CAIRN_CHECKED cairn_err crn_tier_device_later(struct crn_tier **ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_tier_device_bind(struct crn_tier *t, struct crn_device *dev,
                                             uint64_t bytes, struct crn_errinfo *ei);
/* Host memory, touched by several threads and pinned for the device (NULL: not pinned). Memory that
 * cannot be pinned is used anyway, more slowly; pin_error then says why. */
CAIRN_CHECKED cairn_err crn_tier_host(struct crn_device *pin_for, uint64_t bytes, int threads,
                                      struct crn_tier **ret, struct crn_errinfo *ei);
const struct crn_errinfo *crn_tier_host_pin_error(const struct crn_tier *t); /* after prepare */
/* An unnamed file of this size in the directory path. It extends memory and is gone with the
 * process, however that ends. */
CAIRN_CHECKED cairn_err crn_tier_file(const struct crn_fs *fs, const char *path, uint64_t capacity,
                                      struct crn_tier **ret, struct crn_errinfo *ei);

/* Moving bytes. -------------------------------------------------------------------------------- */

/* A range of a checkpoint in the application's memory. */
struct crn_tier_piece {
    void *ptr;
    uint64_t at; /* offset in the checkpoint; pieces are sorted and do not overlap */
    uint64_t bytes;
    struct crn_device *device; /* NULL: host memory */
};

/* The resources of a background thread for a move. */
struct crn_mover {
    enum crn_lane lane;
    void *bounce;          /* CRN_TIER_BLOCK bytes */
    struct crn_team *team; /* helps with blocks between files and host memory; NULL: no helpers */
};

/* Moves a checkpoint from tier to tier, in a background thread. */
CAIRN_CHECKED cairn_err crn_transfer_between(struct crn_tier *from, struct crn_tier *to,
                                             const struct crn_tier_transfer *t,
                                             const struct crn_mover *by, struct crn_errinfo *ei);

/* The application's end of a copy. */
struct crn_ends {
    const struct crn_tier_piece *pieces;
    size_t n;
    /* By device: access to device memory is ordered after this stream. If streams or an entry is
     * NULL, it is ordered after all operations of the device's context. */
    void *const *streams;
    void *bounce; /* CRN_TIER_BLOCK bytes */
    /* Called once while a device copies, by the thread that waits for it, for things that need not
     * be done before or after. NULL: nothing. */
    void (*meanwhile)(void *arg);
    void *arg;
};

/* A capture into a tier, on CRN_LANE_WRITE, or a restore from one, on CRN_LANE_READ, in the
 * application's thread. */
CAIRN_CHECKED cairn_err crn_transfer_in(struct crn_tier *to, const struct crn_tier_transfer *t,
                                        const struct crn_ends *app, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_transfer_out(struct crn_tier *from, const struct crn_tier_transfer *t,
                                         const struct crn_ends *app, struct crn_errinfo *ei);

#endif
