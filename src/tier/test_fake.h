/* SPDX-License-Identifier: BSD-3-Clause */
/* How tests control the fake GPU libraries (device_fake.h), and call them as an application
 * would. */
#ifndef CRN_TIER_TEST_FAKE_H
#define CRN_TIER_TEST_FAKE_H

#include "base/test.h"

#include <dlfcn.h>

#include "tier/device_fake.h"

#define FAKE_CUDA "libcuda.so.1"
#define FAKE_HIP  "libamdhip64.so.6"

/* With $CAIRN_TEST_GPU the tests run over the real driver, which they cannot control. */
int is_real(void);

/* Calls a query of the fake library, such as fake_gpu_live; 0 with a real one. */
int fake_ask(const char *library, const char *what);

/* Sets which calls fail, in libraries loaded now or later; NULL: none. */
void fail_at(const char *spec);

void hold(int kinds);

void set_speed(double link, double pageable);

/* Moves bytes from or to device memory without a call of the driver. 0: it is a real one. */
int poke(void *dst, const void *src, size_t bytes);

long count_of(int what);

/* The application's own use of CUDA. */
struct cuda {
    int (*push)(void *ctx);
    int (*pop)(void **ctx);
    int (*retain)(void **ctx, int dev);
    int (*release)(int dev);
    int (*device)(int *dev, int ordinal);
    int (*stream_create)(void **s, unsigned flags);
    int (*stream_destroy)(void *s);
    int (*stream_sync)(void *s);
    int (*ctx_sync)(void);
    int (*begin)(void *s, int mode);
    int (*end)(void *s, void **graph);
    int (*set)(unsigned long long p, unsigned word, size_t n, void *s);
    int (*copy)(unsigned long long dst, unsigned long long src, size_t bytes, void *s);
};

void cuda_find(struct cuda *c);

/* Makes a device current in the calling thread; cuda_leave undoes it. */
void cuda_enter(const struct cuda *c, int ordinal);

void cuda_leave(const struct cuda *c, int ordinal);

#endif
