/* SPDX-License-Identifier: BSD-3-Clause */
/* One interface to CUDA's driver library and HIP's runtime library: the calls that both have under
 * different names, and the few that differ. The libraries are loaded at run time. This file
 * declares their ABI itself, so that the build needs none of their headers. Results are int, 0 is
 * success; streams, events and device memory are pointers. */
#ifndef CRN_TIER_DEVICE_DRIVER_H
#define CRN_TIER_DEVICE_DRIVER_H

#include <stddef.h>
#include "tier/device.h"

#define CRN_VENDOR_OWN 11 /* most symbols that only one vendor has */

struct crn_vendor_driver;
struct crn_vendor_device;

/* Calls with the same meaning in both, by their symbols in the library. */
struct crn_vendor_symbols {
    const char *init, *device_count, *mem_info, *mem_alloc, *mem_free;
    const char *host_register, *host_unregister, *pointer;
    const char *stream_create, *stream_destroy, *stream_wait, *stream_sync;
    const char *event_create, *event_destroy, *event_record, *event_wait, *event_query;
    const char *capture_mode, *is_capturing; /* NULL if the library has no graphs */
    const char *own[CRN_VENDOR_OWN];         /* same order as in crn_vendor_driver.own */
};

struct crn_vendor {
    const char *name;             /* of the driver */
    const char *title;            /* in messages */
    const char *const *libraries; /* tried in turn, up to a NULL; messages name the last */
    struct crn_vendor_symbols symbols;
    const int *lost; /* codes after which every call fails; ends with 0 */
    void *legacy_stream;

    /* Initialisation after the library's own. */
    int (*start)(struct crn_vendor_driver *d);
    const char *(*text)(const struct crn_vendor_driver *d, int r); /* NULL: unknown */
    int (*owner)(struct crn_driver *d, const void *ptr);           /* see crn_driver_ops */
    int (*stream_device)(struct crn_driver *d, void *stream);      /* see crn_driver_ops */
    int (*bus)(struct crn_device *dev, char *ret, size_t size);    /* see crn_driver_ops */
    /* Retains a device before it is first entered. release must also accept a device that was not
     * retained. */
    int (*retain)(struct crn_vendor_device *dev);
    void (*release)(struct crn_vendor_device *dev);
    /* Called around each call: the thread's own device is the same before and after. */
    int (*enter)(struct crn_vendor_device *dev, int *ret_before);
    void (*leave)(struct crn_vendor_device *dev, int before);
    int (*copy)(const struct crn_vendor_driver *d, void *dst, const void *src, size_t bytes,
                void *stream);
};

struct crn_vendor_driver {
    struct crn_driver driver;
    struct crn_driver_ops ops;
    const struct crn_vendor *vendor;
    void *library;
    int (*init)(unsigned flags);
    int (*device_count)(int *n);
    int (*mem_info)(size_t *left, size_t *total);
    int (*mem_alloc)(void **p, size_t bytes);
    int (*mem_free)(void *p);
    int (*host_register)(void *p, size_t bytes, unsigned flags);
    int (*host_unregister)(void *p);
    int (*pointer)(void *data, int attribute, const void *p);
    int (*stream_create)(void **s, unsigned flags);
    int (*stream_destroy)(void *s);
    int (*stream_wait)(void *s, void *e, unsigned flags);
    int (*stream_sync)(void *s);
    int (*event_create)(void **e, unsigned flags);
    int (*event_destroy)(void *e);
    int (*event_record)(void *e, void *s);
    int (*event_wait)(void *e);
    int (*event_query)(void *e);
    int (*capture_mode)(int *mode);               /* exchanges the thread's mode; may be NULL */
    int (*is_capturing)(void *s, int *ret_state); /* may be NULL */
    void *own[CRN_VENDOR_OWN];
    unsigned memory_device; /* this release's number for device memory */
};

/* Copies submitted to a background lane since the last wait, and its measured bandwidth. */
struct crn_pace {
    int64_t start_ns; /* of the first copy */
    uint64_t bytes;   /* 0: no copies */
    double bps;       /* 0: not known yet */
};

struct crn_vendor_device {
    struct crn_device dev;
    void *ctx; /* only for vendors with contexts */
    void *lane[CRN_LANES];
    void *done[CRN_LANES];           /* event: end of the submitted copies */
    void *mark[CRN_LANES];           /* event: application's operations that the lane waits for */
    struct crn_pace pace[CRN_LANES]; /* owned by the thread that uses the lane */
    void *token[CRN_LANES];          /* device memory for device_driver_settle */
};

static inline struct crn_vendor_driver *crn_vendor_of(const struct crn_vendor_device *dev)
{
    return (struct crn_vendor_driver *)dev->dev.driver;
}

/* Gets a vendor-specific symbol as a function pointer, in the way that POSIX recommends. */
#define CRN_VENDOR_CALL(d, i, fn) (*(void **)&(fn) = (d)->own[i])

CAIRN_CHECKED cairn_err crn_vendor_open(const struct crn_vendor *vendor, int is_loaded,
                                        struct crn_driver **ret, struct crn_errinfo *ei);
/* Finds the owner of memory, under the current context: *ret is the device, or -1 for the host. */
int crn_vendor_ask(const struct crn_vendor_driver *d, const void *ptr, int *ret);

#endif
