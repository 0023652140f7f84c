/* SPDX-License-Identifier: BSD-3-Clause */
/* What a tier back end supplies: memory or files, and how fast they are. Which checkpoint lies where
 * and when it is copied is the chain's business (chain.h); moving the bytes between any two of them
 * and the application is done here, once for all.
 *
 * Two kinds of tier. A memory tier gives an address, in the host or on a device, and bytes are copied
 * to and from it directly. A block tier (files) takes and gives blocks of host memory; a device reaches it through a bounce buffer. */
#ifndef CRN_TIER_TIER_H
#define CRN_TIER_TIER_H

#include "base/fs.h"
#include "base/team.h"
#include "tier/chain.h"
#include "tier/device.h"

#define CRN_TIER_BLOCK ((uint64_t)4 << 20) /* of block tiers: each put and get but the last */

struct crn_tier;

struct crn_tier_ops {
    const char *kind;
    /* The slow part of starting, in a thread of its own: touching, pinning. NULL: there is none. A
     * tier that fails here counts as lost. */
    cairn_err (*prepare)(struct crn_tier *t, struct crn_errinfo *ei);

    /* Memory tiers. Where an offset lies. Any thread. */
    void *(*address)(struct crn_tier *t, uint64_t offset);
    /* A copy to a spot begins, downwards or upwards, and how it ended; by the thread that makes it. A
     * failed begin fails the copy and has no end. NULL: nobody need know. */
    cairn_err (*begin)(struct crn_tier *t, const struct crn_spot *spot, int is_up,
                       struct crn_errinfo *ei);
    cairn_err (*end)(struct crn_tier *t, const struct crn_spot *spot, int is_up, cairn_err rc,
                     struct crn_errinfo *ei);
    /* Host memory to host memory, for the application. NULL: memcpy. */
    void (*copy)(struct crn_tier *t, void *dst, const void *src, uint64_t bytes);

    /* Block tiers, any thread, several at once. The blocks of a spot are put in any order, and only
     * once; CAIRN_EDAMAGED: what was got is not what was put. An external tier is got
     * from by prefetching alone, all at once. */
    cairn_err (*put)(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, const void *src,
                     uint64_t bytes, struct crn_errinfo *ei);
    cairn_err (*get)(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, void *dst,
                     uint64_t bytes, struct crn_errinfo *ei);

    void (*close)(struct crn_tier *t); /* frees t too */
};

/* The back ends embed this at the start of their own. */
struct crn_tier {
    const struct crn_tier_ops *ops;
    struct crn_chain_tier chain; /* capacity and first guesses of the bandwidths */
    struct crn_device *device;   /* memory tiers: who owns the memory; NULL: the host */
    int is_for_device; /* for checkpoints that lie mostly on a device, also while it has none */
};

/* bytes of the device's memory. CAIRN_ENOMEM when it has less; the device stays the caller's. */
CAIRN_CHECKED cairn_err crn_tier_device(struct crn_device *dev, uint64_t bytes,
                                        struct crn_tier **ret, struct crn_errinfo *ei);
/* The same of a device that is not known yet: it has no room until crn_cache_bind. */
CAIRN_CHECKED cairn_err crn_tier_device_later(struct crn_tier **ret, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_tier_device_bind(struct crn_tier *t, struct crn_device *dev,
                                             uint64_t bytes, struct crn_errinfo *ei);
/* Host memory, touched by some threads and pinned for the device (NULL: not pinned). What cannot be
 * pinned is used all the same, slower; pin_error then tells why. */
CAIRN_CHECKED cairn_err crn_tier_host(struct crn_device *pin_for, uint64_t bytes, int threads,
                                      struct crn_tier **ret, struct crn_errinfo *ei);
const struct crn_errinfo *crn_tier_host_pin_error(const struct crn_tier *t); /* after prepare */
/* A file of so many bytes in the directory path that nobody else sees: it extends memory and is gone with
 * the process, however that ends. */
CAIRN_CHECKED cairn_err crn_tier_file(const struct crn_fs *fs, const char *path, uint64_t capacity,
                                      struct crn_tier **ret, struct crn_errinfo *ei);

/* Moving bytes. -------------------------------------------------------------------------------- */

/* A part of a checkpoint in the application's memory. */
struct crn_tier_piece {
    void *ptr;
    uint64_t at; /* in the checkpoint; pieces are in order and do not overlap */
    uint64_t bytes;
    struct crn_device *device; /* NULL: host memory */
};

/* What a background thread moves with. */
struct crn_mover {
    enum crn_lane lane;
    void *bounce;          /* CRN_TIER_BLOCK bytes */
    struct crn_team *team; /* shares blocks between files and host memory; NULL: it works alone */
};

/* A move from tier to tier, by a background thread. */
CAIRN_CHECKED cairn_err crn_transfer_between(struct crn_tier *from, struct crn_tier *to,
                                             const struct crn_tier_transfer *t,
                                             const struct crn_mover *by, struct crn_errinfo *ei);

/* The application's end of a copy. */
struct crn_ends {
    const struct crn_tier_piece *pieces;
    size_t n;
    /* Device memory is read and written after what was given to these, by device; NULL, and NULL for a
     * device: after all work of its context. */
    void *const *streams;
    void *bounce; /* CRN_TIER_BLOCK bytes */
    /* Called once while a device copies, by the thread that waits for it: what need not be done before
     * or after. NULL: nothing. */
    void (*meanwhile)(void *arg);
    void *arg;
};

/* A capture into a tier, on CRN_LANE_WRITE, or a restore out of one, on CRN_LANE_READ, by the
 * application's thread. */
CAIRN_CHECKED cairn_err crn_transfer_in(struct crn_tier *to, const struct crn_tier_transfer *t,
                                        const struct crn_ends *app, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_transfer_out(struct crn_tier *from, const struct crn_tier_transfer *t,
                                         const struct crn_ends *app, struct crn_errinfo *ei);

#endif
