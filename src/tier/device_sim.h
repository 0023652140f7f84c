/* SPDX-License-Identifier: BSD-3-Clause */
/* A device simulated with host memory and threads. Its streams run asynchronously at configured
 * bandwidths, and calls fail on request. Runs the whole test suite on machines without a GPU. */
#ifndef CRN_TIER_DEVICE_SIM_H
#define CRN_TIER_DEVICE_SIM_H

#include "tier/device.h"

struct crn_sim_options {
    int devices;         /* 0: one */
    uint64_t bytes;      /* memory of each */
    double inside_bps;   /* bytes a second; 0: as fast as memcpy */
    double down_bps;     /* to the host, pinned */
    double up_bps;       /* from the host, pinned */
    double pageable_bps; /* both ways, if the host memory is not pinned */
    double pin_bps;      /* of pin() */
    int64_t latency_ns;  /* of each copy */
    long fail_at;        /* this copy, counted from 1 over all lanes, fails; 0: none */
    int fail_every;      /* and every so many after it; 0: only that one */
    long lose_at;        /* from this copy on the device is lost; 0: never */
    int pin_fails;
};

CAIRN_CHECKED cairn_err crn_driver_sim(const struct crn_sim_options *options,
                                       struct crn_driver **ret, struct crn_errinfo *ei);

/* For the application's side. Submits an operation to a stream (NULL: the legacy one); it runs
 * after those submitted before. The thread that captures also opens, uses and closes the
 * streams. */
struct crn_sim_stream;
CAIRN_CHECKED cairn_err crn_sim_stream_open(struct crn_device *dev, struct crn_sim_stream **ret,
                                            struct crn_errinfo *ei);
void crn_sim_stream_close(struct crn_sim_stream *s); /* waits for its operations */
void crn_sim_launch(struct crn_device *dev, struct crn_sim_stream *s, void (*fn)(void *arg),
                    void *arg);
/* Copies submitted so far. */
long crn_sim_copies(struct crn_device *dev);

#endif
