/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies chunks past the caches, and computes their checksums meanwhile. The copy is bound by
 * memory, so checksums of data that is in registers anyway cost next to nothing. Computing them
 * later would read every byte again. A checksum takes its bytes in sequence, so several chunks are
 * copied side by side. */
#ifndef CRN_CAPTURE_HASHED_H
#define CRN_CAPTURE_HASHED_H

#include <stdint.h>

#define CRN_HASHED_COPIES 4 /* chunks copied in parallel */

struct crn_hashed_copy {
    void *dst;
    const void *src;
    uint64_t bytes;
    uint64_t *hash; /* crn_hash of the bytes stored at dst, even if src changes meanwhile */
};

/* From the widest vectors to none. Only the last computes checksums in a second pass. */
enum crn_hashed_way { CRN_HASHED_AVX512, CRN_HASHED_AVX2, CRN_HASHED_PLAIN, CRN_HASHED_WAYS };

int crn_hashed_has(enum crn_hashed_way way); /* on this CPU and XXH3 build */
enum crn_hashed_way crn_hashed_way(void);    /* the fastest of those */
/* Makes n copies, at most CRN_HASHED_COPIES. Fast if all have the same length and dst is aligned to cache
 * lines. Visible to other threads and processes as after crn_stream_copy. */
void crn_hashed_copy_by(enum crn_hashed_way way, const struct crn_hashed_copy *copies, int n);

#endif
