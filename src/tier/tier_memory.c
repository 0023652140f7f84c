/* SPDX-License-Identifier: BSD-3-Clause */
/* The two memory tiers: one contiguous buffer each, allocated once. Device memory is usable at
 * once. Several threads touch host memory, then it is pinned; this takes tenths of a second per
 * gigabyte and happens in the background. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/touch.h"
#include "tier/tier.h"

/* Initial estimates, replaced by measurements after a few copies. */
#define PCIE_BPS  25e9
#define LOCAL_BPS 2e9

struct memory_tier {
    struct crn_tier tier;
    unsigned char *base;
    uint64_t bytes;
    struct crn_device *pin_for;
    int threads;
    int is_pinned;
    struct crn_errinfo pin_error;
};

static void *tier_memory_address(struct crn_tier *t, uint64_t offset)
{
    return ((struct memory_tier *)t)->base + offset;
}

static void close_device(struct crn_tier *t)
{
    struct memory_tier *m = (struct memory_tier *)t;

    if (t->device != NULL)
        t->device->driver->ops->free(t->device, m->base);
    free(m);
}

static const struct crn_tier_ops device_ops = {
    .kind = "device",
    .address = tier_memory_address,
    .close = close_device,
};

cairn_err crn_tier_device_later(struct crn_tier **ret, struct crn_errinfo *ei)
{
    struct memory_tier *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a device tier");
    m->tier = (struct crn_tier){.ops = &device_ops, .is_for_device = 1};
    m->tier.chain = (struct crn_chain_tier){
        .align = 4096, .down_bps = PCIE_BPS, .up_bps = PCIE_BPS, .depth = 2};
    *ret = &m->tier;
    return CAIRN_OK;
}

cairn_err crn_tier_device_bind(struct crn_tier *t, struct crn_device *dev, uint64_t bytes,
                               struct crn_errinfo *ei)
{
    struct memory_tier *m = (struct memory_tier *)t;
    void *base;
    cairn_err rc = dev->driver->ops->alloc(dev, bytes, &base, ei);

    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "device tier of %llu bytes", (unsigned long long)bytes);
    m->base = base;
    m->bytes = bytes;
    t->device = dev;
    t->chain.capacity = bytes;
    return CAIRN_OK;
}

cairn_err crn_tier_device(struct crn_device *dev, uint64_t bytes, struct crn_tier **ret,
                          struct crn_errinfo *ei)
{
    struct crn_tier *t;
    cairn_err rc = crn_tier_device_later(&t, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = crn_tier_device_bind(t, dev, bytes, ei);
    if (rc != CAIRN_OK) {
        close_device(t);
        return rc;
    }
    *ret = t;
    return CAIRN_OK;
}

static cairn_err prepare_host(struct crn_tier *t, struct crn_errinfo *ei)
{
    struct memory_tier *m = (struct memory_tier *)t;

    (void)ei;
    crn_touch(m->base, m->bytes, m->threads);
    if (m->pin_for != NULL)
        m->is_pinned =
            m->pin_for->driver->ops->pin(m->pin_for, m->base, m->bytes, &m->pin_error) == CAIRN_OK;
    return CAIRN_OK;
}

static void close_host(struct crn_tier *t)
{
    struct memory_tier *m = (struct memory_tier *)t;

    if (m->is_pinned)
        m->pin_for->driver->ops->unpin(m->pin_for, m->base);
    (void)munmap(m->base, m->bytes);
    free(m);
}

static const struct crn_tier_ops host_ops = {
    .kind = "host",
    .prepare = prepare_host,
    .address = tier_memory_address,
    .close = close_host,
};

cairn_err crn_tier_host(struct crn_device *pin_for, uint64_t bytes, int threads,
                        struct crn_tier **ret, struct crn_errinfo *ei)
{
    struct memory_tier *m = calloc(1, sizeof(*m));
    void *base;

    if (m == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a host tier");
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED) {
        free(m);
        return crn_fail(ei, CAIRN_ENOMEM, errno, "host tier of %llu bytes",
                        (unsigned long long)bytes);
    }
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    m->tier = (struct crn_tier){.ops = &host_ops};
    m->tier.chain = (struct crn_chain_tier){
        .capacity = bytes, .align = 4096, .down_bps = LOCAL_BPS, .up_bps = LOCAL_BPS, .depth = 2};
    m->base = base;
    m->bytes = bytes;
    m->pin_for = pin_for;
    m->threads = threads;
    *ret = &m->tier;
    return CAIRN_OK;
}

const struct crn_errinfo *crn_tier_host_pin_error(const struct crn_tier *t)
{
    return &((const struct memory_tier *)t)->pin_error;
}
