/* SPDX-License-Identifier: BSD-3-Clause */
/* Scrubbing of committed versions: every chunk is read and compared with its checksum. A data file that is
 * damaged is made again from what of it is good and from the copies of its capture in the local directory of
 * this host, verified as a whole, and then takes the place of the damaged one. */
#ifndef CRN_SERVICE_SCRUB_H
#define CRN_SERVICE_SCRUB_H

#include "base/config.h"
#include "store/store.h"

enum crn_scrub_what { CRN_SCRUB_REPAIRED, CRN_SCRUB_DAMAGED };

/* A data file that is not whole. text: what was found and, if it stays so, why. */
typedef void (*crn_scrub_fn)(void *arg, enum crn_scrub_what what, const char *file,
                             const char *text);

struct crn_scrub {
    const struct crn_store *st; /* its file table sets the pace */
    const struct crn_config *cfg;
    int is_dry; /* report only */
    crn_scrub_fn fn;
    void *arg;
};

/* Writes what it finds to the journal of the name. CAIRN_EDAMAGED if damage stays. A version that is
 * removed or replaced meanwhile is not damaged; CAIRN_ENOENT if it is gone. */
CAIRN_CHECKED cairn_err crn_scrub_version(const struct crn_scrub *s, const char *name,
                                          int64_t version, struct crn_errinfo *ei);

#endif
