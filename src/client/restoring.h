/* SPDX-License-Identifier: BSD-3-Clause */
/* What a restore fills: the application's regions, and where their bytes come from. */
#ifndef CRN_CLIENT_RESTORING_H
#define CRN_CLIENT_RESTORING_H

#include "client/session.h"

struct crn_restoring {
    const char *name;
    int64_t version;
    struct crn_version *v; /* NULL: not opened */
    struct crn_shard want; /* the regions that the application protects */
    struct crn_place *places;
    const struct crn_shard *have; /* the old rank's; NULL if there is none */
    uint32_t old_rank;
    int64_t *from; /* per wanted region: index in have; -1: redistribute */
    int is_asked;  /* the tiers were asked, so they have consumed its hint */
};

/* Checks the arguments and lists the regions. Close it even if it fails. */
CAIRN_CHECKED cairn_err crn_restoring_open(cairn_session *s, const char *name, int64_t version,
                                           int old_rank, const char *const *regions,
                                           struct crn_restoring *ret, struct crn_errinfo *ei);
void crn_restoring_close(struct crn_restoring *t);
/* Decides where each region comes from: v and have are set. Refuses what does not match before
 * anything is written. */
CAIRN_CHECKED cairn_err crn_restoring_match(const cairn_session *s, struct crn_restoring *t,
                                            int is_named, struct crn_errinfo *ei);
/* Can every region be taken as it is from a shard that this rank captured? */
int crn_restoring_fits(struct crn_restoring *t, const struct crn_shard *have);
/* After its bytes have come from files. */
void crn_restoring_done(cairn_session *s, const struct crn_restoring *t);

#endif
