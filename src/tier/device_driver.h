/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA's driver library and HIP's runtime library as one: the calls that both have under other names, and
 * the few things that each does in its own way. The libraries are loaded at run time; what is needed of
 * them is declared as their ABI has it, so that no header of theirs is needed to build. Results are int,
 * 0 is success; streams, events and device memory are pointers. */
#ifndef CRN_TIER_DEVICE_DRIVER_H
#define CRN_TIER_DEVICE_DRIVER_H

#include <stddef.h>
#include "tier/device.h"

#define CRN_VENDOR_OWN 10 /* symbols of one vendor alone, at most */

struct crn_vendor_driver;
struct crn_vendor_device;

/* Calls that mean the same in both, by their symbols in the library. */
struct crn_vendor_symbols {
    const char *init, *device_count, *mem_info, *mem_alloc, *mem_free;
    const char *host_register, *host_unregister, *pointer;
    const char *stream_create, *stream_destroy, *stream_wait, *stream_sync;
    const char *event_create, *event_destroy, *event_record, *event_wait, *event_query;
    const char *capture_mode, *is_capturing; /* absent where the library has no graphs */
    const char *own[CRN_VENDOR_OWN];         /* found in the same order in crn_vendor_driver.own */
};

struct crn_vendor {
    const char *name;             /* of the driver */
    const char *title;            /* in messages */
    const char *const *libraries; /* tried in turn, up to a NULL; messages name the last */
    struct crn_vendor_symbols symbols;
    const int *lost; /* codes after which no call succeeds any more, up to a 0 */
    void *legacy_stream;

    /* What is left to do after the library's own start. */
    int (*start)(struct crn_vendor_driver *d);
    const char *(*text)(const struct crn_vendor_driver *d, int r); /* NULL: nobody knows */
    int (*owner)(struct crn_driver *d, const void *ptr);           /* as crn_driver_ops */
    int (*stream_device)(struct crn_driver *d, void *stream);      /* the same */
    /* Takes hold of a device before it is entered first. release: also of one that was not retained. */
    int (*retain)(struct crn_vendor_device *dev);
    void (*release)(struct crn_vendor_device *dev);
    /* Around each call: the thread's own device is the same before and after. */
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
    int (*capture_mode)(int *mode);               /* exchanges the thread's; may be NULL */
    int (*is_capturing)(void *s, int *ret_state); /* may be NULL */
    void *own[CRN_VENDOR_OWN];
    unsigned memory_device; /* what this release calls device memory */
};

/* What a lane of the background was given since it was last waited for, and how fast it was before. */
struct crn_pace {
    int64_t start_ns; /* of the first copy */
    uint64_t bytes;   /* 0: none */
    double bps;       /* 0: not known yet */
};

struct crn_vendor_device {
    struct crn_device dev;
    void *ctx; /* of who has contexts */
    void *lane[CRN_LANES];
    void *done[CRN_LANES];           /* end of what the lane was given */
    void *mark[CRN_LANES];           /* the application's work that the lane waits for */
    struct crn_pace pace[CRN_LANES]; /* of who uses the lane */
    void *token[CRN_LANES];          /* device memory: settle() */
};

static inline struct crn_vendor_driver *crn_vendor_of(const struct crn_vendor_device *dev)
{
    return (struct crn_vendor_driver *)dev->dev.driver;
}

/* A symbol of a vendor alone, as a pointer to a function: the way POSIX shows it. */
#define CRN_VENDOR_CALL(d, i, fn) (*(void **)&(fn) = (d)->own[i])

CAIRN_CHECKED cairn_err crn_vendor_open(const struct crn_vendor *vendor, int is_loaded,
                                        struct crn_driver **ret, struct crn_errinfo *ei);
/* Whose memory it is, under the present context: *ret is the device, -1 the host. */
int crn_vendor_ask(const struct crn_vendor_driver *d, const void *ptr, int *ret);

#endif
