/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture for tests of the tier cache: a cache over the fake CUDA library, or over the real one with
 * $CAIRN_TEST_GPU, so small that everything is evicted; and checkpoints with distinct contents. */
#ifndef CRN_TIER_TEST_CACHE_H
#define CRN_TIER_TEST_CACHE_H

#include "base/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/rng.h"
#include "tier/cache.h"
#include "tier/device.h"
#include "tier/test_fake.h"

#define KEYS 24
#define MAXB ((uint64_t)96 << 10)
#define LONG INT64_C(60000000000)
#define DEV  ((uint64_t)256 << 10)
#define HOST ((uint64_t)640 << 10)
#define DISK ((uint64_t)16 << 20)

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

int64_t in(int64_t ns);

/* A disk that is full, or returns corrupt bytes, while the switch is on. */
struct full_disk {
    struct crn_fs fs;
    atomic_int is_full, is_rotten;
};

ssize_t pwrite_full(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off);

struct cache_bed {
    char dir[256];
    const char *fails; /* fake_gpu_fail */
    double bps;        /* of copies between host and device; 0: fast */
    struct crn_driver *driver;
    struct crn_device *dev, *dev2;
    struct full_disk disk;
    struct crn_cache *cache;
    unsigned char *gpu;  /* the application's buffer on the device */
    unsigned char *host; /* and on the host */
    uint64_t bytes[KEYS];
    _Atomic uint64_t ops;
    uint64_t meanwhiles; /* calls during writes */
    long early;          /* of these, before the device got new copies */
    long copies;         /* copies of the device before the write */
};

void cache_fill(unsigned char *p, uint64_t key, uint64_t bytes);

int is_filled(const unsigned char *p, uint64_t key, uint64_t bytes);

void cache_bed_open(struct cache_bed *b, enum crn_evict policy, int discard);

void cache_bed_close(struct cache_bed *b);

/* Copies between the application's buffers, also while calls of the fake library fail. */
void move(struct cache_bed *b, void *dst, const void *src, uint64_t bytes);

cairn_err put(struct cache_bed *b, uint64_t key, uint64_t bytes, int from_gpu);

cairn_err get(struct cache_bed *b, uint64_t key, int to_gpu);

#endif
