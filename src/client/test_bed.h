/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixture for tests of GPU regions: a driver, memory on a device, and sessions in a directory of
 * their own. Runs over the fake CUDA library of tier/device_fake.c; with $CAIRN_TEST_GPU set, over
 * the real one. */
#ifndef CRN_CLIENT_TEST_BED_H
#define CRN_CLIENT_TEST_BED_H

#include "base/test.h"

#include <errno.h>
#include <stdarg.h>

#include "base/err.h"
#include "tier/device.h"
#include "tier/test_fake.h"

#define N ((size_t)300000) /* of u64 */

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct bed_bed {
    char dir[256];
    struct crn_driver *driver;
    struct crn_device *dev;
    uint64_t *gpu;  /* the application's buffer on the device */
    uint64_t *host; /* and on the host */
};

void bed_open(struct bed_bed *b);

void bed_close(struct bed_bed *b);

/* More settings follow, up to a NULL. A session overwrites the versions of earlier sessions. */
cairn_session *bed_session(struct bed_bed *b, ...);

void must(cairn_err rc);

uint64_t value(uint64_t version, uint64_t i);

void copy(struct bed_bed *b, void *dst, const void *src, size_t n);

void bed_fill(struct bed_bed *b, uint64_t version);

/* Does the device buffer hold this version? Copies it to the host buffer to check. */
int holds(struct bed_bed *b, uint64_t version);

void spoil(struct bed_bed *b);

#endif
