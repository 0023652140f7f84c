/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies chunks past the caches and takes their checksums on the way. The copy waits for memory, so the
 * sums of what is in registers anyway cost next to nothing; taken later they would read every byte again.
 * A checksum takes its bytes one after another, but several chunks go side by side. */
#ifndef CRN_CAPTURE_HASHED_H
#define CRN_CAPTURE_HASHED_H

#include <stdint.h>

#define CRN_LANES 4 /* chunks side by side */

struct crn_lane {
    void *dst;
    const void *src;
    uint64_t bytes;
    uint64_t *hash; /* crn_hash of what dst has become, also where others change src meanwhile */
};

/* From the widest vectors to none at all: only the last takes time for the sums. */
enum crn_hashed_way { CRN_HASHED_AVX512, CRN_HASHED_AVX2, CRN_HASHED_PLAIN, CRN_HASHED_WAYS };

int crn_hashed_has(enum crn_hashed_way way); /* this processor, with this build of the library */
enum crn_hashed_way crn_hashed_way(void);    /* the best that it has */
/* n of them, at most CRN_LANES; fast if they have the same length and dst lies on lines of the caches.
 * Complete for other threads and processes as crn_stream_copy. */
void crn_hashed_copy_by(enum crn_hashed_way way, const struct crn_lane *lanes, int n);

#endif
