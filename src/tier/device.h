/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs through one table of operations: CUDA and HIP through the driver libraries, loaded at run
 * time. The same build runs on machines with and without a GPU.
 *
 * A lane is one of Cairn's own streams on a device. It never waits for the application's streams
 * unless told to. Different threads may use different lanes at the same time; only one thread at a
 * time uses a lane. Lanes overlap: copies down, up and inside the device run on separate engines.
 *
 * Errors: CAIRN_ENOTSUP no driver or no device; CAIRN_ENOMEM out of device memory; CAIRN_EDEVICE
 * the device is lost or in a state that no later call repairs; CAIRN_EIO anything else.
 *
 * Captures: the application may capture a graph in any thread, in any mode. No call here, in any
 * thread, invalidates that capture. */
#ifndef CRN_TIER_DEVICE_H
#define CRN_TIER_DEVICE_H

#include <stdint.h>
#include "base/err.h"

enum crn_lane {
    CRN_LANE_WRITE = 0, /* captures; the application waits */
    CRN_LANE_READ,      /* restores; the application waits */
    CRN_LANE_DOWN,      /* background flushes; two lanes, so that the link is never idle */
    CRN_LANE_DOWN_2,
    CRN_LANE_UP, /* background prefetches */
    CRN_LANE_UP_2,
    CRN_LANES,
};

#define CRN_GPUS 16 /* per session and per checkpoint: ordinals are below it */

/* Special stream handles of the application. Any other value is a CUstream or a hipStream_t. */
#define CRN_STREAM_LEGACY     ((void *)(uintptr_t)1) // NOLINT(performance-no-int-to-ptr)
#define CRN_STREAM_PER_THREAD ((void *)(uintptr_t)2) // NOLINT(performance-no-int-to-ptr)

struct crn_driver;

/* Back ends embed these two at the start of their own structs. */
struct crn_device {
    struct crn_driver *driver;
    int ordinal;
};

struct crn_driver {
    const struct crn_driver_ops *ops;
    int ndevices;
};

struct crn_driver_ops {
    const char *name;
    void (*close)(struct crn_driver *d); /* after all its devices */
    /* The device that owns the memory at ptr; -1: host memory, pinned or not. Any thread. */
    int (*owner)(struct crn_driver *d, const void *ptr);

    /* Opening takes a reference to the context that the application's runtime also uses, and
     * creates the lanes. Wait for every lane before closing. */
    cairn_err (*device_open)(struct crn_driver *d, int ordinal, struct crn_device **ret,
                             struct crn_errinfo *ei);
    void (*device_close)(struct crn_device *dev);
    cairn_err (*memory)(struct crn_device *dev, uint64_t *ret_free, uint64_t *ret_total,
                        struct crn_errinfo *ei);
    /* The device's address on the host, such as 0000:1b:00.0: the same in every process, whichever
     * devices that process sees. Returns 0, or an error number of the driver. */
    int (*bus)(struct crn_device *dev, char *ret, size_t size);
    cairn_err (*alloc)(struct crn_device *dev, uint64_t bytes, void **ret, struct crn_errinfo *ei);
    void (*free)(struct crn_device *dev, void *ptr);
    /* Pins host memory, for copies at full speed. Slow: a gigabyte takes tenths of a second. */
    cairn_err (*pin)(struct crn_device *dev, void *host, uint64_t bytes, struct crn_errinfo *ei);
    void (*unpin)(struct crn_device *dev, void *host);

    /* The device whose context owns the stream; -1: none. For CRN_STREAM_LEGACY and _PER_THREAD it
     * is the calling thread's current device, or the only one in use. */
    int (*stream_device)(struct crn_driver *d, void *stream);
    /* Returns 1 if a graph is being captured from the stream. Never harms a capture. */
    int (*is_capturing)(struct crn_device *dev, void *stream);
    /* Orders the lane's later operations after everything that the application submitted to the
     * stream so far; does not block. If stream is NULL, waits for all operations on all streams of
     * the device's context, non-blocking streams and other lanes included. CAIRN_EBUSY: the stream
     * is being captured. */
    cairn_err (*after)(struct crn_device *dev, enum crn_lane lane, void *stream,
                       struct crn_errinfo *ei);
    /* Orders the stream's later operations after everything that the lane was given so far; does
     * not block. */
    cairn_err (*before)(struct crn_device *dev, enum crn_lane lane, void *stream,
                        struct crn_errinfo *ei);
    /* Submits a copy to the lane, between any two of host and device memory. Does not block, except
     * for host memory that is not pinned. */
    cairn_err (*copy)(struct crn_device *dev, enum crn_lane lane, void *dst, const void *src,
                      uint64_t bytes, struct crn_errinfo *ei);
    /* Waits for all submitted operations of the lane; returns the first error. Even after an error
     * the lane has drained or its context is dead: no earlier copy can touch memory after the
     * return. */
    cairn_err (*wait)(struct crn_device *dev, enum crn_lane lane, struct crn_errinfo *ei);
};

/* is_loaded: succeed only if the process has already loaded the library, as an application that
 * uses the GPU has; costs nothing otherwise. CAIRN_ENOTSUP says what is missing. */
CAIRN_CHECKED cairn_err crn_driver_cuda(int is_loaded, struct crn_driver **ret,
                                        struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_driver_hip(int is_loaded, struct crn_driver **ret,
                                       struct crn_errinfo *ei);
/* The first of these that has a device. */
CAIRN_CHECKED cairn_err crn_driver_any(int is_loaded, struct crn_driver **ret,
                                       struct crn_errinfo *ei);

#endif
