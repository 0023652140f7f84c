/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions in the memory of GPUs. A pointer is recognised by asking the driver that the application
 * has loaded; a session without such memory pays nothing. Application's thread only. */
#ifndef CRN_CLIENT_GPU_H
#define CRN_CLIENT_GPU_H

#include "client/open.h"
#include "restart/version.h"
#include "tier/device.h"

/* Where a region lies. */
struct crn_place {
    void *ptr;
    struct crn_device *device; /* NULL: host memory */
};

struct crn_gpu; /* opaque; of a session that has met device memory */

/* The device that owns ptr; NULL for host memory. */
CAIRN_CHECKED cairn_err crn_gpu_owner(cairn_session *s, const void *ptr, struct crn_device **ret,
                                      struct crn_errinfo *ei);
/* Device memory into the arena and out of it: given to a lane, after the application's work (crn_driver_ops,
 * after). crn_gpu_wait waits for all of them, and is called also after an error. */
CAIRN_CHECKED cairn_err crn_gpu_capture(cairn_session *s, const struct crn_place *from, void *to,
                                        uint64_t bytes, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_restore(cairn_session *s, const struct crn_place *to,
                                        const void *from, uint64_t bytes, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_wait(cairn_session *s, struct crn_errinfo *ei);
/* Device memory to a file, and bytes of a version to device memory, in pieces. They wait. */
CAIRN_CHECKED cairn_err crn_gpu_write(cairn_session *s, const struct crn_place *from,
                                      uint64_t bytes, int fd, uint64_t at, const char *file,
                                      struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_read(cairn_session *s, const struct crn_place *to,
                                     struct crn_version *v, uint32_t rank, uint32_t region,
                                     uint64_t bytes, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_read_block(cairn_session *s, const struct crn_place *to,
                                           struct crn_version *v, const struct crn_region *want,
                                           struct crn_errinfo *ei);
/* The device that holds most of the protected bytes, if it is more than the host's; else NULL. */
struct crn_device *crn_gpu_main(const cairn_session *s);
/* 1: the caller pins the arena now, nobody has before. */
int crn_gpu_claim_pin(cairn_session *s);
/* The streams that the application named, by device; NULL: it named none. */
void *const *crn_gpu_streams(const cairn_session *s);
/* CAIRN_EBUSY if a named stream is being captured: nothing can be ordered behind it now. */
CAIRN_CHECKED cairn_err crn_gpu_check(cairn_session *s, struct crn_errinfo *ei);
void crn_gpu_close(cairn_session *s); /* before the arena is unmapped */

#endif
