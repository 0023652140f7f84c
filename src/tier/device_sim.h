/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that is made of host memory and threads: streams run asynchronously at the bandwidths that
 * it is told, calls fail where it is told. Runs the whole suite where there is no GPU. */
#ifndef CRN_TIER_DEVICE_SIM_H
#define CRN_TIER_DEVICE_SIM_H

#include "tier/device.h"

struct crn_sim_options {
    int devices;         /* 0: one */
    uint64_t bytes;      /* memory of each */
    double inside_bps;   /* bytes a second; 0: as fast as memcpy */
    double down_bps;     /* to the host, pinned */
    double up_bps;       /* from the host, pinned */
    double pageable_bps; /* both, where the host memory is not pinned */
    double pin_bps;      /* of pin() */
    int64_t latency_ns;  /* of each copy */
    long fail_at;        /* this copy, counted from 1 over all lanes, fails; 0: none */
    int fail_every;      /* and each so many after it; 0: only that one */
    long lose_at;        /* from this copy on the device is lost; 0: never */
    int pin_fails;
};

CAIRN_CHECKED cairn_err crn_driver_sim(const struct crn_sim_options *options,
                                       struct crn_driver **ret, struct crn_errinfo *ei);

/* The application's side. Gives work to a stream (NULL: the legacy one); it runs there after what was
 * given before. Streams are opened, used and closed by one thread, the one that captures. */
struct crn_sim_stream;
CAIRN_CHECKED cairn_err crn_sim_stream_open(struct crn_device *dev, struct crn_sim_stream **ret,
                                            struct crn_errinfo *ei);
void crn_sim_stream_close(struct crn_sim_stream *s); /* waits for its work */
void crn_sim_launch(struct crn_device *dev, struct crn_sim_stream *s, void (*fn)(void *arg),
                    void *arg);
/* Copies that were asked for so far. */
long crn_sim_copies(struct crn_device *dev);

#endif
