/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions in GPU memory. The session recognises a pointer by asking the driver that the application
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

/* device_cache = auto (gpu_share.c): tells the ranks of the node that this one uses the device, and
 * how much of its memory this rank may take. CAIRN_ENOMEM: too little for one checkpoint. */
void crn_gpu_mark(const cairn_session *s, struct crn_device *dev);
CAIRN_CHECKED cairn_err crn_gpu_share(const cairn_session *s, struct crn_device *dev,
                                      uint64_t *ret_bytes, struct crn_errinfo *ei);

struct crn_gpu; /* opaque; exists once a session has seen device memory */

/* The device that owns ptr; NULL for host memory. */
CAIRN_CHECKED cairn_err crn_gpu_owner(cairn_session *s, const void *ptr, struct crn_device **ret,
                                      struct crn_errinfo *ei);
/* Start a copy of device memory into the arena, or out of it, ordered after the application's
 * kernels and copies (crn_driver_ops.after). crn_gpu_wait waits for all copies started so far; call
 * it also after an error. */
CAIRN_CHECKED cairn_err crn_gpu_capture(cairn_session *s, const struct crn_place *from, void *to,
                                        uint64_t bytes, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_restore(cairn_session *s, const struct crn_place *to,
                                        const void *from, uint64_t bytes, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_wait(cairn_session *s, struct crn_errinfo *ei);
/* Orders the coming capture of these places after the named streams, as they are now. Does nothing
 * for devices without a named stream. */
CAIRN_CHECKED cairn_err crn_gpu_order(cairn_session *s, const struct crn_place *places, uint32_t n,
                                      struct crn_errinfo *ei);
/* CAIRN_ESTATE if one of these places is on a device without a named stream. */
CAIRN_CHECKED cairn_err crn_gpu_need_streams(const cairn_session *s, const struct crn_place *places,
                                             uint32_t n, struct crn_errinfo *ei);
/* Makes the named streams wait for the captures started so far. */
CAIRN_CHECKED cairn_err crn_gpu_release(cairn_session *s, struct crn_errinfo *ei);
/* Copy device memory to a file, and bytes of a version to device memory, block by block. Both
 * wait. */
CAIRN_CHECKED cairn_err crn_gpu_write(cairn_session *s, const struct crn_place *from,
                                      uint64_t bytes, int fd, uint64_t at, const char *file,
                                      struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_read(cairn_session *s, const struct crn_place *to,
                                     struct crn_version *v, uint32_t rank, uint32_t region,
                                     uint64_t bytes, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_gpu_read_block(cairn_session *s, const struct crn_place *to,
                                           struct crn_version *v, const struct crn_region *want,
                                           struct crn_errinfo *ei);
/* The device with most of the protected bytes, if it has more of them than the host; else NULL. */
struct crn_device *crn_gpu_main(const cairn_session *s);
/* Returns 1 to the first caller only: that caller pins the arena. */
int crn_gpu_claim_pin(cairn_session *s);
/* The streams that the application named, indexed by device; NULL if it named none. */
void *const *crn_gpu_streams(const cairn_session *s);
/* CAIRN_EBUSY while a named stream is being captured into a graph: no copy can be ordered after it
 * then. */
CAIRN_CHECKED cairn_err crn_gpu_check(cairn_session *s, struct crn_errinfo *ei);
void crn_gpu_close(cairn_session *s); /* before the arena is unmapped */

#endif
